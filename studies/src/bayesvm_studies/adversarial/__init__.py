"""Attacks on the networks of the experiment on images, and how well doubt tells attacked images.

Nothing heavy is imported before a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.adversarial.page import save_adversarial_figures, write_adversarial_page
    from bayesvm_studies.adversarial.page_tables import detection_csv
    from bayesvm_studies.adversarial.plan import AdversarialPlan, AdversarialSettings, make_adversarial_plan
    from bayesvm_studies.adversarial.run import run_adversarial
    from bayesvm_studies.adversarial.summary import AdversarialSummary, summarise_adversarial

__all__ = [
    "AdversarialPlan",
    "AdversarialSettings",
    "AdversarialSummary",
    "detection_csv",
    "make_adversarial_plan",
    "run_adversarial",
    "save_adversarial_figures",
    "summarise_adversarial",
    "write_adversarial_page",
]


_HOME = {
    "AdversarialPlan": "plan",
    "AdversarialSettings": "plan",
    "AdversarialSummary": "summary",
    "detection_csv": "page_tables",
    "make_adversarial_plan": "plan",
    "run_adversarial": "run",
    "save_adversarial_figures": "page",
    "summarise_adversarial": "summary",
    "write_adversarial_page": "page",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
