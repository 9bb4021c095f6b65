"""Class probabilities and entropies (eqs. 6.4-6.6)."""

import numpy as np
import pytest
import torch

from bayesvm._core.predictive import (
    expected_softmax,
    log_softmax_pairwise,
    margins_at_nodes,
    predictive_moments,
)
from tests.problems import moments
from tests.reference import sigmoid_by_quadrature, softmax_by_sampling


@pytest.mark.parametrize(
    ("n_classes", "T", "tolerance"), [(3, 2.0, 0.006), (5, 1.0, 0.006), (10, 2.0, 0.012)]
)
def test_expected_softmax_is_monte_carlo_with_many_samples(n_classes, T, tolerance):
    _, F, s2 = moments(6, n_classes, seed=n_classes)
    proba = expected_softmax(F, s2, T).numpy()
    for n in range(6):
        sampled = softmax_by_sampling(F[n].numpy(), s2[n].numpy(), T, 100_000, seed=n)
        np.testing.assert_allclose(proba[n], sampled, atol=tolerance)


@pytest.mark.parametrize("T", [0.25, 2.0, 8.0])
@pytest.mark.parametrize("spreads", ["equal", "unequal"])
def test_two_classes_are_one_dimensional_quadrature(T, spreads):
    _, F, s2 = moments(12, 2, seed=30)
    if spreads == "equal":  # what one function of the difference of two classes gives
        s2 = s2[:, :1].expand(-1, 2)
    proba = expected_softmax(F, s2, T)
    for n in range(12):
        mean, var = float(F[n, 1] - F[n, 0]), float(s2[n].sum())
        truth = sigmoid_by_quadrature(mean, var, T)
        assert float(proba[n, 1]) == pytest.approx(truth, abs=1e-4 if T > 4 else 1e-7)


def test_probabilities_sum_to_one_and_follow_certain_latents():
    _, F, s2 = moments(30, 6, seed=40)
    torch.testing.assert_close(expected_softmax(F, s2, 2.0).sum(1), torch.ones(30).double())
    certain = expected_softmax(F, torch.full_like(s2, 1e-14), 2.0)
    torch.testing.assert_close(certain, torch.softmax(2.0 * F, 1), atol=1e-6, rtol=0)


def test_common_shift_does_not_change_probabilities():
    _, F, s2 = moments(20, 4, seed=41)
    torch.testing.assert_close(expected_softmax(F, s2, 2.0), expected_softmax(F + 100.0, s2, 2.0))
    torch.testing.assert_close(
        log_softmax_pairwise(F, s2, 2.0), log_softmax_pairwise(F - 50.0, s2, 2.0), atol=1e-11, rtol=0
    )


def test_symmetric_latents_share_the_probability_equally():
    F, s2 = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    torch.testing.assert_close(expected_softmax(F, s2, 3.0), torch.full((1, 2), 0.5).double())
    F, s2 = torch.zeros(1, 4).double(), torch.ones(1, 4).double()
    pairwise = log_softmax_pairwise(F, s2, 3.0).exp()
    torch.testing.assert_close(pairwise, torch.full((1, 4), 0.25).double())


@pytest.mark.parametrize(("n_classes", "tolerance"), [(3, 0.05), (5, 0.1), (10, 0.15)])
def test_pairwise_closed_form_is_close_to_the_expectation(n_classes, tolerance):
    _, F, s2 = moments(200, n_classes, seed=50)
    truth = expected_softmax(F, s2, 2.0)
    error = (log_softmax_pairwise(F, s2, 2.0).exp() - truth).abs()
    assert float(error.max()) < tolerance
    assert float(error.mean()) < 0.015


def test_pairwise_closed_form_of_two_classes_is_the_probit_approximation():
    _, F, s2 = moments(100, 2, seed=54)
    p = log_softmax_pairwise(F, s2, 2.0).exp()[:, 1]
    for n in range(0, 100, 5):
        truth = sigmoid_by_quadrature(float(F[n, 1] - F[n, 0]), float(s2[n].sum()), 2.0)
        assert float(p[n]) == pytest.approx(truth, abs=0.022)


def test_pairwise_closed_form_is_the_softmax_at_zero_variance():
    _, F, s2 = moments(20, 5, seed=51)
    exact = log_softmax_pairwise(F, torch.zeros_like(s2), 1.7)
    torch.testing.assert_close(exact, torch.log_softmax(1.7 * F, 1))


def test_pairwise_closed_form_beats_scaling_each_class_alone():
    _, F, s2 = moments(200, 10, seed=52)
    T = 2.0
    truth = expected_softmax(F, s2, T)
    alone = torch.softmax(T * F / (1.0 + torch.pi * T * T * s2 / 8.0).sqrt(), 1)
    pairwise = log_softmax_pairwise(F, s2, T).exp()
    assert float((alone - truth).abs().mean()) > 1.3 * float((pairwise - truth).abs().mean())


def test_pairwise_closed_form_passes_gradcheck():
    _, F, s2 = moments(3, 3, seed=53)
    T = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_softmax_pairwise, [F.requires_grad_(), s2.requires_grad_(), T])


@pytest.mark.parametrize("n_classes", [2, 3, 40, 600])
def test_differences_at_the_nodes_have_the_moments_of_the_latents(n_classes):
    _, F, s2 = moments(max(3, n_classes), n_classes, seed=55)
    F, s2 = F[:3], s2[:3]
    y = torch.tensor([0, 1, n_classes - 1])
    margins, w = margins_at_nodes(F, s2, y, 256)
    assert float(w.sum()) == pytest.approx(1.0)
    mean = torch.einsum("cns,s->nc", margins, w)
    torch.testing.assert_close(mean, F - F.gather(1, y[:, None]), atol=1e-9, rtol=0)
    variance = torch.einsum("cns,s->nc", (margins - mean.mT[:, :, None]).square(), w)
    own = torch.nn.functional.one_hot(y, n_classes).bool()
    truth = (s2 + s2.gather(1, y[:, None])).masked_fill(own, 0.0)
    assert float((variance - truth).abs().mean()) < (1e-8 if n_classes == 2 else 0.15)
    assert not bool(margins[own.mT.unsqueeze(2).expand_as(margins)].any())


@pytest.mark.parametrize("n_classes", [2, 3, 8])
def test_entropy_splits_into_two_non_negative_parts(n_classes):
    _, F, s2 = moments(60, n_classes, seed=60)
    proba, total, aleatoric = predictive_moments(F, s2, 2.0)
    torch.testing.assert_close(proba, expected_softmax(F, s2, 2.0))
    torch.testing.assert_close(total, -(proba * proba.log()).sum(1))
    assert bool((aleatoric >= 0).all())
    assert bool((aleatoric <= total).all())
    assert bool((total <= np.log(n_classes) + 1e-12).all())
    assert float((total - aleatoric).max()) > 0.05


def test_mutual_information_is_monte_carlo_s():
    _, F, s2 = moments(5, 3, seed=61)
    _, total, aleatoric = predictive_moments(F, s2, 2.0)
    rng = np.random.default_rng(0)
    for n in range(5):
        f = F[n].numpy() + np.sqrt(s2[n].numpy()) * rng.standard_normal((200_000, 3))
        logp = torch.log_softmax(2.0 * torch.as_tensor(f), 1).numpy()
        p = np.exp(logp)
        mean = p.mean(0)
        information = (p * (logp - np.log(mean))).sum(1).mean()
        assert float(total[n] - aleatoric[n]) == pytest.approx(information, abs=0.003)


def test_certain_latents_leave_no_epistemic_uncertainty():
    _, F, s2 = moments(20, 4, seed=62)
    _, total, aleatoric = predictive_moments(F, torch.full_like(s2, 1e-12), 2.0)
    torch.testing.assert_close(total, aleatoric, atol=2e-6, rtol=0)  # two integrals, no longer one sum
