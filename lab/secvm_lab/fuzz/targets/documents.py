"""Targets: packages, documents and blobs (``secvm.protocol``).

A document that is not canonical is refused before anything is looked at. So that a fuzzer gets further, these targets
also try what the bytes say as JSON, written in the one way.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from secvm.crypto.signing import sign
from secvm.errors import (
    BadInputError,
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
    RemoteProtocolError,
    StaleRoundError,
)
from secvm.learning.package import Cohort, NullPackage, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol import codec
from secvm.protocol.canonical import decode_document, encode_document
from secvm.protocol.documents.ending import Ending, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.manifest import (
    AcceptedManifest,
    RelayCount,
    RoundManifest,
    accept,
    read_relay_count,
)
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry, examine
from secvm.protocol.invite import Invite
from secvm.protocol.plain.sealed_requests import (
    PackageRequest,
    fetch_answer,
    fetch_request,
    package_in,
    package_request,
    read_answer,
    read_request,
)
from secvm.protocol.problems import PROBLEMS, read_problem
from secvm.protocol.version import ENDING_TYPE, MANIFEST_TYPE, RELAY_COUNT_TYPE
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import SIGNED, Target, expect
from secvm_lab.rigs.histories.relayed_rounds import relayed_document

_MOST_BYTES = 2**20
T = TypeVar("T")


def canonically(data: bytes) -> bytes:
    """What these bytes say as JSON, in the one way of documents; else the bytes."""
    try:
        content = json.loads(data)
        return encode_document(content) if isinstance(content, dict) else data
    except (ValueError, RecursionError, LocalProtocolError):
        return data


def tried_both_ways(decode: Callable[[bytes], T], write: Callable[[T], bytes]) -> Callable[[bytes], object]:
    """Decode the bytes, and what they say; each must be written again as it was."""

    @functools.wraps(decode)
    def both(data: bytes) -> object:
        canonical = canonically(data)
        if canonical != data:
            try:
                decode(data)
            except MalformedMessageError:
                pass
            else:
                expect(holds=False, law="a document was taken that is not canonical")
        document = decode(canonical)
        expect(write(document) == canonical, "a document is written otherwise than it was read")
        return document

    return both


def document(name: str, kind: Any, seeds: Callable[[], Sequence[bytes]]) -> Target:
    """A target: the kind's ``from_bytes``, and its ``data`` or ``to_bytes``, which give the same bytes again."""
    write = kind.to_bytes if hasattr(kind, "to_bytes") else lambda read: read.data
    return Target(name, tried_both_ways(kind.from_bytes, write), seeds)


# ── packages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _packages() -> list[bytes]:
    experiment = world.history().document.experiment_id
    kinds = (
        TrainPackage(model=0, bin_index=3, sign=1),
        TestPackage(true_class=0, predicted_class=1),
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=1),
        NullPackage(),
    )
    return [codec.encode(codec.AddressedPackage(experiment, 1, kind)) for kind in kinds]


def _request(data: bytes) -> object:
    found = read_request(data)
    try:
        package: bytes | None = package_in(data)
    except MalformedMessageError:
        package = None
    expect(package == (found.plaintext if isinstance(found, PackageRequest) else None), "two readers of one request")
    return found


def _requests() -> list[bytes]:
    packages = _packages()
    return [package_request(packages[0]), fetch_request("/v1/keys")]


def _answers() -> list[bytes]:
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    return [fetch_answer(200, b"file", date), fetch_answer(404, b"", date)]


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _document(data: bytes) -> dict[str, Any]:
    return decode_document(data, max_bytes=_MOST_BYTES)


def _published(data: bytes) -> object:
    return read_published(data, digest=world.history().document.digest)


def _signed(data: bytes, purpose: str) -> bytes:
    return sign(canonically(data), purpose=purpose, keys=[world.history().parties.coordinator])


@functools.cache
def _first() -> AcceptedManifest:
    return accept(world.files("/manifest/1")[0], document=world.history().document)


def _accept(data: bytes) -> object:
    return accept(_signed(data, MANIFEST_TYPE), document=world.history().document, last=_first())


def _accept_ending(data: bytes) -> object:
    return accept_ending(_signed(data, ENDING_TYPE), document=world.history().document, last=_first())


def _count(data: bytes) -> object:
    relay = world.history().parties.relays[0]
    enveloped = sign(canonically(data), purpose=RELAY_COUNT_TYPE, keys=[relay])
    return read_relay_count(enveloped, world.history().document)


def _write_count(count: RelayCount) -> bytes:
    told = {"capsules": count.capsules, "clients": count.clients, "opens_at": count.opens_at}
    return encode_document({**told, "type": RELAY_COUNT_TYPE})


def _evidence() -> list[bytes]:
    history = world.history()
    one, two = world.files("/manifest/1")[0], world.files("/manifest/2")[0]
    note = world.files(f"{history.document.digest}/checkpoint")[0]
    other = replace(history.manifests[0], quota=7).signed([history.parties.coordinator])
    entries = tuple(
        LoggedEntry(history.log.entries[at], history.log.proof(at, history.log.checkpoint())) for at in (1, 2)
    )
    parts: tuple[tuple[Kind, dict[str, Any]], ...] = (
        (Kind.TWO_DOCUMENTS, {"documents": (one, other)}),
        (Kind.TWO_DOCUMENTS, {"documents": (one, two)}),
        (Kind.WRONG_STEP, {"documents": (one, two), "blobs": tuple(world.files("/blob/")[:2])}),
        (Kind.FORKED_LOG, {"checkpoints": (note, note)}),
        (Kind.NOT_IN_LOG, {"documents": (one,), "entries": entries[:1]}),
        (Kind.TWO_ENTRIES, {"entries": entries}),
    )
    return [Evidence(kind=kind, experiment=history.envelope, **given).to_bytes() for kind, given in parts]


TARGETS = (
    Target("package", codec.decode, _packages, canonical=codec.encode),
    Target("sealed-request", _request, _requests),
    Target("sealed-answer", read_answer, _answers),
    Target("problem", read_problem, lambda: [PROBLEMS["stale"].to_bytes(), PROBLEMS["garbage"].to_bytes()]),
    Target(
        "document",
        _document,
        lambda: [b'{"a":[1,null,true,{"b":"\xc3\xa9"}]}', *world.payloads("/manifest/1")],
        canonical=encode_document,
    ),
    document(
        "experiment",
        ExperimentDocument,
        lambda: [
            world.history().document.data,
            *world.documents(),
            relayed_document(operator="Uni", contact="c@uni.example", purpose="To see.").data,
        ],
    ),
    Target("experiment-published", _published, lambda: [world.history().envelope], allowed=SIGNED),
    Target(
        "invite",
        lambda data: Invite.from_text(world.as_text(data)),
        lambda: [Invite.of(relayed_document()).to_text().encode()],
        encode=lambda read: read.to_text().encode(),
        allowed=(BadInputError,),
    ),
    document("manifest", RoundManifest, lambda: world.payloads("/manifest/1", "/manifest/3")),
    Target(
        "manifest-accept",
        _accept,
        lambda: world.payloads("/manifest/1", "/manifest/2", "/manifest/3"),
        allowed=(*SIGNED, StaleRoundError, InconsistentManifestError, EquivocationError),
    ),
    document("ending", Ending, lambda: world.payloads("/ending")),
    Target(
        "ending-accept", _accept_ending, lambda: world.payloads("/ending"), allowed=(*SIGNED, InconsistentManifestError)
    ),
    Target(
        "relay-count",
        tried_both_ways(RelayCount.from_bytes, _write_count),
        lambda: [_write_count(RelayCount(3, 20, 400))],
    ),
    Target("relay-count-signed", _count, lambda: [_write_count(RelayCount(3, 20, 400))], allowed=SIGNED),
    document("evidence", Evidence, _evidence),
    Target("evidence-examine", lambda data: examine(canonically(data)), _evidence, allowed=(RemoteProtocolError,)),
)
