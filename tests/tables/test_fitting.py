"""A fit of a table: judged on rows it has not seen, then made of all rows."""

import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from bayesvm import LeftOut, NothingLearnedWarning, RepeatedRowsWarning, TooFewRowsWarning, load, save
from bayesvm._judgement import promised_threshold
from bayesvm.tables import (
    TableError,
    TableWarning,
    _fitting,
    example_table,
    fit_table,
    predict_table,
    table_classifier,
)
from bayesvm.tables._fitting import equal_rows, held_out_rows
from bayesvm.tables._predictions import abstention_threshold, calibration_of

from .data import FAST, mixed_table


@pytest.fixture(scope="module")
def table():
    table = mixed_table()
    table.loc[[3, 10], "species"] = None
    return table


@pytest.fixture(scope="module")
def fit(table):
    return fit_table(table, "species", model_options=FAST)


def test_rows_without_a_label_are_dropped_and_counted(fit, table):
    assert fit.n_dropped == 2
    assert len(fit.table) == 118
    assert fit.table.index.tolist() == list(range(118))
    assert fit.source_rows.tolist() == [i + 1 for i in range(120) if i not in (3, 10)]
    pd.testing.assert_frame_equal(fit.table, table.drop(index=[3, 10]).reset_index(drop=True))
    assert fit.target == "species"
    assert "species" not in fit.features


def test_final_model_is_that_of_all_rows(fit):
    alone = table_classifier("species", **FAST).fit(fit.table, fit.table["species"])
    np.testing.assert_array_equal(fit.pipeline.predict_proba(fit.table), alone.predict_proba(fit.table))
    assert not fit.interrupted
    assert fit.seconds > 0


def test_held_out_rows_were_not_seen(fit):
    held = fit.heldout
    assert held.origin == "held out"
    assert len(held.rows) == round(0.2 * 118)
    rest = fit.table.drop(index=held.rows)
    judge = table_classifier("species", **FAST).fit(rest, rest["species"])
    np.testing.assert_array_equal(held.proba, judge.predict_proba(fit.table.iloc[held.rows]))
    np.testing.assert_array_equal(held.labels, fit.table["species"].iloc[held.rows])
    noted = fit.pipeline["columns"].held_out_
    assert noted["accuracy"] == held.accuracy._asdict()
    assert noted["rows"] == len(held.rows)


def test_leave_one_out_is_that_of_the_model(fit):
    loo = fit.leave_one_out
    assert loo.origin == "leave-one-out"
    assert loo.rows.tolist() == list(range(118))
    np.testing.assert_array_equal(loo.proba, fit.pipeline["model"].loo_proba_)
    assert loo.accuracy.value == pytest.approx(fit.pipeline["model"].loo_score_)
    assert loo.log_loss.value == pytest.approx(fit.pipeline["model"].loo_log_loss_)


def test_without_holding_out(table):
    fit = fit_table(table, "species", holdout=0, model_options=FAST)
    assert fit.heldout is None
    assert fit.pipeline["columns"].held_out_ is None
    assert len(fit.leave_one_out.rows) == 118
    # Training rows, left out, say which rates it keeps.
    assert calibration_of(fit.pipeline) is None
    assert not fit.promises
    threshold = fit.pipeline["model"].abstention_threshold(0.04)
    assert 0 < threshold < 1
    assert fit.abstention_threshold(0.04) == threshold


def test_seed(table):
    one, same, other = (fit_table(table, "species", random_state=s, model_options=FAST) for s in (1, 1, 2))
    assert one.heldout.rows.tolist() == same.heldout.rows.tolist() != other.heldout.rows.tolist()


def test_copies_go_to_the_same_side():
    table = pd.concat([mixed_table(40)] * 3, ignore_index=True)
    with pytest.warns(RepeatedRowsWarning):
        held = fit_table(table, "species", model_options=FAST).heldout.rows
    assert len(held) > 0
    assert {row % 40 for row in held} == {row for row in range(40) if set(range(row, 120, 40)) <= set(held)}


def test_ignored_columns_stay_in_the_table(table):
    fit = fit_table(table, "species", ignore=["note", "id"], model_options=FAST)
    assert not {"note", "id"} & set(fit.features)
    assert {"note", "id"} <= set(fit.table.columns)


def test_a_class_with_a_single_row_is_kept_for_training(table):
    table = table.copy()
    table.loc[0, "species"] = "yak"
    with pytest.warns(TableWarning, match=r"1 class\(es\) have a single row \('yak'\)"):
        fit = fit_table(table, "species", model_options=FAST)
    assert "yak" in fit.pipeline.classes_
    assert "yak" not in fit.heldout.labels
    assert "yak" in fit.heldout.classes


def test_tiny_tables():
    table = pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]})
    with pytest.warns(TableWarning):
        fit = fit_table(table, "y", model_options=FAST)
    assert fit.heldout is None


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("specie", {}, "no column 'specie'; did you mean 'species'"),
        ("species", {"holdout": 1.0}, "holdout=1.0"),
        ("species", {"holdout": -0.1}, "holdout=-0.1"),
        ("species", {"ignore": ["species"]}, "is the target and cannot be ignored"),
        ("species", {"ignore": ["nope"]}, "no column 'nope' to ignore"),
        ("size (cm)", {}, "is a quantity"),
        ("id", {}, "too many to be classes"),
    ],
)
def test_refusals(table, target, options, message):
    with pytest.raises(TableError, match=message):
        fit_table(table, target, **options)


def test_warnings_come_once(table):
    table = table.assign(dose=["1"] * 115 + ["low"] * 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_table(table, "species", model_options=FAST)
    messages = [str(w.message) for w in caught]
    assert messages == [
        "column 'dose': 5 values such as 'low' do not fit a column of kind 'number' and count as missing"
    ]


def test_shares():
    labels = np.repeat(["a", "b", "c"], [500, 300, 5])
    held = held_out_rows(labels, np.arange(805), 0.2, 0)
    _, counts = np.unique(labels[held], return_counts=True)
    assert counts.tolist() == [100, 60, 1]
    assert (np.diff(held) > 0).all()


def test_total_is_right_even_if_no_class_has_a_whole_share():
    labels = np.repeat(np.arange(100), 4)
    assert len(held_out_rows(labels, np.arange(400), 0.2, 0)) == 80


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=2, max_size=60),
    st.sampled_from([0.1, 0.2, 0.5, 0.9]),
    st.integers(0, 3),
)
def test_groups_stay_together_and_classes_stay(rows, share, seed):
    labels, groups = np.array(rows).T
    groups = np.unique(groups, return_inverse=True)[1]
    held = held_out_rows(labels, groups, share, seed)
    rest = np.delete(np.arange(len(labels)), held)
    assert not set(groups[held]) & set(groups[rest])
    assert set(labels[rest]) == set(labels)
    assert len(held) <= round(share * len(labels)) + len(labels) // 2


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan, 1.0, np.nan],
        ["a", None, "a", None],
        pd.to_datetime(["2024-01-01", None, "2024-01-01", None]),
    ],
    ids=["numbers", "words", "dates"],
)
def test_equal_rows(values):
    table = pd.DataFrame({"x": values, "y": [1, 1, 1, 2]})
    groups = equal_rows(table)
    assert groups[0] == groups[2]
    assert len(set(groups.tolist())) == 3
    assert equal_rows(table[["x"]]).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])


class Interrupter:
    """Presses Ctrl-C in the first step of a chosen fit; None: in none."""

    def __init__(self, number):
        self.number, self.fits = number, 0

    def setup(self, estimator, context):
        self.fits += 1

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name in ("kernel", "posterior") and self.fits == self.number:
            raise KeyboardInterrupt
        return False


pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


def test_callbacks_hear_of_both_fits_and_are_gone(table):
    listener = Interrupter(None)
    fit = fit_table(table, "species", model_options=FAST, callbacks=[listener])
    assert listener.fits == 2
    assert not getattr(fit.pipeline["model"], "_skl_callbacks", ())


def test_ctrl_c_in_the_first_fit_keeps_its_model(table):
    listener = Interrupter(1)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fit = fit_table(table, "species", callbacks=[listener])
    assert fit.interrupted
    assert listener.fits == 1
    held = set(fit.heldout.rows.tolist())
    assert set(fit.leave_one_out.rows.tolist()) == set(range(118)) - held
    assert fit.leave_one_out.proba.shape == (118 - len(held), 3)


def test_ctrl_c_in_the_second_fit_keeps_its_model(table):
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fit = fit_table(table, "species", callbacks=[Interrupter(2)])
    assert fit.interrupted
    assert len(fit.leave_one_out.rows) == 118


def test_ctrl_c_before_the_second_fit_got_anywhere_keeps_the_first(table, monkeypatch):
    original = table_classifier("species").__class__.fit
    calls = []

    def fit_once(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr("sklearn.pipeline.Pipeline.fit", fit_once)
    fit = fit_table(table, "species", model_options=FAST)
    assert fit.interrupted
    assert len(fit.leave_one_out.rows) + len(fit.heldout.rows) == 118


def press_ctrl_c(original=None):
    """A function that presses Ctrl-C, as the terminal does, and then does what another does."""

    def pressing(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return None if original is None else original(*args, **kwargs)

    return pressing


def test_ctrl_c_while_judging_keeps_the_model(table, monkeypatch):
    monkeypatch.setattr("sklearn.pipeline.Pipeline.predict_proba", press_ctrl_c())
    fit = fit_table(table, "species", model_options=FAST)
    assert fit.interrupted
    assert fit.heldout is None
    assert fit.pipeline is fit.heldout_pipeline
    assert fit.pipeline["columns"].n_rows_ == len(fit.leave_one_out.rows) == 94
    assert fit.pipeline["columns"].held_out_ is None


def test_ctrl_c_after_the_fits_keeps_everything(table, monkeypatch):
    monkeypatch.setattr("bayesvm.tables._fitting._figures", press_ctrl_c(_fitting._figures))
    fit = fit_table(table, "species", model_options=FAST)
    assert fit.interrupted
    assert fit.pipeline["columns"].n_rows_ == len(fit.leave_one_out.rows) == 118
    assert fit.pipeline["columns"].held_out_["rows"] == len(fit.heldout.rows)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # it works again


def test_all_rows_left_out_decide_for_a_model_that_has_learned_from_all(fit):
    assert not fit.promises
    left = fit.pipeline["model"].left_out()
    for known, expected in zip(calibration_of(fit.pipeline), left, strict=True):
        np.testing.assert_array_equal(known, expected)
    assert 0 < fit.abstention_threshold(0.04) == promised_threshold(left, left, 0.04, 0.9) < 1


def test_rows_held_out_decide_where_not_all_are_remembered(table):
    many = mixed_table(2600)
    fit = fit_table(many, "species", ignore=["note"], model_options=FAST)
    assert fit.pipeline["columns"].n_rows_ > 2000
    for known, expected in zip(calibration_of(fit.pipeline), fit.heldout.left_out, strict=True):
        np.testing.assert_array_equal(known, expected)


def test_classes_called_none_are_classes(table):
    severity = table["species"].map({"ant": "none", "bee": "mild", "cow": "severe"})
    fit = fit_table(table.assign(species=severity), "species", model_options=FAST)
    assert fit.pipeline.classes_.tolist() == ["mild", "none", "severe"]
    assert fit.n_dropped == 2
    with pytest.warns(TableWarning, match=r"the target 'species' say 'NA'.*leave the field empty"):
        fit_table(table.assign(species=severity.replace("none", "NA")), "species", model_options=FAST)


def test_notes_about_how_it_could_be_judged(table):
    with pytest.warns(TableWarning, match=r"0.001 of 118 rows leaves none to hold out"):
        assert fit_table(table, "species", holdout=0.001, model_options=FAST).heldout is None
    with pytest.warns(TableWarning, match=r"learned from 12 of 118 rows only.*hold out less"):
        fit_table(table, "species", holdout=0.9, model_options=FAST)
    shuffled = table.assign(species=np.random.default_rng(0).permutation(table["species"]))
    with pytest.warns(NothingLearnedWarning, match=r"no better than the class frequencies.*24 rows held out"):
        fit_table(shuffled, "species", ignore=["id"], model_options=FAST)


def test_bundled_table_is_told_well():
    fit = fit_table(example_table(), "Sex")
    assert fit.n_dropped == 11
    assert fit.heldout.accuracy.value > 0.85
    assert fit.leave_one_out.accuracy.value > 0.9
    assert fit.leave_one_out.log_loss.value < 0.2


# Rates that held-out rows promise.

PROMISED = 0.1


@pytest.fixture(scope="module")
def promising(table):
    """Without the notes, which give the species away, some rows are in doubt."""
    return fit_table(table, "species", holdout=0.4, max_error=PROMISED, ignore=["note"], model_options=FAST)


def test_the_model_that_promises_has_not_seen_the_rows_that_promise(promising, table, tmp_path):
    fit = promising
    assert fit.promises
    assert fit.pipeline is fit.heldout_pipeline
    assert not set(fit.leave_one_out.rows) & set(fit.heldout.rows)
    model, held = fit.pipeline["model"], fit.table.iloc[fit.heldout.rows]
    calibration = fit.pipeline[:-1].transform(held), fit.heldout.labels
    threshold = model.abstention_threshold(PROMISED, 0.9, calibration)
    assert threshold not in (np.inf, model.abstention_threshold(PROMISED))
    assert fit.abstention_threshold(PROMISED) == threshold
    again = load(save(fit.pipeline, tmp_path / "model.skops"))
    assert abstention_threshold(again, PROMISED) == threshold
    asked = predict_table(again, table, max_error=PROMISED)
    np.testing.assert_array_equal(asked["ask_a_person"], asked["probability"] < threshold)


def test_a_rate_that_cannot_be_promised_is_said_with_what_it_takes(promising, table):
    n = len(promising.heldout.labels)
    with pytest.warns(TooFewRowsWarning, match=rf"takes at least 230 .* that {n} can promise is 0\.0"):
        assert predict_table(promising.pipeline, table, max_error=0.01)["ask_a_person"].all()
    with pytest.warns(TooFewRowsWarning, match=r"at holdout=0.2 the table must have some 1150 rows"):
        fit_table(table, "species", max_error=0.01, model_options=FAST)
    with pytest.raises(TableError, match="holdout above 0"):
        fit_table(table, "species", holdout=0, max_error=0.1)


def test_enough_rows_may_have_too_many_errors_to_promise(promising, table, monkeypatch):
    columns = promising.pipeline["columns"]
    one, right = np.ones(300), (np.arange(300) % 5 > 0).astype(float)
    monkeypatch.setattr(columns, "calibration_", tuple(LeftOut(0.9 * one, right, 0.9 * one, one, one)))
    with pytest.warns(
        TooFewRowsWarning, match=r"of the 300 rows it would rest on too many are answered wrongly"
    ):
        assert predict_table(promising.pipeline, table, max_error=0.1)["ask_a_person"].all()


def test_why_there_is_no_leave_one_out(table, monkeypatch):
    """No estimates, or more than are kept: two reasons."""
    job = _fitting._Job(table, np.asarray(table["species"]), "species", [], {}, ())
    rows = np.arange(len(table))
    model = fit_table(table, "species", model_options=FAST).pipeline
    monkeypatch.setattr(model["model"], "loo_proba_", None)
    with pytest.raises(TableError, match="too many to be kept; hold rows out"):
        job.left_out(model, rows, None)
    monkeypatch.setattr(model["model"], "loo_score_", np.nan)
    with pytest.raises(TableError, match="for leave-one-out estimates; hold rows out"):
        job.left_out(model, rows, None)
