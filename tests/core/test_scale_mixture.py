"""The hinge as a Gaussian scale mixture, and the local variational parameters (eqs. 1.2, 2.1-2.3)."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from tests.reference import hinge, scale_mixture


@pytest.mark.parametrize("b", [-3.0, -0.7, -0.05, 0.0, 0.05, 0.4, 1.0, 2.5])
def test_hinge_is_a_gaussian_scale_mixture(b):
    assert scale_mixture(b) == pytest.approx(math.exp(hinge(b)), rel=1e-9)


def _gig_expectation(function, alpha):
    """Expectation under GIG(1/2, 1, alpha), normalised numerically, lambda = u^2."""

    def density(u):
        return 2.0 * math.exp(-0.5 * (u * u + alpha / (u * u)))

    peak = alpha**0.25
    edges = [1e-12, 0.5 * peak, peak, 2 * peak, peak + 3, peak + 12]
    mass = total = 0.0
    for lo, hi in itertools.pairwise(edges):
        if hi > lo:
            mass += integrate.quad(density, lo, hi, epsrel=1e-12)[0]
            total += integrate.quad(lambda u: density(u) * function(u * u), lo, hi, epsrel=1e-12)[0]
    return total / mass


@pytest.mark.parametrize("alpha", [0.04, 0.5, 1.0, 6.0])
def test_moments_of_the_local_variational_distribution(alpha):
    assert _gig_expectation(lambda lam: 1.0 / lam, alpha) == pytest.approx(alpha**-0.5, rel=1e-8)
    assert _gig_expectation(lambda lam: lam, alpha) == pytest.approx(1.0 + alpha**0.5, rel=1e-8)


@pytest.mark.parametrize(("alpha", "b", "variance"), [(0.3, -0.4, 0.2), (1.0, 0.8, 0.05), (4.0, 1.7, 2.0)])
def test_row_term_for_any_local_parameter_is_expected_log_joint_plus_entropy(alpha, b, variance):
    A = b * b + variance  # E b^2

    def log_joint_minus_log_q(lam):
        # E_f of the log of (2 pi lam)^(-1/2) exp(-(lam + b)^2 / (2 lam)), which needs E b^2 only
        joint = -0.5 * math.log(2 * math.pi * lam) - (lam * lam + 2 * lam * b + A) / (2 * lam)
        normaliser = math.log(2.0 * alpha**0.25 * special.kv(0.5, math.sqrt(alpha)))
        return joint - (-0.5 * math.log(lam) - 0.5 * (lam + alpha / lam) - normaliser)

    root = math.sqrt(alpha)
    closed = -A / (2 * root) - root / 2 - b
    assert _gig_expectation(log_joint_minus_log_q, alpha) == pytest.approx(closed, rel=1e-8)


def _row_term(alpha, A, b, sign):
    """The row term with ``sign`` in front of 1/4 log alpha + log B_{1/2}(sqrt alpha), up to a constant."""
    root = np.sqrt(alpha)
    log_bessel = np.log(special.kve(0.5, root)) - root
    return -b - (A - alpha) / (2 * root) + sign * (0.25 * np.log(alpha) + log_bessel)


def test_printed_objective_is_unbounded_in_alpha_and_the_corrected_one_is_not():
    A, b = 1.3, 0.4
    alpha = np.logspace(-6, 12, 4001)
    printed = _row_term(alpha, A, b, sign=-1.0)
    corrected = _row_term(alpha, A, b, sign=+1.0)
    # Printed: increasing without bound, like 3/2 sqrt(alpha).
    assert np.all(np.diff(printed) > 0)
    assert printed[-1] == pytest.approx(1.5 * math.sqrt(alpha[-1]), rel=1e-3)
    # Corrected: one interior maximum at alpha = A, of height -(sqrt A + b).
    best = corrected.argmax()
    assert alpha[best] == pytest.approx(A, rel=0.02)
    constant = math.log(2.0) - 0.5 * math.log(2.0 * math.pi)
    assert corrected[best] + constant == pytest.approx(-(math.sqrt(A) + b), abs=1e-4)
    assert corrected[0] < corrected[best] - 100
    assert corrected[-1] < corrected[best] - 100
