"""Statements about two relays: ε is zero-out's, the label's beside it; who breaks it is read from the operators."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import Adjacency
from secvm.privacy.accounting.guarantee import charged_after, epsilon_after
from secvm.privacy.risk import times_in_ten, up
from secvm.privacy.statements.operators import Operators, relay_coalitions
from secvm.privacy.statements.relayed import CoveredTerms, RelayedStatement, state_relayed
from secvm.privacy.statements.relayed_text import as_text
from secvm.privacy.target import PrivacyTarget
from tests.unit.learning.helpers import relay_cover

COVER = relay_cover(bins=40, train="2", here="4", tested="2", parts=9, room=600)
EXPERIMENT = Experiment(
    n_bins=40,
    labels=("a", "b"),
    rule=Pegasos(),
    features_per_person=5,
    budget=8,
    cover=COVER,
    thinning=Thinning(q=Fraction(1, 2)),
)
TWO = Operators(entry="Ada's relay", mix="University of B", coordinators=("Cee",))
TERMS = CoveredTerms(
    experiment=EXPERIMENT,
    rounds=2,
    floor=100,
    claimed=PrivacyTarget(Fraction(4)),
    operators=TWO,
    people=1000,
)


def stated(terms: CoveredTerms = TERMS, *, one_relay: bool = False) -> RelayedStatement:
    return state_relayed(terms, one_relay=one_relay, bytes_per_package=128)


def test_epsilon_is_zero_outs_and_the_label_is_charged() -> None:
    told, mechanism = stated(), TERMS.mechanism
    assert mechanism is not None
    assert told.own is not None
    assert told.own.epsilon == mechanism.epsilon(delta=1e-6)
    assert told.own.epsilon_flip == mechanism.epsilon(delta=1e-6, adjacency=Adjacency.LABEL_FLIP)
    assert told.own.epsilon < told.own.epsilon_flip == told.own.charged
    assert told.own.epsilon_round == epsilon_after(mechanism, 1, 1e-6)
    assert charged_after(mechanism, 1, 1e-6) == told.own.epsilon_flip_round
    assert charged_after(mechanism, 0, 1e-6) == 0


def test_a_claim_is_not_believed() -> None:
    told = stated()
    assert told.planned is not None
    assert told.kept
    less = stated(replace(TERMS, claimed=PrivacyTarget(Fraction(1, 10))))
    assert not less.kept
    assert less.planned == told.planned
    assert "claims ε = 0.1, δ = 1e-06, and its noise does not keep that" in as_text(less)


def test_neither_people_nor_floor_change_the_guarantee() -> None:
    other = stated(replace(TERMS, people=10_000_000, floor=2))
    assert other.own == stated().own


def test_an_experiment_without_noise_or_a_second_party_has_no_guarantee() -> None:
    plain = stated(replace(TERMS, experiment=replace(EXPERIMENT, cover=None)))
    assert plain.why_no_guarantee == "this experiment adds no noise"
    assert plain.own is None
    assert plain.caught is None
    assert not plain.protects
    assert plain.risk == 1
    assert as_text(plain).startswith("Nothing limits the risk")
    assert "There is no formal guarantee: this experiment adds no noise." in as_text(plain)


# ── who breaks it ────────────────────────────────────────────────────────────────────────────────────────────────────


ADA, UNIVERSITY = "Ada's relay (the entry relay)", "University of B (the mixing relay)"


@pytest.mark.parametrize(
    ("operators", "parties", "relied_on", "guaranteed", "with_profile"),
    [
        (TWO, f"{ADA} and {UNIVERSITY} together", 2, True, True),
        (replace(TWO, coordinators=()), f"{ADA} and {UNIVERSITY} together", 2, True, True),
        (replace(TWO, mix="Cee"), f"{ADA} and Cee (the mixing relay and the coordinator) together", 1, False, True),
        (
            replace(TWO, entry=" cee"),
            f" cee (the entry relay and the coordinator) and {UNIVERSITY} together",
            1,
            False,
            True,
        ),
        (replace(TWO, mix="ada's RELAY"), "Ada's relay (both relays) alone", 1, False, False),
        (
            replace(TWO, coordinators=("Ada's relay", "University of B")),
            f"{ADA[:-1]} and the coordinator) and {UNIVERSITY[:-1]} and the coordinator) together",
            0,
            False,
            False,
        ),
        (
            Operators(entry="C", mix="C", coordinators=("C",)),
            "C (both relays and the coordinator) alone",
            0,
            False,
            False,
        ),
    ],
)
def test_coalitions_are_read_from_the_operators(
    operators: Operators, parties: str, relied_on: int, guaranteed: bool, with_profile: bool
) -> None:
    (found,) = relay_coalitions(operators)
    assert found.parties == parties
    assert len(operators.relied_on) == relied_on
    terms = replace(TERMS, operators=operators)
    assert stated(terms).formal is guaranteed
    assert stated(terms, one_relay=True).formal is with_profile


def test_a_study_whose_coordinator_runs_a_relay_rests_on_the_other() -> None:
    study = replace(TERMS, operators=replace(TWO, mix="Cee"))
    assert 'profile = "one relay" under [trust]' in as_text(stated(study))
    told = as_text(stated(study, one_relay=True))
    assert "Ada's relay (the entry relay; the coordinator's operator runs the other) is honest in each round" in told
    other = replace(TERMS, operators=replace(TWO, entry="Cee"))
    assert "University of B (the mixing relay; the coordinator's" in as_text(stated(other, one_relay=True))


# ── in words and as JSON ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_words_have_every_number() -> None:
    told = stated()
    assert told.own is not None
    assert told.caught is not None
    text = as_text(told)
    for piece in (
        f"ε = {up(told.own.epsilon, 100):.2f}; after one round ε = {up(told.own.epsilon_round, 100):.2f}",
        f"ε = {up(told.own.epsilon_flip, 100):.2f} (one round: {up(told.own.epsilon_flip_round, 100):.2f})",
        f"{up(math.exp(told.own.epsilon), 10):,.1f} times more or less likely",
        "a probability δ of one in 1,000,000",
        f"right at most {times_in_ten(told.risk):.1f} times in 10",
        f"at most {up(told.risk, 1000):.3f} (0.5 is a coin",
        "one of Ada's relay (the entry relay) and University of B (the mixing relay) is honest",
        f"this is enough, and less is not: {ADA} and {UNIVERSITY} together can",
        "falsifies its noise is seen with a chance of 1 in 9 at least",
        f"drops or replaces {told.caught.blindly_99:,} capsules blindly",
        "1 in 8, and surely if it drops all",
        "1,024 bytes in every round: exactly 8 packages",
        "Ada's relay, the entry relay, learns that your address takes part",
    ):
        assert piece in text


def test_the_fullest_cell_holds_everybody_who_trains() -> None:
    told = stated(replace(TERMS, train_share=Fraction(1, 2)))
    assert told.caught is not None
    assert told.caught.fullest_cell.people == 500
    # Six units at most, half of them sent, over 82 cells.
    assert told.caught.mean_cell.people == math.ceil(500 * 3 / 82)
    assert told.caught.mean_cell.cover == told.caught.fullest_cell.cover == round(30 * 9 / 8)


def test_a_statement_is_json() -> None:
    content = json.loads(json.dumps(stated().content(), allow_nan=False))
    assert content["kind"] == "relays"
    assert content["own"]["epsilon"] < content["own"]["epsilon_flip"]
    assert content["relied_on"] == ["Ada's relay", "University of B"]
    assert content["caught"]["false_cover"] == pytest.approx(1 / 9)
    assert content["cover_packages"] == 5400


def test_noise_that_is_not_enough_is_said_to_be_none() -> None:
    faint = replace(COVER, train=replace(COVER.train, odds=Fraction(1, 1000)))
    told = stated(replace(TERMS, experiment=replace(EXPERIMENT, cover=faint)))
    assert told.own is not None
    assert math.isinf(told.own.epsilon)
    assert "the noise of one relay is not enough" in as_text(told)
    assert "To break it" not in as_text(told)
    assert not told.protects
    assert told.content()["own"]["epsilon"] is None
