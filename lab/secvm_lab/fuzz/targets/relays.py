"""Targets: what two relays, the coordinator and devices tell each other of a round (``secvm.protocol.relays``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from secvm.auditor.relayed.statements import read_door
from secvm.crypto.sealing.layers import seal_inner
from secvm.crypto.signing import SigningKey, sign
from secvm.errors import (
    BadProofError,
    BadSignatureError,
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
from secvm_lab.fuzz.target import Target, expect
from secvm_lab.fuzz.targets.documents import canonically, tried_both_ways
from secvm_lab.fuzz.world import as_text
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, RelayedRound, known_bytes
from secvm_lab.rigs.histories.sealed_round import SealedRound

_SIGNED = (MalformedMessageError, BadSignatureError)
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


@functools.cache
def _rounds() -> tuple[RelayedRound, RelayedRound]:
    first = RelayedRound()
    return first, first.following()


def _statements() -> list[Statement]:
    return [made(_rounds()[0]) for made in _KINDS.values()]


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


def _signed(data: bytes, purpose: str, keys: Sequence[SigningKey] = (COORDINATOR,)) -> bytes:
    return sign(canonically(data), purpose=purpose, keys=keys)


def _accept(data: bytes) -> object:
    first, _ = _rounds()
    manifest_faults(RelayedManifest.from_bytes(canonically(data)), first.document)
    return read_manifest(_signed(data, RELAYED_MANIFEST_TYPE), first.document, first.manifest)


def _judged(data: bytes) -> object:
    first, second = _rounds()
    opening = first.document.read(Opening, _signed(data, OPENING_TYPE))
    opening_faults(opening, first.manifest, first.document)
    following_faults(second.manifest, first.manifest, opening, first.document)
    return opening


def _endings() -> list[bytes]:
    first, _ = _rounds()
    told: dict[str, Any] = {"experiment": first.document.digest}
    told |= dict(zip(("state", "training_weights", "evaluation_weights"), first.manifest.model, strict=True))
    named = {"manifest": first.manifest.digest, "opening": first.opening.digest}
    return [
        RelayedEnding(round_number=1, **named, why="finished", **told).data,
        RelayedEnding(round_number=0, manifest=None, opening=None, why="stopped", **told).data,
    ]


def _entries() -> list[bytes]:
    one, other = "0" * 64, "f" * 64
    made = (
        experiment_entry(one),
        manifest_entry(one, 1, other),
        opening_entry(one, 12, other),
        ending_entry(one, other),
    )
    return [entry.to_bytes() for entry in made]


def _absence(data: bytes) -> Absence:
    return Absence.from_fields(Fields(decode_document(data, max_bytes=2048), "the absence"))


def _absences() -> list[bytes]:
    tree = CapsuleTree(b"".join(_rounds()[0].submission))
    return [encode_document(tree.absence(digest).to_content()) for digest in (bytes(32), b"\x80" * 32, b"\xff" * 32)]


def _evidence() -> list[bytes]:
    first, second = _rounds()
    experiment = publish(first.document, keys=(COORDINATOR,))
    absence = CapsuleTree(b"".join(first.mixed)).absence(bytes(32))
    counts = (first.entry_count.signed(ENTRY), first.mix_count.signed(MIX), first.entry_reveal.signed(ENTRY))
    manifest = first.manifest.signed([COORDINATOR])
    made = (
        RelayedEvidence(kind=RelayedKind.TWO_STATEMENTS, experiment=experiment, statements=counts[:2]),
        RelayedEvidence(
            kind=RelayedKind.PART_NOT_IN_BATCH,
            experiment=experiment,
            documents=(manifest,),
            statements=counts,
            proof=PartProof(package=0, absence=absence),
        ),
        # Names a model that is none: it convicts.
        RelayedEvidence(kind=RelayedKind.WRONG_STEP, experiment=experiment, documents=(manifest,)),
        RelayedEvidence(
            kind=RelayedKind.BAD_DOCUMENT,
            experiment=experiment,
            documents=(manifest, first.opening.signed([COORDINATOR]), second.manifest.signed([COORDINATOR])),
        ),
        RelayedEvidence(
            kind=RelayedKind.WRONG_COUNT,
            experiment=experiment,
            documents=(manifest, first.opening.signed([COORDINATOR])),
            blobs=(bytes(160), write_sub_tally({0: 1})),
            proof=first.shards.proof(0),
        ),
        RelayedEvidence(
            kind=RelayedKind.WRONG_TALLY,
            experiment=experiment,
            documents=(manifest, first.opening.signed([COORDINATOR])),
            blobs=(b"net tally", _one_shard()),
        ),
    )
    return [one.to_bytes() for one in made]


def _one_shard() -> bytes:
    """One shard that counts a package."""
    run = ShardRun(0, 1, (), (bytes(32),))
    return entry_bytes(run, write_sub_tally({0: 1}))


def _told() -> list[bytes]:
    first, _ = _rounds()
    return [first.manifest.signed([COORDINATOR]), first.opening.signed([COORDINATOR])]


def _news(data: bytes) -> object:
    found = News.from_bytes(data)
    expect(News.from_bytes(found.to_bytes()) == found, "news are read otherwise than they were written")
    asked = read_news_path(data.decode("latin-1"))
    expect(asked is None or news_path(*asked).encode() == data, "a path of news is written in two ways")
    return found


def _cells() -> int:
    return Cells.of(_rounds()[0].document.experiment).count


@functools.cache
def _reader() -> CapsuleReader:
    first, _ = _rounds()
    return CapsuleReader.of(first.document, first.manifest, first.count_seed)


def _capsules() -> list[bytes]:
    first, _ = _rounds()
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


@functools.cache
def _sealed() -> SealedRound:
    return SealedRound(clients=1)


def _taken_canary() -> Canary:
    return _sealed().submissions[0].canary.with_receipt(_sealed().receipt_for(0))


@functools.cache
def _missing() -> list[bytes]:
    left_out = SealedRound(clients=1, mix_leaves_out=frozenset({_taken_canary().inner_digest}))
    found = [left_out.evidence(narrowed=narrowed) for narrowed in (False, True)]
    return [one.to_bytes() for one in found if one is not None]


@functools.cache
def _sessions() -> tuple[bytes, RequestRow]:
    """A session that has a request on its way: its header, and the request."""
    one, session = _sealed(), RelayedSession(_sealed().document)
    words, now = iter(range(10**6)), one.manifest.instants.opens_at - 1
    session.receive(RoundAnnounced(one.manifest.signed([COORDINATOR])), now=now, words=words)
    session.receive(RequestReady(one.submissions[0]), now=now, words=words)
    changes = session.take_changes()
    expect(changes.header is not None and changes.sealed is not None, "a session that is not stored")
    return changes.header or b"", RequestRow(*(changes.sealed or (b"", b"")))


def _two_capsules() -> bytes:
    capsules = [known_bytes(f"capsule {number}", 128) for number in range(2)]
    capsules.sort(key=capsule_digest)
    return b"".join(capsules)


def _run(hashes: int) -> bytes:
    digests = tuple(bytes([number]) * 32 for number in range(3))
    return ShardRun(0, 3, tuple(known_bytes(f"hash {number}") for number in range(hashes)), digests).to_bytes()


TARGETS = (
    Target(
        name="relay-statement",
        decode=tried_both_ways(_statement, lambda found: found.data),
        seeds=lambda: [one.data for one in _statements()],
    ),
    Target(
        name="relay-statement-signed",
        decode=_signed_statement,
        allowed=_SIGNED,
        seeds=lambda: [_rounds()[0].entry_reveal.signed(ENTRY), *(b" " + one.data for one in _statements())],
    ),
    Target(
        name="relayed-manifest",
        decode=tried_both_ways(RelayedManifest.from_bytes, lambda found: found.data),
        seeds=lambda: [one.manifest.data for one in _rounds()],
    ),
    Target(
        name="relayed-manifest-accept",
        decode=_accept,
        allowed=(*_SIGNED, InconsistentManifestError),
        seeds=lambda: [one.manifest.data for one in _rounds()],
    ),
    Target(
        name="opening",
        decode=tried_both_ways(Opening.from_bytes, lambda found: found.data),
        seeds=lambda: [_rounds()[0].opening.data],
    ),
    Target(name="opening-judged", decode=_judged, allowed=_SIGNED, seeds=lambda: [_rounds()[0].opening.data]),
    Target(
        name="relayed-ending",
        decode=tried_both_ways(RelayedEnding.from_bytes, lambda found: found.data),
        seeds=_endings,
    ),
    Target(
        name="relayed-ending-signed",
        decode=lambda data: _rounds()[0].document.read(RelayedEnding, _signed(data, RELAYED_ENDING_TYPE)),
        allowed=_SIGNED,
        seeds=_endings,
    ),
    Target(name="coordinator-log-entry", decode=Entry.from_bytes, canonical=Entry.to_bytes, seeds=_entries),
    Target(
        name="relay-shown",
        decode=read_shown,
        seeds=lambda: [write_shown({}), write_shown({"mix_count": b"a count", "entry_reveal": b"a reveal"})],
    ),
    Target(
        name="capsule-absence",
        decode=tried_both_ways(_absence, lambda found: encode_document(found.to_content())),
        seeds=_absences,
    ),
    Target(
        name="shard-proof",
        decode=tried_both_ways(ShardProof.from_bytes, lambda found: found.data),
        seeds=lambda: [_rounds()[0].shards.proof(0).data],
    ),
    Target(
        name="sub-tally",
        decode=lambda data: read_sub_tally(data, cells=_cells(), capsules=SHARD),
        canonical=write_sub_tally,
        seeds=lambda: [b"", write_sub_tally({0: 1}), write_sub_tally({1: 2, 29: 3})],
    ),
    Target(
        name="news",
        decode=_news,
        seeds=lambda: [News(b"a manifest").to_bytes(), News(b"m", b"o", b"t", b"c", 7, (b"a line",)).to_bytes()],
    ),
    Target(
        name="shard-tally",
        decode=tried_both_ways(ShardTally.from_bytes, ShardTally.to_bytes),
        seeds=lambda: [b"\0", ShardTally((bytes(32),), write_sub_tally({1: 2})).to_bytes()],
    ),
    Target(
        name="shard-entries",
        decode=lambda data: RawCount.of(data, Cells.of(_rounds()[0].document.experiment), capsules=SHARD + 1),
        seeds=lambda: [_one_shard(), 2 * _one_shard()],
    ),
    Target(
        name="relayed-evidence",
        decode=tried_both_ways(RelayedEvidence.from_bytes, RelayedEvidence.to_bytes),
        seeds=_evidence,
    ),
    Target(
        name="relayed-evidence-examine",
        decode=lambda data: examine_relayed(canonically(data)),
        allowed=(RemoteProtocolError,),
        seeds=_evidence,
    ),
    Target(
        name="relayed-told",
        decode=lambda data: read_relayed_document(data, _rounds()[0].document),
        allowed=_SIGNED,
        seeds=_told,
    ),
    Target(
        name="relay-door",
        decode=read_door,
        allowed=(),
        seeds=lambda: [b'{"entry_count":"YQ==","mix_count":null}', b"[]", b"{"],
    ),
    Target(name="inner-capsule", decode=_counted, allowed=(), seeds=_capsules),
    Target(
        name="shard-run",
        decode=lambda data: read_run(data, shard=0, capsules=3),
        canonical=ShardRun.to_bytes,
        seeds=lambda: [_run(0), _run(2)],
    ),
    Target(
        name="shard-index",
        decode=lambda data: read_index(data, capsules=3 * SHARD),
        canonical=b"".join,
        seeds=lambda: [bytes(24), bytes(range(24))],
    ),
    Target(
        name="submission",
        decode=lambda data: read_request(data, budget=2),
        canonical=b"".join,
        seeds=lambda: [_two_capsules(), bytes(256)],
    ),
    Target(
        name="canary",
        decode=tried_both_ways(Canary.from_bytes, Canary.to_bytes),
        seeds=lambda: [_sealed().submissions[0].canary.to_bytes(), _taken_canary().to_bytes()],
    ),
    Target(
        name="missing-canary", decode=tried_both_ways(MissingCanary.from_bytes, MissingCanary.to_bytes), seeds=_missing
    ),
    Target(
        name="missing-canary-examined",
        decode=lambda data: examine_canary(canonically(data)),
        allowed=(MalformedMessageError, BadSignatureError, BadProofError),
        seeds=_missing,
    ),
    Target(
        name="relayed-session",
        decode=lambda data: RelayedSession.from_parts(canonically(data), _sessions()[1], _sealed().document),
        seeds=lambda: [_sessions()[0]],
    ),
    Target(
        name="label-text",
        decode=lambda data: label_from_text(as_text(data)),
        canonical=lambda label: label.hex().encode(),
        seeds=lambda: [b"00" * 32, b"ab" * 32],
    ),
)
