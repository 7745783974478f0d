"""A sweep behind scikit-learn's interface: what it says of a setting is what that setting does alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier, SecVMClassifierCV, fitting


def some_columns(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = rng.integers(0, 3, (n, 12))
    return X, np.where(X[:, :4].sum(axis=1) + rng.integers(0, 4, n) > 5, "up", "down")


def test_each_curve_is_that_of_the_classifier_alone() -> None:
    X, y = some_columns()
    cv = KFold(3, shuffle=True, random_state=2)
    weights = ({"up": 2.0, "down": 1.0}, "balanced")
    search = SecVMClassifierCV((1e-3, 1e-1), class_weights=weights, rounds=8, cv=cv).fit(X, y)
    results = search.cv_results_
    assert results["curves"].shape == (4, 3, 8)
    assert results["params"][3] == {"lambda_": 1e-1, "class_weight": "balanced", "n_bins": None}
    for k, settings in enumerate(results["params"]):
        for split, (inside, outside) in enumerate(cv.split(X)):
            alone = SecVMClassifier(descent="pegasos", **settings, rounds=8).fit(X[inside], y[inside])
            assert results["curves"][k, split, -1] == alone.score(X[outside], y[outside])


def test_without_the_laboratorys_engine_the_same_curves_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = some_columns()
    with_engine = SecVMClassifierCV((1e-3, 1e-1), class_weights=(None, "balanced"), rounds=8, cv=3).fit(X, y)
    monkeypatch.setattr(fitting, "_engine", lambda _name: None)
    without = SecVMClassifierCV((1e-3, 1e-1), class_weights=(None, "balanced"), rounds=8, cv=3).fit(X, y)
    assert without.cv_results_["curves"].tolist() == with_engine.cv_results_["curves"].tolist()
    assert without.cv_results_["two_cycle"].tolist() == with_engine.cv_results_["two_cycle"].tolist()
    assert without.best_params_ == with_engine.best_params_


def test_the_best_setting_is_trained_on_everybody() -> None:
    X, y = some_columns()
    search = SecVMClassifierCV((1e-4, 1e-2, 10.0), rounds=12, cv=4).fit(X, y)
    alone = SecVMClassifier(descent="pegasos", **search.best_params_).fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert 1 <= search.best_params_["rounds"] <= 12
    assert search.predict(X).tolist() == alone.predict(X).tolist()
    assert search.decision_function(X).tolist() == alone.decision_function(X).tolist()


def test_words_may_be_hashed_into_several_numbers_of_bins() -> None:
    people = [["tea", "rain"], ["rain", "coat"], ["sun", "sea"], ["sea", "sand"]] * 3
    search = SecVMClassifierCV((1e-2,), n_bins=[None, 500], rounds=6, cv=3).fit(people, ["n", "n", "s", "s"] * 3)
    assert [settings["n_bins"] for settings in search.cv_results_["params"]] == [None, 500]
    assert search.predict([["rain"], ["sand"]]).tolist() == ["n", "s"]


def test_what_cannot_be_swept_is_said() -> None:
    X, y = some_columns()
    with pytest.raises(BadInputError, match="two classes"):
        SecVMClassifierCV(rounds=3).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(BadInputError, match="pegasos"):
        SecVMClassifierCV(rounds=3, estimator=SecVMClassifier(descent="swift")).fit(X, y)
