import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from bayesvm.report import find_pitfalls
from bayesvm.report._leakage import left_out_accuracy
from bayesvm.tables import TableError, example_table

N = 400


def kinds(table, target="y"):
    return {pitfall.kind: pitfall for pitfall in find_pitfalls(table, target)}


@pytest.fixture
def clean():
    """Two even classes and two columns that say something, but not everything."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % 2)
    return pd.DataFrame(
        {
            "size": y + rng.normal(size=N),
            "colour": np.where(rng.random(N) < 0.7, np.where(y == 1, "red", "blue"), "green"),
            "y": np.where(y == 1, "yes", "no"),
        }
    )


def flipped(values, share, seed=1):
    """Zeros and ones of which a share is turned round."""
    values = np.asarray(values)
    return np.where(np.random.default_rng(seed).random(len(values)) < share, 1 - values, values)


def test_a_clean_table_has_no_pitfalls(clean):
    assert find_pitfalls(clean, "y") == []


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_well_known_clean_tables_raise_no_alarm(name):
    table = getattr(datasets, f"load_{name}")(as_frame=True).frame
    assert {pitfall.severity for pitfall in find_pitfalls(table, "target")} <= {"note"}


def test_a_strong_but_honest_column_is_a_note():
    found = kinds(datasets.load_iris(as_frame=True).frame, "target")
    assert found["strong"].severity == "note"
    assert set(found["strong"].columns) == {"petal width (cm)", "petal length (cm)"}
    assert "leak" not in found


def test_the_bundled_example_raises_no_alarm():
    found = kinds(example_table(), "Sex")
    assert {pitfall.severity for pitfall in found.values()} == {"note"}
    assert set(found["constant"].columns) == {"Region", "Stage"}
    assert found["missing"].columns == ("Comments",)
    assert found["groups"].columns == ("Individual ID",)


def test_the_answer_under_another_name(clean):
    found = kinds(clean.assign(code=clean["y"].map({"yes": 17.5, "no": -3.0})))
    assert found["copy"].severity == "alarm"
    assert found["copy"].columns == ("code",)


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_a_leaking_number_is_an_alarm_and_comes_first(clean, noise):
    """Thresholds lie between bins of equal count, where only a tree finds them."""
    truth = flipped(clean["y"] == "yes", noise)
    values = np.random.default_rng(2).uniform(0, 1, N) ** 3 + truth
    first = find_pitfalls(clean.assign(x=values), "y")[0]
    assert (first.kind, first.severity, first.columns) == ("leak", "alarm", ("x",))


def test_a_leaking_date(clean):
    days = np.where(clean["y"] == "yes", 400, 0) + np.random.default_rng(2).permutation(N)
    date = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")
    assert kinds(clean.assign(date=date))["leak"].columns == ("date",)


def test_a_leaking_category_with_finer_values(clean):
    ward = clean["y"] + "-" + pd.Series(np.arange(N) % 5).astype(str)
    assert kinds(clean.assign(ward=ward))["leak"].columns == ("ward",)


def test_severity_follows_what_a_column_gives_away(clean):
    answer = clean["y"] == "yes"
    severity = {}
    for share in (0.005, 0.0125, 0.06, 0.2):
        # Exactly this share is wrong, so that the outcome is not one of luck.
        wrong = np.zeros(N, dtype=bool)
        wrong[np.random.default_rng(0).permutation(N)[: round(share * N)]] = True
        found = [p for p in find_pitfalls(clean.assign(x=answer ^ wrong), "y") if p.columns == ("x",)]
        severity[share] = found[0].severity if found else None
    assert severity == {0.005: "alarm", 0.0125: "caution", 0.06: "note", 0.2: None}


def test_gaps_that_tell_the_answer(clean):
    answer = clean["y"] == "yes"
    values = np.random.default_rng(3).normal(size=N)
    all_of_them = kinds(clean.assign(discharged=np.where(answer, np.nan, values)))
    assert (all_of_them["gaps"].severity, all_of_them["gaps"].columns) == ("alarm", ("discharged",))
    some = answer & (np.arange(N) % 3 == 0)
    assert kinds(clean.assign(discharged=np.where(some, np.nan, values)))["gaps"].severity == "caution"
    at_random = np.where(np.arange(N) % 3 == 0, np.nan, values)
    assert "gaps" not in kinds(clean.assign(discharged=at_random))


def test_gaps_among_one_dominant_class_tell_nothing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"y": np.arange(1000) % 50 == 0, "x": rng.normal(size=1000)})
    table.loc[table.index % 7 == 3, "x"] = np.nan
    assert "gaps" not in kinds(table)


def test_a_sorted_table_is_a_note_and_a_row_counter_then_a_leak(clean):
    by_answer = clean.sort_values("y").reset_index(drop=True)
    assert kinds(by_answer)["sorted"].severity == "note"
    assert kinds(by_answer.assign(number=range(N)))["leak"].columns == ("number",)
    assert "sorted" not in kinds(clean)


def test_noise_columns_are_not_suspected_however_many_there_are():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 300)), columns=[f"x{i}" for i in range(300)])
    table["y"] = rng.integers(0, 3, 120)
    assert not {"leak", "copy", "strong", "gaps"} & kinds(table).keys()


def test_a_few_odd_rows_are_too_few_to_suspect_a_column(clean):
    """Five rows of a second class: a column that happens to tell them apart proves nothing."""
    rare = np.where(np.arange(N) < 5, "yes", "no")
    assert "leak" not in kinds(clean.assign(y=rare, x=(rare == "yes") + 0.0, z=np.arange(N) % 7))


def test_imbalance(clean):
    found = kinds(clean.assign(y=np.where(np.arange(N) % 10 == 0, "rare", "usual")))
    assert found["imbalance"].severity == "caution"
    assert "90" in found["imbalance"].title
    sizes = np.repeat(["a", "b", "c"], [200, 188, 12])
    assert kinds(clean.assign(y=np.random.default_rng(0).permutation(sizes)))["imbalance"].severity == "note"
    assert "imbalance" not in kinds(clean)


def test_small_classes_and_few_rows(clean):
    labels = clean["y"].mask(clean.index < 4, "odd")
    found = kinds(clean.assign(y=labels))
    assert "“odd” (4)" in found["small class"].explanation
    assert "few rows" not in found
    assert kinds(clean.head(60))["few rows"].severity == "caution"
    assert kinds(clean.head(20))["few rows"].severity == "alarm"


def test_duplicates_and_conflicts_name_their_rows(clean):
    again = pd.concat([clean, clean.iloc[[7]], clean.iloc[[9]]], ignore_index=True)
    again.loc[N + 1, "y"] = "yes" if clean["y"][9] == "no" else "no"
    found = kinds(again)
    assert (found["duplicates"].severity, found["duplicates"].rows) == ("note", (7, 9, N, N + 1))
    assert found["conflicts"].rows == (9, N + 1)
    many = pd.concat([clean, clean.head(40)], ignore_index=True)
    assert kinds(many)["duplicates"].severity == "caution"


def test_conflicts_bound_what_any_model_can_reach():
    table = pd.DataFrame({"a": [0, 0, 0, 1] * 50, "b": 0, "y": ["u", "u", "v", "v"] * 50})
    assert "75 %" in kinds(table)["conflicts"].explanation


def test_a_table_of_few_values_repeats_itself_without_blame(clean):
    few = clean[["colour", "y"]]
    assert kinds(few)["duplicates"].severity == "note"


def test_identifiers(clean):
    rng = np.random.default_rng(0)
    found = kinds(
        clean.assign(
            number=rng.permutation(N) + 1000,
            code=[f"AB-{i:05d}" for i in rng.permutation(N)],
            weight=rng.normal(size=N),
            remark=[f"the {i}th of a number of remarks that say something" for i in rng.permutation(N)],
            income=rng.permutation(np.arange(N) * 997),
            day=(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.permutation(N), "D")).strftime("%Y-%m-%d"),
            share=[f"{i / 10}%" for i in rng.permutation(N)],
            price=[f"{1000 + 997 * i:,}" for i in rng.permutation(N)],
            mass=[f"{i} kg" for i in rng.permutation(N)],
            cost=[f"${i}.50" for i in rng.permutation(N)],
        )
    )
    assert set(found["identifier"].columns) == {"number", "code"}


def test_codes_that_come_back(clean):
    found = kinds(clean.assign(patient=[f"P{i // 2:04d}" for i in np.random.default_rng(0).permutation(N)]))
    assert found["groups"].columns == ("patient",)
    half = np.random.default_rng(1).permutation(N) // 2
    days = (pd.Timestamp("2020-01-01") + pd.to_timedelta(half, "D")).strftime("%Y-%m-%d")
    assert "groups" not in kinds(clean.assign(share=[f"{i}%" for i in half], day=days))


def test_half_empty_is_not_mostly_empty(clean):
    values = np.random.default_rng(3).normal(size=N)
    assert "missing" not in kinds(clean.assign(x=np.where(np.arange(N) % 2 == 0, np.nan, values)))


def test_what_stands_for_a_gap_is_missing(clean):
    blank = np.random.default_rng(3).permutation(N) < 0.6 * N
    word = np.random.default_rng(4).choice(["ash", "birch"], N)
    number = np.random.default_rng(4).normal(size=N).astype(str)
    for sign in ("", "NA", "?"):
        words = kinds(clean.assign(tree=np.where(blank, sign, word)))["missing"]
        assert words.columns == ("tree",)
        assert "(60 % empty)" in words.explanation
        assert "typical values" not in words.explanation
        numbers = kinds(clean.assign(x=np.where(blank, sign, number)))["missing"]
        assert "filled in with typical values" in numbers.explanation
    assert set(kinds(clean.assign(nothing="?"))["constant"].columns) == {"nothing"}


def test_constant_and_empty_columns(clean):
    rng = np.random.default_rng(0)
    found = kinds(
        clean.assign(
            same="x",
            nothing=np.nan,
            half=np.where(rng.random(N) < 0.6, np.nan, 1.0),
            hardly=np.where(rng.random(N) < 0.95, np.nan, rng.normal(size=N)),
        )
    )
    assert set(found["constant"].columns) == {"same", "nothing"}
    assert found["missing"].columns == ("hardly", "half")
    assert found["missing"].severity == "caution"


def test_worst_comes_first_and_every_pitfall_says_what_to_do(clean):
    bad = clean.assign(copy=clean["y"].str.upper(), same=1, id=[f"id{i}" for i in range(N)])
    found = find_pitfalls(bad, "y")
    order = [("alarm", "caution", "note").index(pitfall.severity) for pitfall in found]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2}
    for pitfall in found:
        assert pitfall.title
        assert pitfall.explanation.endswith(".")
        assert not {"\u00a0", "\u202f"} & set(pitfall.title + pitfall.explanation + pitfall.advice)
        assert pitfall.advice.endswith(".")


def test_rows_count_in_the_table_given_even_if_labels_are_missing(clean):
    again = pd.concat([clean, clean.iloc[[7]]], ignore_index=True)
    again.loc[[0, 1, 2], "y"] = None
    assert kinds(again)["duplicates"].rows == (7, N)


def test_large_tables_are_judged_on_a_sample():
    rng = np.random.default_rng(0)
    n = 60_000
    y = rng.integers(0, 3, n)
    table = pd.DataFrame({"x": rng.normal(size=n), "leak": y + 0.01 * rng.normal(size=n), "y": y})
    assert kinds(table)["leak"].columns == ("leak",)


def test_unusable_tables_are_refused(clean):
    with pytest.raises(TableError, match="no column 'Y'"):
        find_pitfalls(clean, "Y")
    with pytest.raises(TableError, match="holds values of type list"):
        find_pitfalls(clean.assign(x=[[1, 2]] * N), "y")


def by_hand(codes, y):
    """Predict each row from the others of its code, one row at a time."""
    overall = np.bincount(y).argmax()
    hits = 0
    for i in range(len(y)):
        others = np.delete(y, i)[np.delete(codes, i) == codes[i]]
        if not others.size:
            hits += y[i] == overall
            continue
        counts = np.bincount(others, minlength=y.max() + 1)
        hits += (counts == counts.max()).sum() == 1 and counts.argmax() == y[i]
    return hits / len(y)


@pytest.mark.parametrize("seed", range(5))
def test_left_out_accuracy_is_what_leaving_out_gives(seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, rng.integers(1, 60), 120)
    y = np.where(rng.random(120) < 0.6, codes % 3, rng.integers(0, 3, 120))
    assert left_out_accuracy(codes, y) == pytest.approx(by_hand(codes, y))
