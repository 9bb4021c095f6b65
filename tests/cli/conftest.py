"""A folder with tables and a fitted model, and a way to run commands in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from bayesvm._cli import run
from bayesvm.tables import write_table
from tests.tables.data import mixed_table


@dataclass
class Answer:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Tables, and the model and report of the first; not to be changed."""
    folder = tmp_path_factory.mktemp("workshop")
    table = mixed_table()
    table.loc[:1, "species"] = None
    write_table(table, folder / "animals.csv")
    write_table(mixed_table(40, seed=1), folder / "new.csv")
    write_table(mixed_table(40, seed=1), folder / "new.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["fit", "animals.csv", "--target", "species", "--quiet"]) == 0
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bayesvm(capsysbinary):
    """Run a command in this process."""

    def command(*arguments):
        capsysbinary.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Answer(status, out.decode(), err.decode())

    return command
