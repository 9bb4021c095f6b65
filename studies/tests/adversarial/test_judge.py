"""Areas and rates against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("art")

from bayesvm_studies.adversarial.attack import detection, histogram


def test_all_kinds_of_negatives_and_positives():
    rng = np.random.default_rng(0)
    clean, noisy, attacked = (
        {"entropy": np.round(rng.normal(shift, 1.0, n), 1), "variation_ratio": rng.random(n)}
        for shift, n in ((0.0, 300), (0.3, 80), (1.0, 80))
    )
    successful = rng.random(80) < 0.6
    found = detection(clean, noisy, attacked, successful)
    for kind, negatives in (("clean", clean), ("noisy", noisy)):
        for which, rows in (("all", slice(None)), ("successful", successful)):
            for score in ("entropy", "variation_ratio"):
                low, high = negatives[score], attacked[score][rows]
                label = np.r_[np.zeros(len(low)), np.ones(len(high))]
                area = roc_auc_score(label, np.r_[low, high])
                assert found["auc"][kind][which][score] == pytest.approx(area, abs=1e-5)
                threshold = np.sort(low)[len(low) - int(0.05 * len(low)) - 1]
                assert found["tpr"][kind][which][score] == pytest.approx((high > threshold).mean(), abs=1e-5)


def test_where_no_attack_succeeds_nothing_is_said_about_those():
    scores = {"entropy": np.arange(30.0)}
    found = detection(scores, scores, scores, np.zeros(30, bool))
    assert found["auc"]["clean"] == {"all": {"entropy": 0.5}, "successful": {}}
    assert found["tpr"]["noisy"]["successful"] == {}


def test_histograms_hold_every_row():
    rng = np.random.default_rng(1)
    clean, noisy = rng.normal(-9.0, 2.0, 500), rng.normal(-7.0, 2.0, 70)
    attacked = np.r_[rng.normal(0.0, 1.0, 699), 1e9]
    found = histogram(clean, noisy, attacked)
    assert [sum(found[kind]) for kind in ("clean", "noisy", "attacked")] == [500, 70, 700]
    assert len(found["edges"]) == len(found["clean"]) + 1
    assert np.all(np.diff(found["edges"]) > 0)
    middle = np.searchsorted(found["edges"], -4.5)
    assert sum(found["clean"][:middle]) > 480
    assert sum(found["attacked"][:middle]) < 5


def test_a_histogram_of_equal_numbers():
    same = np.full(5, 2.0)
    assert sum(histogram(same, same, same)["clean"]) == 5
