"""The honesty benchmark: figures by hand, tasks that do not overlap, files that go on, small trials."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import bayesvm
from bayesvm import BayesianSVC
from bayesvm_studies.benchmarks import honesty, honesty_trials
from bayesvm_studies.benchmarks.comparison import Split, read_results, run_missing, run_task
from bayesvm_studies.benchmarks.honesty import PARTS, forget, models_of, summarise, tasks
from bayesvm_studies.benchmarks.honesty_trials import Places, measured, most_answered

NOWHERE = Places(Path("nowhere"), Path("nowhere"))


def trial(data, split, model, version="now", **figures):
    return {"data": data, "split": split, "model": model, "version": version, **figures}


def judged(data, split, model, log_loss, accuracy, loo_log_loss=0.5, loo_score=0.8, **more):
    common = {"ece": 0.1, "confidence": 0.85, "fit_s": 1.0, "predict_s": 0.1}
    known = {"log_loss": log_loss, "accuracy": accuracy, "loo_log_loss": loo_log_loss, "loo_score": loo_score}
    return trial(data, split, model, **common, **known, **more)


# --- figures


def test_noise_counts_too_good_an_opinion_as_positive():
    rows = [
        judged("noise/100/5/2", 1, "ours", 0.75, 0.5, 0.5, 0.6, prior_log_loss=0.7),
        judged("noise/100/5/2", 2, "ours", 0.85, 0.5, 0.5, 0.7, prior_log_loss=0.7),
        judged("noise/100/5/2", 1, "frequencies", 0.7, 0.5, 0.71, 0.45, prior_log_loss=0.7),
    ]
    found = summarise(rows)["noise"]
    assert found["foretold_gap"] == pytest.approx(0.15)
    assert found["excess_log_loss"] == pytest.approx(0.1)
    assert found["confidence_gap"] == pytest.approx(0.35)
    assert found["floor"]["foretold_gap"] == pytest.approx(-0.05)


def small_trials():
    losses = {"random_forest": 2.0, "catboost": 1.0, "svc": 1.5, "before": 0.8, "ours": 0.4}
    rows = [
        judged(f"small/{name}", split, model, loss + shift, 0.9 if model == "ours" else 0.7, loo_log_loss=0.5)
        for model, loss in losses.items()
        for name, shift in (("a", 0.0), ("b", 0.2))
        for split in (50, 51)
    ]
    folds = [trial(f"cv/{name}", 50, "ours", cv_log_loss=0.3, cv_score=0.8, fit_s=3.0) for name in "ab"]
    return rows + folds


def test_small_sets_compare_models_and_estimates():
    found = summarise(small_trials())["small"]
    assert found["tasks"] == 4
    assert found["log_loss"] == pytest.approx(0.5)
    assert found["log_loss_catboost"] == pytest.approx(1.1)
    assert found["accuracy_catboost"] == pytest.approx(0.7)
    assert found["log_loss_ratio"] == pytest.approx(0.5 / 0.9)
    assert found["accuracy_gain"] == pytest.approx(0.2)
    assert found["foretold_gap"] == pytest.approx(0.0)
    assert found["mean_absolute_gap"] == pytest.approx(0.1)
    assert found["share_optimistic"] == pytest.approx(0.5)
    assert found["cv_mean_absolute_gap"] == pytest.approx(0.2)
    assert found["cv_share_optimistic"] == 1.0


def test_a_split_on_which_one_model_failed_counts_for_none():
    rows = small_trials()
    failed = next(r for r in rows if r["model"] == "svc" and r["data"] == "small/b")
    failed["error"] = "ValueError: classes"
    found = summarise(rows)
    assert found["failed"] == 1
    assert found["small"]["tasks"] == 3
    assert found["small"]["log_loss_catboost"] == pytest.approx((1.0 + 1.0 + 1.2) / 3)


def test_competitors_alone_have_figures():
    found = summarise([r for r in small_trials() if r["model"] in honesty.COMPETITORS])
    assert found["small"]["log_loss_catboost"] == pytest.approx(1.1)
    assert "log_loss" not in found["small"]


def test_a_promise_is_broken_where_the_true_error_is_above_the_rate():
    each = {str(n): [[0.5, 0.04], [0.7, 0.06]] for n in honesty.CALIBRATION_ROWS}
    easy = {str(n): [[1.0, 0.04], [1.0, 0.04]] for n in honesty.CALIBRATION_ROWS}
    sets = {str(n): [[0.91, 1.2, 1.25, 1.3]] for n in honesty.CALIBRATION_ROWS} | {"left_out": [[0.85, 1.1]]}
    hard = {"oracle": 0.6, "error_of_all": 0.2, "left_out": [[0.8, 0.1]], **each}
    free = {"oracle": 1.0, "error_of_all": 0.04, "left_out": [[1.0, 0.04]], **easy}
    rows = [
        trial("guarantees/a/200", 1, "ours", abstain={"0.05": hard}, sets=sets),
        trial("guarantees/b/200", 2, "ours", abstain={"0.05": free}, sets=sets),
    ]
    found = summarise(rows)
    assert found["abstain"]["exceeded"] == pytest.approx(0.25)
    assert found["abstain"]["exceeded_where_not_all_may_be_answered"] == pytest.approx(0.5)
    assert found["abstain"]["answered_over_oracle"] == pytest.approx((0.6 + 1.0) / 1.6)
    assert found["abstain"]["left_out"]["exceeded"] == pytest.approx(0.5)
    assert found["sets"]["coverage_gap"] == pytest.approx(0.01)
    assert found["sets"]["size_ratio"] == pytest.approx(1.2 / 1.25)
    assert found["sets"]["size_ratio_without_empty_sets"] == pytest.approx(1.2 / 1.3)
    assert found["sets"]["coverage_gap_where_accuracy_is_lower"] == pytest.approx(0.01)
    assert found["sets"]["left_out"]["coverage_gap"] == pytest.approx(-0.05)


def test_times_are_ratios_of_the_same_fit():
    pairs = [trial(f"pair/{i}", 50, "ours", ours_s=a, before_s=1.0) for i, a in enumerate((0.5, 0.7, 2.0))]
    busy = [
        trial(f"busy/{i}", 0, "ours", one_thread_s=1.0, two_threads_s=a) for i, a in enumerate((1.0, 1.5))
    ]
    found = summarise(pairs + busy)
    assert (found["fit_time_ratio"], found["fit_time_ratio_worst"]) == (0.7, 2.0)
    assert (found["busy_thread_ratio"], found["busy_thread_ratio_median"]) == (1.5, 1.25)


def test_oracle_answers_as_many_as_the_rate_allows_and_ties_together():
    confidence = np.array([0.9, 0.8, 0.8, 0.6])
    wrong = np.array([0.0, 0.0, 0.3, 0.9])
    assert most_answered(confidence, wrong, 0.1) == 0.75
    assert most_answered(confidence, wrong, 0.05) == 0.25
    assert most_answered(confidence, wrong + 0.1, 0.05) == 0.0


# --- tasks and files


def test_simulations_share_no_seed_and_judging_ones_are_not_for_development():
    seen = {}
    for name, (splits, first) in (("judging", honesty.JUDGING), ("development", honesty.DEVELOPMENT)):
        seen[name] = [
            seed for part in ("noise", "rules", "guarantees") for _, seed in tasks(part, [], splits, first)
        ]
        assert len(seen[name]) == len(set(seen[name]))
    assert max(seen["judging"]) < 1000 <= min(seen["development"])
    assert not set(honesty.JUDGING[0]) & set(honesty.DEVELOPMENT[0])


def test_a_run_goes_on_and_forgets_only_what_it_is_told(tmp_path):
    path = tmp_path / "trials.jsonl"
    keys = [("noise/30/2/2", 1, model, "now") for model in ("frequencies", "ours")]
    asked = []

    def fake(key):
        asked.append(key)
        return {"figure": 1.0}

    run_missing(fake, keys[:1], path, 1)
    run_missing(fake, keys, path, 1)
    assert asked == keys
    forget(path, {"ours"})
    assert list(read_results(path)) == keys[:1]
    forget(path, {"now"})
    assert path.read_text() == ""


# --- trials


def test_a_tiny_trial_of_noise():
    found = [
        run_task(partial(measured, NOWHERE), ("noise/40/2/2", 5000, m, "now")) for m in models_of("noise")
    ]
    figures = summarise(found)
    assert figures["failed"] == 0
    assert {"foretold_gap", "excess_log_loss", "confidence_gap", "floor"} <= set(figures["noise"])
    assert all(json.loads(json.dumps(r)) == r for r in found)


def test_frequencies_left_out_by_hand():
    y = np.array([0, 0, 0, 1, 1])
    found = honesty_trials._estimates_of_frequencies(y)
    assert found["loo_score"] == pytest.approx(
        3 / 5
    )  # without a row of 0 it is a tie, which the first class wins
    assert found["loo_log_loss"] == pytest.approx(-(3 * np.log(2 / 4) + 2 * np.log(1 / 4)) / 5)


def test_promises_are_those_of_the_estimator(monkeypatch):
    monkeypatch.setattr(honesty_trials, "TEST_ROWS", 300)
    monkeypatch.setattr(honesty_trials, "CALIBRATION_ROWS", (40, 60))
    monkeypatch.setattr(honesty_trials, "CALIBRATION_DRAWS", 2)
    pytest.importorskip("mapie.classification")
    found = run_task(partial(measured, NOWHERE), ("guarantees/quarters/60", 5000, "ours", "now"))
    assert "error" not in found
    task = honesty_trials.rule("quarters", 5000, 60, 300 + 2 * 60)
    model = BayesianSVC(random_state=0).fit(task.X, task.y)
    X, y = task.X_test[360:400], task.y_test[360:400]
    answered = ~model.abstain(task.X_test[:300], 0.1, 0.9, (X, y))
    wrong = model.predict(task.X_test[:300]) != task.y_test[:300]
    share, error = found["abstain"]["0.1"]["40"][1]
    assert share == answered.mean()
    assert error == pytest.approx(wrong[answered].mean() if answered.any() else 0.0)
    np.testing.assert_allclose([s[1] / s[3] for s in found["sets"]["60"]], 1.0, rtol=1e-9)


def test_another_process_fits_the_same_model():
    rng = np.random.default_rng(5000)
    X, y = rng.normal(size=(60, 2)), np.repeat([3, 5], 30)
    X[:, 0] += y
    split = Split(X[::2], y[::2], X[1::2], y[1::2], np.array([3, 5]))
    source = Path(bayesvm.__file__).parents[1]
    there = honesty_trials.fitted("before", Places(Path(), Path(), source), split)
    here = honesty_trials.fitted("ours", NOWHERE, split)
    for name in ("accuracy", "log_loss", "loo_score", "loo_log_loss"):
        assert there[name] == pytest.approx(here[name], abs=1e-6)
    with pytest.raises(ValueError, match="0 sample"):
        honesty_trials.child(source).ask("fit", X[:0], y[:0])


def test_neighbour_is_busy_and_gone_afterwards():
    with honesty_trials.busy_core() as neighbour:
        assert neighbour.poll() is None
    assert neighbour.poll() is not None


def test_every_part_has_tasks_and_models():
    for part in PARTS:
        assert tasks(part, ["iris"], (100, 101), 5000)
        assert set(models_of(part)) <= set(honesty.MODELS)
