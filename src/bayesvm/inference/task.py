"""What every inference method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from bayesvm.core.likelihoods import Likelihood, PointLikelihood
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.evaluate import Ascent
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import RivalRule
from bayesvm.inference.sweepable import Sweepable
from bayesvm.progress import Progress, Step

__all__ = [
    "Member",
    "Method",
    "Outcome",
    "Settings",
    "Task",
    "needs_positive_sites",
    "on_rows",
]


@dataclass(frozen=True)
class Member:
    """A member of the family: how labels speak to latent functions.

    Attributes
    ----------
    likelihood : Likelihood
        The kernel is learned under it; samplers use its values at points.
    rule : RivalRule
        How the sites of a variational fit come about.
    mode : PointLikelihood or None
        The likelihood at points, without variances; None if no method looks
        for the mode.
    """

    likelihood: Likelihood
    rule: RivalRule
    mode: PointLikelihood | None = None


@dataclass(frozen=True)
class Settings:
    """How long, in which steps, and what besides q is fitted.

    Attributes
    ----------
    max_iter : int
        Most sweeps, epochs, or transitions of a chain, those before the first
        kept draw and between kept draws included.
    tol : float
    batch_size : int
    rate : float or None
        Adam's rate; None: the method's own.
    natural_rate : float or None
        Step of q in its natural parameters, of methods that do not choose it
        themselves; None: the method's own.
    learn_kernel, learn_inducing : bool
        For methods that move them together with q.
    n_chains, n_draws : int
        Of samplers: how many chains, and draws kept of each.
    fitc : bool
        Of samplers and of the mode: whether each row has a residual of its
        own, independent given the inducing values; else it is left out.
    seed : int
    """

    max_iter: int = 60
    tol: float = 1e-2
    batch_size: int = 1024
    rate: float | None = None
    natural_rate: float | None = None
    learn_kernel: bool = False
    learn_inducing: bool = False
    n_chains: int = 4
    n_draws: int = 500
    fitc: bool = False
    seed: int = 0


class Task(NamedTuple):
    """Rows, the member of the family, where q starts and what it is without the rows."""

    rows: TrainingRows
    member: Member
    start: Natural
    base: Natural
    settings: Settings


class Outcome(NamedTuple):
    """The rows under the kernel and inducing points of the end, and q."""

    rows: TrainingRows
    ascent: Ascent


def on_rows(rows: TrainingRows, progress: Progress) -> Progress:
    """Progress of a method that leaves the rows as they are: its states become outcomes."""

    def report(step: Step) -> bool:
        return progress(replace(step, state=lambda: Outcome(rows, step.state())))

    return report


def _needs_nothing(member: Member) -> str | None:
    """Fits every member of the family."""
    return None


def needs_positive_sites(member: Member) -> str | None:
    """Full steps are safe where no row asks for a negative precision, as log-concave likelihoods never do."""
    if getattr(member.likelihood, "log_concave", True):
        return None
    name = type(member.likelihood).__name__
    return f"a log-concave likelihood, and {name}, which may ask for a negative precision, is not one"


@dataclass(frozen=True)
class Method:
    """An inference method.

    Attributes
    ----------
    run : callable
        From a task and a way to report progress to an outcome; the ``state``
        of every reported step is an outcome too.
    max_iter : int
        Default of the most steps.
    learns_kernel : bool
        Whether it moves kernel parameters itself; else they are learned before.
    missing : callable
        What the method needs and a member of the family lacks, or None: words
        that can follow "it needs", such as "a log-concave likelihood".
    approximations : tuple of str
        What inducing points may stand for, the default first: "variational",
        "dtc" or "fitc".
    decides : bool
        Whether the largest latent mean is meant to decide: class
        probabilities then have no offsets and one variance for all classes.
    streams : callable or None
        The same where the rows of the task are a sample of those that q is
        fitted to, which are then given beside it; None: it needs them all.
    in_order : bool
        Whether it then goes through the rows one after the other, as a
        cluster cannot.
    """

    run: Callable[[Task, Progress], Outcome]
    max_iter: int
    learns_kernel: bool = False
    missing: Callable[[Member], str | None] = _needs_nothing
    approximations: tuple[str, ...] = ("variational",)
    decides: bool = False
    streams: Callable[[Task, Sweepable, Progress], Outcome] | None = None
    in_order: bool = False
