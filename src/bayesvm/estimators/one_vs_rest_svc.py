"""One binary Bayesian support vector machine per class, trained together."""

from __future__ import annotations

from bayesvm import members
from bayesvm.estimators.fits_hinge import FitsHinge
from bayesvm.estimators.latent_classifier import LatentClassifier
from bayesvm.inference.task import Member

__all__ = ["OneVsRestBayesianSVC"]


class OneVsRestBayesianSVC(FitsHinge, LatentClassifier):
    """One binary Bayesian support vector machine per class, in one batched computation.

    The rival that Wistuba and Rawat (2018) compare their model with. All
    classes share the kernel, the inducing points and the features of the
    rows; each has a posterior of its own, that of
    :class:`BinaryBayesianSVC` on "this class or another" with the same kernel
    and inducing points. Class probabilities are joint: E[softmax(T (f +
    offset))], with temperature and offsets from leave-one-out, so rows sum to
    one without normalising separate answers. scikit-learn's ``OneVsRestClassifier`` around
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
            return members.binary(self.expectation, single)
        return members.one_vs_rest(self.expectation, single)
