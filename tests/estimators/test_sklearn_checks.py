"""scikit-learn's own battery, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    OneVsRestBayesianSVC,
    SVGPClassifier,
)

ESTIMATORS = [
    BayesianSVC(),
    BayesianSVC(inference="ecm"),
    BinaryBayesianSVC(),
    OneVsRestBayesianSVC(),
    LinearBayesianSVC(),
    LinearBayesianSVC(inference="em"),
    SVGPClassifier(),
    SVGPClassifier(likelihood="softmax"),
]


# Weights of classes in the thousands let single rows decide, and the fit says so.
@pytest.mark.filterwarnings("ignore:.* all but determine the model:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_latent", "sample_proba", "abstain"])
def test_unfitted_models_say_so(method):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        getattr(BayesianSVC(), method)([[0.0]])
