"""The binary Bayesian support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

from bayesvm import members
from bayesvm.estimators.fits_hinge import FitsHinge
from bayesvm.estimators.latent_classifier import LatentClassifier
from bayesvm.inference.task import Member

__all__ = ["BinaryBayesianSVC"]


class BinaryBayesianSVC(FitsHinge, LatentClassifier):
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
    kernel : str or kernel object, default="rbf+additive"
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
        What kernel parameters maximise: the bound plus the leave-one-out
        log-likelihood, either alone, or nothing.
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
        return members.binary(self.expectation, single)
