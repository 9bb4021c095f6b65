"""The record of a run as plain JSON, from which the run can be resumed."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from bayesvm._files import replacing

# --- Labels as plain values, and where they may come from: a function, a table or a file.


Oracle = Callable[[Any], Any]


def plain(label: Any) -> Any:
    """A label as a value that JSON can hold: str, int, float or bool."""
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"label {label!r} is a {type(label).__name__}; use text, numbers or booleans")
    return value


def is_missing(label: Any) -> bool:
    """Whether a label is None or not a number."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # a missing value of pandas is neither equal nor unequal
        return True


def sorted_classes(labels: Any) -> list[Any]:
    """Distinct labels in order, of one kind."""
    try:
        return sorted(set(labels))
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise TypeError(
            f"labels are of different kinds ({', '.join(kinds)}); make all of them text"
        ) from None


def known_labels(labels: Any, n_rows: int) -> dict[int, Any]:
    """Labels by row, from a mapping or an array with one entry per row of the pool, some missing."""
    if labels is None:
        return {}
    if isinstance(labels, Mapping):
        pairs = list(labels.items())
    else:
        values = _one_per_row(labels, n_rows)
        pairs = list(enumerate(values))
    return {int(row): plain(label) for row, label in pairs if not is_missing(label)}


def _one_per_row(labels: Any, n_rows: int) -> npt.NDArray[Any]:
    # A list of text and nan would become all text.
    values = np.asarray(labels, dtype=None if hasattr(labels, "dtype") else object)
    if values.shape != (n_rows,):
        raise ValueError(
            f"there are labels of shape {values.shape} for {n_rows} rows of the pool; give one per row, "
            "missing ones as None or nan, or a dict from row to label"
        )
    return values


def told_pairs(rows: Any, labels: Any) -> tuple[list[int], list[Any]]:
    """Rows and as many labels, from one of each or several; none may be missing."""
    told = [int(r) for r in np.atleast_1d(rows)]
    single = isinstance(labels, str) or np.ndim(labels) == 0
    given = [labels[()] if isinstance(labels, np.ndarray) else labels] if single else list(labels)
    if len(told) != len(given):
        raise ValueError(f"there are {len(given)} labels for {len(told)} rows")
    if not told:
        raise ValueError("there are no labels to learn; use skip() for rows without one")
    for row, label in zip(told, given, strict=True):
        if is_missing(label):
            raise ValueError(f"the label of row {row} is missing; use skip() for it")
    return told, [plain(label) for label in given]


def as_oracle(source: Any, n_rows: int) -> Oracle:
    """A function from rows to labels, from whatever gives labels.

    Parameters
    ----------
    source : callable, dict, array-like or path
        A function of an array of row numbers; labels by row; one label per
        row of the pool; or a CSV file with the columns ``row`` and ``label``.
        None or nan where a label is not known.
    n_rows : int
    """
    if callable(source):
        return source
    if not isinstance(source, str | os.PathLike | Mapping):
        values = _one_per_row(source, n_rows)
        return lambda rows: [values[int(row)] for row in rows]
    table = known_labels(source, n_rows) if isinstance(source, Mapping) else _read(source)
    return lambda rows: [table.get(int(row)) for row in rows]


def _read(path: str | os.PathLike[str]) -> dict[int, Any]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"row", "label"} <= set(reader.fieldnames or ()):
            raise ValueError(f"{path} must have the columns row and label; it has {reader.fieldnames}")
        pairs = [(line["row"], line["label"]) for line in reader if line["label"] not in (None, "")]
    bad = [row for row, _ in pairs if not str(row).strip().isdecimal()]
    if bad:
        raise ValueError(f"the column row of {path} holds {bad[0]!r}; give whole numbers from 0")
    values = _numbers([label for _, label in pairs])
    return {int(row): value for (row, _), value in zip(pairs, values, strict=True)}


def _numbers(texts: list[str]) -> list[Any]:
    """Texts as integers or decimals if all of them are; a file does not say what its labels were."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    return list(texts)


_FORMAT = 2


class Round(NamedTuple):
    """One round of questions.

    Attributes
    ----------
    rows, labels : list
        What was told.
    n_labelled : int
        Labelled rows after it.
    seconds : float
        Choosing the rows and learning from their labels, without waiting for them.
    loo_accuracy : float or None
        Leave-one-out accuracy after it.
    """

    rows: list[int]
    labels: list[Any]
    n_labelled: int
    seconds: float
    loo_accuracy: float | None


@dataclass
class Event:
    """Labels told, or rows skipped.

    Attributes
    ----------
    kind : str
        "start", "tell" or "skip".
    rows, labels : list
    learned_from : int
        Groups of labels that the model's kernel was learned from, once learned.
    seconds, loo_accuracy : float or None
    skipped : list of int
        Rows told that had been skipped before.
    """

    kind: str
    rows: list[int]
    labels: list[Any]
    learned_from: int = 0
    seconds: float | None = None
    loo_accuracy: float | None = None
    skipped: list[int] = field(default_factory=list)


@dataclass
class Record:
    """All that happened.

    Attributes
    ----------
    given : list
        Classes named at the start.
    events : list of Event
        The first has the labels of the start.
    """

    given: list[Any]
    events: list[Event]

    def add(self, event: Event) -> None:
        """One more event; mixing kinds of labels is refused before anything changes."""
        sorted_classes([*self.classes(), *event.labels])
        self.events.append(event)

    def pop(self) -> Event | None:
        """Take the last event away, if it is not the start."""
        return self.events.pop() if len(self.events) > 1 else None

    def finish(self, learned_from: int, seconds: float | None, loo_accuracy: float | None) -> None:
        """Note what the latest labels did to the model."""
        last = self.told()[-1]
        last.learned_from = learned_from
        last.loo_accuracy = loo_accuracy
        if seconds is not None:
            last.seconds = seconds

    def told(self) -> list[Event]:
        """Events with labels."""
        return [event for event in self.events if event.kind != "skip"]

    def learned_from(self) -> int:
        """Groups of labels that the model's kernel was learned from."""
        return self.told()[-1].learned_from

    def classes(self) -> list[Any]:
        """Labels named or told so far."""
        return sorted_classes([*self.given, *(label for event in self.events for label in event.labels)])

    def skipped(self) -> list[int]:
        """Rows skipped and not told since."""
        told = {row for event in self.told() for row in event.rows}
        return [row for event in self.events if event.kind == "skip" for row in event.rows if row not in told]

    def n_asked(self) -> int:
        """Rows told or skipped since the start."""
        return sum(len(event.rows) for event in self.events[1:])

    def rounds(self) -> list[Round]:
        """One per answer after the start."""
        n_labelled = len(self.events[0].rows)
        out = []
        for event in self.told()[1:]:
            n_labelled += len(event.rows)
            seconds = 0.0 if event.seconds is None else event.seconds
            out.append(Round(event.rows, event.labels, n_labelled, seconds, event.loo_accuracy))
        return out


def write_record(
    path: str | os.PathLike[str], settings: dict[str, Any], record: Record, more: dict[str, Any]
) -> None:
    """Write the file atomically, even if the power fails."""
    content = {
        "format": _FORMAT,
        "settings": settings,
        **more,
        "classes": record.given,
        "events": [asdict(event) for event in record.events],
    }
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=None, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())


def read_record(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Record, dict[str, Any]]:
    """Settings, what happened, and the rest of a file."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            form = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} was not written by ActiveLearner.save") from error
    if form != _FORMAT:
        raise ValueError(f"{path} has format {form}; this version reads {_FORMAT}")
    try:
        record = Record(content["classes"], [Event(**event) for event in content["events"]])
        return (
            content["settings"],
            record,
            {name: content[name] for name in ("pool", "estimator", "begun_at")},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is an incomplete file of an ActiveLearner") from error


# --- The pool: an array or a data frame of rows, few of which have labels.


IntArray = npt.NDArray[np.int64]


def as_pool(pool: Any) -> Any:
    """A data frame as it is, anything else as an array of rows."""
    if hasattr(pool, "iloc"):
        return pool
    if hasattr(pool, "toarray"):
        raise TypeError(f"the pool is a sparse {type(pool).__name__}; give pool.toarray()")
    X = np.asarray(pool)
    if X.ndim < 2 or not len(X):
        raise ValueError(f"the pool has shape {X.shape}; give one row per thing to label")
    return np.ascontiguousarray(X)


def part(pool: Any, rows: IntArray) -> Any:
    """Some rows of a pool."""
    return pool.iloc[rows] if hasattr(pool, "iloc") else pool[rows]


def check_rows(rows: Collection[int], n_rows: int) -> None:
    """Refuse rows that are not in the pool or named twice."""
    for row in rows:
        if not 0 <= row < n_rows:
            raise ValueError(f"row {row} is not in the pool of {n_rows} rows")
    if len(set(rows)) != len(rows):
        raise ValueError(f"rows {list(rows)} name a row twice")


def fingerprint(pool: Any) -> str:
    """A hash of the content of a pool."""
    if hasattr(pool, "iloc"):
        return hashlib.blake2b(pool.to_csv(index=False).encode(), digest_size=16).hexdigest()
    X = np.ascontiguousarray(pool)
    if X.dtype == object:
        return hashlib.blake2b(repr(X.tolist()).encode(), digest_size=16).hexdigest()
    digest = hashlib.blake2b(f"{X.shape}{X.dtype.str}".encode(), digest_size=16)
    digest.update(X.view(np.uint8).reshape(-1).data if X.size else b"")
    return digest.hexdigest()


# --- A model that keeps up with labels as they come, and the same model again from a record of them.

_PLAIN = (bool, int, float, str, type(None))


class Group(NamedTuple):
    """Labels that came together.

    Attributes
    ----------
    rows : list of int
        Positions in the pool.
    labels : list
        Plain values, one per row.
    """

    rows: list[int]
    labels: list[Any]


class Refitted(NamedTuple):
    """A fitted model and where its chain of updates began.

    Attributes
    ----------
    model : classifier or None
        None while fewer than two classes are known.
    learned_from : int
        Number of groups that the last fit from scratch saw, kernel included.
        A fit to these, then one update per later group, gives the same model
        to the bit.
    """

    model: Any
    learned_from: int


def described(estimator: Any) -> str:
    """The kind of an estimator and those of its parameters that are plain values: the same in every process.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> described(KNeighborsClassifier(3, metric=max)).startswith("KNeighborsClassifier(algorithm='auto', ")
    True
    """
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    plain = [f"{name}={value!r}" for name, value in sorted(params.items()) if isinstance(value, _PLAIN)]
    return f"{type(estimator).__name__}({', '.join(plain)})"


def refits_incrementally(estimator: Any) -> bool:
    """Whether an estimator is one of ours with ``partial_fit``, which remembers rows and a kernel."""
    return hasattr(estimator, "partial_fit") and hasattr(type(estimator), "predict_latent")


def extended(
    estimator: Any,
    pool: Any,
    groups: Sequence[Group],
    classes: Sequence[Any],
    before: Refitted,
    incremental: bool,
) -> Refitted:
    """The model after the last of the groups, from the one before it.

    Parameters
    ----------
    estimator : classifier
        Never fitted itself.
    pool : array or data frame
    groups : sequence of Group
        All so far, the new one last.
    classes : sequence
        All labels known by now.
    before : Refitted
        Its model is updated in place where that is possible.
    incremental : bool
    """
    model = before.model
    known = model is not None and len(model.classes_) == len(classes)
    if not (incremental and known and before.learned_from):
        return _from_scratch(estimator, pool, groups, classes, incremental)
    learned_from = model.memory_.learned_from
    X, y = _rows_and_labels(pool, groups[-1:])
    model.partial_fit(X, y)
    # The kernel is learned anew from all rows when they have grown enough.
    anew = model.memory_.learned_from != learned_from
    return Refitted(model, len(groups) if anew else before.learned_from)


def rebuilt(
    estimator: Any,
    pool: Any,
    groups: Sequence[Group],
    classes: Sequence[Any],
    learned_from: int,
    incremental: bool,
) -> Refitted:
    """The model after all groups, as a chain of updates that began with ``learned_from`` of them had it."""
    first = learned_from if incremental and learned_from else len(groups)
    state = _from_scratch(estimator, pool, groups[:first], classes, incremental)
    for n in range(first + 1, len(groups) + 1):
        state = extended(estimator, pool, groups[:n], classes, state, incremental)
    return state


def _from_scratch(
    estimator: Any, pool: Any, groups: Sequence[Group], classes: Sequence[Any], incremental: bool
) -> Refitted:
    X, y = _rows_and_labels(pool, groups)
    if not len(y) or len(classes) < 2:
        return Refitted(None, 0)
    model = clone(estimator)
    if incremental:
        model.partial_fit(X, y, classes=np.asarray(classes))
    elif np.unique(y).size < 2:  # most classifiers refuse a single class
        return Refitted(None, 0)
    else:
        model.fit(X, y)
    return Refitted(model, len(groups))


def _rows_and_labels(pool: Any, groups: Sequence[Group]) -> tuple[Any, npt.NDArray[Any]]:
    rows = np.array([row for group in groups for row in group.rows], dtype=np.int64)
    return part(pool, rows), np.array([label for group in groups for label in group.labels])
