"""One HTML file about a fitted table that anyone can read, and what could mislead in the table.

Needs jinja2 and matplotlib (``pip install 'bayesvm[cli]'``), which are
imported when a report is written.
"""

from bayesvm.report._pitfall import Pitfall
from bayesvm.report._pitfalls import find_pitfalls
from bayesvm.report._render import write_report

__all__ = ["Pitfall", "find_pitfalls", "write_report"]
