"""Openings: what is missing, what is false, and what a next round may make of it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.documents.faults import Inconsistency, Missing, OpeningFault
from secvm.protocol.relays.commitments import part_path
from secvm.protocol.relays.counts import entry_reveal, mix_reveal
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import (
    MAX_OPENING_BYTES,
    Opening,
    RelayedEnding,
    clients_of,
    following_faults,
    is_opened,
    opening_faults,
)
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, STRANGER, RelayedRound

ROUND = RelayedRound()
OPENING, MANIFEST, DOCUMENT = ROUND.opening, ROUND.manifest, ROUND.document
NAMES = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
UNOPENED: dict[str, Any] = {"count_seed": None, "tally": None, "shards": None}


def faults(opening: Opening = OPENING, manifest: RelayedManifest = MANIFEST) -> set[OpeningFault]:
    return set(opening_faults(opening, manifest, DOCUMENT))


def test_an_honest_round_is_opened() -> None:
    assert OPENING.is_opened
    assert faults() == set()
    assert is_opened(OPENING, MANIFEST, DOCUMENT)
    assert clients_of(OPENING) == 5
    assert DOCUMENT.read(Opening, OPENING.signed([COORDINATOR])) == OPENING


@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_what_is_missing_is_told_and_accuses_nobody(gone: set[str]) -> None:
    without: dict[str, Any] = {**dict.fromkeys(gone), **UNOPENED}
    opening = replace(OPENING, **without)
    assert opening.missing == (*(Missing[name.upper()] for name in NAMES if name in gone), Missing.SEED)
    assert Opening.from_bytes(opening.data) == opening
    assert faults(opening) == set()
    assert not is_opened(opening, MANIFEST, DOCUMENT)


def test_a_seed_alone_can_be_missing() -> None:
    opening = replace(OPENING, **UNOPENED)
    assert Opening.from_bytes(opening.data).missing == (Missing.SEED,)


@pytest.mark.parametrize("changes", [{"tally": None}, {"shards": None}, {"count_seed": None}, {"mix_reveal": None}])
def test_seed_tally_and_shards_stand_there_together_or_not_at_all(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        _ = replace(OPENING, **changes).data


# ── every lie, and what it is called ─────────────────────────────────────────────────────────────────────────────────


def lie(what: str, **changes: Any) -> Callable[[], Opening]:
    """The opening with one statement changed, signed by its relay as if it were true."""
    key = ENTRY if what.startswith("entry") else MIX
    return lambda: replace(OPENING, **{what: replace(getattr(ROUND, what), **changes).signed(key)})


def other_mix_count() -> Opening:
    """The mixing relay publishes another count than the one that both reveals answer."""
    return replace(OPENING, mix_count=replace(ROUND.mix_count, root=bytes(32)).signed(MIX))


def other_part() -> Opening:
    """Both relays open a part that they like better."""
    part = (ROUND.entry_reveal.part + 1) % ROUND.parts
    secrets = [ROUND.secret(role) for role in ("entry", "mix")]
    count = ROUND.mix_count.signed(MIX)
    # A nonce that is made up changes the part; the right seeds of that part follow.
    first = replace(entry_reveal(secrets[0], count, parts=ROUND.parts), part=part)
    first = replace(first, seed=secrets[0].part_seed(part), path=_path(0, part))
    second = replace(mix_reveal(secrets[1], first, count, parts=ROUND.parts))
    return replace(OPENING, entry_reveal=first.signed(ENTRY), mix_reveal=second.signed(MIX))


def _path(relay: int, part: int) -> tuple[bytes, ...]:
    return part_path(ROUND.secret(("entry", "mix")[relay]).part_seeds(ROUND.parts), part)


E_COUNT, X_COUNT = ROUND.entry_count, ROUND.mix_count
LIES: list[tuple[str, Callable[[], Opening], set[str]]] = [
    ("another round", lambda: replace(OPENING, round_number=2), {"OTHER_ROUND"}),
    ("another experiment", lambda: replace(OPENING, experiment="0" * 64), {"OTHER_ROUND"}),
    ("another label", lambda: replace(OPENING, label=bytes(32)), {"OTHER_ROUND"}),
    ("a stranger's entry count", lambda: replace(OPENING, entry_count=E_COUNT.signed(STRANGER)), {"ENTRY_COUNT"}),
    ("a stranger's mix count", lambda: replace(OPENING, mix_count=X_COUNT.signed(STRANGER)), {"MIX_COUNT"}),
    (
        "a stranger's entry reveal",
        lambda: replace(OPENING, entry_reveal=ROUND.entry_reveal.signed(STRANGER)),
        {"ENTRY_REVEAL"},
    ),
    (
        "the entry relay signs for the mixing relay",
        lambda: replace(OPENING, mix_reveal=ROUND.mix_reveal.signed(ENTRY)),
        {"MIX_REVEAL"},
    ),
    ("an entry count of another label", lie("entry_count", label=bytes(32)), {"ENTRY_COUNT", "OTHER_ENTRY_COUNT"}),
    (
        "one client more",
        lie("entry_count", clients=E_COUNT.clients + 1),
        {"ENTRY_EQUATION", "OTHER_ENTRY_COUNT"},
    ),
    (
        "one capsule less",
        lie("entry_count", capsules=E_COUNT.capsules - 1),
        {"ENTRY_EQUATION", "MIX_EQUATION", "OTHER_ENTRY_COUNT"},
    ),
    ("another entry root", lie("entry_count", root=bytes(32)), {"OTHER_ENTRY_COUNT"}),
    (
        "a mix count of another label",
        lie("mix_count", label=bytes(32)),
        {"MIX_COUNT", "OTHER_MIX_COUNT"},
    ),
    ("a capsule that was neither refused nor handed on", lie("mix_count", refused=0), {"MIX_EQUATION"}),
    (
        "more refused than came",
        lie("mix_count", refused=E_COUNT.capsules + 1, capsules=1),
        {"MIX_EQUATION"},
    ),
    ("another mix root", other_mix_count, {"OTHER_MIX_COUNT"}),
    ("an entry reveal of another label", lie("entry_reveal", label=bytes(32)), {"ENTRY_REVEAL", "OTHER_ENTRY_REVEAL"}),
    ("another nonce", lie("entry_reveal", nonce=bytes(32)), {"NONCE", "OTHER_ENTRY_REVEAL"}),
    ("another seed of the entry relay", lie("entry_reveal", seed=bytes(32)), {"ENTRY_SEED", "OTHER_ENTRY_REVEAL"}),
    ("a path that leads nowhere", lie("entry_reveal", path=()), {"ENTRY_SEED", "OTHER_ENTRY_REVEAL"}),
    ("a part out of range", lie("entry_reveal", part=63), {"PART", "ENTRY_SEED", "OTHER_ENTRY_REVEAL"}),
    ("a part that both like better", other_part, {"PART"}),
    ("a mix reveal of another label", lie("mix_reveal", label=bytes(32)), {"MIX_REVEAL"}),
    ("an answer to another reveal", lie("mix_reveal", entry_reveal="0" * 64), {"OTHER_ENTRY_REVEAL"}),
    ("another part of the mixing relay", lie("mix_reveal", part=63), {"PART", "MIX_SEED"}),
    ("another seed of the mixing relay", lie("mix_reveal", seed=bytes(32)), {"MIX_SEED"}),
    (
        "a mix reveal of another count",
        lie("mix_reveal", mix_count=replace(X_COUNT, refused=3).signed(MIX)),
        {"OTHER_MIX_COUNT"},
    ),
    ("another count seed", lambda: replace(OPENING, count_seed=bytes(32)), {"COUNT_SEED"}),
]


@pytest.mark.parametrize(("make", "expected"), [pytest.param(make, told, id=why) for why, make, told in LIES])
def test_every_lie_is_seen(make: Callable[[], Opening], expected: set[str]) -> None:
    found = {fault.name for fault in faults(make())}
    assert found >= expected
    assert found
    assert not is_opened(make(), MANIFEST, DOCUMENT)


def test_every_fault_can_happen() -> None:
    seen = {fault for _, make, _ in LIES for fault in faults(make())}
    assert seen | {OpeningFault.COUNT_KEY} == set(OpeningFault)


def test_a_count_key_that_its_seed_does_not_give_opens_nothing() -> None:
    other = X25519PrivateKey.derive(hashlib.sha256(b"other").digest()).public_key.to_bytes()
    manifest = replace(MANIFEST, count_key=other)
    assert OpeningFault.COUNT_KEY in faults(OPENING, manifest)


def test_an_opening_that_was_not_signed_or_written_in_its_way_is_refused() -> None:
    with pytest.raises(BadSignatureError):
        DOCUMENT.read(Opening, OPENING.signed([STRANGER]))
    content = json.loads(OPENING.data)
    for bad in (
        {**content, "more": 1},
        {**content, "entry_count": content["mix_count"]},
        {**content, "entry_count": "AA=="},
        {**content, "round": 0},
        {**content, "label": content["label"].upper()},
        {**content, "tally": "0" * MAX_OPENING_BYTES},
    ):
        with pytest.raises(MalformedMessageError):
            Opening.from_bytes(encode_document(bad))
    with pytest.raises(MalformedMessageError):
        Opening.from_bytes(OPENING.data + b"\n")


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
