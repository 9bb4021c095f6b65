"""The figures that a run is judged by, recomputed from its raw results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayesvm_studies.olson_summary import OlsonSummary, summarise_olson
from bayesvm_studies.paper_summary import PaperSummary, summarise_paper
from bayesvm_studies.result import Result


@dataclass(frozen=True)
class Summary:
    """Both protocols, and what ran where."""

    paper: PaperSummary
    olson: OlsonSummary
    results: tuple[Result, ...]

    @property
    def notes(self) -> list[str]:
        """What is to be said about the data, each once."""
        return sorted({r.note for r in self.results if r.note})

    @property
    def versions(self) -> dict[str, list[str]]:
        """Versions of bayesvm that the results of its models were made with, by protocol."""
        found: dict[str, set[str]] = {}
        for r in self.results:
            if "bayesvm" in r.versions:
                found.setdefault(r.protocol, set()).add(r.versions["bayesvm"])
        return {protocol: sorted(versions) for protocol, versions in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what cannot be said is null."""
        described = {
            "paper": self.paper.as_dict(),
            "olson": self.olson.as_dict(),
            "suite_minutes": self.olson.suite_minutes,
            "suite_jobs": self.olson.suite_jobs,
            "suite_sets": sum("bayesvm" in s.scores for s in self.olson.sets),
            "n_fits": len(self.results),
            "machines": sorted({r.machine for r in self.results}),
            "versions": self.versions,
            "commits": sorted({r.commit for r in self.results if r.commit}),
            "notes": self.notes,
        }
        return dict(plain(described))


def summarise(results: Sequence[Result]) -> Summary:
    """Put raw results together."""
    return Summary(summarise_paper(results), summarise_olson(results), tuple(results))


def plain(value: Any) -> Any:
    """As JSON can hold it: six digits, and null for what is not finite."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value
