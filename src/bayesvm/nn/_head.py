"""The Bayesian SVM as the last layer of a network (section 9)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from bayesvm._core.elbo import elbo
from bayesvm._core.kernels import RBF, Params
from bayesvm._core.sites import ridge_statistics, ridge_target
from bayesvm.nn._bound import (
    BatchTerms,
    Draw,
    PairSites,
    Whitened,
    few_classes,
    inverse_factor,
    noise_table,
    normals,
    predicted,
    whitened,
)
from bayesvm.nn._devices import SideStream, from_all, may_wait, rank_and_size
from bayesvm.nn._output import HeadOutput
from bayesvm.nn._posterior import (
    GradientPosterior,
    LazyPosterior,
    NaturalPosterior,
    Pending,
    Posterior,
    PosteriorState,
)
from bayesvm.nn._recipe import HeadError

_NATURAL_TEMPERATURE = 2.0
# First length scale, at least, in distances of two normalised rows that have
# nothing to do with each other. An untrained network of many layers may give
# nearly the same features to all rows; its first steps then carry them away
# from all inducing points, many short length scales far.
_LEAST_LENGTH = 0.5

# For the start of inducing points and length scale.
_LLOYD_STEPS = 5
_MOST_ROWS = 8192
_DISTANCE_ROWS = 1024

# Whether a head is stuck is seen from running means, which cost no waiting for the
# device. Weight of a step in them, and steps before they count.
_RATE = 0.02
_MANY_STEPS = 200
# Rows whose whitened features vary by less than this share of the prior
# variance look all alike to the head.
_NO_SPREAD = 1e-3
# Then at most this share of rows is ahead of a rival unless classes are very
# unequal; rows that are alike to rounding are alike whatever that share is.
_NEAR_CHANCE = 0.6
_NO_SPREAD_AT_ALL = 1e-6

_NOT_FINITE = (
    "the head met values that are not finite; q is unchanged. What to do: check the inputs for NaN; "
    "lower the learning rate or warm it up; clip gradients (torch.nn.utils.clip_grad_norm_); keep "
    "normalise=True; then go on from the last good checkpoint"
)


class Ready(NamedTuple):
    """The parts of a step that do not depend on its rows.

    Attributes
    ----------
    M : Tensor of shape (P, P)
        Inverse factor of the inducing points (eq. 9.2).
    q : Posterior or None
        None where only the classes that rows touch are looked at.
    noise : Tensor or None
        See ``Draw``.
    """

    M: Tensor
    q: Posterior | None
    noise: Tensor | None = None


class BayesianSVMHead(nn.Module):
    """A Bayesian SVM over the features of a network, in place of its last linear layer.

    Parameters
    ----------
    in_features, n_classes : int
    n_inducing : int
        Inducing points, shared by all classes.
    posterior : {"natural", "gradient"}
        How q is trained. "natural": by damped site steps inside ``loss`` in
        training mode, beside any optimiser for the rest; q is buffers, as the
        running statistics of a batch normalisation are. "gradient": by
        backpropagation, as in the paper; q is parameters.
    rivals : {"sampled", "mean"}
        Whether a row's rival is the winner of a posterior draw, or that of the means.
    normalise : bool
        Whether features are layer-normalised first (without parameters).
    damping : float
        Length of a natural step: about one over the number of batches that q
        remembers. With many classes these should hold some rows of each.
    kl_warmup : int
        Steps over which the weight of the KL rises to one.
    seed : int
        Of inducing points and rivals.

    Attributes
    ----------
    temperature : Tensor of shape ()
        Of class probabilities; see ``calibrate``.
    spread : Tensor of shape ()
        Factor on the latent variances in class probabilities; see ``calibrate``.

    Examples
    --------
    >>> import torch
    >>> from bayesvm.nn import BayesianSVMHead
    >>> _ = torch.manual_seed(0)
    >>> y = torch.arange(60) % 3
    >>> features = torch.randn(3, 8)[y] + 0.1 * torch.randn(60, 8)
    >>> head = BayesianSVMHead(8, 3, n_inducing=6)
    >>> for _ in range(30):
    ...     loss = head.loss(features, y, n_total=60)
    >>> output = head.eval()(features)
    >>> bool((output.predict() == y).all())
    True
    """

    temperature: Tensor
    spread: Tensor
    steps: Tensor
    vitals: Tensor
    broken: Tensor
    started: Tensor
    noise: Tensor

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        n_inducing: int = 64,
        *,
        posterior: str = "natural",
        rivals: str = "sampled",
        normalise: bool = True,
        damping: float = 0.05,
        kl_warmup: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check_arguments(in_features, n_classes, n_inducing, posterior, rivals, damping, kl_warmup)
        self.in_features, self.n_classes, self.n_inducing = in_features, n_classes, n_inducing
        self.normalise, self.damping, self.kl_warmup, self.seed = normalise, damping, kl_warmup, seed
        self.kernel = RBF(ard=False)
        generator = torch.Generator().manual_seed(seed)
        self.points = nn.Parameter(torch.randn(n_inducing, in_features, generator=generator))
        self.log_length_scale = nn.Parameter(torch.full((1,), 0.5 * math.log(2.0 * in_features)))
        self.log_variance = nn.Parameter(torch.zeros(()))
        sampled = rivals == "sampled"
        if posterior == "gradient":
            self.q: nn.Module = GradientPosterior(n_classes, n_inducing, sampled)
        elif few_classes(n_classes, n_inducing):
            self.q = NaturalPosterior(n_classes, n_inducing, sampled)
        else:
            self.q = LazyPosterior(n_classes, n_inducing, sampled)
        self.register_buffer("temperature", torch.tensor(_NATURAL_TEMPERATURE))
        self.register_buffer("spread", torch.ones(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("vitals", torch.zeros(3))
        self.register_buffer("broken", torch.zeros((), dtype=torch.bool))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))
        self.register_buffer("noise", noise_table(seed), persistent=False)
        self._is_started = False
        self._pending: list[Pending] = []
        self._collected = 0
        self._known: tuple[Tensor, int, tuple[Tensor, Tensor]] | None = None
        self._length = damping
        self._n_rows = 0
        self._side: SideStream | None = None

    @property
    def initialised(self) -> bool:
        """Whether inducing points and length scale come from data."""
        return self._is_started

    @torch.no_grad()
    def initialise(self, features: Tensor, y: Tensor | None = None) -> None:
        """Start inducing points and length scale, and with labels also q, from features of a first pass.

        The first training batch does this if it has not been done; more rows than a
        batch make a better start. With several processes, call it in all.

        Parameters
        ----------
        features : Tensor of shape (N, in_features)
        y : Tensor of shape (N,), optional
            Class indices.

        Raises
        ------
        HeadError
            If the features are not finite or all alike.
        """
        with self._precisely(features):
            X = from_all(self._inputs(features))
            length = _median_distance(X)
            if self.normalise:
                length = max(length, _LEAST_LENGTH * math.sqrt(2.0 * self.in_features))
            self.log_length_scale.fill_(math.log(length))
            self.points.copy_(_first_points(X, self.n_inducing, self.seed))
            if y is not None:
                A = whitened(self.kernel, self._params(), self.points, X, self._factor()).A
                target = ridge_target(from_all(y), self.n_classes, True, X)
                self._state.start(*ridge_statistics(A, target, A.new_ones(A.shape[0])))
            if isinstance(self.q, LazyPosterior):
                self.q.wake(self._draw(0))
        self.started.fill_(True)
        self._is_started = True
        self._forget_parts()

    def forward(self, features: Tensor) -> HeadOutput:
        """Mean and variance of every class's latent function at the rows (eq. 1.4).

        Raises
        ------
        HeadError
            In evaluation mode, if a result is not finite.
        """
        with self._precisely(features):
            A, residual, _ = self._whitened(features)
            F, V = predicted(A, *self._current())
            s2 = (V + residual[:, None]).clamp_min(10.0 * torch.finfo(V.dtype).eps)
        if not self.training and may_wait() and not bool(torch.isfinite(F.sum() + s2.sum())):
            raise HeadError(_NOT_FINITE)
        return HeadOutput(F, s2, self.temperature, self.spread)

    def loss(self, features: Tensor, y: Tensor, n_total: int, *, step: bool = True) -> Tensor:
        """Minus the bound of a minibatch, per row: of the size of a mean cross-entropy (eq. 9.3).

        In training mode with ``posterior="natural"`` this also moves q.

        Parameters
        ----------
        features : Tensor of shape (N, in_features)
        y : Tensor of shape (N,)
            Class indices.
        n_total : int
            Rows of the whole training set.
        step : bool
            False for all but the last part of a batch that is processed in
            parts (gradient accumulation): q moves once, after the last one.
        """
        if self.training and not self._is_started:
            self.initialise(features.detach(), y)
        ready = self._prepared() if self._side is None else self._side.joined(self._prepared)
        with self._precisely(features):
            rows = self._whitened(features, ready.M)
            first = self._place_of_first(y.shape[0])
            draw = self._draw(first, None if first else ready.noise)
            terms, q, kl = self._state.terms(rows.features, y, draw, ready.q)
            self._n_rows = y.shape[0]
            weight = self._kl_weight()
            likelihood = terms.value.mean()
            loss = -elbo(likelihood, kl / n_total, kl_weight=weight)
            self.last_likelihood = likelihood.detach()
            if self.training:
                learned = (rows, terms, q, loss, weight, n_total, step)
                with torch.no_grad():
                    if self._side is None:
                        self._learn(*learned)
                    else:
                        self._side.run(self._learn, ready, *learned)
        return loss

    @torch.no_grad()
    def settle(self, features: Tensor, y: Tensor, n_total: int, length: float) -> None:
        """Move q alone by a step of some length; see the function of the same name.

        Parameters
        ----------
        features, y, n_total : as for ``loss``
        length : float
            Instead of ``damping``.
        """
        mode, warmup = self.training, self.kl_warmup
        # The bound without a weight: under another one rows would not count alike.
        self._length, self.training, self.kl_warmup = length, True, 0
        try:
            self.loss(features, y, n_total)
        finally:
            self._length, self.training, self.kl_warmup = self.damping, mode, warmup

    @contextmanager
    def beside(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Around one step on a GPU: run work of the head beside that of the network.

        What does not depend on rows is done while the network computes
        features, and q moves while gradients go back through the network.
        At the end the current stream waits for the other one. Worth it where
        the step is recorded as a CUDA graph.

        Parameters
        ----------
        stream : torch.cuda.Stream
            Another one than the current one.

        Raises
        ------
        HeadError
            If the head has not been started: see ``initialise``.
        """
        if not self._is_started:
            raise HeadError("the head must be started before its work is put on a stream: call initialise()")
        self._side = SideStream(stream, self.points.device)
        try:
            with self._side.around(lambda: self._prepared(self._n_rows)):
                yield
        except BaseException:
            self._forget_parts()
            raise
        finally:
            self._side = None

    def kl(self) -> Tensor:
        """Divergence of q from the prior, summed over classes (eq. 1.5)."""
        return self._state.posterior().kl.sum()

    def check(self) -> None:
        """Raise if something went wrong since the last check (eq. 9.9); the only part of training that waits.

        Raises
        ------
        HeadError
            If numbers were not finite, or the head is stuck; the message says what to do.
        """
        if bool(self.broken):
            self.broken.fill_(False)
            raise HeadError(_NOT_FINITE)
        _diagnose(self.vitals, int(self.steps))

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"in_features={self.in_features}, n_classes={self.n_classes}, n_inducing={self.n_inducing}"

    def _learn(
        self,
        rows: Whitened,
        terms: BatchTerms,
        q: Posterior,
        loss: Tensor,
        weight: Tensor | float,
        n_total: int,
        step: bool,
    ) -> None:
        """Collect sites, and with ``step`` move q; a batch that is not finite moves nothing."""
        bad = ~torch.isfinite(loss)
        self.broken.logical_or_(bad)
        if loss.device.type == "cpu" and may_wait() and bool(self.broken):
            self._forget_parts()
            self.check()
        _measure(self.vitals, self.steps, rows, terms.lead)
        self._collected += terms.A.shape[0] * rank_and_size()[1]
        if not isinstance(self.q, GradientPosterior):
            A, classes, W, G = terms.sites()
            A, W, G = (t.masked_fill(bad, 0.0) for t in (A, W, G))
            self._pending.append(Pending(PairSites(*map(from_all, (A, classes, W, G))), q))
        if step:
            scale = n_total / self._collected
            self._state.advance(self._pending, scale, weight, self._draw(0), self._length)
            self._forget_parts()
            self.steps.add_(1)

    def _forget_parts(self) -> None:
        self._pending, self._collected = [], 0

    def _prepared(self, n_rows: int = 0) -> Ready:
        """The parts of a step that do not depend on its rows, and the noise of ``n_rows`` rows."""
        with self._precisely(self.points):
            noise = normals(self.noise, self.steps, 0, n_rows, self.n_classes) if n_rows else None
            return Ready(self._factor(), self._state.ready(), noise)

    def _whitened(self, features: Tensor, M: Tensor | None = None) -> Whitened:
        M = self._factor() if M is None else M
        return whitened(self.kernel, self._params(), self.points, self._inputs(features), M)

    def _factor(self) -> Tensor:
        return inverse_factor(self.kernel, self._params(), self.points).to(self.points.dtype)

    @property
    def _state(self) -> PosteriorState:
        return cast(PosteriorState, self.q)

    def _draw(self, first: int, noise: Tensor | None = None) -> Draw:
        return Draw(self.noise, self.steps, first, noise)

    def _place_of_first(self, n: int) -> int:
        """Place of this process's first row in the whole batch: part by part, then process by process."""
        rank, _ = rank_and_size()
        return self._collected + rank * n

    def _kl_weight(self) -> Tensor | float:
        if not self.kl_warmup:
            return 1.0
        return ((self.steps + 1).to(self.points.dtype) / self.kl_warmup).clamp_max(1.0)

    def _params(self) -> Params:
        return {"log_length_scale": self.log_length_scale, "log_variance": self.log_variance}

    def _inputs(self, features: Tensor) -> Tensor:
        X = features.to(self.points.dtype)
        return nn.functional.layer_norm(X, (self.in_features,)) if self.normalise else X

    def train(self, mode: bool = True) -> Self:
        """Set the mode; predictions after training factorise q anew: replayed graphs move it in place."""
        if mode or self.training:
            self._known = None
        return super().train(mode)

    def _current(self) -> tuple[Tensor, Tensor]:
        """Means and covariances for predictions; kept until q moves: many classes take long to factorise."""
        if isinstance(self.q, GradientPosterior) or not may_wait():
            q = self._state.posterior()
            return q.m, q.S
        excess = cast(Tensor, self.q.excess)
        if self._known is None or self._known[0] is not excess or self._known[1] != excess._version:
            with torch.no_grad():
                q = self._state.posterior()
                self._known = (excess, excess._version, (q.m, q.S))
        return self._known[2]

    def _precisely(self, features: Tensor) -> torch.autocast:
        """Outside of autocast: the head's products need all their digits."""
        return torch.autocast(features.device.type, enabled=False)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._is_started = bool(self.started)
        self._forget_parts()


def _check_arguments(
    in_features: int,
    n_classes: int,
    n_inducing: int,
    posterior: str,
    rivals: str,
    damping: float,
    kl_warmup: int,
) -> None:
    """Raise ValueError for invalid arguments."""
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    if in_features < 1 or n_inducing < 1:
        raise ValueError(f"in_features and n_inducing must be positive, got {in_features} and {n_inducing}")
    if posterior not in ("natural", "gradient"):
        raise ValueError(f'posterior must be "natural" or "gradient", got {posterior!r}')
    if rivals not in ("sampled", "mean"):
        raise ValueError(f'rivals must be "sampled" or "mean", got {rivals!r}')
    if not 0.0 < damping <= 1.0:
        raise ValueError(f"damping must be above 0 and at most 1, got {damping}")
    if kl_warmup < 0:
        raise ValueError(f"kl_warmup must not be negative, got {kl_warmup}")


def _first_points(X: Tensor, n_points: int, seed: int) -> Tensor:
    """Centres of a few steps of k-means, shape (P, D), on the device of the rows.

    Where rows are fewer than points, points between two random rows fill up.
    """
    generator = torch.Generator().manual_seed(seed)
    N = X.shape[0]
    if n_points > N:
        pairs = torch.randint(N, (2, n_points - N), generator=generator).to(X.device)
        share = torch.rand(n_points - N, 1, generator=generator).to(X)
        X = torch.cat([X, torch.lerp(X[pairs[0]], X[pairs[1]], share)])
    X = X[torch.randperm(X.shape[0], generator=generator)[:_MOST_ROWS].to(X.device)]
    Z = X[:n_points].clone()
    for _ in range(_LLOYD_STEPS if n_points < N else 0):
        nearest = torch.addmm(Z.square().sum(1), X, Z.mT, alpha=-2.0).argmin(1)
        count = X.new_zeros(n_points).index_add_(0, nearest, torch.ones_like(X[:, 0]))
        total = torch.zeros_like(Z).index_add_(0, nearest, X)
        Z = torch.where(count[:, None] > 0, total / count.clamp_min(1.0)[:, None], Z)
    return Z


def _median_distance(X: Tensor) -> float:
    """Median distance of two rows.

    Raises
    ------
    HeadError
        If features are not finite, or do not tell rows apart.
    """
    if X.shape[0] < 2:
        raise HeadError(
            "the head starts from the features of a first batch, and one row is not enough: pass more "
            "rows to initialise()"
        )
    median = float(torch.pdist(X[:_DISTANCE_ROWS].double()).median())
    if not math.isfinite(median):
        raise HeadError(
            "the network's features are not finite on the first rows: check the inputs (scaled? any NaN?) "
            "and the network's initialisation"
        )
    if median <= 1e-6 * max(1.0, float(X.abs().max())):
        raise HeadError(
            "the network gives (nearly) the same features to all of the first rows, so there is nothing to "
            "start from: check that inputs differ and that its last activation is not dead, or leave that "
            "activation out"
        )
    return median


def _measure(vitals: Tensor, step: Tensor, rows: Whitened, lead: Tensor) -> None:
    """Update running means of three shares: rows ahead of their rival, spread and size of their features."""
    A, residual, diag = rows
    centre = A.mean(0)
    left = residual.mean() / diag[0]  # the kernel is stationary
    spread = torch.dot(centre, centre) / diag[0]
    now = torch.stack([(lead > 0).to(A.dtype).mean(), 1.0 - left - spread, 1.0 - left])
    vitals.lerp_(now.nan_to_num(), (step + 1.0).reciprocal().clamp_min(_RATE))


def _diagnose(vitals: Tensor, step: int) -> None:
    """Raise if the head is stuck.

    Raises
    ------
    HeadError
        With what to do.
    """
    ahead, spread, square = vitals.tolist()
    alike = spread < _NO_SPREAD_AT_ALL or (spread < _NO_SPREAD and ahead < _NEAR_CHANCE)
    if step < _MANY_STEPS or not alike:
        return
    if square < 10 * _NO_SPREAD:
        why = (
            "the features lie far from all inducing points, where the kernel and its slopes vanish. Keep "
            "normalise=True, call initialise() with features of the network as it is now, or lower the rate"
        )
    else:
        why = (
            "all rows have the same features. Look for a dead activation before the head or a collapsed "
            "network; lower the rate or warm it up, and start again"
        )
    raise HeadError(f"the head is stuck: after {step} steps its rows are not told apart ({why})")
