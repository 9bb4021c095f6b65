"""The interface of inference methods: the task they are given and the outcome they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bayesvm._core.chains import Chains
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.likelihoods import Likelihood, PointLikelihood
from bayesvm._core.sites import Statistics
from bayesvm._inference.blocks import Block, TrainingRows, shuffled
from bayesvm._inference.rivals import BlockSites, RivalRule
from bayesvm._progress import Progress, Step
from bayesvm._threads import Workers, thread_workers

# --- One pass over the rows: value, sites and the natural parameters they ask for.


class Sites(NamedTuple):
    """Sites of all rows for one unit of weight.

    Attributes
    ----------
    classes : Tensor of shape (N, K) or None
        Latent functions that the columns touch; None: all of them, in order.
    W, G : Tensor of shape (N, K)
        Precisions and linear parts (eq. 3.3).
    """

    classes: Tensor | None
    W: Tensor
    G: Tensor

    def dense(self, rows: slice, n_latents: int) -> tuple[Tensor, Tensor]:
        """W and G of some rows over all latent functions, shape (n, C)."""
        if self.classes is None:
            return self.W[rows], self.G[rows]
        index = self.classes[rows].long()
        zero = self.W.new_zeros(index.shape[0], n_latents)
        return zero.scatter_add(1, index, self.W[rows]), zero.scatter_add(1, index, self.G[rows])


class PassResult(NamedTuple):
    """What one pass over the rows under q gives."""

    value: float
    target: Natural
    sites: Sites


class Ascent(NamedTuple):
    """A finished optimisation of q.

    Attributes
    ----------
    q : Gaussian
    natural : Natural
    sites : Sites
        The sites that made q, or ``site_gaussian``.
    curve : list of float
        The bound after every sweep (its approximation with one rival).
    n_iter : int
        Sweeps, or epochs with minibatches; refused steps count.
    converged, interrupted : bool
    gap : float or None
        Of the mode: by what share its objective could be better, at most;
        where functions have objectives of their own, that of the worst.
    chains : Chains or None
        Draws from the posterior, if the method samples. The rest is then
        the variational fit that they started from, except that ``n_iter``,
        ``converged`` and ``interrupted`` are those of the chains.
    site_gaussian : Gaussian or None
        The Gaussian that the sites define, where q was found in another way;
        None: q itself. Leave-one-out removes sites from it.
    loo_valid : bool
        Whether ``site_gaussian`` is close enough to q for leave-one-out to mean anything.
    """

    q: Gaussian
    natural: Natural
    sites: Sites
    curve: list[float]
    n_iter: int
    converged: bool
    interrupted: bool
    gap: float | None = None
    chains: Chains | None = None
    site_gaussian: Gaussian | None = None
    loo_valid: bool = True

    @property
    def own(self) -> Gaussian:
        """The Gaussian that the sites define: ``site_gaussian``, or q itself."""
        return self.q if self.site_gaussian is None else self.site_gaussian


# Numbers in the sums of q up to which every thread has its own.
_MOST_SUMS = 20_000_000


class Swept(NamedTuple):
    """Expected log-likelihood of some blocks, their sums, and the sites of each."""

    value: Tensor
    sums: Statistics
    sites: list[Sites]


def sweep_over(
    parts: Sequence[Iterable[Block]], q: Gaussian, sites_of: BlockSites, workers: Workers
) -> Swept:
    """Sites of blocks under q and their sums, each part by a thread of its own."""

    def of_part(blocks: Iterable[Block]) -> Swept:
        J, P = q.m.shape
        value, sums, kept = q.m.new_zeros(()), Statistics.zeros(J, P, q.m), list[Sites]()
        for block in blocks:
            sites = sites_of(block, sums)
            value = value + torch.dot(block.weight, sites.value)
            kept.append(Sites(sites.classes, sites.W, sites.G))
        return Swept(value, sums, kept)

    total, *others = workers.map(of_part, parts)
    for found in others:
        total.sums.precision.add_(found.sums.precision)
        total.sums.linear.add_(found.sums.linear)
        total = Swept(total.value + found.value, total.sums, total.sites + found.sites)
    return total


def n_parts(q: Gaussian, n_blocks: int) -> int:
    """How many threads so many blocks are worth: one where each would need large sums of its own."""
    J, P = q.m.shape
    return n_blocks if q.m.device.type == "cpu" and J * P * P <= _MOST_SUMS else 1


def evaluate(rows: TrainingRows, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> PassResult:
    """Expected log-likelihood, the natural parameters q should move to, and the sites."""
    size = rule.block_rows(q)
    with thread_workers(n_parts(q, -(-len(rows) // size))) as workers:
        parts = [rows.blocks(size, within) for within in rows.split(workers.size)]
        value, sums, sites = sweep_over(parts, q, rule.under(q, sweep), workers)
    # In place: with many classes another copy would cost as much as the sums.
    target = Natural(sums.precision.add_(base.precision), sums.linear.add_(base.linear))
    return PassResult(float(value), target, _join(sites))


def _join(parts: list[Sites]) -> Sites:
    if len(parts) == 1:
        return parts[0]
    classes = [p.classes for p in parts if p.classes is not None]
    return Sites(
        torch.cat(classes) if classes else None,
        torch.cat([p.W for p in parts]),
        torch.cat([p.G for p in parts]),
    )


# --- Rows that q can be swept over, in memory or streamed.


class Sweepable(Protocol):
    """All rows of a fit: sums over all of them are available, some of them are in memory.

    Attributes
    ----------
    sample : TrainingRows
        Rows in memory, a random sample of all or all of them. Sites are those
        of these rows; change is measured on them.
    n_rows : int
    total_weight : float
    """

    @property
    def sample(self) -> TrainingRows: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    def first(self, n: int) -> Sweepable:
        """About n rows, a random sample, whose weights stand for all rows."""
        ...

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> PassResult:
        """Value and natural parameters of all rows under q, and the sites of the sample."""
        ...

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        """All rows once, mixed, in minibatches of about that size with their own weights."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Rows that are all in memory."""

    sample: TrainingRows

    @property
    def n_rows(self) -> int:
        return len(self.sample)

    @property
    def total_weight(self) -> float:
        return float(self.sample.weight.sum())

    def first(self, n: int) -> Sweepable:
        return InMemory(self.sample.first(n))

    def evaluate(self, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> PassResult:
        return evaluate(self.sample, rule, q, base, sweep)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Block]:
        for index in shuffled(len(self.sample), seed, epoch, self.sample.X.device).split(size):
            yield self.sample.batch(index)


@dataclass(frozen=True)
class Member:
    """A model family member: likelihood, rival rule and mode.

    The likelihood may be a committee; its members are likelihoods, not records of this class.

    Attributes
    ----------
    likelihood : Likelihood
        The kernel is learned under it, of a committee under its last member; samplers
        use its values at points.
    rule : RivalRule
        Computes the sites of a variational fit.
    mode : PointLikelihood or None
        The likelihood at points, without variances; None if no method looks
        for the mode.
    """

    likelihood: Likelihood
    rule: RivalRule
    mode: PointLikelihood | None = None


@dataclass(frozen=True)
class Settings:
    """Settings of a method: number of steps, step sizes, and what is fitted besides q.

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
    """Full steps are safe where no site precision is negative, as under log-concave likelihoods."""
    if getattr(member.likelihood, "log_concave", True):
        return None
    name = type(member.likelihood).__name__
    return f"a log-concave likelihood, which {name} is not (its site precisions may be negative)"


@dataclass(frozen=True)
class Method:
    """An inference method.

    Attributes
    ----------
    run : callable
        From a task and a way to report progress to an outcome; the ``state``
        of every reported step is an outcome too.
    max_iter : int
        Default of ``max_iter``.
    learns_kernel : bool
        Whether it moves kernel parameters itself; else they are learned before.
    missing : callable
        What the method needs and a member of the family lacks, or None: words
        that can follow "it needs", such as "a log-concave likelihood".
    approximations : tuple of str
        Approximations by inducing points, the default first: "variational",
        "dtc" or "fitc".
    mean_decides : bool
        Whether the largest latent mean is meant to decide: class
        probabilities then have no mixing and one variance for all classes.
    run_streamed : callable or None
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
    mean_decides: bool = False
    run_streamed: Callable[[Task, Sweepable, Progress], Outcome] | None = None
    in_order: bool = False
