"""Training with only a sample of the rows in memory: the kernel from the sample, q from all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import members_of
from bayesvm._fit import defaults
from bayesvm._fit.engine import Chunk, Engine
from bayesvm._fit.passes import Encoding, SampleSums
from bayesvm._fit.polish import polished
from bayesvm._fit.prepare import Standardise, WithoutEach
from bayesvm._fit.rows import Scaler
from bayesvm._fit.sweeps import StreamedRows, streamed
from bayesvm._fit.train import Options, Population, Trained, infer, train, with_likelihood
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import Member, Sites, Task
from bayesvm._model import Model
from bayesvm._progress import Progress, Step

FloatArray = npt.NDArray[np.floating]


def train_on_chunks(
    engine: Engine[Chunk],
    encoding: Encoding,
    sample: SampleSums,
    scaler: Scaler,
    n_rows: int,
    options: Options,
    start: Model | None,
    progress: Progress,
) -> Trained:
    """Kernel and inducing points from the sample, q from all rows.

    The result holds the sample and its sites.

    Parameters
    ----------
    engine, encoding, sample : the rows, how to read them, what the second pass gave
    scaler : Scaler
        Usually that of the sample.
    n_rows : int
        Rows of positive weight.
    options, start, progress : as for ``train.train``
    """
    standardise = Standardise(encoding, scaler, options.device, options.dtype)

    def over(rows: TrainingRows) -> StreamedRows:
        return streamed(
            engine, standardise, rows, n_rows, sample.moments.weight, sample.checksum, engine.may_keep
        )

    population = Population(n_rows, sample.moments.weight, over)
    n_classes = len(encoding.classes)
    if options.hyperparameters != "elbo":
        return train(sample.rows, scaler, n_classes, options, start, progress, population)

    def learning(step: Step) -> bool:
        return step.stage == "kernel" and progress(step)

    # The bound is available over all rows, leave-one-out only over rows in memory. Where q has not
    # converged, the gradient at a fixed q is misleading.
    first = train(sample.rows, scaler, n_classes, options, start, learning, population)
    if first.interrupted:
        return first
    natural, rule, J = first.ascent.natural, options.member.rule, 0
    if first.n_members > 1:  # the kernel is learned under the last member of a committee
        rule = with_likelihood(members_of(options.member.likelihood)[-1]).rule
        J = natural.linear.shape[0] // first.n_members
    params, last, interrupted = polished(
        engine,
        standardise,
        first.rows,
        rule,
        Natural(*(a[-J:] for a in natural)),
        n_rows,
        defaults.POLISH_STEPS,
        defaults.POLISH_RATE,
    )
    with torch.no_grad():
        rows = replace(first.rows, params=params)
        base = Natural.prior(natural.linear.shape[0], rows.Lz)
        natural = Natural(*(torch.cat([a[:-J], b]) if J else b for a, b in zip(natural, last, strict=True)))
    settings = replace(options.settings, max_iter=1) if interrupted else options.settings
    task = Task(rows, options.member, natural, base, settings)
    return infer(options.inference, task, first.kernel_curve, interrupted, None, progress, over(rows))


def left_out(
    engine: Engine[Chunk],
    encoding: Encoding,
    trained: Trained,
    options: Options,
    model: Model,
) -> FloatArray:
    """Leave-one-out probabilities of all rows in their order, shape (N, C): one more pass.

    With sampled rivals the sites are those of one more sweep, not the
    averages that those of the sample are.
    """
    none = trained.ascent.q.m.new_zeros(0, 0)
    work = WithoutEach(
        Standardise(encoding, model.scaler, options.device, options.dtype),
        trained.rows.head(1),
        trained.ascent._replace(sites=Sites(None, none, none), curve=[]),
        options.member.rule,
        trained.ascent.n_iter + 1,
        model.calibration,
        model.likelihood,
    )
    return engine.total(work).proba()


def in_double(member: Member) -> Member:
    """The member with products in the precision of the rows.

    Sums of single precision depend on how rows are blocked, and so on
    chunks, by more than two fits to the same rows may differ.
    """
    rule = member.rule
    if isinstance(rule, (AllRivals, OneRival)):
        return replace(member, rule=replace(rule, single=False))
    return member
