"""Detectors follow the contract of adversarial-robustness-toolbox and keep their false-positive rate."""

import numpy as np
import pytest

pytest.importorskip("art")

from art.attacks.evasion import FastGradientMethod
from art.defences.detector.evasion import EvasionDetector

from bayesvm.adversarial import SCORES, SQUEEZING, CombinedDetector, ScoreDetector, roc_auc
from bayesvm.adversarial._evaluate import conformal_threshold


@pytest.fixture(scope="module")
def attacked(classifier, digits):
    return {
        eps: FastGradientMethod(classifier, eps=eps).generate(digits.test_X, digits.test_y)
        for eps in (0.06, 0.3)
    }


@pytest.fixture(scope="module")
def combined(classifier, digits):
    detector = CombinedDetector(classifier, strengths=(0.03, 0.1, 0.2, 0.45), attacks=("fgsm",))
    detector.fit(digits.train_X, digits.train_y)
    detector.calibrate(digits.held_X)
    return detector


def test_score_detector_is_a_threshold_on_a_score(classifier, digits):
    detector = ScoreDetector(classifier, "standardised_margin", false_positive_rate=0.1)
    assert isinstance(detector, EvasionDetector)
    detector.fit(digits.held_X, digits.held_y)
    clean = classifier.scores(digits.held_X)["standardised_margin"]
    assert detector.threshold_ == conformal_threshold(clean, 0.1)
    report, found = detector.detect(digits.test_X)
    scores = classifier.scores(digits.test_X, ["standardised_margin"])["standardised_margin"]
    assert np.allclose(report["scores"], scores, rtol=1e-3, atol=1e-4)
    assert report["threshold"] == detector.threshold_
    assert report["false_positive_rate"] == 0.1
    assert found.dtype == bool
    assert np.array_equal(found, report["scores"] > detector.threshold_)


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_false_positives_on_images_it_was_fitted_to(classifier, digits, rate):
    detector = ScoreDetector(classifier, false_positive_rate=rate)
    detector.fit(digits.held_X)
    assert detector.detect(digits.held_X)[1].mean() <= rate
    fresh = detector.detect(digits.test_X)[1].mean()
    assert fresh <= rate + 4.0 * np.sqrt(rate / len(digits.test_X) + rate / len(digits.held_X))


def test_attacks_trip_the_wire(classifier, digits, attacked):
    detector = ScoreDetector(classifier)
    detector.fit(digits.held_X)
    clean = detector.detect(digits.test_X)[1].mean()
    assert detector.detect(attacked[0.3])[1].mean() > clean + 0.4


def test_parameters_as_the_toolbox_sets_them(classifier):
    detector = ScoreDetector(classifier, "entropy")
    assert detector.get_params() == {
        "classifier": classifier,
        "false_positive_rate": 0.05,
        "score": "entropy",
    }
    detector.set_params(score="latent_variance", false_positive_rate=0.01)
    assert detector.score == "latent_variance"
    with pytest.raises(ValueError, match="surprise"):
        detector.set_params(score="surprise")


def test_combined_detector_sees_what_one_score_sees_and_more(combined, classifier, digits, attacked):
    for eps, images in attacked.items():
        clean, now = classifier.scores(digits.test_X), classifier.scores(images)
        alone = max(roc_auc(clean[name], now[name]) for name in clean)
        together = roc_auc(combined.suspicion(digits.test_X), combined.suspicion(images))
        assert together > alone - 0.03, eps


def test_combined_detector_keeps_its_rate(combined, digits, attacked):
    assert isinstance(combined, EvasionDetector)
    report, found = combined.detect(digits.test_X)
    assert found.mean() <= 0.05 + 4.0 * np.sqrt(0.05 / len(digits.test_X) + 0.05 / len(digits.held_X))
    assert np.isfinite(report["scores"]).all()
    assert combined.detect(attacked[0.3])[1].mean() > 0.5


def test_scores_that_are_there_already_serve(combined, classifier, digits):
    scores = classifier.scores(digits.test_X, [*SCORES, *SQUEEZING])
    assert np.allclose(combined.suspicion_of_scores(scores), combined.suspicion(digits.test_X), atol=1e-6)
    del scores["latent_variance"]
    with pytest.raises(ValueError, match="latent_variance"):
        combined.suspicion_of_scores(scores)


@pytest.mark.parametrize("kind", ["boosting", "logistic"])
def test_both_tails_of_a_score_are_found(classifier, kind):
    """Attacks on either side of the clean images, by a score of one's own: no threshold on it would do."""
    rng = np.random.default_rng(0)
    detector = CombinedDetector(classifier, kind=kind)

    def scores(n):
        clean = {"mine": rng.normal(0.0, 1.0, n)}
        attacks = {"mine": rng.choice([-1.0, 1.0], n) * rng.normal(4.0, 1.0, n)}
        return clean, attacks

    detector.fit_scores(*scores(1000))
    assert detector.combination_.names == ["mine"]
    clean, attacks = (detector.suspicion_of_scores(part) for part in scores(1000))
    assert roc_auc(clean, attacks) > 0.97


def test_fitting_again_gives_the_same(combined, classifier, digits):
    again = CombinedDetector(classifier, strengths=(0.03, 0.1, 0.2, 0.45), attacks=("fgsm",))
    again.fit(digits.train_X, digits.train_y)
    assert np.array_equal(again.suspicion(digits.test_X[:50]), combined.suspicion(digits.test_X[:50]))


def test_noise_may_count_as_clean_or_not(classifier, digits):
    import torch

    from bayesvm.adversarial import random_signs

    noisy = random_signs(torch.from_numpy(digits.test_X), 0.3, seed=9).numpy()
    flagged = []
    for noise in (True, False):
        detector = CombinedDetector(classifier, strengths=(0.2, 0.4), attacks=("fgsm",), noise=noise)
        detector.fit(digits.train_X[:400], digits.train_y[:400])
        flagged.append(roc_auc(detector.suspicion(digits.test_X), detector.suspicion(noisy)))
    assert flagged[0] < flagged[1]


def test_attacks_it_learns_from_can_be_chosen(classifier, digits):
    detector = CombinedDetector(classifier, strengths=(0.2,), attacks=("pgd",))
    detector.fit(digits.train_X[:300], digits.train_y[:300], batch_size=300)
    from bayesvm.adversarial import pgd

    strong = pgd(classifier.image_model, *digits.test, 0.3).numpy()
    assert roc_auc(detector.suspicion(digits.test_X), detector.suspicion(strong)) > 0.8


def test_pixels_are_looked_at_if_asked(classifier, digits, attacked):
    areas = []
    for pixels in (False, True):
        detector = CombinedDetector(classifier, strengths=(0.03, 0.12), attacks=("fgsm",), pixels=pixels)
        detector.fit(digits.train_X[:400], digits.train_y[:400])
        assert ("roughness" in detector.combination_.names) == pixels
        areas.append(roc_auc(detector.suspicion(digits.test_X), detector.suspicion(attacked[0.06])))
    assert areas[1] > areas[0]


def test_mistakes_are_explained(classifier, digits):
    with pytest.raises(ValueError, match="call fit first"):
        ScoreDetector(classifier).detect(digits.test_X[:3])
    with pytest.raises(ValueError, match="call fit first"):
        CombinedDetector(classifier).suspicion(digits.test_X[:3])
    with pytest.raises(ValueError, match="at least 19"):
        ScoreDetector(classifier).fit(digits.held_X[:10])
    with pytest.raises(TypeError, match="ArtClassifier"):
        ScoreDetector("classifier")
    with pytest.raises(ValueError, match="false_positive_rate"):
        ScoreDetector(classifier, false_positive_rate=0.0)
    for bad in ({"strengths": ()}, {"strengths": (-0.1,)}, {"attacks": ("cw",)}, {"kind": "svm"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            CombinedDetector(classifier, **bad)
    with pytest.raises(ValueError, match="labels"):
        CombinedDetector(classifier).fit(digits.train_X[:5], digits.train_y[:4])


def test_images_that_are_none_are_refused(classifier, digits):
    detector = ScoreDetector(classifier)
    detector.fit(digits.held_X)
    for x, message in (
        (255.0 * digits.test_X, "divide by 255"),
        (np.full((2, 1, 8, 8), np.nan), "pixels must be in"),
        (digits.test_X[:0], "N at least 1"),
        (digits.test_X[0], "N at least 1"),
        (digits.test_X[:, :, :4], "this classifier is for"),
    ):
        with pytest.raises(ValueError, match=message):
            detector.detect(x)
        with pytest.raises(ValueError, match=message):
            classifier.classes(x)


def test_classes_may_be_one_hot(classifier, digits):
    x, y = digits.train_X[:120], digits.train_y[:120]
    found = []
    for labels in (y, np.eye(10)[y]):
        detector = CombinedDetector(classifier, (0.2,), attacks=("fgsm",))
        detector.fit(x, labels)
        found.append(detector.suspicion(x[:5]))
    assert np.array_equal(*found)
