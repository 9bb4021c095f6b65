"""Scores of a model: on test rows with and without a temperature, and on images from elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from bayesvm_studies.images.arrays import Images
from bayesvm_studies.images.calibration import Output, calibrated, calibration_of
from bayesvm_studies.images.outputs import joined
from bayesvm_studies.scoring import score_sums

# Measures of doubt by which images from elsewhere are told; the larger, the more doubtful.
SCORES = ("entropy", "log_variation_ratio", "mutual_information", "largest_probability")


def doubts(output: Output) -> dict[str, npt.NDArray[np.float64]]:
    """Every measure of doubt of every row; none that is the same for all rows."""
    found = {
        "entropy": output.entropy(),
        "log_variation_ratio": output.log_variation_ratio(),
        "mutual_information": output.mutual_information(),
        "largest_probability": -output.probabilities().amax(1),
    }
    return {
        name: value.double().cpu().numpy() for name, value in found.items() if bool((value != value[0]).any())
    }


def tell_apart(
    inside: Mapping[str, npt.NDArray[np.float64]], outside: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, float]:
    """Area under the ROC curve of each measure: how often a row from elsewhere is the more doubtful one."""
    from scipy.stats import rankdata

    found = {}
    for name in SCORES:
        if name in inside and name in outside:
            n_in, n_out = len(inside[name]), len(outside[name])
            ranks = rankdata(np.concatenate([outside[name], inside[name]]))
            found[name] = float((ranks[:n_out].sum() - 0.5 * n_out * (n_out + 1)) / (n_out * n_in))
    return found


def evaluate(output_of: Callable[[Tensor], Output], images: Images) -> dict[str, Any]:
    """Fields of a result that are scores.

    Parameters
    ----------
    output_of : callable
        From images to the model's output as it was trained.
    images : Images

    Returns
    -------
    dict
        Sums over the test rows as the results of all experiments have them,
        and in ``extra`` the same as calibrated on held-out rows
        (``tempered``), that ``temperature``, for our head the ``spread``,
        and by the name of a set from
        elsewhere and of a measure of doubt the area under the ROC curve
        (``ood``, ``ood_tempered``).
    """
    held = output_of(images.held_X)
    own = float(held.temperature)  # type: ignore[attr-defined]
    fitted = calibration_of(held, images.held_y)
    test = output_of(images.test_X)
    y = images.test_y.cpu().numpy()
    classes = np.arange(images.n_classes)
    sums: dict[str, Any] = {}
    ood: dict[str, dict[str, dict[str, float]]] = {}
    outside = {name: output_of(X) for name, X in images.elsewhere.items()}
    sizes = [len(X) for X in images.elsewhere.values()]
    for kind, calibration in (("plain", {}), ("tempered", fitted)):
        at = calibrated(test, calibration)
        sums[kind] = score_sums(y, at.probabilities().double().cpu().numpy(), classes)
        ood[kind] = {}
        if outside:
            inside, all_outside = doubts(at), doubts(calibrated(joined(list(outside.values())), calibration))
            for name, rows in zip(outside, _slices(sizes), strict=True):
                ood[kind][name] = tell_apart(inside, {score: v[rows] for score, v in all_outside.items()})
    extra = {
        "own_temperature": own,
        **fitted,
        "tempered": sums["tempered"],
        "ood": ood["plain"],
        "ood_tempered": ood["tempered"],
    }
    return {
        **sums["plain"],
        "n_features": int(np.prod(images.test_X.shape[1:])),
        "n_classes": images.n_classes,
        "extra": rounded(extra),
    }


def _slices(sizes: list[int]) -> list[slice]:
    ends = list(itertools.accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def rounded(value: Any, digits: int = 6) -> Any:
    """The same with as many digits as scores and clocks have."""
    if isinstance(value, dict):
        return {key: rounded(v, digits) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
