"""Files are complete or not there."""

import os

import pytest

from bayesvm._files import replacing


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_file_appears_when_all_went_well(tmp_path):
    target = tmp_path / "a.txt"
    with replacing(str(target)) as part:
        part.write_text("new")
        assert part.parent == tmp_path
        assert not target.exists()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def interrupted():
        with replacing(target) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_failure_before_anything_was_written(tmp_path):
    with pytest.raises(ValueError, match="early"), replacing(tmp_path / "a.txt"):
        raise ValueError("early")
    assert names(tmp_path) == []


def test_file_that_was_never_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt"):
        pass


def test_two_writers_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "a.txt"
    with replacing(target) as first, replacing(target) as second:
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"  # the last to finish
    assert names(tmp_path) == ["a.txt"]


def test_links_stay_links(tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    with replacing(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_devices_are_written_to(tmp_path):
    with replacing(os.devnull) as part:
        part.write_text("gone")
    assert not os.path.isfile(os.devnull)


def test_messages_say_what_to_do(tmp_path):
    with pytest.raises(IsADirectoryError, match="folder; give the name of a file"), replacing(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="create it first"), replacing(tmp_path / "no" / "a.txt"):
        pass
