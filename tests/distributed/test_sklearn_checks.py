"""With rows in memory it is a scikit-learn classifier like the others."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesvm.distributed import DaskBayesianSVC


@pytest.mark.slow
@parametrize_with_checks([DaskBayesianSVC()])
def test_sklearn_checks(estimator, check):
    check(estimator)
