"""scikit-learn's own battery, with no expected failures."""

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    OneVsRestBayesianSVC,
    SVGPClassifier,
)
from bayesvm.distributed import DaskBayesianSVC

# Weights of classes in the thousands let single rows decide, and the fit says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* nearly determine the model:UserWarning"),
    pytest.mark.filterwarnings("ignore::bayesvm.RepeatedRowsWarning"),  # weights are compared with copies
]

ESTIMATORS = [
    BayesianSVC(),
    BinaryBayesianSVC(),
    OneVsRestBayesianSVC(),
    LinearBayesianSVC(),
    SVGPClassifier(),
]
# The battery asks about input, parameters and attributes, which all methods share; what differs
# between methods is in test_family.py.
VARIANTS = [
    BayesianSVC(inference="ecm"),
    DaskBayesianSVC(),
    LinearBayesianSVC(inference="em"),
    SVGPClassifier(likelihood="robustmax"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check_of_variants(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_latent", "sample_proba", "abstain"])
def test_unfitted_models_say_so(method):
    with pytest.raises(NotFittedError):
        getattr(BayesianSVC(), method)([[0.0]])
