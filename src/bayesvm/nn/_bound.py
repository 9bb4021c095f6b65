"""The rows' part of a head's bound: whitened features, rivals, and row terms with sites and gradients.

In the order in which a step goes through it: features of the network become
whitened features (eq. 9.1), every row gets a rival (eqs. 4.4, 9.5), and the
two classes it then touches give its term of the bound (eqs. 2.3, 3.2, 9.4).
Nothing here waits for the device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayesvm._core.features import Features
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.sites import dense_statistics

# Relative to the mean of the diagonal. Features in single precision are not
# known better than this; in double precision the factorisation then cannot fail.
JITTER = 1e-6


class Whitened(NamedTuple):
    """Whitened features of rows (eq. 9.1).

    Attributes
    ----------
    A : Tensor of shape (N, P)
    residual : Tensor of shape (N,)
    diag : Tensor of shape (N,)
        Prior variances of the rows, :math:`k(x_n, x_n)`.
    """

    A: Tensor
    residual: Tensor
    diag: Tensor

    @property
    def features(self) -> Features:
        """In the form that the rest of the library knows."""
        return Features(self.A, self.residual)


class _InverseFactor(torch.autograd.Function):
    r"""M with :math:`M K M^\top = I`, lower triangular, and its derivative in closed form (eq. 9.2)."""

    @staticmethod
    def forward(ctx: Any, K: Tensor) -> Tensor:
        eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        shift = JITTER * K.diagonal().mean()
        # With the jitter only what is not finite can fail. It stays so, and the head
        # reports it; asking here would wait for the device.
        L, _ = torch.linalg.cholesky_ex(torch.addcmul(K, eye, shift))
        M = torch.linalg.solve_triangular(L, eye, upper=False)
        ctx.save_for_backward(M)
        return M

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (M,) = ctx.saved_tensors
        inner = (grads[0] @ M.mT).tril()
        inner = inner - torch.diag_embed(0.5 * inner.diagonal())
        return -(M.mT @ inner @ M)


class _Whitening(torch.autograd.Function):
    """Whitened features and what they leave unexplained; fewer kernels on the way back (eq. 9.1)."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, M: Tensor, diag: Tensor) -> tuple[Tensor, Tensor]:
        A = K @ M.mT
        residual = (diag - torch.linalg.vecdot(A, A)).clamp_min_(0.0)
        ctx.save_for_backward(A, residual, K, M)
        return A, residual

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        A, residual, K, M = ctx.saved_tensors
        by_diag = grads[1] * (residual > 0)
        by_A = torch.addcmul(grads[0], A, by_diag[:, None], value=-2.0)
        return by_A @ M, by_A.mT @ K, by_diag


def inverse_factor(kernel: Kernel, params: Params, Z: Tensor) -> Tensor:
    r"""Inverse of the Cholesky factor of :math:`K_{ZZ}`, always in double precision (eq. 9.2).

    Measured with points on a plane, as trained features are nearly: in single
    precision the whitened features are fifty times less exact (docs/nn.md).
    """
    Z = Z.double()
    # The same numbers under another name: torch.compile refuses an input given twice.
    K = kernel.cross({k: v.double() for k, v in params.items()}, Z, Z.view_as(Z))
    return _InverseFactor.apply(K)  # type: ignore[no-untyped-call]


def whitened(kernel: Kernel, params: Params, Z: Tensor, X: Tensor, M: Tensor) -> Whitened:
    """Whitened features of rows, given the inverse factor of K_ZZ; differentiable in all inputs (eq. 9.1)."""
    diag = kernel.diag(params, X)
    A, residual = _Whitening.apply(kernel.cross(params, X, Z), M, diag)  # type: ignore[no-untyped-call]
    return Whitened(A, residual, diag)


# --- Rivals.

# Length of the table of noise: a power of two, so that a bit mask takes the place of a division.
_SIZE = 2**17
# Whole functions that rows share where classes are many.
N_FUNCTIONS = 32


def noise_table(seed: int) -> Tensor:
    """Standard normal numbers that every use of ``normals`` takes a stretch of."""
    return torch.randn(_SIZE, generator=torch.Generator().manual_seed(seed))


def normals(table: Tensor, step: Tensor, first: int, count: int, width: int) -> Tensor:
    """Standard normal numbers for keys ``first .. first + count - 1`` in one step, shape (count, width).

    A generator would give a row other numbers when its batch is split, and
    its state would have to travel to other processes. Here step and key are
    hashed to a place in a table, on the device.
    """
    key = torch.arange(first, first + count, device=table.device) + (step << 24)
    place = ((key * 0x1E3779B97F4A7C15) >> 33)[:, None] + torch.arange(width, device=table.device)
    return table[place & (_SIZE - 1)]


class Draw(NamedTuple):
    """What makes the random choices of a batch.

    Attributes
    ----------
    table : Tensor
    step : Tensor of shape ()
    first : int
        Place of the first row in the whole batch, over parts and processes.
    noise : Tensor of shape (N, C) or None
        The normal numbers of its rows, if they were made beforehand.
    """

    table: Tensor
    step: Tensor
    first: int
    noise: Tensor | None = None

    def normals(self, count: int, width: int) -> Tensor:
        """Those of ``count`` rows, shape (count, width)."""
        if self.noise is not None and self.noise.shape == (count, width):
            return self.noise
        return normals(self.table, self.step, self.first, count, width)


def _best_other(f: Tensor, y: Tensor) -> Tensor:
    return f.scatter(1, y[:, None], -math.inf).argmax(1)


def rival_of_moments(F: Tensor, s2: Tensor | None, y: Tensor, draw: Draw) -> Tensor:
    """The largest of independent draws from a row's latents; without variances of the means (eq. 9.5)."""
    if s2 is None:
        return _best_other(F, y)
    noise = draw.normals(*F.shape)
    return _best_other(torch.addcmul(F, s2.clamp_min(0.0).sqrt(), noise.to(F.dtype)), y)


def drawn_functions(m: Tensor, root: Tensor, draw: Draw, sampled: bool) -> Tensor:
    r"""Draws :math:`m + Q^\top \varepsilon` from q of classes, (C, functions, P); or the means, (C, 1, P)."""
    functions = m[:, None, :]
    if not sampled:
        return functions
    C, P = m.shape
    # Keys from here on are those of classes: no batch has as many rows.
    noise = normals(draw.table, draw.step, 2**23, C, N_FUNCTIONS * P).view(C, N_FUNCTIONS, P)
    return functions + noise.to(root.dtype) @ root


def rival_of_functions(functions: Tensor, features: Features, y: Tensor, draw: Draw) -> Tensor:
    """The winner of the function that a row is dealt, by its place in the batch (eq. 4.4).

    Parameters
    ----------
    functions : Tensor of shape (C, functions, P)
    features : Features
    y : Tensor of shape (N,)
    draw : Draw
    """
    A, residual = features
    C, n, P = functions.shape
    N = A.shape[0]
    if n == 1:  # the means
        return _best_other(A @ functions[:, 0].mT, y)
    before = draw.first % n
    padded = torch.nn.functional.pad(A, (0, 0, before, -(before + N) % n))
    dealt = padded.view(-1, n, P).transpose(0, 1)
    f = torch.bmm(dealt, functions.permute(1, 2, 0)).transpose(0, 1).reshape(-1, C)[before : before + N]
    noise = draw.normals(N, C).to(f.dtype)
    return _best_other(torch.addcmul(f, residual.sqrt()[:, None], noise), y)


# --- Row terms.

# Up to this many numbers in the covariances of all classes, all of them are
# treated at once. Measured on a CPU, batch 128, 64 points: 2.9 against 4.8 ms
# with 10 classes, 10 against 11 with 100, 38 against 32 with 250.
DENSE_NUMBERS = 2**20
# Numbers that a prediction may have in memory at once.
_BLOCK_NUMBERS = 2**26


def few_classes(n_classes: int, n_inducing: int) -> bool:
    """Whether a step treats all classes at once rather than those that its rows touch."""
    return n_classes * n_inducing**2 <= DENSE_NUMBERS


class Touched(NamedTuple):
    """What rows need to know about the two classes they touch, own class first.

    Attributes
    ----------
    classes : Tensor of shape (N, 2)
    m : Tensor of shape (N, 2, P)
        Means of these classes.
    SA : Tensor of shape (N, 2, P)
        Products :math:`S_j a_n`.
    F, V : Tensor of shape (N, 2)
        Latent means and explained variances.
    """

    classes: Tensor
    m: Tensor
    SA: Tensor
    F: Tensor
    V: Tensor


class PairSites(NamedTuple):
    """Sites of rows on the two classes they touch, for one unit of weight (eq. 3.2).

    Attributes
    ----------
    A : Tensor of shape (N, P)
    classes : Tensor of shape (N, 2)
    W, G : Tensor of shape (N, 2)
    """

    A: Tensor
    classes: Tensor
    W: Tensor
    G: Tensor


class BatchTerms(NamedTuple):
    """Row terms of a batch, with gradient, and without gradient what sites are made of.

    Attributes
    ----------
    value : Tensor of shape (N,)
    A : Tensor of shape (N, P)
    rows : Touched
    w, slope : Tensor of shape (N,)
        Curvature, and slope in the mean of the own class, of which that in the rival's is the negative.
    """

    value: Tensor
    A: Tensor
    rows: Touched
    w: Tensor
    slope: Tensor

    @property
    def lead(self) -> Tensor:
        """Mean of the own class minus that of the rival, shape (N,)."""
        return self.rows.F[:, 0] - self.rows.F[:, 1]

    def sites(self) -> PairSites:
        """Sites on the two classes; not part of the value, so nothing need wait for them (eq. 3.2)."""
        slopes = torch.stack([self.slope, -self.slope], 1)
        W = self.w[:, None].expand(-1, 2)
        return PairSites(self.A, self.rows.classes, W, torch.addcmul(slopes, W, self.rows.F))


Moments = tuple[Tensor, Tensor, Tensor]


def all_moments(A: Tensor, m: Tensor, S: Tensor) -> Moments:
    """Latent means (N, C), explained variances (N, C), and S_j a_n, (N, C, P), of all classes (eq. 1.4)."""
    N, P = A.shape
    C = m.shape[0]
    SA = (A @ S.reshape(C * P, P).mT).view(N, C, P)
    return A @ m.mT, torch.linalg.vecdot(SA, A[:, None, :]), SA


def predicted(A: Tensor, m: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """Latent means and explained variances of all classes, a few classes at a time where they are many."""
    size = max(1, _BLOCK_NUMBERS // A.numel())
    parts = [all_moments(A, *part)[:2] for part in zip(m.split(size), S.split(size), strict=True)]
    F, V = (torch.cat(columns, 1) for columns in zip(*parts, strict=True))
    return F, V


def touched(A: Tensor, m: Tensor, S: Tensor, classes: Tensor, known: Moments | None = None) -> Touched:
    """The two classes of every row; ``known`` are the moments of all classes, where there are some."""
    m = m[classes]
    if known is not None:
        F, V, SA = known
        SA = SA.gather(1, classes[:, :, None].expand(m.shape))
        return Touched(classes, m, SA, F.gather(1, classes), V.gather(1, classes))
    SA = torch.matmul(S[classes], A[:, None, :, None])[..., 0]
    return Touched(classes, m, SA, *(torch.linalg.vecdot(t, A[:, None, :]) for t in (m, SA)))


class _PairValue(torch.autograd.Function):
    r"""The bound of rows; all it needs for its gradient is known once it is.

    This is the core's ``pair_bound`` (tests hold them equal) with the gradient in
    features, residuals, m and S, in as few operations as possible: on a GPU each
    costs the same, however small. With :math:`b = 1 + F_t - F_y` and
    :math:`w = A^{-1/2}` the bound is :math:`-(A w + b)` and its slope in
    :math:`F_y` is :math:`w b + 1`.
    """

    @staticmethod
    def forward(
        ctx: Any, A: Tensor, residual: Tensor, m: Tensor, S: Tensor | None, *rows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        classes, m2, SA, F, V = rows
        # Rounding may leave less than nothing.
        s2 = (V + residual[:, None]).clamp_min_(10.0 * torch.finfo(A.dtype).eps).sum(1)
        b = 1.0 - (F[:, 0] - F[:, 1])
        square = torch.addcmul(s2, b, b)
        w = square.rsqrt()
        value = torch.addcmul(b, square, w).neg_()
        slope = (w * b).add_(1.0)
        pulled = SA.sum(1).mul_(-w[:, None])
        by_A = pulled.addcmul_(slope[:, None], m2[:, 0] - m2[:, 1])
        ctx.save_for_backward(A, by_A, w, slope, classes)
        ctx.n_classes = m.shape[0]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(w, slope)
        return value, w, slope

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g = grads[0]
        if g is None:
            return (None,) * 9
        A, by_A, w, slope, classes = ctx.saved_tensors
        by_m = by_S = None
        if ctx.needs_input_grad[2] or ctx.needs_input_grad[3]:
            weight = (g * w)[:, None].expand(-1, 2)
            pull = g * slope
            sites = PairSites(A, classes, weight, torch.stack([pull, -pull], 1))
            by_S, by_m = pair_sums(sites, ctx.n_classes)
            by_S = -0.5 * by_S
        return g[:, None] * by_A, -g * w, by_m, by_S, *((None,) * 5)


def pair_terms(features: Features, m: Tensor, S: Tensor | None, rows: Touched) -> BatchTerms:
    """Row terms -(sqrt(A) + b), differentiable in features, residuals, m and S if given (eqs. 2.3, 9.4)."""
    A, residual = features
    rows = Touched(*(t.detach() for t in rows))
    value, w, slope = _PairValue.apply(A, residual, m, S, *rows)  # type: ignore[no-untyped-call]
    return BatchTerms(value, A.detach(), rows, w, slope)


def pair_sums(sites: PairSites, n_classes: int) -> tuple[Tensor, Tensor]:
    """Sums over rows of W a a^T, shape (C, P, P), and of G a, shape (C, P), over all classes (eq. 3.1)."""
    A, classes, W, G = sites
    N, P = A.shape
    if few_classes(n_classes, P):
        both, where = torch.stack([W, G]), classes.expand(2, -1, -1)
        W, G = A.new_zeros(2, N, n_classes).scatter(2, where, both).unbind()
        return dense_statistics(A, W, G)
    precision, linear = A.new_zeros(n_classes, P, P), A.new_zeros(n_classes, P)
    return add_pairs(sites, precision, linear, 1.0)


def add_pairs(
    sites: PairSites, precision: Tensor, linear: Tensor, scale: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Add the sums in place, scaled; only the classes that rows touch cost P^2 numbers each."""
    A, classes, W, G = sites
    P = A.shape[1]
    index = classes.reshape(-1)
    scaled = (scale * W)[:, :, None] * A[:, None, :]
    precision.index_add_(0, index, (scaled[..., None] * A[:, None, None, :]).view(-1, P, P))
    linear.index_add_(0, index, ((scale * G)[:, :, None] * A[:, None, :]).view(-1, P))
    return precision, linear
