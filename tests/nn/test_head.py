"""The head as a layer: gradients, precision, saving, starting, and failing loudly."""

import copy
import math
from typing import ClassVar

import pytest
import torch
from torch import nn

from bayesvm._core import gaussian
from bayesvm.nn import BayesianSVMHead, HeadError, HeadOutput
from bayesvm.nn import _bound as features_module
from bayesvm.nn import _bound as pairs
from tests.nn.heads import plain_value, posterior_of
from tests.problems import generator, labels, normal


def _trained(steps=5, dtype=torch.float64, **options):
    """A head after some steps on fixed features."""
    X, y = normal(48, 6, seed=1).to(dtype), labels(48, 4, seed=2)
    X = X + 2.0 * normal(4, 6, seed=3).to(dtype)[y]
    head = BayesianSVMHead(6, 4, 8, **options).to(dtype)
    head.initialise(X, y)
    optimiser = torch.optim.SGD(head.parameters(), 0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        head.loss(X, y, 200).backward()
        optimiser.step()
    return head, X, y


def _plain_loss(head, X, classes, m, S, kl, n_total):
    """The loss by the shortest way, through torch's own factorisation."""
    if head.normalise:
        X = (X - X.mean(1, keepdim=True)) / (X.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    variance, scale = head.log_variance.exp(), head.log_length_scale.exp()

    def k(a, b):
        return variance * torch.exp(-0.5 * (a[:, None, :] - b[None]).square().sum(-1) / scale**2)

    K = k(head.points, head.points)
    jitter = features_module.JITTER * K.detach().diagonal().mean()
    L = torch.linalg.cholesky(K + jitter * torch.eye(K.shape[0], dtype=K.dtype))
    A = torch.linalg.solve_triangular(L, k(head.points, X), upper=False).mT
    residual = variance - A.square().sum(1)
    return kl / n_total - plain_value(A, residual, m, S, classes).mean()


@pytest.mark.parametrize("posterior", ["natural", "gradient"])
@pytest.mark.parametrize("normalise", [True, False])
def test_loss_and_gradients_are_those_of_plain_code(posterior, normalise):
    head, X, y = _trained(posterior=posterior, normalise=normalise)
    seen = []
    terms = head.q.terms

    def spy(*args):
        found = terms(*args)
        seen.append(found[0].rows.classes)
        return found

    head.q.terms = spy
    X0, X1 = (X.clone().requires_grad_() for _ in range(2))
    head.eval()  # q stays where it is
    head.zero_grad()
    loss = head.loss(X0, y, 200)
    loss.backward()
    own = {name: p.grad.clone() for name, p in head.named_parameters()}
    head.zero_grad()
    q = head.q.posterior()
    plain = _plain_loss(head, X1, seen[0], q.m, q.S, head.kl(), 200)
    plain.backward()
    torch.testing.assert_close(loss, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(X0.grad, X1.grad, rtol=1e-6, atol=1e-8)
    for name, p in head.named_parameters():
        # An entry above the diagonal of a triangular factor has no effect.
        torch.testing.assert_close(own[name], p.grad, rtol=1e-6, atol=1e-8, msg=lambda s, n=name: f"{n}: {s}")


class _Loss(nn.Module):
    def __init__(self, head, n_total=200):
        super().__init__()
        self.head, self.n_total = head, n_total

    def forward(self, X, y):
        return self.head.loss(X, y, self.n_total)


def test_moments_and_divergence_are_those_of_the_core():
    for posterior in ("natural", "gradient"):
        head, X, _ = _trained(posterior=posterior)
        m, S = posterior_of(head)
        q = gaussian.Gaussian(m, torch.linalg.cholesky(torch.linalg.inv(S)))
        kl = gaussian.kl(q, gaussian.prior(4, 8, m)).sum()
        torch.testing.assert_close(head.kl().detach(), kl, rtol=1e-9, atol=1e-9)
        output = head.eval()(X)
        with torch.no_grad():
            rows = head._whitened(X)
        torch.testing.assert_close(output.mean.detach(), gaussian.mean(q, rows.A), rtol=1e-9, atol=1e-9)
        s2 = gaussian.variance(q, rows.A) + rows.residual[:, None]
        torch.testing.assert_close(output.variance.detach(), s2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("posterior", ["natural", "gradient"])
def test_inside_autocast_the_head_keeps_single_precision(posterior):
    head, X, y = _trained(dtype=torch.float32, posterior=posterior)
    network = nn.Linear(6, 6)
    other = copy.deepcopy(head)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = network(X)
        assert features.dtype == torch.bfloat16
        loss = head.loss(features, y, 200)
        output = head.eval()(features)
    loss.backward()
    assert loss.dtype == output.mean.dtype == torch.float32
    assert all(b.dtype in (torch.float32, torch.long, torch.bool) for b in head.buffers())
    torch.testing.assert_close(loss, other.loss(features.detach().float(), y, 200), rtol=1e-6, atol=1e-6)
    assert torch.isfinite(network.weight.grad).all()
    assert torch.isfinite(output.mean).all()
    assert torch.isfinite(output.variance).all()


def _compiled_equals_eager(backend):
    head, X, y = _trained(dtype=torch.float32)
    other = copy.deepcopy(head)
    compiled = torch.compile(_Loss(head), backend=backend)
    for step in range(3):
        X0, X1 = X.clone().requires_grad_(), X.clone().requires_grad_()
        one, two = compiled(X0, y), other.loss(X1, y, 200)
        one.backward()
        two.backward()
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5, msg=lambda s, k=step: f"step {k}: {s}")
        torch.testing.assert_close(X0.grad, X1.grad, rtol=1e-3, atol=1e-5)
    for a, b in zip(posterior_of(head), posterior_of(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["natural", "lazy", "gradient"])
def test_a_step_never_asks_the_device_for_a_number(kind, monkeypatch):
    """Nor for a shape that depends on numbers: both would wait."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        seen: ClassVar[set[str]] = set()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    if kind == "lazy":
        monkeypatch.setattr(pairs, "DENSE_NUMBERS", 0)
    head, X, y = _trained(posterior="gradient" if kind == "gradient" else "natural", kl_warmup=9)
    monkeypatch.setattr("bayesvm.nn._head.may_wait", lambda: False)
    with Names() as names:
        head.loss(X.clone().requires_grad_(), y, 200).backward()
    assert "linalg_cholesky_ex" in names.seen
    assert not names.seen & {
        "_local_scalar_dense",
        "nonzero",
        "unique_dim",
        "_unique2",
        "masked_select",
        "bincount",
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_steps_are_the_same():
    import shutil

    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no compiler")
    _compiled_equals_eager("inductor")


@pytest.mark.parametrize("kind", ["natural", "lazy", "gradient"])
def test_state_dict_holds_everything(kind, monkeypatch, tmp_path):
    if kind == "lazy":
        monkeypatch.setattr(pairs, "DENSE_NUMBERS", 0)
    posterior = "gradient" if kind == "gradient" else "natural"
    head, X, y = _trained(posterior=posterior, kl_warmup=10)
    head.temperature.fill_(3.0)
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other = BayesianSVMHead(6, 4, 8, posterior=posterior, kl_warmup=10).double()
    assert not other.initialised
    other.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    assert other.initialised
    for _ in range(3):  # it goes on as if nothing had happened
        torch.testing.assert_close(other.loss(X, y, 200), head.loss(X, y, 200), rtol=0.0, atol=0.0)
    one, two = head.eval()(X), other.eval()(X)
    torch.testing.assert_close(one.mean, two.mean, rtol=0.0, atol=0.0)
    torch.testing.assert_close(one.probabilities(), two.probabilities(), rtol=0.0, atol=0.0)


def test_predictions_follow_every_change_of_q():
    """They keep a factorisation, and must notice when it is no longer that of q."""
    head, X, y = _trained()
    before = head.eval()(X).mean.detach().clone()
    head.train().loss(X, y, 200)
    moved = head.eval()(X).mean.detach().clone()
    assert (moved - before).abs().max() > 1e-6
    head.load_state_dict(_trained()[0].state_dict())
    torch.testing.assert_close(head(X).mean.detach(), before)
    single = head.float()(X.float())
    assert single.mean.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), before, rtol=1e-3, atol=1e-3)


def test_evaluation_moves_nothing():
    head, X, y = _trained()
    state = {k: v.clone() for k, v in head.state_dict().items()}
    head.eval()
    head.loss(X, y, 200)
    head(X)
    assert all(torch.equal(v, state[k]) for k, v in head.state_dict().items())


def test_the_start_comes_from_the_features():
    X, y = normal(300, 6, seed=5), labels(300, 4, seed=6)
    head = BayesianSVMHead(6, 4, 8, normalise=False).double()
    head.initialise(X)
    assert head.initialised
    distance = torch.cdist(X, X)[torch.triu(torch.ones(300, 300), 1).bool()].median()
    assert float(head.log_length_scale.detach().exp()) == pytest.approx(float(distance), rel=0.02)
    # Centres are closer to rows than as many rows drawn at random are.
    nearest = torch.cdist(X, head.points.detach()).amin(1).mean()
    assert nearest < torch.cdist(X, X[:8]).amin(1)[8:].mean()
    assert float(head.kl()) == pytest.approx(0.0, abs=1e-9)
    ridge = BayesianSVMHead(6, 4, 8, normalise=False).double()
    ridge.initialise(X, y)
    assert float(ridge.kl()) > 1.0


def test_the_first_batch_starts_a_head_that_nobody_started():
    X, y = normal(20, 6, seed=5), labels(20, 4, seed=6)
    head = BayesianSVMHead(6, 4, 32)  # more points than rows
    points = head.points.detach().clone()
    head.loss(X.float(), y, 100)
    assert head.initialised
    assert not torch.equal(points, head.points)
    assert torch.isfinite(head.points).all()
    other = BayesianSVMHead(6, 4, 32)
    other.initialise(X.float(), y)
    torch.testing.assert_close(other.points, head.points)


def test_same_seed_same_result_and_other_seed_another():
    results = [posterior_of(_trained(seed=seed)[0])[0] for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("posterior", ["natural", "gradient"])
def test_features_that_are_not_finite_are_reported_and_leave_q_alone(posterior):
    head, X, y = _trained(posterior=posterior)
    before = [t.clone() for t in posterior_of(head)]
    bad = X.clone()
    bad[3, 2] = math.nan
    with pytest.raises(HeadError, match="learning rate"):
        head.loss(bad, y, 200)
    for a, b in zip(before, posterior_of(head), strict=True):
        assert torch.isfinite(b).all()
        torch.testing.assert_close(a, b)
    head.check()  # said once
    assert torch.isfinite(head.loss(X, y, 200))
    with pytest.raises(HeadError, match="not finite"):
        head.eval()(bad)


def test_where_the_host_may_not_look_trouble_is_kept_for_the_check(monkeypatch):
    head, X, y = _trained()
    monkeypatch.setattr("bayesvm.nn._head.may_wait", lambda: False)
    head.loss(X * math.inf, y, 200)
    for t in posterior_of(head):
        assert torch.isfinite(t).all()
    head.loss(X, y, 200)
    with pytest.raises(HeadError, match="not finite"):
        head.check()
    head.check()


@pytest.mark.parametrize("posterior", ["natural", "gradient"])
def test_a_rate_that_diverges_is_reported(posterior):
    torch.manual_seed(0)
    X, y = torch.randn(64, 6), labels(64, 4, seed=2)
    network, head = nn.Linear(6, 6), BayesianSVMHead(6, 4, 8, posterior=posterior, normalise=False)
    optimiser = torch.optim.SGD([*network.parameters(), *head.parameters()], 1e6)

    def train():
        for _ in range(300):
            optimiser.zero_grad()
            head.loss(network(X), y, 64).backward()
            optimiser.step()
        head.check()

    with pytest.raises(HeadError, match="rate"):
        train()


@pytest.mark.parametrize(
    ("shift", "advice"), [(1e3, "far from all inducing points"), (0.0, "dead activation")]
)
def test_a_stuck_head_is_reported(shift, advice):
    X, y = normal(64, 6, seed=1), labels(64, 4, seed=2)
    head = BayesianSVMHead(6, 4, 8, normalise=False).double()
    head.initialise(X)
    stuck = X + shift if shift else X.mean(0).expand_as(X)
    for _ in range(190):
        head.loss(stuck, y, 64)
    head.check()  # too early to tell
    for _ in range(30):
        head.loss(stuck, y, 64)
    with pytest.raises(HeadError, match=advice):
        head.check()


def test_random_labels_are_no_stuck_head():
    X = normal(64, 6, seed=1)
    head = BayesianSVMHead(6, 4, 8).double()
    for step in range(250):
        head.loss(X, labels(64, 4, seed=step), 64)
    head.check()


@pytest.mark.parametrize("bad", ["same", "nan", "one"])
def test_a_start_from_nothing_is_refused(bad):
    X = {"same": torch.ones(10, 6), "nan": torch.full((10, 6), math.nan), "one": torch.randn(1, 6)}[bad]
    with pytest.raises(HeadError, match={"same": "same", "nan": "finite", "one": "more"}[bad]):
        BayesianSVMHead(6, 3, 4).initialise(X)


@pytest.mark.parametrize(
    "options",
    [
        {"n_classes": 1},
        {"n_inducing": 0},
        {"posterior": "exact"},
        {"rivals": "all"},
        {"damping": 0.0},
        {"damping": 1.5},
        {"kl_warmup": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        BayesianSVMHead(**{"in_features": 4, "n_classes": 3, **options})


def test_factorising_in_double_precision_is_worth_it():
    """Points on a plane, as trained features nearly are: single precision is many times less exact."""
    plane = torch.randn(2, 50, generator=generator(0))
    head = BayesianSVMHead(50, 3, 64, normalise=False)
    with torch.no_grad():
        head.points.copy_(torch.randn(64, 2, generator=generator(1)) @ plane)
    X = torch.randn(30, 2, generator=generator(2)) @ plane
    exact = copy.deepcopy(head).double()._whitened(X.double()).A.detach()
    A = head._whitened(X).A.detach()
    params = head._params()
    K = head.kernel.cross(params, head.points, head.points).detach()
    L = torch.linalg.cholesky(K + features_module.JITTER * torch.eye(64))
    single = torch.linalg.solve_triangular(
        L, head.kernel.cross(params, X, head.points).detach().mT, upper=False
    )
    error, single_error = ((t - exact).abs().max() for t in (A, single.mT))
    assert error < 1e-3
    assert single_error > 10 * error


def test_it_learns_with_its_network():
    """A ring inside a ring: no linear layer on the inputs could tell them apart."""
    torch.manual_seed(0)
    angle = 6.28 * torch.rand(400)
    y = torch.arange(400) % 2
    X = torch.stack([angle.cos(), angle.sin()], 1) * (1.0 + y)[:, None] + 0.1 * torch.randn(400, 2)
    for posterior in ("natural", "gradient"):
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 8))
        head = BayesianSVMHead(8, 2, 16, posterior=posterior)
        optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], 1e-2)
        for step in range(200):
            index = torch.randint(400, (64,), generator=generator(step))
            optimiser.zero_grad()
            head.loss(network(X[index]), y[index], 400).backward()
            optimiser.step()
        head.check()
        output = head.eval()(network(X))
        assert isinstance(output, HeadOutput)
        assert float((output.predict() == y).float().mean()) > 0.97
