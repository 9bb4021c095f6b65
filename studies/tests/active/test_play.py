"""Rounds on real data with real models."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

from bayesvm import BayesianSVC
from bayesvm_studies.active import ActiveSettings
from bayesvm_studies.active import play as measuring
from bayesvm_studies.active.plan import MODELS, make_plan
from bayesvm_studies.active.play import PaperRecipe, deal, play
from bayesvm_studies.competitors.classifiers import CalibratedSVC
from bayesvm_studies.structured.contestants import PAPER_SEED, split_rows

X, Y = load_iris(return_X_y=True)
DEALT = deal(Y, 0, None, None)
POOL, TEST = (X[DEALT.pool], Y[DEALT.pool]), (X[DEALT.test], Y[DEALT.test])

pytestmark = pytest.mark.filterwarnings("ignore:.*leave-one-out.*:UserWarning")


def small(**arguments):
    return BayesianSVC(n_inducing=4, local=False, random_state=0, **arguments)


def test_errors_are_those_of_models_fitted_to_the_rows_asked_for():
    forest = RandomForestClassifier(10, random_state=0)
    played = play(forest, "margin", POOL, 3, TEST, 12, 0)
    assert len(played.wrong) == 13
    assert len(set(played.asked)) == 12
    assert min(played.asked) >= 3
    for k in (0, 5, 12):
        rows = [0, 1, 2, *played.asked[:k]]
        fitted = RandomForestClassifier(10, random_state=0).fit(POOL[0][rows], POOL[1][rows])
        assert played.wrong[k] == (fitted.predict(TEST[0]) != TEST[1]).sum()
    last = [0, 1, 2, *played.asked[:11]]
    fitted = RandomForestClassifier(10, random_state=0).fit(POOL[0][last], POOL[1][last])
    p = np.sort(fitted.predict_proba(POOL[0]), axis=1)
    margin = p[:, -1] - p[:, -2]
    free = np.setdiff1d(np.arange(len(POOL[1])), last)
    assert margin[played.asked[11]] == margin[free].min()


def test_policies_share_the_start_and_part_afterwards():
    runs = {
        p: play(small(), p, POOL, 3, TEST, 6, 0) for p in ("variation_ratio", "softmax_entropy", "random")
    }
    assert len({r.wrong[0] for r in runs.values()}) == 1
    assert len({tuple(r.asked) for r in runs.values()}) == 3
    again = play(small(), "variation_ratio", POOL, 3, TEST, 6, 0)
    assert again.asked == runs["variation_ratio"].asked
    assert again.wrong == runs["variation_ratio"].wrong


def test_an_empty_pool_ends_the_queries():
    tiny = POOL[0][:9], POOL[1][:9]
    played = play(RandomForestClassifier(5, random_state=0), "random", tiny, 3, TEST, 100, 0)
    assert sorted(played.asked) == list(range(3, 9))
    assert len(played.wrong) == 7


def test_the_paper_recipe_goes_on_from_the_last_fit(monkeypatch):
    monkeypatch.setattr("bayesvm_studies.active.play.EPOCHS_PER_QUERY", 20)
    arguments = {**MODELS["paper"].arguments, "max_iter": 60, "random_state": 0}
    model = PaperRecipe(**arguments)
    Z = (POOL[0] - POOL[0].mean(0)) / POOL[0].std(0)
    model.partial_fit(Z[:3], POOL[1][:3], classes=np.unique(Y))
    assert len(model.inducing_points_) == 3
    model.partial_fit(Z[3:4], POOL[1][3:4])  # enough rows for four points: anew
    assert len(model.inducing_points_) == 4
    assert len(model.elbo_curve_) == 60
    before = model.inducing_points_
    model.partial_fit(Z[4:5], POOL[1][4:5])
    assert len(model.elbo_curve_) == 20
    assert model.max_iter == 60
    assert model.memory_.weight.sum() == 5
    moved = np.abs(model.inducing_points_ - before).max()
    assert 0.0 < moved < 0.02  # twenty steps of 5e-4 from where they were


def test_a_calibrated_machine_from_one_row_per_class_on():
    rows = DEALT.pool[:3]
    machine = CalibratedSVC(random_state=0).fit(X[rows], Y[rows])
    p = machine.predict_proba(X)
    assert p.sum(1) == pytest.approx(1.0)
    assert (machine.predict(X) == Y).mean() > 0.6
    machine.fit(POOL[0], POOL[1])
    p = machine.predict_proba(TEST[0])
    assert (p.argmax(1) == TEST[1]).mean() > 0.9
    right = -np.log(p[np.arange(len(p)), TEST[1]]).mean()
    assert right < 0.3
    with pytest.raises(ValueError, match="1 class"):
        machine.fit(X[:5], Y[:5])


def test_the_temperature_is_the_best_of_the_grid_out_of_fold():
    """Labels at random have no confident machine."""
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    doubtful = CalibratedSVC(random_state=0).fit(noise, labels)
    sure = CalibratedSVC(random_state=0).fit(noise, (noise[:, 0] > 0).astype(int))
    assert doubtful.slope_ < sure.slope_
    assert doubtful.predict_proba(noise).max() < 0.6


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y.astype(float))
    return tmp_path


@pytest.mark.parametrize("model", ["default", "dense", "svc"])
def test_a_worker_writes_a_whole_curve(folder, sets, model):
    plan = make_plan(
        ActiveSettings(group="sets", subset="iris", models=model, policies="margin", queries=5), sets
    )
    (task,) = [t for t in plan.tasks if t.split == 0]
    begun = []
    known = measuring.measure({"config": task.config}, folder, lambda: begun.append(1))
    assert begun == [1]
    assert len(known["extra"]["wrong"]) == 6
    assert known["extra"]["wrong"][-1] == known["n_test"] - known["correct"]
    assert known["n_train"] == 8
    json.dumps(known)
    measuring.warm_up(task.config)


def test_the_clock_times_rounds_of_the_learner(folder, sets):
    from bayesvm_studies.active.plan import _Maker

    maker = _Maker(ActiveSettings(), sets)
    maker._digests = {"poker": "digest"}
    config = maker.clock().config
    config["arguments"].update(pool_rows=150, n_rounds=3)
    known = measuring.measure({"config": config}, folder, lambda: None)
    assert len(known["extra"]["round_s"]) == 3
    assert known["extra"]["median_s"] == np.median(known["extra"]["round_s"])
    assert known["n_train"] == 150


LABELS = np.repeat([3.0, 1.0, 7.0, 9.0, 5.0], [100, 60, 30, 2, 1])


@pytest.mark.parametrize("seed", range(6))
def test_one_labelled_row_of_each_class_and_no_row_twice(seed):
    dealt = deal(LABELS, seed, None, None)
    train, test = split_rows("paper", LABELS, PAPER_SEED + seed)
    assert sorted(dealt.pool) == sorted(train)
    assert sorted(dealt.test) == sorted(test)
    first = dealt.pool[: dealt.n_first]
    assert sorted(LABELS[first]) == sorted(set(LABELS[train])) == [1.0, 3.0, 7.0, 9.0]


def test_limits_keep_the_first_rows():
    whole, small = deal(LABELS, 2, None, None), deal(LABELS, 2, 20, 10)
    assert small.n_first == whole.n_first == 4
    assert small.pool.tolist() == whole.pool[:20].tolist()
    assert small.test.tolist() == whole.test[:10].tolist()
    assert len(deal(LABELS, 2, 1, 10).pool) == 4


def test_seeds_differ_and_repeat():
    a, b = deal(LABELS, 0, 50, 20), deal(LABELS, 1, 50, 20)
    assert set(a.pool[: a.n_first]) != set(b.pool[: b.n_first])
    assert set(a.test) != set(b.test)
    again = deal(LABELS, 0, 50, 20)
    assert (again.pool == a.pool).all()
    assert (again.test == a.test).all()


def test_every_row_of_a_class_may_be_first():
    firsts = {int(deal(LABELS, seed, None, None).pool[2]) for seed in range(200)}
    assert all(LABELS[i] == 7.0 for i in firsts)
    assert len(firsts) > 25
