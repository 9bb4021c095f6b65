"""Labelling a pool of rows by hand: the next row to ask about, the model's prediction, saved answers."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from bayesvm.active._label_file import (
    LABEL,
    SKIP,
    UNDO,
    Entry,
    LabelFile,
    is_label_file,
    read_entries,
    standing,
)

if TYPE_CHECKING:
    import pandas

    from bayesvm.active._learner import ActiveLearner


# --- Whether the rows of a pool are still the rows that were labelled.


def row_checks(table: pandas.DataFrame, target: str, rows: Sequence[int]) -> list[str]:
    """A short digest of the values of each row, the target apart.

    Numbers are taken as people write them, so that a column read as whole
    numbers one day and with gaps another gives the same digest.
    """
    from bayesvm.tables._kinds import as_text

    some = table.iloc[list(rows)]
    texts = [as_text(some[name], ()).fillna("").tolist() for name in table.columns if name != target]
    return [
        hashlib.sha256("\x1f".join(values).encode("utf-8", "replace")).hexdigest()[:12]
        for values in zip(*texts, strict=True)
    ]


def with_checks(
    entries: Sequence[Entry], table: pandas.DataFrame, target: str, path: Path, unchanged: bool
) -> list[Entry]:
    """The entries, with digests of the rows as they are now.

    Parameters
    ----------
    entries : sequence of Entry
    table : DataFrame
    target : str
    path : Path
        File of the entries, for messages.
    unchanged : bool
        Whether rows count as the same though their values differ.

    Raises
    ------
    TableError
        If a row is not there, or is another one.
    """
    from bayesvm.tables._exceptions import TableError

    beyond = [entry.row for entry in entries if entry.row >= len(table)]
    if beyond:
        raise TableError(
            f"{str(path)!r} has an answer about row {beyond[0] + 1}, but the pool has {len(table)} rows; "
            "give the pool it belongs to, or another file of labels"
        )
    checks = row_checks(table, target, [entry.row for entry in entries])
    stale = [
        entry.row for entry, check in zip(entries, checks, strict=True) if entry.check not in ("", check)
    ]
    if not stale:
        return list(entries)
    if not unchanged:
        raise TableError(
            f"row {stale[0] + 1} of the pool is not what it was when it was labelled ({str(path)!r}); "
            "give the pool as it was, or rows_unchanged (--rows-unchanged) if only its columns have changed"
        )
    return [replace(entry, check=check) for entry, check in zip(entries, checks, strict=True)]


# --- Labels as a column of a table has them, and back.


# Only where nothing is written there is no label: a class may be called "none".
_NO_LABEL = ("",)


def labels_of(column: pandas.Series) -> dict[int, str]:
    """Row and label where a column is filled; whole numbers without a decimal point."""
    from bayesvm.tables._kinds import as_text, check_plain

    check_plain(column)
    text = as_text(column, _NO_LABEL)
    known = np.flatnonzero(text.notna())
    return dict(zip(known.tolist(), text.iloc[known].tolist(), strict=True))


def as_written(labels: pandas.Series) -> pandas.Series:
    """Labels as whole numbers or truth values if that is what all of them say, else as text."""
    words = labels.dropna()
    if not len(words):
        return labels
    if words.isin(["True", "False"]).all():
        return (labels == "True").astype(object).where(labels.notna(), None)
    if words.str.fullmatch(r"0|-?[1-9]\d{0,14}").all():
        return labels.astype("Float64").astype("Int64")
    return labels


@dataclass(frozen=True)
class Belief:
    """The model's prediction for a row before its label is known.

    Attributes
    ----------
    classes : tuple of str
    probabilities : ndarray of shape (n_classes,)
    """

    classes: tuple[str, ...]
    probabilities: npt.NDArray[np.float64]

    @property
    def best(self) -> str:
        """The most probable class."""
        return self.classes[int(self.probabilities.argmax())]

    def of(self, label: str) -> float:
        """Probability of a class; 0 for one the model does not know yet."""
        return float(self.probabilities[self.classes.index(label)]) if label in self.classes else 0.0


class Labelling:
    """Label a table row by row, the row that teaches most first.

    Every answer is written to ``labels`` at once; the table is never changed.
    Made again with the same arguments it goes on where it was, whatever ended
    it. Rows whose target is filled count as labelled.

    Parameters
    ----------
    table : DataFrame
    target : str
        Column of the labels; it need not be there yet.
    labels : path-like
        File of the answers (:class:`bayesvm.active._label_file.LabelFile`).
    policy : str, default="variation_ratio"
        How rows are chosen (:class:`bayesvm.active.ActiveLearner`).
    classes : sequence of str, default=()
        Classes that will occur; more may come with the answers.
    ignore : sequence of str, default=()
        Columns that the model does not use.
    random_state : int, default=0
        Seed of the model, and of rows chosen at random.
    among : collection of int or None
        Rows that may be asked, from 0; None: all.
    ask_skipped : bool, default=False
        Whether rows that were skipped earlier may be asked again.
    rows_unchanged : bool, default=False
        Whether labels of rows whose values have changed are kept.

    Attributes
    ----------
    classes : list of str
        Known classes: those given, those of the table, those of the answers.
    labels : dict of int to str
        Label of each labelled row.
    counts : Counter
        Labelled rows of each class.
    skipped : set of int
        Rows that were skipped.
    file : LabelFile

    Raises
    ------
    TableError
        If the table cannot be used, or is not the one that was labelled.
    """

    def __init__(
        self,
        table: pandas.DataFrame,
        target: str,
        labels: str | os.PathLike[str],
        *,
        policy: str = "variation_ratio",
        classes: Sequence[str] = (),
        ignore: Sequence[str] = (),
        random_state: int = 0,
        among: Collection[int] | None = None,
        ask_skipped: bool = False,
        rows_unchanged: bool = False,
    ) -> None:
        from bayesvm.active._learner import ActiveLearner
        from bayesvm.tables._columns import named_columns
        from bayesvm.tables._pipeline import as_numbers, table_classifier

        self.table = named_columns(table)
        self.target = target
        self.labels = labels_of(self.table[target]) if target in self.table else {}
        pipeline = table_classifier(target, ignore=ignore, random_state=random_state)
        self._learner: ActiveLearner = ActiveLearner(
            pipeline["model"], policy, batch_size=1, random_state=random_state
        )
        self.file = LabelFile(labels, target)
        try:
            said = [entry for entry in standing(self.file.entries) if entry.row not in self.labels]
            self._entries = with_checks(said, self.table, target, self.file.path, rows_unchanged)
            if self._entries != said:
                for entry in self._entries:
                    self.file.add(entry)
            # The encoders see the whole pool: what is rare among labelled rows is not unknown.
            self._X = as_numbers(pipeline[:-1].fit_transform(self.table))
        except BaseException:
            self.file.close()
            raise
        if ask_skipped:
            self._entries = [entry for entry in self._entries if entry.mark != SKIP]
        # Classes that stay when an answer is taken back, and those that came with answers.
        self._named = list(dict.fromkeys([*classes, *sorted(set(self.labels.values()))]))
        met = [entry.label for entry in self._entries if entry.mark == LABEL]
        self.classes: list[str] = list(dict.fromkeys([*self._named, *met]))
        self.labels |= {e.row: e.label for e in self._entries if e.mark == LABEL}
        self.counts = Counter(self.labels.values())
        self.skipped = {e.row for e in self._entries if e.mark == SKIP}
        self._open = np.full(len(self.table), among is None)  # rows that may be asked
        if among is not None:
            self._open[list(among)] = True
        self._open[[*self.labels, *self.skipped]] = False
        self._again: list[int] = []  # rows whose answer was taken back
        self._told: int | None = None  # answers that the learner can take back; None: it has not begun

    @property
    def n_left(self) -> int:
        """Rows that may still be asked."""
        return int(self._open.sum())

    @property
    def leave_one_out_accuracy(self) -> float | None:
        """Share of labelled rows predicted right by a model without them; None without a model."""
        return self._ready().loo_accuracy_ if len(+self.counts) > 1 else None

    def next_row(self) -> int | None:
        """The row to ask about, from 0; None if none is left."""
        if self._again:
            return self._again[-1]
        if not self.n_left:
            return None
        return int(self._ready().query(1)[0])

    def belief(self, row: int) -> Belief | None:
        """The model's prediction for a row; None while there is no model."""
        estimator = self._ready().estimator_
        if estimator is None:
            return None
        proba = estimator.predict_proba(self._X[[row]])[0]
        return Belief(tuple(map(str, estimator.classes_)), proba)

    def shown(self, row: int, columns: Sequence[str] = ()) -> dict[str, str]:
        """Values of a row as people write them, by column; all but the target unless told."""
        from bayesvm.tables._kinds import as_text

        names = columns or [name for name in self.table.columns if name != self.target]
        some = self.table.iloc[[row]]
        return {name: as_text(some[name], ()).fillna("").iloc[0] for name in names}

    def answer(self, row: int, label: str) -> None:
        """Record a label; it is saved to disk before the model is updated."""
        learner = self._ready()
        self._note(Entry(row, label, LABEL, self._check(row)))
        self.labels[row] = label
        self.counts[label] += 1
        if label not in self.classes:
            self.classes.append(label)
        learner.tell([row], [label])

    def skip(self, row: int) -> None:
        """Skip a row."""
        learner = self._ready()
        self._note(Entry(row, "", SKIP, self._check(row)))
        self.skipped.add(row)
        learner.skip([row])

    def undo(self) -> Entry | None:
        """Take back the last answer, also one of an earlier run; its row is asked again.

        Returns
        -------
        Entry or None
            What was taken back; None if nothing is left.
        """
        if not self._entries:
            return None
        last = self._entries[-1]
        self.file.add(Entry(last.row, "", UNDO, last.check))
        self._entries.pop()
        self.skipped.discard(last.row)
        if last.mark == LABEL:
            self.counts[self.labels.pop(last.row)] -= 1
            if not self.counts[last.label] and last.label not in self._named:
                self.classes.remove(last.label)
        self._open[last.row] = True
        self._again.append(last.row)
        if self._told:
            self._learner.undo()
            self._told -= 1
        else:  # it was there when the learner began
            self._told = None
        return last

    def labelled_table(self) -> pandas.DataFrame:
        """The pool with the target filled as far as it is known."""
        import pandas as pd

        labels = pd.Series(self.labels, dtype=object).reindex(range(len(self.table)))
        column = as_written(labels).set_axis(self.table.index)
        return self.table.assign(**{self.target: column})

    def close(self) -> None:
        """Close the file of labels."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, entry: Entry) -> None:
        if not 0 <= entry.row < len(self.table):
            raise ValueError(f"there is no row {entry.row}: the pool has rows 0 to {len(self.table) - 1}")
        if not self._open[entry.row]:
            raise ValueError(f"row {entry.row} cannot be answered: it has an answer, or is excluded")
        self.file.add(entry)
        self._entries.append(entry)
        self._open[entry.row] = False
        if self._told is not None:
            self._told += 1
        if entry.row in self._again:
            self._again.remove(entry.row)

    def _ready(self) -> ActiveLearner:
        """The learner with all labels known so far."""
        if self._told is None:
            self._learner.start(self._X, self.labels, self.classes)
            barred = ~self._open
            barred[list(self.labels)] = False
            if barred.any():
                self._learner.skip(np.flatnonzero(barred))
            self._told = 0
        return self._learner

    def _check(self, row: int) -> str:
        return row_checks(self.table, self.target, [row])[0]


def default_label_file(pool: str | os.PathLike[str]) -> Path:
    """Where the labels of a pool go: next to it.

    Examples
    --------
    >>> default_label_file("data/animals.csv.gz").name
    'animals.labels.csv'
    """
    path = Path(pool)
    return path.with_name(f"{path.name.split('.')[0] or 'pool'}.labels.csv")


# --- Labels that are in a file already, by row of a pool.


def read_labels(
    path: str | os.PathLike[str], target: str, pool: pandas.DataFrame, rows_unchanged: bool = False
) -> dict[int, str]:
    """Labels from a file: row from 0, and label.

    The file is one that ``bayesvm label`` wrote, a table with a column
    ``row`` (the first row of the pool is 1) and the target, or a table with
    the target and as many rows as the pool, in its order. A column ``row``
    that the pool has too is one of its own.

    Parameters
    ----------
    path : path-like
    target : str
        Name of the column of labels.
    pool : DataFrame
    rows_unchanged : bool
        Whether answers about rows whose values have changed count.

    Raises
    ------
    TableError
        If the file has no such column, or rows the pool does not have or has changed.
    """
    from bayesvm.tables._exceptions import TableError, closest
    from bayesvm.tables._reading import read_table

    n_rows = len(pool)
    table = read_table(path, target=target)
    if is_label_file(path, target):
        said = with_checks(standing(read_entries(path, target)), pool, target, Path(path), rows_unchanged)
        labels = {entry.row: entry.label for entry in said if entry.mark == LABEL}
    elif target not in table:
        raise TableError(f"{str(path)!r} has no column {target!r}{closest(target, table.columns)}")
    elif len(table) == n_rows and ("row" not in table or "row" in pool):
        labels = labels_of(table[target])
    elif "row" in table:
        labels = _by_number(table, target)
    else:
        raise TableError(
            f"{str(path)!r} has {len(table)} rows and the pool {n_rows}; give as many, or a column 'row' "
            "with the number of each in the pool"
        )
    outside = [row for row in labels if not 0 <= row < n_rows]
    if outside:
        raise TableError(f"{str(path)!r} labels row {outside[0] + 1}, but the pool has rows 1 to {n_rows}")
    return labels


def _by_number(table: pandas.DataFrame, target: str) -> dict[int, str]:
    from bayesvm.tables._exceptions import TableError
    from bayesvm.tables._kinds import as_text

    numbers = as_text(table["row"])
    bad = numbers[~numbers.fillna("").str.fullmatch(r"[0-9]+")]
    if len(bad):
        raise TableError(f"the column 'row' holds {bad.iloc[0]!r}; give whole numbers from 1")
    return {int(numbers.iloc[i]) - 1: label for i, label in labels_of(table[target]).items()}
