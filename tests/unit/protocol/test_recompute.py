"""One step played again, exactly; and caps, exactly on the edge."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError, InconsistentManifestError
from secvm.learning import aggregate
from secvm.learning.weights import Weights
from secvm.protocol.documents.blobs import MAX_COUNT, decode_tally
from secvm.protocol.documents.recomputation import Caps, first_model, model_of, next_model, what_differs
from secvm_lab.rigs.histories.public_history import PublicHistory


@pytest.fixture
def made() -> PublicHistory:
    found = PublicHistory.drawn(random.Random(8), beacons=0)
    found.play(2, abandoned=0)
    found.announce()
    return found


def weights(*rows: list[int], unit: Fraction = Fraction(1)) -> Weights:
    return Weights(np.array(rows, dtype=np.int32), unit)


def test_every_manifest_names_the_model_that_follows(made: PublicHistory) -> None:
    model = first_model(made.document)
    for before, after in zip(made.manifests, made.manifests[1:], strict=False):
        assert what_differs(before, model) is None
        assert before.model == model.names
        assert after.last is not None
        blob = made.files[f"/v1/blob/{after.last.tally}"]
        tally = decode_tally(blob, digest=after.last.tally or "", experiment=made.document.experiment)
        model = next_model(made.document, model.state, tally)
    assert what_differs(made.manifests[-1], model) is None


def test_what_differs_is_told_in_words(made: PublicHistory) -> None:
    manifest, model = made.manifests[-1], model_of(made.document, made.state)
    other = "ab" * 32
    assert what_differs(replace(manifest, state=other), model) == "another state"
    assert what_differs(replace(manifest, training_weights=other), model) == "training weights that are not the state's"
    told = what_differs(replace(manifest, evaluation_weights=other), model)
    assert told == "evaluation weights that are not the state's"


def test_an_abandoned_round_leaves_the_model_as_it_is(made: PublicHistory) -> None:
    assert next_model(made.document, made.state, None).names == model_of(made.document, made.state).names


def test_a_tally_from_which_no_step_can_be_taken_is_nobodys(made: PublicHistory) -> None:
    empty = aggregate.empty_tally(made.document.experiment)
    with pytest.raises(InconsistentManifestError, match="no step"):
        next_model(made.document, made.state, empty)


@pytest.mark.parametrize("seed", range(12))
def test_the_largest_counts_give_a_step_or_a_refusal_and_nothing_else(seed: int) -> None:
    found = PublicHistory.drawn(random.Random(seed), beacons=0)
    empty = aggregate.empty_tally(found.document.experiment)
    one = np.zeros_like(empty.participants)
    one[0] = 1
    for plus, people in ((MAX_COUNT, one), (MAX_COUNT, np.full_like(one, MAX_COUNT)), (0, one)):
        tally = replace(empty, plus=np.full_like(empty.plus, plus), participants=people)
        state = found.state
        try:
            for _ in range(3):
                state = next_model(found.document, state, tally).state
        except InconsistentManifestError:
            continue
        assert state.step == 3


# ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


#: 3, 4 | 7: norm 5, bias 7, in units of a third.
THIRDS = weights([3, -4, -7], unit=Fraction(1, 3))
JUST_BELOW = Fraction(1, 10**30)


@pytest.mark.parametrize(
    ("caps", "of", "word"),
    [
        (Caps(), THIRDS, None),
        (Caps(norm=Fraction(5, 3), bias=Fraction(7, 3)), THIRDS, None),
        (Caps(norm=Fraction(5, 3) - JUST_BELOW), THIRDS, "weights"),
        (Caps(bias=Fraction(7, 3) - JUST_BELOW), THIRDS, "bias"),
        # Each model is held to them, and zero is a cap.
        (Caps(norm=Fraction(9)), weights([0, 0, 0], [0, 9, 0]), None),
        (Caps(norm=Fraction(8)), weights([0, 0, 0], [0, 9, 0]), "weights"),
        (Caps(norm=Fraction(0), bias=Fraction(0)), weights([0, 0]), None),
        (Caps(bias=Fraction(0)), weights([0, 1]), "bias"),
    ],
)
def test_caps_hold_exactly_on_the_edge(caps: Caps, of: Weights, word: str | None) -> None:
    refused = caps.refuses(of)
    assert refused is None if word is None else word in (refused or "")


@pytest.mark.parametrize("wrong", [{"norm": Fraction(-1)}, {"bias": Fraction(-1, 9)}])
def test_less_than_zero_is_no_cap(wrong: dict[str, Fraction]) -> None:
    with pytest.raises(BadInputError):
        Caps(**wrong)


@given(
    st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=2, max_size=40),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000),
)
def test_a_norm_is_compared_without_rounding(row: list[int], unit: Fraction) -> None:
    squared = sum(m * m for m in row[:-1]) * unit**2
    cap = unit * max(abs(m) for m in row)
    refused = Caps(norm=cap).refuses(weights(row, unit=unit)) is not None
    assert refused == (squared > cap**2)
