"""Labels that belong to a model's leave-one-out predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["check_left_out"]


def check_left_out(model: Any, y: Any) -> npt.NDArray[Any]:
    """Labels as an array, if there is one for each leave-one-out prediction.

    Raises
    ------
    ValueError
        If their number differs from that of the rows of the last fit, or
        the model holds no predictions of single rows.
    """
    y = np.asarray(y)
    if model.loo_proba_ is None:
        raise ValueError(
            "the model was fitted to so many rows and classes that it holds no leave-one-out predictions "
            "of single rows (loo_proba_ is None); give predictions of rows held out instead"
        )
    n_rows = model.loo_proba_.shape[0]
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has shape {y.shape}, but the model holds leave-one-out predictions of {n_rows} rows: "
            "give the labels of the last fit (or partial_fit)"
        )
    return y
