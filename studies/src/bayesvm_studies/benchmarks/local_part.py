"""What the local part gains on rows that are copies of training rows, and on rows that are not (section 10).

Log-loss with and without it on a quarter of each set, split 100; a copy has the values of a training row in
every column. docs/defaults.md says what was concluded.
"""

from __future__ import annotations

import warnings

import numpy as np

from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks.common import Record, command_line, folder_of_sets, write_json
from bayesvm_studies.benchmarks.comparison import Split, load_split

SETS = (
    "tae",
    "auto",
    "vowel",
    "yeast",
    "movement_libras",
    "segmentation",
    "wine_quality_red",
    "wine_quality_white",
    "krkopt",
)
SPLIT = 100


def copies(split: Split) -> np.ndarray:
    """Which test rows have the values of a training row."""
    known = {row.tobytes() for row in np.ascontiguousarray(split.X)}
    return np.array([row.tobytes() in known for row in np.ascontiguousarray(split.X_test)])


def losses(split: Split, local: bool) -> tuple[np.ndarray, bool]:
    """Log-loss of every test row, and whether there is a local part."""
    model = BayesianSVC(random_state=0, local=local).fit(split.X, split.y)
    proba = model.predict_proba(split.X_test)
    own = proba[np.arange(len(proba)), np.searchsorted(model.classes_, split.y_test)]
    return -np.log(np.maximum(own, np.finfo(float).tiny)), model.local_part_ is not None


def measure(split: Split) -> Record:
    """Means over copies and over other rows, with and without the local part."""
    same = copies(split)
    (with_it, used), (without, _) = losses(split, True), losses(split, False)
    found: Record = {"used": used, "copies": round(float(same.mean()), 3)}
    for name, rows in (("copies", same), ("others", ~same)):
        if rows.any():
            found[f"with_{name}"] = round(float(with_it[rows].mean()), 4)
            found[f"without_{name}"] = round(float(without[rows].mean()), 4)
    return found


def main() -> None:
    arguments = command_line(__doc__, data="folder of PMLB sets (else BAYESVM_DATA)").parse_args()
    warnings.simplefilter("ignore")
    folder = folder_of_sets(arguments.data)
    found: Record = {}
    for name in SETS:
        found[name] = measure(load_split(folder, name, SPLIT))
        print(name, found[name], flush=True)
    write_json(arguments.json, found, split=SPLIT)


if __name__ == "__main__":
    main()
