"""Targets: packages, documents and blobs (``secvm.protocol``).

A document that is not canonical is refused before anything is looked at. So that a fuzzer gets further, these targets
also try what the bytes say as JSON, written in the one way.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from secvm.crypto.signing import sign
from secvm.errors import (
    BadSignatureError,
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
from secvm.protocol.evidence.plain import Evidence, Kind, examine
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
from secvm_lab.fuzz.target import Target, expect
from secvm_lab.rigs.histories.relayed_rounds import relayed_document

_SIGNED = (MalformedMessageError, BadSignatureError)
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
        told = canonically(data)
        if told != data:
            try:
                decode(data)
            except MalformedMessageError:
                pass
            else:
                expect(holds=False, law="a document was taken that is not canonical")
        found = decode(told)
        expect(write(found) == told, "a document is written otherwise than it was read")
        return found

    return both


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
    one, two = world.files("/manifest/1")[0], world.files("/manifest/2")[0]
    files = world.history().files
    note = next(data for path, data in files.items() if path.endswith(f"{world.history().document.digest}/checkpoint"))
    blobs = tuple(world.files("/blob/")[:2])
    other = replace(world.history().manifests[0], quota=7).signed([world.history().parties.coordinator])
    shown = (
        Evidence(kind=Kind.TWO_DOCUMENTS, experiment=world.history().envelope, documents=(one, other)),
        Evidence(kind=Kind.TWO_DOCUMENTS, experiment=world.history().envelope, documents=(one, two)),
        Evidence(kind=Kind.WRONG_STEP, experiment=world.history().envelope, documents=(one, two), blobs=blobs),
        Evidence(kind=Kind.FORKED_LOG, experiment=world.history().envelope, checkpoints=(note, note)),
        Evidence(kind=Kind.NOT_IN_LOG, experiment=world.history().envelope, checkpoints=(note,), documents=(one,)),
    )
    return [one.to_bytes() for one in shown]


TARGETS = (
    Target(name="package", decode=codec.decode, canonical=codec.encode, seeds=_packages, most_bytes=40),
    Target(
        name="sealed-request",
        decode=_request,
        seeds=_requests,
        covers=("protocol.plain.sealed_requests:read_request", "protocol.plain.sealed_requests:package_in"),
        most_bytes=1024,
    ),
    Target(name="sealed-answer", decode=read_answer, seeds=_answers, most_bytes=8192),
    Target(
        name="problem",
        decode=read_problem,
        seeds=lambda: [PROBLEMS["stale"].to_bytes(), PROBLEMS["garbage"].to_bytes()],
        most_bytes=512,
    ),
    Target(
        name="document",
        decode=_document,
        canonical=encode_document,
        seeds=lambda: [b'{"a":[1,null,true,{"b":"\xc3\xa9"}]}', *world.payloads("/manifest/1")],
        covers=("protocol.canonical:decode_document",),
    ),
    Target(
        name="experiment",
        decode=tried_both_ways(ExperimentDocument.from_bytes, lambda found: found.data),
        seeds=lambda: [world.history().document.data, *world.documents(), relayed_document().data],
        covers=(
            "protocol.documents.terms:read_learning",
            "protocol.log.terms:LogTerms.from_fields",
            "protocol.documents.terms:RelayTimes.from_fields",
            "protocol.documents.terms:read_relay_cover",
        ),
    ),
    Target(
        name="experiment-published",
        decode=_published,
        allowed=_SIGNED,
        seeds=lambda: [world.history().envelope],
        covers=("protocol.documents.experiment:read_published",),
    ),
    Target(
        name="manifest",
        decode=tried_both_ways(RoundManifest.from_bytes, lambda found: found.data),
        seeds=lambda: world.payloads("/manifest/1", "/manifest/3"),
        covers=(
            "protocol.documents.manifest:RoundManifest.from_bytes",
            "protocol.documents.manifest:LastRound.from_fields",
        ),
    ),
    Target(
        name="manifest-accept",
        decode=_accept,
        allowed=(*_SIGNED, StaleRoundError, InconsistentManifestError, EquivocationError),
        seeds=lambda: world.payloads("/manifest/1", "/manifest/2", "/manifest/3"),
        covers=("protocol.documents.manifest:accept",),
    ),
    Target(
        name="ending",
        decode=tried_both_ways(Ending.from_bytes, lambda found: found.data),
        seeds=lambda: world.payloads("/ending"),
        covers=("protocol.documents.ending:Ending.from_bytes",),
    ),
    Target(
        name="ending-accept",
        decode=_accept_ending,
        allowed=(*_SIGNED, InconsistentManifestError),
        seeds=lambda: world.payloads("/ending"),
        covers=("protocol.documents.ending:accept_ending",),
    ),
    Target(
        name="relay-count",
        decode=tried_both_ways(RelayCount.from_bytes, _write_count),
        seeds=lambda: [_write_count(RelayCount(3, 20, 400))],
        covers=("protocol.documents.manifest:RelayCount.from_bytes",),
        most_bytes=512,
    ),
    Target(
        name="relay-count-signed",
        decode=_count,
        allowed=_SIGNED,
        seeds=lambda: [_write_count(RelayCount(3, 20, 400))],
        covers=("protocol.documents.manifest:read_relay_count",),
        most_bytes=512,
    ),
    Target(
        name="evidence",
        decode=tried_both_ways(Evidence.from_bytes, Evidence.to_bytes),
        seeds=_evidence,
        covers=("protocol.evidence.plain:Evidence.from_bytes",),
        most_bytes=16384,
    ),
    Target(
        name="evidence-examine",
        decode=lambda data: examine(canonically(data)),
        allowed=(RemoteProtocolError,),
        seeds=_evidence,
        covers=(
            "protocol.evidence.plain:examine",
            "protocol.evidence.logged_documents:read_logged",
            "protocol.evidence.logged_documents:read_signed",
        ),
        most_bytes=16384,
    ),
)
