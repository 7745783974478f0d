"""Targets: what two relays, the coordinator and devices tell each other of a round (``secvm.protocol.relays``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from secvm.auditor.relayed.statements import read_door
from secvm.crypto.sealing.layers import seal_inner
from secvm.crypto.signing import sign
from secvm.errors import (
    BadProofError,
    InconsistentManifestError,
    MalformedMessageError,
    RemoteProtocolError,
)
from secvm.learning.package import NullPackage, TrainPackage
from secvm.protocol.canonical import Fields, decode_document, encode_document
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import publish
from secvm.protocol.evidence.examination import examine_relayed, read_relayed_document
from secvm.protocol.evidence.missing_canary import MissingCanary, examine_canary
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, RelayedKind
from secvm.protocol.log.entries import Entry, ending_entry, experiment_entry, manifest_entry, opening_entry
from secvm.protocol.relays.batches import Absence, CapsuleTree, capsule_digest, label_from_text
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal, read_shown, write_shown
from secvm.protocol.relays.manifest import RelayedManifest, manifest_faults, read_manifest
from secvm.protocol.relays.news import News, news_path, read_news_path
from secvm.protocol.relays.opening import (
    Opening,
    RelayedEnding,
    following_faults,
    opening_faults,
)
from secvm.protocol.relays.recount import RawCount, ShardTally, entry_bytes
from secvm.protocol.relays.session import RelayedSession, RequestReady, RequestRow, RoundAnnounced
from secvm.protocol.relays.shards import (
    SHARD,
    ShardProof,
    ShardRun,
    read_index,
    read_run,
    read_sub_tally,
    write_sub_tally,
)
from secvm.protocol.relays.statements import Statement
from secvm.protocol.relays.submission import Canary, Receipt, read_request
from secvm.protocol.version import OPENING_TYPE, RELAYED_ENDING_TYPE, RELAYED_MANIFEST_TYPE
from secvm_lab.fuzz.target import SIGNED, Target, expect
from secvm_lab.fuzz.targets.documents import canonically, document, tried_both_ways
from secvm_lab.fuzz.world import as_text
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, RelayedRound, known_bytes
from secvm_lab.rigs.histories.sealed_round import SealedRound

#: Every kind of statement, and how a round has it.
_KINDS: dict[type[Statement], Callable[[RelayedRound], Statement]] = {
    MixCommitment: lambda one: one.manifest.mix_commitment,
    EntryCommitment: lambda one: one.manifest.entry_commitment,
    Receipt: lambda one: one.receipt,
    EntryCount: lambda one: one.entry_count,
    MixCount: lambda one: one.mix_count,
    EntryReveal: lambda one: one.entry_reveal,
    MixReveal: lambda one: one.mix_reveal,
}


#: Two rounds, one after the other, and one whose capsules are sealed. Whatever is asked of them is made then.
_FIRST, _SEALED = RelayedRound(), SealedRound(clients=1)


@functools.cache
def _second() -> RelayedRound:
    return _FIRST.following()


def _statements() -> list[Statement]:
    return [made(_FIRST) for made in _KINDS.values()]


def _manifests() -> list[bytes]:
    return [_FIRST.manifest.data, _second().manifest.data]


def _statement(data: bytes) -> Statement:
    """By whichever kind takes it: none takes what another does."""
    found = []
    for kind in _KINDS:
        try:
            found.append(kind.from_bytes(data))
        except MalformedMessageError:
            continue
    expect(len(found) <= 1, "two kinds of statements take the same bytes")
    if not found:
        raise MalformedMessageError
    return found[0]


def _signed_statement(data: bytes) -> object:
    """As an envelope; and what the bytes say, signed by the relay of each kind."""
    told = canonically(data)
    if told == data:
        return EntryReveal.read(data, ENTRY.public)
    taken = None
    for kind in _KINDS:
        key = MIX if kind in (MixCommitment, MixCount, MixReveal) else ENTRY
        try:
            taken = kind.read(sign(told, purpose=kind.purpose, keys=[key]), key.public)
        except MalformedMessageError:
            continue
    if taken is None:
        raise MalformedMessageError
    return taken


def _signed(data: bytes, purpose: str) -> bytes:
    return sign(canonically(data), purpose=purpose, keys=[COORDINATOR])


def _accept(data: bytes) -> object:
    manifest_faults(RelayedManifest.from_bytes(canonically(data)), _FIRST.document)
    return read_manifest(_signed(data, RELAYED_MANIFEST_TYPE), _FIRST.document, _FIRST.manifest)


def _judged(data: bytes) -> object:
    first, second = _FIRST, _second()
    opening = first.document.read(Opening, _signed(data, OPENING_TYPE))
    opening_faults(opening, first.manifest, first.document)
    following_faults(second.manifest, first.manifest, opening, first.document)
    return opening


def _endings() -> list[bytes]:
    first = _FIRST
    told: dict[str, Any] = {"experiment": first.document.digest}
    told |= dict(zip(("state", "training_weights", "evaluation_weights"), first.manifest.model, strict=True))
    named = {"manifest": first.manifest.digest, "opening": first.opening.digest}
    return [
        RelayedEnding(round_number=1, **named, why="finished", **told).data,
        RelayedEnding(round_number=0, manifest=None, opening=None, why="stopped", **told).data,
    ]


def _entries() -> list[bytes]:
    one, other = "0" * 64, "f" * 64
    made = experiment_entry(one), manifest_entry(one, 1, other), opening_entry(one, 12, other), ending_entry(one, other)
    return [entry.to_bytes() for entry in made]


def _absence(data: bytes) -> Absence:
    return Absence.from_fields(Fields(decode_document(data, max_bytes=2048), "the absence"))


def _absences() -> list[bytes]:
    tree = CapsuleTree(b"".join(_FIRST.submission))
    return [encode_document(tree.absence(digest).to_content()) for digest in (bytes(32), b"\x80" * 32, b"\xff" * 32)]


def _evidence() -> list[bytes]:
    first, second = _FIRST, _second()
    experiment = publish(first.document, keys=(COORDINATOR,))
    absence = CapsuleTree(b"".join(first.mixed)).absence(bytes(32))
    counts = (first.entry_count.signed(ENTRY), first.mix_count.signed(MIX), first.entry_reveal.signed(ENTRY))
    manifest = first.manifest.signed([COORDINATOR])
    told = (manifest, first.opening.signed([COORDINATOR]))
    counted, part = (bytes(160), write_sub_tally({0: 1})), PartProof(package=0, absence=absence)
    following = second.manifest.signed([COORDINATOR])
    made: tuple[tuple[RelayedKind, dict[str, Any]], ...] = (
        (RelayedKind.TWO_STATEMENTS, {"statements": counts[:2]}),
        (RelayedKind.PART_NOT_IN_BATCH, {"documents": (manifest,), "statements": counts, "proof": part}),
        # Names a model that is none: it convicts.
        (RelayedKind.WRONG_STEP, {"documents": (manifest,)}),
        (RelayedKind.BAD_DOCUMENT, {"documents": (*told, following)}),
        (RelayedKind.WRONG_COUNT, {"documents": told, "blobs": counted, "proof": first.shards.proof(0)}),
        (RelayedKind.WRONG_TALLY, {"documents": told, "blobs": (b"net tally", _one_shard())}),
    )
    return [RelayedEvidence(kind=kind, experiment=experiment, **given).to_bytes() for kind, given in made]


def _one_shard() -> bytes:
    """One shard that counts a package."""
    return entry_bytes(ShardRun(0, 1, (), (bytes(32),)), write_sub_tally({0: 1}))


def _news(data: bytes) -> object:
    found = News.from_bytes(data)
    expect(News.from_bytes(found.to_bytes()) == found, "news are read otherwise than they were written")
    asked = read_news_path(data.decode("latin-1"))
    expect(asked is None or news_path(*asked).encode() == data, "a path of news is written in two ways")
    return found


def _cells() -> int:
    return Cells.of(_FIRST.document.experiment).count


@functools.cache
def _reader() -> CapsuleReader:
    return CapsuleReader.of(_FIRST.document, _FIRST.manifest, _FIRST.count_seed)


def _capsules() -> list[bytes]:
    first = _FIRST
    kinds = (NullPackage(), TrainPackage(model=0, bin_index=3, sign=1), TrainPackage(model=3, bin_index=3, sign=1))
    packages = [encode(AddressedPackage(first.document.experiment_id, 1, kind)) for kind in kinds]
    key = first.count_key.public_key
    return [seal_inner(key, first.label, known_bytes(f"ephemeral {i}"), one) for i, one in enumerate(packages)]


def _counted(data: bytes) -> object:
    """The capsule, and what the bytes would be under a seal: both count or are junk, and neither is an error."""
    _reader().package_of(data[:32])
    counted = _reader().sub_tally([data])
    read_sub_tally(counted, cells=_cells(), capsules=1)
    return counted


def _taken_canary() -> Canary:
    return _SEALED.submissions[0].canary.with_receipt(_SEALED.receipt_for(0))


@functools.cache
def _missing() -> list[bytes]:
    left_out = SealedRound(clients=1, mix_leaves_out=frozenset({_taken_canary().inner_digest}))
    found = [left_out.evidence(narrowed=narrowed) for narrowed in (False, True)]
    return [one.to_bytes() for one in found if one is not None]


@functools.cache
def _sessions() -> tuple[bytes, RequestRow]:
    """A session that has a request on its way: its header, and the request."""
    one, session = _SEALED, RelayedSession(_SEALED.document)
    words, now = iter(range(10**6)), one.manifest.instants.opens_at - 1
    session.receive(RoundAnnounced(one.manifest.signed([COORDINATOR])), now=now, words=words)
    session.receive(RequestReady(one.submissions[0]), now=now, words=words)
    changes = session.take_changes()
    expect(changes.header is not None and changes.sealed is not None, "a session that is not stored")
    return changes.header or b"", RequestRow(*(changes.sealed or (b"", b"")))


def two_capsules() -> bytes:
    """A submission of two, or a piece of a batch, ascending by digest."""
    capsules = [known_bytes(f"capsule {number}", 128) for number in range(2)]
    capsules.sort(key=capsule_digest)
    return b"".join(capsules)


def _run(hashes: int) -> bytes:
    digests = tuple(bytes([number]) * 32 for number in range(3))
    return ShardRun(0, 3, tuple(known_bytes(f"hash {number}") for number in range(hashes)), digests).to_bytes()


TARGETS = (
    Target(
        "relay-statement",
        tried_both_ways(_statement, lambda found: found.data),
        lambda: [one.data for one in _statements()],
    ),
    Target(
        "relay-statement-signed",
        _signed_statement,
        lambda: [_FIRST.entry_reveal.signed(ENTRY), *(b" " + one.data for one in _statements())],
        allowed=SIGNED,
    ),
    document("relayed-manifest", RelayedManifest, _manifests),
    Target("relayed-manifest-accept", _accept, _manifests, allowed=(*SIGNED, InconsistentManifestError)),
    document("opening", Opening, lambda: [_FIRST.opening.data]),
    Target("opening-judged", _judged, lambda: [_FIRST.opening.data], allowed=SIGNED),
    document("relayed-ending", RelayedEnding, _endings),
    Target(
        "relayed-ending-signed",
        lambda data: _FIRST.document.read(RelayedEnding, _signed(data, RELAYED_ENDING_TYPE)),
        _endings,
        allowed=SIGNED,
    ),
    Target("coordinator-log-entry", Entry.from_bytes, _entries, canonical=Entry.to_bytes),
    Target(
        "relay-shown",
        read_shown,
        lambda: [write_shown({}), write_shown({"mix_count": b"a count", "entry_reveal": b"a reveal"})],
    ),
    Target("capsule-absence", tried_both_ways(_absence, lambda found: encode_document(found.to_content())), _absences),
    document("shard-proof", ShardProof, lambda: [_FIRST.shards.proof(0).data]),
    Target(
        "sub-tally",
        lambda data: read_sub_tally(data, cells=_cells(), capsules=SHARD),
        lambda: [b"", write_sub_tally({0: 1}), write_sub_tally({1: 2, 29: 3})],
        canonical=write_sub_tally,
    ),
    Target(
        "news",
        _news,
        lambda: [News(b"a manifest").to_bytes(), News(b"m", b"o", b"t", b"c", 7, (b"a line",)).to_bytes()],
    ),
    document("shard-tally", ShardTally, lambda: [b"\0", ShardTally((bytes(32),), write_sub_tally({1: 2})).to_bytes()]),
    Target(
        "shard-entries",
        lambda data: RawCount.of(data, Cells.of(_FIRST.document.experiment), capsules=SHARD + 1),
        lambda: [_one_shard(), 2 * _one_shard()],
    ),
    document("relayed-evidence", RelayedEvidence, _evidence),
    Target(
        "relayed-evidence-examine",
        lambda data: examine_relayed(canonically(data)),
        _evidence,
        allowed=(RemoteProtocolError,),
    ),
    Target(
        "relayed-told",
        lambda data: read_relayed_document(data, _FIRST.document),
        lambda: [one.signed([COORDINATOR]) for one in (_FIRST.manifest, _FIRST.opening)],
        allowed=SIGNED,
    ),
    Target("relay-door", read_door, lambda: [b'{"entry_count":"YQ==","mix_count":null}', b"[]", b"{"], allowed=()),
    Target("inner-capsule", _counted, _capsules, allowed=()),
    Target(
        "shard-run",
        lambda data: read_run(data, shard=0, capsules=3),
        lambda: [_run(0), _run(2)],
        canonical=ShardRun.to_bytes,
    ),
    Target(
        "shard-index",
        lambda data: read_index(data, capsules=3 * SHARD),
        lambda: [bytes(24), bytes(range(24))],
        canonical=b"".join,
    ),
    Target(
        "submission",
        lambda data: read_request(data, budget=2),
        lambda: [two_capsules(), bytes(256)],
        canonical=b"".join,
    ),
    document("canary", Canary, lambda: [_SEALED.submissions[0].canary.to_bytes(), _taken_canary().to_bytes()]),
    document("missing-canary", MissingCanary, _missing),
    Target(
        "missing-canary-examined",
        lambda data: examine_canary(canonically(data)),
        _missing,
        allowed=(*SIGNED, BadProofError),
    ),
    Target(
        "relayed-session",
        lambda data: RelayedSession.from_parts(canonically(data), _sessions()[1], _SEALED.document),
        lambda: [_sessions()[0]],
    ),
    Target(
        "label-text",
        lambda data: label_from_text(as_text(data)),
        lambda: [b"00" * 32, b"ab" * 32],
        canonical=lambda label: label.hex().encode(),
    ),
)
