"""The figures of the experiment on active learning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesvm_studies.active.curves import Curves
from bayesvm_studies.active.duel import Duel
from bayesvm_studies.active.roster import MODELS, POLICIES, title_of
from bayesvm_studies.active.summary import ActiveSummary
from bayesvm_studies.figures.bands import BandPanel, bands_figure
from bayesvm_studies.figures.scatter import Pair, scatter_figure
from bayesvm_studies.rendering import Drawing

_ORDER = list(POLICIES.values())
_QUERIES = "Queries"


def active_drawings(summary: ActiveSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    pairs = [
        _rank_panel(summary.sets, summary.pair(m), MODELS[m].title)
        for m in ("default", "paper")
        if summary.sets.places(summary.pair(m))
    ]
    if pairs:
        found["pair_ranks"] = Drawing(
            lambda width: bands_figure(pairs, width, _ORDER),
            "Mean rank by test error of variation ratio and entropy against the number of queries.",
        )
    if len(summary.policies) > 2 and summary.sets.places(summary.policies):
        ranks = _rank_panel(summary.sets, summary.policies)
        found["policy_ranks"] = Drawing(
            lambda width: bands_figure([ranks], width, _ORDER),
            "Mean rank by test error of all policies against the number of queries.",
        )
    if summary.sets.places(summary.compared):
        accuracy = _accuracy_panel(summary.sets, summary.compared)
        found["budget_curves"] = Drawing(
            lambda width: bands_figure([accuracy], width, _ORDER),
            "Mean test accuracy over the sets against the number of queries.",
        )
    if summary.poker.errors:
        poker = _poker_panel(summary)
        found["poker"] = Drawing(
            lambda width: bands_figure([poker], width, _ORDER),
            "Test error of poker against the number of queries on the whole pool.",
        )
    fought = summary.duel
    if fought is not None:
        found["margin_areas"] = Drawing(
            lambda width: scatter_figure([_duel_pair(fought)], width),
            "Area under the budget curve of margin sampling against the variation ratio, a dot per set.",
        )
    return found


def _rank_panel(curves: Curves, entrants: Sequence[str], title: str = "") -> BandPanel:
    """Policies under one model, which the title names."""
    by_seed = np.array(list(curves.mean_ranks(entrants).values()))
    n_sets = len({name for name, _ in curves.places(entrants)})
    named = [POLICIES[e.partition("/")[2]] for e in entrants]
    return BandPanel(
        _QUERIES,
        "Mean rank by test error",
        {name: by_seed[:, k] for k, name in enumerate(named)},
        title=f"{title}, {n_sets} sets" if title else "",
    )


def _accuracy_panel(curves: Curves, entrants: Sequence[str]) -> BandPanel:
    by_seed = np.array(list(curves.mean_accuracy(entrants).values()))
    named = {title_of(e): by_seed[:, k] for k, e in enumerate(entrants)}
    return BandPanel(_QUERIES, "Mean test accuracy", named)


def _poker_panel(summary: ActiveSummary) -> BandPanel:
    level = None
    if summary.everything:
        level = (float(np.mean(list(summary.everything.values()))), "Trained on the whole pool")
    curves = {title_of(e): np.array(list(c.values())) for e, c in summary.poker.errors.items()}
    return BandPanel(_QUERIES, "Test error", curves, level)


def _duel_pair(fought: Duel) -> Pair:
    """The first against the second: above the line the first is better."""
    first, second = zip(*fought.areas.values(), strict=True)
    return Pair(title_of(fought.first), title_of(fought.second), list(first), list(second))
