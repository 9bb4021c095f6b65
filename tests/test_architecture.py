"""The rules of ``CONTRIBUTING.md`` and ``docs/architecture.md``, one test each.

Every file of the library is parsed once. A rule that does not hold everywhere yet names its
exceptions, and fails as well when one of them is no longer needed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import bayesvm
from bayesvm import BayesianSVC

SOURCE = Path(bayesvm.__file__).parents[1]
PUBLIC_MODULES = {
    *(
        "active",
        "adversarial",
        "distributed",
        "extending",
        "kernels",
        "metrics",
        "nn",
        "plotting",
        "report",
        "tables",
    ),
    "__main__",
}


@dataclass(frozen=True)
class Module:
    """A file of the library."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def layer(self) -> str:
        """The part of the package it belongs to: ``_core``, ``nn``, ``metrics`` …"""
        return self.name.split(".")[1] if "." in self.name else "bayesvm"

    @cached_property
    def imports(self) -> set[str]:
        """Modules it imports anywhere, and our own that it names in a string to import them later."""
        found = _imported(ast.walk(self.tree))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} & MODULES.keys() - {"bayesvm"}  # that one is just our name
        return found - {self.name}

    @property
    def ours(self) -> set[str]:
        return self.imports & MODULES.keys()

    @property
    def packages(self) -> set[str]:
        """Packages of others that it imports anywhere."""
        return {name.split(".")[0] for name in self.imports} - {"bayesvm", *sys.stdlib_module_names}

    @property
    def packages_at_the_top(self) -> set[str]:
        """Packages that come with the file, not when a function needs them."""
        return {name.split(".")[0] for name in _imported(self.tree.body)}

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            members = {f"{module}.{alias.name}" for alias in node.names}
            modules = members & MODULES.keys()  # "from package import module"
            found |= modules
            if modules != members:
                found.add(module)
    return found


def _modules() -> dict[str, Module]:
    found = {}
    for path in sorted((SOURCE / "bayesvm").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, path.read_text())
    return found


MODULES = _modules()


def _check(offenders: Iterable[str], exceptions: Iterable[str] = ()) -> None:
    """Nothing breaks the rule but the exceptions, and all of those still do."""
    offenders, exceptions = set(offenders), set(exceptions)
    assert not offenders - exceptions, "breaks the rule:\n" + "\n".join(sorted(offenders - exceptions))
    assert not exceptions - offenders, "an exception no longer needed:\n" + "\n".join(
        sorted(exceptions - offenders)
    )


# Imports point one way ------------------------------------------------------------------------

# What every layer may import.
FOUNDATIONS = {"_files", "_formatting", "_lazy", "_progress", "_registry", "_threads", "_version"}
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def _table_of_layers() -> dict[str, set[str]]:
    """By layer the others that it may import from, besides the foundations: the table of CONTRIBUTING.md."""
    found: dict[str, set[str]] = {layer: set() for layer in FOUNDATIONS}
    for line in CONTRIBUTING.read_text().partition("## Layers")[2].splitlines():
        if line.startswith("| `"):
            layers, _, may = line.removeprefix("|").removesuffix("|").split("|")
            names = re.findall(r"`(\w+)`", layers)
            allowed = set(re.findall(r"`(\w+)`", may)) | (set(names) if "one another" in may else set())
            found |= dict.fromkeys(names, allowed)
    return found


MAY_IMPORT = _table_of_layers()
# Rooms of the same sort, for the packages that they may import.
FIT = {"_callbacks", "_chains", "_fit", "_model", "_prediction"}
ESTIMATORS = {"_base", "_linear", "_persistence", "_svc", "_svgp", "_top_k"}


def test_imports_point_one_way():
    assert {module.layer for module in MODULES.values()} == MAY_IMPORT.keys(), (
        "a line of the table is missing"
    )
    offenders = [
        f"{module.name} imports {name}"
        for module in MODULES.values()
        for name in module.ours
        if MODULES[name].layer not in {module.layer, *FOUNDATIONS, *MAY_IMPORT[module.layer]}
    ]
    _check(offenders)


def test_compiled_predictors_predict_without_the_library():
    """The library compiles a model; what it makes serves with numpy alone."""
    offenders = []
    for module in MODULES.values():
        if module.layer != "_compiled":
            continue
        # In functions of a file only: kernels and likelihoods that are evaluated through torch.
        at_the_top = _imported(module.tree.body)
        own = ("bayesvm._compiled", "bayesvm._files", "bayesvm._version")
        offenders += [
            f"{module.name} imports {name}"
            for name in at_the_top
            if name.startswith("bayesvm") and not name.startswith(own)
        ]
        offenders += [
            f"{module.name} imports {name}"
            for name in module.packages_at_the_top - {"bayesvm", "numpy", *sys.stdlib_module_names}
        ]
    _check(offenders)


def test_imports_have_no_cycles():
    # A package's __init__ gathers its own modules; they may name the package.
    graph = {
        name: {other for other in module.ours if not name.startswith(other + ".")}
        for name, module in MODULES.items()
        if name != "bayesvm"
    }
    for name in graph:  # commands take helpers from the file that imports them when they run
        if name.startswith("bayesvm._cli"):
            graph[name] -= {"bayesvm._cli.app"}
    TopologicalSorter(graph).prepare()  # its error names the cycle


def test_imports_are_absolute():
    _check(
        module.name
        for module in MODULES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    )


def test_nothing_imports_studies_tests_or_examples():
    outside = {"bayesvm_studies", "benchmarks", "conftest", "examples", "hypothesis", "pytest", "tests"}
    _check(
        f"{module.name} imports {package}"
        for module in MODULES.values()
        for package in module.packages & outside
    )


def test_inference_never_names_a_likelihood():
    _check(
        module.name
        for module in MODULES.values()
        if module.layer == "_inference" and ("BinaryHinge" in module.text or "MulticlassHinge" in module.text)
    )


def test_formulas_stay_below_the_estimators():
    """Of the core, estimators may speak of kernels; the rest comes through the fit."""
    estimators = {"_base", "_linear", "_svc", "_svgp"}
    offenders = [
        f"{module.name} imports {name}"
        for module in MODULES.values()
        if module.layer in estimators
        for name in module.ours
        if name.startswith("bayesvm._core") and not name.startswith("bayesvm._core.kernels")
    ]
    _check(offenders, {"bayesvm._linear imports bayesvm._core.linalg"})


# Packages of others ---------------------------------------------------------------------------

SCIENCE = {"numpy", "scipy", "sklearn"}
# By layer the packages it may import, at the top of a file or in a function.
PACKAGES: dict[str, set[str]] = {
    **{layer: {"torch"} for layer in FOUNDATIONS},
    "_core": {"torch"},
    "_inference": {"torch"},
    **{layer: {"numpy", "pyarrow", "sklearn", "torch"} for layer in FIT},
    "_compiled": {"numpy", "torch"},
    "_compile": {"numpy", "scipy"},
    "_judgement": {"numpy", "scipy"},
    **{layer: {"numpy", "skops", "sklearn", "torch"} for layer in ESTIMATORS},
    "bayesvm": set(),
    "kernels": set(),
    "extending": set(),
    "metrics": {"numpy", "scipy"},
    "plotting": {"matplotlib", "numpy", "sklearn"},
    "nn": {"numpy", "safetensors", "sklearn", "torch"},
    "adversarial": {"art", "numpy", "sklearn", "torch"},
    "distributed": {"numpy", "pandas", "sklearn"},  # Dask itself by name, with a word on how to install it
    "tables": SCIENCE | {"pandas", "pyarrow", "skrub"},
    "active": SCIENCE | {"pandas", "skactiveml", "torch"},
    "report": SCIENCE | {"jinja2", "markupsafe", "matplotlib", "pandas"},
    "_cli": SCIENCE | {"pandas", "rich", "typer"},
    "__main__": set(),
}
# Packages that a few files of a layer need, mostly to subclass their classes. Nothing else imports
# those files before one of their names is used.
NEEDED_BY = {
    "art": {"bayesvm.adversarial._detector", "bayesvm.adversarial._estimator"},
    "skactiveml": {"bayesvm.active._policies"},
    "skops": {"bayesvm._persistence"},
}
OPTIONAL = {
    *("art", "arviz", "cloudpickle", "dask", "distributed", "hypothesis", "jinja2", "matplotlib", "pandas"),
    *("polars", "pyarrow", "pytest", "rich", "safetensors", "skactiveml", "skops", "skrub", "typer"),
    *("gpytorch", "lightgbm", "pmlb", "pooch", "scikit_posthocs"),
}
HEAVY = OPTIONAL | SCIENCE | {"torch"}


def test_layers_import_the_packages_they_need_and_no_others():
    _check(
        f"{module.name} imports {package}"
        for module in MODULES.values()
        for package in module.packages
        if package not in PACKAGES[module.layer] or module.name not in NEEDED_BY.get(package, {module.name})
    )


def test_optional_packages_are_imported_when_they_are_used():
    """At the top of a file they would be imported with the library."""
    applications = {"plotting", "tables", "report", "_cli"}
    _check(
        f"{module.name} imports {package}"
        for module in MODULES.values()
        if module.layer not in applications
        for package in module.packages_at_the_top & OPTIONAL
        if module.name not in NEEDED_BY.get(package, ())
    )


def _loaded_by(statement: str, before: str = "pass") -> set[str]:
    """Top-level packages that a statement imports in a fresh interpreter, beyond those loaded before."""
    program = (
        f"import sys\n{before}\nbefore = set(sys.modules)\n{statement}\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_packages_is_light():
    """Names come when they are used, so that ``bayesvm --help`` comes at once."""
    packages = ", ".join(
        f"bayesvm.{name}" for name in ("active", "adversarial", "distributed", "nn", "tables")
    )
    assert not _loaded_by(f"import {packages}, bayesvm._cli, bayesvm.__main__") & HEAVY


# scikit-learn looks for pandas, and for rich for its callbacks, by itself.
_SKLEARN = """import contextlib, sklearn.base, sklearn.utils.validation
with contextlib.suppress(ImportError): import sklearn.callback"""


@pytest.mark.parametrize(
    ("names", "before", "unwanted"),
    [
        ("import bayesvm; bayesvm.BayesianSVC", _SKLEARN, OPTIONAL),
        ("import bayesvm.nn; bayesvm.nn.BayesianSVMHead", "pass", OPTIONAL | {"scipy", "sklearn"}),
        (
            "import bayesvm.active as a; a.ActiveLearner, a.Labelling, a.variation_ratio_scores",
            "pass",
            {"skactiveml"},
        ),
        (
            "import bayesvm.adversarial as a; a.score_images, a.fgsm, a.AdaptiveAttack, a.roc_auc",
            "pass",
            OPTIONAL | {"scipy", "sklearn"},
        ),
    ],
    ids=["estimator", "head", "active", "adversarial"],
)
def test_a_name_brings_only_the_packages_it_needs(names, before, unwanted):
    assert not _loaded_by(names, before) & unwanted


# Files and classes ----------------------------------------------------------------------------

MAX_LINES = 600


def test_no_file_is_long():
    _check(name for name, module in MODULES.items() if len(module.text.splitlines()) > MAX_LINES)


def test_modules_are_public_or_start_with_an_underscore():
    """All of ``_core`` is private; in a public package each file says so itself."""
    _check(
        name
        for name in MODULES
        if name != "bayesvm"
        and not any(part.startswith("_") for part in name.split("."))
        and name.removeprefix("bayesvm.") not in PUBLIC_MODULES
    )


# A file that only one other imports is usually a part of that other. Not so where a package or a
# registry lists its members, one file each; for the rest a reason is given.
REGISTRIES = {"bayesvm._cli.app", "bayesvm._core.likelihoods", "bayesvm._inference.methods"}
ONE_IMPORTER = {
    "bayesvm._cli.label_dialogue": "questions and answers, apart from the command's arguments",
    "bayesvm._compile": "compiling a model, which takes more of the library than a predictor may",
    "bayesvm._compiled.files": "a file format",
    "bayesvm._fit.arrow": "a file format",
    "bayesvm._fit.folds": "judging a fit by others, when it is asked for",
    "bayesvm._fit.polish": "a step of streamed fits",
    "bayesvm._fit.sources": "where rows come from",
    "bayesvm._fit.streamed": "a way to fit",
    "bayesvm._fit.sweeps": "a step of streamed fits",
    "bayesvm._top_k": "a mixin",
    "bayesvm.active._record": "a file format",
    "bayesvm.active._shortlist": "an approximation with its own tests",
    "bayesvm.distributed._engine": "map-reduce on Dask",
    "bayesvm.nn._checkpoint": "a file format",
    "bayesvm.nn._hybrid_inputs": "from arrays, labels and networks of users to tensors",
    "bayesvm.report._overview": "sections of the report",
    "bayesvm.report._table": "sections of the report",
    "bayesvm.tables._text": "texts become numbers",
}


def test_a_file_with_one_importer_has_a_reason():
    importers = defaultdict(set)
    for name, module in MODULES.items():
        for other in module.ours:
            importers[other].add(name)
    lists = {name for name in MODULES if MODULES[name].path.name == "__init__.py"} | REGISTRIES
    offenders = {
        name
        for name, known in importers.items()
        if len(known) == 1 and not known & lists and name.removeprefix("bayesvm.") not in PUBLIC_MODULES
    } - {"bayesvm._cli"}  # which Python itself runs
    _check(offenders, ONE_IMPORTER)


# Two concepts, two names.
CLASSES_OF_ONE_NAME = {
    "Calibration",
    *("_Job",),
}


def test_a_class_name_is_defined_once():
    seen: set[str] = set()
    twice = set()
    for module in MODULES.values():
        for node in module.classes:
            (twice if node.name in seen else seen).add(node.name)
    _check(twice, CLASSES_OF_ONE_NAME)


# Deeper than a class of ours that derives from another of ours.
DEEP_CLASSES = {"DaskBayesianSVC"}  # a BayesianSVC whose rows are on a cluster
# Named like classes of others, for versions of them that lack these.
STAND_INS = {"CallbackSupportMixin"}


def test_inheritance_is_at_most_two_deep():
    bases = defaultdict(set)
    for module in MODULES.values():
        for node in module.classes:
            bases[node.name] |= {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}

    def depth(name: str) -> int:
        return 1 + max((depth(base) for base in bases[name] & bases.keys() - {name}), default=0)

    for name in STAND_INS:
        del bases[name]
    _check({name for name in list(bases) if depth(name) > 2}, DEEP_CLASSES)


# The way of the data --------------------------------------------------------------------------

MOST_FILES_OF_A_FIT = 42


def test_a_fit_passes_few_files():
    """A reader who traces ``fit(X, y)`` opens at most this many files."""
    X, y = load_iris(return_X_y=True)
    BayesianSVC().fit(X, y)  # imports what comes when it is used
    files = set()

    def called(frame, event, _):
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(SOURCE / "bayesvm"):
            files.add(frame.f_code.co_filename)

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        BayesianSVC().fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert len(files) <= MOST_FILES_OF_A_FIT, "\n".join(sorted(files))
