"""The temperature that held-out rows ask for."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from bayesvm.core.predictive import expected_softmax
from bayesvm.nn import BayesianSVMHead, HeadError, HeadOutput, fit_temperature
from tests.problems import generator, labels, normal, uniform


def _labelled(T, n=4000, n_classes=4):
    """Latent moments, and labels drawn from the class probabilities at a temperature."""
    F = normal(n, n_classes, seed=1)
    s2 = uniform(n, n_classes, seed=2, low=0.05, high=0.3)
    y = torch.multinomial(expected_softmax(F, s2, T), 1, generator=generator(3))[:, 0]
    return F, s2, y


@pytest.mark.parametrize("T", [0.7, 2.0, 5.0])
def test_it_is_the_minimum_of_the_log_loss(T):
    F, s2, y = _labelled(T)
    found = fit_temperature(HeadOutput(F, s2, torch.tensor(2.0)), None, y)

    def loss(log_T):
        return float(-expected_softmax(F, s2, math.exp(log_T)).gather(1, y[:, None]).log().mean())

    best = minimize_scalar(loss, bounds=(-1.0, 3.0), method="bounded")
    assert loss(math.log(found)) <= best.fun + 3e-4
    assert found == pytest.approx(T, rel=0.15)


def test_where_labels_do_not_say_the_smallest_is_taken():
    F = 30.0 * torch.eye(3, dtype=torch.float64)
    found = fit_temperature(HeadOutput(F, torch.full((3, 3), 0.01), torch.tensor(2.0)), None, torch.arange(3))
    assert 0.25 <= found < 1.0
    wrong = fit_temperature(
        HeadOutput(F, torch.full((3, 3), 0.01), torch.tensor(2.0)), None, (torch.arange(3) + 1) % 3
    )
    assert wrong == pytest.approx(0.25)


def test_a_head_takes_it_over_and_stays_as_it_was():
    X, y = normal(200, 5, seed=1).float(), labels(200, 3, seed=2)
    head = BayesianSVMHead(5, 3, 6)
    for _ in range(10):
        head.loss(X, y, 200)
    found = fit_temperature(head, X, y)
    assert found == pytest.approx(float(head.temperature))
    assert found == fit_temperature(head.eval()(X), None, y)
    head.train()
    fit_temperature(head, X, y)
    assert head.training
    torch.testing.assert_close(head.eval()(X).temperature, torch.tensor(found))
    with pytest.raises(ValueError, match="features"):
        fit_temperature(head, None, y)
    with pytest.raises(TypeError, match="BayesianSVMHead"):
        fit_temperature(torch.nn.Linear(2, 2), X, y)


def test_latents_that_are_not_finite_are_reported():
    F = torch.full((5, 3), math.nan)
    with pytest.raises(HeadError, match="finite"):
        fit_temperature(HeadOutput(F, torch.ones(5, 3), torch.tensor(2.0)), None, torch.arange(5) % 3)
