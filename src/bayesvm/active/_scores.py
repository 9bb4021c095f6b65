"""Scores of how informative the label of a row would be: the highest is asked for first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import entr, log_softmax

from bayesvm._core.variation_ratio import dissent, variation_ratio

FloatArray = npt.NDArray[np.floating]
# Rows whose probabilities are integrated at a time: what they need stays in a processor's cache.
_BLOCK_NUMBERS = 2_000_000
_NODES = 64


def variation_ratio_scores(mean: Any, variance: Any) -> FloatArray:
    r"""Variation ratio :math:`1 - \max_c P(\arg\max_j f_j = c)` of independent Gaussian latents (eq. 6.2).

    The limit of the paper's :math:`1 - F/S` for infinitely many draws.

    Parameters
    ----------
    mean, variance : array-like of shape (n_rows, n_classes)
        Of each class's latent function.

    Returns
    -------
    ndarray of shape (n_rows,)
        Between 0 and 1 - 1/n_classes.

    Examples
    --------
    >>> variation_ratio_scores([[0.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]).round(3).tolist()
    [0.5, 0.017]
    """
    mean, variance = checked_moments(mean, variance)
    out = np.empty(len(mean))
    size = max(1, _BLOCK_NUMBERS // (_NODES * mean.shape[1]))
    with torch.no_grad():
        for start in range(0, len(mean), size):
            rows = slice(start, start + size)
            F, s2 = torch.as_tensor(mean[rows]), torch.as_tensor(variance[rows])
            out[rows] = variation_ratio(F, s2).numpy()
    return out


def softmax_entropy_scores(mean: Any) -> FloatArray:
    """Entropy in nats of the softmax over latent means: the rival in the paper, blind to variances.

    Examples
    --------
    >>> softmax_entropy_scores([[1.0, 1.0], [50.0, 0.0]]).round(3).tolist()
    [0.693, 0.0]
    """
    log_p = log_softmax(_matrix("mean", mean), axis=1)
    return np.asarray(-(np.exp(log_p) * log_p).sum(1))


def margin_scores(probabilities: Any) -> FloatArray:
    """One minus the lead of the most probable class over the second.

    Examples
    --------
    >>> margin_scores([[0.5, 0.5, 0.0], [0.8, 0.1, 0.1]]).round(3).tolist()
    [1.0, 0.3]
    """
    p = _probabilities(probabilities, 2)
    top = np.partition(p, p.shape[1] - 2, axis=1)[:, -2:] if p.shape[1] > 1 else np.pad(p, ((0, 0), (1, 0)))
    return np.asarray(1.0 - (top[:, 1] - top[:, 0]))


def entropy_scores(probabilities: Any) -> FloatArray:
    """Entropy in nats of class probabilities.

    Examples
    --------
    >>> entropy_scores([[0.5, 0.5], [1.0, 0.0]]).round(3).tolist()
    [0.693, 0.0]
    """
    return np.asarray(entr(_probabilities(probabilities, 2)).sum(1))


def mutual_information_scores(probabilities: Any) -> FloatArray:
    """What the label would tell about the model (BALD), from class probabilities of several draws of it.

    Parameters
    ----------
    probabilities : array-like of shape (n_draws, n_rows, n_classes)

    Returns
    -------
    ndarray of shape (n_rows,)
        Entropy of the mean minus mean of the entropies, in nats; never negative.

    Examples
    --------
    Draws that agree have nothing to learn, draws that contradict each other have.

    >>> mutual_information_scores([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]]).round(3).tolist()
    [0.0, 0.693]
    """
    p = _probabilities(probabilities, 3)
    return np.maximum(entr(p.mean(0)).sum(1) - entr(p).sum(2).mean(0), 0.0)


def vote_scores(probabilities: Any) -> FloatArray:
    """Variation ratio of a committee: one minus the share of votes for the winner.

    Parameters
    ----------
    probabilities : array-like of shape (n_members, n_rows, n_classes)
        Each member votes for its most probable class.

    Examples
    --------
    >>> vote_scores([[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]]]).round(3).tolist()
    [0.333]
    """
    p = _probabilities(probabilities, 3)
    return dissent(torch.from_numpy(p.argmax(2)), p.shape[2]).numpy()


def checked_moments(mean: Any, variance: Any) -> tuple[FloatArray, FloatArray]:
    """Means and variances as finite matrices of one shape, variances positive."""
    mean, variance = _matrix("mean", mean), _matrix("variance", variance)
    if mean.shape != variance.shape:
        raise ValueError(f"mean has shape {mean.shape} and variance {variance.shape}; they must be the same")
    if not (variance > 0).all():
        raise ValueError("variance must be positive; predict_latent gives standard deviations: square them")
    return mean, variance


def _matrix(name: str, values: Any) -> FloatArray:
    a = np.asarray(values, dtype=np.float64)
    if a.ndim != 2 or not a.shape[1]:
        raise ValueError(f"{name} has shape {a.shape}; give one row per row of data, one column per class")
    if not np.isfinite(a).all():
        raise ValueError(f"{name} has values that are not finite")
    return a


def _probabilities(values: Any, ndim: int) -> FloatArray:
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != ndim or 0 in (p.shape[0] if ndim == 3 else 1, p.shape[-1]):
        wanted = "(n_rows, n_classes)" if ndim == 2 else "(n_draws, n_rows, n_classes)"
        raise ValueError(f"probabilities have shape {p.shape}, not {wanted}")
    # NaN fails the comparison as well.
    if not ((p >= 0).all() and (np.abs(p.sum(-1) - 1.0) <= 1e-6).all()):
        raise ValueError("probabilities must be non-negative and sum to one over the classes")
    return p


# --- What policies need from a classifier, whatever it is wrapped in.

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
    if not is_fitted(classifier):
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


def is_fitted(classifier: Any) -> bool:
    """False for a scikit-activeml wrapper whose estimator could not be fitted, say to one class."""
    return bool(getattr(classifier, "is_fitted_", True))
