"""From whatever happens in a command to one line and an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from bayesvm._cli.app import app

# --- Exit statuses; docs/command_line.md lists them.


DONE = 0
FAULT = 1
REFUSED = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def run(arguments: Sequence[str]) -> int:
    """Run one command; the answer is the exit status of the process."""
    arguments = list(arguments) or ["--help"]
    debug = bool(os.environ.get("BAYESVM_DEBUG"))
    if "--debug" in arguments:  # wherever it stands
        arguments.remove("--debug")
        debug = True
    _write_what_the_terminal_cannot_show_as_escapes()
    try:
        # Out of typer's hands before the work begins: it has its own ways with Ctrl-C.
        task = app(arguments, prog_name="bayesvm", standalone_mode=False)
        status = task() if callable(task) else int(task or DONE)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has what it wanted; leave nothing for Python to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _say("interrupted", debug)
        return INTERRUPTED
    except Exception as error:
        return _refuse(error, debug)


def _refuse(error: Exception, debug: bool) -> int:
    """One line about the error; faults of ours say how to see more."""
    if hasattr(error, "format_message"):  # typer's: wrong arguments
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "bayesvm"
        _say(f"{_one_line(error.format_message()).rstrip('.')}. See '{where} --help'.", debug)
        return REFUSED
    if isinstance(error, (ValueError, OSError, ImportError)):
        _say(_one_line(_spoken(error)), debug)
        return REFUSED
    if isinstance(error, MemoryError):
        _say("not enough memory; use fewer rows, or fewer inducing points (--inducing)", debug)
        return REFUSED
    _say(
        f"this should not have happened ({type(error).__name__}: {_one_line(str(error))}); run it again with "
        "--debug and report what that says",
        debug,
    )
    return FAULT


def _spoken(error: Exception) -> str:
    """The message of an error; what the system says about a file in the order people say it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _say(text: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"bayesvm: {text}\n")


def _write_what_the_terminal_cannot_show_as_escapes() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
