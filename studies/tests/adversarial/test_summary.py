"""The summary against sums by hand."""

import json

import numpy as np
import pytest

from bayesvm_studies.adversarial.plan import ATTACKS, EPSILONS, FITTED_AT, SCORE_TITLES, VICTIMS
from bayesvm_studies.adversarial.report import attack_table, detection_csv, score_table, victim_table
from bayesvm_studies.adversarial.summary import summarise_adversarial
from bayesvm_studies.images.plan import GROUPS
from studies.tests.adversarial.results import made, many


@pytest.fixture(scope="module")
def summary():
    return summarise_adversarial(many())


@pytest.fixture(scope="module")
def numbers(summary):
    return json.loads(json.dumps(summary.as_dict(), allow_nan=False))


def test_the_keys_that_readers_look_for(numbers):
    for data in ("mnist", "cifar10"):
        areas = numbers[data]["auc"]
        assert set(areas) == set(SCORE_TITLES)
        assert list(areas["combined"]) == [f"{e:g}" for e in EPSILONS[data]]
        assert numbers["tpr_at_5_fpr"][data] == numbers[data]["tpr_at_5_fpr"]
        assert set(numbers["adaptive"]["auc"][data]) == set(SCORE_TITLES)
    assert (numbers["mnist"]["network"], numbers["cifar10"]["network"]) == ("paper_mnist", "residual9")
    assert numbers["cifar10_paper"]["network"] == "paper_cifar10"


def test_means_over_seeds(numbers):
    areas = [
        made("mnist", seed=seed).extra["by_epsilon"]["0.2"]["auc"]["clean"]["all"]["entropy"]
        for seed in (0, 1)
    ]
    assert numbers["mnist"]["auc"]["entropy"]["0.2"] == pytest.approx(np.mean(areas), abs=1e-6)
    assert numbers["mnist"]["auc_noisy"]["entropy"]["0.2"] == pytest.approx(np.mean(areas) - 0.1, abs=1e-6)
    assert numbers["mnist"]["auc_noisy_successful"]["entropy"]["0.2"] is None
    assert numbers["mnist"]["accuracy"]["0"] == pytest.approx((190 + 191) / 400)
    assert numbers["mnist"]["accuracy"]["0.05"] == pytest.approx((60 + 61) / 200)
    assert numbers["mnist"]["successful"]["0.1"] == pytest.approx(0.35)
    assert numbers["mnist"]["seeds"] == [0, 1]


def test_models_and_attacks(numbers):
    for group in GROUPS:
        for name, victim in VICTIMS.items():
            assert set(numbers["models"][group][name]) == set(victim.attacks)
    assert "latent_variance" not in numbers["models"]["mnist"]["softmax"]["fgsm"]["auc"]


def test_goals_take_the_lowest_area():
    found = summarise_adversarial(
        [made("mnist", level=0.985), made("cifar10_residual", level=0.85)]
    ).as_dict()
    mnist, strong, weak = found["goals"]
    assert (mnist["section"], mnist["least"], mnist["squeezed"]) == ("mnist", 0.99, pytest.approx(0.995))
    assert mnist["combined"] == pytest.approx(0.975)
    assert mnist["reached"]
    # Strengths .1, .2, .3 are the fourth to sixth of the grid.
    assert (strong["squeezed"], strong["reached"]) == (pytest.approx(0.88), False)
    assert (weak["squeezed"], weak["reached"]) == (pytest.approx(0.85), True)
    assert weak["variation_ratio"] < weak["combined"]


def test_gaps_are_told(summary, numbers):
    assert numbers["failed"] == ["fgsm on mnist.bayesvm, seed 7: out of <b>cards</b>"]
    assert numbers["missing"] == []
    assert numbers["n_runs"] == len(summary.results)
    little = summarise_adversarial([made("mnist", "softmax")])
    assert "fgsm on mnist.bayesvm" in little.as_dict()["missing"]
    assert little.as_dict()["mnist"]["auc"] == {}
    assert summarise_adversarial([]).as_dict()["n_runs"] == 0


def test_attacks_on_other_weights_are_told(numbers):
    assert numbers["other_weights"] == []
    found = summarise_adversarial(
        [made("mnist"), made("mnist", attack="pgd", weights="4"), made("mnist", "softmax", weights="5")]
    )
    assert found.as_dict()["other_weights"] == ["mnist.bayesvm 0"]


def test_of_equal_runs_the_newest_and_a_full_one_counts():
    old, new, short = (
        made("mnist", level=0.7),
        made("mnist", level=0.8),
        made("mnist", level=0.6, shortened=True),
    )
    results = [
        old,
        made("mnist", level=0.8, started=5.0),
        made("mnist", level=0.6, started=9.0, shortened=True),
        made("mnist", status="error", error="no", started=11.0),
    ]
    found = summarise_adversarial(results)
    assert found.of("mnist").auc("squeezed", 0.05) == pytest.approx(0.8)
    assert not found.shortened
    assert found.failed == []
    assert summarise_adversarial([short]).shortened
    assert summarise_adversarial([new]).of("mnist").auc("squeezed", 0.05) == pytest.approx(0.8)


def test_tables(summary):
    table = score_table(summary.of("mnist"))
    assert table.heads == [f"ε = {e:g}" for e in EPSILONS["mnist"]]
    assert [line.name for line in table.lines if line.ours] == [
        "Combined detector",
        "Combined, with squeezing",
    ]
    best = [[line.name for line in table.lines if line.cells[k].best] for k in range(7)]
    assert best == [["Combined, with squeezing"]] * 7
    victims = victim_table(summary, "cifar10")
    assert [line.ours for line in victims.lines] == [name.startswith("bayesvm") for name in VICTIMS]
    assert victims.lines[0].cells[0].text == "0.952"
    assert [line.small for line in victims.lines if line.name == "Deep ensemble"] == ["all seeds as one"]
    assert {line.small for line in victims.lines if line.name != "Deep ensemble"} == {"2 seeds"}
    attacked_in_steps = victim_table(summary, "cifar10", "pgd")
    assert len(attacked_in_steps.lines) == sum("pgd" in victim.attacks for victim in VICTIMS.values())
    assert len(attack_table(summary, "cifar10").lines) == 6 * len(ATTACKS)


def test_the_csv_has_a_row_for_every_number(summary):
    lines = detection_csv([summary.of("mnist", "softmax", "pgd")]).splitlines()
    # Strengths, scores without the latent ones; successful attacks against noise have none.
    assert len(lines) == 1 + 7 * 9 * 3
    assert lines[0].startswith("network,model,seed,attack,epsilon,")
    assert lines[1].startswith("mnist,softmax,0,pgd,0.05,100,0.6,0.1,clean,all,")


def test_the_detector_is_not_fitted_at_strengths_it_is_judged_by():
    for data, judged in EPSILONS.items():
        assert not set(judged) & set(FITTED_AT[data])
        assert min(FITTED_AT[data]) < min(judged)


def test_the_grids_are_those_of_the_study():
    assert EPSILONS["mnist"] == (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
    assert EPSILONS["cifar10"] == (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
