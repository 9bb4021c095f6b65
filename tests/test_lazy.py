"""Names that are imported on first use are the same for programs, for people and for type checkers."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("active", "adversarial", "distributed", "nn", "tables")
PACKAGES = ["bayesvm", *(f"bayesvm.{name}" for name in NAMES)]


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_see_the_names_that_are_there(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {(alias.name, node.module) for node in block.body for alias in node.names}
    assert {alias for alias, _ in seen} == set(package.__all__) - {"__version__"}
    for alias, module in seen:
        assert getattr(package, alias) is getattr(importlib.import_module(module), alias)


def test_dir_and_star_give_all_names():
    program = "import sys\n" + "".join(
        f"import {name}\n"
        f"assert set({name}.__all__) <= set(dir({name}))\n"
        f"from {name} import *\n"
        f"assert set(sys.modules['{name}'].__all__) <= set(globals())\n"
        for name in PACKAGES
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", PACKAGES)
def test_other_names_are_refused(name):
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        _ = importlib.import_module(name).nonsense
