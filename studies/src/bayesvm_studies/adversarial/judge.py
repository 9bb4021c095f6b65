"""From scores of clean, noisy and attacked images to the numbers of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.adversarial._evaluate import roc_auc, tpr_at_fpr
from bayesvm_studies.adversarial.grid import FPR

Scores = Mapping[str, npt.NDArray[np.float64]]
_BINS = 40
_TAIL = 0.002


def detection(
    clean: Scores, noisy: Scores, attacked: Scores, successful: npt.NDArray[np.bool_]
) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Areas under ROC curves (``auc``) and true positives at a fixed rate of false ones (``tpr``).

    Parameters
    ----------
    clean, noisy, attacked : mapping of str to ndarray of shape (n,)
        By score; n may differ.
    successful : ndarray of shape (n,)
        Attacked images that were classified rightly before and wrongly after.

    Returns
    -------
    dict
        By measure, kind of negatives ("clean", "noisy"), kind of positives
        ("all", "successful") and score; empty where no attack succeeded.
    """
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {"auc": {}, "tpr": {}}
    for kind, negatives in (("clean", clean), ("noisy", noisy)):
        for which, rows in (("all", np.ones_like(successful)), ("successful", successful)):
            pairs = {s: (negatives[s], attacked[s][rows]) for s in attacked} if rows.any() else {}
            for name, of in (("auc", roc_auc), ("tpr", _tpr)):
                known = found[name].setdefault(kind, {})
                known[which] = {score: _short(of(*pair)) for score, pair in pairs.items()}
    return found


def histogram(clean: Any, noisy: Any, attacked: Any) -> dict[str, list[float]]:
    """Counts in bins that hold all but the ends of the tails; what lies beyond is in the outermost bins.

    Parameters
    ----------
    clean, noisy, attacked : ndarray of shape (n,)
    """
    ends = [np.quantile(v, q) for v in (clean, noisy, attacked) for q in (_TAIL, 1.0 - _TAIL)]
    low, high = min(ends), max(ends)
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    kinds = (("clean", clean), ("noisy", noisy), ("attacked", attacked))
    counts = {k: np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0].tolist() for k, v in kinds}
    return {"edges": [_short(e) for e in edges], **counts}


def _tpr(negative: Any, positive: Any) -> float:
    return tpr_at_fpr(negative, positive, FPR)


def _short(value: float) -> float:
    return float(f"{value:.5g}")
