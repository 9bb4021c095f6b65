"""The command ``bayesvm``: it parses arguments, calls the library and prints.

Whatever happens in a command becomes one line on standard error and an exit
status. Nothing heavy is imported before a command runs, so that help is
immediate.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

# Exit statuses; docs/command_line.md lists them.
DONE = 0
FAULT = 1
REFUSED = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def main() -> None:
    """Run ``bayesvm`` with the arguments of the process and exit with its status."""
    # torch's threads spin while they wait for each other. If other programs need
    # the cores too, that made a fit of six seconds take a minute; let them sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status of the process."""
    arguments = list(arguments) or ["--help"]
    debug = bool(os.environ.get("BAYESVM_DEBUG"))
    if "--debug" in arguments:  # wherever it stands
        arguments.remove("--debug")
        debug = True
    _escape_unprintable_output()
    try:
        from bayesvm._cli.app import app

        # typer only parses; the work begins after it has returned, because it
        # handles Ctrl-C in its own way.
        task = app(arguments, prog_name="bayesvm", standalone_mode=False)
        status = task() if callable(task) else int(task or DONE)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has closed the pipe; leave nothing for Python to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _print_error("interrupted", debug)
        return INTERRUPTED
    except Exception as error:
        return _report(error, debug)


def _report(error: Exception, debug: bool) -> int:
    """Print one line about an error and return the exit status."""
    if isinstance(error, ModuleNotFoundError) and error.name in ("pandas", "rich", "typer"):
        _print_error(f"the command line needs {error.name}: pip install 'bayesvm[cli]'", debug)
        return REFUSED
    if hasattr(error, "format_message"):  # typer's: wrong arguments
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "bayesvm"
        _print_error(f"{_one_line(error.format_message()).rstrip('.')}. See '{where} --help'.", debug)
        return REFUSED
    if isinstance(error, (ValueError, OSError, ImportError)):
        _print_error(_one_line(_message(error)), debug)
        return REFUSED
    if isinstance(error, MemoryError):
        _print_error("not enough memory; use fewer rows, or fewer inducing points (--inducing)", debug)
        return REFUSED
    _print_error(
        f"internal error ({type(error).__name__}: {_one_line(str(error))}); run it again with "
        "--debug and report the traceback",
        debug,
    )
    return FAULT


def _message(error: Exception) -> str:
    """The message of an error; for errors of the system the reason before the file name."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_error(text: str, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"bayesvm: {text}\n")


def _escape_unprintable_output() -> None:
    """Write characters that the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
