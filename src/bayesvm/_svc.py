"""The multi-class Bayesian support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Self

from bayesvm._base import AddsRows, LatentClassifier
from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.kernels.compose import Scaled
from bayesvm._fit import defaults, train
from bayesvm._fit.local import LocalPart
from bayesvm._fit.options import auto_inducing, chosen_inference, resolve_options
from bayesvm._fit.train import Options
from bayesvm._inference.adam import PAPER_EPOCHS, PAPER_RATE
from bayesvm._inference.task import Member


class BayesianSVC(AddsRows, LatentClassifier):
    """Multi-class Bayesian support vector machine.

    Gaussian-process decision functions under the Crammer-Singer hinge, read
    as a pseudo-likelihood, with inducing points and variational inference
    (Wistuba and Rawat, 2018), beside a softmax on the same kernel. Inputs are
    standardised inside; nothing needs tuning. Two classes are described by one function of their difference.

    Parameters
    ----------
    n_inducing : int or "auto", default="auto"
        Number of inducing points; "auto" grows with the rows. With as many
        as there are distinct rows the model is dense.
    learn_inducing : bool, default=False
        Move the inducing points by gradient together with the kernel.
    kernel : str or kernel object, default="0.1*rbf + anova"
        "anova", "rbf", "matern32", "matern52", "linear", "constant", sums
        and products of names, and of numbers as starting variances, such as
        "linear + 2*rbf*constant", or any object with the methods of :class:`bayesvm.kernels.Kernel`.
    ard : bool, default=True
        One length scale per feature in the kernels given by name.
    inference : str, default="auto"
        "coordinate": full sweeps; "natural": natural gradients on
        minibatches; "adam": everything at once by gradient, as in the paper;
        "natural_adam": natural gradients for the posterior, Adam for the
        kernel; "ecm": the mode, which is the Crammer-Singer support vector
        machine; "slice": chains from the posterior itself, for small data;
        "gibbs": the same by data augmentation, for two classes only.
        "auto": "natural" if ``batch_size`` is given, else "coordinate".
    rivals : {"auto", "exact", "sampled", "mean"}, default="auto"
        How the maximum over rival classes is handled: in exact
        expectation, by the winner of posterior draws, or by the largest mean
        (the paper's). "auto": exact while affordable, else sampled.
    hyperparameters : {"blend", "elbo", "loo", "fixed"}, default="blend"
        What kernel parameters maximise: the bound and the leave-one-out
        log-likelihood combined, either alone, or nothing.
    local : bool, default=True
        Let leave-one-out decide whether neighbouring training rows correct the
        latent functions where inducing points cannot follow them, as in data
        whose rows repeat or nearly repeat. The model then keeps the training rows. With
        more than 100 000 distinct ones or fewer than 32, more than 100
        classes, and with inference "ecm" or "slice", there is no such part.
        Predictions search the training rows and take several times as long.
    committee : bool, default=True
        Add a softmax likelihood with latent functions of its own, on the same
        kernel and inducing points; class probabilities are a mixture with
        weights from leave-one-out (section 11 of the theory). The hinge is
        better where classes are apart, the softmax where they overlap. With exact rivals and
        inference "coordinate" or "natural"; elsewhere, and with False, the hinge is alone.
        In ``partial_fit`` a model that has forgotten rows keeps the members it has; a call
        with more rows than exact rivals are the default for gives the softmax up.
    normal_scores : bool, default=True
        Average every standardised numeric column with its normal scores, a monotone curve through
        the ranks of the training rows, so that skewed columns and outliers do not stretch distances.
        False: standardised columns as they are.
    learning_rate : float or "auto", default="auto"
        Adam's rate for kernel parameters, and for everything with
        ``inference="adam"``.
    batch_size : int or None, default=None
        Rows per minibatch for "natural", "adam" and "natural_adam".
    max_iter : int or "auto", default="auto"
        Most sweeps, epochs with minibatches, or transitions of a chain, those
        before the first kept draw and between kept draws included.
    tol : float, default=0.01
        The fit has converged when the latent means change by less than this
        in a sweep, in units of the margin; with "ecm", when the objective is
        certified to be within a thousandth of this share of its best (five
        thousandths with more than two classes).
    n_chains, n_draws : int, default=4, 500
        With "slice" and "gibbs": how many chains, and draws kept of each.
    class_weight : dict, "balanced" or None, default=None
        What the rows of a class weigh besides ``sample_weight``; "balanced":
        all classes the same in total. Class probabilities and leave-one-out
        then describe a population in which classes are as frequent as these
        weights make them, not the one that the rows come from.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Nominal columns: those of a category dtype in a data frame of pandas or polars;
        or a mask, positions, or names. They may hold texts, numbers and truth values. Rows are
        equal in such a column or not, with one learned weight; a column with more than 30 levels
        is described by its shrunken target means (docs/categories.md). A missing value is a
        level of its own, and so is one that did not occur in ``fit``. In numeric columns
        NaN is allowed: that a number is missing is a nominal feature.
    device : str, default="cpu"
        Where torch computes.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the computations.
    random_state : int, RandomState or None, default=None
        Seed of the inducing points and of sampled rivals. All draws are
        keyed on the content of the rows, so their order does not matter.
    verbose : int, default=0
        1 prints progress to standard error.
    warm_start : bool, default=False
        Start the next ``fit`` from the last one's kernel, inducing points
        and posterior. The kernel is learned on from where it was, unless
        ``hyperparameters="fixed"``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    inducing_points_ : ndarray of shape (n_inducing, n_features)
        In the units of the data.
    kernel_ : FittedKernel
    elbo_curve_ : ndarray
        The bound after every sweep with the final kernel (with one rival per
        row, its approximation).
    kernel_curve_ : ndarray
        The bound while the kernel was learned, on the rows used for that; of a committee that of
        the softmax alone.
    loo_proba_ : ndarray of shape (n_rows, n_classes) or None
        Class probabilities of each training row, from the model without it; if
        most classes have fewer than three rows, with rivals that lose as much.
        None where these were more than 2e7 numbers, and for more than
        100 000 rows that came in chunks.
    loo_score_, loo_log_loss_ : float
        Leave-one-out accuracy and log-loss: estimates for new rows; NaN
        after gradient steps that ended far from the optimum (there is then a
        warning, and no ``loo_proba_``). Of a
        random sample where there are more than 100 000 rows, or where
        ``loo_proba_`` would have more than 2e7 numbers.
    loo_gain_ : tuple of four floats
        ``loo_log_loss_``, the log-loss of the class frequencies, the standard
        error of their difference, and the deduction for having fitted the
        calibration. Unless the gain that is left exceeds two
        standard errors, ``fit`` gives a :class:`bayesvm.NothingLearnedWarning`.
    loo_label_proba_ : ndarray of shape (n_distinct_rows,)
        Leave-one-out probability of each label, of distinct rows in the fit's own order.
    loo_clipped_ : float
        Share of the weight in rows that nearly determine the model on their
        own; their leave-one-out probabilities are unreliable.
    temperature_, spread_ : float
        How the hinge's latents become class probabilities: E[softmax(T f)] with
        the latent variances multiplied by the spread, fitted by leave-one-out.
    mixing_ : ndarray of shape (n_classes, n_classes)
        What the hinge's latent means of other classes add to those of a class before that.
    member_weights_ : dict of str to float
        Weights of the members, "hinge" and "softmax", in class probabilities.
    local_part_ : LocalPart or None
        The correction by neighbouring rows; None unless leave-one-out improves with it.
    feature_relevance_ : ndarray of shape (n_features,)
    sites_ : SiteArrays or None
        Of a committee the functions of all members side by side, the hinge's first.
        None for more than 100 000 rows, of which only sums are kept.
    n_iter_ : int
        Sweeps done.
    converged_, interrupted_ : bool
        Whether the sweeps settled, and whether Ctrl-C ended the fit early.
    duality_gap_ : float or None
        With "ecm": by what share the Crammer-Singer objective could be lower, at most.
    chains_ : FittedChains or None
        With "slice" and "gibbs": the draws, and whether they have converged.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had string column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> bool(model.loo_score_ > 0.93)
    True
    >>> model.predict_proba(X[:1]).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        n_inducing: int | str = "auto",
        *,
        learn_inducing: bool = False,
        kernel: Any = defaults.DEFAULT_KERNEL,
        ard: bool = True,
        inference: str = "auto",
        rivals: str = "auto",
        hyperparameters: str = "blend",
        local: bool = True,
        committee: bool = True,
        normal_scores: bool = True,
        learning_rate: float | str = "auto",
        batch_size: int | None = None,
        max_iter: int | str = "auto",
        tol: float = defaults.TOLERANCE,
        n_chains: int = 4,
        n_draws: int = 500,
        class_weight: dict[Any, float] | str | None = None,
        categorical_features: Any = "from_dtype",
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
        self.inference = inference
        self.rivals = rivals
        self.hyperparameters = hyperparameters
        self.local = local
        self.committee = committee
        self.normal_scores = normal_scores
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """The recipe of Wistuba and Rawat (2018), as far as the paper states it.

        64 inducing points, Adam at 5e-4 for 1000 epochs on the bound with the
        rival at the mean, kernel and inducing points trained with q. The
        paper does not state the kernel, the preprocessing, the batch size or
        class probabilities; an RBF kernel with ARD, standardisation, 1024
        rows and our leave-one-out temperature stand in. The class is that of
        the largest latent mean, as in the paper.
        """
        recipe: dict[str, Any] = {
            "n_inducing": defaults.PAPER_INDUCING,
            "learn_inducing": True,
            "kernel": "rbf",
            "inference": "adam",
            "rivals": "mean",
            "hyperparameters": "elbo",
            "local": False,
            "committee": False,
            "normal_scores": False,
            "learning_rate": PAPER_RATE,
            "batch_size": defaults.BATCH_SIZE,
            "max_iter": PAPER_EPOCHS,
            "tol": 0.0,
        }
        return cls(**{**recipe, **overrides})

    @property
    def member_weights_(self) -> dict[str, float]:
        """Weights of the members of the committee in class probabilities; they sum to one."""
        members = zip(("hinge", "softmax"), self.model_.calibration, strict=False)
        return {name: calibration.weight for name, calibration in members}

    @property
    def local_part_(self) -> LocalPart | None:
        """The correction of latents by neighbouring rows; None unless leave-one-out improves with it."""
        return self.model_.local

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        n_inducing = auto_inducing(self, n_rows, n_classes)
        rivals = self.rivals
        if rivals == "auto":
            few = n_inducing  # enough for exact rivals
            if self.n_inducing == "auto":
                n_latents = 1 if n_classes == 2 else n_classes
                few = defaults.exact_inducing(n_rows, n_inducing, n_latents)
            exact = n_classes == 2 or defaults.affordable_exact(n_rows, min(few, n_rows), n_classes)
            rivals, n_inducing = ("exact", few) if exact else ("sampled", n_inducing)
        kernel = resolve_kernel(self.kernel, bool(self.ard))
        if n_classes == 2:  # the one function is the difference of two: kernel 2k (eq. 7.1)
            kernel = Scaled(kernel, 2.0)
        single = defaults.worth_single(n_rows, min(n_inducing, n_rows))
        inference = chosen_inference(self)
        if self.committee and rivals == "exact" and inference[0] in ("coordinate", "natural"):
            member = train.committee(n_classes, single)
        else:
            member = train.crammer_singer(n_classes, rivals, seed, single)
        return resolve_options(self, member, kernel, n_inducing, inference, seed)


# --- Constructor and fitting of the estimators built on the binary hinge.


class FitsHinge:
    """Arguments and fitting that one binary function and one for every class share.

    Estimators say in ``_member`` what they fit; :class:`BinaryBayesianSVC`
    documents the arguments.
    """

    def __init__(
        self,
        n_inducing: int | str = "auto",
        *,
        learn_inducing: bool = False,
        kernel: Any = defaults.DEFAULT_KERNEL,
        ard: bool = True,
        inference: str = "auto",
        approximation: str = "auto",
        expectation: str = "exact",
        hyperparameters: str = "blend",
        learning_rate: float | str = "auto",
        batch_size: int | None = None,
        max_iter: int | str = "auto",
        tol: float = defaults.TOLERANCE,
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
        self.inference = inference
        self.approximation = approximation
        self.expectation = expectation
        self.hyperparameters = hyperparameters
        self.learning_rate = learning_rate
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

    def _member(self, n_classes: int, single: bool) -> Member:
        raise NotImplementedError

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        kernel = resolve_kernel(self.kernel, bool(self.ard))
        n_inducing = auto_inducing(self, n_rows, n_classes, all_latents=True)
        member = self._member(n_classes, defaults.worth_single(n_rows, min(n_inducing, n_rows)))
        return resolve_options(self, member, kernel, n_inducing, chosen_inference(self), seed)


# --- The binary Bayesian support vector machine as a scikit-learn classifier.


class BinaryBayesianSVC(FitsHinge, AddsRows, LatentClassifier):
    """Binary kernel Bayesian support vector machine.

    One Gaussian-process decision function under the hinge, read as a
    pseudo-likelihood exp(-2 max(0, 1 - y f)) (Wenzel et al., 2017; Henao et
    al., 2014). For more classes use :class:`BayesianSVC`,
    :class:`OneVsRestBayesianSVC` or scikit-learn's ``OneVsRestClassifier``.
    ``BayesianSVC`` on two classes is this model with twice the kernel.

    Parameters
    ----------
    n_inducing : int or "auto", default="auto"
        Number of inducing points; with as many as there are distinct rows
        the model is dense.
    learn_inducing : bool, default=False
        Move the inducing points by gradient together with the kernel.
    kernel : str or kernel object, default="0.1*rbf + anova"
        As in :class:`BayesianSVC`.
    ard : bool, default=True
        One length scale per feature in the kernels given by name.
    inference : str, default="auto"
        "coordinate": full sweeps; "natural": natural gradients on
        minibatches; "adam": everything at once by gradient; "natural_adam":
        natural gradients for the posterior, Adam for the kernel; "ecm": the
        mode, which is the support vector machine without a bias; "gibbs":
        chains from the posterior by data augmentation; "slice": the same by
        elliptical slice sampling. "auto": "natural" if ``batch_size`` is
        given, else "coordinate".
    approximation : {"auto", "variational", "dtc", "fitc"}, default="auto"
        What the inducing points leave out. "variational": a bound, for
        "coordinate", "natural", "adam" and "natural_adam". "fitc": every row
        has its own independent residual, for "ecm", "gibbs" and "slice".
        "dtc": in training rows have none, for the same three. With as many
        inducing points as distinct rows all are the same.
    expectation : {"exact", "augmented"}, default="exact"
        The expected hinge in closed form, or its bound by Wenzel et al.
        (2017), which is looser: standard deviations came out as .5 to .7 of
        those of the posterior itself, against .88 to .97 (docs/family.md).
    hyperparameters : {"blend", "elbo", "loo", "fixed"}, default="blend"
        What kernel parameters maximise: the bound and the leave-one-out
        log-likelihood combined, either alone, or nothing.
    learning_rate : float or "auto", default="auto"
        Adam's rate for kernel parameters, and for everything with
        ``inference="adam"``.
    batch_size : int or None, default=None
        Rows per minibatch for "natural", "adam" and "natural_adam".
    max_iter : int or "auto", default="auto"
        Most sweeps, epochs with minibatches, or transitions of a chain, those
        before the first kept draw and between kept draws included.
    tol : float, default=0.01
        The fit has converged when the latent means change by less than this
        in a sweep, in units of the margin; with "ecm", when the objective is
        certified to be within a thousandth of this share of its best.
    n_chains, n_draws : int, default=4, 500
        Of "gibbs" and "slice": how many chains, and draws kept of each.
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
    warm_start : bool, default=False
        Start the next ``fit`` from the last one's kernel, inducing points
        and posterior. The kernel is learned on from where it was, unless
        ``hyperparameters="fixed"``.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    duality_gap_ : float or None
        With "ecm": by what share the objective of the support vector machine could be lower, at most.
    chains_ : FittedChains or None
        With "gibbs" and "slice": the draws, and whether they have converged.

    See Also
    --------
    BayesianSVC : All other fitted attributes are those of this class.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BinaryBayesianSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BinaryBayesianSVC(n_inducing=32, random_state=0).fit(X, y)
    >>> bool(model.loo_score_ > 0.95)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _member(self, n_classes: int, single: bool) -> Member:
        if n_classes > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y holds "
                f"{n_classes} classes; use BayesianSVC or OneVsRestBayesianSVC for more than two"
            )
        return train.binary(self.expectation, single)


# --- One binary Bayesian support vector machine per class, trained together.


class OneVsRestBayesianSVC(FitsHinge, AddsRows, LatentClassifier):
    """One binary Bayesian support vector machine per class, in one batched computation.

    The rival that Wistuba and Rawat (2018) compare their model with. All
    classes share the kernel, the inducing points and the features of the
    rows; each has a posterior of its own, that of
    :class:`BinaryBayesianSVC` on "this class or another" with the same kernel
    and inducing points. Class probabilities are joint: E[softmax(T f)], with
    temperature, spread and mixing from leave-one-out, so rows sum to one without normalising
    separate answers. scikit-learn's ``OneVsRestClassifier`` around
    :class:`BinaryBayesianSVC` learns a kernel for every class instead.

    With two classes there is one function, as in :class:`BinaryBayesianSVC`.

    Parameters
    ----------
    n_inducing, learn_inducing, kernel, ard, inference, approximation, expectation, hyperparameters
        As in :class:`BinaryBayesianSVC`.
    learning_rate, batch_size, max_iter, tol, n_chains, n_draws, class_weight, device, dtype
        As in :class:`BinaryBayesianSVC`.
    random_state, verbose, warm_start
        As in :class:`BinaryBayesianSVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)

    See Also
    --------
    BayesianSVC : All other fitted attributes are those of this class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import OneVsRestBayesianSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsRestBayesianSVC(random_state=0).fit(X, y)
    >>> bool(model.loo_score_ > 0.93)
    True
    """

    def _member(self, n_classes: int, single: bool) -> Member:
        if n_classes == 2:
            return train.binary(self.expectation, single)
        return train.one_vs_rest(self.expectation, single)
