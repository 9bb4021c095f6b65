"""A Laplace approximation of the last layer of a trained softmax network."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm_studies.images.heads import SoftmaxOutput

# Prior precisions that are tried, from almost no prior to one that leaves the plain softmax.
_PRECISIONS = tuple(10.0 ** (k / 4) for k in range(-16, 21))


class LastLayerLaplace:
    r"""Gaussian posterior of weights and bias of a softmax layer around trained values.

    The Hessian of the log-loss is its generalised Gauss-Newton form with
    Kronecker factors, N B ⊗ A, where A is the mean of φ φᵀ (φ the features
    with a one for the bias) and B that of diag(p) - p pᵀ; the prior adds
    δ I (Ritter et al., 2018; Daxberger et al., 2021). In the eigenvectors of both factors

    .. math:: \mathrm{cov}(W φ) = U_B \,\mathrm{diag}_k \Big(\sum_i
              \frac{(u_i^T φ)^2}{N λ^A_i λ^B_k + δ}\Big) U_B^T .

    Parameters
    ----------
    weight, bias : Tensor of shape (C, D) and (C,)
        Trained values.
    features : Tensor of shape (N, D)
        Of the training rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor, features: Tensor) -> None:
        self._W = torch.cat([weight, bias[:, None]], 1).double()
        Phi = _with_one(features)
        p = torch.softmax(Phi @ self._W.mT, 1)
        self._n_rows = Phi.shape[0]
        A = Phi.mT @ Phi / self._n_rows
        B = torch.diag(p.mean(0)) - p.mT @ p / self._n_rows
        self._values_a, self._U_a = torch.linalg.eigh(A)
        self._values_b, self._U_b = torch.linalg.eigh(B)
        # Round-off leaves tiny negative ones; B is singular, since probabilities sum to one.
        self._values_a.clamp_min_(0.0)
        self._values_b.clamp_min_(0.0)

    def _variances(self, features: Tensor, precision: float) -> Tensor:
        """Of the logits along the eigenvectors of B, (N, C)."""
        projected = (_with_one(features) @ self._U_a).square()
        curvature = self._n_rows * self._values_a[:, None] * self._values_b
        return projected @ (1.0 / (curvature + precision))

    def covariance(self, features: Tensor, precision: float) -> Tensor:
        """Of the logits of each row, (N, C, C)."""
        v = self._variances(features, precision)
        return (self._U_b * v[:, None, :]) @ self._U_b.mT

    def output(self, features: Tensor, precision: float, draws: int = 64) -> SoftmaxOutput:
        """Draws of the logits, the same standard normal numbers for every row, half of them mirrored."""
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(draws // 2, len(self._W), generator=generator, dtype=torch.float64)
        z = torch.cat([z, -z]).to(self._W)
        spread = self._variances(features, precision).sqrt()
        mean = _with_one(features) @ self._W.mT
        logits = mean[:, None, :] + (spread[:, None, :] * z) @ self._U_b.mT
        return SoftmaxOutput(logits, torch.ones((), dtype=logits.dtype, device=logits.device))

    def choose_precision(self, features: Tensor, y: Tensor) -> float:
        """The prior precision under which held-out rows have the highest log-likelihood.

        Parameters
        ----------
        features, y : Tensor of shape (M, D) and (M,)
            Rows that the network was not trained on.
        """

        def loss(precision: float) -> float:
            log_p = self.output(features, precision).log_probabilities()
            return -float(log_p.gather(1, y[:, None]).mean())

        return min(_PRECISIONS, key=loss)


def _with_one(features: Tensor) -> Tensor:
    """Features with a column of ones for the bias, in double precision."""
    Phi = features.double()
    return torch.cat([Phi, torch.ones_like(Phi[:, :1])], 1)
