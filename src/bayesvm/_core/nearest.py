"""Nearest neighbours: candidates from approximate products, chosen by exact distances."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Distances are resolved to this share of the typical one; closer ones are
# ties, broken by the order of the rows, so that rounding cannot choose neighbours.
_RESOLUTION = 1e-7
# Queries per pass, and queries and rows of one product, so that it stays in the
# cache. Preparing the rows does not pay for this many queries or fewer.
_QUERIES = 1024
_QUERIES_OF_PRODUCT = 96
_TILE = 4096
_VERY_FEW_QUERIES = 16
# Most numbers in a block of differences.
_DIFFERENCE_NUMBERS = 100_000
# Rows of a group, which is represented by its smallest product.
_GROUP = 64
# Squares of norms keep clear of the ends of single precision, which serves up to
# this error and this many candidates for each neighbour, on average.
_SAFE = 1e30
_LARGEST_ERROR = 0.01
_CANDIDATES = 4
# With more candidates, all rows are compared.
_MOST_CANDIDATES = 16


class Neighbours(NamedTuple):
    """The nearest rows of each query.

    Attributes
    ----------
    rows : Tensor of shape (M, K)
    d2 : Tensor of shape (M, K)
        Squared distances.
    """

    rows: Tensor
    d2: Tensor


def tie_step(typical: float) -> float:
    """Resolution below which squared distances count as ties, given a typical distance."""
    return _RESOLUTION * max(typical, torch.finfo(torch.float64).tiny ** 0.25) ** 2


def nearest(X: Tensor, queries: Tensor, k: int, typical: float) -> Neighbours:
    """The k nearest rows of X, shape (N, D), ties broken by their order.

    Parameters
    ----------
    X, queries : Tensor of shape (N, D) and (M, D)
        In double precision, about some middle: far from zero, norms cancel.
    k : int
    typical : float
        A typical distance, for telling ties.
    """
    M, k = queries.shape[0], min(k, X.shape[0])
    step = tie_step(typical)
    search = _search(X, queries, k, typical) if M > _VERY_FEW_QUERIES else None
    near = Neighbours(torch.empty(M, k, dtype=torch.int64, device=X.device), X.new_empty(M, k))
    for start in range(0, M, _QUERIES):
        some = slice(start, start + _QUERIES)
        if search is None:
            query, row = _from_all(X, queries[some], k, step)
        else:
            query, row = search.candidates(queries[some], step)
        near.rows[some], near.d2[some] = _decided(X, queries[some], query, row, k, step)
    return near


def _error(D: int, dtype: torch.dtype) -> float:
    r"""Squared distances from products are off by no more than this share of (\|x\| + \|q\|)^2."""
    return (D + 6) * torch.finfo(dtype).eps


def _search(X: Tensor, queries: Tensor, k: int, typical: float) -> _Search:
    """A search in single precision, if that leaves few candidates of some queries; else in double."""
    safe = typical**2 > 1 / _SAFE and float(X.square().sum(1).max()) < _SAFE
    if safe and _error(X.shape[1], torch.float32) < _LARGEST_ERROR:
        search = _Search.of(X, k, torch.float32)
        some = queries[:: max(1, len(queries) // _QUERIES_OF_PRODUCT)]
        if len(search.few(some, tie_step(typical))[0]) <= _CANDIDATES * k * len(some):
            return search
    return _Search.of(X, k, X.dtype)


class _Search(NamedTuple):
    r"""Rows ready for products, in tiles of groups.

    Attributes
    ----------
    X : Tensor of shape (N, D)
    tiles : Tensor of shape (B, D + 1, T)
        -2 x and \|x\|^2 in the precision of the products, filled up to whole groups
        and tiles by rows that are infinitely far away.
    k, group : int
        Neighbours, and consecutive rows that make a group.
    error : float
        Relative, of products.
    """

    X: Tensor
    tiles: Tensor
    k: int
    group: int
    error: float

    @classmethod
    def of(cls, X: Tensor, k: int, dtype: torch.dtype) -> _Search:
        """With products in this precision."""
        N, D = X.shape
        group = max(1, min(_GROUP, N // k))
        n_tiles = -(-N // _TILE)
        tiles = torch.zeros(N + -N % (n_tiles * group), D + 1, dtype=dtype, device=X.device)
        tiles[:N, :D] = -2.0 * X
        tiles[:N, D] = X.square().sum(1)
        tiles[N:, D] = torch.inf
        return cls(X, tiles.view(n_tiles, -1, D + 1).mT.contiguous(), k, group, _error(D, dtype))

    def candidates(self, queries: Tensor, step: float) -> tuple[Tensor, Tensor]:
        """Queries and rows of all pairs that may be among the nearest, sorted; at least k a query."""
        B, _, T = self.tiles.shape
        size = min(queries.shape[0], _QUERIES_OF_PRODUCT)
        # New memory for every block would cost more than the products do.
        products = self.tiles.new_empty(B * size * T)
        found = []
        for start in range(0, queries.shape[0], size):
            some = queries[start : start + size]
            query, row = self.few(some, step, products)
            count = torch.bincount(query, minlength=len(some))
            # Ties, or a query that is far from all rows, or so far that products overflow.
            anew = (count > _MOST_CANDIDATES * self.k) | (count < self.k)
            if bool(anew.any()):
                again, rows = _from_all(self.X, some[anew], self.k, step)
                good = ~anew[query]
                query = torch.cat([query[good], anew.nonzero()[again, 0]])
                query, order = query.sort(stable=True)
                row = torch.cat([row[good], rows])[order]
            found.append((query + start, row))
        return torch.cat([query for query, _ in found]), torch.cat([row for _, row in found])

    def few(self, queries: Tensor, step: float, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        r"""Rows that the k-th smallest minimum of a group, which bounds the k-th distance, lets in.

        With e the relative error, a row with \|x\| <= 3 \|q\| is no farther than
        computed plus 16 e \|q\|^2. For any other \|x\| + \|q\| is at most twice its
        distance, whose square is then off by 4 e of itself.
        """
        (B, _, T), M = self.tiles.shape, queries.shape[0]
        q2 = queries.square().sum(1)
        rough = torch.cat([queries, torch.ones_like(queries[:, :1])], 1).to(self.tiles.dtype)
        out = rough.new_empty(B * M * T) if out is None else out[: B * M * T]
        d2 = out.view(B, M, -1, self.group)  # less q2
        minima = []
        for tile, product, grouped in zip(self.tiles, out.view(B, M, T), d2, strict=True):
            torch.mm(rough, tile, out=product)
            minima.append(grouped.amin(2))
        least = torch.cat(minima, 1)
        bound = least.topk(self.k, dim=1, largest=False, sorted=False).values.amax(1) + q2
        bound = (bound.clamp_min(0.0) + 16.0 * self.error * q2) * (1.0 + 8.0 * self.error) + step
        # Rows within it have norms of at most \|q\| + bound^(1/2).
        limit = (bound - q2 + 3.0 * self.error * (4.0 * q2 + bound)).to(out.dtype)
        query, place = (least <= limit[:, None]).nonzero().unbind(1)
        block = place.div(d2.shape[2], rounding_mode="floor")
        inside = d2[block, query, place - block * d2.shape[2]] <= limit[query, None]
        hit, member = inside.nonzero().unbind(1)
        return query[hit], place[hit] * self.group + member


def _from_all(X: Tensor, queries: Tensor, k: int, step: float) -> tuple[Tensor, Tensor]:
    """The k nearest rows, from all distances in double precision."""
    N = X.shape[0]
    order = torch.arange(N, dtype=X.dtype, device=X.device) / (2 * N)
    d2 = torch.addmm(X.square().sum(1), queries, X.mT, alpha=-2.0)
    d2.add_(queries.square().sum(1, keepdim=True))
    key = d2.div_(step).round_().clamp_min_(0.0).add_(order)
    rows = key.topk(k, dim=1, largest=False).indices.sort(1).values
    query = torch.arange(queries.shape[0], device=X.device).repeat_interleave(k)
    return query, rows.flatten()


def _decided(
    X: Tensor, queries: Tensor, query: Tensor, row: Tensor, k: int, step: float
) -> tuple[Tensor, Tensor]:
    """Of sorted candidates, at least k a query, the k nearest and their squared distances."""
    size = max(1, _DIFFERENCE_NUMBERS // X.shape[1])
    # Differences, not norms: equal rows are at distance zero.
    d2 = torch.cat(
        [
            (X[r] - queries[q]).square_().sum(1)
            for q, r in zip(query.split(size), row.split(size), strict=True)
        ]
    )
    M = queries.shape[0]
    count = torch.bincount(query, minlength=M)
    slot = torch.arange(query.shape[0], device=X.device) - (count.cumsum(0) - count)[query]
    table = d2.new_full((M, int(count.max())), torch.inf)
    table[query, slot] = d2
    # In the order of rows, which a stable sort keeps among ties.
    chosen = table.div(step).round_().sort(dim=1, stable=True).indices[:, :k]
    rows = torch.zeros_like(table, dtype=torch.int64)
    rows[query, slot] = row
    return rows.gather(1, chosen), table.gather(1, chosen)


# --- The local part of the latent functions: the sites of neighbours beyond the inducing points (section 10).


# Numbers of the systems solved at once: on a processor, as many as a cache holds (half the time of 4e6).
_BLOCK_NUMBERS = {"cpu": 200_000}
_BLOCK_NUMBERS_ACCELERATOR = 4_000_000


def apart(X: Tensor, rows: Tensor) -> Tensor:
    """Squared distances among the neighbours (M, K) of each query, shape (M, K, K)."""
    close = X[rows]
    return torch.cdist(close, close, compute_mode="donot_use_mm_for_euclid_dist").square()


def local_mean(
    X: Tensor,
    near: Neighbours,
    W: Tensor,
    b: Tensor,
    share: Tensor | None,
    variance: float,
    length: float,
    between: Tensor | None = None,
) -> Tensor:
    r"""Mean of the local part at queries, shape (M, J) (eq. 10.2).

    Parameters
    ----------
    X : Tensor of shape (N, D)
    near : Neighbours
        Of the queries among the rows of X, all in double precision.
    W, b : Tensor of shape (N, J)
        Precisions of the rows' sites and what they pull beyond the smooth part.
    share : Tensor of shape (M, K) or None
        How much of each neighbour counts; None: all of it.
    variance, length : float
        Of the covariance.
    between : Tensor of shape (M, K, K) or None
        What ``apart`` gives, where it is known.
    """
    J, K = W.shape[1], near.rows.shape[1]
    numbers = _BLOCK_NUMBERS.get(X.device.type, _BLOCK_NUMBERS_ACCELERATOR)
    size = max(1, numbers // (K * (J * K + X.shape[1])))
    eye = torch.eye(K, dtype=X.dtype, device=X.device)
    mean = W.new_empty(near.rows.shape[0], J)
    for start in range(0, near.rows.shape[0], size):
        rows = slice(start, start + size)
        i = near.rows[rows]
        k = variance * torch.exp(near.d2[rows] / (-2.0 * length**2))
        among = apart(X, i) if between is None else between[rows]
        K_near = variance * torch.exp(among / (-2.0 * length**2))
        w, pull = W[i], b[i]
        if share is not None:
            w, pull = w * share[rows, :, None], pull * share[rows, :, None]
        root, pull = w.sqrt().transpose(1, 2), pull.transpose(1, 2)  # (m, J, K)
        # No precision is divided by, so zero is fine; the condition grows with
        # them, and in single precision the I would be lost.
        L = torch.linalg.cholesky(eye + root[..., :, None] * K_near[:, None] * root[..., None, :])
        explained = torch.cholesky_solve((root * (pull @ K_near))[..., None], L)[..., 0]
        mean[rows] = ((pull - root * explained) @ k[..., None])[..., 0]
    return mean
