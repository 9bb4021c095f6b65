"""From standardised rows to a fitted model: inducing points, kernel, posterior, leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.calibration import Calibration
from bayesvm._core.features import inducing_factor
from bayesvm._core.gaussian import Natural
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.likelihoods import (
    AugmentedBinaryHinge,
    BinaryHinge,
    Committee,
    CrammerSingerMode,
    HingeMode,
    Likelihood,
    MulticlassHinge,
    OneVsRest,
    PointLikelihood,
    ProperLikelihood,
    Softmax,
    members_of,
    resolve_likelihood,
)
from bayesvm._core.sites import ridge_statistics, ridge_target
from bayesvm._fit import defaults
from bayesvm._fit.kernel import (
    Learned,
    LearningOptions,
    choose_inducing,
    learn_kernel,
    learning_sample,
)
from bayesvm._fit.local import LocalPart
from bayesvm._fit.rows import CanonicalRows, Scaler
from bayesvm._inference import coordinate
from bayesvm._inference.blocks import TrainingRows, evidence_factor
from bayesvm._inference.methods import METHODS
from bayesvm._inference.rivals import RIVALS, AllRivals, RivalRule, n_members
from bayesvm._inference.task import Ascent, Member, Settings, Sweepable, Task
from bayesvm._model import Model, to_numpy
from bayesvm._progress import Progress, Step, silent

FloatArray = npt.NDArray[np.floating]
_BLOCK_NUMBERS = 2_000_000
# Weights that differ by less than this share of them add up to the same.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Options:
    """Options of a fit, every ``"auto"`` resolved.

    Attributes
    ----------
    kernel : Kernel
        Prior covariance of each latent function.
    member : Member
        Likelihood, rival rule and mode.
    inference : str
        A name in ``_inference.methods.METHODS``.
    settings : Settings
        Settings of the method.
    hyperparameters : str
        What kernel parameters maximise; "fixed": nothing.
    n_inducing : int
    select_inducing : callable
        Inducing points from standardised rows, their weights and ``n_inducing``.
    device : str
    dtype : torch.dtype
    class_likelihood : ProperLikelihood or None
        The likelihood whose class probabilities are used; None: the calibrated softmax.
    local : bool
        Whether leave-one-out may add a local part.
    """

    kernel: Kernel
    member: Member
    inference: str
    settings: Settings
    hyperparameters: str
    n_inducing: int
    device: str
    dtype: torch.dtype
    select_inducing: Callable[[Tensor, Tensor, int], Tensor] = choose_inducing
    class_likelihood: ProperLikelihood | None = None
    local: bool = False

    @property
    def mean_decides(self) -> bool:
        """Whether the largest latent mean decides, and no likelihood with probabilities of its own."""
        return METHODS[self.inference].mean_decides and self.class_likelihood is None


@dataclass(frozen=True)
class Trained:
    """What a fit produced.

    Attributes
    ----------
    rows : TrainingRows
    ascent : Ascent
    kernel_curve : list of float
        The bound while the kernel was learned.
    interrupted : bool
    forgotten : Natural or None
        What forgotten rows contributed to q.
    outside_weight : float
        Weight of the rows that q was fitted to and that are not among ``rows``.
    n_members : int
        Likelihoods whose latent functions q holds side by side.
    """

    rows: TrainingRows
    ascent: Ascent
    kernel_curve: list[float]
    interrupted: bool
    forgotten: Natural | None = None
    outside_weight: float = 0.0
    n_members: int = 1


@dataclass(frozen=True)
class Population:
    """All rows of a fit that holds only a sample of them.

    Attributes
    ----------
    n_rows : int
    weight : float
    over : callable
        All rows under the kernel and the inducing points of the sample.
    """

    n_rows: int
    weight: float
    over: Callable[[TrainingRows], Sweepable]


def most_steps(options: Options) -> int:
    """Steps that a fit may take at most, learning the kernel included."""
    return options.settings.max_iter + defaults.LEARNING_STEPS


def train(
    data: CanonicalRows,
    scaler: Scaler,
    n_classes: int,
    options: Options,
    start: Model | None,
    progress: Progress,
    population: Population | None = None,
) -> Trained:
    """Fit q, and the kernel unless it is fixed, to canonical rows.

    Parameters
    ----------
    data : CanonicalRows
    scaler : Scaler
    n_classes : int
    options : Options
    start : Model or None
        A fitted model whose kernel, inducing points and q to start from.
    progress : Progress
    population : Population or None
        What the rows are a sample of; None: they are all.
    """
    X = torch.as_tensor(scaler.transform(data.X)).to(options.device, options.dtype)
    y = torch.as_tensor(data.y).to(options.device)
    weight, unit = (torch.as_tensor(a).to(options.device, options.dtype) for a in (data.weight, data.unit))
    key = torch.as_tensor(data.key).to(options.device)
    group = None if data.group is None else torch.as_tensor(data.group).to(options.device)
    kernel = options.kernel
    if start is None:
        params, Z, q = kernel.init(X), options.select_inducing(X, weight, options.n_inducing), None
    else:
        loaded = start.on(options.device, options.dtype)
        params, Z, q = loaded.params, loaded.Z, Natural.of(loaded.q)
    job = _Job(X, y, weight, unit, key, group, kernel, params, Z, n_classes, options, q, population)
    if options.hyperparameters == "fixed" or METHODS[options.inference].learns_kernel:
        return job.posterior(None, progress)

    def report(step: Step) -> bool:
        """A fit that ends here still makes one sweep over all rows."""
        return progress(replace(step, state=lambda: job.one_sweep().posterior(step.state(), silent)))

    return job.posterior(job.learned(report), progress)


@dataclass(frozen=True)
class _Job:
    """Rows, initial kernel and inducing points, and the stages that start from them."""

    X: Tensor
    y: Tensor
    weight: Tensor
    unit: Tensor
    key: Tensor
    group: Tensor | None
    kernel: Kernel
    params: Params
    Z: Tensor
    n_classes: int
    options: Options
    q: Natural | None
    population: Population | None

    @property
    def n_rows(self) -> int:
        """Rows that q is fitted to."""
        return self.X.shape[0] if self.population is None else self.population.n_rows

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum()) if self.population is None else self.population.weight

    @property
    def n_latents(self) -> int:
        return self.options.member.likelihood.n_latents(self.n_classes)

    def one_sweep(self) -> _Job:
        """The same job with a single sweep of a variational method, the cheapest posterior."""
        options = self.options
        variational = "variational" in METHODS[options.inference].approximations
        quick = "natural_adam" if METHODS["coordinate"].missing(options.member) else "coordinate"
        return replace(
            self,
            options=replace(
                options,
                inference=options.inference if variational else quick,
                settings=replace(options.settings, max_iter=1),
            ),
        )

    def rows(self, params: Params, Z: Tensor) -> TrainingRows:
        """All rows under some kernel parameters and inducing points."""
        columns = self.X, self.y, self.weight, self.unit, self.key
        return TrainingRows(*columns, self.kernel, params, Z, self.n_classes, self.group)

    def learned(self, progress: Progress) -> Learned:
        """Learn the kernel on a sample of the rows, with a limited number of inducing points."""
        options, settings = self.options, self.options.settings
        members = members_of(options.member.likelihood)
        blend = options.hyperparameters
        if len(members) > 1 and blend == "blend":
            blend = "committee"
        recipe = LearningOptions(
            bound_weight=defaults.BOUND_WEIGHT[blend],
            loo_weight=defaults.LEAVE_ONE_OUT_WEIGHT[blend],
            steps=defaults.LEARNING_STEPS,
            rate=settings.rate or defaults.LEARNING_RATE,
            damping=defaults.SITE_DAMPING,
            learn_inducing=settings.learn_inducing,
            level_scale=defaults.LEVEL_SCALE,
        )
        factor = evidence_factor(self.weight, self.unit) if recipe.loo_weight else 1.0
        columns = self.X, self.y, factor * self.weight, factor * self.unit
        sample = learning_sample(*columns, self.n_classes, self.n_rows, float(factor * self.total_weight))
        Z = self.Z
        most = defaults.sizes(self.n_rows).learning_inducing
        if not settings.learn_inducing and Z.shape[0] > most:
            Z = choose_inducing(self.X, self.weight, most)
        return learn_kernel(self.kernel, self.params, Z, sample, members[-1], recipe, progress)

    def posterior(self, learned: Learned | None, progress: Progress) -> Trained:
        """Fit q to all rows under the learned kernel, whether its learning has ended or not."""
        options = self.options
        params, Z, curve, interrupted = self.params, self.Z, list[float](), False
        if learned is not None:
            learned = learned.to(self.X.dtype)
            params, curve, interrupted = learned.params, learned.curve, learned.interrupted
            Z = learned.Z if options.settings.learn_inducing else Z
        with torch.no_grad():
            rows = self.rows(params, Z)
            begin, ended = self._start(rows, learned)
            interrupted = interrupted or ended
            everything = None if self.population is None else self.population.over(rows)
        prior = Natural.prior(self.n_latents, rows.Lz)
        task = Task(rows, options.member, begin, prior, options.settings)
        return infer(options.inference, task, curve, interrupted, None, progress, everything)

    def _start(self, rows: TrainingRows, learned: Learned | None) -> tuple[Natural, bool]:
        """The initial q, of the last model, the kernel's learning or a regression; and if Ctrl-C came."""
        if self.q is not None and self.q.linear.shape[0] == self.n_latents:
            return self.q, False
        sample = rows if self.population is None else rows.standing_for(self.population.weight)
        rule = self.options.member.rule
        n = n_members(rule)
        if learned is not None and n * learned.natural.linear.shape[0] == self.n_latents:
            # Every member begins where the last one is, half as many sweeps from its end as the regression.
            found = _carried(learned, rows)
            begin = Natural(found.precision.repeat(n, 1, 1), found.linear.repeat(n, 1))
        else:
            begin = _ridge_start(sample, self.n_latents, rule)
        few = max(defaults.FEWEST_FIRST, len(rows) // defaults.FIRST_SHARE)
        if rule.averaged or (self.population is None and 2 * few > len(rows)):
            return begin, False  # sampled rivals start with sweeps over a sample of their own
        if self.population is None:
            sample = rows.first(few)
        # Sweeps over the sample are cheap; those over all rows then start close to convergence.
        prior, settings = Natural.prior(self.n_latents, rows.Lz), self.options.settings
        first = coordinate.ascend(sample, rule, begin, prior, settings.max_iter, settings.tol, silent)
        return first.natural, first.interrupted


def infer(
    method: str,
    task: Task,
    kernel_curve: list[float],
    interrupted: bool,
    forgotten: Natural | None,
    progress: Progress,
    everything: Sweepable | None = None,
) -> Trained:
    """Run an inference method; every state that it reports is a complete training result.

    ``everything`` is there where the rows of the task are a sample of it.
    """
    outside_weight, members = 0.0, n_members(task.member.rule)
    if everything is not None:
        total = everything.total_weight
        beyond = total - float(task.rows.weight.sum())
        outside_weight = beyond if beyond > _ROUNDING * total else 0.0

    def report(step: Step) -> bool:
        def state() -> Trained:
            rows, ascent = step.state()
            return Trained(rows, ascent, kernel_curve, False, forgotten, outside_weight, members)

        return progress(replace(step, state=state))

    how = METHODS[method]
    if everything is None:
        rows, ascent = how.run(task, report)
    else:
        assert how.run_streamed is not None  # or the fit would have been refused
        rows, ascent = how.run_streamed(task, everything, report)
    interrupted = interrupted or ascent.interrupted
    return Trained(rows, ascent, kernel_curve, interrupted, forgotten, outside_weight, members)


def _carried(learned: Learned, rows: TrainingRows) -> Natural:
    """The q of the kernel's learning under the inducing points of the fit."""
    if torch.equal(learned.Z, rows.Z):
        return learned.natural
    cross = rows.kernel.cross(rows.params, learned.Z, rows.Z)
    return learned.natural.carried(cross, inducing_factor(rows.kernel, rows.params, learned.Z), rows.Lz)


def _ridge_start(rows: TrainingRows, n_latents: int, rule: RivalRule) -> Natural:
    """Ridge regression on one-hot targets: one precision for all classes (eq. 3.6)."""
    P = rows.n_inducing
    precision = rows.X.new_zeros(P, P)
    linear = rows.X.new_zeros(n_latents, P)
    for block in rows.blocks(_BLOCK_NUMBERS // (n_latents + P)):
        A, _ = block.features
        target = ridge_target(block.y, n_latents, rule.shift_invariant, A, n_members(rule))
        more = ridge_statistics(A, target, block.weight)
        precision += more[0]
        linear += more[1]
    return Natural.prior(n_latents, rows.Lz).plus(precision, linear)


def as_model(
    trained: Trained,
    scaler: Scaler,
    calibration: tuple[Calibration, ...],
    mean_decides: bool,
    likelihood: ProperLikelihood | None,
    local: LocalPart | None = None,
) -> Model:
    """The result as plain arrays, with the arguments of ``summarise``."""
    rows, q, chains = trained.rows, trained.ascent.q, trained.ascent.chains
    return Model(
        scaler=scaler,
        kernel=rows.kernel,
        params={k: to_numpy(v) for k, v in rows.params.items()},
        Z=to_numpy(rows.Z),
        Lz=to_numpy(rows.Lz),
        m=to_numpy(q.m),
        R=to_numpy(q.R),
        calibration=calibration,
        n_classes=rows.n_classes,
        draws=None if chains is None else to_numpy(chains.merged()),
        centred=chains is not None and chains.centred,
        likelihood=likelihood,
        pooled=mean_decides,
        local=local,
    )


# --- The members of the family: likelihood and rival rule.


def crammer_singer(n_classes: int, rivals: str, seed: int, single: bool = False) -> Member:
    """Wistuba and Rawat (2018); two classes are one function of their difference (eq. 7.1).

    With sampled rivals the kernel is still learned against all of them.
    ``single`` is that of the rules.
    """
    if n_classes == 2:
        site: Likelihood = BinaryHinge() if rivals == "exact" else AugmentedBinaryHinge()
        likelihood = AugmentedBinaryHinge() if rivals == "mean" else BinaryHinge()
        return Member(likelihood, AllRivals(site, single), HingeMode())
    exact = MulticlassHinge()
    return Member(exact, RIVALS[rivals](exact, seed, single), CrammerSingerMode())


def committee(n_classes: int, single: bool = False) -> Member:
    """The hinge against all rivals and a softmax, each with functions of its own (eq. 11.1)."""
    hinge = BinaryHinge() if n_classes == 2 else MulticlassHinge()
    return with_likelihood(Committee((hinge, Softmax())), single=single)


def binary(expectation: str, single: bool = False) -> Member:
    """Wenzel et al. (2017): "augmented" is theirs, "exact" the expectation it bounds (eqs. 2.3, 4.3)."""
    return with_likelihood(_binary(expectation), HingeMode(), single)


def one_vs_rest(expectation: str, single: bool = False) -> Member:
    """A binary model for every class, all in one computation (eq. 8.1)."""
    return with_likelihood(OneVsRest(_binary(expectation)), HingeMode(), single)


def svgp(likelihood: str | Likelihood, n_classes: int) -> Member:
    """Hensman et al. (2015): any likelihood, by name or as an object, in exact expectation (section 8).

    Raises
    ------
    ValueError
        If it describes fewer classes than there are.
    """
    found = resolve_likelihood(likelihood)
    if n_classes > 2 and found.n_latents(n_classes) == 1:
        name = repr(likelihood) if isinstance(likelihood, str) else type(found).__name__
        raise ValueError(
            f"likelihood={name} has one latent function for two classes, and y holds {n_classes}"
        )
    return with_likelihood(found)


def own_probabilities(member: Member) -> ProperLikelihood | None:
    """The likelihood, if it is a distribution over classes."""
    return member.likelihood if isinstance(member.likelihood, ProperLikelihood) else None


def with_likelihood(
    likelihood: Likelihood, mode: PointLikelihood | None = None, single: bool = False
) -> Member:
    """Any likelihood in exact expectation, and at points if its mode is known."""
    return Member(likelihood, AllRivals(likelihood, single), mode)


def _binary(expectation: str) -> Likelihood:
    return BinaryHinge() if expectation == "exact" else AugmentedBinaryHinge()
