"""What a user waits for first: help, imports, and fits to small data.

Processes are started anew for every repetition and medians are taken;
imports alternate with those they are compared with.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bayesvm_studies.benchmarks.common import command_line, from_child, write_json

BARS = {"help_s": 0.3, "import_ratio": 1.2, "iris_fit_s": 0.3, "wine_fit_s": 0.3}
_FIT = """
import time
from sklearn.datasets import load_digits, load_iris, load_wine
from bayesvm import BayesianSVC
X, y = load_iris(return_X_y=True)
BayesianSVC(random_state=0).fit(X[::5], y[::5])  # what a first use costs anyone
X, y = load_{name}(return_X_y=True)
start = time.perf_counter()
BayesianSVC(random_state=0).fit(X, y)
print(time.perf_counter() - start)
"""


def seconds(*command: str) -> float:
    """Wall-clock seconds of a process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def help_s(repeats: int) -> float:
    return statistics.median(seconds(sys.executable, "-m", "bayesvm", "--help") for _ in range(repeats))


def import_ratio(repeats: int) -> float:
    """Importing the estimator over importing torch and what of scikit-learn any estimator needs."""
    ours = "from bayesvm import BayesianSVC"
    theirs = "import torch, sklearn.base, sklearn.utils.validation"
    pairs = [
        (seconds(sys.executable, "-c", ours), seconds(sys.executable, "-c", theirs)) for _ in range(repeats)
    ]
    return statistics.median(a / b for a, b in pairs)


def fit_s(name: str, repeats: int) -> float:
    """Seconds of a fit in a new process, after a tiny one."""
    return statistics.median(from_child("-c", _FIT.format(name=name)) for _ in range(repeats))


MEASURES: dict[str, Callable[[int], float]] = {
    "help_s": help_s,
    "import_ratio": import_ratio,
    "iris_fit_s": lambda repeats: fit_s("iris", repeats),
    "wine_fit_s": lambda repeats: fit_s("wine", repeats),
    "digits_fit_s": lambda repeats: fit_s("digits", repeats),
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    figures = {name: round(measure(arguments.repeats), 3) for name, measure in MEASURES.items()}
    for name, figure in figures.items():
        print(f"{name:<14}{figure:>8.2f}   aim {BARS.get(name, '-')}")
    write_json(arguments.json, figures, repeats=arguments.repeats, bars=BARS)


if __name__ == "__main__":
    main()
