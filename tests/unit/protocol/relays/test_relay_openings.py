"""Openings: what is missing, what is false, and what a next round may make of it."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.faults import Inconsistency, Missing, OpeningFault
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import (
    Opening,
    RelayedEnding,
    clients_of,
    following_faults,
    is_opened,
    opening_faults,
)
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, STRANGER, RelayedRound

ROUND = RelayedRound()
OPENING, MANIFEST, DOCUMENT = ROUND.opening, ROUND.manifest, ROUND.document
NAMES = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
UNOPENED: dict[str, Any] = {"count_seed": None, "tally": None, "shards": None}


def faults(opening: Opening = OPENING, manifest: RelayedManifest = MANIFEST) -> set[OpeningFault]:
    return set(opening_faults(opening, manifest, DOCUMENT))


def test_an_honest_round_is_opened() -> None:
    assert is_opened(OPENING, MANIFEST, DOCUMENT)
    assert clients_of(OPENING) == 5


@given(st.sets(st.sampled_from(NAMES)))
def test_what_is_missing_is_told_and_accuses_nobody(gone: set[str]) -> None:
    without: dict[str, Any] = {**dict.fromkeys(gone), **UNOPENED}
    opening = replace(OPENING, **without)
    assert opening.missing == (*(Missing[name.upper()] for name in NAMES if name in gone), Missing.SEED)
    assert Opening.from_bytes(opening.data) == opening
    assert faults(opening) == set()
    assert not is_opened(opening, MANIFEST, DOCUMENT)


@pytest.mark.parametrize("changes", [{"tally": None}, {"shards": None}, {"count_seed": None}, {"mix_reveal": None}])
def test_seed_tally_and_shards_stand_there_together_or_not_at_all(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        _ = replace(OPENING, **changes).data


def test_a_count_key_that_its_seed_does_not_give_opens_nothing() -> None:
    other = X25519PrivateKey.derive(hashlib.sha256(b"other").digest()).public_key.to_bytes()
    manifest = replace(MANIFEST, count_key=other)
    assert OpeningFault.COUNT_KEY in faults(OPENING, manifest)


# ── the next round ───────────────────────────────────────────────────────────────────────────────────────────────────


def stepped(opening: Opening) -> RelayedManifest:
    """The next manifest, with another state."""
    return replace(ROUND.following(opening_before=opening).manifest, state=digest_of(b"another state"))


def test_a_round_that_was_opened_and_had_people_may_step() -> None:
    assert following_faults(stepped(OPENING), MANIFEST, OPENING, DOCUMENT) == ()


@pytest.mark.parametrize("kind", ["unopened", "false", "below the floor"])
def test_any_other_leaves_the_state_as_it_was(kind: str) -> None:
    few = RelayedRound(clients=2)
    assert few.manifest == MANIFEST
    opening = {
        "unopened": replace(OPENING, **UNOPENED),
        "false": replace(OPENING, count_seed=bytes(32)),
        "below the floor": few.opening,
    }[kind]
    assert following_faults(stepped(opening), MANIFEST, opening, DOCUMENT) == (Inconsistency.UNOPENED_STEP,)
    same = ROUND.following(opening_before=opening).manifest
    assert following_faults(same, MANIFEST, opening, DOCUMENT) == ()


def test_another_opening_is_not_the_one_that_the_manifest_names() -> None:
    found = following_faults(stepped(OPENING), MANIFEST, replace(OPENING, tally="0" * 64), DOCUMENT)
    assert found == (Inconsistency.OTHER_OPENING,)


def test_an_ending_names_the_last_round_or_none() -> None:
    told: dict[str, Any] = {"experiment": DOCUMENT.digest, "why": "finished"}
    told |= dict(zip(("state", "training_weights", "evaluation_weights"), MANIFEST.model, strict=True))
    ending = RelayedEnding(round_number=1, manifest=MANIFEST.digest, opening=OPENING.digest, **told)
    assert DOCUMENT.read(RelayedEnding, ending.signed([COORDINATOR])) == ending
    with pytest.raises(BadSignatureError):
        DOCUMENT.read(RelayedEnding, ending.signed([STRANGER]))
    none = RelayedEnding(round_number=0, manifest=None, opening=None, **told)
    assert RelayedEnding.from_bytes(none.data) == none
    for bad in ({"opening": None}, {"round_number": 0}, {"manifest": None}):
        with pytest.raises(LocalProtocolError):
            _ = replace(ending, **bad).data
    with pytest.raises(MalformedMessageError):
        RelayedEnding.from_bytes(ending.data.replace(b"finished", b"finishes"))
