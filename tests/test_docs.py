"""The documentation keeps its promises: numbers that exist, code that runs, links that lead somewhere."""

import ast
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from bayesvm._compiled.kernels import PROFILES
from bayesvm._core.kernels.compose import KERNEL_NAMES
from bayesvm._core.likelihoods import LIKELIHOODS
from bayesvm._inference.methods import METHODS
from bayesvm._inference.rivals import RIVALS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "bayesvm").rglob("*.py"))
THEORY = ROOT / "docs" / "theory.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"
WITH_PATHS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "studies/README.md", "results/README.md")),
    *PAGES,
]
FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("docs", "examples", "src", "studies", "tests", "tools")
    for path in (ROOT / folder).rglob("*.py")
]

NUMBER = r"\d+\.\d+"
# "eq. 1.1", "eqs. 1.1, 2.3 and 4.5", "Equations 4.1-4.2"; lists may wrap over lines.
CITATION = re.compile(
    rf"\b(?:eqs?\.|equations?)\s+({NUMBER}(?:\s*(?:,\s*and|,|and|to|-)\s*{NUMBER})*)", re.IGNORECASE
)
SECTION = re.compile(r"\bsection\s+(\d+)\b(?!\.\d)")
FENCE = re.compile(r"^(`{3,}|~{3,})([^\n]*)\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def python_blocks(text: str) -> list[tuple[int, str]]:
    """First line number and content of every block fenced as ``python``."""
    blocks = [
        (text.count("\n", 0, match.start(3)) + 1, match[3])
        for match in FENCE.finditer(text)
        if match[2].strip() == "python"
    ]
    assert len(blocks) == text.count("```python"), "a block is indented, or its fence says more than python"
    return blocks


def anchors(text: str) -> set[str]:
    """Anchors that GitHub gives to the headings of a page."""
    found: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        n = found.get(slug, 0)
        found[slug] = n + 1
        result.add(f"{slug}-{n}" if n else slug)
    return result


def cited_in(pattern: re.Pattern[str], text: str) -> set[str]:
    return {number for match in pattern.finditer(text) for number in re.findall(rf"{NUMBER}|\d+", match[1])}


def cited(pattern: re.Pattern[str], path: Path) -> set[str]:
    return cited_in(pattern, path.read_text(encoding="utf-8"))


def test_citation_pattern_reads_every_form():
    text = "eq. 1.1 (eqs. 2.1,\n  2.3) Equations 4.1 and 4.2. (eq. 1.5, where) (eqs. 5.1, 5.2, and 5.4-5.6)"
    found = [re.findall(NUMBER, match[1]) for match in CITATION.finditer(text)]
    assert found == [["1.1"], ["2.1", "2.3"], ["4.1", "4.2"], ["1.5"], ["5.1", "5.2", "5.4", "5.6"]]


def test_every_cited_equation_exists():
    tags = set(re.findall(rf"\\tag\{{({NUMBER})\}}", THEORY.read_text(encoding="utf-8")))
    missing = {
        str(path.relative_to(ROOT)): sorted(numbers - tags)
        for path in [*SOURCES, *(page for page in PAGES if page != THEORY)]
        if (numbers := cited(CITATION, path)) - tags
    }
    assert not missing
    assert any(cited(CITATION, path) for path in SOURCES)


def test_every_cited_section_exists():
    headings = set(re.findall(r"^## (\d+)\. ", THEORY.read_text(encoding="utf-8"), re.MULTILINE))
    missing = {
        str(path.relative_to(ROOT)): sorted(numbers - headings)
        for path in SOURCES
        if (numbers := cited(SECTION, path)) - headings
    }
    assert not missing


def test_equation_numbers_are_unique_and_in_order():
    tags = re.findall(rf"\\tag\{{({NUMBER})\}}", THEORY.read_text(encoding="utf-8"))
    keys = [tuple(map(int, tag.split("."))) for tag in tags]
    assert keys == sorted(set(keys))


def test_theory_refers_to_its_own_numbers():
    text = THEORY.read_text(encoding="utf-8")
    tags = set(re.findall(rf"\\tag\{{({NUMBER})\}}", text))
    assert set(re.findall(rf"\(({NUMBER})\)", text)) <= tags


def definitions() -> dict[str, str]:
    """Source of all functions, classes and methods, by their dotted names below the package."""
    found = {}

    def add(node: ast.AST, name: str, lines: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found[f"{name}.{child.name}"] = "\n".join(lines[child.lineno - 1 : child.end_lineno])
                add(child, f"{name}.{child.name}", lines)

    for path in SOURCES:
        module = ".".join(path.relative_to(ROOT / "src" / "bayesvm").with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        add(ast.parse(text), module.removesuffix(".__init__"), text.splitlines())
    return found


def test_every_equation_names_its_function_and_the_function_its_equation():
    text = THEORY.read_text(encoding="utf-8")
    tags = re.findall(rf"\\tag\{{({NUMBER})\}}", text)
    index = dict(re.findall(rf"^\| \(({NUMBER})\) \| (.*) \|$", text, re.MULTILINE))
    assert list(index) == tags
    known = definitions()
    wrong = []
    for number, entry in index.items():
        names = re.findall(r"`([^`]+)`", entry)
        assert names or entry.startswith("derivation"), number
        for name in names:
            if name not in known:
                wrong.append((number, name, "does not exist"))
            elif number not in cited_in(CITATION, known[name]):
                wrong.append((number, name, "does not cite it"))
    assert not wrong


@pytest.mark.parametrize("page", WITH_PATHS, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_files_that_a_page_names_exist(page):
    """By the end of their paths: ``_fit/rows.py`` stands for ``src/bayesvm/_fit/rows.py``."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    named = {name for span in re.findall(r"`([^`]+)`", text) for name in re.findall(r"[\w./-]+\.py\b", span)}
    assert not {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in FILES)}


@pytest.fixture
def registries():
    """What pages register is gone when their code has run."""
    known = (KERNEL_NAMES, PROFILES, LIKELIHOODS, METHODS, RIVALS)
    before = [dict(names) for names in known]
    yield
    for names, old in zip(known, before, strict=True):
        names.clear()
        names.update(old)


# Slow; scores and detectors of that page are tested one by one.
SLOW_PAGES = {"adversarial.md"}


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW_PAGES else ())
        for page in [README, *PAGES]
    ],
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """In order, in one namespace for each page, without a warning."""
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    if not blocks:
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    # A module that can be imported: model files name the classes that a page defines.
    module = ModuleType("__docs__")
    monkeypatch.setitem(sys.modules, "__docs__", module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for line, code in blocks:
            # Leading newlines make tracebacks show the line of the page.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), vars(module))
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_relative_links_resolve(page):
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):  # https:, mailto:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        checked = anchor and path.suffix == ".md" and path.exists()
        if not path.exists() or (checked and anchor not in anchors(path.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken
