"""Leakage: columns that give the answer away.

They are copies of the target, columns whose gaps tell it, and columns from
which alone it can be predicted too well. What one column predicts is judged
on rows that the predictor was not fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayesvm._formatting import listing, percent, plural, quoted
from bayesvm.report._pitfall import IntArray, Pitfall, Severity, listed

if TYPE_CHECKING:
    import pandas


# A column that avoids fewer errors than this in bins is not worth growing trees for.
_WORTH_A_TREE = 0.6


def best_accuracy(column: pandas.Series, y: IntArray) -> float:
    """Accuracy of the better of two simple predictors from one column.

    The most frequent class among rows of the same value or bin; and, for
    numbers and dates of which that already says much, a small decision tree,
    which finds borders between bins.
    """
    codes, binned = codes_of(column)
    accuracy = left_out_accuracy(codes, y)
    if binned and skill(accuracy, np.bincount(y).max() / len(y)) >= _WORTH_A_TREE:
        accuracy = max(accuracy, _tree_accuracy(column, y))
    return accuracy


def codes_of(column: pandas.Series) -> tuple[IntArray, bool]:
    """Values as whole numbers, and whether they are bins of equal count.

    Numbers and dates of many values are binned, with about as many bins as
    there are rows in each. Missing is a value of its own.
    """
    import pandas as pd

    codes, values = pd.factorize(column)
    ordered = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
    n_bins = max(4, int(np.sqrt(len(codes))))
    binned = bool(ordered and len(values) > n_bins)
    if binned:
        rank = _ranks(column)
        edges = np.quantile(rank[rank > 0], np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
        codes = np.where(rank > 0, np.searchsorted(edges, rank), -1)
    return np.asarray(codes, dtype=np.int64), binned


def left_out_accuracy(codes: IntArray, y: IntArray) -> float:
    """Share of rows whose class is the most frequent one among the other rows of their code.

    Rows alone with their code are answered with the most frequent class of
    all; ties count as errors.
    """
    n_classes = int(y.max()) + 1
    key, size = np.unique((codes - codes.min()) * n_classes + y, return_counts=True)
    code, label = key // n_classes, key % n_classes
    # Keys are sorted: the pairs of one code lie beside one another.
    start = np.flatnonzero(np.diff(code, prepend=-1))
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(code)))
    largest = size == np.maximum.reduceat(size, start)[group]
    alone_on_top = np.add.reduceat(largest.astype(np.int64), start)[group] == 1
    runner_up = np.maximum.reduceat(np.where(largest, 0, size), start)[group]
    wins = largest & alone_on_top & (size - 1 > runner_up)
    single = np.add.reduceat(size, start)[group] == 1
    right = np.where(single, label == np.bincount(y).argmax(), wins)
    return float(size[right].sum() / len(y))


def skill(accuracy: float, baseline: float) -> float:
    """Share of the errors of always answering the most frequent class that are avoided."""
    return (accuracy - baseline) / (1.0 - baseline) if baseline < 1.0 else 0.0


def _tree_accuracy(column: pandas.Series, y: IntArray) -> float:
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=16 + 2 * int(y.max()), random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    return float((cross_val_predict(tree, _ranks(column)[:, None], y, cv=folds) == y).mean())


def _ranks(column: pandas.Series) -> npt.NDArray[np.floating]:
    """Ranks from one; zero where a value is missing."""
    return column.rank(method="dense").fillna(0).to_numpy(dtype=np.float64)


# --- What gives the answer away.


ROWS_JUDGED = 5000
# With fewer rows outside the largest class, chance alone makes columns look strong.
FEWEST_OTHERS = 10
# Shares of the baseline's errors that one column avoids.
ALARM, CAUTION, NOTE = 0.99, 0.97, 0.85
SORTED = 0.9
# Rows with a gap (or without) that all but share one class, and by how much rarer its errors must be.
FEWEST_GAPS, TELLING = 20, 0.1


@dataclass(frozen=True)
class _Strong:
    name: str
    accuracy: float
    skill: float


def leak_pitfalls(seen: pandas.DataFrame, y: IntArray) -> Iterator[Pitfall]:
    """Columns from which alone the target can be told.

    Parameters
    ----------
    seen : DataFrame
        The table without its target, as the model sees it.
    y : ndarray of shape (n_rows,)
        Classes as whole numbers from zero.
    """
    if len(seen) > ROWS_JUDGED:
        rows = np.sort(np.random.default_rng(0).choice(len(seen), ROWS_JUDGED, replace=False))
        seen, y = seen.iloc[rows], np.unique(y[rows], return_inverse=True)[1]
    baseline = float(np.bincount(y).max() / len(y))
    if (1.0 - baseline) * len(y) < FEWEST_OTHERS:
        return
    copies: list[str] = []
    gaps: list[tuple[str, float]] = []
    strong: list[_Strong] = []
    for name, column in seen.items():
        if _is_copy(column, y):
            copies.append(str(name))
        elif _gaps_tell(gap := column.isna().to_numpy(), y):
            gaps.append((str(name), skill(left_out_accuracy(gap.astype(np.int64), y), baseline)))
        else:
            accuracy = best_accuracy(column, y)
            if skill(accuracy, baseline) >= NOTE:
                strong.append(_Strong(str(name), accuracy, skill(accuracy, baseline)))
    yield from _copied(copies)
    yield from _gap_leaks(gaps)
    yield from _strong(sorted(strong, key=lambda column: -column.skill), baseline)


def row_order_pitfalls(y: IntArray) -> Iterator[Pitfall]:
    """Whether the class can be told from where in the table a row stands."""
    n = len(y)
    baseline = float(np.bincount(y).max() / n)
    position = np.arange(n) * max(4, int(np.sqrt(n))) // n
    if (1.0 - baseline) * n >= FEWEST_OTHERS and skill(left_out_accuracy(position, y), baseline) >= SORTED:
        yield Pitfall(
            "sorted",
            "note",
            "The table is sorted by the answer",
            "Rows of a class stand together, so any column that counts rows or grows with time would give "
            "the answer away. The figures here do not suffer: rows were held out at random.",
            "Nothing needs to be done, unless such a column is among those the model looks at.",
        )


def _is_copy(column: pandas.Series, y: IntArray) -> bool:
    """Whether each value goes with one class and each class with one value."""
    import pandas as pd

    codes, values = pd.factorize(column)
    n_classes = int(y.max()) + 1
    known = codes >= 0
    if len(values) != n_classes or known.mean() < 0.5:
        return False
    return bool(np.unique(codes[known] * n_classes + y[known]).size == n_classes)


def _gaps_tell(gap: npt.NDArray[np.bool_], y: IntArray) -> bool:
    """Whether rows with a gap, or those without, (nearly) all belong to one class.

    They must do so far more often than rows do in general, lest a table of
    one dominant class be suspected.
    """
    for side in (gap, ~gap):
        n = int(side.sum())
        if n < FEWEST_GAPS or n > len(y) - FEWEST_GAPS:
            return False
        counts = np.bincount(y[side])
        share = float(counts.max() / n)
        usual = float((y == counts.argmax()).mean())
        if 1.0 - share <= TELLING * (1.0 - usual) and share >= 0.98:
            return True
    return False


def _copied(names: list[str]) -> Iterator[Pitfall]:
    if names:
        yield Pitfall(
            "copy",
            "alarm",
            f"{listed(names)} {'is' if len(names) == 1 else 'are'} the answer under another name",
            "Each value goes with exactly one class and each class with exactly one value. The model only "
            "has to read it off, and its figures mean nothing for rows where the answer is not known yet.",
            "Remove it and fit again.",
            tuple(names),
        )


def _gap_leaks(columns: list[tuple[str, float]]) -> Iterator[Pitfall]:
    if columns:
        names = [name for name, _ in columns]
        yield Pitfall(
            "gaps",
            "alarm" if max(skill for _, skill in columns) >= ALARM else "caution",
            f"Whether {listed(names)} {'is' if len(names) == 1 else 'are'} filled in tells the answer",
            "Nearly all rows where the value is missing, or nearly all where it is present, share one class. "
            "That happens when a value is recorded because of the answer, or after it.",
            "Ask how these values come to be filled in. If the answer has a part in it, remove the column.",
            tuple(names),
        )


def _strong(columns: list[_Strong], baseline: float) -> Iterator[Pitfall]:
    limits: list[tuple[Severity, float, float]] = [
        ("alarm", ALARM, np.inf),
        ("caution", CAUTION, ALARM),
        ("note", NOTE, CAUTION),
    ]
    for severity, low, high in limits:
        found = [column for column in columns if low <= column.skill < high]
        if not found:
            continue
        names = [column.name for column in found]
        shares = listing([f"{quoted(column.name)} gets {percent(column.accuracy)} right" for column in found])
        title = {
            "alarm": f"{listed(names)} {'gives' if len(names) == 1 else 'each give'} the answer away",
            "caution": f"{listed(names)} nearly {'gives' if len(names) == 1 else 'give'} the answer away",
            "note": f"{plural(len(names), 'strong column')}: {listed(names)}",
        }
        yield Pitfall(
            "strong" if severity == "note" else "leak",
            severity,
            title[severity],
            f"Knowing nothing but this column, {shares} (always answering the most frequent class: "
            f"{percent(baseline)}). That is {_how_odd(severity)}.",
            "Check that you would know this value at the time a prediction is needed. If it is written down "
            "later, or worked out from the answer, remove the column and fit again.",
            tuple(names),
        )


def _how_odd(severity: Severity) -> str:
    return {
        "alarm": "rarely possible with a column that was known before the answer",
        "caution": "unusual for a column that was known before the answer",
        "note": "possible: some columns really are that good",
    }[severity]
