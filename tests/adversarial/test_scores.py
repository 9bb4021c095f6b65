"""Scores against hand-computed cases, and without ties where a row is certain."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from bayesvm.adversarial import SCORES, _scores, score_images
from bayesvm.adversarial._model import MixtureOutput, Rows, member_log_probabilities
from bayesvm.adversarial._scores import score_rows
from bayesvm.nn import BayesianSVMHead, HeadOutput
from bayesvm_studies.images.heads import SoftmaxOutput


def head_output(mean, variance, temperature=2.0):
    mean = torch.as_tensor(mean, dtype=torch.float64)
    return HeadOutput(mean, torch.as_tensor(variance).to(mean).expand_as(mean), torch.tensor(temperature))


def random_output(n=40, C=5, seed=0, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    mean = spread * torch.randn(n, C, generator=generator, dtype=torch.float64)
    return head_output(mean, 0.05 + torch.rand(n, C, generator=generator))


def test_two_classes_by_hand():
    """One difference of two Gaussians: everything about its sign is known."""
    output = head_output([[1.0, 0.0], [20.0, 0.0], [0.0, 60.0]], 0.5)
    z = np.array([1.0, 20.0, 60.0])  # the difference has variance one
    found = score_rows(Rows(output))
    assert np.allclose(found["log_variation_ratio"], norm.logcdf(-z), rtol=1e-4)
    assert np.allclose(found["variation_ratio"], found["log_variation_ratio"].exp())
    assert np.allclose(found["standardised_margin"], -z)
    assert np.allclose(found["latent_variance"], 0.5)


def test_mutual_information_is_a_difference_of_entropies():
    """Exactly so over the nodes that it averages over; on average these come close to the integral."""
    output = replace(random_output(), spread=torch.tensor(1.7, dtype=torch.float64))
    found = score_rows(Rows(output), ["mutual_information", "entropy"])
    members, w = member_log_probabilities(output)
    p, w = members.exp(), w.to(members)
    mean = torch.einsum("s,nsc->nc", w, p)
    difference = torch.special.entr(mean).sum(1) - torch.special.entr(p).sum(2) @ w
    assert torch.allclose(found["mutual_information"], difference, atol=1e-12)
    assert (found["mutual_information"] - output.mutual_information()).abs().mean() < 0.02
    assert torch.allclose(found["entropy"], torch.special.entr(mean).sum(1))


def test_mutual_information_of_members_by_hand():
    p = torch.tensor([[[0.9, 0.1], [0.1, 0.9]], [[0.7, 0.3], [0.7, 0.3]]], dtype=torch.float64)
    found = score_rows(Rows(MixtureOutput(p.log())), ["mutual_information"])["mutual_information"]
    inside = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert np.allclose(found, [np.log(2.0) - inside, 0.0], atol=1e-15)


def test_mutual_information_of_certain_rows_is_not_rounded_away():
    leads = torch.linspace(5.0, 40.0, 30, dtype=torch.float64)
    mean = torch.stack([leads, 0 * leads, 0 * leads], 1)
    found = score_rows(Rows(head_output(mean, 0.3)), ["mutual_information"])["mutual_information"]
    assert (found > 0).all()
    assert (found.diff() < 0).all()  # the more certain, the less


def test_certain_rows_do_not_tie():
    """In single precision the ratio of most of these rows is zero."""
    leads = torch.linspace(1.0, 36.0, 200)
    mean = torch.stack([leads, 0 * leads, 0 * leads - 1], 1)
    output = HeadOutput(mean, torch.full((200, 3), 0.5), torch.tensor(2.0))
    assert len(output.variation_ratio().unique()) < 60
    found = score_rows(Rows(output))
    for name in ("variation_ratio", "log_variation_ratio", "standardised_margin", "entropy"):
        assert found[name].dtype == torch.float64
        assert (found[name].diff() < 0).all(), name


@pytest.mark.parametrize("normalise", [True, False])
def test_inducing_distance_by_brute_force(normalise):
    head = BayesianSVMHead(6, 3, n_inducing=4, normalise=normalise).eval()
    features = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    rows = Rows(head(features), features, head)
    found = score_rows(rows, ["inducing_distance"])["inducing_distance"]
    X = features.double().numpy()
    if normalise:
        X = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    Z, length = head.points.detach().double().numpy(), float(head.log_length_scale.detach().double().exp())
    expected = [min(np.linalg.norm(x - z) for z in Z) / length for x in X]
    assert np.allclose(found, expected, rtol=1e-6)


def test_a_small_step_by_brute_force(model, hybrid, digits):
    images, _ = digits.test
    x = images[:12].clone().requires_grad_(True)
    log_p = model(x)
    c = log_p.argmax(1)
    p = log_p.detach().gather(1, c[:, None])[:, 0].exp()
    (slope,) = torch.autograd.grad(log_p.gather(1, c[:, None]).sum(), x)
    with torch.no_grad():
        after = (x + slope.sign() / 255.0).clamp(0.0, 1.0)
        q = model(after).gather(1, c[:, None])[:, 0].exp()
        features = [hybrid.network_(part).double() for part in (x, after)]
    found = score_images(model, images[:12], ["step_response", "feature_shift"])
    uncertain = p < 1.0 - 1e-6  # where odds can be had from probabilities
    assert uncertain.sum() > 3
    expected = (q / (1.0 - q)).log() - (p / (1.0 - p)).log()
    assert torch.allclose(found["step_response"][uncertain], expected[uncertain], rtol=1e-3)
    shift = (features[1] - features[0]).norm(dim=1) / features[0].norm(dim=1)
    assert torch.allclose(found["feature_shift"], shift, rtol=1e-3)


def test_entropy_of_certain_rows_is_not_rounded():
    """Two members, a rival of probability e: e (1 - log e), exact although one minus e rounds to one."""
    for e in (1e-3, 1e-12, 1e-18, 1e-40):
        rival = np.log(e)
        members = torch.tensor([[[np.log1p(-e), rival], [np.log1p(-e), rival]]], dtype=torch.float64)
        found = score_rows(Rows(MixtureOutput(members)), ["entropy"])["entropy"]
        assert np.allclose(found, -e * rival - (1.0 - e) * np.log1p(-e), rtol=1e-13)


def test_rows_are_taken_apart_and_joined(model, digits):
    with torch.no_grad():
        rows = model.rows(digits.test[0][:9])
    again = Rows.joined([rows[:4], rows[4:]])
    assert torch.equal(again.output.mean, rows.output.mean)
    assert torch.equal(again.features, rows.features)
    assert torch.equal(again.images, rows.images)
    assert again.head is rows.head
    assert again.model is model


def test_a_step_needs_images():
    assert not {"step_response", "feature_shift"} & set(score_rows(Rows(random_output())))


def test_softmax_layers_leave_out_what_they_do_not_have():
    logits = torch.randn(9, 1, 4, generator=torch.Generator().manual_seed(0))
    found = score_rows(Rows(SoftmaxOutput(logits, torch.tensor(1.0))))
    assert set(found) == {"variation_ratio", "log_variation_ratio", "entropy", "standardised_margin"}
    several = SoftmaxOutput(logits.expand(-1, 3, -1), torch.tensor(1.0))
    assert "mutual_information" in score_rows(Rows(several))


def test_an_output_of_logits_scores_as_a_mixture():
    logits = torch.randn(9, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    temperature = torch.tensor(1.7, dtype=torch.float64)
    ours = score_rows(Rows(MixtureOutput(torch.log_softmax(1.7 * logits, 2))))
    theirs = score_rows(Rows(SoftmaxOutput(logits, temperature)))
    assert set(ours) == set(theirs)
    for name in ours:
        assert torch.allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-14), name


def test_blocks_change_nothing(monkeypatch, model, digits):
    with torch.no_grad():
        rows = model.rows(digits.test[0][:23])
    whole = score_rows(rows)
    assert set(whole) == set(SCORES)
    monkeypatch.setattr(_scores, "_BLOCK_NUMBERS", 128 * 10 * 4)
    for name, value in score_rows(rows).items():
        # What is asked of the network again is asked in single precision.
        again = name in ("step_response", "feature_shift")
        assert torch.allclose(value, whole[name], rtol=1e-2 if again else 1e-9, atol=0.0), name


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="surprise"):
        score_rows(Rows(random_output()), ["surprise"])


def test_images_are_scored_in_batches(model, digits):
    images, _ = digits.test
    whole = score_images(model, images[:60])
    assert set(whole) == set(SCORES)
    parts = score_images(model, images[:60], batch_size=25)
    for name, value in whole.items():
        assert value.shape == (60,)
        assert torch.isfinite(value).all()
        assert torch.allclose(value, parts[name], rtol=1e-3, atol=1e-6), name
    assert not any(value.requires_grad for value in whole.values())
