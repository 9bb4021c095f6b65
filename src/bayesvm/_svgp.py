"""The sparse variational Gaussian process classifier as a scikit-learn classifier."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

from bayesvm._base import LatentClassifier
from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.kernels.compose import Scaled
from bayesvm._fit import train
from bayesvm._fit.options import check_choice, check_number, chosen_inference, resolve_options
from bayesvm._fit.train import Options

# Points that are learned need not be many, and a step costs their square.
_AUTO_INDUCING = 64
_TOLERANCE = 1e-3
# What the method itself takes is the rate of Wistuba and Rawat's recipe, made for a thousand epochs.
_ADAM_RATE = 0.02


class SVGPClassifier(LatentClassifier):
    """Sparse variational Gaussian process classifier (Hensman et al., 2015).

    One Gaussian-process function per class under a likelihood that is a
    distribution over classes, with learned inducing points. The rival that
    Bayesian support vector machines are most often compared with, on the same
    kernels, inducing points and training loop as :class:`BayesianSVC`.

    Choose it if class probabilities should come from the model itself rather
    than from leave-one-out, or if labels are noisy in a way that a likelihood
    describes. With many classes :class:`BayesianSVC` is cheaper.

    Parameters
    ----------
    n_inducing : int or "auto", default="auto"
        Number of inducing points; "auto": 64, or all distinct rows if they
        are fewer.
    learn_inducing : bool, default=True
        Move the inducing points by gradient together with the kernel.
    kernel : str or kernel object, default="rbf"
        As in :class:`BayesianSVC`.
    ard : bool, default=True
        One length scale per feature in the kernels given by name.
    likelihood : str or likelihood object, default="softmax"
        "softmax": class probabilities are the softmax of the functions.
        "robustmax": the class is that of the largest function but for one
        label in a thousand, as in GPflow; it is confident, right or wrong.
        Names added with ``register_likelihood`` and objects work too.
    inference : str, default="auto"
        "natural_adam": natural gradients for the posterior and Adam for the
        rest, from the same minibatch; "adam": everything by Adam;
        "coordinate" and "natural": the kernel first, then the posterior, for
        log-concave likelihoods such as the softmax; "slice": draws from the
        posterior itself, for a few hundred rows and with patience.
        "auto": "natural_adam".
    probabilities : {"model", "calibrated"}, default="model"
        Class probabilities of the likelihood, or the softmax that
        :class:`BayesianSVC` calibrates on leave-one-out. A likelihood
        without probabilities of its own gets the latter.
    hyperparameters : {"elbo", "fixed"}, default="elbo"
        Whether kernel parameters maximise the bound or stay.
    learning_rate : float or "auto", default="auto"
        Adam's rate; "auto": .05 with "natural_adam", .02 with "adam".
    natural_rate : float or "auto", default="auto"
        Step of the natural gradients, at most 1; "auto": .1 on minibatches
        and .3 on all rows.
    batch_size : int or None, default=None
        Rows per minibatch; None: 1024.
    max_iter : int or "auto", default="auto"
        Most epochs, or transitions of chains; "auto": 500 with "natural_adam".
    tol : float, default=0.001
        The fit has converged when the mean bound of ten epochs exceeds that
        of the ten before by less than this, in nats a row.
    n_chains, n_draws : int, default=4, 500
        With "slice": how many chains, and draws kept of each.
    class_weight : dict, "balanced" or None, default=None
        What the rows of a class weigh besides ``sample_weight``; "balanced":
        all classes the same in total. Class probabilities and leave-one-out
        then describe a population in which classes are as frequent as these
        weights make them, not the one that the rows come from.
    device : str, default="cpu"
    dtype : {"float64", "float32"}, default="float64"
    random_state : int, RandomState or None, default=None
        Shuffles minibatches; a fit on all rows does not depend on it.
    verbose : int, default=0
        1 prints progress to standard error.
    warm_start : bool, default=False
        Start the next ``fit`` from the last one's kernel, inducing points
        and posterior.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    elbo_curve_ : ndarray
        The bound after every epoch.

    See Also
    --------
    BayesianSVC : All other fitted attributes are those of this class.

    Notes
    -----
    Two classes are one function of their difference, with twice the kernel,
    if the likelihood sees differences only; mean field over two functions
    would be a worse bound.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import SVGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVGPClassifier(20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        n_inducing: int | str = "auto",
        *,
        learn_inducing: bool = True,
        kernel: Any = "rbf",
        ard: bool = True,
        likelihood: Any = "softmax",
        inference: str = "auto",
        probabilities: str = "model",
        hyperparameters: str = "elbo",
        learning_rate: float | str = "auto",
        natural_rate: float | str = "auto",
        batch_size: int | None = None,
        max_iter: int | str = "auto",
        tol: float = _TOLERANCE,
        n_chains: int = 4,
        n_draws: int = 500,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.n_inducing = n_inducing
        self.learn_inducing = learn_inducing
        self.kernel = kernel
        self.ard = ard
        self.likelihood = likelihood
        self.inference = inference
        self.probabilities = probabilities
        self.hyperparameters = hyperparameters
        self.learning_rate = learning_rate
        self.natural_rate = natural_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.class_weight = class_weight
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    def _check(self) -> None:
        super()._check()
        check_choice("probabilities", self.probabilities, ("model", "calibrated"))
        check_choice("hyperparameters", self.hyperparameters, ("elbo", "fixed"))
        check_number("natural_rate", self.natural_rate, numbers.Real, 0, True, "auto")
        if self.natural_rate != "auto" and float(self.natural_rate) > 1:
            raise ValueError(f"natural_rate={self.natural_rate!r} is not valid; it must be at most 1")

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        member = train.svgp(self.likelihood, n_classes)
        kernel = resolve_kernel(self.kernel, bool(self.ard))
        if n_classes == 2 and member.likelihood.shift_invariant:
            kernel = Scaled(kernel, 2.0)  # of the difference of two functions (eq. 7.1)
        n_inducing = _AUTO_INDUCING if self.n_inducing == "auto" else int(self.n_inducing)
        method = ("natural_adam", False) if self.inference == "auto" else chosen_inference(self)
        options = resolve_options(self, member, kernel, n_inducing, method, seed)
        settings = options.settings
        if settings.rate is None and options.inference == "adam":
            settings = replace(settings, rate=_ADAM_RATE)
        if self.natural_rate != "auto":
            settings = replace(settings, natural_rate=float(self.natural_rate))
        own = train.own_probabilities(member) if self.probabilities == "model" else None
        return replace(options, class_likelihood=own, settings=settings)
