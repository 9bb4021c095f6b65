"""A kernel of one's own: three methods are all that ``kernel=`` asks for.

The classes alternate like stripes. An RBF kernel learns the stripes it has
seen; a periodic kernel, whose period is learned like any other parameter,
also knows how they go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayesvm import BayesianSVC
from bayesvm.kernels import Kernel, Params


@dataclass(frozen=True)
class Periodic:
    r"""Functions that repeat, :math:`\sigma^2 \exp(-2 \sum_d \sin^2(\pi (x_d - z_d)/p_d)/l^2)`.

    ``period`` is a first guess, in standard deviations of the columns.
    """

    period: float = 1.0

    def init(self, X: Tensor) -> Params:
        return {
            "log_variance": X.new_tensor(0.0),
            "log_length_scale": X.new_tensor(0.0),
            "log_period": X.new_full((X.shape[1],), math.log(self.period)),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        phase = math.pi * (X[:, None, :] - Z[None, :, :]) / params["log_period"].exp()
        squared = torch.sin(phase).square().sum(-1) / (2.0 * params["log_length_scale"]).exp()
        return params["log_variance"].exp() * torch.exp(-2.0 * squared)

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])


def stripes(low: float, high: float, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows along a line whose class changes every unit of length; 3 % are mislabelled."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(low, high, n_rows)
    odd = (np.floor(x) % 2 == 1) ^ (rng.uniform(size=n_rows) < 0.03)
    return x[:, None], np.where(odd, "odd", "even")


def main() -> None:
    X, y = stripes(0, 8, 300, seed=0)
    inside, beyond = stripes(0, 8, 1000, seed=1), stripes(8, 16, 1000, seed=2)
    periodic = Periodic(period=0.8)
    assert isinstance(periodic, Kernel)

    print(f"{'kernel':<10}{'leave-one-out':>14}{'same range':>12}{'beyond it':>11}")
    for name, kernel in {"rbf": "rbf", "periodic": periodic}.items():
        model = BayesianSVC(kernel=kernel, random_state=0).fit(X, y)
        print(
            f"{name:<10}{model.loo_score_:>14.3f}{model.score(*inside):>12.3f}{model.score(*beyond):>11.3f}"
        )
    period = np.exp(model.kernel_.params["log_period"]) * X.std(0)
    print(f"\nlearned period: {period[0]:.2f} (true: 2)")


if __name__ == "__main__":
    main()
