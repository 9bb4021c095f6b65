"""``bayesvm label`` and a person: what is shown, what may be typed, and ways to leave."""

import io
import os
import re
import signal
import subprocess
import sys

import pandas as pd
import pytest

from bayesvm.tables import write_table

from .processes import COMMAND, SECONDS, Terminal, environment, plain
from .test_label import animals, answers


class Keyboard(io.StringIO):
    """Lines typed at a terminal; some of them press Ctrl-C instead."""

    def isatty(self):
        return True

    def readline(self, *arguments):
        line = super().readline(*arguments)
        if line == "^C\n":
            raise KeyboardInterrupt
        return line


@pytest.fixture
def pool(here):
    table = animals()
    write_table(table.drop(columns="species"), "pool.csv")
    return table


@pytest.fixture
def typed(bayesvm, monkeypatch):
    """Run ``bayesvm label`` as if a person typed these lines."""
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("LINES", "30")

    def command(lines, *arguments, table="pool.csv"):
        monkeypatch.setattr(sys, "stdin", Keyboard("".join(f"{line}\n" for line in lines)))
        return bayesvm("label", table, "--target", "species", *arguments)

    return command


def questions(answer):
    """The screens, each from its heading to the next."""
    return re.split(r"^(?=Row \d+ of)", answer.err, flags=re.MULTILINE)[1:]


def test_a_conversation(typed, pool):
    lines = [
        "ant",
        "YES",
        "bee",
        "n",
        "bee",
        " Bee ",
        "1",
        "7",
        "",
        "?",
        "2",
        "u",
        "s",
        "ANT",
        "ent",
        "",
        "q",
    ]
    answer = typed(lines)
    assert answer.status == 0
    assert "Every answer is saved at once in pool.labels.csv" in answer.err
    found = answers()
    assert [label for _, label in found] == ["ant", "bee", "ant", "", "ant"]
    screens = questions(answer)
    assert [int(re.match(r"Row (\d+) of 60", screen)[1]) - 1 for screen in screens][:3] == [
        row for row, _ in found[:3]
    ]
    assert "0 labelled, 60 left" in screens[0]
    assert re.search(rf"^  size +{pool['size'][found[0][0]]} *$", screens[0], re.MULTILINE)
    assert "'ant' is not a class yet\n" in screens[0]
    # A new name wants a yes, or itself once more.
    assert screens[1].count("'bee' is not a class yet") == 2
    assert screens[1].count("A new class? [y/N]") == 2
    # Then there is a model: shares of all classes, which add up.
    shares = re.findall(r"^  ([12])  (ant|bee) +(\d+) %( +#*)", screens[2], re.MULTILINE)
    assert [(number, label) for number, label, *_ in shares] == [("1", "ant"), ("2", "bee")]
    assert abs(sum(int(share) for _, _, share, _ in shares) - 100) <= 1
    assert all(bar.count("#") == round(int(share) / 5) for _, _, share, bar in shares)
    assert "leave-one-out" in screens[2]
    assert "leave-one-out" not in screens[1]
    assert "There are 2 classes; ? lists them." in screens[3]
    assert "undo the last answer" in screens[3]
    assert "  1  ant (2 rows)\n" in screens[3]
    # Undone, the same row comes again, and is skipped this time.
    asked = [re.match(r"Row (\d+)", screen)[1] for screen in screens]
    assert f"Row {asked[3]} was 'bee'; it is asked again" in screens[4]
    assert asked[5] == asked[3]
    assert found[3] == (int(asked[3]) - 1, "")
    assert "'ent' is not a class yet; did you mean 'ant'?" in screens[-1]
    assert "4 of 60 labelled, 4 of them now" in answer.out
    shown = [line for line in answer.err.splitlines() if line.startswith(("Row", "  "))]
    assert max(map(len, shown)) <= 70


@pytest.mark.parametrize(("last", "status"), [([], 0), (["^C"], 130), (["q"], 0), (["ant", "^C"], 130)])
def test_ways_to_leave(typed, pool, here, last, status):
    answer = typed(["ant", "y", "bee", "y", *last], "--output", "out.csv")
    assert answer.status == status
    assert len(answers()) == 2 + (len(last) == 2)
    assert (here / "out.csv").exists()
    assert "Next" in answer.out
    end = "bayesvm: interrupted; every answer is saved in pool.labels.csv\n"
    assert answer.err.endswith(end) is (status == 130)
    assert "Traceback" not in answer.err


def test_leaving_at_the_question_about_a_new_class(typed, pool):
    answer = typed(["ant"])
    assert answer.status == 0
    assert not os.path.exists("pool.labels.csv")
    assert "labels" not in answer.out.partition("Written")[2]
    answer = typed(["ant", "^C"])
    assert answer.status == 130
    assert "bayesvm label pool.csv --target species\n" in answer.out


def test_next_time_goes_on(typed, pool):
    typed(["ant", "y", "bee", "y"])
    answer = typed(["u", "cow", "y", "q"], "--ignore", "place", "--columns", "place,size")
    (first, second) = answers()
    assert (first[1], second[1]) == ("ant", "cow")
    screens = questions(answer)
    assert "2 labelled, 58 left" in screens[0]
    assert "1 labelled, 59 left" in screens[1]
    assert re.search(r"^  place +\w+ *\n  size +[\d.]+ *\n(?!  weight)", screens[0], re.MULTILINE)
    # The class that was taken back with its only row is gone.
    assert not re.search(r"^  \d  bee", screens[1], re.MULTILINE)
    assert "bayesvm label pool.csv --target species --ignore place --columns place,size\n" in answer.out
    assert "--n-queries 0 --output pool.labelled.csv\n" in answer.out
    assert answer.out.endswith("bayesvm fit pool.labelled.csv --target species --ignore place\n")


def test_declared_classes_are_offered_at_once_and_stay(typed, pool):
    answer = typed(["3", "2", "u", "u", "q"], "--classes", "ant,bee,cow")
    screens = questions(answer)
    assert re.search(r"^  1  ant *\n  2  bee *\n  3  cow *\n", screens[0], re.MULTILINE)
    assert re.search(r"^  1  ant .*\n  2  bee .*\n  3  cow .*\n", screens[-1], re.MULTILINE)
    assert answers() == []


def test_many_classes_and_columns_are_not_all_shown(typed, here):
    table = pd.DataFrame({f"x{i}": range(i, i + 40) for i in range(50)})
    table["text"] = "long " * 500
    table["species"] = [f"kind {i % 12}" if i < 24 else None for i in range(40)]
    write_table(table, "wide.csv")
    answer = typed(["?", "q"], table="wide.csv")
    (screen,) = questions(answer)
    assert len(re.findall(r"^  \d+ +kind \d+ +\d+ % ", screen, re.MULTILINE)) == 9
    assert "and 3 more; ? lists all" in screen
    assert re.search(r"^  \.\.\. +\d+ more columns; --columns chooses", screen, re.MULTILINE)
    assert "  12  kind 9 (2 rows)" in screen  # in the order of their names
    heading, _, _ = screen.partition("species?")
    assert len(heading.splitlines()) < 30
    answer = typed(["q"], "--columns", "text", table="wide.csv")
    (screen,) = questions(answer)
    assert 500 < screen.count("long") * 5 <= 600


def test_a_limit_and_the_end_of_the_pool(typed, pool):
    answer = typed(["1", "2", "3"], "--classes", "ant,bee,cow", "-n", 2)
    assert len(answers()) == 2
    assert len(questions(answer)) == 2
    write_table(pool.head(3)[["size", "place"]], "few.csv")
    answer = typed(["1", "2", "s"], "--classes", "ant,bee", table="few.csv")
    assert "No row is left to ask about." in answer.err
    assert answer.status == 0
    typed(["u", "2"], "--classes", "ant,bee", table="few.csv")  # the last answer can be taken back too
    assert [label for _, label in answers("few.labels.csv")] == ["ant", "bee", "bee"]


ARGUMENTS = ["label", "pool.csv", "--target", "species", "--classes", "ant,bee,cow"]


# Slow; that answers are on disk at once is tested in test_label_file.py.
@pytest.mark.slow
def test_killed_at_a_question_nothing_is_lost(pool, here):
    terminal = Terminal(ARGUMENTS, here, typed=True)
    for line in ("1\n", "2\n", "1\n"):
        terminal.type(line, "species? ")
    terminal.read_until("species? ")
    terminal.process.send_signal(signal.SIGKILL)
    terminal.finish()
    before = answers()
    assert [label for _, label in before] == ["ant", "bee", "ant"]

    terminal = Terminal(ARGUMENTS, here, typed=True)
    terminal.read_until("species? ")
    text = plain(terminal.text)
    assert "3 labelled, 57 left, leave-one-out" in text
    terminal.type("3\n", "species? ")
    terminal.read_until("species? ")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    assert plain(terminal.text).endswith("bayesvm: interrupted; every answer is saved in pool.labels.csv\n")
    assert "Traceback" not in terminal.text
    assert answers()[:3] == before
    assert len(answers()) == 4


def test_a_pipe_of_a_shell(pool, here):
    python = " ".join(COMMAND)
    answer = subprocess.run(
        ["sh", "-c", f"printf 'ant\\nbee\\n' | {python} label pool.csv --target species"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(),
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert [label for _, label in answers()] == ["ant", "bee"]
    assert "\x1b" not in answer.stdout + answer.stderr
