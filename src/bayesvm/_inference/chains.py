"""Draws from the posterior, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bayesvm._core.chains import bulk_sample_size, split_r_hat, tail_sample_size

# The usual limits: chains agree, and each is worth a hundred independent draws,
# or half of its draws if they are to be fewer than two hundred.
LARGEST_R_HAT = 1.05
_ENOUGH_OF_A_CHAIN = 100
_ENOUGH_SHARE = 0.5


@dataclass(frozen=True)
class Verdict:
    """Convergence of chains, for the worst of the quantities looked at.

    Attributes
    ----------
    r_hat : float
        Largest split R-hat; 1 where all chains agree (eq. 8.34).
    bulk, tail : float
        Fewest effective draws, for the middle and for the 5 % tails (eq. 8.35).
    enough : float
        How many effective draws are asked for.
    """

    r_hat: float
    bulk: float
    tail: float
    enough: float

    @property
    def converged(self) -> bool:
        """Whether the chains agree and are worth enough independent draws."""
        return self.r_hat < LARGEST_R_HAT and min(self.bulk, self.tail) >= self.enough


def judge(quantities: Tensor, n_draws: int) -> Verdict:
    """The verdict on draws (chains, draws, quantities) of chains that shall keep ``n_draws`` each."""
    x = quantities.double()
    return Verdict(
        float(split_r_hat(x).max()),
        float(bulk_sample_size(x).min()),
        float(tail_sample_size(x).min()),
        float(x.shape[0] * min(_ENOUGH_OF_A_CHAIN, _ENOUGH_SHARE * n_draws)),
    )


@dataclass(frozen=True)
class Chains:
    """Draws of several chains, evenly spaced after warm-up.

    Attributes
    ----------
    v : Tensor of shape (K, S, J, P)
        Whitened inducing values. If ``centred``, the part common to all
        classes is left out: the likelihood does not see it, and its
        posterior is its prior.
    f : Tensor of shape (K, S, N, J)
        Latents of the training rows, in single precision if they are many.
    log_likelihood : Tensor of shape (K, S, N)
        Of each row, for one unit of weight.
    verdict : Verdict
    steps, thinning : int
        Transitions of each chain altogether, and between kept draws.
    centred, fitc : bool
        Whether v and f are centred over classes, and whether f has the
        residual of each row in it.
    """

    v: Tensor
    f: Tensor
    log_likelihood: Tensor
    verdict: Verdict
    steps: int
    thinning: int
    centred: bool
    fitc: bool

    @property
    def converged(self) -> bool:
        """Whether the chains have converged by the usual limits."""
        return self.verdict.converged

    def merged(self) -> Tensor:
        """The draws of all chains, shape (K S, J, P)."""
        return self.v.flatten(0, 1)
