"""The paper's experiment on active learning: policies that share rows, splits and model, on 68 sets.

Nothing heavy is imported before a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.active.page import save_active_figures, write_active_page
    from bayesvm_studies.active.plan import ActivePlan, ActiveSettings, make_active_plan
    from bayesvm_studies.active.run import run_active
    from bayesvm_studies.active.summary import ActiveSummary, summarise_active

__all__ = [
    "ActivePlan",
    "ActiveSettings",
    "ActiveSummary",
    "make_active_plan",
    "run_active",
    "save_active_figures",
    "summarise_active",
    "write_active_page",
]


_HOME = {
    "ActivePlan": "plan",
    "ActiveSettings": "plan",
    "ActiveSummary": "summary",
    "make_active_plan": "plan",
    "run_active": "run",
    "save_active_figures": "page",
    "summarise_active": "summary",
    "write_active_page": "page",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
