"""SecVMClassifier: rounds, weights, cohorts, attendance, stopping, and its place among scikit-learn's tools."""

import math
import os
import re
from inspect import signature
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier, SecVMRegressor
from secvm.estimator.fitting import fit_rounds
from secvm.estimator.settings import threads
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.package import Cohort
from secvm_lab.population import ZipfPeople
from tests.unit.estimator.people import columns, state, texts

RULES: dict[str, dict[str, Any]] = {
    "pegasos": {"descent": "pegasos"},
    "pegasos thinned": {"descent": "pegasos", "thinning": "q=1/3"},
    "pegasos logistic": {"descent": "pegasos", "loss": "logistic", "lambda_": 0.5},
    "pegasos with budget": {"descent": "pegasos", "budget": 9},
    "swift thinned": {"descent": "swift", "thinning": 3},
    "swift whole": {"descent": "swift", "thinning": None},
    "swift F": {"descent": "swift", "thinning": 3, "features_per_person": 10, "n_bins": 30},
    "one-vs-one": {"descent": "pegasos", "multiclass": "ovo"},
}


def rule_and(rule: str, **more: Any) -> dict[str, Any]:
    return {"dice_seed": b"seed", **RULES[rule], **more}


# -- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("labels", [2, 3])
def test_partial_fit_n_times_is_fit_of_n_rounds(rule: str, labels: int) -> None:
    X, y = texts(labels=labels)
    step_by_step = SecVMClassifier(**rule_and(rule))
    for n in range(1, 5):
        step_by_step.partial_fit(X, y)
        at_once = SecVMClassifier(**rule_and(rule, rounds=n)).fit(X, y)
        assert state(step_by_step) == state(at_once)
        assert step_by_step.n_iter_ == at_once.n_iter_ == n
        assert (step_by_step.predict(X) == at_once.predict(X)).all()


def test_partial_fit_goes_on_from_fit() -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=3, **rule_and("swift thinned")).fit(X, y).partial_fit(X, y)
    assert state(model) == state(SecVMClassifier(rounds=4, **rule_and("swift thinned")).fit(X, y))


def test_partial_fit_takes_classes_that_the_first_people_do_not_have() -> None:
    X, y = texts(labels=3)
    model = SecVMClassifier(n_bins=64).partial_fit(X[:2], y[:2], classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    model.partial_fit(X, y).partial_fit(X, y, classes=[0, 1, 2])
    assert model.decision_function(X).shape == (60, 3)
    with pytest.raises(BadInputError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(BadInputError, match="labels that are not among the classes"):
        model.partial_fit(X, y + 1)


def test_partial_fit_refuses_what_it_cannot_know() -> None:
    X, y = texts()
    with pytest.raises(BadInputError, match="needs the classes on its first call"):
        SecVMClassifier().partial_fit(X[:1], y[:1])
    with pytest.raises(BadInputError, match="needs all people at once"):
        SecVMClassifier(class_weight="balanced").partial_fit(X, y)


def test_repro_partial_fit_applied_class_weights_to_negative_values_seen_late() -> None:
    model = SecVMClassifier(n_bins=8, class_weight={0: 3}).partial_fit([{"a": 1}, {"b": 1}], [0, 1])
    with pytest.raises(BadInputError, match="negative values must be there on the first call"):
        model.partial_fit([{"a": -1}, {"b": 1}], [0, 1])


def test_first_partial_fit_that_fails_leaves_nothing_behind() -> None:
    X, y = texts()
    model = SecVMClassifier(n_bins=8, random_state=0)
    with pytest.raises(BadInputError):
        model.partial_fit(X, y, classes=[1, 2])
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert state(model.partial_fit(X, y)) == state(SecVMClassifier(n_bins=8, rounds=1, random_state=0).fit(X, y))


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["pegasos", "swift whole", "one-vs-one"])
@pytest.mark.parametrize("kind", [texts, columns])
def test_integer_sample_weights_are_repetition_to_the_bit(rule: str, kind: Any) -> None:
    X, y = kind(40, labels=3)
    weight = np.random.default_rng(1).integers(0, 4, 40)
    weight[:3] = 1
    where = np.repeat(np.arange(40), weight)
    repeated = [X[i] for i in where] if isinstance(X, list) else X[where]
    once = SecVMClassifier(rounds=12, **rule_and(rule)).fit(X, y, sample_weight=weight)
    twice = SecVMClassifier(rounds=12, **rule_and(rule)).fit(repeated, y[where])
    assert state(once) == state(twice)


def test_real_sample_weights_count_in_proportion() -> None:
    X, y = texts()
    weight = np.random.default_rng(1).integers(1, 5, 60)
    whole = SecVMClassifier(rounds=12).fit(X, y, sample_weight=weight)
    scaled = SecVMClassifier(rounds=12).fit(X, y, sample_weight=weight / 8)
    assert np.allclose(whole.decision_function(X), scaled.decision_function(X), rtol=1e-4)


@pytest.mark.parametrize("rule", ["swift thinned", "pegasos thinned"])
def test_thinning_that_was_asked_for_refuses_sample_weights(rule: str) -> None:
    X, y = texts()
    asked = rule_and(rule)
    with pytest.raises(BadInputError, match="sample weights and thinning do not go together"):
        SecVMClassifier(**asked).fit(X, y, sample_weight=np.arange(60))
    SecVMClassifier(rounds=1, **asked).fit(X, y, sample_weight=np.ones(60))


def test_repro_weighted_person_above_the_budget_was_counted_once() -> None:
    X, y = texts()
    with pytest.raises(BadInputError, match="sample weights and a budget do not go together"):
        SecVMClassifier(**rule_and("pegasos with budget")).fit(X, y, sample_weight=np.arange(60))


def test_balanced_class_weights_that_decimals_can_write_give_the_same_bytes() -> None:
    X, _ = texts(20)
    y = np.repeat([0, 1], [4, 16])
    weights = {0: 2.5, 1: 0.625}  # 20 / (2 * 4), 20 / (2 * 16)
    for rule in ("pegasos", "swift thinned"):
        balanced = SecVMClassifier(rounds=9, class_weight="balanced", **rule_and(rule)).fit(X, y)
        assert state(balanced) == state(SecVMClassifier(rounds=9, class_weight=weights, **rule_and(rule)).fit(X, y))
        assert state(balanced) != state(SecVMClassifier(rounds=9, **rule_and(rule)).fit(X, y))


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ({7: 1}, "names 7, a label that does not occur"),
        ({0: -1}, "must not be negative"),
        ({0: 0, 1: 0}, "not all zero"),
    ],
)
def test_impossible_class_weights_are_refused(weight: dict[int, float], sentence: str) -> None:
    X, y = texts()
    with pytest.raises(BadInputError, match=sentence):
        SecVMClassifier(class_weight=weight).fit(X, y)


# -- cohorts and stopping --------------------------------------------------------------------------------------------

COHORT_RULES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "pegasos": {"descent": "pegasos"},
    "balanced": {"class_weight": "balanced"},
    "hashed": {"n_bins": 32},
    "levels": {"values": "counts"},
    "swift": {"descent": "swift", "thinning": 3},
    "swift whole": {"descent": "swift", "thinning": None},
    "budget": {"descent": "pegasos", "budget": 9},
    "logistic": {"descent": "pegasos", "loss": "logistic", "lambda_": 0.5},
}


@pytest.mark.parametrize("rule", COHORT_RULES)
@pytest.mark.parametrize("kind", [texts, columns])
def test_people_of_the_test_cohort_change_nothing(rule: str, kind: Any) -> None:
    """Vocabulary, levels, balance and dice: all as if they were not there."""
    X, y = kind(50)
    strangers, theirs = kind(20, seed=99)
    everybody = [*X, *strangers, ["never", "seen"]] if isinstance(X, list) else np.vstack([X, strangers, [[-1e9] * 5]])
    labels = np.concatenate([y, theirs, [0]])
    parameters = {"rounds": 8, "dice_seed": b"c", **COHORT_RULES[rule]}
    alone = SecVMClassifier(**parameters).fit(X, y)
    among = SecVMClassifier(**parameters).fit(everybody, labels, cohorts=["train"] * 50 + ["test"] * 21)
    assert state(among) == state(alone)
    assert among.packages_per_person_ == alone.packages_per_person_


def test_repro_vocabulary_levels_and_balance_looked_at_the_test_cohort() -> None:
    X, y = [["a"], ["b"], ["a", "b"]], [0, 1, 1]
    mask = [True, True, True, False]
    model = SecVMClassifier(rounds=3, class_weight="balanced").fit([*X, ["c"]], [*y, 0], cohorts=mask)
    assert model.get_feature_names_out().tolist() == ["a", "b"]
    assert state(model) == state(SecVMClassifier(rounds=3, class_weight="balanced").fit(X, y))


def test_cohorts_are_words_booleans_or_cohorts() -> None:
    X, y = texts(20)
    train = np.arange(20) % 3 != 1
    words = ["train" if t else "test" for t in train]
    drawn = [Cohort.TRAIN if t else Cohort.TEST for t in train]
    states = {state(SecVMClassifier(rounds=3).fit(X, y, cohorts=c)) for c in (words, drawn, train, train.tolist())}
    assert len(states) == 1


@pytest.mark.parametrize(
    ("cohorts", "sentence"),
    [
        (["train"] * 19, "a cohort for each person"),
        (["train"] * 19 + ["valid"], "a cohort is train or test"),
        (["test"] * 20, "there is nobody to train on"),
    ],
)
def test_impossible_cohorts_are_refused(cohorts: list[str], sentence: str) -> None:
    X, y = texts(20)
    with pytest.raises(BadInputError, match=sentence):
        SecVMClassifier().fit(X, y, cohorts=cohorts)


def test_plateau_stops_early_keeps_its_best_round_and_looks_at_held_out_people_only() -> None:
    X, y = texts(200)
    cohorts = ["test" if i % 5 == 0 else "train" for i in range(200)]
    model = SecVMClassifier(rounds=300, stop="plateau").fit(X, y, cohorts=cohorts)
    assert model.stopped_because_ == "plateau"
    assert 20 <= model.n_iter_ < 100
    # The kept state is one that all rounds run through.
    kept = model.state_.step
    assert kept <= model.n_iter_
    assert state(model) == state(SecVMClassifier(rounds=kept).fit(X, y, cohorts=cohorts))
    # Other labels on the people who train would be another run; other labels of the held-out only move the end.
    others = np.where([c == "test" for c in cohorts], 1 - y, y)
    turned = SecVMClassifier(rounds=300, stop="plateau").fit(X, others, cohorts=cohorts)
    assert state(turned) == state(SecVMClassifier(rounds=turned.state_.step).fit(X, y, cohorts=cohorts))


def test_plateau_draws_its_held_out_people_from_the_seed() -> None:
    X, y = texts(120)
    asked: dict[str, Any] = {"rounds": 60, "stop": "plateau", "validation_fraction": 0.3}
    one, same, other = (SecVMClassifier(dice_seed=s, **asked).fit(X, y) for s in (b"1", b"1", b"2"))
    assert state(one) == state(same)
    assert one.n_iter_ == same.n_iter_
    assert state(one) != state(other)


def test_plateau_without_anybody_held_out_is_refused() -> None:
    X, y = texts(20)
    with pytest.raises(BadInputError, match="needs people held out"):
        SecVMClassifier(stop="plateau").fit(X, y, cohorts=["train"] * 20)


def scripted(accuracies: list[int]) -> tuple[int, int]:
    """Rounds whose held-out counts are given: (the round kept, the steps in its state)."""
    X, y = texts(20)
    model = SecVMClassifier(rounds=1).fit(X, y)
    left = iter(accuracies)
    people = Population(rows=model.binner_.rows(X), labels=y)
    fitted = fit_rounds(
        OfflineTraining(model.experiment_),
        people,
        rounds=len(accuracies),
        held_out=lambda _: (next(left), 100),
        plateau=Plateau(at_least=1000),
    )
    return fitted.kept_round, fitted.state.step


def test_repro_a_spike_at_the_end_lost_the_best_round() -> None:
    """The newest round's mean is a guess. When it lost again, the best round's state was already forgotten."""
    assert scripted([50, 80, 80, 80, 50, 90, 10, 10]) == (3, 3)
    assert scripted([50, 80, 80, 80, 50, 90, 90, 90]) == (7, 7)
    assert scripted([10, 20, 30, 40, 50, 0, 0]) == (4, 4)


# -- attendance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["pegasos", "swift thinned", "pegasos logistic", "pegasos with budget"])
def test_round_with_nobody_is_abandoned_and_its_number_is_spent(rule: str) -> None:
    X, _ = texts()
    y = np.random.default_rng(5).integers(0, 2, 60)  # nothing to learn: somebody violates in every round
    half = np.random.default_rng(0).random(60) < 0.5
    table = np.array([np.ones(60, bool), np.zeros(60, bool), half])
    model = SecVMClassifier(rounds=3, **rule_and(rule)).fit(X, y, attendance=table)
    assert model.n_iter_ == 3
    assert model.state_.step == 2
    two = SecVMClassifier(rounds=2, **rule_and(rule)).fit(X, y, attendance=table)
    one = SecVMClassifier(rounds=1, **rule_and(rule)).fit(X, y)
    assert state(two) == state(one)
    # The dice of the round after are those of its number: a thinned run differs from one without the gap.
    gapless = SecVMClassifier(rounds=2, **rule_and(rule)).fit(X, y, attendance=table[[0, 2]])
    assert (state(model) == state(gapless)) == (rule == "pegasos")


def test_attendance_table_begins_anew_and_may_be_a_function() -> None:
    X, y = texts()
    table = np.random.default_rng(0).random((3, 60)) < 0.6
    cyclic = SecVMClassifier(rounds=7).fit(X, y, attendance=table)
    assert state(cyclic) == state(SecVMClassifier(rounds=7).fit(X, y, attendance=np.vstack([table] * 3)))
    assert state(cyclic) == state(SecVMClassifier(rounds=7).fit(X, y, attendance=lambda r: table[(r - 1) % 3]))
    assert state(cyclic) == state(SecVMClassifier(rounds=7).fit(X, y, attendance=table.astype(int).tolist()))


def test_nobody_ever_there_leaves_the_first_weights_and_says_so() -> None:
    X, y = texts()
    with pytest.warns(ConvergenceWarning, match="no round could be counted"):
        model = SecVMClassifier(rounds=4).fit(X, y, attendance=np.zeros((1, 60), bool))
    assert (model.stopped_because_, model.state_.step, model.n_iter_) == ("abandoned", 0, 4)
    assert (model.predict(X) == 1).all()  # score 0 predicts classes_[1]


@pytest.mark.parametrize("table", [np.ones((2, 59), bool), np.ones(60, bool), np.ones((0, 60), bool)])
def test_attendance_table_of_another_shape_is_refused(table: Any) -> None:
    X, y = texts()
    with pytest.raises(BadInputError, match="a row for each round and a column for each person"):
        SecVMClassifier().fit(X, y, attendance=table)


# -- what fit leaves behind, and says ---------------------------------------------------------------------------------


def test_each_round_is_remembered_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = texts()
    cohorts = ["test" if i % 3 == 0 else "train" for i in range(60)]
    model = SecVMClassifier(rounds=4, verbose=1).fit(X, y, cohorts=cohorts)
    assert [entry["round"] for entry in model.history_] == [1, 2, 3, 4]
    assert model.history_[0]["sent"] == 1  # from zero everybody violates
    assert sum(entry["packages"] for entry in model.history_) == pytest.approx(model.packages_per_person_)
    assert model.history_[-1]["held_out"] == model.score(X[::3], y[::3])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("round 1 of 4: 15.0 packages a person by 1.000 of the people, right about")
    assert len(said) == 4
    SecVMClassifier(rounds=2).fit(X, y)
    assert capsys.readouterr().out == ""


def test_jobs_are_counted_as_joblib_counts_them() -> None:
    processors = os.cpu_count() or 1
    assert [threads(n) for n in (None, 1, 3, -1, -processors, -1000)] == [1, 1, 3, processors, 1, 1]
    X, y = texts()
    assert state(SecVMClassifier(n_jobs=-1).fit(X, y)) == state(SecVMClassifier().fit(X, y))
    with pytest.raises(BadInputError, match="n_jobs must not be 0"):
        SecVMClassifier(n_jobs=0).fit(X, y)


def test_without_an_epsilon_what_is_spent_has_no_bound() -> None:
    assert SecVMClassifier(rounds=1).fit(*texts()).epsilon_spent_ == math.inf


def test_defaults_do_not_depend_on_dice() -> None:
    X, y = texts(labels=3)
    assert state(SecVMClassifier(random_state=1).fit(X, y)) == state(SecVMClassifier(random_state=2).fit(X, y))


# -- dice ------------------------------------------------------------------------------------------------------------


def test_same_random_state_same_bytes_and_another_differs() -> None:
    X, y = texts()
    asked: dict[str, Any] = {"thinning": 3, "rounds": 4}
    one, same, other = (SecVMClassifier(random_state=r, **asked).fit(X, y) for r in (1, 1, 2))
    assert state(one) == state(same) != state(other)
    assert state(SecVMClassifier(dice_seed=one.seed_, **asked).fit(X, y)) == state(one)


@pytest.mark.parametrize("rule", RULES)
def test_threads_do_not_change_a_bit(rule: str) -> None:
    X, y = texts(150, labels=3)
    one = SecVMClassifier(rounds=6, n_jobs=1, **rule_and(rule)).fit(X, y)
    two = SecVMClassifier(rounds=6, n_jobs=2, **rule_and(rule)).fit(X, y)
    assert state(one) == state(two)
    assert (one.decision_function(X) == two.decision_function(X)).all()


def test_repro_prediction_with_features_per_person_depended_on_the_place_in_the_list() -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=9, features_per_person=3, dice_seed=b"F").fit(X, y)
    each = np.concatenate([model.decision_function([x]) for x in X])
    assert (each == model.decision_function(X)).all()


# -- the two-cycle ---------------------------------------------------------------------------------------------------


def weak_signal(seed: int = 0) -> tuple[list[list[str]], Any]:
    crowd = ZipfPeople(n_people=1600, words_per_person=100, vocabulary=300, signal=0.1, label_noise=0.1)
    words, y = crowd.generate(seed)
    return [[str(w) for w in row] for row in words], y


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weak_signal_catches_pegasos_for_sixty_rounds_and_the_cap_frees_it(seed: int) -> None:
    X, y = weak_signal(seed)
    asked: dict[str, Any] = {"descent": "pegasos", "rounds": 60, "averaging": 1}
    with pytest.warns(ConvergenceWarning, match="end in a two-cycle"):
        caught = SecVMClassifier(**asked).fit(X[:800], y[:800])
    capped = SecVMClassifier(**asked, step_cap=0.5).fit(X[:800], y[:800])
    assert caught.two_cycle_
    assert not capped.two_cycle_
    assert caught.score(X[800:], y[800:]) < 0.56
    assert capped.score(X[800:], y[800:]) > caught.score(X[800:], y[800:]) + 0.1


def test_features_that_say_nothing_are_said() -> None:
    with pytest.warns(ConvergenceWarning, match="no feature has any weight"):
        SecVMClassifier().fit([[3.5]] * 6, [0, 1] * 3)


def test_two_cycle_is_not_seen_where_there_is_none() -> None:
    X, y = texts(200)
    assert not SecVMClassifier(descent="pegasos", rounds=40).fit(X, y).two_cycle_
    assert not SecVMClassifier(rounds=40, descent="swift").fit(*weak_signal()).two_cycle_


def test_repro_a_constant_of_another_rule_was_ignored() -> None:
    X, y = texts()
    for name, value in {"lambda_": 0.1, "averaging": 2, "step_cap": 0.5}.items():
        with pytest.raises(BadInputError, match=f"{name} belongs to pegasos: swift has step_size"):
            SecVMClassifier().set_params(**{name: value}).fit(X, y)
    with pytest.raises(BadInputError, match="decay belongs to swift: pegasos has lambda, averaging, step_cap"):
        SecVMClassifier(descent="pegasos", decay=0.5).fit(X, y)


def test_a_rule_that_is_an_object_brings_its_constants() -> None:
    X, y = texts()
    rule = Pegasos(averaging=3)
    assert SecVMClassifier(descent=rule, averaging=3, rounds=1).fit(X, y).experiment_.rule == rule
    with pytest.raises(BadInputError, match="averaging comes with the rule"):
        SecVMClassifier(descent=rule, averaging=2).fit(X, y)


# -- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("descent", ["pegasos", "swift"])
@pytest.mark.parametrize("labels", [2, 3, 5])
def test_decision_function_agrees_with_predict(multiclass: Any, descent: Any, labels: int) -> None:
    X, y = texts(120, labels=labels)
    model = SecVMClassifier(multiclass=multiclass, descent=descent, rounds=4, dice_seed=b"").fit(X, y)
    scores = model.decision_function(X)
    if labels == 2:
        assert scores.shape == (120,)
        assert (model.classes_[(scores >= 0).astype(int)] == model.predict(X)).all()
    else:
        assert scores.shape == (120, labels)
        assert (model.classes_[scores.argmax(axis=1)] == model.predict(X)).all()
    models = 1 if labels == 2 else labels if multiclass == "ovr" else labels * (labels - 1) // 2
    assert model.coef_.shape == (models, len(model.get_feature_names_out()))
    assert model.intercept_.shape == (models,)


def test_coefficients_are_what_scores_are_made_of() -> None:
    X, y = texts()
    for descent in ("pegasos", "swift"):
        model = SecVMClassifier(rounds=5, descent=descent, dice_seed=b"").fit(X, y)
        binned = model.binner_.transform(X).toarray()
        scores = binned @ model.coef_[0] + model.intercept_[0]
        norms = np.sqrt((binned**2).sum(axis=1) + 1) if descent == "swift" else 1
        assert np.allclose(model.decision_function(X), scores / norms)


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [False, True], [0, 1], [-1, 1], [10, 9], [2.0, 7.0], np.array(["b", "a"], dtype=object)],
    ids=["text", "bool", "0 1", "-1 1", "10 9", "floats", "objects"],
)
def test_labels_of_any_kind_come_back_as_they_were(names: Any) -> None:
    X, y = texts()
    named = np.array(names)[y]
    model = SecVMClassifier(rounds=20).fit(X, named)
    assert model.classes_.tolist() == sorted(np.array(names).tolist())
    assert model.score(X, named) == 1
    assert model.predict(X).dtype == model.classes_.dtype


@pytest.mark.parametrize("X", [[], {"city": []}, np.zeros((0, 2))])
def test_nobody_at_all_is_said(X: Any) -> None:
    with pytest.raises(BadInputError, match="there is nobody to train on"):
        SecVMClassifier().fit(X, [])
    with pytest.raises(BadInputError, match="there is nobody to train on"):
        SecVMRegressor().fit(X, [])


def test_one_class_and_a_number_as_label_are_refused() -> None:
    X, _ = texts(4)
    with pytest.raises(BadInputError, match="only one class"):
        SecVMClassifier().fit(X, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="Unknown label type"):
        SecVMClassifier().fit(X, [0.1, 0.25, 0.7, 1.9])
    with pytest.raises(BadInputError, match="only one class"):
        SecVMClassifier().fit(X, [0, 0, 0, 1], sample_weight=[1, 1, 1, 0])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"descent": "pegasos", "thinning": 3.0}, "thinning by rho belongs to normalised rows"),
        ({"descent": "swift", "thinning": "q=1/2"}, "thinned by rho"),
        ({"thinning": "much"}, "thinning must be a number|is not a number"),
        ({"thinning": "q=2"}, "q must be a number, greater than 0 and at most 1"),
        ({"descent": "swift", "thinning": None, "budget": 5}, "a budget counts packages"),
        ({"budget": 1}, "budget"),
        ({"loss_parameter": 2.0}, "has no parameter"),
        ({"descent": "adam"}, "descent"),
        ({"lambda_": 0}, "lambda_"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], sentence: str) -> None:
    X, y = texts()
    with pytest.raises(ValueError, match=sentence):
        SecVMClassifier(**parameters).fit(X, y)


# -- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SecVMClassifier, SecVMRegressor])
def test_help_has_every_parameter_with_its_default_and_every_attribute(kind: type[SecVMClassifier]) -> None:
    parameters, attributes = (kind.__doc__ or "").split("Attributes\n    ----------")
    for name, parameter in signature(kind.__init__).parameters.items():
        assert name == "self" or re.search(rf"\b{name}\b", parameters), name
        if isinstance(parameter.default, str):
            assert f'"{parameter.default}"' in parameters
    X, y = texts()
    model = kind(rounds=1).fit(X, y)
    fitted = {name for name in dir(model) if name.endswith("_") and not name.startswith("_")} - {"lambda_"}
    assert [name for name in sorted(fitted) if name not in attributes] == []


def test_an_editor_is_told_the_words_that_a_parameter_may_be() -> None:
    parameters = signature(SecVMClassifier.__init__).parameters
    for name, word in {"descent": "swift", "values": "presence", "stop": "plateau", "multiclass": "ovo"}.items():
        assert re.search(rf"Literal\[[^]]*['\"]{word}['\"]", str(parameters[name].annotation)), name


# -- among scikit-learn's tools --------------------------------------------------------------------------------------


def test_grid_search_chooses_among_lambdas_and_rules_on_words() -> None:
    X, y = texts(120, labels=3)
    tried = [{"descent": ["pegasos"], "lambda_": [1e-4, 10.0]}, {"descent": ["swift"]}]
    grid = GridSearchCV(SecVMClassifier(rounds=10, dice_seed=b""), tried, cv=3)
    grid.fit(X, y)
    assert grid.best_score_ > 0.9
    assert len(grid.cv_results_["params"]) == 3
    assert grid.best_estimator_.score(X, y) > 0.9
