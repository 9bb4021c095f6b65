"""The command line: it parses, calls and prints; everything it does can be called from Python.

Nothing heavy is imported before a command runs, so that help comes at once.
"""

from __future__ import annotations

import os
import sys

from bayesvm._cli.guard import INTERRUPTED, REFUSED

__all__ = ["main"]


def main() -> None:
    """Run ``bayesvm`` with the arguments of the process and exit with its status."""
    # torch's threads spin while they wait for each other. If other programs need
    # the cores too, that made a fit of six seconds take a minute; let them sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from bayesvm._cli.guard import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # while importing; run has its own way with the others
        sys.stderr.write("bayesvm: interrupted\n")
        status = INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.stderr.write(f"bayesvm: the command line needs {error.name}: pip install 'bayesvm[cli]'\n")
        sys.exit(REFUSED)
    sys.exit(status)
