"""The natural step against the core's own, coordinate ascent, plain loops and natural gradients."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import pair_bound
from bayesvm._inference.rivals import OneRival
from bayesvm._inference.task import evaluate
from bayesvm.nn import BayesianSVMHead
from bayesvm.nn import _bound as pairs
from bayesvm.nn._posterior import LazyPosterior
from tests.inference.bounds import gradient, settle
from tests.nn.heads import (
    classes_of,
    head_on,
    plain_features,
    plain_value,
    posterior_of,
    set_natural,
    values_of,
)
from tests.problems import classification_rows, generator, labels, normal


@pytest.fixture
def many(monkeypatch):
    """Treat any number of classes as many."""
    monkeypatch.setattr(pairs, "DENSE_NUMBERS", 0)


def _state(rows, rule, sweeps=3):
    base = Natural.prior(rows.n_classes, rows.Lz)
    state, q = base.posterior(True)
    for sweep in range(sweeps):
        state, q = state.towards(evaluate(rows, rule, q, base, sweep).target, 0.5).posterior(True)
    return base, state, q


@pytest.mark.parametrize("rivals", ["mean", "sampled"])
def test_step_is_that_of_plain_loops(rivals):
    rows = classification_rows(40, 5, 6, seed=2)
    head = head_on(rows, rivals=rivals, damping=0.2)
    seen = classes_of(head)
    A, residual = (t.detach() for t in plain_features(head, rows.X))
    precision = torch.eye(6, dtype=torch.float64).repeat(5, 1, 1)
    linear = torch.zeros(5, 6, dtype=torch.float64)
    for step in range(4):
        loss = head.loss(rows.X[:16], rows.y[:16], 40)
        S = torch.linalg.inv(precision)
        m = (S @ linear[:, :, None])[:, :, 0]
        m = m - m.mean(0)
        linear = (precision @ m[:, :, None])[:, :, 0]
        total = torch.zeros(())
        new_precision, new_linear = torch.eye(6).double().repeat(5, 1, 1), torch.zeros(5, 6).double()
        for n, (y, t) in enumerate(seen[step].tolist()):
            assert y == rows.y[n] != t
            F, s2 = m @ A[n], torch.einsum("p,cpq,q->c", A[n], S, A[n]) + residual[n]
            pair = pair_bound(F[None, [y, t]], s2[None, [y, t]])
            for j, slope, w in zip((y, t), pair.slope[0], pair.W[0], strict=True):
                new_precision[j] += 40 / 16 * w * torch.outer(A[n], A[n])
                new_linear[j] += 40 / 16 * (slope + w * F[j]) * A[n]
            total = total + pair.value[0]
        kl = 0.5 * (S.diagonal(dim1=1, dim2=2).sum() + m.square().sum() - 30 + torch.logdet(precision).sum())
        torch.testing.assert_close(loss.detach(), kl / 40 - total / 16, rtol=1e-9, atol=1e-9)
        precision, linear = torch.lerp(precision, new_precision, 0.2), torch.lerp(linear, new_linear, 0.2)
    m, S = posterior_of(head)
    expected = torch.linalg.solve(precision, linear)
    torch.testing.assert_close(m, expected - expected.mean(0), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(S, torch.linalg.inv(precision), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n_classes", "rivals"), [(3, "mean"), (2, "sampled")])
def test_steps_on_all_rows_converge_to_coordinate_ascent(n_classes, rivals):
    """With two classes there is only one rival, however it is chosen; this problem does not cycle."""
    rows = classification_rows(50, n_classes, 6, seed=25)
    head = head_on(rows, rivals=rivals, damping=0.2)
    q = settle(rows, OneRival(sampled=False), n_classes, steps=150)
    for _ in range(300):
        head.loss(rows.X, rows.y, 50)
    before, _ = posterior_of(head)
    head.loss(rows.X, rows.y, 50)
    m, S = posterior_of(head)
    torch.testing.assert_close(m, before, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(m, q.m, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(S, torch.cholesky_inverse(q.R), rtol=1e-6, atol=1e-6)


def test_warm_up_steps_along_the_natural_gradient_of_the_weighted_bound():
    rows = classification_rows(30, 3, 6, seed=4)
    head = head_on(rows, rivals="mean", damping=0.25, kl_warmup=4)
    _, state, q = _state(rows, OneRival(sampled=False))
    set_natural(head, state)
    seen = classes_of(head)
    beta = 0.25  # the first of four steps
    kl = gaussian.kl(q, gaussian.prior(3, 6, q.m)).sum()
    loss = head.loss(rows.X, rows.y, 30)

    def value(F, s2):
        F, s2 = F.gather(1, seen[0]), s2.gather(1, seen[0])
        return pair_bound(F, s2).value

    A, residual = plain_features(head, rows.X)
    plain = plain_value(A, residual, q.m, torch.cholesky_inverse(q.R), seen[0])
    torch.testing.assert_close(loss, (beta * kl - plain.sum()) / 30, rtol=1e-9, atol=1e-9)
    # beta KL - value is beta times the bound of rows that weigh 1 / beta.
    rows.weight.fill_(1.0 / beta)
    by_m, by_S = (beta * g for g in gradient(rows, value, q))
    precision = state.precision - 2.0 * 0.25 * by_S
    linear = state.linear + 0.25 * (by_m - 2.0 * (by_S @ q.m[:, :, None])[:, :, 0])
    eye = torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(head.q.excess, precision - eye, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(head.q.linear, linear, rtol=1e-8, atol=1e-8)
    weights = []
    for _ in range(4):
        weights.append(float(head._kl_weight()))
        head.loss(rows.X, rows.y, 30)
    assert weights == [0.5, 0.75, 1.0, 1.0]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("rivals", "warmup"), [("mean", 0), ("sampled", 0), ("sampled", 6)])
def test_lazy_decay_is_what_eager_decay_is_where_it_is_looked_at(rivals, warmup):
    C, P = 12, 5
    rows = classification_rows(48, C, P, seed=6)
    head = head_on(rows, rivals=rivals, damping=0.2, kl_warmup=warmup)
    assert isinstance(head.q, LazyPosterior)
    head.q.wake(head._draw(0))
    seen, values = classes_of(head), values_of(head)
    A, residual = (t.detach() for t in plain_features(head, rows.X))
    excess, linear = torch.zeros(C, P, P).double(), torch.zeros(C, P).double()
    eye = torch.eye(P, dtype=torch.float64)
    touched_at, rested = torch.zeros(C, dtype=torch.long), 0
    for step in range(10):
        index = torch.randperm(48, generator=generator(step))[:3]
        beta = min(1.0, (step + 1) / warmup) if warmup else 1.0
        head.loss(rows.X[index], rows.y[index], 48)
        S = torch.linalg.inv(eye + excess)
        m = (S @ linear[:, :, None])[:, :, 0]
        F, V = A[index] @ m.mT, torch.einsum("np,cpq,nq->nc", A[index], S, A[index])
        s2 = V + residual[index][:, None]
        F, s2 = F.gather(1, seen[step]), s2.gather(1, seen[step])
        pair = pair_bound(F, s2)
        # What a row touches is up to date, however long it rested.
        torch.testing.assert_close(values[step], pair.value, rtol=1e-9, atol=1e-9)
        rested = max(rested, int((step - touched_at)[seen[step]].max()))
        touched_at[seen[step].reshape(-1)] = step
        excess, linear = (1.0 - 0.2 * beta) * excess, (1.0 - 0.2 * beta) * linear
        for n in range(3):
            for j, slope, w, f in zip(seen[step][n], pair.slope[n], pair.W[n], F[n], strict=True):
                a = A[index[n]]
                excess[j] += 0.2 * 16.0 * w * torch.outer(a, a)
                linear[j] += 0.2 * 16.0 * (slope + w * f) * a
    assert rested > 3
    m, S = posterior_of(head)
    expected = torch.linalg.inv(eye + excess)
    torch.testing.assert_close(S, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(m, (expected @ linear[:, :, None])[:, :, 0], rtol=1e-9, atol=1e-9)
    output = head.eval()(rows.X)
    torch.testing.assert_close(output.mean, A @ m.mT, rtol=1e-9, atol=1e-9)
    q = gaussian.from_natural(eye + excess, linear)
    kl = gaussian.kl(q, gaussian.prior(C, P, q.m)).sum()
    torch.testing.assert_close(head.kl(), kl, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("many")
def test_a_full_lazy_step_forgets_everything_and_stays_finite():
    X, y = normal(40, 7, seed=1), labels(40, 12, seed=2)
    heads = [BayesianSVMHead(7, 12, 5, damping=1.0, rivals="mean").double() for _ in range(2)]
    for head in heads:
        head.initialise(X)
    heads[0].loss(X[:4], y[:4], 40)  # one of them has something to forget
    for head in heads:
        with torch.no_grad():
            head.q.functions.zero_()
        seen = classes_of(head)
        head.loss(X[4:8], y[4:8], 40)
    rested = torch.ones(12, dtype=torch.bool).index_fill_(0, seen[0].reshape(-1), False)
    for head in heads:
        m, S = posterior_of(head)
        assert torch.isfinite(m).all()
        torch.testing.assert_close(m[rested], torch.zeros_like(m[rested]))
        torch.testing.assert_close(S[rested], torch.eye(5).double().expand(int(rested.sum()), 5, 5))


@pytest.mark.parametrize("posterior", ["natural", "lazy", "gradient"])
def test_parts_of_a_batch_are_the_batch(posterior, monkeypatch):
    """Also with drawn rivals: a draw belongs to a place in the whole batch."""
    if posterior == "lazy":
        monkeypatch.setattr(pairs, "DENSE_NUMBERS", 0)
    kind = "gradient" if posterior == "gradient" else "natural"
    X, y = normal(40, 7, seed=1), labels(40, 6, seed=2)
    heads = [BayesianSVMHead(7, 6, 5, posterior=kind, seed=3).double() for _ in range(2)]
    for head in heads:
        head.initialise(X, y)
    parts = (slice(0, 20), slice(20, 40)) if posterior != "lazy" else (slice(0, 13), slice(13, 40))
    for _ in range(3):
        X0, X1 = (X.clone().requires_grad_() for _ in range(2))
        whole = heads[0].loss(X0, y, 100)
        whole.backward()
        total = 0.0
        for i, part in enumerate(parts):
            share = (part.stop - part.start) / 40
            loss = share * heads[1].loss(X1[part], y[part], 100, step=i == 1)
            loss.backward()
            total = total + loss.detach()
        torch.testing.assert_close(total, whole.detach(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(X1.grad, X0.grad, rtol=1e-9, atol=1e-10)
    for one, two in zip(heads[0].parameters(), heads[1].parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-9, atol=1e-10)
    for one, two in zip(*map(posterior_of, heads), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-10)


def test_draws_change_from_step_to_step_and_spread_over_rivals():
    X, y = normal(64, 5, seed=1), torch.zeros(64, dtype=torch.long)
    head = BayesianSVMHead(5, 8, 6).double()
    head.initialise(X)
    seen = classes_of(head)
    for _ in range(6):
        head.loss(X, y, 64)
    rivals = torch.stack([classes[:, 1] for classes in seen])
    assert not (rivals[0] == rivals[1]).all()
    # At the prior every rival is as likely as any other.
    counts = torch.bincount(rivals[:1].reshape(-1), minlength=8)
    assert counts[0] == 0
    assert (counts[1:] > 0).all()


def test_work_of_a_row_does_not_grow_with_the_number_of_classes():
    """Nothing but q itself has as many numbers as all its covariances; flops grow by latents alone."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            kept = {b.data_ptr() for b in head.q.buffers()}
            if isinstance(out, torch.Tensor) and out.data_ptr() not in kept:
                self.numbers = max(self.numbers, out.numel())
            return out

    N, D, P = 8, 6, 40
    flops = {}
    for C in (1000, 2000):
        head = BayesianSVMHead(D, C, P)
        assert isinstance(head.q, LazyPosterior)
        X, y = torch.randn(N, D, generator=generator(0)), labels(N, N, seed=1)
        head.initialise(torch.randn(50, D, generator=generator(2)))
        with FlopCounterMode(display=False) as counter, Largest() as largest:
            head.loss(X, y, 1000)
        flops[C] = counter.get_total_flops()
        assert largest.numbers < C * P**2 / 10
    # The draws of functions at 32 places, of which a batch may leave some empty.
    assert flops[2000] - flops[1000] == 2 * 32 * P * 1000
