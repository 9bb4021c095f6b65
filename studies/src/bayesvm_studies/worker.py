"""The process that fits: ``python -m bayesvm_studies.worker`` reads tasks and writes what came of them.

Tasks and answers are lines of JSON. One thread per process: many run side by
side. It ends when its parent does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

# Read by numerical libraries when they are loaded; set by the parent of this process.
_THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    "LOKY_MAX_CPU_COUNT",
)
_WATCH_SECONDS = 0.5
_MOST_WORDS = 500


def main() -> None:
    """Work until there are no more tasks."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what models print must not look like an answer
    warm: set[str] = set()
    for line in sys.stdin:
        _work(json.loads(line), answers, warm)


def _work(task: dict[str, Any], answers: TextIO, warm: set[str]) -> None:
    start = time.perf_counter()
    config = json.dumps(task["config"], sort_keys=True)
    try:
        # An experiment may bring its own way to make a fit.
        module = import_module(task["config"].get("measured_by", "bayesvm_studies.structured.measure"))
        _one_thread()
        if config not in warm:
            warm.add(config)
            try:
                module.warm_up(task["config"])
            except Exception:  # whatever it is, the fit itself will tell
                traceback.print_exc()
        start = time.perf_counter()
        known = module.measure(task, Path(task["folder"]), lambda: _say(answers, {"began": True}))
        known["status"] = "ok"
    except Exception as error:
        traceback.print_exc()
        known = {"status": "error", "error": error_words(error)}
    known["total_s"] = time.perf_counter() - start
    _say(answers, known)


def thread_environment(n: int = 1) -> dict[str, str]:
    """Variables that give the libraries of a process so many threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(n))


def error_words(error: Exception) -> str:
    """What a result says about an error."""
    return f"{type(error).__name__}: {error}"[:_MOST_WORDS]


def _say(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _one_thread() -> None:
    """For libraries that do not ask the environment."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot end its children."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
