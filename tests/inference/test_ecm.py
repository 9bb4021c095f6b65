"""The mode: support vector machines by another road, with a certificate (eqs. 8.20 to 8.24)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.svm import LinearSVC

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import BinaryHinge, CrammerSingerMode, HingeMode, MulticlassHinge, OneVsRest
from bayesvm._inference import blocks, ecm
from bayesvm._inference import ecm as mode_problem
from bayesvm._inference.rivals import AllRivals, OneRival, RivalRule
from bayesvm._inference.task import Ascent, Member, Settings, Task
from bayesvm._progress import Step, silent
from tests.problems import DTYPE, all_features, classification_rows, normal, uniform
from tests.reference import gaussian_from_sites

BINARY = AllRivals(BinaryHinge())
EXACT = AllRivals(MulticlassHinge())


def _find(
    rows, mode, rule, n_latents, *, fitc=False, max_iter=100, tol=1e-2, base=None, progress=silent
) -> Ascent:
    base = Natural.prior(n_latents, rows.Lz) if base is None else base
    with torch.no_grad():
        return ecm.ascend(rows, mode, rule, base, base, fitc, max_iter, tol, progress)


def _svm_objective(rows, w) -> float:
    """Half the squared norm plus C = 2 times the hinge."""
    A, _ = all_features(rows)
    sign = 2.0 * rows.y - 1.0
    hinge = (1.0 - sign * (A @ torch.as_tensor(w))).clamp_min(0.0)
    return 0.5 * float(np.square(w).sum()) + 2.0 * float(rows.weight @ hinge)


def _crammer_singer_objective(rows, w) -> float:
    A, _ = all_features(rows)
    value = MulticlassHinge().log_likelihood(rows.y, A @ torch.as_tensor(w).mT)
    return 0.5 * float(np.square(w).sum()) - float(rows.weight @ value)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_binary_mode_is_the_support_vector_machine_without_bias(seed):
    rows = classification_rows(300, 2, 25, seed=seed)
    A, _ = all_features(rows)
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=2.0, tol=1e-9, max_iter=10**6)
    svm.fit(A.numpy(), rows.y.numpy(), sample_weight=rows.weight.numpy())
    best = _svm_objective(rows, svm.coef_[0])
    found = _find(rows, HingeMode(), BINARY, 1)
    objective = _svm_objective(rows, found.q.m[0].numpy())
    assert found.converged
    assert found.n_iter < 40
    assert objective <= best * (1.0 + 1e-5)
    assert found.gap >= objective / best - 1.0 - 1e-9  # the certificate holds
    assert found.gap <= 1e-5


def test_a_nearly_separable_problem_too():
    """Few rows matter and the objective is small: the hard case for plain EM."""
    rows = classification_rows(400, 2, 30, seed=3)
    rows = replace(rows, y=(rows.X[:, 0] > 0.1).long())
    A, _ = all_features(rows)
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=2.0, tol=1e-9, max_iter=10**6)
    best = _svm_objective(rows, svm.fit(A.numpy(), rows.y.numpy()).coef_[0])
    found = _find(rows, HingeMode(), BINARY, 1)
    assert _svm_objective(rows, found.q.m[0].numpy()) <= best * (1.0 + 1e-5)


@pytest.mark.parametrize("fitc", [False, True])
def test_plain_em_goes_to_the_same_mode(fitc):
    """The updates of Henao et al., eq. 8.20, with nothing added: monotone, slow, same end."""
    rows = classification_rows(60, 2, 8, seed=4, weight=uniform(60, seed=5, low=0.5, high=2.0))
    A, residual = all_features(rows)
    c = rows.weight
    s2 = (c * residual if fitc else torch.zeros_like(c))[:, None]
    m, objectives = torch.zeros(8, dtype=DTYPE), []
    for _ in range(3000):
        terms = HingeMode().row_terms(rows.y, (A @ m)[:, None], s2)
        objectives.append(float(c @ terms.value - 0.5 * m @ m))
        W, G = c * terms.W[:, 0], c * (terms.slope + terms.W * (A @ m)[:, None])[:, 0]
        m = torch.linalg.solve(torch.eye(8, dtype=DTYPE) + (A.mT * W) @ A, A.mT @ G)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(objectives))
    found = _find(rows, HingeMode(), BINARY, 1, fitc=fitc, tol=1e-4)
    F = A @ found.q.m.mT
    objective = float(c @ HingeMode().at(rows.y, F, s2[:, 0])[:, 0]) - 0.5 * float(found.q.m.square().sum())
    assert objective == pytest.approx(objectives[-1], rel=2e-4)
    assert objective >= objectives[-1] - 1e-5
    torch.testing.assert_close(found.q.m[0], m, atol=0.03, rtol=0.0)


def test_fitc_is_the_quadratic_programme_solved_by_scipy():
    rows = classification_rows(50, 2, 6, seed=6, weight=uniform(50, seed=7, low=0.5, high=2.0))
    A, residual = (t.numpy() for t in all_features(rows))
    c, sign = rows.weight.numpy(), 2.0 * rows.y.numpy() - 1.0
    k = c * residual  # c observations of one latent

    def negative_dual(alpha):
        v = A.T @ (c * sign * alpha)
        value = (c * alpha).sum() - 0.5 * (c * k * alpha**2).sum() - 0.5 * v @ v
        return -value, -(c - c * k * alpha - c * sign * (A @ v))

    solved = optimize.minimize(
        negative_dual,
        np.ones(50),
        jac=True,
        bounds=[(0.0, 2.0)] * 50,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    found = _find(rows, HingeMode(), BINARY, 1, fitc=True)
    F = torch.as_tensor(A) @ found.q.m.mT
    loss = -HingeMode().at(rows.y, F, torch.as_tensor(k))[:, 0]
    objective = 0.5 * float(found.q.m.square().sum()) + float(rows.weight @ loss)
    assert objective == pytest.approx(-solved.fun, rel=2e-5)
    assert abs(found.gap) <= 1e-5
    # the residual matters here: without it the mode is another one
    other = _find(rows, HingeMode(), BINARY, 1)
    assert float((other.q.m - found.q.m).abs().max()) > 0.05


def test_fitc_with_every_row_as_inducing_point_is_the_dense_model():
    rows = classification_rows(40, 2, 40, seed=8)
    a = _find(rows, HingeMode(), BINARY, 1, fitc=True, tol=1e-4)
    b = _find(rows, HingeMode(), BINARY, 1, fitc=False, tol=1e-4)
    A, _ = all_features(rows)
    torch.testing.assert_close(A @ a.q.m.mT, A @ b.q.m.mT, atol=1e-3, rtol=0.0)


def test_one_against_the_rest_is_that_many_machines():
    rows = classification_rows(150, 3, 20, seed=9)
    together = _find(rows, HingeMode(), AllRivals(OneVsRest(BinaryHinge())), 3)
    for j in range(3):
        alone = _find(replace(rows, y=(rows.y == j).long(), n_classes=2), HingeMode(), BINARY, 1)
        mine, theirs = together.q.m[j], alone.q.m[0]
        assert float((mine - theirs).norm() / theirs.norm()) < 2e-2
    assert together.converged


@pytest.mark.parametrize(("n", "n_classes", "seed"), [(200, 3, 0), (150, 5, 1), (120, 8, 2)])
def test_multiclass_mode_is_crammer_and_singers(n, n_classes, seed):
    rows = classification_rows(n, n_classes, 20, seed=seed)
    A, _ = all_features(rows)
    svm = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=2.0, tol=1e-7, max_iter=10**6)
    best = _crammer_singer_objective(rows, svm.fit(A.numpy(), rows.y.numpy()).coef_)
    found = _find(rows, CrammerSingerMode(), EXACT, n_classes, tol=1e-3)
    objective = _crammer_singer_objective(rows, found.q.m.numpy())
    assert found.converged
    assert found.gap <= 5e-6
    assert objective == pytest.approx(best, rel=2e-5)
    assert found.gap >= objective / best - 1.0 - 1e-8


@pytest.mark.parametrize("max_iter", [1, 3, 6, 10])
@pytest.mark.parametrize(
    ("mode", "rule", "n_classes"), [(HingeMode(), BINARY, 2), (CrammerSingerMode(), EXACT, 4)]
)
def test_the_certificate_holds_wherever_the_ascent_ends(max_iter, mode, rule, n_classes):
    rows = classification_rows(150, n_classes, 15, seed=10)
    n_latents = 1 if n_classes == 2 else n_classes
    best = _find(rows, mode, rule, n_latents, tol=1e-4)
    early = _find(rows, mode, rule, n_latents, max_iter=max_iter, tol=0.0)
    measure = (
        (lambda q: _svm_objective(rows, q.m[0].numpy()))
        if n_classes == 2
        else (lambda q: _crammer_singer_objective(rows, q.m.numpy()))
    )
    objective = measure(early.q)
    true_gap = (objective - measure(best.q)) / objective
    assert early.gap >= true_gap - 1e-9
    assert not early.converged
    assert early.n_iter == max_iter


@pytest.mark.parametrize(
    ("mode", "rule", "n_classes"), [(HingeMode(), BINARY, 2), (CrammerSingerMode(), EXACT, 4)]
)
def test_the_curve_rises_and_stays_below_the_objective(mode, rule, n_classes):
    rows = classification_rows(150, n_classes, 15, seed=11)
    found = _find(rows, mode, rule, 1 if n_classes == 2 else n_classes)
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(found.curve))
    A, _ = all_features(rows)
    F = A @ found.q.m.mT
    value = float(rows.weight @ mode.at(rows.y, F, torch.zeros_like(rows.weight)).sum(1))
    objective = value - 0.5 * float(found.q.m.square().sum())
    assert found.curve[-1] <= objective
    assert found.curve[-1] == pytest.approx(objective, rel=1e-4)


@pytest.mark.parametrize(
    ("mode", "rule", "n_classes"),
    [
        (HingeMode(), BINARY, 2),
        (HingeMode(), AllRivals(OneVsRest(BinaryHinge())), 3),
        (CrammerSingerMode(), EXACT, 3),
        (CrammerSingerMode(), OneRival(sampled=True), 3),
    ],
)
def test_sites_make_q_and_its_precision_is_the_variational_one(mode, rule: RivalRule, n_classes):
    rows = classification_rows(120, n_classes, 12, seed=12, weight=uniform(120, seed=13, low=0.5, high=2.0))
    J = 1 if n_classes == 2 else n_classes
    found = _find(rows, mode, rule, J)
    A, residual = all_features(rows)
    c = rows.weight[:, None]
    m, S = gaussian_from_sites(A, c * found.sites.W, c * found.sites.G)
    torch.testing.assert_close(found.q.m, m, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(torch.cholesky_inverse(found.q.R), S, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(found.natural.linear, Natural.of(found.q).linear)
    if isinstance(rule, AllRivals):
        s2 = gaussian.variance(found.q, A) + residual[:, None]
        W = rule.likelihood.row_terms(rows.y, A @ found.q.m.mT, s2).W
        torch.testing.assert_close(found.sites.W, W, atol=0.02, rtol=0.02)


def test_weight_is_repetition_and_order_is_nothing():
    weight = torch.ones(80, dtype=DTYPE)
    weight[:20] = 3.0
    rows = classification_rows(80, 3, 10, seed=14, weight=weight)
    again = torch.cat([torch.arange(80), torch.arange(20), torch.arange(20)]).flip(0)
    repeated = replace(
        rows,
        X=rows.X[again],
        y=rows.y[again],
        key=rows.key[again],
        weight=torch.ones(120, dtype=DTYPE),
        unit=torch.ones(120, dtype=DTYPE),
    )
    rule = AllRivals(OneVsRest(BinaryHinge()))
    a, b = (_find(r, HingeMode(), rule, 3) for r in (rows, repeated))
    torch.testing.assert_close(a.q.m, b.q.m, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(a.q.R, b.q.R, atol=1e-9, rtol=1e-9)
    assert a.gap == pytest.approx(b.gap, abs=1e-10)
    # conjugate gradients carry rounding on: equal within what the gap allows
    a, b = (_find(r, CrammerSingerMode(), EXACT, 3) for r in (rows, repeated))
    torch.testing.assert_close(a.q.m, b.q.m, atol=1e-4, rtol=1e-4)


def test_blocks_and_features_that_are_not_kept_change_nothing(monkeypatch):
    rows = classification_rows(700, 3, 10, seed=15)
    whole = _find(rows, CrammerSingerMode(), EXACT, 3)
    monkeypatch.setattr(blocks, "_CACHE_BYTES", 0)
    monkeypatch.setattr(mode_problem, "_BLOCK_NUMBERS", 1)
    split = _find(replace(rows), CrammerSingerMode(), EXACT, 3)
    torch.testing.assert_close(whole.q.m, split.q.m, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize(
    ("mode", "rule", "n_classes"), [(HingeMode(), BINARY, 2), (CrammerSingerMode(), EXACT, 3)]
)
def test_a_base_that_earlier_rows_taught(mode, rule, n_classes):
    """No small move lowers the objective around another Gaussian than the prior."""
    rows = classification_rows(100, n_classes, 6, seed=16)
    J = 1 if n_classes == 2 else n_classes
    M = normal(J, 6, 6, seed=17)
    base = Natural(torch.eye(6, dtype=DTYPE) + M @ M.mT, normal(J, 6, seed=18))
    found = _find(rows, mode, rule, J, base=base, tol=1e-4)
    A, _ = all_features(rows)

    def objective(m):
        quadratic = 0.5 * torch.einsum("jp,jpq,jq->", m, base.precision, m) - (m * base.linear).sum()
        return float(
            quadratic - rows.weight @ mode.at(rows.y, A @ m.mT, torch.zeros_like(rows.weight)).sum(1)
        )

    here = objective(found.q.m)
    assert 0.0 <= found.gap <= 1e-6
    for seed in range(50):
        step = normal(J, 6, seed=100 + seed)
        assert objective(found.q.m + 1e-3 * step) >= here - 1e-4
        assert objective(found.q.m + 0.1 * step) > here


def test_ctrl_c_keeps_what_there_is_and_progress_may_stop():
    rows = classification_rows(150, 3, 15, seed=19)
    seen = []

    def impatient(step: Step) -> bool:
        seen.append(step.state())
        if len(seen) == 4:
            raise KeyboardInterrupt
        return False

    found = _find(rows, CrammerSingerMode(), EXACT, 3, progress=impatient)
    assert found.interrupted
    assert not found.converged
    assert found.n_iter == 4
    torch.testing.assert_close(found.q.m, seen[-1].q.m)
    stopped = _find(rows, CrammerSingerMode(), EXACT, 3, progress=lambda step: step.number == 2)
    assert stopped.n_iter == 2
    assert not stopped.interrupted


def test_single_precision_ends_where_it_can():
    rows = classification_rows(150, 2, 10, seed=20)
    single = replace(
        rows,
        X=rows.X.float(),
        Z=rows.Z.float(),
        weight=rows.weight.float(),
        params={k: v.float() for k, v in rows.params.items()},
    )
    found = _find(single, HingeMode(), BINARY, 1)
    assert found.converged
    double = _find(rows, HingeMode(), BINARY, 1)
    assert _svm_objective(rows, found.q.m[0].double().numpy()) == pytest.approx(
        _svm_objective(rows, double.q.m[0].numpy()), rel=1e-3
    )


def test_the_method_says_what_it_cannot_do():
    rows = classification_rows(40, 3, 8, seed=21)
    base = Natural.prior(3, rows.Lz)
    member = Member(MulticlassHinge(), EXACT, CrammerSingerMode())
    assert ecm.METHOD.missing(member) is None
    assert ecm.METHOD.missing(Member(MulticlassHinge(), EXACT)) is not None
    with pytest.raises(ValueError, match="fitc"):
        ecm.METHOD.run(Task(rows, member, base, base, Settings(fitc=True)), silent)
    outcome = ecm.METHOD.run(Task(rows, member, base, base, Settings(max_iter=50)), silent)
    assert outcome.ascent.gap is not None
