"""The committed summaries are those of the committed results."""

import json
import re
from pathlib import Path

import pytest

from bayesvm_studies.active.summary import summarise_active
from bayesvm_studies.adversarial.summary import summarise_adversarial
from bayesvm_studies.images.summary import summarise_images
from bayesvm_studies.results import read_results
from bayesvm_studies.structured.summary import summarise

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    ("name", "put_together"),
    [
        ("structured", summarise),
        ("images", summarise_images),
        ("active", summarise_active),
        ("adversarial", summarise_adversarial),
    ],
)
def test_the_summary_is_that_of_the_results(name, put_together):
    committed = json.loads((RESULTS / f"{name}.json").read_text())
    found = put_together(read_results(RESULTS / f"{name}.jsonl", name)).as_dict()
    assert json.loads(json.dumps(found)) == committed


def test_nothing_was_left_to_be_filled_in():
    assert re.findall(r"\b[A-Z]{2,}_[A-Z]+\b", (RESULTS / "README.md").read_text()) == []
