"""Manifests of rounds with two relays: one spelling, and held to the document, its relays and the round before."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.errors import BadSignatureError, InconsistentManifestError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.documents.faults import Inconsistency as Fault
from secvm.protocol.relays.batches import label_of
from secvm.protocol.relays.commitments import entry_commitment, mix_commitment
from secvm.protocol.relays.manifest import Instants, RelayedManifest, manifest_faults, read_manifest
from secvm_lab.rigs.histories.relayed_rounds import (
    COORDINATOR,
    ENTRY,
    MIX,
    START,
    STRANGER,
    RelayedRound,
    relayed_document,
)

FIRST = RelayedRound()
SECOND = FIRST.following()
DOCUMENT = FIRST.document
ONE, TWO = FIRST.manifest, SECOND.manifest


def test_an_honest_manifest_is_read_again_and_accepted() -> None:
    assert RelayedManifest.from_bytes(ONE.data) == ONE
    assert read_manifest(ONE.signed([COORDINATOR]), DOCUMENT) == ONE
    assert read_manifest(TWO.signed([COORDINATOR]), DOCUMENT, ONE) == TWO


def test_its_digest_is_the_label() -> None:
    assert ONE.label == label_of(ONE.data) == bytes.fromhex(ONE.digest)
    assert ONE.label != TWO.label


def test_instants_follow_each_other_as_the_document_says() -> None:
    told = ONE.instants
    steps = [told.closes_at, told.accept_until, told.batch_by, told.mix_by, told.reveal_by, told.open_by]
    assert [at - START for at in steps] == [600_000, 660_000, 690_000, 730_000, 780_000, 850_000]


def moved(**changes: int) -> Callable[[], RelayedManifest]:
    """Some instants later by so many milliseconds."""
    instants = replace(TWO.instants, **{name: getattr(TWO.instants, name) + by for name, by in changes.items()})
    return lambda: replace(TWO, instants=instants)


def committed(role: str, key: Any = None, **changes: Any) -> Callable[[], RelayedManifest]:
    """With another commitment of one relay."""
    told: dict[str, Any] = {"experiment": DOCUMENT.digest, "round_number": 2, "parts": SECOND.parts, **changes}
    if role == "mix":
        return lambda: replace(TWO, mix=mix_commitment(SECOND.secret("mix"), **told).signed(key or MIX))
    return lambda: replace(TWO, entry=entry_commitment(SECOND.secret("entry"), **told).signed(key or ENTRY))


LATER = dict.fromkeys(("closes_at", "accept_until", "batch_by", "mix_by", "reveal_by", "open_by"), 1000)
FALSE: list[tuple[str, Callable[[], RelayedManifest], set[Fault]]] = [
    (
        "another experiment",
        lambda: replace(TWO, experiment="0" * 64),
        {Fault.OTHER_EXPERIMENT, Fault.MIX_COMMITMENT, Fault.ENTRY_COMMITMENT},
    ),
    (
        "a round too many",
        lambda: replace(TWO, round_number=31),
        {Fault.TOO_MANY_ROUNDS, Fault.MIX_COMMITMENT, Fault.ENTRY_COMMITMENT},
    ),
    ("a longer window", moved(**LATER), {Fault.WINDOW_LENGTH}),
    ("a longer grace", moved(**{name: 1 for name in LATER if name != "closes_at"}), {Fault.GRACE}),
    ("less time for the batch", moved(batch_by=-1), {Fault.RELAY_TIMES}),
    ("more time for the opening", moved(open_by=1), {Fault.RELAY_TIMES}),
    (
        "before the round before is mixed",
        lambda: replace(TWO, instants=Instants.planned(DOCUMENT, ONE.instants.mix_by - 1)),
        {Fault.OVERLAP},
    ),
    (
        "before the experiment starts",
        lambda: replace(TWO, instants=Instants.planned(DOCUMENT, START - 1)),
        {Fault.OVERLAP, Fault.BEFORE_START},
    ),
    ("after another manifest", lambda: replace(TWO, previous="0" * 64), {Fault.BROKEN_CHAIN}),
    ("a stranger's mixing key", committed("mix", STRANGER), {Fault.MIX_COMMITMENT}),
    ("the entry relay signs the mixing key", committed("mix", ENTRY), {Fault.MIX_COMMITMENT}),
    ("a mixing key of another round", committed("mix", round_number=1), {Fault.MIX_COMMITMENT}),
    ("a mixing key of another experiment", committed("mix", experiment="0" * 64), {Fault.MIX_COMMITMENT}),
    ("a stranger's nonce", committed("entry", STRANGER), {Fault.ENTRY_COMMITMENT}),
    ("a nonce of another round", committed("entry", round_number=3), {Fault.ENTRY_COMMITMENT}),
    ("the count key of the round before", lambda: replace(TWO, count_key=ONE.count_key), {Fault.USED_BEFORE}),
    (
        "the seed of the round before",
        lambda: replace(TWO, count_seed_hash=ONE.count_seed_hash),
        {Fault.USED_BEFORE},
    ),
    (
        "the mixing key of the round before",
        lambda: replace(TWO, mix=ONE.mix),
        {Fault.MIX_COMMITMENT, Fault.USED_BEFORE},
    ),
    (
        "the parts of the round before, signed anew",
        lambda: replace(
            TWO,
            entry=entry_commitment(
                FIRST.secret("entry"), experiment=DOCUMENT.digest, round_number=2, parts=FIRST.parts
            ).signed(ENTRY),
        ),
        {Fault.USED_BEFORE},
    ),
    ("a key of tokens where there are none", committed("entry", tokens=True), {Fault.ENTRY_COMMITMENT}),
]


@pytest.mark.parametrize(("make", "expected"), [pytest.param(make, told, id=why) for why, make, told in FALSE])
def test_what_contradicts_the_document_its_relays_or_the_past_is_refused(
    make: Callable[[], RelayedManifest], expected: set[Fault]
) -> None:
    assert set(manifest_faults(make(), DOCUMENT, ONE)) == expected
    with pytest.raises(InconsistentManifestError):
        read_manifest(make().signed([COORDINATOR]), DOCUMENT, ONE)


def test_with_tokens_the_entry_relay_s_commitment_has_a_key() -> None:
    document = relayed_document(tokens=True)
    manifest = RelayedRound(document=document).manifest
    assert read_manifest(manifest.signed([COORDINATOR]), document).entry_commitment.tokens is not None
    without = replace(
        manifest,
        entry=entry_commitment(
            FIRST.secret("entry"), experiment=document.digest, round_number=1, parts=FIRST.parts
        ).signed(ENTRY),
    )
    assert manifest_faults(without, document) == (Fault.ENTRY_COMMITMENT,)


def test_a_manifest_of_somebody_else_is_refused() -> None:
    with pytest.raises(BadSignatureError):
        read_manifest(ONE.signed([STRANGER]), DOCUMENT)


CONTENT: dict[str, Any] = json.loads(TWO.data)
LOW_ORDER = "00" * 32


@pytest.mark.parametrize(
    "changes",
    [
        {"count_key": LOW_ORDER},
        {"count_key": CONTENT["count_key"][:-2]},
        {"count_seed_hash": CONTENT["count_seed_hash"].upper()},
        {"previous": None},
        {"opening": None},
        {"round": 1},
        {"round": 0},
        {"closes_at": CONTENT["opens_at"]},
        {"batch_by": CONTENT["closes_at"]},
        {"open_by": CONTENT["opens_at"]},
        {"mix": CONTENT["entry"]},
        {"mix": CONTENT["mix"].rstrip("=") + " "},
        {"entry": ""},
        {"state": None},
        {"more": 1},
        {"type": "secvm-v1-manifest"},
        {"training_weights": "0" * 4096},
    ],
)
def test_another_form_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError):
        RelayedManifest.from_bytes(encode_document({**CONTENT, **changes}))


@pytest.mark.parametrize("name", sorted(CONTENT))
def test_every_field_must_be_there(name: str) -> None:
    with pytest.raises(MalformedMessageError):
        RelayedManifest.from_bytes(encode_document({key: value for key, value in CONTENT.items() if key != name}))


def test_another_spelling_is_refused() -> None:
    for data in (TWO.data + b" ", TWO.data.replace(b'":', b'" :', 1), TWO.data[:-1], b""):
        with pytest.raises(MalformedMessageError):
            RelayedManifest.from_bytes(data)


def test_what_a_reader_would_refuse_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError):
        _ = replace(TWO, opening=None).data


def test_all_that_binds_a_round_is_remembered() -> None:
    key = X25519PrivateKey.derive(bytes(32)).public_key.to_bytes()
    assert len(ONE.bound) == 6
    assert key in replace(ONE, count_key=key).bound
    assert not ONE.bound & TWO.bound
    assert digest_of(b"state") == ONE.model[0]
