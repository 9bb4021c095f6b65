"""How the fit went, and whether it was over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesvm.report.figures import training_figure
from bayesvm.report.wording import plural

if TYPE_CHECKING:
    from bayesvm.tables import TableFit

__all__ = ["TrainingSection", "training_section"]


@dataclass(frozen=True)
class TrainingSection:
    """Texts and figure of the training curve."""

    lead: str
    svg: str
    seconds: str


def training_section(fit: TableFit) -> TrainingSection:
    """The training curve and whether it levelled off."""
    model = fit.pipeline["model"]
    lead = _lead(fit)
    return TrainingSection(
        lead=lead,
        svg=training_figure(model.elbo_curve_, model.kernel_curve_, f"Training curve. {lead}"),
        seconds=_duration(fit.seconds),
    )


def _lead(fit: TableFit) -> str:
    model = fit.pipeline["model"]
    sweeps = plural(int(model.n_iter_), "sweep over the rows", "sweeps over the rows")
    if fit.interrupted:
        return (
            f"Training was interrupted after {sweeps}: the model is the best state reached until then, and a "
            "full run may do better."
        )
    if model.converged_:
        return f"Training came to rest after {sweeps}: more time would change next to nothing."
    return (
        f"Training had not come to rest after {sweeps}, the most it was allowed: fit again with a larger "
        "max_iter if you want the last bit."
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f}\u00a0s" if seconds < 10 else f"{seconds:.0f}\u00a0s"
    minutes = round(seconds / 60)
    return plural(minutes, "minute") if minutes < 100 else plural(round(seconds / 3600), "hour")
