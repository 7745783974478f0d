"""The keystone: the estimator and a package-by-package path end in identical state bytes."""

import random
import warnings
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from secvm.estimator import SecVMClassifier, SecVMRegressor
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, VocabularyBinning, bin_features
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import UnsafeSeededDice, sample_features
from secvm.learning.individual.update import fixed_target
from secvm.learning.package import Cohort
from tests.unit.estimator.packages import PackagePath

WORDS = [f"w{i}" for i in range(9)]
ROUNDS = 5
Person = dict[str, int]


def people_of(
    model: SecVMClassifier | SecVMRegressor,
    folk: list[Person],
    y: list[Any],
    cohorts: list[str] | None = None,
) -> list[Individual]:
    """What each device makes of its own features and label, with the binning that the experiment published."""
    experiment: Experiment = model.experiment_
    binning: HashBinning | VocabularyBinning = model.binner_.binning_
    labels = list(experiment.labels)
    found = []
    for i, (features, label) in enumerate(zip(folk, y, strict=True)):
        sampled = sample_features(features, experiment.features_per_person, UnsafeSeededDice(model.seed_, i))
        target = 0
        if experiment.loss.regression:
            target = fixed_target(label, centre=experiment.target_centre, spread=experiment.target_spread)
        found.append(
            Individual(
                vector=bin_features(sampled, binning, presence=model.values == "presence"),
                label=0 if experiment.loss.regression else labels.index(str(label)),
                target=target,
                cohort=Cohort(cohorts[i]) if cohorts else Cohort.TRAIN,
            )
        )
    return found


def assert_packages_agree(
    model: SecVMClassifier | SecVMRegressor,
    folk: list[Person],
    y: list[Any],
    *,
    network: random.Random,
    cohorts: list[str] | None = None,
    attendance: NDArray[np.bool_] | None = None,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # nobody may be there, or nothing be learnt
        model.fit(folk, y, cohorts=cohorts, attendance=attendance)
    path = PackagePath(model.experiment_, people_of(model, folk, y, cohorts), model.seed_, network)
    state = path.run(model.n_iter_, attendance)
    assert state.to_bytes() == model.state_.to_bytes()


def folk_strategy(least: int) -> st.SearchStrategy[list[Person]]:
    values = st.integers(least, 6).filter(bool)
    return st.lists(st.dictionaries(st.sampled_from(WORDS), values, max_size=7), min_size=4, max_size=14).filter(any)


#: (descent, thinning): everything a device can send. Unthinned swift is offline only: no package can carry it.
SENDABLE = st.sampled_from(
    [
        ("pegasos", None),
        ("pegasos", "q=1/2"),
        ("pegasos", "q=0.93"),
        ("swift", 0.5),
        ("swift", 1.5),
        ("swift", 3.0),
    ]
)


@st.composite
def classification(draw: st.DrawFn) -> tuple[SecVMClassifier, list[Person], list[str], dict[str, Any]]:
    negative = draw(st.booleans())
    folk = draw(folk_strategy(-4 if negative else 1))
    labels = ["a", "b", "c", "d"][: draw(st.integers(2, 4))]
    y = [labels[i] if i < len(labels) else draw(st.sampled_from(labels)) for i in range(len(folk))]
    how: tuple[Any, Any] = draw(SENDABLE)
    descent, thinning = how
    # With negative values a package's sign does not tell its side: class weights then cannot be applied to counts.
    weights: Any = None if negative else draw(st.sampled_from([None, "balanced", {"a": 2.5}, {"a": 0.3, "b": 7}]))
    model = SecVMClassifier(
        n_bins=draw(st.sampled_from([None, 1, 5, 64])),
        n_hashes=draw(st.integers(1, 2)),
        salt=draw(st.binary(min_size=1, max_size=4)),
        features_per_person=draw(st.sampled_from([None, 1, 3])),
        loss=draw(st.sampled_from(["hinge", "perceptron", "logistic", "squared-hinge", "modified-huber"])),
        descent=descent,
        thinning=thinning,
        lambda_=draw(st.sampled_from([1e-4, 0.03, 0.7, 5.0])) if descent == "pegasos" else None,
        averaging=draw(st.integers(1, 3)) if descent == "pegasos" else None,
        step_cap=draw(st.sampled_from([None, 0.5])) if descent == "pegasos" else None,
        decay=draw(st.sampled_from([0.0, 0.05])) if descent == "swift" else None,
        class_weight=weights,
        multiclass=draw(st.sampled_from(["ovr", "ovo"])),
        budget=draw(st.sampled_from([None, 2, 7, 30])),
        rounds=ROUNDS,
        dice_seed=draw(st.binary(max_size=4)),
        n_jobs=draw(st.integers(1, 2)),
    )
    more: dict[str, Any] = {"attendance": draw(attendances(len(folk)))}
    if draw(st.booleans()):
        more["cohorts"] = [
            "train",
            *draw(st.lists(st.sampled_from(["train", "test"]), min_size=len(folk) - 1, max_size=len(folk) - 1)),
        ]
    return model, folk, y, more


@st.composite
def attendances(draw: st.DrawFn, n: int) -> NDArray[np.bool_] | None:
    """Nobody, few or many in each of three rounds, or no table."""
    if draw(st.booleans()):
        return None
    rows = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=3, max_size=3))
    return np.array(rows, dtype=np.bool_)


@settings(max_examples=150)
@given(classification(), st.randoms(use_true_random=False))
def test_classifier_ends_in_the_bytes_of_the_packages(
    case: tuple[SecVMClassifier, list[Person], list[str], dict[str, Any]], network: random.Random
) -> None:
    model, folk, y, more = case
    if (
        "cohorts" in more
        and model.n_bins is None
        and not any(person for person, cohort in zip(folk, more["cohorts"], strict=True) if cohort == "train")
    ):
        more.pop("cohorts")  # a vocabulary needs somebody with a word among those who train
    assert_packages_agree(model, folk, y, network=network, **more)


@settings(max_examples=100)
@given(
    st.data(),
    st.booleans(),
    SENDABLE,
    st.sampled_from([("epsilon-insensitive", None), ("epsilon-insensitive", 0.0), ("pinball", 0.5), ("pinball", 0.2)]),
    st.randoms(use_true_random=False),
)
def test_regressor_ends_in_the_bytes_of_the_packages(
    data: st.DataObject,
    negative: bool,
    how: tuple[Any, Any],
    loss: tuple[str, float | None],
    network: random.Random,
) -> None:
    # Pinball's two factors cannot be applied to counts when a value is negative.
    folk = data.draw(folk_strategy(-4 if negative and loss != ("pinball", 0.2) else 1))
    numbers = st.floats(-100, 100, allow_nan=False).map(lambda v: round(v, 3))
    y = data.draw(st.lists(numbers, min_size=len(folk), max_size=len(folk)))
    model = SecVMRegressor(
        n_bins=data.draw(st.sampled_from([None, 5])),
        values=data.draw(st.sampled_from(["counts", "counts" if negative else "presence"])),
        features_per_person=data.draw(st.sampled_from([None, 2])),
        loss=loss[0],
        loss_parameter=loss[1],
        descent=how[0],
        thinning=how[1],
        budget=data.draw(st.sampled_from([None, 5, 30])),
        lambda_=data.draw(st.sampled_from([0.1, 3.0])) if how[0] == "pegasos" else None,
        rounds=ROUNDS,
        dice_seed=data.draw(st.binary(max_size=4)),
    )
    attendance = data.draw(attendances(len(folk)))
    assert_packages_agree(model, folk, y, network=network, attendance=attendance)


def test_package_path_sees_a_package_lost() -> None:
    """The comparison has teeth: one unit that is not counted is another state."""
    folk: list[Person] = [{"tea": 2}, {"sea": 1}, {"tea": 1, "sea": 3}]
    y = ["n", "s", "s"]
    model = SecVMClassifier(descent="pegasos", rounds=2, dice_seed=b"").fit(folk, y)
    people = people_of(model, folk, y)
    whole = PackagePath(model.experiment_, people, b"", random.Random(1)).run(2)
    assert whole.to_bytes() == model.state_.to_bytes()
    people[0] = people_of(model, [{"tea": 1}, *folk[1:]], y)[0]
    assert PackagePath(model.experiment_, people, b"", random.Random(1)).run(2).to_bytes() != whole.to_bytes()
