"""Manifests of rounds with two relays: one spelling, and held to the document, its relays and the round before."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.errors import InconsistentManifestError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.faults import Inconsistency as Fault
from secvm.protocol.relays.commitments import entry_commitment, mix_commitment
from secvm.protocol.relays.manifest import Instants, RelayedManifest, manifest_faults, read_manifest
from secvm_lab.rigs.histories.relayed_rounds import (
    COORDINATOR,
    ENTRY,
    MIX,
    START,
    RelayedRound,
    relayed_document,
)
from tests.unit.protocol.helpers import changed, paths

FIRST = RelayedRound()
SECOND = FIRST.following()
DOCUMENT = FIRST.document
ONE, TWO = FIRST.manifest, SECOND.manifest


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


GRACE = dict.fromkeys(("accept_until", "batch_by", "mix_by", "reveal_by", "open_by"), 1000)
#: Beside those of ``vectors/v2/bad_manifests.json``.
FALSE: list[tuple[str, Callable[[], RelayedManifest], set[Fault]]] = [
    ("a longer grace", moved(**GRACE), {Fault.GRACE}),
    (
        "before the experiment starts",
        lambda: replace(TWO, instants=Instants.planned(DOCUMENT, START - 1)),
        {Fault.OVERLAP, Fault.BEFORE_START},
    ),
    ("the entry relay signs the mixing key", committed("mix", ENTRY), {Fault.MIX_COMMITMENT}),
    ("a nonce of another round", committed("entry", round_number=3), {Fault.ENTRY_COMMITMENT}),
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


@pytest.mark.parametrize("path", paths(json.loads(TWO.data)))
def test_every_field_must_be_there_with_its_type(path: str) -> None:
    wrong: tuple[object, ...] = (KeyError, None, {}, [None], "x", -1, True, *((0,) if path != "opens_at" else ()))
    for value in wrong:
        with pytest.raises(MalformedMessageError):
            RelayedManifest.from_bytes(changed(TWO.data, path, value))


def test_a_window_has_a_length() -> None:
    with pytest.raises(MalformedMessageError):
        RelayedManifest.from_bytes(changed(TWO.data, "closes_at", TWO.instants.opens_at))


def test_what_a_reader_would_refuse_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError):
        _ = replace(TWO, opening=None).data


def test_all_that_binds_a_round_is_remembered() -> None:
    key = X25519PrivateKey.derive(bytes(32)).public_key.to_bytes()
    assert len(ONE.bound) == 6
    assert key in replace(ONE, count_key=key).bound
    assert not ONE.bound & TWO.bound
    assert digest_of(b"state") == ONE.model[0]
