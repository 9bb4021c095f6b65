"""Base of all estimators: fitting, probabilities, latents, uncertainty, abstention."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesvm import _prediction, _top_k
from bayesvm._callbacks import CallbackSupportMixin, with_callbacks
from bayesvm._compile import compile_model
from bayesvm._compiled import CompiledPredictor
from bayesvm._compiled.columns import ColumnEncoder
from bayesvm._fit.columns import Encoded, rows_to_predict, takes_categories
from bayesvm._fit.fitting import can_add_rows, fit_estimator, levels_to_caller, partial_fit_estimator
from bayesvm._fit.folds import Folds, few_rows_per_parameter
from bayesvm._fit.options import check_arguments, check_number
from bayesvm._fit.partial_fit import Memory
from bayesvm._fit.train import Options
from bayesvm._fit.validation import check_at_hand, drawn_seed
from bayesvm._judgement import (
    Gain,
    LeftOut,
    NothingLearnedWarning,
    TooFewRowsWarning,
    prediction_sets,
    promised_threshold,
    too_few_rows,
)
from bayesvm._model import FittedKernel, LoadedModel, Model, relevance, torch_dtype
from bayesvm._prediction import Uncertainty
from bayesvm._top_k import TopK
from bayesvm.metrics import log_probability

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]


class LatentClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose fitted ``model_`` gives latents per class.

    Subclasses say in ``_options`` what is fitted and how.
    """

    device: str
    dtype: str
    model_: Model
    classes_: npt.NDArray[Any]
    loo_confidence_: FloatArray
    loo_correct_: FloatArray
    loo_label_proba_: FloatArray
    loo_weight_: FloatArray
    loo_unit_: FloatArray
    memory_: Memory
    chains_: Any
    random_state: Any
    # The parameters of the last fit; ``set_params`` may have changed them since.
    _fitted_params: dict[str, Any] | None = None
    # Models fitted without a tenth of the rows each: a cache, filled on first use.
    _folds: Folds | None = None
    # From the user's columns to numbers, where these have categories or gaps.
    _columns: ColumnEncoder | None = None
    loo_gain_: tuple[float, ...]

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or rows in chunks
            Also a numpy memmap; a pyarrow Table, Dataset or RecordBatchReader, or
            the path of a Parquet file or folder; an iterable of batches ``(X, y)`` or
            ``(X, y, weight)``, an iterator of them, or a function that makes
            one. More than 100 000 rows are read chunk by chunk, in bounded
            memory (docs/streaming.md).
        y : array-like of shape (n_rows,), str or None
            Class labels of any sortable type; the name of their column in a data
            frame (pandas, polars) or in Arrow data; None with batches.
        sample_weight : array-like of shape (n_rows,), str or None
            How much a row matters: the posterior is that of the row given so
            many times, and weight zero leaves it out. Or the name of a column, likewise.
            Leave-one-out leaves out a row with all its weight. Of equal rows it leaves
            out one, unless they are copies beyond chance: then all, with a
            :class:`bayesvm.RepeatedRowsWarning`.
        groups : array-like of shape (n_rows,) or None
            Labels of what rows belong to, such as patients, where new rows will
            come from others: leave-one-out, and so the calibration, then leaves out
            all rows of a group at once, and copies of a row only within its
            group. The kernel is learned as without groups. With ``np.arange(n_rows)`` every row, copy
            or not, is left out alone. For at most 100 000 rows in memory; within scikit-learn's
            pipelines and searches, ``set_fit_request(groups=True)`` requests them.

        Returns
        -------
        self

        Warns
        -----
        NothingLearnedWarning
            If leave-one-out finds the class probabilities no better than the
            class frequencies (eq. 6.20).
        """
        fit_estimator(self, X, y, sample_weight, groups)
        self._warn_if_nothing_learned()
        return self

    def _warn_if_nothing_learned(self) -> None:
        gain = Gain(*self.loo_gain_)
        if math.isfinite(gain.value) and not gain.is_certain:
            message = gain.doubt("leave-one-out of the training rows")
            warnings.warn(message, NothingLearnedWarning, stacklevel=levels_to_caller())

    def _check(self) -> None:
        """Raise ValueError for invalid arguments."""
        check_arguments(self)

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        """Every "auto" resolved for that many distinct rows and classes."""
        raise NotImplementedError

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of each row: the argmax of ``predict_proba``."""
        model, X = self._ready(X)
        return self.classes_[_top_k.most_probable(model, X)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, shape (n_rows, n_classes); rows sum to one.

        E[softmax(T f)], where the means of f are mixed over the
        classes first (``mixing_``), of a committee the mixture of its members'
        (eq. 11.2), or the expectation under the likelihood itself where that
        is a distribution over classes.
        """
        model, X = self._ready(X)
        return _prediction.proba(model, X)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the class probabilities, finite even where those vanish."""
        return log_probability(self.predict_proba(X))

    def predict_top_k(self, X: Any, k: int = 5, max_left_out: float = 1e-3) -> TopK:
        """The most probable classes of each row, and a bound on what all others have.

        With thousands of classes most have next to no probability, and most
        of the work of ``predict_proba`` goes into finding that out. Here the
        latent means of all classes are computed, the variances only of
        those that matter (of a committee all of them). Probabilities and ``predict_proba`` differ by at
        most ``left_out``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        k : int
            How many classes; all, if there are fewer.
        max_left_out : float
            More classes are computed, if need be all, until the others
            together have at most this probability.

        Returns
        -------
        TopK
            ``classes`` and ``probabilities`` of shape (n_rows, k), the most
            probable first, and ``left_out`` of shape (n_rows,).
        """
        model, X = self._ready(X)
        check_number("k", k, numbers.Integral, 1, False)
        check_number("max_left_out", max_left_out, numbers.Real, 0, False)
        best = _top_k.top_k(model, X, min(int(k), len(self.classes_)), float(max_left_out))
        return TopK(self.classes_[best.best], best.proba, best.left_out)

    def decision_function(self, X: Any) -> FloatArray:
        """Log-probabilities, or with two classes the log-odds of the second.

        Shares the argmax (the sign, with two classes) with ``predict``.
        """
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each class's latent function.

        With two classes only their difference is modelled; it is dealt
        evenly to the two. Of a committee those of the hinge, even where its
        weight is zero; ``predict`` and ``variation_ratio`` use all members.

        Returns
        -------
        mean, std : ndarray of shape (n_rows, n_classes)
        """
        model, X = self._ready(X)
        mean, std = _prediction.map_rows(model, X, lambda at: (at[0].F, at[0].s2.sqrt()), 1, [0])
        return mean, std

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draws of the latent functions at X, joint over rows, shape (n_samples, n_rows, n_classes).

        Of a committee those of the hinge, even where its weight is zero.
        """
        model, X = self._ready(X)
        return _prediction.sample_latents(model, X, n_samples, self._generator(n_samples, random_state))

    def sample_proba(self, X: Any, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draws of the class probabilities, shape (n_samples, n_rows, n_classes).

        Softmax(T f) at draws of the latents, mixed as for
        ``predict_proba``, or the probabilities of the model's own likelihood.
        Of a committee a member is drawn first, one for all rows of a draw.
        Their mean over draws tends to ``predict_proba``.
        """
        model, X = self._ready(X)
        return _prediction.sample_probabilities(model, X, n_samples, self._generator(n_samples, random_state))

    def variation_ratio(self, X: Any, n_samples: int | None = None, random_state: Any = None) -> FloatArray:
        """How often the posterior disagrees with its own majority about the largest latent.

        Of a committee a draw is a member, by its weight, and then its
        functions (eq. 11.5).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int or None
            None: exactly, by quadrature, or over all draws of a sampled
            posterior. A number: from that many draws, as in the paper, one
            minus the share of the most frequent class.
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_rows,)
            Between 0 (certain) and 1 - 1/n_classes.
        """
        model, X = self._ready(X)
        if n_samples is None:
            return _prediction.variation_ratio(model, X)
        return _prediction.sampled_variation_ratio(
            model, X, n_samples, self._generator(n_samples, random_state)
        )

    def log_variation_ratio(self, X: Any) -> FloatArray:
        """Logarithm of the variation ratio, ordered even where the ratio underflows."""
        model, X = self._ready(X)
        return _prediction.log_variation_ratio(model, X)

    def uncertainty(self, X: Any) -> Uncertainty:
        """Predictive entropy in nats: total, and its aleatoric and epistemic parts."""
        model, X = self._ready(X)
        return _prediction.uncertainty(model, X)

    def abstain(
        self,
        X: Any,
        max_error: float = 0.05,
        confidence: float = 0.9,
        calibration: tuple[Any, Any] | str | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Which rows to hand to a person so that the rest keep an error rate.

        With ``calibration`` the promise is exact: with probability
        ``confidence`` over the draw of those rows, at most ``max_error`` of
        the answers to new rows are wrong (eq. 6.16). Without it the training
        rows, left out, take their place, and the promise is approximate
        (docs/guarantees.md): where they are few beside the parameters of the
        kernel, the first call fits ten models anew, each without a tenth of
        the rows; elsewhere leave-one-out is used.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        max_error : float
            Error rate to keep among the answered rows.
        confidence : float
            Probability with which the rate is kept.
        calibration : tuple (X, y), "folds", "leave-one-out" or None
            Rows that had no part in the fit, drawn like those to come, and
            their labels; or how training rows are left out (:meth:`left_out`;
            None: "auto"). Confidence .9 takes at least 22 rows, these or
            training rows, for a rate of .1, 45 for .05 and 230 for .01; with
            too few nothing is answered, and a
            :class:`bayesvm.TooFewRowsWarning` says what they can promise.

        Returns
        -------
        ndarray of shape (n_rows,)
            True where a person should decide.
        """
        model, X = self._ready(X)
        threshold = self.abstention_threshold(max_error, confidence, calibration)
        return np.asarray(_top_k.largest_probability(model, X) < threshold)

    def abstention_threshold(
        self,
        max_error: float = 0.05,
        confidence: float = 0.9,
        calibration: tuple[Any, Any] | str | None = None,
    ) -> float:
        """Largest class probability below which ``abstain`` hands a row over; infinity: all rows.

        Parameters are those of :meth:`abstain`.
        """
        check_is_fitted(self)
        _check_inside("max_error", max_error)
        _check_inside("confidence", confidence)
        if calibration is None or isinstance(calibration, str):
            rows = placing = self.left_out(calibration or "auto")
        else:
            model, X, label = self._held_out(calibration)
            rows, placing = LeftOut.of(_prediction.proba(model, X), label), self.left_out("leave-one-out")
        problem = too_few_rows(rows.n_rows, max_error, confidence)
        if problem:
            _warn_of_few(problem)
            return math.inf
        return promised_threshold(placing, rows, max_error, confidence)

    def predict_set(
        self, X: Any, coverage: float = 0.9, calibration: tuple[Any, Any] | str | None = None
    ) -> npt.NDArray[np.bool_]:
        """Sets of classes that hold the label of a new row with a given probability.

        With ``calibration`` that is exact (split conformal prediction, eqs.
        6.17 and 6.18): over draws of those rows and of a new one, the set
        holds the new label with at least the probability ``coverage``, however
        wrong the model is. That is an average over rows, not a promise for
        each class or region. Without ``calibration`` the training rows, left
        out as in :meth:`abstain`, take their place, and the coverage is
        approximate: with ten models (CV+) at least 1 - 2 (1 - coverage), up
        to a term that vanishes with more rows, and about ``coverage`` in practice.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        coverage : float
            Share of the new rows whose label is to be in its set.
        calibration : tuple (X, y), "folds", "leave-one-out" or None
            As in :meth:`abstain`. Fewer than coverage / (1 - coverage) rows, 9 for .9,
            say nothing: the sets then hold all classes, with a
            :class:`bayesvm.TooFewRowsWarning`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Whether the set holds each class of ``classes_``. The most probable
            class always is in it.
        """
        model, X = self._ready(X)
        _check_inside("coverage", coverage)
        proba = _prediction.proba(model, X)
        by_fold: Iterable[FloatArray] = [proba]
        if calibration is None or isinstance(calibration, str):
            rows = self.left_out(calibration or "auto")
        else:
            held_model, held, label = self._held_out(calibration)
            rows = LeftOut.of(_prediction.proba(held_model, held), label)
        fold = np.zeros(len(rows.weight), dtype=np.int64)
        if self._folds is not None and rows is self._folds.rows:
            fold, by_fold = self._folds.fold, self._folds.predictions(X)
        needed, n = math.ceil(coverage / (1.0 - coverage) - 1e-9), float(rows.weight.sum())
        if n < needed:
            _warn_of_few(
                f"coverage={coverage:g} takes at least {needed} rows to judge by, "
                f"so sets hold all classes; the largest that {n:g} can promise is {n / (n + 1.0):.3g}"
            )
        return prediction_sets(proba, coverage, rows, fold, by_fold)

    def left_out(self, method: str = "auto") -> LeftOut:
        """Predictions of the training rows by models that have not learned from them.

        An estimate of how this model predicts new rows; promises without
        calibration rows rest on it.

        Parameters
        ----------
        method : {"auto", "leave-one-out", "folds"}
            "leave-one-out": in closed form, with the kernel as it is. "folds":
            from ten models that learn everything anew, each without a tenth of
            the rows; the first call fits them, and they are kept until the
            next fit. "auto": folds where there are fewer than four rows for
            each learned parameter of the kernel, where leave-one-out can be
            optimistic, and all of them are remembered (up to 2000).

        Returns
        -------
        LeftOut
            Of the distinct rows; of a random sample where there are more than 100 000.
        """
        if method not in ("auto", "leave-one-out", "folds"):
            raise ValueError(f"{method!r} is not valid; choose 'auto', 'leave-one-out' or 'folds'")
        check_is_fitted(self)
        if method == "folds" or (method == "auto" and few_rows_per_parameter(self)):
            return self._fold_models().rows
        if not hasattr(self, "loo_unit_"):
            raise ValueError(
                "this model was saved by a version that did not keep enough of leave-one-out; "
                "give calibration=(X, y), or fit it again"
            )
        return LeftOut(*(getattr(self, f"loo_{name}_") for name in LeftOut._fields))

    def _fold_models(self) -> Folds:
        if self._folds is None:
            self._folds = Folds.of(self)
        return self._folds

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_folds"}

    def _held_out(self, calibration: Any) -> tuple[LoadedModel, FloatArray, IntArray]:
        """The model, calibration rows and the positions of their labels among the classes."""
        if not isinstance(calibration, (tuple, list)) or len(calibration) != 2:
            raise ValueError(
                "calibration must be a pair (X, y) of rows that had no part in the fit and labels, "
                "'folds' or 'leave-one-out'"
            )
        try:
            model, X = self._ready(calibration[0])
        except ValueError as error:
            raise ValueError(f"calibration: {error}") from error
        y = np.asarray(calibration[1])
        if y.shape != (len(X),):
            raise ValueError(f"calibration: y has shape {y.shape}, but X has {len(X)} rows")
        position = {label: i for i, label in enumerate(self.classes_.tolist())}
        label = np.array([position.get(value, -1) for value in y.tolist()], dtype=np.int64)
        if (label < 0).any():
            unknown = list(dict.fromkeys(y[label < 0].tolist()))
            raise ValueError(
                f"calibration: y holds the labels {unknown[:5]}, which did not occur in training; "
                f"the classes are {self.classes_.tolist()[:10]}"
            )
        return model, X, label

    def compile_predictor(self, dtype: str = "float32") -> CompiledPredictor:
        """A small object that predicts as this estimator does now, several times as fast.

        Probabilities agree with ``predict_proba`` to 1e-4 in single and to
        1e-8 in double precision. Single precision is checked at the inducing
        points and between them; where it would not keep that, the predictor
        is made in double precision (its ``dtype`` says which it is).

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Precision of the large products.

        Returns
        -------
        CompiledPredictor

        Raises
        ------
        ValueError
            If the posterior is a set of draws, which cannot be folded.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else tuple(names)
        predictor = compile_model(self.model_, self.classes_, names, dtype)
        if self._columns is not None:
            return replace(predictor, encoder=self._columns, n_features_in_=self.n_features_in_)
        return replace(predictor, fill=self.model_.scaler.mean) if takes_categories(self) else predictor

    @property
    def inducing_points_(self) -> FloatArray:
        """Inducing points in the units of the data, shape (n_inducing, n_features).

        Of nominal columns, and of gaps, what most rows about a point have, as objects.
        """
        numbers = self.model_.scaler.inverse_transform(self.model_.Z)
        return numbers if self._columns is None else self._columns.inverse(numbers)

    @property
    def kernel_(self) -> FittedKernel:
        """The kernel with its learned parameters."""
        return FittedKernel(self.model_.kernel, self.model_.params, self.model_.scaler, self._columns)

    @property
    def feature_relevance_(self) -> FloatArray:
        """Share of each feature in how fast the latent functions vary; sums to one."""
        share = relevance(self.model_)
        return share if self._columns is None else self._columns.per_feature(share)

    @property
    def temperature_(self) -> float:
        """Temperature T of the class probabilities, of a committee the hinge's, fitted by leave-one-out."""
        return self.model_.calibration[0].temperature

    @property
    def spread_(self) -> float:
        """Factor on latent variances in class probabilities, of a committee the hinge's; by leave-one-out."""
        return self.model_.calibration[0].spread

    @property
    def mixing_(self) -> FloatArray:
        """What centred latent means of one class (row) add to those of another (column), by leave-one-out.

        Zero where there are two classes or more than 20. Of a committee the hinge's.
        """
        found, C = self.model_.calibration[0].mixing, self.model_.n_classes
        return np.zeros((C, C)) if found is None else np.asarray(found)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _encoded(self, X: FloatArray) -> Any:
        """Rows like those of ``memory_``, as predictions take them."""
        return Encoded(X, self._columns) if takes_categories(self) else X

    def _generator(self, n_samples: Any, random_state: Any) -> torch.Generator:
        """A seeded generator, after a check of the number of samples."""
        check_number("n_samples", n_samples, numbers.Integral, 1, False)
        return torch.Generator().manual_seed(drawn_seed(random_state))

    def _ready(self, X: Any) -> tuple[LoadedModel, FloatArray]:
        """The model on its device and validated rows."""
        check_is_fitted(self)
        check_at_hand(X)
        if takes_categories(self):
            X = rows_to_predict(self, X)
        else:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        # A model trained on a GPU predicts anywhere.
        device = (
            "cpu" if str(self.device).startswith("cuda") and not torch.cuda.is_available() else self.device
        )
        return self.model_.on(device, torch_dtype(self.dtype)), X


def _check_inside(name: str, value: Any) -> None:
    """Raise ValueError unless the value lies between 0 and 1."""
    if not isinstance(value, numbers.Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} is not valid; it must lie between 0 and 1")


def _warn_of_few(message: str) -> None:
    warnings.warn(message, TooFewRowsWarning, stacklevel=levels_to_caller())


# --- Learning from more rows, for estimators whose posterior is variational.


class AddsRows:
    """``partial_fit`` for a :class:`LatentClassifier`."""

    @available_if(can_add_rows)
    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, forgetting: float = 0.0
    ) -> Self:
        """Learn from more rows; the old ones need not be given again.

        Up to 2000 rows are remembered. While that is all there are, the
        result is that of a ``fit`` to all of them, with the kernel learned
        anew whenever the rows have grown by a quarter. Later the kernel and
        the scale of the features stay; rows beyond 2000 are forgotten at
        random, and what they taught stays in the posterior. Inducing points
        are added where new rows need them, up to ``n_inducing`` (with "auto"
        up to twice as many as ``fit`` would use). A model that has forgotten
        rows keeps the members of its committee; a call with more rows than
        exact rivals are the default for gives the softmax up. ``loo_score_`` and
        ``loo_log_loss_`` then refer to remembered and new rows, ``loo_proba_``
        to the new rows only.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or str
            Class labels, or the name of their column in a data frame.
        classes : array-like or None
            All labels that will ever occur; needed in the first call only.
        sample_weight : array-like of shape (n_rows,), str or None
        forgetting : float, default=0.0
            Share of what is known that this call forgets, from 0 to 1, for streams
            whose distribution drifts: earlier rows lose that share of their weight, remembered
            or not. In the long run the model holds the information of about
            1 / forgetting batches.

        Returns
        -------
        self
        """
        partial_fit_estimator(self, X, y, classes, sample_weight, forgetting)
        return self
