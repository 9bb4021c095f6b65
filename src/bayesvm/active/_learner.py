"""The loop of active learning: ask for labels where the model is in doubt, learn, ask again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bayesvm.active._record import (
    Event,
    Group,
    Record,
    Refitted,
    Round,
    as_oracle,
    as_pool,
    check_rows,
    described,
    extended,
    fingerprint,
    is_missing,
    known_labels,
    part,
    plain,
    read_record,
    rebuilt,
    refits_incrementally,
    sorted_classes,
    told_pairs,
    write_record,
)
from bayesvm.active._rules import rule_named

IntArray = npt.NDArray[np.int64]


class ActiveLearner:
    """Learns from a pool of rows by asking for few labels.

    Parameters
    ----------
    estimator : classifier or None
        None: ``BayesianSVC(local=False, committee=False, random_state=random_state)``. Our
        classifiers learn from each label by ``partial_fit``; any other is
        fitted anew.
    policy : str
        "variation_ratio", "softmax_entropy", "margin", "entropy", "bald", "batch" or "random".
    batch_size : int
        Rows asked for at a time.
    encoder : transformer or None
        What turns the pool into numbers; fitted to the pool.
    incremental : bool
        False: fit anew after every round, whatever the estimator can do.
    random_state : int
        Decides between equal rows, and which row comes first.

    Attributes
    ----------
    estimator_ : classifier or None
        The model so far; None while fewer than two classes are known.
    labelled_rows_ : ndarray of int
        In the order told.
    labels_ : ndarray
    classes_ : list
        Labels known so far.
    skipped_rows_ : ndarray of int
    history_ : list of Round
    loo_accuracy_ : float or None
        Leave-one-out accuracy on the labelled rows, if the estimator gives it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = ActiveLearner().start(X, labels={0: 0, 50: 1, 100: 2})
    >>> _ = learner.run(y, n_queries=12)
    >>> len(learner.labelled_rows_), bool((learner.estimator_.predict(X) == y).mean() > 0.9)
    (15, True)
    """

    _record: Record
    _state: Refitted
    _pool: Any
    _fingerprint: tuple[Any, str]

    def __init__(
        self,
        estimator: Any = None,
        policy: str = "variation_ratio",
        *,
        batch_size: int = 1,
        encoder: Any = None,
        incremental: bool = True,
        random_state: int = 0,
    ) -> None:
        rule_named(policy)
        if int(batch_size) < 1:
            raise ValueError(f"batch_size={batch_size!r} is not valid; it must be at least 1")
        self.estimator = estimator
        self.policy = policy
        self.batch_size = int(batch_size)
        self.encoder = encoder
        self.incremental = incremental
        self.random_state = int(random_state)

    def start(self, pool: Any, labels: Any = None, classes: Any = None) -> Self:
        """Start with a pool and the labels known so far.

        Parameters
        ----------
        pool : array-like or data frame of n_rows rows
        labels : dict, array-like or None
            Labels by row, or one per row with None or nan where missing.
        classes : array-like or None
            Labels that will occur; others may join later, at the price of a new fit.

        Returns
        -------
        self
        """
        estimator = self.estimator
        if estimator is None:
            from bayesvm import BayesianSVC

            # The local part moves means but not variances, and costs most on large pools.
            estimator = BayesianSVC(local=False, committee=False, random_state=self.random_state)
        self._template = estimator
        self._incrementally = bool(self.incremental) and refits_incrementally(estimator)
        if self.encoder is not None:
            pool = self.encoder.fit_transform(pool)
        self._pool = as_pool(pool)
        given = [] if classes is None else [plain(label) for label in classes]
        first = known_labels(labels, self.n_rows_)
        check_rows(first, self.n_rows_)
        self._record = Record(sorted_classes(given), [Event("start", list(first), list(first.values()))])
        self._restore()
        return self

    @property
    def n_rows_(self) -> int:
        """Rows of the pool."""
        return len(self._pool)

    @property
    def labelled_rows_(self) -> IntArray:
        """Rows with labels, in the order told."""
        return np.array([r for group in self._groups() for r in group.rows], dtype=np.int64)

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """Their labels."""
        return np.array([label for group in self._groups() for label in group.labels])

    @property
    def classes_(self) -> list[Any]:
        """Labels known so far, in order."""
        return self._record.classes()

    @property
    def skipped_rows_(self) -> IntArray:
        """Rows that will not be asked for, in the order skipped."""
        return np.array(self._record.skipped(), dtype=np.int64)

    @property
    def history_(self) -> list[Round]:
        """One entry per round of answers."""
        return self._record.rounds()

    @property
    def estimator_(self) -> Any:
        """The model so far; None while fewer than two classes are known."""
        return self._state.model

    @property
    def loo_accuracy_(self) -> float | None:
        """Leave-one-out accuracy on the labelled rows, if the estimator gives it."""
        score = getattr(self._state.model, "loo_score_", None)
        return None if score is None or not np.isfinite(score) else float(score)

    def query(self, n: int | None = None) -> IntArray:
        """Rows whose labels would tell most, best first; asking again gives the same rows.

        Parameters
        ----------
        n : int or None
            How many; None: ``batch_size``. Fewer come back when the pool runs out.
        """
        n = self.batch_size if n is None else int(n)
        if n < 1:
            raise ValueError(f"n={n!r} is not valid; ask for at least one row")
        self._check_started()
        began = time.perf_counter()
        model = self._state.model
        rule = rule_named("random" if model is None else self.policy)
        # The same whenever the same is known: after undo, and after a kill.
        seed = [self.random_state, len(self.labelled_rows_), len(self._record.skipped())]
        if self._eligible.sum() > 0.5 * self.n_rows_:
            rows = rule.choose(model, self._pool, n, self._eligible, np.random.default_rng(seed))
        else:
            left = np.flatnonzero(self._eligible)
            if not left.size:
                return left
            rows = left[rule.choose(model, part(self._pool, left), n, None, np.random.default_rng(seed))]
        self._choosing = time.perf_counter() - began
        return rows

    def tell(self, rows: Any, labels: Any) -> Self:
        """Learn labels of rows; a row may have been skipped before, or never been asked for.

        Parameters
        ----------
        rows : int or array-like of int
        labels : label or array-like
            One per row.
        """
        self._check_started()
        told, given = told_pairs(rows, labels)
        check_rows(told, self.n_rows_)
        known = [r for r in told if self._labelled[r]]
        if known:
            raise ValueError(f"row {known[0]} has a label already; undo() takes the latest labels back")
        began = time.perf_counter()
        skipped = [r for r in told if not self._eligible[r]]
        self._record.add(Event("tell", told, given, skipped=skipped))
        try:
            groups = self._groups()
            self._state = extended(
                self._template, self._pool, groups, self.classes_, self._state, self._incrementally
            )
        except BaseException:
            self._record.pop()
            self._restore()
            raise
        self._labelled[told] = True
        self._eligible[told] = False
        seconds = self._choosing + time.perf_counter() - began
        self._choosing = 0.0
        self._record.finish(self._state.learned_from, seconds, self.loo_accuracy_)
        return self

    def skip(self, rows: Any) -> Self:
        """Never ask for these rows again."""
        self._check_started()
        skipped = [int(r) for r in np.atleast_1d(rows)]
        check_rows(skipped, self.n_rows_)
        self._record.add(Event("skip", [r for r in skipped if self._eligible[r]], []))
        self._eligible[skipped] = False
        return self

    def undo(self) -> IntArray:
        """Take back the latest ``tell`` or ``skip``.

        Returns
        -------
        ndarray of int
            Its rows; empty if there is nothing to take back.
        """
        self._check_started()
        event = self._record.pop()
        if event is None:
            return np.empty(0, dtype=np.int64)
        self._restore(refit=event.kind == "tell")
        return np.array(event.rows, dtype=np.int64)

    def run(
        self,
        oracle: Any,
        n_queries: int,
        *,
        on_round: Callable[[ActiveLearner], Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Ask for that many labels, one batch after another.

        Parameters
        ----------
        oracle : callable, dict, array-like or path
            A function from row numbers to labels, labels by row, one label
            per row of the pool, or a CSV file with the columns ``row`` and
            ``label``. A label of None or nan skips the row.
        n_queries : int
            Rows to ask for; skipped ones count.
        on_round : callable or None
            Called with the learner after every round; if it returns False, the run ends.
        checkpoint : path or None
            Written after every round. If it exists, the run goes on from there.
        """
        self._check_started()
        ask = as_oracle(oracle, self.n_rows_)
        begun_at = self._record.n_asked()
        if checkpoint is not None and Path(checkpoint).exists():
            begun_at = self._resume(checkpoint)
        while (left := begun_at + n_queries - self._record.n_asked()) > 0:
            rows = self.query(min(left, self.batch_size))
            if not rows.size:
                break
            answers = list(ask(rows))
            if len(answers) != len(rows):
                raise ValueError(f"the oracle gave {len(answers)} labels for {len(rows)} rows")
            unknown = np.array([is_missing(answer) for answer in answers])
            if unknown.any():
                self.skip(rows[unknown])
            if not unknown.all():
                self.tell(rows[~unknown], [a for a, u in zip(answers, unknown, strict=True) if not u])
            if checkpoint is not None:
                self._write(checkpoint, begun_at)
            if on_round is not None and on_round(self) is False:
                break
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write rows, labels, their order, the policy and the seed as JSON; no pool and no model."""
        self._check_started()
        self._write(path, self._record.n_asked())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], pool: Any, estimator: Any = None, *, encoder: Any = None
    ) -> Self:
        """Resume from a saved file; the next query is the one that would have come next.

        Parameters
        ----------
        path : path
        pool, estimator, encoder
            As they were when the file was written. The model is fitted again.
        """
        settings, _, _ = read_record(path)
        learner = cls(estimator, encoder=encoder, **settings)
        learner.start(pool)
        learner._resume(path)
        return learner

    def _write(self, path: str | os.PathLike[str], begun_at: int) -> None:
        settings = {
            "policy": self.policy,
            "batch_size": self.batch_size,
            "incremental": bool(self.incremental),
            "random_state": self.random_state,
        }
        if not hasattr(self, "_fingerprint") or self._fingerprint[0] is not self._pool:
            self._fingerprint = (self._pool, fingerprint(self._pool))
        more = {
            "pool": self._fingerprint[1],
            "estimator": described(self._template),
            "begun_at": begun_at,
        }
        write_record(path, settings, self._record, more)

    def _resume(self, path: str | os.PathLike[str]) -> int:
        """Take over what a file tells; the number of rows asked for when its run began."""
        settings, record, more = read_record(path)
        mine = {name: getattr(self, name) for name in settings}
        if mine != settings:
            raise ValueError(f"{path} was written with {settings}, not {mine}; use another file")
        if more["pool"] != fingerprint(self._pool):
            raise ValueError(f"{path} belongs to another pool; use the pool it was written with")
        if more["estimator"] != (model := described(self._template)):
            raise ValueError(f"{path} was written with {more['estimator']}, not {model}; use that estimator")
        self._record = record
        self._restore()
        return int(more["begun_at"])

    def _groups(self) -> list[Group]:
        return [Group(event.rows, event.labels) for event in self._record.told()]

    def _restore(self, refit: bool = True) -> None:
        """Everything that follows from the record."""
        self._labelled = np.zeros(self.n_rows_, dtype=bool)
        self._labelled[self.labelled_rows_] = True
        self._eligible = ~self._labelled
        self._eligible[self._record.skipped()] = False
        self._choosing = 0.0
        if refit:
            groups = self._groups()
            learned_from = self._record.learned_from()
            self._state = rebuilt(
                self._template, self._pool, groups, self.classes_, learned_from, self._incrementally
            )
            self._record.finish(self._state.learned_from, None, self.loo_accuracy_)

    def _check_started(self) -> None:
        if not hasattr(self, "_record"):
            raise RuntimeError("start(pool) comes first")
