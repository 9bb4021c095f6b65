"""Studies stand on what users of the library have, and importing them is light."""

import ast
import subprocess
import sys
from pathlib import Path

import bayesvm_studies

PACKAGE = Path(bayesvm_studies.__file__).parent
FILES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def _imported(nodes):
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


def test_studies_know_no_insides_of_the_models():
    """Formulas, algorithms and the steps of a fit are the library's own; benchmarks time them."""
    insides = {"_base", "_core", "_fit", "_inference", "_model", "_options", "_prediction"}
    offenders = [
        f"{name} imports {module}"
        for name, tree in FILES.items()
        for module in _imported(ast.walk(tree))
        if module.startswith("bayesvm.")
        and module.split(".")[1] in insides
        and not name.startswith("benchmarks/")
    ]
    assert not offenders


def test_competitors_are_imported_when_they_run():
    """They are optional, and one of them lives in another environment."""
    competitors = {"catboost", "gpflow", "gpytorch", "interpret", "lightgbm", "mapie", "pmlb", "pooch"}
    competitors |= {"pytabkit", "tensorflow"}
    offenders = [
        f"{name} imports {module}"
        for name, tree in FILES.items()
        for module in _imported(tree.body)
        if module.split(".")[0] in competitors
    ]
    assert not offenders


def test_importing_studies_is_light():
    """Commands name them before they run, and help comes at once."""
    packages = [
        ".".join(("bayesvm_studies", *Path(name).parent.parts))
        for name in FILES
        if name.endswith("__init__.py")
    ]
    program = (
        f"import sys, {', '.join(packages)}, bayesvm_studies.worker\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(out.stdout.split()) & {
        "matplotlib",
        "numpy",
        "pandas",
        "scipy",
        "sklearn",
        "torch",
        "typer",
    }
