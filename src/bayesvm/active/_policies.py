"""Query policies with the interface of scikit-activeml's query strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from bayesvm.active._rules import RULES

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy, SkactivemlClassifier
    from skactiveml.utils import MISSING_LABEL, is_labeled
except ImportError as error:
    raise ImportError(
        "query policies follow scikit-activeml, which is not installed; pip install 'bayesvm[active]'. "
        "ActiveLearner takes policies by name and does without it"
    ) from error

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]


class _Policy(SingleAnnotatorPoolQueryStrategy):
    """A rule as a query strategy.

    Parameters
    ----------
    missing_label : scalar, str, None or nan
        What stands for a missing label in y.
    random_state : int, RandomState or None
        Decides between rows of equal utility.
    """

    _name: str

    def __init__(self, missing_label: Any = MISSING_LABEL, random_state: Any = None) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any,
        fit_clf: bool = True,
        sample_weight: Any = None,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> IntArray | tuple[IntArray, FloatArray]:
        """Rows to ask labels for.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Labelled and unlabelled rows.
        y : array-like of shape (n_rows,)
            Labels, ``missing_label`` where there is none.
        clf : classifier
            One of scikit-activeml's, such as ``SklearnClassifier(BayesianSVC())``,
            or any of scikit-learn's; the latter sees labelled rows only.
        fit_clf : bool
            Whether a copy of it is to be fitted to X and y first.
        sample_weight : array-like of shape (n_rows,) or None
        candidates : array-like of int, of rows, or None
            Positions in X that may be chosen, or rows to choose from; None:
            the rows of X without a label.
        batch_size : int
        return_utilities : bool

        Returns
        -------
        rows : ndarray of shape (batch_size,)
            Positions in X, or in ``candidates`` if that holds rows.
        utilities : ndarray of shape (batch_size, n_rows)
            Only with ``return_utilities``. NaN for what could not be chosen.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        rows, mapping = self._transform_candidates(candidates, X, y)
        if not isinstance(fit_clf, bool | np.bool_):
            raise TypeError(f"fit_clf={fit_clf!r} is not valid; it must be True or False")
        if not hasattr(clf, "fit"):
            raise TypeError(f"clf={clf!r} is not a classifier")
        if fit_clf:
            clf = _fitted(clf, X, y, sample_weight, is_labeled(y, self.missing_label_))
        rng = np.random.default_rng(self.random_state_.randint(2**31 - 1))
        if not len(rows):
            raise ValueError("there is no row to choose: all have labels; give candidates")
        rule = RULES[self._name]
        if return_utilities:
            chosen, found = rule.with_utilities(clf, rows, batch_size, None, rng)
        else:
            chosen = rule.choose(clf, rows, batch_size, None, rng)
        if mapping is None:
            return (chosen, found) if return_utilities else chosen
        if not return_utilities:
            return np.asarray(mapping[chosen])
        utilities = np.full((len(chosen), len(X)), np.nan)
        utilities[:, mapping] = found
        return np.asarray(mapping[chosen]), utilities


def _fitted(clf: Any, X: Any, y: Any, sample_weight: Any, labelled: npt.NDArray[np.bool_]) -> Any:
    """A copy of a classifier fitted to the labelled rows."""
    weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
    if isinstance(clf, SkactivemlClassifier):
        return clone(clf).fit(X, y, **weights)
    if not labelled.any():
        raise ValueError(
            f"y has no label to fit {type(clf).__name__} to; label some rows first, or wrap it in "
            "skactiveml.classifier.SklearnClassifier(..., classes=...)"
        )
    weights = {name: w[labelled] for name, w in weights.items()}
    return clone(clf).fit(X[labelled], y[labelled], **weights)


class VariationRatio(_Policy):
    """The paper's policy: where the posterior disagrees most about the largest latent function."""

    _name = "variation_ratio"


class SoftmaxEntropy(_Policy):
    """The paper's rival: the entropy of the softmax over latent means."""

    _name = "softmax_entropy"


class Margin(_Policy):
    """The smallest lead of the most probable class over the second."""

    _name = "margin"


class PredictiveEntropy(_Policy):
    """The largest entropy of the class probabilities."""

    _name = "entropy"


class MutualInformation(_Policy):
    """What the label tells about the latent functions (BALD)."""

    _name = "bald"


class BatchVariationRatio(_Policy):
    """The variation ratio with a discount for what the rest of the batch will tell anyway."""

    _name = "batch"


class Random(_Policy):
    """A random row, the baseline."""

    _name = "random"


POLICIES: dict[str, type[_Policy]] = {
    policy._name: policy
    for policy in (
        VariationRatio,
        SoftmaxEntropy,
        Margin,
        PredictiveEntropy,
        MutualInformation,
        BatchVariationRatio,
        Random,
    )
}
