"""Results of the experiment on adversarial images, made up for a purpose."""

from bayesvm_studies.adversarial.plan import ATTACKS, EPSILONS, SCORE_TITLES, VICTIMS
from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.results import Result, Task

LATENT = ("latent_variance", "inducing_distance")


def made(
    group, victim="bayesvm", attack="fgsm", seed=0, *, status="ok", started=0.0, shortened=False, **known
):
    """An attack at all strengths; areas grow with strength and seed."""
    data = GROUPS[group].data
    arguments = {"group": group, "victim": victim, "attack": attack, "device": "cuda", "limit_rows": None}
    config = {"estimator": "m:measure", "arguments": arguments, "shortened": shortened}
    versions = {"bayesvm": "1", "torch": "2", "weights": known.pop("weights", "3")}
    task = Task(data, "digest", attack, seed, f"{group}.{victim}", config, versions)
    where = {"started": started, "jobs": 1, "machine": "a processor", "commit": "abc"}
    if status != "ok":
        return Result.of(task, status, error=known["error"], **where)
    level = known.pop("level", 0.9)
    own = victim.startswith("bayesvm")
    scores = [s for s in SCORE_TITLES if own or s not in LATENT]
    by_epsilon = {}
    for k, epsilon in enumerate(EPSILONS[data]):
        area = level + 0.01 * k + 0.002 * seed
        areas = {s: round(area - 0.02 * i, 6) for i, s in enumerate(reversed(scores))}
        kinds = {
            "clean": {"all": areas, "successful": areas},
            "noisy": {"all": {s: a - 0.1 for s, a in areas.items()}, "successful": {}},
        }
        by_epsilon[f"{epsilon:g}"] = {
            "n": 100,
            "correct": 60 - 5 * k + seed,
            "successful": 30 + 5 * k,
            "noisy_correct": 90,
            "variation_ratio": 0.1 + 0.05 * k,
            "auc": kinds,
            "tpr": kinds,
        }
        if attack == "fgsm":
            counts = {"clean": [5, 3, 0], "noisy": [4, 2, 2], "attacked": [1, 2, 5]}
            by_epsilon[f"{epsilon:g}"]["histograms"] = {
                "log_variation_ratio": {"edges": [-3.0, -2.0, -1.0, 0.0], **counts}
            }
    extra = {
        "clean": {"n": 200, "correct": 190 + seed, "variation_ratio": 0.02},
        "by_epsilon": by_epsilon,
        "gpu": "NVIDIA H200",
    }
    sums = {"n_test": 200, "correct": 190 + seed, "log_loss_sum": 30.0, "brier_sum": 15.0}
    bins = [[14, 200, 190, 195.0]]
    return Result.of(
        task, "ok", n_train=1000, n_classes=10, total_s=2.0, extra=extra, bins=bins, **sums, **where
    )


def many(groups=tuple(GROUPS)):
    """Everything there is of some networks, with a failure."""
    results = [
        made(group, name, attack, seed)
        for group in groups
        for name, victim in VICTIMS.items()
        for attack in ATTACKS
        if attack in victim.attacks
        for seed in range(1 if victim.together or ATTACKS[attack].seeds else 2)
    ]
    return [*results, made("mnist", seed=7, status="error", error="out of <b>cards</b>")]
