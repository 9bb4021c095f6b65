"""The committed summaries are those of the committed results."""

import json
import re
from pathlib import Path

import pytest

from bayesvm_studies.commands import STUDIES
from bayesvm_studies.results import Task, lines_exist, read_results
from bayesvm_studies.versions import code_lines, source_version

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", STUDIES)
def test_the_summary_is_that_of_the_results(name):
    if not lines_exist(RESULTS / f"{name}.jsonl") and not (RESULTS / f"{name}.json").exists():
        pytest.skip(f"the fits of {name} are still to be made")
    results = read_results(RESULTS / f"{name}.jsonl", name)
    committed = json.loads((RESULTS / f"{name}.json").read_text())
    assert json.loads(json.dumps(STUDIES[name].report(results).numbers)) == committed
    # And a run would find them.
    for r in results[:: max(1, len(results) // 50)]:
        assert Task(r.data, r.data_digest, r.protocol, r.split, r.model, r.config, r.versions).key == r.key


def test_nothing_was_left_to_be_filled_in():
    assert re.findall(r"\b[A-Z]{2,}_[A-Z]+\b", (RESULTS / "README.md").read_text()) == []


@pytest.mark.parametrize("name", ["quality", "peers", "honesty"])
def test_the_figures_belong_to_this_code(name):
    """Whoever changes what fits and predicts measures anew what the README shows (comments do not count)."""
    config = json.loads((RESULTS / "benchmarks" / f"{name}.json").read_text())["config"]
    assert config["bayesvm"] == source_version(), (
        f"run the benchmark {name} again: studies/README.md says how"
    )


def test_comments_and_docstrings_change_no_version():
    code = 'x = "#a"\n\n\ndef f():\n    return x\n'
    told = (
        '"""Doc."""\nx = "#a"  # why\n\n\ndef f():\n    """What\n    it does."""\n    # how\n    return x\n'
    )
    assert code_lines(code) == code_lines(told)
    assert code_lines(code) != code_lines(code.replace("#a", "#b"))
