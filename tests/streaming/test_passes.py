"""Every pass against the same thing computed from all rows at once, whatever the chunks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from bayesvm._core.gaussian import Natural, from_natural
from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._fit.engine import Chunk, gathered
from bayesvm._fit.passes import Encoding, Sample, Survey
from bayesvm._fit.prepare import Standardise
from bayesvm._fit.rows import Extent
from bayesvm._fit.sweeps import Sweep, streamed
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import evaluate
from tests.streaming.problems import engine, rings

SIZES = (7, 100, 1000)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks as they are given, however small."""
    monkeypatch.setattr("bayesvm._fit.engine._FEWEST_ROWS", 1)


def _encoding(X, seed=0, factor=(1.0, 1.0, 1.0)):
    return Encoding(np.arange(len(factor)), np.asarray(factor), Extent.of(X), seed)


@pytest.mark.parametrize("size", SIZES)
def test_survey_counts_rows_labels_and_their_weights(size):
    X, _ = rings(500)
    y = np.random.default_rng(0).choice(np.array(["b", "a", "long name"]), 500)
    weight = np.arange(500) % 3 * 0.5
    found = engine(size, X, y, weight).total(Survey(3, None))
    assert found.labels.tolist() == ["a", "b", "long name"]
    assert found.mass == pytest.approx([weight[y == label].sum() for label in found.labels], rel=1e-14)
    assert (found.n_rows, found.n_used, found.problem) == (500, np.count_nonzero(weight), None)


@pytest.mark.parametrize("size", SIZES)
def test_survey_names_the_first_row_that_cannot_be_used(size):
    X, y = rings(500)
    X[217, 1], X[400, 0] = np.nan, np.inf
    problem = engine(size, X, y).total(Survey(3, ("a", "b", "c"))).problem
    assert str(problem) == "Input X contains NaN, column 1 ('b') in row 217 (of all chunks, counted from 0)"


@pytest.mark.parametrize("size", SIZES)
def test_survey_refuses_measurements_and_mixed_labels(size):
    X, y = rings(200)
    measured = engine(size, X, y + np.where(np.arange(200) == 150, 0.5, 0.0)).total(Survey(3, None)).problem
    assert measured.row == 150
    assert "is a measurement" in measured.words
    mixed = engine(size, X, np.array([*range(150), *("x" * 50)], dtype=object)).total(Survey(3, None)).problem
    assert mixed.row >= 147
    assert "y" in mixed.words


@pytest.mark.parametrize("size", SIZES)
def test_gathered_rows_are_the_rows_in_order(size):
    X, y = rings(300)
    (rows,) = gathered(engine(size, X, y)).walk()
    assert np.array_equal(rows.X, X)
    assert np.array_equal(rows.y, y)


@pytest.mark.parametrize("size", SIZES)
def test_moments_are_those_of_all_rows(size):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 7)) * [1.0, 1e-200, 1e200, 1e3, 0.0, 1e-6, 1.0] + [0, 0, 0, 1e6, 4.2, 2000.0, 0]
    X[:, 6] = np.where(np.arange(800) < 400, 0.0, 1e-300 * rng.normal(size=800))
    y, weight = rng.integers(3, size=800), rng.integers(0, 3, size=800) * 0.7
    factor = [1.0, 0.0, 2.5]
    used = weight * np.asarray(factor)[y]
    wide, w = X.astype(np.longdouble), used.astype(np.longdouble)
    mean = (w @ wide) / w.sum()
    scale = np.sqrt((w @ np.square(wide - mean)) / w.sum())
    encoding = _encoding(X, factor=factor)
    moments = engine(size, X, y, weight).total(Sample(encoding, 10)).moments
    scaler, kept = moments.scaler(encoding.extent), np.array([True, True, True, True, False, True, True])
    assert moments.weight == pytest.approx(used.sum(), rel=1e-13)
    assert scaler.kept.tolist() == kept.tolist()
    assert np.abs(scaler.scale / scale - 1.0)[kept].max() < 1e-11
    assert (np.abs(scaler.mean - mean) / scale)[kept].max() < 1e-5  # 2000 and 1e-6 in the same column


def test_moments_do_not_show_how_rows_were_chunked():
    rng = np.random.default_rng(2)
    X = rng.lognormal(size=(3000, 20))
    X[:, 10:] += 100.0
    y = rng.integers(3, size=3000)
    encoding = _encoding(X)
    first, *others = (
        engine(size, X, y).total(Sample(encoding, 10)).moments.scaler(encoding.extent)
        for size in (7, 250, 3000)
    )
    for other in others:
        assert np.array_equal(first.mean, other.mean)
        assert np.array_equal(first.scale, other.scale)


@pytest.mark.parametrize("size", SIZES)
def test_sample_is_the_distinct_rows_of_smallest_hash_with_all_their_weight(size):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, size=(900, 3)).astype(float)  # at most 64 distinct rows for a label
    y, weight = rng.integers(3, size=900), rng.integers(0, 3, size=900).astype(float)
    encoding = _encoding(X, seed=5)
    keys = np.unique(encoding.rows(Chunk(X, y, weight)).key)
    for n in (10, 100, 5000):
        sample = engine(size, X, y, weight).total(Sample(encoding, n)).rows
        assert len(sample.y) == min(n, len(keys))
        assert np.array_equal(sample.key, keys[:n])
        for row, label, total in zip(sample.X, sample.y, sample.weight, strict=True):
            assert total == weight[(row == X).all(1) & (y == label)].sum()


def test_sample_depends_on_content_and_seed_alone():
    X, y = rings(2000)
    order = np.random.default_rng(0).permutation(2000)
    one = engine(7, X, y).total(Sample(_encoding(X, seed=1), 50)).rows
    shuffled = engine(300, X[order], y[order]).total(Sample(_encoding(X, seed=1), 50)).rows
    other = engine(7, X, y).total(Sample(_encoding(X, seed=2), 50)).rows
    assert np.array_equal(one.X, shuffled.X)
    assert np.array_equal(one.key, shuffled.key)
    assert len({tuple(row) for row in one.X} & {tuple(row) for row in other.X}) < 10
    # A fair sample: labels come in their shares.
    many = engine(7, X, y).total(Sample(_encoding(X, seed=1), 1000)).rows
    assert np.bincount(many.y) / 1000 == pytest.approx(np.bincount(y) / 2000, abs=0.03)


@pytest.mark.parametrize("size", SIZES)
def test_checksum_of_the_sample_is_that_of_all_rows(size):
    """Of the rows of positive weight, in any order; of labels that change place too."""
    X, y = rings(700)
    weight = np.arange(700) % 3.0
    encoding = _encoding(X, seed=1)
    order = np.random.default_rng(0).permutation(700)
    expected = sum(map(int, encoding.rows(Chunk(X, y, weight)).key)) % 2**64
    assert engine(size, X[order], y[order], weight[order]).total(Sample(encoding, 50)).checksum == expected
    for other in (engine(size, X, y[order], weight), engine(size, X + 1e-6, y, weight)):
        assert other.total(Sample(encoding, 50)).checksum != expected


def test_labels_that_the_first_pass_did_not_meet():
    y = np.array([0, 1, 2, 3])
    for classes in ([0, 1, 3], [1, 2, 3], [0, 1, 2]):
        missing = set(range(4)) - set(classes)
        changed = f"changed between two passes: the label {missing.pop()} did not occur in the first"
        with pytest.raises(ValueError, match=changed):
            Encoding(np.array(classes), np.ones(3), Extent.of(np.ones((1, 1))), 0).indices(y)


RULES = [AllRivals(MulticlassHinge()), OneRival(False), OneRival(True, 4)]


@pytest.mark.parametrize("rule", RULES, ids=["exact", "mean", "sampled"])
@pytest.mark.parametrize("keep", ["features", "rows", "nothing"])
def test_sweep_is_the_sum_over_all_rows(rule, keep):
    """Whatever is kept in memory and however rows are chunked; sent to other processes too."""
    X, y = rings(700)
    weight = np.random.default_rng(0).integers(0, 3, size=700) * 0.5
    encoding = _encoding(X, seed=3)
    sample = engine(700, X, y, weight).total(Sample(encoding, 700))
    data, scaler = sample.rows, sample.moments.scaler(encoding.extent)
    kernel = resolve_kernel("0.1*rbf + anova", True)
    tensors = (
        torch.as_tensor(a) for a in (scaler.transform(data.X), data.y, data.weight, data.unit, data.key)
    )
    Xs, *rest = tensors
    everything = TrainingRows(Xs, *rest, kernel, kernel.init(Xs), Xs[:20], 3)
    base = Natural.prior(3, everything.Lz)
    rng = torch.Generator().manual_seed(0)
    q = from_natural(base.precision * 2.0, torch.randn(3, 20, generator=rng, dtype=torch.float64))
    expected = evaluate(everything, rule, q, base, 5)
    standardise = Standardise(encoding, scaler, "cpu", torch.float64)
    room = {"features": 10**9, "rows": 700 * 8 * 8, "nothing": 0}[keep]
    for size in SIZES:
        rows = streamed(
            engine(size, X, y, weight),
            standardise,
            everything.head(50),
            700,
            float(weight.sum()),
            sample.checksum,
            room,
        )
        assert rows.n_kept == {"features": 2, "rows": 1, "nothing": 0}[keep]
        found = rows.evaluate(rule, q, base, 5)
        assert found.value == pytest.approx(expected.value, rel=1e-12)
        assert torch.allclose(found.target.precision, expected.target.precision, rtol=1e-11, atol=1e-11)
        assert torch.allclose(found.target.linear, expected.target.linear, rtol=1e-11, atol=1e-11)
        assert torch.allclose(found.sites.W, expected.sites.W[:50], rtol=1e-12)
        below = everything.key < int(0.3 * 2.0**63)
        part = replace(
            everything, **{name: getattr(everything, name)[below] for name in ("X", "y", "weight", "key")}
        )
        expected_part = evaluate(part.standing_for(float(weight.sum())), rule, q, base, 5)
        share = rows.first(210).evaluate(rule, q, base, 5)
        assert 100 < len(part) < 250
        assert share.value == pytest.approx(expected_part.value, rel=1e-11)
        assert torch.allclose(share.target.precision, expected_part.target.precision, rtol=1e-11, atol=1e-10)
        assert torch.allclose(share.target.linear, expected_part.target.linear, rtol=1e-11, atol=1e-10)


def test_a_sweep_survives_being_sent():
    base = Natural.prior(3, torch.eye(4, dtype=torch.float64))
    sweep = Sweep(OneRival(True, 1), from_natural(*base), 2)
    assert sweep._sites_of is not None  # made once used, and not sent
    again = pickle.loads(pickle.dumps(sweep))
    assert "_sites_of" not in vars(again)
    assert torch.equal(again.q.m, sweep.q.m)
