"""scikit-learn's own checks of estimators, on ours with other rules, losses and bins than they come with."""

from collections.abc import Callable

import pytest
from sklearn.base import BaseEstimator

from secvm.estimator import FeatureBinner, SecVMClassifier, SecVMRegressor
from tests.contract.estimator.test_sklearn_checks import checks

ESTIMATORS: dict[str, BaseEstimator] = {
    "classifier, swift, unthinned": SecVMClassifier(descent="swift", thinning=None, rounds=80),
    "classifier, swift, thinned": SecVMClassifier(descent="swift", rounds=80, random_state=0),
    "classifier, one-vs-one": SecVMClassifier(multiclass="ovo", rounds=100),
    "classifier, 64 bins": SecVMClassifier(n_bins=64, rounds=100),
    "classifier, logistic": SecVMClassifier(loss="logistic", random_state=0, rounds=40),
    # Few bins and rounds, so that each of the many plans is made quickly.
    "classifier, private": SecVMClassifier(
        epsilon=7.5, delta=1e-3, n_bins=16, features_per_person=4, rounds=2, random_state=0
    ),
    "regressor, pinball": SecVMRegressor(loss="pinball", rounds=200),
    "binner, unhashed": FeatureBinner(n_bins=None),
    "binner, presence": FeatureBinner(values="presence"),
}


@pytest.mark.parametrize(("estimator", "check"), checks(ESTIMATORS))
def test_estimator_passes_scikit_learns_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
