"""What peers from other libraries are given: standardised rows, class numbers, inducing points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler


class PeerInputs(NamedTuple):
    """Rows as another library wants them.

    Attributes
    ----------
    scaler : StandardScaler
    classes : ndarray of shape (n_classes,)
    S : ndarray of shape (n_rows, n_features)
        Standardised rows.
    labels : ndarray of shape (n_rows,)
        Class numbers from zero.
    Z : ndarray of shape (n_inducing, n_features)
        Centres of k-means, fewer if there are fewer distinct rows.
    """

    scaler: Any
    classes: npt.NDArray[Any]
    S: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    Z: npt.NDArray[np.float64]


def peer_inputs(X: Any, y: Any, n_inducing: int, random_state: int) -> PeerInputs:
    """Standardise, number the classes and choose inducing points."""
    scaler = StandardScaler().fit(X)
    S = scaler.transform(X)
    classes, labels = np.unique(y, return_inverse=True)
    distinct = np.unique(S, axis=0)
    if len(distinct) <= n_inducing:
        Z = distinct
    else:
        Z = KMeans(n_inducing, n_init=1, random_state=random_state).fit(S).cluster_centers_
    return PeerInputs(scaler, classes, S, labels.astype(np.int64), Z)
