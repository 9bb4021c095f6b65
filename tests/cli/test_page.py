"""The console examples of docs/command_line.md and docs/labelling.md run, in order."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bayesvm._cli import BROKEN_PIPE, DONE, FAULT, INTERRUPTED, REFUSED, run
from bayesvm.active._label_file import LabelFile, standing
from bayesvm.active._rules import RULES
from bayesvm.tables import read_table
from tests.test_docs import python_blocks

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "command_line.md").read_text(encoding="utf-8")
LABELLING = (DOCS / "labelling.md").read_text(encoding="utf-8")


def examples(page=PAGE):
    """Each command and the lines printed below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if "POOL" not in command:
                yield command, output


def in_a_shell(command):
    with_python = command.replace("bayesvm", f"{shlex.quote(sys.executable)} -m bayesvm", 1)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(
        ["sh", "-c", with_python], capture_output=True, text=True, env=environment, check=False
    )
    return answer.returncode, answer.stdout  # notes may be lost where the reader stops early


def figures(text):
    """Lines with their words and numbers apart; how long it took and what matters are for another day."""
    text = re.sub(r"^What matters\n(?:  .*\n)*", "", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith("  fit took")]
    number = r"\d+(?:\.\d+)?"
    return [(re.sub(rf"{number}|\s+", " ", line).split(), re.findall(number, line)) for line in lines]


def assert_same_figures(output, expected):
    for (words, numbers), (expected_words, expected_numbers) in zip(
        figures(output), figures(expected), strict=True
    ):
        assert words == expected_words
        # Within 0.02 of shares, also those in percent, and of log-losses; whole numbers are counts. How many
        # rows are answered jumps by several when a threshold moves past one that is wrong.
        tolerance = 12.0 if "answers" in words else 2.0 if "%" in words else 0.02
        for found, written in zip(numbers, expected_numbers, strict=True):
            assert float(found) == pytest.approx(float(written), abs=tolerance), (words, output)


def test_the_page_has_examples_of_every_command():
    commands = {command.split()[1] for command, _ in examples()}
    assert commands == {"fit", "predict", "evaluate", "info"}


def test_examples_run(tmp_path, monkeypatch, capsysbinary):
    monkeypatch.chdir(tmp_path)
    for command, expected in examples():
        command, _, file = command.partition(" > ")
        if "|" in command:
            code, output = in_a_shell(command)
        else:
            capsysbinary.readouterr()
            code = run(shlex.split(command)[1:])
            out, err = capsysbinary.readouterr()
            output = (out + err).decode()
        if file:
            assert json.loads(out)
            continue
        refused = expected.startswith("bayesvm: the ")
        assert code == (2 if refused else 0), (command, output)
        if "..." not in expected:
            assert_same_figures(output, expected)
    assert {"penguins.skops", "penguins.html", "told.csv", "species.skops"} <= set(os.listdir())


def test_statuses_are_those_of_the_page():
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == {DONE, FAULT, REFUSED, INTERRUPTED, BROKEN_PIPE}


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "info"])
def test_options_on_the_page_exist(command, capsys):
    run([command, "--help"])
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    used = {
        option
        for line, _ in examples()
        if line.split()[1] == command
        for option in re.findall(r" (--[a-z-]+)", line)
    }
    assert used <= offered


# Slow; the commands of the page are tested in test_label.py.
@pytest.mark.slow
def test_labelling_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_blocks(LABELLING)[0][1], {})
    programs = [re.search(r"bayesvm (\w+)", command)[1] for command, _ in examples(LABELLING)]
    assert programs == ["label", "label", "fit", "predict"]
    for command, expected in examples(LABELLING):
        command = command.replace("--n-queries 38", "--n-queries 8")  # the rest is more of the same
        if "|" in command:
            status, output = in_a_shell(command)
            assert status == 0
            assert output.startswith(expected.partition("...")[0])
        else:
            assert run(shlex.split(command)[1:]) == 0
    assert read_table("told.csv", target="Sex")["Sex"].notna().sum() == 10
    assert len(read_table("predictions.csv")) == 333


def test_options_and_policies_on_the_page_exist(capsys):
    run(["label", "--help"])
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    fit_and_predict = {"--abstain"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", LABELLING)) - fit_and_predict <= offered
    rows = re.search(r"^\| `--policy` .*\n((?:\|.*\n)+)", LABELLING, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", re.sub(r"\| as .*", "", rows))) == set(RULES)


def test_the_file_on_the_page_is_one(tmp_path):
    (text,) = re.findall(r"^```text\n(row,.*?)^```$", LABELLING, re.DOTALL | re.MULTILINE)
    path = tmp_path / "pool.labels.csv"
    path.write_text(text, encoding="utf-8")
    with LabelFile(path, "Sex") as file:
        found = [(entry.row, entry.label) for entry in standing(file.entries)]
    assert found == [(267, "MALE"), (179, "MALE")]
