"""Results of the experiment on images, made up for a purpose."""

import math

from bayesvm_studies.images.plan import DERIVED, GROUPS, HEADS, OWN_HEADS
from bayesvm_studies.results import Result, Task

KINDS = ("fog", "shot_noise")
SCORES = ("entropy", "log_variation_ratio", "largest_probability")


def made(group, model, seed=0, *, correct=90, loss=30.0, status="ok", started=0.0, shortened=False, **known):
    """A training or what was made of some: 100 test rows."""
    protocol = known.pop("protocol", group)
    jobs = known.pop("jobs", 4)
    n_epochs = known.pop("n_epochs", 5)
    recipe = dict(GROUPS[group].recipe)
    arguments = {
        "kind": "train",
        "recipe": recipe,
        "random_state": seed,
        "device": "cuda",
        "limit_rows": None,
    }
    config = {"estimator": "m:measure", "arguments": arguments, "shortened": shortened}
    task = Task(GROUPS[group].data, "digest", protocol, seed, model, config, {"bayesvm": "1", "torch": "2"})
    where = {"started": started, "jobs": jobs, "machine": "a processor", "commit": "abc"}
    if status != "ok":
        return Result.of(task, status, error=known["error"], **where)
    sums = {"correct": correct, "log_loss_sum": loss, "brier_sum": 15.0, "bins": [[14, 100, correct, 95.0]]}
    tempered = {"n_test": 100, **sums, "log_loss_sum": 0.9 * loss, "bins": [[13, 100, correct, 91.0]]}
    base = 0.8 + 0.01 * seed
    if group == "mnist":
        ood = {"fashion_mnist": dict.fromkeys(SCORES, base)}
    else:
        ood = {
            f"{kind}-{k}": dict.fromkeys(SCORES, base - 0.3 + 0.05 * k) for kind in KINDS for k in range(1, 6)
        }
    extra = {"ood": ood, "ood_tempered": ood, "tempered": tempered, "temperature": 1.3, "gpu": "NVIDIA H200"}
    if model.removesuffix("_warmup") in HEADS:
        extra["epochs"] = [epoch(k, seed, model) for k in range(1, n_epochs + 1)]
    return Result.of(
        task,
        "ok",
        n_train=1000,
        n_test=100,
        n_classes=10,
        fit_s=10.0,
        predict_s=0.05,
        extra=extra,
        **sums,
        **where,
    )


def epoch(k, seed, model):
    shift = 0.01 * seed + (0.02 if model in OWN_HEADS else 0.0)
    return {
        "number": k,
        "objective": math.exp(-0.5 * k) + shift,
        "likelihood": -math.exp(-0.6 * k) - shift,
        "kl": 0.1 / k,
        "seconds": 2.0 + 0.1 * k,
        "test_accuracy": 0.95 - 0.5 * math.exp(-k) + shift,
        "test_log_loss": 0.3 + math.exp(-k),
    }


def clock(name, group="mnist", *, softmax=(1.0, 1.2, 5.0), bayesvm=(1.1, 1.5, 1.3), batch=128):
    recipe = {**GROUPS[group].recipe, "batch_size": batch}
    arguments = {"kind": "time", "recipe": recipe, "random_state": 0, "device": "cuda", "limit_rows": None}
    config = {"estimator": "m:measure", "arguments": arguments, "shortened": False}
    task = Task(GROUPS[group].data, "digest", "timing", 0, name, config, {"bayesvm": "1", "torch": "2"})
    ratio = {"softmax": 1.0, "bayesvm": sorted(bayesvm)[1] / sorted(softmax)[1]}
    extra = {"epoch_s": {"softmax": list(softmax), "bayesvm": list(bayesvm)}, "ratio": ratio}
    return Result.of(task, "ok", n_train=500, n_classes=10, extra=extra, machine="a processor", commit="abc")


def many(groups=tuple(GROUPS)):
    """Everything there is of some networks, with a failure."""
    results = []
    for group, spec in ((group, GROUPS[group]) for group in groups):
        for i, model in enumerate((*HEADS, *DERIVED)):
            n_seeds = spec.seeds.get(model, 1)
            results += [made(group, model, s, correct=88 + i + s, loss=40.0 - i) for s in range(n_seeds)]
    results.append(made("mnist", "softmax", 7, status="error", error="out of <b>cards</b>"))
    for group in ("mnist", "cifar10"):
        for model in ("bayesvm", "bayesvm_warmup", "bayesvm_adam", "bayesvm_adam_warmup"):
            results.append(made(group, model, protocol="warmup"))
    results += [clock(name, name) for name in GROUPS]
    results += [clock("cifar10_residual_pace", "cifar10_residual", batch=256), clock("1000_classes")]
    return results
