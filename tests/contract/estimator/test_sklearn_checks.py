"""scikit-learn's own checks of estimators, on our estimators as they come. What we do not pass carries its sentence."""

from collections.abc import Callable, Mapping
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
#: thinning="auto" weighted people are not thinned at all, so the two sides of the comparison are two experiments. Nor
#: where losses toss coins: two people toss two.
TWICE_IS_NOT_WEIGHT_TWO = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}

#: An ε is planned for everybody, once: it takes neither weights nor further rounds, and says so. And so few people as
#: these checks make up leave no model under noise.
NOT_UNDER_AN_EPSILON = TWICE_IS_NOT_WEIGHT_TWO | {
    "check_all_zero_sample_weights_error",
    "check_class_weight_classifiers",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_train",
    "check_estimators_partial_fit_n_features",
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
}
#: Checks that are not asked, by the end of an estimator's name.
NOT_ASKED = {
    ", thinned": TWICE_IS_NOT_WEIGHT_TWO,
    ", logistic": TWICE_IS_NOT_WEIGHT_TWO,
    ", private": NOT_UNDER_AN_EPSILON,
}

ESTIMATORS: dict[str, BaseEstimator] = {
    "classifier as it comes": SecVMClassifier(),
    "regressor as it comes": SecVMRegressor(),
    "binner as it comes": FeatureBinner(),
}


def checks(estimators: Mapping[str, BaseEstimator]) -> list[Any]:
    """One case for each estimator and check."""
    cases = []
    for name, estimator in estimators.items():
        left_out = ARRAY_API.union(*(short for ending, short in NOT_ASKED.items() if name.endswith(ending)))
        for candidate, check in estimator_checks_generator(estimator):
            short = getattr(getattr(check, "func", check), "__name__", str(check))
            if short in left_out:
                continue
            cases.append(pytest.param(candidate, check, id=f"{name}: {short}"))
    return cases


@pytest.mark.parametrize(("estimator", "check"), checks(ESTIMATORS))
def test_estimator_passes_scikit_learns_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
