"""Small fits of several versions of the library, one after the other in turn: least seconds on one thread.

Give source folders by name: ``--sources before=OLD/src after=src``.
"""

from __future__ import annotations

import json

from bayesvm_studies.benchmarks.common import command_line, from_child, write_json

_FITS = """
import json, time, warnings, torch
warnings.simplefilter("ignore")
torch.set_num_threads(1)
from sklearn.datasets import load_digits, load_iris, load_wine
from bayesvm import BayesianSVC
X, y = load_iris(return_X_y=True)
BayesianSVC(random_state=0).fit(X[::5], y[::5])  # what a first use costs anyone
found = {}
for name, load, repeats in (("iris", load_iris, 5), ("wine", load_wine, 5), ("digits", load_digits, 2)):
    X, y = (part[:600] for part in load(return_X_y=True))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        BayesianSVC(random_state=0).fit(X, y)
        times.append(time.perf_counter() - start)
    found[name] = min(times)
print(json.dumps(found))
"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sources", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sources = dict(source.split("=", 1) for source in arguments.sources)
    least: dict[str, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for name, folder in sources.items():
            least_of_run = from_child("-c", _FITS, PYTHONPATH=folder, OMP_NUM_THREADS="1")
            for data, seconds in least_of_run.items():
                known = least.setdefault(name, {})
                known[data] = min(seconds, known.get(data, seconds))
    print(json.dumps(least, indent=1))
    write_json(arguments.json, least, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
