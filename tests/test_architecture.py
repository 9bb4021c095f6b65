"""Imports point one way, files stay small, and importing the library is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bayesvm

PACKAGE = Path(bayesvm.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 400


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _imports(path: Path) -> set[str]:
    """Every module a file imports, inside functions too; relative imports are not used."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)} uses a relative import"
            found.add(node.module or "")
            if node.module and node.module.split(".")[0] == "bayesvm":  # names may be modules
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _of_the_library(path: Path) -> set[str]:
    return {name for name in _imports(path) if name.split(".")[0] == "bayesvm"}


def _third_party(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in _imports(path)}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "bayesvm"}


def _within(path: Path, *folders: str) -> bool:
    return path.relative_to(PACKAGE).parts[0] in folders


def _starts(name: str, *prefixes: str) -> bool:
    return any(name == p or name.startswith(p + ".") for p in prefixes)


core = [p for p in FILES if _within(p, "core")]
inference = [p for p in FILES if _within(p, "inference")]
networks = [p for p in FILES if _within(p, "nn")]
active = [p for p in FILES if _within(p, "active")]
adversarial = [p for p in FILES if _within(p, "adversarial")]
streaming = [p for p in FILES if _within(p, "streaming")]
distributed = [p for p in FILES if _within(p, "distributed")]
compiled = [p for p in FILES if _within(p, "compiled")]
# Everything between inference and the faces: no formula of theirs may need an estimator.
middle = [
    p for p in FILES if p.parent == PACKAGE and p.name not in ("__init__.py", "__main__.py", "persistence.py")
]
# Built on the public face; nothing else knows of them.
APPLICATIONS = ("tables", "report", "cli", "datasets", "experiments")


def test_there_is_something_to_check():
    assert len(core) > 10
    assert len(inference) > 5
    assert len(networks) > 5
    assert len(middle) > 5


@pytest.mark.parametrize("path", core, ids=_name)
def test_core_imports_torch_and_core_alone(path):
    assert _third_party(path) <= {"torch"}
    # "from bayesvm._core import x" is recorded as bayesvm._core and bayesvm._core.x
    assert all(_starts(name, "bayesvm._core") for name in _of_the_library(path))


@pytest.mark.parametrize("path", inference, ids=_name)
def test_inference_imports_core_and_inference_alone(path):
    assert _third_party(path) <= {"torch"}
    allowed = ("bayesvm._core", "bayesvm._inference", "bayesvm._progress")
    assert all(_starts(name, *allowed) for name in _of_the_library(path))


@pytest.mark.parametrize("path", inference, ids=_name)
def test_inference_never_names_a_likelihood(path):
    source = path.read_text()
    assert "BinaryHinge" not in source
    assert "MulticlassHinge" not in source


@pytest.mark.parametrize("path", networks, ids=_name)
def test_networks_stand_on_the_core(path):
    """Heads share formulas with the estimators, but none of their stages."""
    own = (
        "bayesvm._core",
        "bayesvm.nn",
        "bayesvm._progress",
        "bayesvm._files",
        "bayesvm._lazy",
        "bayesvm._version",
    )
    assert all(_starts(name, *own) for name in _of_the_library(path) - {"bayesvm"})
    face = {"sklearn", "safetensors"} if path.name.startswith("hybrid") else set()
    assert _third_party(path) <= {"torch", "numpy"} | face


@pytest.mark.parametrize(
    "path", [p for p in FILES if not _within(p, "nn", "adversarial", *APPLICATIONS)], ids=_name
)
def test_only_applications_know_of_networks(path):
    assert not any(_starts(name, "bayesvm.nn") for name in _of_the_library(path))


@pytest.mark.parametrize("path", active, ids=_name)
def test_active_learning_stands_on_core_and_estimators(path):
    own = (
        "bayesvm._core",
        "bayesvm._prediction",
        "bayesvm._model",
        "bayesvm.tables",
        "bayesvm.active",
        *PUBLIC,
    )
    assert all(name == "bayesvm" or _starts(name, *own) for name in _of_the_library(path))
    # scikit-activeml where its class is subclassed; the loop does without.
    face = {"skactiveml"} if path.name == "policies.py" else set()
    table = {"pandas"} if path.name.startswith("label") else set()
    assert _third_party(path) <= {"torch", "numpy", "scipy", "sklearn"} | face | table


@pytest.mark.parametrize("path", [p for p in FILES if not _within(p, "active", *APPLICATIONS)], ids=_name)
def test_only_applications_know_of_active_learning(path):
    assert not any(_starts(name, "bayesvm.active") for name in _of_the_library(path))


@pytest.mark.parametrize("path", adversarial, ids=_name)
def test_attacks_and_detectors_stand_on_core_and_networks(path):
    own = ("bayesvm._core", "bayesvm.nn", "bayesvm.adversarial", "bayesvm._lazy")
    assert all(_starts(name, *own) for name in _of_the_library(path))
    # The toolbox where its classes are subclassed; scores and attacks do without.
    face = {"art"} if path.name in ("estimator.py", "detector.py") else set()
    assert _third_party(path) <= {"torch", "numpy", "sklearn"} | face


@pytest.mark.parametrize(
    "path", [p for p in FILES if not _within(p, "adversarial", *APPLICATIONS)], ids=_name
)
def test_only_applications_know_of_adversarial_images(path):
    assert not any(_starts(name, "bayesvm.adversarial") for name in _of_the_library(path))


@pytest.mark.parametrize("path", compiled, ids=_name)
def test_compiled_predictors_stand_on_numpy(path):
    """They are made from a model; once made, they need nothing of the library but each other."""
    own = ("bayesvm._compiled", "bayesvm._files", "bayesvm._version")
    stages = (
        "bayesvm._core",
        "bayesvm._fit.local",
        "bayesvm._model",
        "bayesvm._prediction",
        "bayesvm._fit.rows",
    )
    if path.name == "folding.py":
        assert all(_starts(name, *own, *stages) for name in _of_the_library(path))
        assert _third_party(path) <= {"numpy", "scipy"}
    else:
        assert all(_starts(name, *own) for name in _of_the_library(path))
        # torch, inside functions, for kernels and likelihoods that are code of their own.
        assert _third_party(path) <= (
            {"numpy", "torch"} if path.name in ("kernels.py", "readout.py") else {"numpy"}
        )


@pytest.mark.parametrize("path", streaming, ids=_name)
def test_streaming_stands_on_the_stages_of_a_fit(path):
    """Passes are sent to other processes: no estimator and no engine but the local one goes with them."""
    above = ("bayesvm.estimators", "bayesvm.plotting", "bayesvm._persistence", "bayesvm._compiled")
    assert not any(_starts(name, *above) for name in _of_the_library(path))
    assert _third_party(path) <= {"torch", "numpy"} | (
        {"pyarrow"} if path.name.startswith("arrow") else set()
    )


@pytest.mark.parametrize("path", [*core, *inference, *middle], ids=_name)
def test_stages_of_a_fit_do_not_know_of_streaming(path):
    assert not any(_starts(name, "bayesvm._fit") for name in _of_the_library(path))


@pytest.mark.parametrize("path", distributed, ids=_name)
def test_the_cluster_stands_on_streaming_and_estimators(path):
    own = ("bayesvm.distributed", "bayesvm._fit", "bayesvm.estimators", "bayesvm._lazy")
    assert all(_starts(name, *own) for name in _of_the_library(path))
    assert _third_party(path) <= {"numpy", "pandas", "sklearn"}  # Dask itself by dependencies.py


@pytest.mark.parametrize("path", [p for p in FILES if not _within(p, "distributed")], ids=_name)
def test_nothing_knows_of_the_cluster(path):
    assert not any(_starts(name, "bayesvm.distributed") for name in _of_the_library(path))


@pytest.mark.parametrize("path", middle, ids=_name)
def test_modules_below_the_estimators_do_not_import_them(path):
    forbidden = ("bayesvm.estimators", "bayesvm.plotting")
    assert not any(_starts(name, *forbidden) for name in _of_the_library(path))


# What users of the library have: no formulas, no algorithms, no stages of a fit.
PUBLIC = (
    "bayesvm.BayesianSVC",
    "bayesvm.load",
    "bayesvm.save",
    "bayesvm._version",
    "bayesvm._svc",
    "bayesvm._files",
    "bayesvm._lazy",
    "bayesvm.metrics",
    "bayesvm._persistence",
    "bayesvm.plotting",
)


def _allowed(path: Path) -> tuple[tuple[str, ...], set[str]]:
    """Modules of the library and packages that a file of an application may import."""
    science = {"numpy", "scipy", "sklearn"}
    if _within(path, "tables"):
        return (*PUBLIC, "bayesvm.tables"), science | {"pandas", "pyarrow", "skrub"}
    if _within(path, "report"):
        packages = science | {"pandas", "jinja2", "markupsafe", "matplotlib"}
        return (*PUBLIC, "bayesvm.tables", "bayesvm.report"), packages
    if _within(path, "datasets"):
        return ("bayesvm_studies.datasets", "bayesvm._lazy"), {"numpy"}
    if _within(path, "experiments"):
        models = ("bayesvm.BinaryBayesianSVC", "bayesvm.OneVsRestBayesianSVC", "bayesvm.SVGPClassifier")
        # Of the report only how figures come into a page; of torch what peers made with it need.
        modules = (*PUBLIC, *models, "bayesvm_studies.datasets", "bayesvm_studies", "bayesvm.report._figures")
        if _within(path.parent, "experiments") and path.parent.name == "images":
            modules = (*modules, "bayesvm.nn")
        if path.parent.name == "adversarial":
            modules = (*modules, "bayesvm.adversarial")
        if path.parent.name == "active":
            modules = (*modules, "bayesvm.active")
        return modules, science | {"jinja2", "matplotlib", "torch"}
    packages = science | {"pandas", "typer", "rich"}
    modules = ("bayesvm.active", "bayesvm.tables", "bayesvm.report", "bayesvm_studies", "bayesvm._cli")
    return (*PUBLIC, *modules), packages


@pytest.mark.parametrize("path", [p for p in FILES if _within(p, *APPLICATIONS)], ids=_name)
def test_applications_use_the_public_face(path):
    modules, packages = _allowed(path)
    assert all(name == "bayesvm" or _starts(name, *modules) for name in _of_the_library(path))
    assert _third_party(path) <= packages


@pytest.mark.parametrize("path", [p for p in FILES if _within(p, "tables", "report", "datasets")], ids=_name)
def test_only_the_command_line_knows_of_experiments(path):
    assert not any(_starts(name, "bayesvm_studies") for name in _of_the_library(path))


@pytest.mark.parametrize("path", [p for p in FILES if _within(p, "experiments")], ids=_name)
def test_competitors_are_imported_when_they_run(path):
    """They are optional, and one of them lives in another environment."""
    assert not _third_party(path) & {"gpflow", "gpytorch", "lightgbm", "pmlb", "pooch", "tensorflow"}


@pytest.mark.parametrize("path", [p for p in FILES if not _within(p, *APPLICATIONS)], ids=_name)
def test_the_library_knows_nothing_of_its_applications(path):
    applications = tuple(f"bayesvm.{name}" for name in APPLICATIONS)
    if path.name == "__main__.py":
        assert _of_the_library(path) <= {"bayesvm._cli", "bayesvm._cli.main"}
    elif path.parent.name == "active" and path.name.startswith("label"):
        # Labelling a table goes through the pipeline of tables; the loop itself knows arrays alone.
        assert not any(
            _starts(name, *set(applications) - {"bayesvm.tables"}) for name in _of_the_library(path)
        )
    else:
        assert not any(_starts(name, *applications) for name in _of_the_library(path))


@pytest.mark.parametrize("path", [p for p in FILES if _within(p, "estimators")], ids=_name)
def test_estimators_hold_no_formulas(path):
    """They may speak of kernels; likelihoods, quadrature and Gaussians are below them."""
    core_parts = {name for name in _of_the_library(path) if _starts(name, "bayesvm._core")}
    assert all(_starts(name, "bayesvm._core.kernels") or name == "bayesvm._core" for name in core_parts)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_library_imports_no_tests_examples_or_benchmarks(path):
    tops = {name.split(".")[0] for name in _imports(path)}
    assert not tops & {"tests", "examples", "benchmarks", "pytest", "hypothesis", "conftest"}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_file_is_long(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_imports_have_no_cycles():
    modules = {}
    for path in FILES:
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        modules[".".join(parts)] = path
    graph = {name: (_of_the_library(path) & set(modules)) - {name} for name, path in modules.items()}
    # A package's __init__ gathers its own modules; they may name the package.
    for name, path in modules.items():
        graph[name] -= {p for p in graph[name] if name.startswith(p + ".")}
        if path.name == "__init__.py" and name == "bayesvm":
            graph[name] = set()
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"import cycle: {' -> '.join((*trail, name))}"
        if name not in done:
            for child in sorted(graph[name]):
                visit(child, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


OPTIONAL = {
    *(
        "art",
        "arviz",
        "cloudpickle",
        "dask",
        "distributed",
        "hypothesis",
        "jinja2",
        "matplotlib",
        "pandas",
        "polars",
        "pyarrow",
    ),
    *("pytest", "rich", "skops", "skrub", "typer"),
    *("gpytorch", "lightgbm", "pmlb", "pooch", "safetensors", "scikit_posthocs", "skactiveml"),
}


def _loaded_by(statement: str, before: str = "pass") -> set[str]:
    """Top-level packages that a statement imports in a fresh interpreter, beyond those loaded before."""
    program = (
        f"import sys\n{before}\nbefore = set(sys.modules)\n{statement}\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_the_library_pulls_in_no_optional_package():
    """Beyond what scikit-learn, which looks for pandas, and rich for its callbacks, imports by itself."""
    before = "import contextlib, sklearn.base, sklearn.utils.validation\n"
    before += "with contextlib.suppress(ImportError): import sklearn.callback"
    assert not _loaded_by("import bayesvm; bayesvm.BayesianSVC", before) & OPTIONAL


def test_importing_the_library_leaves_networks_alone():
    program = "import sys, bayesvm; bayesvm.BayesianSVC; assert 'bayesvm.nn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert "torch" not in _loaded_by("import bayesvm.nn")
    assert not _loaded_by("import bayesvm.nn; bayesvm.nn.BayesianSVMHead") & (OPTIONAL | {"sklearn", "scipy"})


def test_active_learning_does_without_the_package_whose_contract_it_follows():
    assert "torch" not in _loaded_by("import bayesvm.active")
    light = "import bayesvm.active as a; a.ActiveLearner, a.Labelling, a.variation_ratio_scores"
    assert "skactiveml" not in _loaded_by(light)


def test_importing_the_cluster_is_light():
    assert not _loaded_by("import bayesvm.distributed") & (OPTIONAL | {"numpy", "sklearn", "torch"})


def test_importing_scores_and_attacks_does_without_the_toolbox():
    assert "torch" not in _loaded_by("import bayesvm.adversarial")
    light = "import bayesvm.adversarial as a; a.score_images, a.fgsm, a.AdaptiveAttack, a.roc_auc"
    assert not _loaded_by(light) & (OPTIONAL | {"sklearn", "scipy"})


def test_importing_the_applications_is_light():
    """Names come when they are used, so that help comes at once."""
    loaded = _loaded_by("import bayesvm, bayesvm.tables, bayesvm._cli, bayesvm.__main__")
    assert not loaded & (OPTIONAL | {"numpy", "scipy", "sklearn", "torch"})
    loaded = _loaded_by("import bayesvm_studies.datasets, bayesvm_studies, bayesvm_studies.worker")
    loaded |= _loaded_by("import bayesvm_studies.images")
    loaded |= _loaded_by("import bayesvm_studies.active, bayesvm_studies.adversarial")
    assert not loaded & (OPTIONAL | {"numpy", "scipy", "sklearn", "torch"})


@pytest.mark.parametrize("path", [p for p in FILES if not _within(p, "plotting", *APPLICATIONS)], ids=_name)
def test_optional_packages_are_imported_where_they_are_used_if_at_all(path):
    """At the top of a file they would be imported with the library."""
    tops = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            tops.add((node.module or "").split(".")[0])
    assert not tops & OPTIONAL
