"""Kernels compiled to numpy: parameters and inducing points are fixed, and what depends on them precomputed.

Each form has a constructor ``of`` from the parameters of a kernel, Z of shape
(P, D), a factor on the covariances, and the precision of the results.

Profiled at one row, where numpy spends a microsecond a call whatever it does:
few calls count more than few flops. In batches exponentials count, and single
precision halves them. Distances go through double precision all the same:
they are differences of large numbers, and cheap beside the exponentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class NotRegisteredError(LookupError):
    """A predictor needs something of the user's own that is not registered in this process."""


class Brief:
    """Base of dataclasses made with ``repr=False``: their arrays are shown by type and shape, on one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = (f"{f.name}={_brief(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} of shape {value.shape}>"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_brief(part)}' for key, part in value.items())}}}"
    return repr(value)


# OpenBLAS distributes larger products over its own threads, which would compete
# with ours, one for each block of rows. Measured on one core, pieces of sixteen
# rows are as fast as one product (112 against 99 GFlop/s at 256 rows, P = 128,
# single precision).
_MOST_MULTIPLICATIONS = 2**18
_FEWEST_ROWS = 8


def product(A: Array, B: Array) -> Array:
    """A B for many rows A (n, K) and a small matrix B (K, M), on the calling thread."""
    n, K = A.shape
    size = _MOST_MULTIPLICATIONS // max(1, B.size)
    if n <= size or size < _FEWEST_ROWS:
        return A @ B
    whole = n - n % size
    out = np.empty((n, B.shape[1]), np.result_type(A, B))
    np.matmul(A[:whole].reshape(-1, size, K), B, out=out[:whole].reshape(-1, size, B.shape[1]))
    if whole < n:
        np.matmul(A[whole:], B, out=out[whole:])
    return out


# Logarithms of covariances are clipped here. In single precision what is smaller is
# negligible, and numbers below the smallest normal one would be slow.
_LEAST_LOG = {"float32": -80.0, "float64": -1e15}
# Beyond it an exponential is negligible in either precision, and slow in single where it is no normal number.
_MOST_LOG = 80.0
# Scaled values and squared distances end here: no square of one overflows in single precision.
_LARGEST = 1e15
# Numbers of features × rows × P treated at once: they stay in the cache.
_CHUNK_NUMBERS = 32_000


class CompiledKernel(Protocol):
    """Covariances of standardised rows U, shape (n, D) in double precision, with the inducing points."""

    def cross(self, U: Array) -> Array:
        """Shape (n, P), an array of the caller's own, in the precision of the predictor."""
        ...

    def diag(self, U: Array) -> Array:
        """Variances of the rows, shape (n,) or (), in double precision."""
        ...


@dataclass(frozen=True, repr=False)
class DistanceTerm(Brief):
    r"""A kernel of the scaled distance, with :math:`-r^2 / 2 = u^\top A + b - u^2 g / 2`.

    Attributes
    ----------
    name : str
        Of its profile, in ``PROFILES``.
    A, b, g : ndarray of shape (D, P), (P,) and (D,)
    log_variance : float
    dtype : str
    params : dict of str to ndarray
        What else its profile needs.
    """

    name: str
    A: Array
    b: Array
    g: Array
    log_variance: float
    dtype: str
    params: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in PROFILES:
            raise NotRegisteredError(
                f"the kernel profile {self.name!r}, which is not in PROFILES here: import the module that "
                "adds it"
            )

    @classmethod
    def of(cls, name: str, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> DistanceTerm:
        """From ``log_length_scale``, shape (D,) or (1,), ``log_variance``, and what the profile needs."""
        others = dict(params)
        g = np.exp(-2.0 * others.pop("log_length_scale")) * np.ones(Z.shape[1])
        log_variance = float(others.pop("log_variance")) + np.log(factor)
        A, b = np.ascontiguousarray((Z * g).T), -0.5 * np.square(Z) @ g
        return cls(name, A, b, g, log_variance, dtype, others)

    def cross(self, U: Array) -> Array:
        half = product(U, self.A)
        half += self.b
        half -= 0.5 * (np.square(U) @ self.g)[:, None]
        return PROFILES[self.name](half, self)

    def diag(self, U: Array) -> Array:
        return np.asarray(np.exp(self.log_variance))


def _rbf(half: Array, term: DistanceTerm) -> Array:
    half += term.log_variance
    k = np.clip(half, _LEAST_LOG[term.dtype], term.log_variance, out=half)
    k = k.astype(term.dtype, copy=False)
    return np.exp(k, out=k)


def _matern(half: Array, term: DistanceTerm, twice: bool) -> Array:
    r2 = np.clip(half, -_LARGEST, 0.0, out=half).astype(term.dtype, copy=False)
    r2 *= -10.0 if twice else -6.0
    r = np.sqrt(r2)
    k = np.exp(-r)
    r += 1.0
    if twice:
        r2 *= 1.0 / 3.0
        r += r2
    k *= r
    k *= np.exp(term.log_variance, dtype=k.dtype)
    return k


PROFILES: dict[str, Callable[[Array, DistanceTerm], Array]] = {
    "rbf": _rbf,
    "matern32": partial(_matern, twice=False),
    "matern52": partial(_matern, twice=True),
}
"""Covariances in the precision of a term, by name, from -r^2 / 2 in double precision.

That may be a little above zero by rounding, and may be overwritten. A kernel adds its own from its own file.
"""


# The largest share of a column in the ANOVA kernel: a factor of zero would have no logarithm.
MOST_ALONE = 1.0 - 1e-6


@dataclass(frozen=True, repr=False)
class FactorsOfColumns(Brief):
    r"""The ANOVA kernel, :math:`\sigma^2 \prod_d (1 + b_d ((1 + u_d) e^{-u_d} - 1))`, u = |x c - v|.

    Attributes
    ----------
    scale : ndarray of shape (D,)
        c.
    V : ndarray of shape (D, 1, P)
    share : ndarray of shape (D, 1, 1)
        b.
    variance : float
    """

    scale: Array
    V: Array
    share: Array
    variance: float

    @classmethod
    def of(cls, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> FactorsOfColumns:
        """From ``log_variance``, ``logits`` and ``log_length_scale``."""
        variance = factor * float(np.exp(params["log_variance"]))
        scale = np.sqrt(3.0) * np.exp(-params["log_length_scale"])
        share = np.minimum(1.0 / (1.0 + np.exp(-params["logits"])), MOST_ALONE)
        V = np.ascontiguousarray((Z * scale).T[:, None, :], dtype=dtype)
        return cls(scale, V, share.astype(dtype)[:, None, None], variance)

    def cross(self, U: Array) -> Array:
        u = np.clip(U * self.scale, -_LARGEST, _LARGEST).astype(self.V.dtype, copy=False).T[:, :, None]
        D, _, P = self.V.shape
        size = max(1, _CHUNK_NUMBERS // (P * U.shape[0]))
        K = np.full((U.shape[0], P), self.variance, self.V.dtype)
        for start in range(0, D, size):
            part = slice(start, start + size)
            E = u[part] - self.V[part]
            np.abs(E, out=E)
            np.minimum(E, _MOST_LOG, out=E)
            falling = np.exp(-E)
            E += 1.0
            E *= falling
            E -= 1.0
            E *= self.share[part]
            E += 1.0
            K *= E[0] if E.shape[0] == 1 else np.multiply.reduce(E, 0)
        return K

    def diag(self, U: Array) -> Array:
        return np.asarray(self.variance)


@dataclass(frozen=True, repr=False)
class LinearTerm(Brief):
    """Linear functions with an intercept.

    Attributes
    ----------
    A : ndarray of shape (D, P)
        Inducing points times the variances of the slopes.
    slope : ndarray of shape (D,)
    bias : float
    dtype : str
    """

    A: Array
    slope: Array
    bias: float
    dtype: str

    @classmethod
    def of(cls, log_slope: Array, log_bias: Array | None, Z: Array, factor: float, dtype: str) -> LinearTerm:
        """From variances of the slopes, shape (D,), (1,) or (), and of the intercept, if there is one."""
        slope = factor * np.exp(log_slope) * np.ones(Z.shape[1])
        bias = 0.0 if log_bias is None else factor * float(np.exp(log_bias))
        return cls(np.ascontiguousarray((Z * slope).T), slope, bias, dtype)

    def cross(self, U: Array) -> Array:
        k = product(U, self.A)
        k += self.bias
        return k.astype(self.dtype, copy=False)

    def diag(self, U: Array) -> Array:
        return self.bias + np.square(U) @ self.slope


@dataclass(frozen=True)
class ConstantTerm:
    """The same covariance everywhere.

    Attributes
    ----------
    variance : float
    n_inducing : int
    dtype : str
    """

    variance: float
    n_inducing: int
    dtype: str

    @classmethod
    def of(cls, log_variance: Array, Z: Array, factor: float, dtype: str) -> ConstantTerm:
        return cls(factor * float(np.exp(log_variance)), Z.shape[0], dtype)

    def cross(self, U: Array) -> Array:
        return np.full((U.shape[0], self.n_inducing), self.variance, self.dtype)

    def diag(self, U: Array) -> Array:
        return np.asarray(self.variance)


@dataclass(frozen=True, repr=False)
class FactorsOfBlocks(Brief):
    """The ANOVA kernel with nominal columns: numbers first, then blocks of indicators (eq. 12.2).

    Attributes
    ----------
    numbers : FactorsOfColumns or ConstantTerm
        The latter where there are no numbers.
    starts : ndarray of int, shape (G + 1,)
        Where blocks begin, and where the last one ends.
    slope, offset : ndarray of shape (G,)
        Of the factor of each block in the product of indicators.
    Z : ndarray of shape (P, columns of all blocks)
    """

    numbers: FactorsOfColumns | ConstantTerm
    starts: Array
    slope: Array
    offset: Array
    Z: Array

    def cross(self, U: Array) -> Array:
        n = int(self.starts[0])
        K = self.numbers.cross(U[:, :n])
        for start, end, slope, offset in self._blocks():
            factor = product(U[:, start:end], slope * self.Z[:, start - n : end - n].T)
            factor += offset
            K *= factor.astype(K.dtype, copy=False)
        return K

    def diag(self, U: Array) -> Array:
        variance = np.broadcast_to(self.numbers.diag(U), len(U)).copy()
        for start, end, slope, offset in self._blocks():
            variance *= offset + slope * np.square(U[:, start:end]).sum(1)
        return variance

    def _blocks(self) -> Iterator[tuple[int, int, float, float]]:
        return zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), self.slope, self.offset, strict=True)


@dataclass(frozen=True)
class SumOfTerms:
    """A sum of kernels."""

    terms: tuple[CompiledKernel, ...]

    def cross(self, U: Array) -> Array:
        return reduce(np.ndarray.__iadd__, (t.cross(U) for t in self.terms))

    def diag(self, U: Array) -> Array:
        return reduce(np.add, (t.diag(U) for t in self.terms))


@dataclass(frozen=True)
class ProductOfTerms:
    """A product of kernels."""

    terms: tuple[CompiledKernel, ...]

    def cross(self, U: Array) -> Array:
        return reduce(np.ndarray.__imul__, (t.cross(U) for t in self.terms))

    def diag(self, U: Array) -> Array:
        return reduce(np.multiply, (t.diag(U) for t in self.terms))


@dataclass(frozen=True, repr=False)
class TorchTerm(Brief):
    """A kernel without a compiled form: evaluated through torch, in double precision.

    Attributes
    ----------
    kernel : Kernel
    params : dict of str to ndarray
    Z : ndarray of shape (P, D)
    factor : float
        On its covariances.
    dtype : str
    """

    kernel: Any
    params: dict[str, Array]
    Z: Array
    factor: float
    dtype: str

    def cross(self, U: Array) -> Array:
        import torch

        with torch.no_grad():
            K = self.kernel.cross(self._params(), torch.tensor(U), torch.tensor(self.Z))
        return (self.factor * K.numpy()).astype(self.dtype, copy=False)

    def diag(self, U: Array) -> Array:
        import torch

        with torch.no_grad():
            return self.factor * self.kernel.diag(self._params(), torch.tensor(U)).numpy()

    def _params(self) -> dict[str, Any]:
        import torch

        return {name: torch.tensor(value) for name, value in self.params.items()}
