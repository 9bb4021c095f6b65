"""The command in a process of its own, with pipes or on a terminal."""

import os
import re
import select
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "bayesvm"]
SECONDS = 120


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color", "COLUMNS": "70", **more}


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(),
        **options,
    )


def python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)


class Terminal:
    """A command whose output and errors, and on request its input, are a terminal of ours."""

    def __init__(self, arguments, folder, *, typed=False, **variables):
        pty = pytest.importorskip("pty", reason="terminals of this kind are a matter of POSIX")
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=slave,
            stderr=slave,
            stdin=slave if typed else subprocess.DEVNULL,
            cwd=folder,
            env=environment(**variables),
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def read_until(self, words):
        end = time.monotonic() + SECONDS
        while words is None or words not in self.text:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {words!r} in {self.text!r}"
            try:
                chunk = os.read(self.master, 65536)
            except OSError:  # the process closed its end
                chunk = b""
            if not chunk:
                break
            self.text += chunk.decode("utf-8", errors="replace")

    def type(self, line, expect):
        """Wait for some words, then type a line."""
        self.read_until(expect)
        self.text = ""
        os.write(self.master, line.encode())

    def finish(self):
        self.read_until(None)
        os.close(self.master)
        return self.process.wait(SECONDS)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")
