"""Every Python block of the README runs, in order, in one namespace."""

import doctest
import re
import textwrap
from pathlib import Path

import matplotlib.pyplot
import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(
    r"^(?P<indent> *)```(?:python|py|pycon)\b[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S
)


def python_blocks(text):
    """First line number and source of each Python block."""
    return [
        (text.count("\n", 0, match.start("code")), textwrap.dedent(match["code"]))
        for match in BLOCK.finditer(text)
    ]


def execute(code, namespace, first_line, name):
    """Run a block: plain statements, or a session with prompts whose output is compared."""
    if code.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, namespace, name, name, first_line)
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
        assert results.failed == 0
        namespace.update(test.globs)
    else:
        # Blank lines in front make a traceback name the line of the file.
        exec(compile("\n" * first_line + code, name, "exec"), namespace)


def test_blocks_are_found_and_executed():
    text = "x\n```python\na = 1\n```\n```bash\nb\n```\n- y\n  ```python\n  >>> a + 1\n  2\n  ```\n"
    blocks = python_blocks(text)
    assert blocks == [(2, "a = 1\n"), (9, ">>> a + 1\n2\n")]
    namespace = {}
    for line, code in blocks:
        execute(code, namespace, line, "text")
    with pytest.raises(ZeroDivisionError):
        execute("1 / 0", namespace, 0, "text")


def test_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    blocks = python_blocks(README.read_text(encoding="utf-8"))
    assert blocks, "README.md has no Python block"
    namespace = {"__name__": "__readme__"}
    try:
        for line, code in blocks:
            execute(code, namespace, line, str(README))
    finally:
        matplotlib.pyplot.close("all")
