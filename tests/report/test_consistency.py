"""Sentences of one report agree with one another, whatever the table and however it was judged."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from bayesvm.report import find_pitfalls, write_report
from bayesvm.report._quality import verdict_of
from bayesvm.tables import fit_table

from .conftest import QUICK

# What may be said if the probabilities are no better than the class frequencies, and what may not.
DOUBTS = ("no better than the class frequencies", "do not rely on them", "no column is known to matter")
TRUST = ("at their word", "far better than", "clearly better than", "more modest", "likely label errors")


def noise(rng, n):
    return rng.normal(size=(n, 6)), rng.choice(["a", "b"], n)


def separable(rng, n):
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] > 0, "a", "b")


def imbalanced(rng, n):
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 1.3, "rare", "usual")


TABLES = {
    "noise": (noise, 300, True),
    "separable": (separable, 300, False),
    "small": (separable, 40, None),
    "small noise": (noise, 40, True),
    "imbalanced": (imbalanced, 400, False),
}


@pytest.fixture(scope="module", params=TABLES)
def table(request):
    make, n, empty = TABLES[request.param]
    X, y = make(np.random.default_rng(1000), n)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(y=y), empty


@pytest.mark.parametrize("judged_by", ["leave-one-out", "held out", "many held out", "promise"])
def test_a_report_does_not_contradict_itself(table, judged_by, tmp_path):
    table, empty = table
    options = {
        "leave-one-out": {"holdout": 0},
        "held out": {},
        "many held out": {"holdout": 0.5},
        "promise": {"holdout": 0.5, "max_error": 0.1},
    }[judged_by]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = fit_table(table, "y", model_options=QUICK, **options)
    pitfalls = find_pitfalls(fit.table, "y")
    page = write_report(fit, tmp_path / "r.html", pitfalls=pitfalls, max_error=0.1).read_text("utf-8")
    text = " ".join(re.sub(r"<[^>]*>|&nbsp;", " ", page.partition("<body>")[2]).split())
    warned = any("no better than the class frequencies" in str(warning.message) for warning in caught)
    verdict = verdict_of(fit)
    if empty is not None and not (empty is False and len(verdict.judged.labels) < 100):
        assert verdict.empty == empty
    # Python, the top and every section say the same.
    assert warned == verdict.empty == bool(fit.doubt)
    for sentence in DOUBTS:
        assert (sentence in text) == verdict.empty, sentence
    if verdict.empty:
        assert not [sentence for sentence in TRUST if sentence in text]
    # Rows that were held out are the judgement wherever there are enough of them.
    held = fit.heldout is not None and len(fit.heldout.labels) >= 20
    assert (verdict.judged is fit.heldout) == held
    assert ("held-out rows right" in text) == held
    # A promise is made by rows that were held out from this model, or not at all.
    promised = "The rate is a promise" in text
    assert not promised or (judged_by == "promise" and fit.pipeline is fit.heldout_pipeline)
    aim = "The rate is an aim" in text
    assert promised + aim + ("answers no row at all" in text) == 1
