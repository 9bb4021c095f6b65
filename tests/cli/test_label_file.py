"""The file of answers: nothing said is lost, nothing half-said counts."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bayesvm.active._label_file import Entry, LabelFile, is_label_file, numbered, read_answer, standing

SAID = [
    Entry(3, "ant", "label", "aa"),
    Entry(0, "bee, the 2nd", "label", "bb"),
    Entry(9, "", "skip", "cc"),
    Entry(0, "", "undo", "bb"),
    Entry(0, 'the "cow"', "label", "bb"),
]


def written(path, entries=SAID, target="species"):
    with LabelFile(path, target) as file:
        for entry in entries:
            file.add(entry)
    return path


def test_what_is_written_is_read(tmp_path):
    path = written(tmp_path / "a.csv")
    with LabelFile(path, "species") as file:
        assert file.entries == SAID
        file.add(Entry(7, "ant"))
    with LabelFile(path, "species") as file:
        assert file.entries == [*SAID, Entry(7, "ant")]
    assert is_label_file(path, "species")
    assert not is_label_file(path, "kind")
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.reader(stream))
    assert lines[:3] == [
        ["row", "species", "answer", "check"],
        ["4", "ant", "label", "aa"],
        ["1", "bee, the 2nd", "label", "bb"],
    ]


def test_nothing_is_made_before_the_first_answer(tmp_path):
    LabelFile(tmp_path / "a.csv", "species").close()
    assert list(tmp_path.iterdir()) == []


def test_the_last_word_about_a_row_stands():
    assert standing(SAID) == [SAID[0], SAID[2], SAID[4]]
    assert standing([Entry(1, "a"), Entry(2, "b"), Entry(1, "c")]) == [Entry(2, "b"), Entry(1, "c")]
    assert standing([Entry(1, "a"), Entry(1, mark="undo"), Entry(1, mark="undo")]) == []


@pytest.mark.parametrize("lost", range(1, 12))
def test_a_torn_line_is_removed(tmp_path, lost):
    path = written(tmp_path / "a.csv", [*SAID[:2], Entry(8, "dog")])
    content = path.read_bytes()
    path.write_bytes(content[:-lost])
    last = b"9,dog,label,\n"
    assert content.endswith(last)
    assert lost < len(last)
    written(path, [Entry(5, "cat")])
    with LabelFile(path, "species") as file:
        assert file.entries == [*SAID[:2], Entry(5, "cat")]


@pytest.mark.parametrize("kept", range(24))
def test_a_torn_header_is_begun_again(tmp_path, kept):
    header = b"row,species,answer,check"
    path = tmp_path / "a.csv"
    path.write_bytes(header[:kept])
    written(path, SAID)
    with LabelFile(path, "species") as file:
        assert file.entries == SAID


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"size,species\n1,ant\n", "not a label file written by 'bayesvm label'"),
        (b"something", "not a label file"),
        (b"\xff\xfe\x00\n", "not a label file"),
        (b"row,kind,answer,check\n", "holds labels of 'kind', not of 'species'; give --labels another name"),
        (b"row,species,answer,check\n4,ant,label,\nx,ant,label,\n", "line 3 of .* is not an answer: 'x,ant"),
        (b"row,species,answer,check\n0,ant,label,\n", "line 2"),
        (b"row,species,answer,check\n4,,label,\n", "line 2"),
        (b"row,species,answer,check\n4,ant,skip,\n", "line 2"),
        (b"row,species,answer,check\n4,ant\n", "line 2"),
    ],
)
def test_other_files_are_refused_and_left_alone(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        LabelFile(path, "species")
    assert path.read_bytes() == content
    path.write_bytes(b"")
    LabelFile(path, "species").close()  # nothing holds the file any more


def test_labels_of_two_lines_are_refused(tmp_path):
    with (
        LabelFile(tmp_path / "a.csv", "species") as file,
        pytest.raises(ValueError, match="more than one line"),
    ):
        file.add(Entry(0, "two\nlines"))


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    path = written(tmp_path / "a.csv")
    first = LabelFile(path, "species")
    with pytest.raises(ValueError, match="in use by another 'bayesvm label'"):
        LabelFile(path, "species")
    first.close()
    LabelFile(path, "species").close()


def test_an_answer_survives_the_death_of_its_process(tmp_path):
    path = tmp_path / "a.csv"
    program = (
        "import os, signal\n"
        "from bayesvm.active._label_file import Entry, LabelFile\n"
        f"file = LabelFile({str(path)!r}, 'species')\n"
        "for row in range(5): file.add(Entry(row, 'ant'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=False)
    assert answer.returncode == -signal.SIGKILL
    with LabelFile(path, "species") as file:
        assert [entry.row for entry in file.entries] == list(range(5))


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv")
    before = path.read_bytes()
    real = os.write
    with LabelFile(path, "species") as file:
        monkeypatch.setattr(os, "write", lambda descriptor, line: real(descriptor, line[:4]))
        with pytest.raises(OSError, match="is the disk full"):
            file.add(Entry(11, "ant"))
        monkeypatch.undo()
        assert len(file.entries) == len(SAID)
    assert path.read_bytes() == before


def test_every_answer_is_forced_to_the_disk(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    path = written(tmp_path / "a.csv", SAID[:1])
    monkeypatch.setattr(os, "fsync", lambda d: (synced.append(Path(path).stat().st_size), real(d)))
    with LabelFile(path, "species") as file:
        for entry in SAID[1:]:
            file.add(entry)
            assert synced[-1] == path.stat().st_size
    assert len(synced) == len(SAID) - 1


ANIMALS = ["ant", "bee", "Bee", "s"]


@pytest.mark.parametrize(
    ("text", "classes", "kind", "label"),
    [
        ("ant\n", ["ant", "bee"], "label", "ant"),
        ("  ANT ", ["ant", "bee"], "label", "ant"),
        ("1", ["ant", "bee"], "label", "ant"),
        ("2\n", ["ant", "bee"], "label", "bee"),
        ("3", ["ant", "bee"], "no such number", "3"),
        ("0", ["ant", "bee"], "no such number", "0"),
        ("\n", ["ant", "bee"], "nothing", ""),
        ("   ", [], "nothing", ""),
        ("u", ["ant"], "undo", ""),
        ("Undo", ["ant"], "undo", ""),
        ("s", ["ant"], "skip", ""),
        ("?", ["ant"], "help", ""),
        ("q", ["ant"], "quit", ""),
        ("exit", ["ant"], "quit", ""),
        ("cow", ["ant"], "new", "cow"),
        ("big   cow", ["ant"], "new", "big cow"),
        ("big  cow", ["big  cow"], "label", "big  cow"),
        ("BIG cow", ["big  cow"], "label", "big  cow"),
        # Names win over commands; a colon says that a command is meant.
        ("s", ANIMALS, "label", "s"),
        (":s", ANIMALS, "skip", ""),
        (": skip", ANIMALS, "skip", ""),
        (":x", ANIMALS, "new", ":x"),
        ("bee", ANIMALS, "label", "bee"),
        ("Bee", ANIMALS, "label", "Bee"),
        ("BEE", ANIMALS, "new", "BEE"),
        # Where classes are numbers there are no numbers of classes.
        ("1", ["0", "1", "2"], "label", "1"),
        ("3", ["0", "1", "2"], "new", "3"),
        ("0", [], "new", "0"),
        ("1", ["-1", "+1"], "new", "1"),
        ("²", ["ant"], "new", "²"),
    ],
)
def test_answers(text, classes, kind, label):
    answer = read_answer(text, classes)
    assert (answer.kind, answer.label) == (kind, label)


def test_numbers_are_for_classes_with_names():
    assert numbered(["ant", "bee"])
    assert not numbered(["ant", "7"])
    assert not numbered([])
