"""Our attacks are the toolbox's; the adaptive one knows the score."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from bayesvm.adversarial import (
    SCORES,
    AdaptiveAttack,
    ImageModel,
    fgsm,
    gradient_signs,
    pgd,
    score_images,
    step_along,
)
from bayesvm.adversarial._attack import SURROGATES
from bayesvm.adversarial._model import Rows
from bayesvm.adversarial._scores import score_rows
from bayesvm.nn import HeadOutput


def predicted(model, images):
    with torch.no_grad():
        return model.rows(images).output.predict()


def test_single_step_on_a_linear_model_is_known():
    layer = nn.Linear(4, 2, bias=False)
    weight = torch.tensor([[1.0, -2.0, 0.0, 3.0], [0.0, 1.0, 0.0, 4.0]])
    layer.weight.data.copy_(weight)
    model = ImageModel(nn.Sequential(nn.Flatten(), layer))
    x, y = torch.full((2, 1, 2, 2), 0.5), torch.tensor([0, 1])
    signs = (weight[1] - weight[0]).sign().view(1, 2, 2)
    expected = torch.stack([0.5 + 0.1 * signs, 0.5 - 0.1 * signs])
    assert torch.allclose(fgsm(model, x, y, 0.1), expected)
    assert torch.allclose(pgd(model, x, y, 0.1, n_steps=3), expected)
    assert torch.allclose(fgsm(model, x, y, 0.9), expected.sub(0.5).mul(9.0).add(0.5).clamp(0.0, 1.0))


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_single_steps_equal_the_toolbox(classifier, model, digits, epsilon):
    from art.attacks.evasion import FastGradientMethod

    theirs = FastGradientMethod(classifier, eps=epsilon, batch_size=128).generate(
        digits.test_X, digits.test_y
    )
    ours = fgsm(model, *digits.test, epsilon, batch_size=128)
    assert np.abs(ours.numpy() - theirs).max() < 1e-6


def test_many_steps_equal_the_toolbox(classifier, model, digits):
    from art.attacks.evasion import ProjectedGradientDescent

    images, y = (part[:200] for part in digits.test)
    attack = ProjectedGradientDescent(
        classifier, eps=0.15, eps_step=0.02, max_iter=10, batch_size=128, verbose=False
    )
    theirs = attack.generate(images.numpy(), y.numpy())
    ours = pgd(model, images, y, 0.15, n_steps=10, step=0.02, batch_size=128)
    assert np.abs(ours.numpy() - theirs).max() < 1e-6


def test_one_gradient_serves_all_strengths(model, digits):
    images, y = digits.test
    signs = gradient_signs(model, images, y)
    for epsilon in (0.02, 0.4):
        assert torch.equal(step_along(images, signs, epsilon), fgsm(model, images, y, epsilon))


def test_stronger_attacks_do_more(model, digits):
    images, y = digits.test
    accuracy = [
        float((predicted(model, attacked) == y).double().mean())
        for attacked in (images, fgsm(model, images, y, 0.1), pgd(model, images, y, 0.1))
    ]
    assert accuracy[0] > 0.95
    assert accuracy[0] > accuracy[1] > accuracy[2]


@pytest.mark.parametrize("score", ["log_variation_ratio", "latent_variance", "mimic"])
def test_adaptive_attack_stays_near_and_succeeds(model, digits, score):
    images, y = (part[:150] for part in digits.test)
    attack = AdaptiveAttack(model, 0.2, score=score, n_steps=20)
    found = torch.from_numpy(attack.generate(images.numpy(), y.numpy()))
    assert float((found - images).abs().max()) <= 0.2 + 1e-6
    assert float(found.min()) >= 0.0
    assert float(found.max()) <= 1.0
    wrong = (predicted(model, found) != y).double().mean()
    assert wrong >= (predicted(model, fgsm(model, images, y, 0.2)) != y).double().mean()
    assert np.array_equal(found.numpy(), attack.generate(images.numpy(), np.eye(10)[y.numpy()]))


@pytest.mark.parametrize("score", ["log_variation_ratio", "entropy", "latent_variance", "inducing_distance"])
def test_adaptive_attack_lowers_its_score(model, digits, score):
    """Below that of an attack that does not know it, as many images fooled."""
    images, y = (part[:150] for part in digits.test)
    plain = score_images(model, pgd(model, images, y, 0.25, n_steps=20), [score])[score]
    adaptive = AdaptiveAttack(model, 0.25, score=score, n_steps=40).attack(images, y)
    assert score_images(model, adaptive, [score])[score].median() < plain.median()


def test_mimicry_comes_closer_to_clean_scores(model, digits):
    images, y = (part[:150] for part in digits.test)
    clean = score_images(model, images)
    sets = (
        pgd(model, images, y, 0.25),
        AdaptiveAttack(model, 0.25, score="mimic").attack(images, y),
    )
    apart = []
    for attacked in sets:
        found = score_images(model, attacked)
        names = ("log_variation_ratio", "latent_variance", "inducing_distance")
        apart.append(
            np.mean([float((found[k] - clean[k]).abs().mean()) / float(clean[k].std()) for k in names])
        )
    assert apart[1] < apart[0]


def test_surrogate_bounds_the_ratio():
    generator = torch.Generator().manual_seed(0)
    mean = 6.0 * torch.randn(80, 5, generator=generator, dtype=torch.float64)
    output = HeadOutput(mean, 0.05 + torch.rand(80, 5, generator=generator).double(), torch.tensor(2.0))
    exact = score_rows(Rows(output), ["log_variation_ratio"])["log_variation_ratio"]
    bound = SURROGATES["log_variation_ratio"](Rows(output))
    assert (bound >= exact - 1e-4).all()
    certain = exact < -10.0
    assert certain.sum() > 10
    assert (bound - exact)[certain].max() < 2.5


def test_every_score_has_a_gradient_to_follow(model, digits):
    images, _ = digits.test
    assert set(SURROGATES) == set(SCORES)
    for name, function in SURROGATES.items():
        x = images[:5].clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(function(model.rows(x)).sum(), x)
        assert torch.isfinite(slope).all(), name
        assert (slope.abs().amax((1, 2, 3)) > 0).all(), name


def test_attacks_leave_the_model_alone(hybrid, digits):
    model = ImageModel(copy.deepcopy(hybrid.network_), copy.deepcopy(hybrid.head_))
    model.zero_grad()
    images, y = (part[:20] for part in digits.test)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    AdaptiveAttack(model, 0.1, n_steps=3).attack(images, y)
    pgd(model, images, y, 0.1, n_steps=3)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_arguments_are_checked(model, digits):
    images, y = (part[:5] for part in digits.test)
    with pytest.raises(ValueError, match="divide by 255"):
        fgsm(model, images * 255, y, 0.1)
    with pytest.raises(ValueError, match="shape"):
        fgsm(model, images[:, 0], y, 0.1)
    with pytest.raises(ValueError, match="shape"):
        pgd(model, images, y[:3], 0.1)
    with pytest.raises(ValueError, match="negative"):
        pgd(model, images, y, -0.1)
    words = "y has class 10, but the model has classes 0 to 9"
    with pytest.raises(ValueError, match=words):
        fgsm(model, images, torch.full_like(y, 10), 0.1)
    with pytest.raises(ValueError, match=words):
        AdaptiveAttack(model, 0.1, n_steps=1).generate(images, torch.full_like(y, 10))
    with pytest.raises(ValueError, match="surprise"):
        AdaptiveAttack(model, 0.1, score="surprise")
    with pytest.raises(ValueError, match="n_steps"):
        AdaptiveAttack(model, 0.1, n_steps=0)
    softmax = ImageModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    with pytest.raises(ValueError, match="no score 'latent_variance'"):
        AdaptiveAttack(softmax, 0.1, score="latent_variance").attack(images, y)


def test_the_margin_that_is_lowered_is_the_one_that_is_judged():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(80, 5, generator=generator, dtype=torch.float64)
    variance = torch.rand(80, 5, generator=generator).double().square() + 0.01
    rows = Rows(HeadOutput(mean, variance, torch.tensor(2.0)))
    exact = score_rows(rows, ["standardised_margin"])["standardised_margin"]
    assert torch.allclose(SURROGATES["standardised_margin"](rows), exact)
