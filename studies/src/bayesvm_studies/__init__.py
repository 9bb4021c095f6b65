"""The experiments of the paper: fits that can be stopped and resumed, summaries, figures and a page.

Needs the packages of ``pip install 'bayesvm[cli]'`` for figures and pages.
Nothing heavy is imported before a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.figure_files import save_figures
    from bayesvm_studies.page import write_page
    from bayesvm_studies.plan import Plan, make_plan
    from bayesvm_studies.result import Result
    from bayesvm_studies.roster import Contestant, contestants
    from bayesvm_studies.run import Listener, Outcome, run_plan
    from bayesvm_studies.store import Store, read_results
    from bayesvm_studies.summary import Summary, summarise
    from bayesvm_studies.task import Task
    from bayesvm_studies.tidy import tidy_csv, tidy_rows

__all__ = [
    "Contestant",
    "Listener",
    "Outcome",
    "Plan",
    "Result",
    "Store",
    "Summary",
    "Task",
    "contestants",
    "make_plan",
    "read_results",
    "run_plan",
    "save_figures",
    "summarise",
    "tidy_csv",
    "tidy_rows",
    "write_page",
]


_HOME = {
    "Contestant": "roster",
    "Listener": "run",
    "Outcome": "run",
    "Plan": "plan",
    "Result": "result",
    "Store": "store",
    "Summary": "summary",
    "Task": "task",
    "contestants": "roster",
    "make_plan": "plan",
    "read_results": "store",
    "run_plan": "run",
    "save_figures": "figure_files",
    "summarise": "summary",
    "tidy_csv": "tidy",
    "tidy_rows": "tidy",
    "write_page": "page",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
