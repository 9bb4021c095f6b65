"""Attacks on small networks: what a worker finds, against the toolbox and by hand."""

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("art")

from art.attacks.evasion import FastGradientMethod
from sklearn.metrics import roc_auc_score

from bayesvm.adversarial import SCORES, ArtClassifier, score_images
from bayesvm.adversarial._scores import SQUEEZING
from bayesvm_studies.adversarial import attack as attacked
from bayesvm_studies.adversarial.attack import detection, histogram, load_victim, measure, said_about, warm_up
from bayesvm_studies.adversarial.plan import EPSILONS, SCORE_TITLES
from bayesvm_studies.images.arrays import models_folder, read_images
from bayesvm_studies.images.models import evaluated, load_model, output_of
from studies.tests.doubles import as_read

CPU = torch.device("cpu")
LATENT = {"latent_variance", "inducing_distance"}


@pytest.fixture(autouse=True)
def forgotten():
    """No test sees what another one prepared."""
    attacked._last.clear()
    attacked._images.cache_clear()


def task_of(plan, model, attack="fgsm", seed=0):
    return next(
        t for t in plan.stages[1].tasks if (t.protocol, t.model, t.split) == (attack, f"mnist.{model}", seed)
    )


def at(task, *epsilons, **changed):
    """The same at fewer strengths, detectors fitted at fewer."""
    few = {"epsilons": list(epsilons), "fitted_at": [0.125, 0.35], **changed}
    config = {**task.config, "arguments": {**task.config["arguments"], **few}}
    return dataclasses.replace(task, config=config)


def ran(task, folder):
    began = []
    warm_up(task.config)
    known = measure(dataclasses.asdict(task), folder, lambda: began.append(True))
    assert began == [True]
    return as_read(task, **known)


@pytest.mark.parametrize("model", ["bayesvm", "softmax", "ensemble", "mc_dropout"])
def test_every_model_is_attacked_at_every_strength(plan, folder, model):
    result = ran(task_of(plan, model), folder)
    assert list(result.extra["by_epsilon"]) == [f"{e:g}" for e in EPSILONS["mnist"]]
    assert result.extra["clean"]["n"] == result.n_test == 150
    assert result.extra["clean"]["correct"] == result.correct > 120
    assert result.extra["model_shortened"]  # eight epochs
    scores = set(SCORE_TITLES) - (set() if model == "bayesvm" else LATENT)
    scores -= {"feature_shift"} if model == "ensemble" else set()
    # Asking a model of many passes again takes too long.
    scores -= {"step_response", "feature_shift", "squeezed"} if model == "mc_dropout" else set()
    scores -= {"mutual_information"} if model == "softmax" else set()
    for known in result.extra["by_epsilon"].values():
        assert known["n"] == 150
        assert known["successful"] <= known["n"] - known["correct"]
        assert 0.0 <= known["variation_ratio"] <= 1.0
        for negatives in ("clean", "noisy"):
            assert set(known["auc"][negatives]["all"]) == scores
            assert all(0.0 <= v <= 1.0 for v in known["auc"][negatives]["all"].values())
    strong = result.extra["by_epsilon"]["0.5"]
    assert strong["correct"] < result.extra["by_epsilon"]["0.05"]["correct"]
    assert strong["correct"] < strong["noisy_correct"]


def test_the_attack_is_that_of_the_toolbox_and_the_numbers_follow_from_it(plan, folder):
    task = task_of(plan, "bayesvm")
    known = ran(at(task, 0.15), folder).extra["by_epsilon"]["0.15"]
    images = read_images(folder, CPU, None)
    X, y = (images.test_X.float() / 255.0), images.test_y
    model = load_victim(task.config["arguments"], models_folder(folder), CPU).model
    classifier = ArtClassifier(model, input_shape=(1, 28, 28), n_classes=10)
    moved = FastGradientMethod(classifier, eps=0.15, batch_size=50).generate(X.numpy(), y.numpy())
    after = classifier.classes(moved)
    before = classifier.classes(X.numpy())
    label = y.numpy()
    assert known["correct"] == (after == label).sum()
    hit = (before == label) & (after != label)
    assert known["successful"] == hit.sum() > 0
    clean, bad = (score_images(model, torch.as_tensor(v)) for v in (X, moved))
    for score in ("log_variation_ratio", "latent_variance", "inducing_distance"):
        for which, rows in (("all", slice(None)), ("successful", hit)):
            low, high = clean[score].numpy(), bad[score].numpy()[rows]
            area = roc_auc_score(np.r_[np.zeros(len(low)), np.ones(len(high))], np.r_[low, high])
            assert known["auc"]["clean"][which][score] == pytest.approx(area, abs=2e-4), score
    assert known["variation_ratio"] == pytest.approx(float(bad["variation_ratio"].mean()), rel=1e-3)


def test_models_say_what_the_experiment_on_images_says(plan, folder, kept):
    """Pixels in [0, 1] and bytes are the same images."""
    images = read_images(folder, CPU, None)
    for name in ("bayesvm", "softmax", "softmax_tempered"):
        arguments = task_of(plan, name).config["arguments"]
        said = said_about(load_victim(arguments, kept, CPU).model, images.test_X.float() / 255.0)
        model = load_model(kept / arguments["members"][0])
        if name == "softmax_tempered":
            assert model.temperature != 1.0
            model.head.temperature.fill_(model.temperature)
        with evaluated(model):
            expected = output_of(model, images.test_X).probabilities()
        torch.testing.assert_close(said.probabilities.float(), expected, rtol=1e-4, atol=1e-5)


def test_an_ensemble_is_the_mean_of_its_members(plan, folder, kept):
    X = read_images(folder, CPU, None).test_X.float() / 255.0
    one = [
        said_about(load_victim(task_of(plan, "softmax", seed=s).config["arguments"], kept, CPU).model, X)
        for s in (0, 1)
    ]
    both = said_about(load_victim(task_of(plan, "ensemble").config["arguments"], kept, CPU).model, X)
    mean = 0.5 * (one[0].probabilities + one[1].probabilities)
    torch.testing.assert_close(both.probabilities, mean, rtol=1e-4, atol=1e-7)


def test_stronger_attacks_and_one_that_hides(plan, folder):
    found = {
        attack: ran(at(task_of(plan, "bayesvm", attack), *epsilons), folder).extra["by_epsilon"]
        for attack, *epsilons in (("fgsm", 0.05, 0.3), ("pgd", 0.05), ("adaptive", 0.3), ("mimic", 0.3))
    }
    assert found["pgd"]["0.05"]["correct"] <= found["fgsm"]["0.05"]["correct"]

    def area(attack, score):
        return found[attack]["0.3"]["auc"]["clean"]["all"][score]

    # What the attack lowers gives it away less than it gives away one that does not care.
    assert area("adaptive", "log_variation_ratio") < area("fgsm", "log_variation_ratio")
    assert area("mimic", "squeezed") < area("fgsm", "squeezed")


def test_preparations_are_shared_by_attacks_on_a_model(plan, folder, monkeypatch):
    made = []
    prepare = attacked._prepare
    monkeypatch.setattr(attacked, "_prepare", lambda *a: made.append(1) or prepare(*a))
    fgsm, longer = (at(task_of(plan, "bayesvm", attack), 0.1, rows=30) for attack in ("fgsm", "pgd"))
    first = ran(fgsm, folder)
    ran(longer, folder)
    assert len(made) == 1
    other = ran(at(task_of(plan, "bayesvm", seed=1), 0.1, rows=30), folder)
    assert len(made) == 2
    assert other.extra["by_epsilon"] != first.extra["by_epsilon"]
    assert ran(fgsm, folder).extra["by_epsilon"] == first.extra["by_epsilon"]


def test_the_detector_never_sees_a_test_image(plan, folder):
    """Other test images, the same detector."""
    arguments = at(task_of(plan, "bayesvm")).config["arguments"]
    probe = {name: np.linspace(-3.0, 3.0, 50) for name in (*SCORES, *SQUEEZING)}
    first = attacked._prepare(arguments, folder).detectors.suspicion(probe)
    assert list(first) == ["combined", "squeezed"]
    images = np.load(folder / "test_X.npy")
    np.save(folder / "test_X.npy", 255 - images)
    attacked._images.cache_clear()
    second = attacked._prepare(arguments, folder).detectors.suspicion(probe)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


def test_fewer_rows(plan, folder):
    result = ran(at(task_of(plan, "bayesvm"), 0.1, 0.2, limit_rows=40, rows=30), folder)
    assert result.n_test == 40
    assert {e["n"] for e in result.extra["by_epsilon"].values()} == {30}


def test_a_model_that_is_gone_is_named(plan, folder):
    with pytest.raises(FileNotFoundError, match=r"gone\.pt"):
        ran(at(task_of(plan, "bayesvm"), members=["gone.pt"]), folder)


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
