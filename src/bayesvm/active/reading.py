"""What policies need from a classifier, whatever it is wrapped in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.active.scores import mutual_information_scores, variation_ratio_scores, vote_scores

__all__ = ["disagreement", "draws", "latent_moments", "probabilities", "unwrapped"]

FloatArray = npt.NDArray[np.floating]
# Draws that stand for a posterior where there is no closed form.
_DRAWS = 64


def unwrapped(classifier: Any, X: Any) -> tuple[Any, Any]:
    """The classifier at the end of a pipeline, and the rows as they arrive there.

    Of a scikit-activeml wrapper it is the estimator within, if that could be
    fitted.
    """
    if getattr(classifier, "is_fitted_", False) and hasattr(classifier, "estimator_"):
        classifier = classifier.estimator_
    while hasattr(classifier, "steps"):
        if len(classifier.steps) > 1:
            X = classifier[:-1].transform(X)
        classifier = classifier[-1]
    return classifier, X


def probabilities(classifier: Any, X: Any) -> FloatArray:
    """Class probabilities of rows."""
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"{type(classifier).__name__} has no predict_proba, which the policy needs; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV"
        )
    return np.asarray(classifier.predict_proba(X), dtype=np.float64)


def latent_moments(classifier: Any, X: Any) -> tuple[FloatArray, FloatArray] | None:
    """Means and variances of the latent functions, or None for a classifier without any."""
    classifier, X = unwrapped(classifier, X)
    if not hasattr(classifier, "predict_latent"):
        return None
    mean, std = classifier.predict_latent(X)
    return mean, std * std


def draws(classifier: Any, X: Any) -> FloatArray | None:
    """Class probabilities of several draws or members of a classifier, (n_draws, n_rows, n_classes)."""
    inner, rows = unwrapped(classifier, X)
    if hasattr(inner, "sample_proba"):
        return np.asarray(inner.sample_proba(rows, n_samples=_DRAWS, random_state=0))
    members = getattr(inner, "estimators_", None)
    if members is None or not all(hasattr(m, "predict_proba") for m in np.ravel(members)):
        return None
    rows = np.asarray(rows)
    return np.stack([m.predict_proba(rows) for m in np.ravel(members)])


def disagreement(classifier: Any, X: Any, information: bool) -> FloatArray:
    """Variation ratio or, with ``information``, mutual information of each row.

    Exact for our classifiers, from the members of an ensemble otherwise.

    Raises
    ------
    TypeError
        If the classifier is one model without a posterior.
    """
    if not _fitted(classifier):
        return np.zeros(len(X))  # nothing is known: all rows are alike
    inner, rows = unwrapped(classifier, X)
    if information and hasattr(inner, "uncertainty"):
        return np.asarray(inner.uncertainty(rows).epistemic)
    if not information:
        if hasattr(inner, "variation_ratio"):
            return np.asarray(inner.variation_ratio(rows))
        moments = latent_moments(inner, rows)
        if moments is not None:
            return variation_ratio_scores(*moments)
    drawn = draws(inner, rows)
    if drawn is None:
        raise TypeError(
            f"{type(inner).__name__} has neither latent functions nor members that could disagree; "
            "use the policy 'margin' or 'entropy', which need predict_proba alone"
        )
    return mutual_information_scores(drawn) if information else vote_scores(drawn)


def _fitted(classifier: Any) -> bool:
    """False for a scikit-activeml wrapper whose estimator could not be fitted, say to one class."""
    return bool(getattr(classifier, "is_fitted_", True))
