"""The console examples of docs/labelling.md run, in order, on the files its Python makes."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from bayesvm._cli import run
from bayesvm.active._rules import RULES
from bayesvm.tables import read_table
from tests.test_docs import python_blocks

PAGE = (Path(__file__).parents[2] / "docs" / "labelling.md").read_text(encoding="utf-8")


def commands():
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if "POOL" not in command:
                yield command, output


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_blocks(PAGE)[0][1], {})
    programs = [command for command, _ in commands()]
    assert [re.search(r"bayesvm (\w+)", command)[1] for command in programs] == [
        "label",
        "label",
        "fit",
        "predict",
    ]
    for command, expected in commands():
        command = command.replace("--n-queries 38", "--n-queries 8")  # the rest is more of the same
        if "|" in command:
            command = command.replace("bayesvm", f"{shlex.quote(sys.executable)} -m bayesvm", 1)
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            answer = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, env=environment, check=False
            )
            assert answer.returncode == 0, answer.stderr
            assert answer.stdout.startswith(expected.partition("...")[0])
        else:
            assert run(shlex.split(command)[1:]) == 0
    assert read_table("told.csv", target="Sex")["Sex"].notna().sum() == 10
    assert len(read_table("predictions.csv")) == 333


def test_options_and_policies_on_the_page_exist(capsys):
    run(["label", "--help"])
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    fit_and_predict = {"--abstain"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - fit_and_predict <= offered
    rows = re.search(r"^\| `--policy` .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", re.sub(r"\| as .*", "", rows))) == set(RULES)


def test_the_file_on_the_page_is_one(tmp_path):
    from bayesvm.active._label_file import LabelFile, standing

    (text,) = re.findall(r"^```text\n(row,.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "pool.labels.csv"
    path.write_text(text, encoding="utf-8")
    with LabelFile(path, "Sex") as file:
        assert [(entry.row, entry.label) for entry in standing(file.entries)] == [
            (267, "MALE"),
            (179, "MALE"),
        ]
