"""The evidence lower bound that every fit maximises (eq. 1.6)."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

Number = TypeVar("Number", float, Tensor)


def elbo(
    expected: Number, kl: Number, scale: Number | float = 1.0, kl_weight: Number | float = 1.0
) -> Number:
    r"""The ELBO of q (eq. 1.6).

    .. math:: \mathcal L = \sum_n c_n \ell_n - \sum_j \mathrm{KL}(q(v_j) \| p(v_j))

    Every method of inference, the learning of the kernel and the training of
    a network call it; they differ in the parametrisation of q and in what they
    take for the row terms :math:`\ell_n`.

    Parameters
    ----------
    expected : float or Tensor of shape ()
        Weighted sum of the row terms :math:`\ell_n \le E_q[\log p(y_n \mid f_n)]`:
        exact expectations (eqs. 4.1, 4.3, 8.11, 8.13) or the augmented bound (eq. 2.3).
    kl : float or Tensor of shape ()
        Divergence of q from the prior, or from the posterior of earlier rows,
        summed over the latent functions (eq. 1.5): ``gaussian.kl`` or ``gaussian.kl_of_factor``.
    scale : float or Tensor of shape ()
        Weight of all rows over that of these, where they are a minibatch.
    kl_weight : float or Tensor of shape ()
        Below one while a network warms up (eq. 9.3).
    """
    # sum_n c_n l_n, estimated from the given rows
    likelihood = scale * expected
    # - sum_j KL(q(v_j) || p(v_j))
    return likelihood - kl_weight * kl
