"""scikit-learn's own checks of estimators, on every kind of ours. What we do not pass carries its sentence."""

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator

from secvm.estimator import FeatureBinner, SecVMClassifier, SecVMRegressor

#: Checks that scikit-learn itself runs only when SCIPY_ARRAY_API is set before scipy is imported: they ask whether
#: arrays of other libraries (PyTorch, CuPy) go in and come out. Ours compute on numpy and scipy alone and say so by
#: their tags.
ARRAY_API = {"check_array_api_input"}

#: A person of weight 2 is not the same person twice where people are thinned: two people throw two sets of dice. With
#: thinning="auto" weighted people are not thinned at all, so the two sides of the comparison are two experiments.
TWICE_IS_NOT_WEIGHT_TWO = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}

ESTIMATORS: list[tuple[str, Any]] = [
    ("classifier as it comes", SecVMClassifier()),
    ("classifier, swift, unthinned", SecVMClassifier(descent="swift", thinning=None, rounds=80)),
    ("classifier, swift, thinned", SecVMClassifier(descent="swift", rounds=80, random_state=0)),
    ("classifier, one-vs-one", SecVMClassifier(multiclass="ovo", rounds=100)),
    ("classifier, 64 bins", SecVMClassifier(n_bins=64, rounds=100)),
    ("classifier, logistic", SecVMClassifier(loss="logistic", random_state=0, rounds=40)),
    ("regressor as it comes", SecVMRegressor()),
    ("regressor, pinball", SecVMRegressor(loss="pinball", rounds=200)),
    ("binner as it comes", FeatureBinner()),
    ("binner, unhashed", FeatureBinner(n_bins=None)),
    ("binner, presence", FeatureBinner(values="presence")),
]


def checks() -> list[Any]:
    """One case for each estimator and check."""
    cases = []
    for name, estimator in ESTIMATORS:
        for one, check in estimator_checks_generator(estimator):
            short = getattr(getattr(check, "func", check), "__name__", str(check))
            if short in ARRAY_API or (name.endswith(", thinned") and short in TWICE_IS_NOT_WEIGHT_TWO):
                continue
            marks = [] if name.endswith("as it comes") else [pytest.mark.slow]
            cases.append(pytest.param(one, check, id=f"{name}: {short}", marks=marks))
    return cases


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_estimator_passes_scikit_learns_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
