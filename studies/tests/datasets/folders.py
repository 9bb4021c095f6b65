"""Folders of data sets in the layout of PMLB."""

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris


def write_set(folder, name, X, y):
    place = Path(folder) / name
    place.mkdir(parents=True, exist_ok=True)
    names = [f"x{i}" for i in range(X.shape[1])]
    with gzip.open(place / f"{name}.tsv.gz", "wt") as file:
        file.write("\t".join(["target", *names]) + "\n")
        np.savetxt(file, np.column_stack([y, X]), delimiter="\t", fmt="%.10g")


def iris_folder(folder):
    write_set(folder, "iris", *load_iris(return_X_y=True))
    return Path(folder)


def real_poker():
    """The file of real hands, if there is one on this machine."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data" / "pmlb"
    for folder in (os.environ.get("BAYESVM_DATA"), beside):
        for parent in (Path(folder), Path(folder).parent / "pmlb_partial") if folder else ():
            path = parent / "poker" / "poker.tsv.gz"
            if path.is_file():
                return path
    return None
