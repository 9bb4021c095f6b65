"""Networks as estimators of adversarial-robustness-toolbox, which is the real one."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from bayesvm.adversarial import ImageModel
from bayesvm.adversarial._model import MixtureOutput, log_probabilities
from bayesvm_studies.images.heads import SoftmaxHead
from bayesvm_studies.images.networks import paper_mnist

art = pytest.importorskip("art")

from bayesvm.adversarial import ArtClassifier  # noqa: E402
from bayesvm.adversarial._estimator import LogOddsLoss  # noqa: E402


def softmax_network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 10))


def test_loss_gradient_is_that_of_minus_log_p_up_to_a_factor_per_row(classifier, model, digits):
    images, y = (part[:40] for part in digits.test)
    found = classifier.loss_gradient(images.numpy(), np.eye(10, dtype=np.float32)[y])
    x = images.clone().requires_grad_(True)
    loss = functional.nll_loss(model(x), y, reduction="none")
    (slope,) = torch.autograd.grad(loss.sum(), x)
    factor = -torch.expm1(-loss.detach())  # 1 - p
    expected = slope / factor.view(-1, 1, 1, 1).float() / len(y)
    assert found.shape == images.shape
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(found).max())


def test_loss_gradient_by_finite_differences(classifier, digits):
    x, y = digits.test_X[:6], digits.test_y[:6]
    found = classifier.loss_gradient(x, np.eye(10, dtype=np.float32)[y]) * len(y)
    rng = np.random.default_rng(0)
    for _ in range(5):
        direction = rng.choice([-1.0, 1.0], x.shape).astype(np.float32)
        h = 2e-3
        ends = [
            classifier.compute_loss(x + s * h * direction, np.eye(10, dtype=np.float32)[y]) for s in (1, -1)
        ]
        along = (found * direction).sum((1, 2, 3))
        assert np.allclose((ends[0] - ends[1]) / (2 * h), along, rtol=0.05, atol=0.02 * np.abs(found).sum())


def test_no_row_is_too_certain_to_be_attacked(classifier, digits):
    slopes = classifier.loss_gradient(digits.test_X, np.eye(10, dtype=np.float32)[digits.test_y])
    assert (np.abs(slopes).max((1, 2, 3)) > 1e-6).all()


def test_class_gradient(classifier, model, digits):
    x = torch.from_numpy(digits.test_X[:5]).requires_grad_(True)
    log_p = model(x)
    expected = np.stack(
        [torch.autograd.grad(log_p[:, j].sum(), x, retain_graph=True)[0].numpy() for j in range(10)], 1
    )
    found = classifier.class_gradient(digits.test_X[:5])
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    one = classifier.class_gradient(digits.test_X[:5], label=3)
    assert np.allclose(one, expected[:, 3:4], rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_predictions_are_log_probabilities_of_the_model(classifier, hybrid, digits):
    log_p = classifier.predict(digits.test_X)
    assert np.allclose(np.exp(log_p).sum(1), 1.0, atol=1e-5)
    own = hybrid.predict(digits.test_X)
    assert np.array_equal(classifier.classes(digits.test_X), own)
    assert (log_p.argmax(1) == own).mean() > 0.99  # near ties apart


@pytest.mark.parametrize("name", ["FastGradientMethod", "ProjectedGradientDescent", "DeepFool"])
def test_attacks_of_the_toolbox_run_unchanged(classifier, digits, name):
    import art.attacks.evasion as attacks

    n = 10 if name == "DeepFool" else 100  # which goes image by image
    x, y = digits.test_X[:n], digits.test_y[:n]
    options = {
        "FastGradientMethod": {"eps": 0.2},
        "ProjectedGradientDescent": {"eps": 0.2, "eps_step": 0.02, "max_iter": 10, "verbose": False},
        "DeepFool": {"max_iter": 10, "nb_grads": 3, "verbose": False},
    }
    attacked = getattr(attacks, name)(classifier, **options[name]).generate(x, y)
    assert attacked.min() >= 0.0
    assert attacked.max() <= 1.0
    clean, after = ((classifier.classes(images) == y).mean() for images in (x, attacked))
    assert after < clean - 0.3


def test_ensemble_averages_probabilities(digits):
    members = [softmax_network(seed) for seed in range(3)]
    classifier = ArtClassifier(members, input_shape=(1, 8, 8), n_classes=10)
    x = torch.from_numpy(digits.test_X[:20])
    mean = torch.stack([torch.softmax(member(x), 1) for member in members]).mean(0)
    assert np.allclose(np.exp(classifier.predict(digits.test_X[:20])), mean.detach(), atol=1e-6)
    assert set(classifier.scores(digits.test_X[:20])) >= {"mutual_information", "log_variation_ratio"}


def test_dropout_passes_are_averaged_and_always_the_same(digits):
    network = softmax_network(dropout=0.5)
    model = ImageModel(network, passes=8, seed=3)
    x = torch.from_numpy(digits.test_X[:20])
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = model.rows(x).output
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(first, MixtureOutput)
    assert first.members.shape == (20, 8, 10)
    assert torch.equal(first.members, model.rows(x).output.members)
    assert not torch.equal(first.members, ImageModel(network, passes=8, seed=4).rows(x).output.members)
    assert not network[3].training
    # Different passes, not one of them eight times.
    assert len({tuple(member.flatten().tolist()) for member in first.members.detach().unbind(1)}) == 8
    assert torch.allclose(model(x).exp(), first.members.exp().mean(1), atol=1e-6)


@pytest.mark.parametrize("kind", ["ensemble", "dropout", "softmax head", "logits"])
def test_every_kind_of_model_can_be_attacked(digits, kind):
    from art.attacks.evasion import FastGradientMethod

    arguments = {"input_shape": (1, 8, 8), "n_classes": 10}
    if kind == "ensemble":
        classifier = ArtClassifier([softmax_network(s) for s in (0, 1)], **arguments)
    elif kind == "dropout":
        classifier = ArtClassifier(softmax_network(dropout=0.3), passes=4, **arguments)
    elif kind == "softmax head":
        classifier = ArtClassifier(nn.Flatten(), SoftmaxHead(64, 10), **arguments)
    else:
        classifier = ArtClassifier(softmax_network(), **arguments)
    x = digits.test_X[:50]
    y = classifier.classes(x)
    attacked = FastGradientMethod(classifier, eps=0.1, batch_size=64).generate(x, y)
    losses = [classifier.compute_loss(images, np.eye(10, dtype=np.float32)[y]) for images in (x, attacked)]
    assert (losses[1] > losses[0]).all()


def test_networks_that_want_bytes(digits):
    torch.manual_seed(0)
    network, n_features = paper_mnist()
    head = SoftmaxHead(n_features, 10)
    x = torch.rand(3, 1, 28, 28)
    expected = head(network(255 * x)).log_probabilities()
    model = ImageModel(network, head, scale=255.0)
    assert torch.allclose(model(x), expected, atol=1e-6)
    moving = x.requires_grad_(True)
    (slope,) = torch.autograd.grad(model(moving)[:, 0].sum(), moving)
    assert slope.abs().max() > 0


def test_half_precision_is_near(hybrid, model, digits):
    half = ImageModel(hybrid.network_, hybrid.head_, precision="bf16")
    x = torch.from_numpy(digits.test_X[:50])
    with torch.no_grad():
        exact, rough = model.rows(x), half.rows(x)
    assert rough.features.dtype == torch.float32
    assert not torch.equal(exact.features, rough.features)
    assert (exact.output.probabilities() - rough.output.probabilities()).abs().mean() < 0.02


def test_a_plain_function_is_a_model():
    def network(images):
        return images.flatten(1)[:, :3]

    model = ImageModel(network)
    x = torch.rand(4, 1, 2, 2)
    assert torch.allclose(model(x), torch.log_softmax(x.flatten(1)[:, :3], 1))
    assert model.device.type == "cpu"


def test_soft_labels_are_compared_by_cross_entropy():
    log_p = torch.log_softmax(torch.randn(4, 3), 1)
    target = torch.softmax(torch.randn(4, 3), 1)
    assert torch.allclose(LogOddsLoss()(log_p, target), -(target * log_p).sum(1).mean())


def test_rows_keep_features_of_one_network_only(model, hybrid, digits):
    x = torch.from_numpy(digits.test_X[:4])
    rows = model.rows(x)
    assert rows.features.shape == (4, 32)
    assert rows.head is hybrid.head_
    both = ImageModel([hybrid.network_] * 2, [hybrid.head_] * 2).rows(x)
    assert both.features is None
    assert torch.allclose(log_probabilities(both.output), log_probabilities(rows.output))


def test_arguments_are_checked():
    network = softmax_network()
    for arguments, message in (
        ({"precision": "float16"}, "precision"),
        ({"passes": 0}, "passes"),
        ({"head": [nn.Identity()] * 2}, "1 networks and 2 heads"),
    ):
        with pytest.raises(ValueError, match=message):
            ImageModel(network, **arguments)
    with pytest.raises(ValueError, match="no dropout layer"):
        ImageModel(nn.Linear(2, 2), passes=4)
    with pytest.raises(ValueError, match="n_classes"):
        ArtClassifier(network, input_shape=(1, 8, 8), n_classes=1)


def test_without_the_toolbox_the_extra_is_named():
    program = (
        "import sys; sys.modules['art'] = None\n"
        "from bayesvm.adversarial import AdaptiveAttack, ImageModel, fgsm, roc_auc, score_images\n"
        "for name in ('ArtClassifier', 'ScoreDetector', 'CombinedDetector'):\n"
        "    try:\n"
        "        getattr(__import__('bayesvm.adversarial').adversarial, name)\n"
        "    except ImportError as error:\n"
        "        assert 'bayesvm[adversarial]' in str(error), error\n"
        "    else:\n"
        "        raise SystemExit(name)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
