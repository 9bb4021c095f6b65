"""The linear Bayesian support vector machine as a scikit-learn classifier.

It is the sparse model with a linear kernel: inducing points that span all
linear functions make it exact, and weights are read off q at these points.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bayesvm._base import LatentClassifier
from bayesvm._core import linalg
from bayesvm._core.kernels.linear import IsotropicLinear
from bayesvm._fit import defaults, train
from bayesvm._fit.kernel import distinct_rows
from bayesvm._fit.options import check_arguments, check_number, resolve_options
from bayesvm._fit.train import Options
from bayesvm._model import Model, to_numpy

FloatArray = npt.NDArray[np.floating]

# Inference methods by the names of the parameter.
_METHODS = {"variational": "coordinate", "em": "ecm", "gibbs": "gibbs"}


class LinearBayesianSVC(LatentClassifier):
    """Linear Bayesian support vector machine, with a distribution over its weights.

    The hinge read as a pseudo-likelihood exp(-2 max(0, 1 - y f)), with f
    linear and weights and intercept normal with one variance nu^2 (Polson
    and Scott, 2011). C = 2 nu^2: the mode is
    ``LinearSVC(loss="hinge", C=C)``. More than two classes are one against
    the rest.

    Choose it where a linear function is enough or wanted: many features, few
    rows, weights to be read with their uncertainty. Elsewhere
    :class:`BayesianSVC` is more accurate.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the hinge against the prior. "auto": the prior variance
        C / 2 is learned, by the bound plus leave-one-out.
    inference : {"variational", "em", "gibbs"}, default="variational"
        "variational": a normal distribution over the weights (Luts and
        Ormerod, 2014). Its means are good; its standard deviations are too
        small. With few rows for every weight they are about .9 of the true
        ones, or .7 with ``expectation="augmented"``; with many rows .98, or
        .5, as the augmented bound grows ever more sure of itself.
        "em": the mode, the classical machine, to a certified gap
        (``duality_gap_``). Class probabilities keep the order of its
        functions, so predictions are those of ``LinearSVC``; the distribution
        of the weights is the variational one moved there, to be taken as
        rough.
        "gibbs": draws from the posterior itself, slowest.
    expectation : {"exact", "augmented"}, default="exact"
        The expected hinge in closed form, or the bound of the papers.
    fit_intercept : bool, default=True
        Whether functions have an intercept, penalised like the weights.
    standardize : bool, default=True
        Standardise the columns inside. The prior, and so C, then refer to
        standardised columns; without an intercept, functions vanish at their
        mean.
    max_iter : int or "auto", default="auto"
        Most sweeps; with "gibbs", all transitions of a chain, those before
        the first kept draw and between kept draws included.
    tol : float, default=0.01
        The fit has converged when the latent means change by less than this
        in a sweep, in units of the margin; with "em", when the objective is
        certified to be within a thousandth of this share of its best.
    n_chains, n_draws : int, default=4, 500
        With "gibbs": how many chains, and draws kept of each.
    class_weight : dict, "balanced" or None, default=None
        What the rows of a class weigh besides ``sample_weight``; "balanced":
        all classes the same in total. Class probabilities and leave-one-out
        then describe a population in which classes are as frequent as these
        weights make them, not the one that the rows come from.
    device : str, default="cpu"
    dtype : {"float64", "float32"}, default="float64"
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 prints progress to standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_functions, n_features)
        Posterior means of the weights (their mode with "em"), in the units of
        the data; one function with two classes, else one for each.
    intercept_ : ndarray of shape (n_functions,)
    coef_std_, intercept_std_ : ndarray
        Posterior standard deviations, of the same shapes.
    coef_cov_ : ndarray of shape (n_functions, n_features, n_features)
        Posterior covariances of the weights.
    C_ : float
        The C in use.
    duality_gap_ : float or None
        With "em": by what share the objective could be lower, at most.

    See Also
    --------
    BayesianSVC : All other fitted attributes are those of this class.

    Notes
    -----
    A sweep costs as many multiplications as rows times features squared. With
    more features than rows it works in the span of the rows instead, and is
    the same model. Columns that do not vary get no weight if standardised.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import LinearBayesianSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearBayesianSVC(random_state=0).fit(X, y)
    >>> lower, upper = model.coef_interval(0.9)
    >>> bool(((lower < model.coef_) & (model.coef_ < upper)).all())
    True
    """

    def __init__(
        self,
        C: float | str = "auto",
        *,
        inference: str = "variational",
        expectation: str = "exact",
        fit_intercept: bool = True,
        standardize: bool = True,
        max_iter: int | str = "auto",
        tol: float = defaults.TOLERANCE,
        n_chains: int = 4,
        n_draws: int = 500,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.inference = inference
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.max_iter = max_iter
        self.tol = tol
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.class_weight = class_weight
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def coef_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Credible intervals of the weights, shape (n_functions, n_features) each.

        Quantiles of the draws with "gibbs", else of the normal distribution;
        see ``inference`` for how far those fall short.

        Parameters
        ----------
        level : float
            Probability of each interval, between 0 and 1.
        """
        check_is_fitted(self)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} is not valid; it must lie between 0 and 1")
        tail = 0.5 * (1.0 - level)
        draws = weight_draws(self.model_)
        if draws is not None:
            lower, upper = np.quantile(draws[:, :, :-1], [tail, 1.0 - tail], axis=0)
            return lower, upper
        reach = NormalDist().inv_cdf(1.0 - tail) * self.coef_std_
        return self.coef_ - reach, self.coef_ + reach

    @property
    def coef_(self) -> FloatArray:
        check_is_fitted(self)
        return weight_means(self.model_)[:, :-1]

    @property
    def intercept_(self) -> FloatArray:
        check_is_fitted(self)
        return weight_means(self.model_)[:, -1]

    @property
    def coef_cov_(self) -> FloatArray:
        check_is_fitted(self)
        return weight_covariances(self.model_)[:, :-1, :-1]

    @property
    def coef_std_(self) -> FloatArray:
        return self._stds()[:, :-1]

    @property
    def intercept_std_(self) -> FloatArray:
        return self._stds()[:, -1]

    @property
    def C_(self) -> float:
        check_is_fitted(self)
        return 2.0 * float(np.exp(self.model_.params["log_variance"]))

    def _stds(self) -> FloatArray:
        check_is_fitted(self)
        variances = np.diagonal(weight_covariances(self.model_), axis1=1, axis2=2)
        return np.sqrt(np.maximum(variances, 0.0))

    def _check(self) -> None:
        check_number("C", self.C, numbers.Real, 0, True, "auto")
        check_arguments(self, tuple(_METHODS))

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        make = train.binary if n_classes == 2 else train.one_vs_rest
        intercept = bool(self.fit_intercept)
        learn = self.C == "auto"
        kernel = IsotropicLinear(intercept, None if learn else 0.5 * float(self.C))
        n_points = min(n_rows, self.n_features_in_ + intercept)
        options = resolve_options(
            self, make(self.expectation), kernel, n_points, (_METHODS[self.inference], False), seed
        )
        return replace(
            options,
            select_inducing=spanning_points(intercept),
            hyperparameters=options.hyperparameters if learn else "fixed",
            settings=replace(options.settings, learn_kernel=learn),
        )


def spanning_points(intercept: bool) -> Callable[[Tensor, Tensor, int], Tensor]:
    """Inducing points that determine linear functions everywhere.

    The origin and the unit vectors, or the distinct rows if they are fewer:
    what a linear function does outside their span, no row can tell.
    """

    def choose(X: Tensor, weight: Tensor, n_inducing: int) -> Tensor:
        D = X.shape[1]
        unit = torch.eye(D, dtype=X.dtype, device=X.device)
        if X.shape[0] <= D + int(intercept):
            Z = X[distinct_rows(X)]
            return Z if intercept else Z[Z.any(1)] if bool(Z.any()) else unit[:1]
        return torch.cat([unit.new_zeros(1, D), unit]) if intercept else unit

    return choose


def weight_means(model: Model) -> FloatArray:
    r"""Posterior means of weights and, last, the intercept, in the units of the data, shape (J, D + 1).

    A function is :math:`f(x) = \tilde x^\top T v` with :math:`T = \nu^2 \tilde Z^\top L^{-\top}`
    and rows :math:`\tilde x = (x, 1)` (eq. 8.26).
    """
    draws = weight_draws(model)
    if draws is not None:
        means: FloatArray = draws.mean(0)
        return means
    return model.m @ _from_whitened(model).mT.numpy()


def weight_draws(model: Model) -> FloatArray | None:
    """Draws of weights and intercept from a sampler, shape (S, J, D + 1), if there are any."""
    return None if model.draws is None else model.draws @ _from_whitened(model).mT.numpy()


def weight_covariances(model: Model) -> FloatArray:
    r"""Posterior covariances of weights and intercept, shape (J, D + 1, D + 1) (eq. 8.26).

    Directions that the inducing points do not span keep their prior: the
    covariance is :math:`\nu^2 I - T (I - S) T^\top`.
    """
    draws = weight_draws(model)
    if draws is not None:
        apart = draws - draws.mean(0)
        covariances: FloatArray = np.einsum("sjd,sje->jde", apart, apart) / len(apart)
        return covariances
    kernel = _kernel(model)
    D = model.Z.shape[1]
    units, T = _to_units(model, D), _from_whitened(model)
    prior = units * np.exp(0.5 * float(model.params["log_variance"]))
    prior[:, D] *= float(kernel.intercept)
    R = torch.as_tensor(model.R, dtype=T.dtype)
    root = linalg.solve_lower(R, T.mT.expand(R.shape[0], -1, -1))
    return to_numpy(root.mT @ root + (prior @ prior.mT - T @ T.mT))


def _kernel(model: Model) -> IsotropicLinear:
    assert isinstance(model.kernel, IsotropicLinear)
    return model.kernel


def _from_whitened(model: Model) -> Tensor:
    """The map from v to weights and intercept in the units of the data, shape (D + 1, P)."""
    P, D = model.Z.shape
    Z = torch.as_tensor(np.c_[model.Z, np.full(P, float(_kernel(model).intercept))], dtype=torch.float64)
    variance = float(np.exp(model.params["log_variance"]))
    T = variance * linalg.solve_lower(torch.as_tensor(model.Lz, dtype=torch.float64), Z).mT
    return _to_units(model, D) @ T


def _to_units(model: Model, n_kept: int) -> Tensor:
    """From weights of standardised columns to those of the data, shape (D + 1, number kept + 1)."""
    scaler = model.scaler
    out = np.zeros((scaler.kept.shape[0] + 1, n_kept + 1))
    index = np.flatnonzero(scaler.kept)
    out[index, np.arange(n_kept)] = 1.0 / scaler.scale[index]
    out[-1, :n_kept] = -scaler.mean[index] / scaler.scale[index]
    out[-1, -1] = 1.0
    return torch.as_tensor(out)
