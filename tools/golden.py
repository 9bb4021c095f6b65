"""A guard for refactorings that must not change a number.

    python tools/golden.py write tools/golden.npz
    python tools/golden.py check tools/golden.npz [--only SUBSTRING] [--log-loss]
    python tools/golden.py time FILE.json

``write`` fits small models of every kind on six small data sets and stores what they say; ``check`` does so
again and compares. ``--only`` takes a part of a section's name (``--only svc/rivals``; ``--only list`` prints
the names). ``--log-loss`` prints the held-out log-loss of the default model for five seeds beside that of the
file: an intended change of numbers should stay within the noise of the seeds. ``time`` writes median seconds
of fits. Only public names are used, so that files may move; the few limits that are lowered to reach
other paths are searched for in all loaded modules.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
    os.environ[_name] = "1"

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import math
import pkgutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets as sk
from sklearn.model_selection import train_test_split

import bayesvm
from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    OneVsRestBayesianSVC,
    SVGPClassifier,
)

torch.set_num_threads(1)

TOLERANCE = 1e-9
# Numbers kept of an array; of a longer one every k-th, its mean and its root mean square.
KEPT = 120
ROWS = 32
# What is compared is 1e-9 of max(1, |x|); digits far below it are dropped so that the file is small.
DIGITS = 2.0**38
# Entries (a substring of their names) that are not the same in every process, with the reason.
NOT_REPRODUCIBLE: tuple[str, ...] = ()

SECTIONS = {}


def section(name, *args, **kwargs):
    """Register ``function(out, *args)`` under a name; ``out(name, value)`` records."""

    def register(function):
        assert name not in SECTIONS, name
        SECTIONS[name] = lambda out: function(out, *args, **kwargs)
        return function

    return register


# ---------------------------------------------------------------------------------------------------- data


def _repeated():
    """Repeated rows, columns of few whole values, five classes of which one is rare."""
    rng = np.random.default_rng(5)
    base = rng.integers(0, 4, (90, 5)).astype(float)
    base[:, 4] = rng.integers(0, 12, 90)
    score = base[:, 0] + base[:, 1] - base[:, 2] + 0.3 * base[:, 4]
    label = np.digitize(score, np.quantile(score, [0.3, 0.6, 0.85, 0.96]))
    pick = np.concatenate([np.arange(90), rng.integers(0, 90, 110)])
    y = label[pick]
    noisy = rng.random(200) < 0.08
    y[noisy] = rng.integers(0, 4, noisy.sum())
    return base[pick], y


def load_sets():
    """The six sets; digits are drawn so that all classes occur."""
    noisy = sk.make_classification(
        150, 8, n_informative=4, n_redundant=1, n_classes=3, flip_y=0.15, class_sep=0.8, random_state=3
    )
    digits = sk.load_digits(return_X_y=True)
    cancer = sk.load_breast_cancer(return_X_y=True)
    return {
        "iris": sk.load_iris(return_X_y=True),
        "wine": sk.load_wine(return_X_y=True),
        "cancer": (cancer[0][:200], cancer[1][:200]),
        "digits": (digits[0][:400], digits[1][:400]),
        "noisy": noisy,
        "repeated": _repeated(),
    }


SETS = load_sets()
TWO = {"cancer": SETS["cancer"], "noisy2": (SETS["noisy"][0], (SETS["noisy"][1] == 0).astype(int))}
ALL = {**SETS, **TWO}


def some(X, n=ROWS):
    """Every k-th row, one of them moved away from the data."""
    Q = np.array(X[:: max(1, len(X) // n)][:n], dtype=float)
    Q[0] = Q[0] + 1.5 * np.asarray(X, dtype=float).std(0)
    return Q


def shuffled(name, n=None, seed=0):
    X, y = ALL[name]
    order = np.random.default_rng(seed).permutation(len(X))[:n]
    return X[order], y[order]


# --------------------------------------------------------------------------------------------- constants


@functools.cache
def load_modules():
    """Load the package, so that no module is first loaded, and copies a constant, while that is lowered."""
    for module in pkgutil.walk_packages(bayesvm.__path__, "bayesvm.", onerror=lambda name: None):
        if not {"cli", "experiments", "report", "plotting", "__main__"} & set(module.name.split(".")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


@contextlib.contextmanager
def limit(name, value):
    """Set a module constant of the package wherever it now lives, with or without a leading underscore."""
    load_modules()
    wanted, found = name.lstrip("_"), []
    for module_name in list(sys.modules):
        module = sys.modules[module_name]
        if module is None or module_name.split(".")[0] != "bayesvm":
            continue
        for attribute in list(vars(module)):
            if attribute.lstrip("_") == wanted:
                found.append((module, attribute, vars(module)[attribute]))
    if not found:
        raise LookupError(
            f"no loaded module of bayesvm has a constant {wanted}; tell tools/golden.py its new name"
        )
    for module, attribute, _ in found:
        setattr(module, attribute, value)
    try:
        yield
    finally:
        for module, attribute, old in found:
            setattr(module, attribute, old)


# --------------------------------------------------------------------------------------------- recording

# Whole models, modules and what has clock times in it; their numbers show in the predictions.
_INTERNAL = {"model_", "memory_", "network_", "head_", "history_", "local_part_", "kernel_", "estimator_"}


def flatten(name, value):
    """Numbers and words in a value, by name."""
    if value is None:
        yield name, "None"
    elif isinstance(value, str):
        yield name, value
    elif isinstance(value, torch.Tensor):
        yield name, value.detach().cpu().numpy()
    elif isinstance(value, (bool, int, float, np.generic)):
        yield name, np.asarray(value)
    elif isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, dict):
        for key in value:
            yield from flatten(f"{name}.{key}", value[key])
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if not field.name.startswith("_") and field.name != "seconds":
                yield from flatten(f"{name}.{field.name}", getattr(value, field.name))
    elif hasattr(value, "_fields"):
        for field in value._fields:
            yield from flatten(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, (list, tuple)):
        if all(isinstance(v, (bool, int, float, str, np.generic)) for v in value):
            yield name, np.asarray(value)
        else:
            for i, part in enumerate(value):
                yield from flatten(f"{name}.{i}", part)


class Out:
    """Collects entries of one section."""

    def __init__(self, section_name):
        self.section, self.entries = section_name, {}

    def __call__(self, name, value):
        for full, found in flatten(f"{self.section}:{name}", value):
            assert full not in self.entries, full
            if any(part in full for part in NOT_REPRODUCIBLE):
                continue
            self.entries[full] = packed(found)


def packed(value):
    """(shape, words or None, numbers): what is stored of a value."""
    if isinstance(value, str):
        return [], [value], []
    a = np.asarray(value)
    if a.dtype.kind in "OUS":
        words = [str(v) for v in a.ravel()]
        return list(a.shape), words[:: math.ceil(len(words) / KEPT) or 1] if words else [], []
    flat = a.astype(np.float64).ravel()
    if flat.size > KEPT:
        finite = np.where(np.isfinite(flat), flat, 0.0)
        more = [finite.mean(), math.sqrt(np.square(finite).mean())]
        flat = np.concatenate([flat[:: math.ceil(flat.size / KEPT)], more])
    return list(a.shape), None, flat.tolist()


def attributes(model):
    """Names of fitted attributes, properties included."""
    return sorted(n for n in dir(model) if n.endswith("_") and not n.startswith("_") and n not in _INTERNAL)


def record(out, model, X, prefix="", more=False):
    """Everything that a fitted estimator says about itself and about some rows."""
    p = prefix + "/" if prefix else ""
    for name in attributes(model):
        with contextlib.suppress(AttributeError):
            value = getattr(model, name)
            if not callable(value):
                out(p + name, value)
    if hasattr(model, "kernel_"):
        out(p + "kernel_", dict(model.kernel_.params))
    if hasattr(model, "local_part_"):
        part = model.local_part_
        out(p + "local_part_", None if part is None else [part.variance, part.length, part.typical])
    Q = X if hasattr(X, "columns") else some(X)
    out(p + "proba", model.predict_proba(Q))
    out(p + "predict", model.predict(Q))
    mean, std = model.predict_latent(Q)
    out(p + "latent_mean", mean)
    out(p + "latent_std", std)
    out(p + "variation_ratio", model.variation_ratio(Q))
    out(p + "log_variation_ratio", model.log_variation_ratio(Q))
    if hasattr(model, "uncertainty"):
        out(p + "uncertainty", model.uncertainty(Q))
    if hasattr(model, "abstain"):
        out(p + "abstain", model.abstain(Q, max_error=0.02))
        out(p + "abstention_threshold", model.abstention_threshold(0.05))
    if more:
        out(p + "log_proba", model.predict_log_proba(Q))
        out(p + "decision_function", model.decision_function(Q))
        out(p + "sample_latent", model.sample_latent(Q[:5], 3, random_state=0))
        out(p + "sample_proba", model.sample_proba(Q[:5], 3, random_state=0))
        out(p + "variation_ratio_of_draws", model.variation_ratio(Q, n_samples=20, random_state=0))
        out(p + "top_k", model.predict_top_k(Q, k=2))
        out(p + "kernel_values", model.kernel_(Q[:6], Q[2:9]))


def add(name, make, *sets, rows=None, more=False):
    """Sections that fit what ``make()`` gives to each of some sets."""
    for set_name in sets:

        def run(out, set_name=set_name):
            X, y = shuffled(set_name, rows) if rows else ALL[set_name]
            record(out, make().fit(X, y), X, more=more)

        section(f"{name}/{set_name}")(run)


def svc(**options):
    return lambda: BayesianSVC(**{"random_state": 0, **options})


def of(cls, **options):
    return lambda: cls(**{"random_state": 0, **options})


# ------------------------------------------------------------------------------------------- BayesianSVC


def default(out, name):
    X, y = SETS[name]
    model = BayesianSVC(random_state=0).fit(X, y)
    record(out, model, X, more=True)
    Q = some(X)
    for dtype in ("float64", "float32"):
        compiled = model.compile_predictor(dtype)
        out(f"compiled/{dtype}/proba", compiled.predict_proba(Q))
        out(f"compiled/{dtype}/one", compiled.predict_proba_one(Q[1]))
        out(f"compiled/{dtype}/predict", compiled.predict(Q))
        out(f"compiled/{dtype}/dtype", compiled.dtype)
    with tempfile.TemporaryDirectory() as folder:
        bayesvm.save(model, Path(folder) / "model.skops")
        loaded = bayesvm.load(Path(folder) / "model.skops")
        out("loaded/proba", loaded.predict_proba(Q))
        out("loaded/loo_log_loss_", loaded.loo_log_loss_)
        compiled.save(Path(folder) / "compiled.npz")
        out("loaded/compiled", bayesvm.CompiledPredictor.load(Path(folder) / "compiled.npz").predict_proba(Q))


for _set in SETS:
    section(f"svc/default/{_set}", _set)(default)

for _rivals in ("exact", "sampled", "mean"):
    add(f"svc/rivals/{_rivals}", svc(rivals=_rivals), "wine", "cancer", "noisy")
add("svc/rivals/sampled", svc(rivals="sampled", n_inducing=60), "digits")
add("svc/rivals/mean", svc(rivals="mean"), "repeated")

_FEW = {"n_inducing": 20}
add("svc/inference/coordinate", svc(inference="coordinate", **_FEW), "iris", "cancer")
add("svc/inference/natural", svc(inference="natural", batch_size=50, max_iter=8, **_FEW), "iris", "cancer")
add("svc/inference/natural_auto", svc(batch_size=64, max_iter=6, **_FEW), "noisy", "digits")
add("svc/inference/natural_sampled", svc(batch_size=64, max_iter=6, rivals="sampled", **_FEW), "wine")
add("svc/inference/natural_mean", svc(batch_size=64, max_iter=6, rivals="mean", **_FEW), "wine", "cancer")
_SLOW = {"max_iter": 15, "learning_rate": 0.02, "batch_size": 64, **_FEW}
add("svc/inference/adam", svc(inference="adam", **_SLOW), "iris", "cancer")
add("svc/inference/adam_fixed", svc(inference="adam", hyperparameters="fixed", **_SLOW), "noisy")
for _rivals in ("sampled", "mean"):
    add(f"svc/inference/adam_{_rivals}", svc(inference="adam", rivals=_rivals, **_SLOW), "noisy")
add("svc/inference/natural_adam", svc(inference="natural_adam", **_SLOW), "iris", "cancer")
add(
    "svc/inference/natural_adam_all_rows",
    svc(inference="natural_adam", max_iter=12, learn_inducing=True, **_FEW),
    "noisy",
)
add("svc/inference/ecm", svc(inference="ecm", **_FEW), "iris", "cancer")
add("svc/inference/ecm_dense", svc(inference="ecm"), "noisy")
_CHAIN = {"n_chains": 2, "n_draws": 25, "max_iter": 150, "n_inducing": 12}
add("svc/inference/slice", svc(inference="slice", **_CHAIN), "iris", "cancer", rows=60)
add("svc/inference/gibbs", svc(inference="gibbs", **_CHAIN), "cancer", "noisy2", rows=80)

for _objective in ("elbo", "loo", "fixed"):
    add(f"svc/hyperparameters/{_objective}", svc(hyperparameters=_objective), "iris", "noisy")
add("svc/hyperparameters/elbo", svc(hyperparameters="elbo"), "cancer")

for _kernel in ("rbf", "matern32", "matern52", "linear", "additive"):
    add(f"svc/kernel/{_kernel}", svc(kernel=_kernel), "noisy", "repeated")
add("svc/kernel/linear+rbf_times_constant", svc(kernel="linear + rbf*constant"), "noisy", "iris")
add("svc/kernel/matern52+additive+constant", svc(kernel="matern52+additive+constant"), "repeated")
for _kernel in ("rbf", "rbf+additive", "matern32", "linear"):
    add(f"svc/ard_off/{_kernel}", svc(kernel=_kernel, ard=False), "iris", "cancer")


@section("svc/kernel/objects")
def _(out):
    from bayesvm import kernels as k

    X, y = SETS["noisy"]
    for name, kernel in {
        "sum": k.Sum((k.RBF(), k.Linear())),
        "product": k.Product((k.Matern32(), k.Constant())),
    }.items():
        record(out, BayesianSVC(kernel=kernel, random_state=0).fit(X, y), X, name)


add("svc/local_off", svc(local=False), "repeated", "digits", "noisy")
add("svc/class_weight/balanced", svc(class_weight="balanced"), "repeated", "cancer")
add("svc/class_weight/dict", svc(class_weight={0: 2.0, 1: 0.5, 2: 1.0}), "iris", "noisy")
add("svc/n_inducing", svc(n_inducing=10), "iris", "digits")
add("svc/learn_inducing", svc(n_inducing=12, learn_inducing=True), "iris", "cancer")
add("svc/float32", svc(dtype="float32"), "iris", "cancer")
add("svc/tol0", svc(tol=0.0, max_iter=6), "wine")
add("svc/learning_rate", svc(learning_rate=0.1), "wine")
add("svc/seed1", svc(random_state=1, n_inducing=25), "wine", "repeated")
for _rows in (20, 35):  # around the fewest that a local part takes
    add(f"svc/rows{_rows}", svc(), "iris", rows=_rows)


@section("svc/sample_weight")
def _(out):
    for name in ("iris", "noisy", "repeated"):
        X, y = SETS[name]
        rng = np.random.default_rng(1)
        record(out, BayesianSVC(random_state=0).fit(X, y, rng.integers(0, 3, len(y))), X, f"{name}/whole")
        record(out, BayesianSVC(random_state=0).fit(X, y, rng.random(len(y)) + 0.2), X, f"{name}/real")


@section("svc/sample_weight_binary")
def _(out):
    X, y = SETS["cancer"]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    record(out, BayesianSVC(random_state=0, class_weight="balanced").fit(X, y, weight), X)


@section("svc/warm_start")
def _(out):
    for name in ("iris", "cancer"):
        X, y = shuffled(name)
        half = len(X) // 2
        model = BayesianSVC(20, warm_start=True, random_state=0).fit(X[:half], y[:half]).fit(X, y)
        record(out, model, X, name)
        record(out, model.set_params(hyperparameters="fixed").fit(X[half:], y[half:]), X, f"{name}/fixed")


@section("svc/frame_of_words")
def _(out):
    import pandas as pd

    X, y = shuffled("iris")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=np.array(["x", "yy", "z"])[y])
    record(out, BayesianSVC(random_state=0).fit(frame, "kind"), frame[["a", "b", "c", "d"]][::6])


@section("svc/short_classes")
def _(out):
    """Most classes have one or two rows."""
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(30, 6))
    y = np.concatenate([np.arange(30), np.arange(0, 30, 2)])
    X = centres[y] + 0.3 * rng.normal(size=(len(y), 6))
    record(out, BayesianSVC(random_state=0).fit(X, y), X, more=True)


def paper(out, name, **options):
    X, y = ALL[name]
    record(out, BayesianSVC.paper(random_state=0, max_iter=25, **options).fit(X, y), X)


for _set in ("iris", "noisy", "cancer"):
    section(f"svc/paper/{_set}", _set)(paper)
section("svc/paper_fast/digits", "digits", learning_rate=0.02, n_inducing=30)(paper)


def _clumps(n_classes=3):
    """Clumps of near copies with labels that know nothing of each other: only rows close by help."""
    rng = np.random.default_rng(4)
    centres, labels = rng.normal(size=(80, 3)), rng.integers(0, n_classes, 80)
    pick = rng.integers(0, 80, 260)
    return centres[pick] + 0.01 * rng.normal(size=(260, 3)), labels[pick]


def local(out, n_classes, **options):
    X, y = _clumps(n_classes)
    model = BayesianSVC(n_inducing=20, random_state=0, **options).fit(X[:200], y[:200])
    assert model.local_part_ is not None
    record(out, model, X, more=True)
    Q = some(X)
    for dtype in ("float64", "float32"):
        out(f"compiled/{dtype}", model.compile_predictor(dtype).predict_proba(Q))
    with tempfile.TemporaryDirectory() as folder:
        bayesvm.save(model, Path(folder) / "model.skops")
        out("loaded", bayesvm.load(Path(folder) / "model.skops").predict_proba(Q))
    record(out, model.partial_fit(X[200:], y[200:], forgetting=0.1), X, "partial_fit")


section("svc/local_on/three", 3)(local)
section("svc/local_on/two", 2)(local)
section("svc/local_on/float32", 3, dtype="float32")(local)
section("svc/local_on/sampled", 3, rivals="sampled")(local)


def many_classes(out, low, **options):
    rng = np.random.default_rng(6)
    y = np.arange(480) % 120
    X = rng.normal(size=(120, 8))[y] + 0.35 * rng.normal(size=(480, 8))
    given = batches(X, y, 100) if low else X
    with limit("IN_MEMORY_ROWS", 60) if low else contextlib.nullcontext():
        model = BayesianSVC(40, random_state=0, **options).fit(given, None if low else y)
    record(out, model, X)
    for k in (1, 5):
        out(f"top_{k}", model.predict_top_k(some(X), k=k))
    out("top_exact", model.predict_top_k(some(X), k=3, max_left_out=0.0))
    out("compiled", model.compile_predictor().predict_proba(some(X)))


section("svc/many_classes/auto", False)(many_classes)
section("svc/many_classes/sampled", False, rivals="sampled")(many_classes)
section("svc/many_classes/streamed", True, rivals="sampled")(many_classes)


# Limits lowered: single precision in blocks, one rival by itself, leave-one-out of a sample.
@section("svc/single_precision_blocks")
def _(out):
    with limit("SINGLE_FLOPS", 1.0):
        for name in ("wine", "digits", "cancer"):
            X, y = SETS[name]
            record(out, BayesianSVC(40, random_state=0).fit(X, y), X, name)
        X, y = SETS["wine"]
        record(out, BayesianSVC(40, rivals="sampled", random_state=0).fit(X, y), X, "sampled")
        record(out, OneVsRestBayesianSVC(40, random_state=0).fit(X, y), X, "one_vs_rest")


@section("svc/auto_sampled")
def _(out):
    with limit("EXACT_FLOPS", 1.0):
        X, y = SETS["digits"]
        record(out, BayesianSVC(40, random_state=0).fit(X, y), X)


# ------------------------------------------------------------------------------------------- partial_fit


def by_parts(out, make, name, sizes=(50, 25, 40), forgetting=0.0, **first):
    X, y = shuffled(name)
    model, start = make(), 0
    for i, size in enumerate(sizes):
        rows = slice(start, start + size)
        given = {"classes": np.unique(y)} if i == 0 else {}
        model.partial_fit(X[rows], y[rows], **given, forgetting=forgetting if i else 0.0)
        start += size
        record(out, model, X, f"part{i}")


for _set in ("iris", "cancer", "repeated"):
    section(f"partial_fit/plain/{_set}", svc(), _set)(by_parts)
for _set in ("iris", "noisy"):
    section(f"partial_fit/forgetting/{_set}", svc(), _set, forgetting=0.3)(by_parts)
section("partial_fit/digits", svc(n_inducing=30), "digits", (150, 100))(by_parts)
section("partial_fit/fixed_kernel", svc(hyperparameters="fixed", kernel="rbf"), "iris")(by_parts)
section("partial_fit/sampled", svc(rivals="sampled"), "noisy")(by_parts)
section("partial_fit/natural", svc(batch_size=32, max_iter=6), "noisy")(by_parts)
section("partial_fit/binary", of(BinaryBayesianSVC), "cancer")(by_parts)
section("partial_fit/one_vs_rest", of(OneVsRestBayesianSVC), "iris")(by_parts)


@section("partial_fit/beyond_memory")
def _(out):
    with limit("MEMORY_ROWS", 60):
        for forgetting in (0.0, 0.2):
            by = Prefixed(out, f"forgetting{forgetting}")
            by_parts(by, svc(n_inducing=30), "iris", (50, 40, 40), forgetting)
        by_parts(Prefixed(out, "binary"), of(BinaryBayesianSVC), "cancer", (50, 40, 40))


class Prefixed:
    """The same recorder under a longer name."""

    def __init__(self, out, prefix):
        self.out, self.prefix = out, prefix

    def __call__(self, name, value):
        self.out(f"{self.prefix}/{name}", value)


@section("partial_fit/after_fit_with_weights")
def _(out):
    X, y = shuffled("noisy")
    model = BayesianSVC(random_state=0).fit(X[:80], y[:80])
    weight = np.random.default_rng(0).integers(0, 3, 30).astype(float)
    record(out, model.partial_fit(X[80:110], y[80:110], sample_weight=weight, forgetting=0.1), X)


# --------------------------------------------------------------------------------------------- streaming


def batches(X, y, size=37):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]


@contextlib.contextmanager
def as_parquet(X, y):
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(label=y)
        frame.to_parquet(Path(folder) / "rows.parquet", row_group_size=40)
        yield Path(folder) / "rows.parquet"


@contextlib.contextmanager
def as_memmap(X):
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "rows.npy", np.asarray(X, dtype=float))
        yield np.load(Path(folder) / "rows.npy", mmap_mode="r")


def sources(out, name, low):
    X, y = ALL[name]
    with limit("IN_MEMORY_ROWS", 60) if low else contextlib.nullcontext():
        record(out, BayesianSVC(random_state=0).fit(batches(X, y)), X, "batches")
        record(out, BayesianSVC(random_state=0).fit(lambda: iter(batches(X, y, 50))), X, "function")
        with as_parquet(X, y) as path:
            model = BayesianSVC(random_state=0).fit(str(path), "label")
            import pandas as pd

            record(out, model, pd.DataFrame(some(X), columns=[f"x{i}" for i in range(X.shape[1])]), "parquet")
        with as_memmap(X) as rows:
            record(out, BayesianSVC(random_state=0).fit(rows, y), X, "memmap")
        record(out, BayesianSVC(random_state=0).fit(X, y), X, "array")
        weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
        weighted = [
            (*b, w) for b, w in zip(batches(X, y, 50), np.split(weight, range(50, len(y), 50)), strict=True)
        ]
        record(out, BayesianSVC(random_state=0).fit(weighted), X, "weights")


section("chunks/gathered/iris", "iris", False)(sources)
for _set in ("iris", "repeated"):
    section(f"chunks/streamed/{_set}", _set, True)(sources)


def streamed(out, make, name):
    X, y = ALL[name]
    with limit("IN_MEMORY_ROWS", 60):
        record(out, make().fit(batches(X, y)), X)


for _set in ("digits", "cancer"):
    section(f"chunks/default/{_set}", svc(n_inducing=40), _set)(streamed)
for _rivals in ("exact", "sampled", "mean"):
    section(f"chunks/rivals/{_rivals}", svc(rivals=_rivals, n_inducing=40), "wine")(streamed)
for _set in ("noisy", "cancer"):
    section(f"chunks/natural/{_set}", svc(batch_size=40, max_iter=6, n_inducing=30), _set)(streamed)
for _objective in ("elbo", "fixed", "loo"):
    section(f"chunks/hyperparameters/{_objective}", svc(hyperparameters=_objective, n_inducing=30), "noisy")(
        streamed
    )
section(
    "chunks/elbo_learn_inducing", svc(hyperparameters="elbo", learn_inducing=True, n_inducing=20), "noisy"
)(streamed)
section("chunks/balanced", svc(class_weight="balanced", local=False), "repeated")(streamed)
section("chunks/binary", of(BinaryBayesianSVC, n_inducing=30), "cancer")(streamed)
section("chunks/one_vs_rest", of(OneVsRestBayesianSVC, n_inducing=30), "iris")(streamed)
for _set in ("cancer", "iris"):
    section(f"chunks/linear/{_set}", of(LinearBayesianSVC), _set)(streamed)
section("chunks/svgp_coordinate", of(SVGPClassifier, n_inducing=20, inference="coordinate"), "iris")(streamed)


@section("chunks/warm_start")
def _(out):
    X, y = shuffled("iris")
    with limit("IN_MEMORY_ROWS", 60):
        model = BayesianSVC(20, warm_start=True, random_state=0).fit(batches(X, y)[:3]).fit(batches(X, y))
        record(out, model, X)
        record(out, model.partial_fit(X[:30], y[:30]), X, "partial_fit")


def on_dask(out, name, low):
    import dask
    import dask.array as da

    from bayesvm.distributed import DaskBayesianSVC

    X, y = SETS[name]
    size = len(X) // 3
    with (
        dask.config.set(scheduler="synchronous"),
        limit("IN_MEMORY_ROWS", 60) if low else contextlib.nullcontext(),
    ):
        A, b = (
            da.from_array(np.asarray(X, dtype=float), chunks=(size, X.shape[1])),
            da.from_array(y, chunks=size),
        )
        model = DaskBayesianSVC(30, random_state=0).fit(A, b)
        record(out, model, X)
        out("lazy/proba", model.predict_proba(A).compute()[::5])
        out("lazy/predict", model.predict(A).compute()[::5])
        out("lazy/score", model.score(A, b))
        out("local/proba", model.to_local().predict_proba(some(X)))
        out("partial", model.partial_fit(A[:40], b[:40]).predict_proba(some(X)))


for _set in ("iris", "noisy"):
    section(f"dask/gathered/{_set}", _set, False)(on_dask)
    section(f"dask/streamed/{_set}", _set, True)(on_dask)


# --------------------------------------------------------------------------------------------- the family

_METHODS = {
    "coordinate": {},
    "natural": {"batch_size": 50, "max_iter": 6},
    "adam": {"batch_size": 64, "max_iter": 12, "learning_rate": 0.02},
    "natural_adam": {"batch_size": 64, "max_iter": 12},
    "ecm": {},
    "gibbs": _CHAIN,
    "slice": _CHAIN,
}
for _method, _options in _METHODS.items():
    _rows = 80 if _method in ("gibbs", "slice") else None
    _given = {"n_inducing": 20, **_options, "inference": _method}
    add(f"binary/{_method}", of(BinaryBayesianSVC, **_given), "cancer", "noisy2", rows=_rows)
    add(f"one_vs_rest/{_method}", of(OneVsRestBayesianSVC, **_given), "iris", "noisy", rows=_rows)
for _method in ("ecm", "gibbs", "slice"):
    for _approximation in ("dtc", "fitc"):
        add(
            f"binary/{_method}_{_approximation}",
            of(BinaryBayesianSVC, **{**_CHAIN, "inference": _method, "approximation": _approximation}),
            "noisy2",
            rows=60,
        )
for _method in ("coordinate", "natural"):
    _given = {"n_inducing": 20, **_METHODS[_method], "inference": _method, "expectation": "augmented"}
    add(f"binary/augmented_{_method}", of(BinaryBayesianSVC, **_given), "cancer", "noisy2")
    add(f"one_vs_rest/augmented_{_method}", of(OneVsRestBayesianSVC, **_given), "iris")
add("binary/default", of(BinaryBayesianSVC), "cancer", "noisy2", more=True)
add(
    "binary/elbo_rbf_learn",
    of(BinaryBayesianSVC, n_inducing=15, kernel="rbf", hyperparameters="elbo", learn_inducing=True),
    "noisy2",
)
add("one_vs_rest/default", of(OneVsRestBayesianSVC), "iris", "noisy", "cancer", more=True)
add("one_vs_rest/digits", of(OneVsRestBayesianSVC, n_inducing=40), "digits")
add("one_vs_rest/balanced", of(OneVsRestBayesianSVC, class_weight="balanced"), "repeated")


def linear(out, name, rows=None, **options):
    X, y = shuffled(name, rows)
    model = LinearBayesianSVC(random_state=0, **options).fit(X, y)
    record(out, model, X)
    out("coef_interval", model.coef_interval(0.9))


for _set in ("cancer", "iris"):
    section(f"linear/variational/{_set}", _set)(linear)
    section(f"linear/em/{_set}", _set, inference="em")(linear)
    section(f"linear/gibbs/{_set}", _set, 80, inference="gibbs", n_chains=2, n_draws=25, max_iter=150)(linear)
    section(f"linear/augmented/{_set}", _set, expectation="augmented")(linear)
    section(f"linear/C1_no_intercept/{_set}", _set, C=1.0, fit_intercept=False)(linear)
section("linear/raw/wine", "wine", standardize=False, class_weight="balanced")(linear)
section("linear/more_columns_than_rows/digits", "digits", 50)(linear)

for _likelihood in ("softmax", "robustmax"):
    _given = {"n_inducing": 15, "likelihood": _likelihood}
    add(f"svgp/{_likelihood}/auto", of(SVGPClassifier, max_iter=20, **_given), "iris", "cancer", more=True)
    add(
        f"svgp/{_likelihood}/adam",
        of(SVGPClassifier, inference="adam", max_iter=15, **_given),
        "iris",
        "noisy2",
    )
    add(
        f"svgp/{_likelihood}/minibatches",
        of(SVGPClassifier, batch_size=50, max_iter=8, **_given),
        "noisy",
        "cancer",
    )
    add(
        f"svgp/{_likelihood}/slice",
        of(SVGPClassifier, **{**_CHAIN, "inference": "slice", "likelihood": _likelihood}),
        "iris",
        "noisy2",
        rows=60,
    )
    add(
        f"svgp/{_likelihood}/calibrated",
        of(SVGPClassifier, probabilities="calibrated", max_iter=15, **_given),
        "noisy",
        "cancer",
    )
for _method in ("coordinate", "natural"):
    add(
        f"svgp/softmax/{_method}",
        of(SVGPClassifier, n_inducing=15, inference=_method, max_iter=8),
        "iris",
        "noisy2",
    )
add(
    "svgp/fixed",
    of(
        SVGPClassifier,
        n_inducing=15,
        hyperparameters="fixed",
        learn_inducing=False,
        natural_rate=0.5,
        max_iter=10,
    ),
    "noisy",
)
add("svgp/digits", of(SVGPClassifier, n_inducing=20, max_iter=6, kernel="matern52", ard=False), "digits")


@section("svgp/warm_start_and_weights")
def _(out):
    X, y = shuffled("noisy")
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = SVGPClassifier(15, warm_start=True, max_iter=8, random_state=0)
    record(out, model.fit(X, y, weight).fit(X, y, weight), X)


def save_and_compile(out, make, name):
    X, y = ALL[name]
    model = make().fit(X, y)
    Q = some(X)
    for dtype in ("float64", "float32"):
        out(f"compiled/{dtype}", model.compile_predictor(dtype).predict_proba(Q))
    with tempfile.TemporaryDirectory() as folder:
        bayesvm.save(model, Path(folder) / "model.skops")
        out("loaded", bayesvm.load(Path(folder) / "model.skops").predict_proba(Q))


for _name, _make, _set in [
    ("matern52_constant", svc(kernel="matern52+linear*constant", local=False), "noisy"),
    ("matern32", svc(kernel="matern32"), "cancer"),
    ("ecm", svc(inference="ecm", **_FEW), "iris"),
    ("binary", of(BinaryBayesianSVC), "cancer"),
    ("one_vs_rest", of(OneVsRestBayesianSVC), "iris"),
    ("linear", of(LinearBayesianSVC), "wine"),
    ("svgp_softmax", of(SVGPClassifier, n_inducing=15, max_iter=6), "iris"),
    ("svgp_robustmax", of(SVGPClassifier, n_inducing=15, max_iter=6, likelihood="robustmax"), "iris"),
]:
    section(f"files/{_name}", _make, _set)(save_and_compile)


@section("files/chains")
def _(out):
    X, y = shuffled("noisy2", 60)
    model = BinaryBayesianSVC(inference="gibbs", random_state=0, **_CHAIN).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        bayesvm.save(model, Path(folder) / "model.skops")
        out("loaded", bayesvm.load(Path(folder) / "model.skops").predict_proba(some(X)))


# ---------------------------------------------------------------------------------------------- networks


def network(n_in, n_out=8):
    from torch import nn

    return nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Linear(16, n_out))


def tensors(name, n=None):
    X, y = shuffled(name, n)
    X = np.asarray(X, dtype=float)
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def record_output(out, output, prefix=""):
    for name in ("mean", "variance", "temperature", "spread"):
        out(prefix + name, getattr(output, name))
    for name in (
        "probabilities",
        "predict",
        "variation_ratio",
        "log_variation_ratio",
        "entropy",
        "mutual_information",
    ):
        out(prefix + name, getattr(output, name)())
    out(prefix + "margin", output.margin())


def head_loop(out, X, y, n_classes, steps=12, parts=1, settled=False, **options):
    from bayesvm.nn import BayesianSVMHead, calibrate

    torch.manual_seed(0)
    body = network(X.shape[1])
    head = BayesianSVMHead(8, n_classes, **{"n_inducing": 12, **options})
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    losses = []
    size = 48
    for i in range(steps):
        rows = torch.arange(i * size, (i + 1) * size) % len(X)
        optimiser.zero_grad()
        for k, part in enumerate(rows.chunk(parts)):
            loss = head.loss(body(X[part]), y[part], len(X), step=k == parts - 1)
            (loss / parts).backward()
            losses.append(float(loss))
        optimiser.step()
    out("losses", losses)
    out("kl", head.kl())
    if settled:
        head.settle(body(X[:size]), y[:size], len(X), 0.5)
        out("kl_settled", head.kl())
    body.eval(), head.eval()
    with torch.no_grad():
        record_output(out, head(body(X[:ROWS])))
        found = calibrate(head, body(X[:100]), y[:100])
        out(
            "calibration",
            [float(v) for v in dataclasses.astuple(found)]
            if dataclasses.is_dataclass(found)
            else list(found),
        )
        out("calibrated", head(body(X[:ROWS])).probabilities())
    for name in ("points", "log_length_scale", "log_variance"):
        out(name, getattr(head, name))


for _posterior in ("natural", "gradient"):
    for _rivals in ("sampled", "mean"):
        for _set, _classes in (("iris", 3), ("digits", 10)):

            def _run(out, posterior=_posterior, rivals=_rivals, set_name=_set, n_classes=_classes):
                X, y = tensors(set_name)
                head_loop(out, X, y, n_classes, posterior=posterior, rivals=rivals)

            section(f"nn/head/{_posterior}_{_rivals}/{_set}")(_run)


@section("nn/head/options")
def _(out):
    X, y = tensors("iris")
    head_loop(Prefixed(out, "parts"), X, y, 3, parts=3, kl_warmup=6, normalise=False, damping=0.2)
    head_loop(Prefixed(out, "settled"), X, y, 3, settled=True, seed=3)
    X, y = tensors("cancer")
    head_loop(Prefixed(out, "two_classes"), X, y, 2)


@section("nn/head/lazy")
def _(out):
    """So many classes that only those touched are moved."""
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 300
    X = rng.normal(size=(300, 12))[y] + 0.2 * rng.normal(size=(1200, 12))
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    for rivals in ("sampled", "mean"):
        head_loop(Prefixed(out, rivals), X, y, 300, steps=8, n_inducing=64, rivals=rivals)
    head_loop(Prefixed(out, "gradient"), X, y, 300, steps=3, n_inducing=64, posterior="gradient")


def hybrid(out, name, keep=False, **options):
    from bayesvm.nn import HybridClassifier

    X, y = tensors(name)
    X, y = X.numpy(), y.numpy()
    given = {
        "n_inducing": 12,
        "epochs": 3,
        "batch_size": 48,
        "rate": 0.01,
        "device": "cpu",
        "random_state": 0,
    }
    model = HybridClassifier(lambda: network(X.shape[1]), **{**given, **options}).fit(X, y)
    record(out, model, X)
    Q = some(X).astype(np.float32)
    for method in ("entropy", "mutual_information", "features"):
        out(method, getattr(model, method)(Q))
    out("history", [dataclasses.asdict(dataclasses.replace(epoch, seconds=0.0)) for epoch in model.history_])
    if keep:
        with tempfile.TemporaryDirectory() as folder:
            path = model.save(Path(folder) / "model.safetensors")
            loaded = HybridClassifier.load(path, lambda: network(X.shape[1]), device="cpu")
            out("loaded", loaded.predict_proba(Q))


for _set in ("iris", "digits"):
    section(f"nn/hybrid/natural/{_set}", _set, True)(hybrid)
    section(f"nn/hybrid/gradient/{_set}", _set, posterior="gradient")(hybrid)
section("nn/hybrid/mean/iris", "iris", rivals="mean", settle=False)(hybrid)
section("nn/hybrid/cycle/iris", "iris", schedule="one_cycle", weight_decay=0.01, clip=1.0, parts=2)(hybrid)
section("nn/hybrid/no_validation/cancer", "cancer", validation_fraction=0.0, kl_warmup=5)(hybrid)


@section("nn/train")
def _(out):
    from bayesvm.nn import BayesianSVMHead, Recipe, settle, train

    X, y = tensors("wine")
    torch.manual_seed(1)
    body, head = network(X.shape[1]), BayesianSVMHead(8, 3, 10)
    recipe = Recipe(epochs=3, batch_size=32, rate=0.01, settle=False)
    history = train(body, head, X[:120], y[:120], recipe, validation=(X[120:], y[120:]), temper=True)
    out("history", [dataclasses.asdict(dataclasses.replace(epoch, seconds=0.0)) for epoch in history])
    settle(body, head, X[:120], y[:120], batch_size=32)
    with torch.no_grad():
        record_output(out, head(body(X[120:144])))


# ----------------------------------------------------------------------------------- active, adversarial


@section("active/scores")
def _(out):
    from bayesvm import active
    from bayesvm.active._shortlist import top_by_variation_ratio

    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(40, 4)), rng.random((40, 4)) + 0.05
    p = rng.dirichlet(np.ones(4), (5, 40))
    out("variation_ratio", active.variation_ratio_scores(mean, variance))
    out("softmax_entropy", active.softmax_entropy_scores(mean))
    out("margin", active.margin_scores(p[0]))
    out("entropy", active.entropy_scores(p[0]))
    out("mutual_information", active.mutual_information_scores(p))
    out("vote", active.vote_scores(p))
    out("top", list(top_by_variation_ratio(mean, variance, 7, rng=np.random.default_rng(0))))


_POLICIES = ("variation_ratio", "softmax_entropy", "margin", "entropy", "bald", "batch", "random")


def policies(out, name):
    from bayesvm.active._policies import POLICIES
    from bayesvm.active._rules import RULES

    X, y = shuffled(name)
    labels = np.full(len(y), np.nan)
    labels[:40] = y[:40]
    model = BayesianSVC(25, local=False, random_state=0).fit(X[:40], y[:40])
    assert set(POLICIES) == set(RULES) == set(_POLICIES)
    for policy in _POLICIES:
        found = POLICIES[policy](random_state=0).query(
            X, labels, model, fit_clf=False, batch_size=3, return_utilities=True
        )
        out(policy, [np.asarray(found[0]), np.nan_to_num(found[1], nan=-1.0)])
        out(f"{policy}/chosen", RULES[policy].choose(model, X[40:], 4, None, np.random.default_rng(0)))


for _set in ("iris", "digits", "cancer"):
    section(f"active/policies/{_set}", _set)(policies)


def learner(out, name, policy):
    from bayesvm.active import ActiveLearner

    X, y = shuffled(name)
    first = {int((y == c).argmax()): int(c) for c in np.unique(y)}
    found = ActiveLearner(policy=policy, batch_size=2, random_state=0).start(X, first)
    found.run(y, n_queries=6)
    out("rows", found.labelled_rows_)
    out("labels", found.labels_)
    out("loo_accuracy_", found.loo_accuracy_)
    out("proba", found.estimator_.predict_proba(some(X)))


for _policy in _POLICIES:
    section(f"active/learner/{_policy}/iris", "iris", _policy)(learner)
section("active/learner/variation_ratio/cancer", "cancer", "variation_ratio")(learner)
section("active/learner/batch/noisy", "noisy", "batch")(learner)


@section("adversarial")
def _(out):
    from bayesvm import adversarial as adv
    from bayesvm.nn import BayesianSVMHead, Recipe, train

    X, y = shuffled("digits")
    images, y = torch.tensor(X / 16.0, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y)
    bodies, heads = [], []
    for seed in (0, 1):
        torch.manual_seed(seed)
        body, head = torch.nn.Sequential(torch.nn.Flatten(), network(64)), BayesianSVMHead(8, 10, 15)
        train(body, head, images[:300], y[:300], Recipe(epochs=3, batch_size=64, rate=0.01, seed=seed))
        bodies.append(body), heads.append(head)
    clean, truth = images[300:330], y[300:330]
    one = adv.ImageModel(bodies[0], heads[0])
    names = [*adv.SCORES, *adv.SQUEEZING]
    for kind, model in {"one": one, "ensemble": adv.ImageModel(bodies, heads)}.items():
        attacked = {"clean": clean, "fgsm": adv.fgsm(model, clean, truth, 0.1)}
        if kind == "one":
            attacked["pgd"] = adv.pgd(model, clean, truth, 0.1, n_steps=4)
        scores = {}
        for attack, pixels in attacked.items():
            out(f"{kind}/{attack}/pixels", pixels)
            out(f"{kind}/{attack}/log_proba", model(pixels))
            scores[attack] = adv.score_images(model, pixels, names)
            out(f"{kind}/{attack}", scores[attack])
        for name in scores["clean"]:
            a, b = scores["clean"][name], scores["fgsm"][name]
            out(f"{kind}/auc/{name}", float(adv.roc_auc(a, b)))
    out("roughness", adv.roughness(clean))


# --------------------------------------------------------------------------------------- tables, metrics


@section("tables")
def _(out):
    from bayesvm.tables import column_relevance, evaluate_table, example_table, fit_table, predict_table

    fit = fit_table(example_table(), "Sex", random_state=0)
    for name in ("heldout", "leave_one_out"):
        found = getattr(fit, name)
        out(f"{name}/proba", found.proba)
        out(f"{name}/rows", found.rows)
        for score in ("accuracy", "log_loss"):
            out(f"{name}/{score}", getattr(found, score))
    answers = predict_table(fit.pipeline, fit.table, max_error=0.02)
    for column in answers:
        out(f"answers/{column}", answers[column].to_numpy())
    model = fit.pipeline[-1]
    for name in (
        "loo_log_loss_",
        "loo_score_",
        "temperature_",
        "spread_",
        "offset_",
        "feature_relevance_",
        "elbo_curve_",
    ):
        out(f"model/{name}", getattr(model, name))
    relevance = column_relevance(fit.pipeline)
    out("relevance", relevance if isinstance(relevance, dict) else dict(relevance))
    out("evaluate/proba", evaluate_table(fit.pipeline, fit.table).proba)


@section("metrics")
def _(out):
    from bayesvm import metrics

    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3) * 0.7, 120)
    y = np.array([rng.choice(3, p=row) for row in p])
    weight = rng.random(120)
    out("top_class", list(metrics.top_class(y, p)))
    out("reliability", metrics.reliability_curve(y, p))
    out("reliability_weighted", metrics.reliability_curve(y, p, sample_weight=weight))
    out("ece", metrics.expected_calibration_error(y, p))
    out("ece_weighted", metrics.expected_calibration_error(y, p, sample_weight=weight))
    out("coverage", metrics.accuracy_coverage_curve(y, p))
    out("wilson", list(metrics.wilson_interval(np.arange(6), 6)))


# ------------------------------------------------------------------------------------------------ running


def computed(only):
    """Entries of the sections whose names contain a word, and what failed: section to last line."""
    entries, failed, seconds = {}, {}, {}
    for name, run in SECTIONS.items():
        if only and only not in name:
            continue
        out = Out(name)
        np.random.seed(0)
        torch.manual_seed(0)
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(out)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            line = traceback.format_exception_only(error)[-1].strip()
            failed[name] = f"{line} ({Path(last.filename).name}:{last.lineno})"
            if os.environ.get("GOLDEN_TRACE"):
                traceback.print_exc()
        entries.update(out.entries)
        seconds[name] = time.perf_counter() - began
    return entries, failed, seconds


def trimmed(values):
    """Numbers without the digits that are never compared."""
    a = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        power = np.exp2(np.ceil(np.log2(np.maximum(np.abs(a), 1.0))))
        short = np.round(a / power * DIGITS) / DIGITS * power
    return np.where(np.isfinite(a), short, a)


def write(path, entries, losses):
    index, values = [], []
    for name, (shape, words, numbers) in entries.items():
        index.append([name, shape, words, len(numbers)])
        values += numbers
    # Bytes of one place together: they compress better.
    bytes_ = trimmed(values).view(np.uint8).reshape(-1, 8).T.copy()
    text = json.dumps(
        {"entries": index, "log_loss": losses, "torch": torch.__version__, "numpy": np.__version__}
    )
    np.savez_compressed(path, values=bytes_, index=np.frombuffer(text.encode(), dtype=np.uint8))


def read(path):
    with np.load(path) as file:
        index = json.loads(file["index"].tobytes().decode())
        values = np.ascontiguousarray(file["values"].T).view(np.float64).ravel()
    entries, start = {}, 0
    for name, shape, words, n in index["entries"]:
        entries[name] = (shape, words, values[start : start + n])
        start += n
    return entries, index


def difference(now, then):
    """How far two entries are apart: a number, or what is wrong in words."""
    if list(now[0]) != list(then[0]):
        return f"shape {now[0]} instead of {then[0]}"
    if (now[1] is None) != (then[1] is None):
        return f"{now[1] or 'numbers'} instead of {then[1] or 'numbers'}"
    if now[1] is not None:
        return 0.0 if now[1] == then[1] else f"{now[1][:3]} instead of {then[1][:3]}"
    a, b = np.asarray(now[2]), np.asarray(then[2])
    if not a.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b) / np.maximum(1.0, np.abs(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
    return float(apart.max())


def check(path, only, log_loss):
    reference, index = read(path)
    began = time.perf_counter()
    entries, failed, _ = computed(only)
    wanted = {name: e for name, e in reference.items() if not only or only in name.split(":")[0]}
    bad, largest = [], (0.0, "")
    for name, then in wanted.items():
        if name not in entries:
            if name.split(":")[0] not in failed:
                bad.append((name, "is gone"))
            continue
        apart = difference(entries[name], then)
        if isinstance(apart, str) or not apart <= TOLERANCE:
            bad.append((name, apart if isinstance(apart, str) else f"{apart:.3e}"))
        elif apart > largest[0]:
            largest = (apart, name)
    new = [name for name in entries if name not in reference]
    for name, line in failed.items():
        print(f"FAILED   {name}: {line}")
    width = max([len(name) for name, _ in bad], default=0)
    for name, apart in bad:
        print(f"{name:<{width}}  {apart}")
    if new:
        print(f"{len(new)} new entries, not compared: {', '.join(new[:5])}{' …' if len(new) > 5 else ''}")
    print(
        f"{len(wanted)} entries, {len(bad)} differ, {len(failed)} sections failed; "
        f"largest difference passed {largest[0]:.1e} {largest[1]}; {time.perf_counter() - began:.0f} s"
    )
    versions = (torch.__version__, np.__version__)
    if versions != (index["torch"], index["numpy"]):
        print(f"torch and numpy are {versions}, the file was written with {index['torch']}, {index['numpy']}")
    if log_loss:
        show_losses(held_out_losses(), index["log_loss"])
    return 1 if bad or failed or not wanted else 0


def held_out_losses(seeds=range(5)):
    """Held-out log-loss of the default model by set, one number for each seed of split and model."""
    losses = {}
    for name, (X, y) in SETS.items():
        losses[name] = []
        for seed in seeds:
            stratify = y if np.bincount(y).min() > 1 else None
            A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=stratify)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = BayesianSVC(random_state=seed).fit(A, a)
            place = np.searchsorted(model.classes_, b)
            p = model.predict_proba(B)[np.arange(len(b)), place]
            losses[name].append(float(-np.log(np.maximum(p, 1e-300)).mean()))
    return losses


def show_losses(now, then=None):
    print(
        f"{'held-out log-loss':<18}"
        + "".join(f"{f'seed {s}':>9}" for s in range(5))
        + f"{'mean':>9}{'sd':>8}"
    )
    for name, values in now.items():
        for label, row in ((name, values), ("  reference", (then or {}).get(name))):
            if row:
                cells = "".join(f"{v:9.4f}" for v in row)
                print(f"{label:<18}{cells}{np.mean(row):9.4f}{np.std(row, ddof=1):8.4f}")


def time_fits(path):
    sets = {name: SETS[name] for name in ("iris", "wine", "digits")}
    sets["digits_1797"] = sk.load_digits(return_X_y=True)
    medians = {}
    for name, (X, y) in sets.items():
        BayesianSVC(random_state=0).fit(X, y)
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            BayesianSVC(random_state=0).fit(X, y)
            taken.append(time.perf_counter() - began)
        medians[name] = {"median": float(np.median(taken)), "all": taken}
        print(f"{name:<12} {np.median(taken):.3f} s (from {min(taken):.3f} to {max(taken):.3f})")
    Path(path).write_text(json.dumps(medians, indent=1))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("write", "check", "time"))
    parser.add_argument("file")
    parser.add_argument("--only", default="")
    parser.add_argument("--log-loss", action="store_true")
    parser.add_argument(
        "--slowest", action="store_true", help="write: print the seconds of the slowest sections"
    )
    given = parser.parse_args()
    if given.only == "list":
        print("\n".join(SECTIONS))
        return 0
    if given.command == "time":
        time_fits(given.file)
        return 0
    if given.command == "check":
        return check(given.file, given.only, given.log_loss)
    if given.only:
        parser.error("write takes no --only: the file holds all sections")
    began = time.perf_counter()
    entries, failed, seconds = computed("")
    took = time.perf_counter() - began
    losses = held_out_losses()
    write(given.file, entries, losses)
    for name, line in failed.items():
        print(f"FAILED   {name}: {line}")
    if given.slowest:
        for name in sorted(seconds, key=seconds.get, reverse=True)[:25]:
            print(f"{seconds[name]:7.2f} s  {name}")
    size = Path(given.file).stat().st_size / 1e6
    print(
        f"{len(entries)} entries of {len(SECTIONS)} sections in {took:.0f} s, {size:.2f} MB; {len(failed)} failed"
    )
    if given.log_loss:
        show_losses(losses)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
