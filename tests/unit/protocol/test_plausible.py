"""Counts that fit: no honest round breaks a rule, and each rule is broken by something."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Relay
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.evidence.plausibility import violations
from tests.unit.protocol.helpers import RELAY, STRANGER, document

N_BINS = 4
RELAYS = (Relay(url="https://relay.example/", key=RELAY.public), Relay(url="https://two.example/", key=STRANGER.public))


def experiment_of(budget: int, *, floor: int = 0, **changes: Any) -> ExperimentDocument:
    presence, hashes = changes.pop("presence", True), changes.pop("hashes", 1)
    relays = changes.pop("relays", RELAYS[:1])
    learning = Experiment(**{"n_bins": N_BINS, "labels": ("a", "b"), "rule": Pegasos(), "budget": budget, **changes})
    return document(
        experiment=learning,
        features=FeaturesWanted(source="words", description="", presence=presence),
        binning=HashedBins(bins=N_BINS, hashes=hashes, salt=bytes(16)),
        floor=max(1, floor),
        relays=relays,
    )


def counts(of: ExperimentDocument, *packages: Package) -> Tally:
    return aggregate.empty_tally(of.experiment).count(packages)


def names(of: ExperimentDocument, tally: Tally, clients: int, capsules: int, **more: Any) -> list[str]:
    found = violations(of, tally, RelayCount(opens_at=7, clients=clients, capsules=capsules), **more)
    assert all(one.sentence.endswith(".") for one in found)
    return [one.name for one in found]


# ── honest rounds ────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS: list[dict[str, Any]] = [
    {},
    {"features_per_person": 2, "hashes": 2},
    {"presence": False},
    {"labels": ("a", "b", "c"), "multiclass": "ovo", "features_per_person": 2},
    {"labels": ("a", "b", "c", "d"), "multiclass": "ovr"},
    {"labels": ("x",), "loss": Loss("epsilon-insensitive")},
    {"thinning": Thinning(q=Fraction(1, 2)), "loss": Loss("logistic")},
    {"rule": Swift(), "thinning": Thinning(rho=Fraction(1))},
]


@dataclass
class Epoch:
    """What came in one epoch: each experiment's packages, and what the relay counts."""

    documents: list[ExperimentDocument]
    arrived: list[list[Package]]
    count: RelayCount


def honest_person(of: ExperimentDocument, draw: st.DrawFn, number: int, state_steps: int) -> list[Package]:
    learning = of.experiment
    smallest = 1 if of.features.presence else -3
    values = st.integers(smallest, 3).filter(bool)
    most = learning.features_per_person or 6
    features = draw(st.dictionaries(st.sampled_from("abcdefgh"), values, max_size=most))
    hashes = of.binning.hashes
    binning = HashBinning(n_bins=N_BINS, salt=bytes(16), n_hashes=hashes)
    state = aggregate.start(learning)
    if state_steps:  # later weights, under which some are beyond the margin
        tally = aggregate.empty_tally(learning)
        tally.participants[:] = 20
        tally.plus[:, :2] = 1
        state = aggregate.step(learning, state, tally)
    return contribute(
        Individual(
            vector=bin_features(
                features, binning, presence=of.features.presence, one_per_bin=learning.cover is not None
            ),
            label=draw(st.integers(0, len(learning.labels) - 1)),
            target=draw(st.integers(-(2**33), 2**33)) if learning.loss.regression else 0,
            cohort=draw(st.sampled_from(Cohort)),
        ),
        experiment=learning,
        training=aggregate.training_weights(learning, state),
        evaluation=aggregate.evaluation_weights(learning, state),
        dice=UnsafeSeededDice(b"plausible", number),
        round_number=1,
    )


@st.composite
def honest_epochs(draw: st.DrawFn) -> Epoch:
    """One to three experiments at once; people take part in some; any packages get lost on the way to the relay."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    documents = [experiment_of(draw(st.integers(2, 9)), **kind) for kind in kinds]
    lossy = draw(st.booleans())
    arrived: list[list[Package]] = [[] for _ in documents]
    clients = capsules = 0
    steps = draw(st.integers(0, 1))
    for number in range(draw(st.integers(1, 6))):
        came = 0
        for of, there in zip(documents, arrived, strict=True):
            if draw(st.booleans()):
                sent = honest_person(of, draw, number, steps)
                assert len(sent) == of.budget
                left = [one for one in sent if not lossy or draw(st.booleans())]
                there.extend(left)
                came += len(left)
        clients += came > 0
        capsules += came
    return Epoch(documents, arrived, RelayCount(opens_at=7, clients=clients, capsules=capsules))


@given(honest_epochs())
def test_honest_rounds_fit_whatever_gets_lost(epoch: Epoch) -> None:
    for of, packages in zip(epoch.documents, epoch.arrived, strict=True):
        tally = counts(of, *packages)
        found = violations(of, tally, epoch.count, opened_at=7)
        # A round below the floor is abandoned and has no tally.
        assert [one.name for one in found if one.name != "below-floor"] == []
        assert any(one.name == "below-floor" for one in found) != of.reaches_floor(tally.participants.tolist())


PACKAGES = st.one_of(
    st.builds(ParticipationPackage, cohort=st.just(Cohort.TRAIN), class_index=st.integers(0, 1)),
    st.builds(TestPackage, true_class=st.integers(0, 1), predicted_class=st.integers(0, 1)),
    st.builds(TrainPackage, model=st.just(0), bin_index=st.integers(0, N_BINS), sign=st.sampled_from([1, -1])),
)


@given(st.lists(PACKAGES, max_size=30), st.integers(2, 6), st.integers(0, 10), st.integers(0, 40))
def test_what_fits_is_at_most_the_budget_of_every_client(
    packages: list[Package], budget: int, clients: int, capsules: int
) -> None:
    of = experiment_of(budget)
    if not set(names(of, counts(of, *packages), clients, capsules)) - {"below-floor"}:
        assert len(packages) <= min(budget * clients, capsules)


@given(st.lists(PACKAGES, max_size=30), st.integers(0, 10))
def test_whatever_people_send_an_honest_count_breaks_only_rules_about_people(
    packages: list[Package], clients: int
) -> None:
    of = experiment_of(3)
    found = violations(of, counts(of, *packages), RelayCount(opens_at=7, clients=clients, capsules=len(packages)))
    assert {one.name for one in found if one.whatever_people_send} <= {"below-floor"}


# ── each rule ────────────────────────────────────────────────────────────────────────────────────────────────────────

TRAINS = ParticipationPackage(cohort=Cohort.TRAIN, class_index=0)
TRAINS_B = ParticipationPackage(cohort=Cohort.TRAIN, class_index=1)
TESTS = TestPackage(true_class=0, predicted_class=0)


def unit(bin_index: int = 0, sign: Any = -1, model: int = 0) -> TrainPackage:
    return TrainPackage(model=model, bin_index=bin_index, sign=sign)


def test_a_round_below_the_floor_does_not_fit() -> None:
    of = experiment_of(5, floor=3)
    assert names(of, counts(of, TRAINS, TRAINS), 9, 99) == ["below-floor"]
    assert names(of, counts(of, TRAINS, TRAINS, TRAINS_B), 9, 99) == []


def test_cells_do_not_fit_a_label_that_is_a_number() -> None:
    of = experiment_of(5, labels=("x",), loss=Loss("epsilon-insensitive"))
    assert names(of, counts(of, TRAINS), 9, 99) == []
    assert names(of, counts(of, TRAINS, TESTS), 9, 99) == ["cells-of-numbers"]


def test_repro_a_count_of_another_slot_does_not_fit_also_256_slots_away() -> None:
    of = experiment_of(5)
    assert names(of, counts(of, TRAINS), 9, 99, opened_at=7) == []
    # A relay's slots may have any length. 256 slots away the gateway's key has the same id.
    for opened_at in (8, 6, 7 + 256, 7 + 256 * 3_600_000):
        assert names(of, counts(of, TRAINS), 9, 99, opened_at=opened_at) == ["another-slot"]


def test_one_package_more_than_capsules_does_not_fit() -> None:
    of = experiment_of(5)
    tally = counts(of, TRAINS, unit(), unit(1), TESTS)
    assert names(of, tally, 2, 4) == []
    assert names(of, tally, 2, 3) == ["more-packages-than-capsules"]


def test_one_person_more_than_clients_does_not_fit() -> None:
    of = experiment_of(5)
    assert names(of, counts(of, TRAINS, TESTS), 2, 99) == []
    assert names(of, counts(of, TRAINS, TESTS), 1, 99) == ["more-people-than-clients"]


def test_one_unit_more_than_the_budget_of_those_who_may_train_does_not_fit() -> None:
    of = experiment_of(3, labels=("a", "b", "c"))
    tally = counts(of, TRAINS, TESTS, unit(sign=1), unit(model=1))
    assert names(of, tally, 2, 99) == []
    # Two in each of two models: neither is too much alone.
    assert names(of, tally.count([unit(model=1)]), 2, 99) == ["more-units-than-budget"]


def test_units_of_a_model_are_bounded_by_the_features_of_a_person() -> None:
    of = experiment_of(9, features_per_person=1, hashes=2)
    three = counts(of, TRAINS, unit(0), unit(0), unit(N_BINS))
    assert names(of, three, 1, 99) == []
    assert names(of, three.count([unit(1)]), 1, 99) == ["more-units-in-a-model", "more-units-of-a-sign"]
    counted = experiment_of(9, features_per_person=1, presence=False)
    assert names(counted, three.count([unit(1)]), 1, 99) == []


def test_who_takes_no_part_in_a_model_sends_nothing_in_it() -> None:
    of = experiment_of(3, labels=("a", "b", "c"), multiclass="ovo", presence=False)
    # Model 2 is of b and c; the only client is of label a.
    assert names(of, counts(of, TRAINS, unit(model=2)), 1, 99) == ["more-units-in-a-model"]
    assert names(of, counts(of, TRAINS, unit(model=2)), 2, 99) == []


def test_who_takes_no_part_in_a_model_is_of_neither_of_its_signs() -> None:
    of = experiment_of(3, labels=("a", "b", "c"), multiclass="ovo")
    # Both clients are known, as a and b; nobody is left to be c, the positive side of model 2.
    told = counts(of, TRAINS, TRAINS_B, unit(model=2, sign=1))
    assert names(of, told, 2, 99) == ["more-units-of-a-sign"]
    assert names(of, told, 3, 99) == []


def test_a_person_has_one_bias_in_a_model() -> None:
    of = experiment_of(5)
    assert names(of, counts(of, TRAINS, unit(N_BINS)), 1, 99) == []
    assert names(of, counts(of, TRAINS, unit(N_BINS), unit(N_BINS)), 1, 99) == [
        "more-biases-in-a-model",
        "more-biases-of-a-sign",
    ]


@pytest.mark.parametrize("presence", [True, False])
def test_a_sign_that_nobody_has_does_not_fit(presence: bool) -> None:
    of = experiment_of(5, presence=presence)
    assert names(of, counts(of, TRAINS, unit(N_BINS, sign=1)), 1, 99) == ["more-biases-of-a-sign"] + (
        ["more-units-of-a-sign"] if presence else []
    )
    # Features that count below zero turn the sign of their bin, and a second client may be of the other label.
    assert names(of, counts(of, TRAINS, unit(sign=1)), 1, 99) == (["more-units-of-a-sign"] if presence else [])
    assert names(of, counts(of, TRAINS, unit(sign=1)), 2, 99) == []


def test_numbers_as_labels_have_any_sign() -> None:
    of = experiment_of(5, labels=("x",), loss=Loss("epsilon-insensitive"))
    assert names(of, counts(of, TRAINS, unit(N_BINS, sign=-1)), 1, 99) == []


def test_with_two_relays_or_no_count_only_what_still_holds_is_checked() -> None:
    of = experiment_of(5, relays=RELAYS, floor=3)
    wrong = counts(of, TRAINS, *[unit()] * 50)
    assert names(of, wrong, 0, 0, opened_at=8) == ["below-floor", "another-slot"]
    assert [one.name for one in violations(of, wrong, None, opened_at=8)] == ["below-floor"]


def test_counts_that_would_wrap_around_do_not_fit() -> None:
    of = experiment_of(5, rule=Pegasos())
    tally = counts(of, TRAINS)
    huge = Tally(tally.plus + 2**62, tally.minus, tally.participants, tally.cells)
    with np.errstate(over="ignore"):
        assert int(huge.plus[:, :4].sum()) == 0
    assert "more-packages-than-capsules" in names(of, huge, 9, 99)
