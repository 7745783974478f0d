"""Targets: what a device keeps of a server, and the blobs that servers keep for everybody."""

from __future__ import annotations

import zlib

from secvm.crypto.merkle import Frontier, leaf_hash
from secvm.errors import BadInputError, InconsistentManifestError
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import (
    decode_state,
    decode_tally,
    decode_weights,
    encode_tally,
    read_tally_bytes,
    tally_digest,
)
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_memory import WaitingRow
from secvm.protocol.trust.trusted_log import SeenLog
from secvm.protocol.trust.trusted_rounds import Trusted
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import SIGNED, Target, expect
from secvm_lab.fuzz.targets.documents import canonically, document, tried_both_ways

_MOST_BYTES = 2**20


# ── what a device keeps ──────────────────────────────────────────────────────────────────────────────────────────────


def _seal(_package: bytes, _manifest: object) -> bytes:
    return b"capsule"


def _session_parts(data: bytes) -> object:
    # Only who is sending has capsules that wait.
    rows = [WaitingRow(i, 5, 0, b"capsule") for i in range(3 if b'"sending"' in data else 0)]
    document = world.history().document
    return ParticipantSession.from_parts(canonically(data), rows, document, seal=_seal)


def _session_headers() -> list[bytes]:
    header = ParticipantSession(world.history().document, seal=_seal).take_changes().header
    return [] if header is None else [header]


def _seen_log() -> SeenLog:
    frontier = Frontier()
    for line in world.history().log.entries[:3]:
        frontier = frontier.append(leaf_hash(line))
    return SeenLog(b"note", frontier, world.history().manifests[1].log_entry)


def _trusted() -> list[bytes]:
    return [Trusted(manifest=world.files("/manifest/2")[0], log=_seen_log(), state=b"").to_bytes()]


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tally(data: bytes) -> object:
    document = world.history().document
    found = read_tally_bytes(data, document.experiment)
    expect(decode_tally(data, digest=tally_digest(found), experiment=document.experiment) == found, "one name")
    return found


def _tallies() -> list[bytes]:
    return [data for data in world.files("/blob/") if not data.startswith(b"secvm-")]


def _encoded_tally(found: Tally) -> bytes:
    return encode_tally(found, world.history().document.experiment)


def _tally_planes(data: bytes) -> Tally:
    # A change of a deflated byte is seen by its checksum; this looks behind it.
    return read_tally_bytes(zlib.compress(data, 1), world.history().document.experiment)


def _state(data: bytes) -> object:
    return decode_state(data, digest=digest_of(data), experiment=world.history().document.experiment)


def _weights(data: bytes) -> object:
    return decode_weights(data, digest=digest_of(data), experiment=world.history().document.experiment)


def _blobs(magic: bytes) -> list[bytes]:
    return [data for data in world.files("/blob/") if data.startswith(magic)]


TARGETS = (
    Target("session-parts", _session_parts, _session_headers, allowed=(*SIGNED, InconsistentManifestError)),
    Target("trusted", tried_both_ways(lambda data: Trusted.from_parts(data, b""), Trusted.to_bytes), _trusted),
    document("seen-log", SeenLog, lambda: [SeenLog().to_bytes(), _seen_log().to_bytes()]),
    Target("tally", _tally, _tallies, encode=_encoded_tally),
    Target(
        "tally-planes",
        _tally_planes,
        lambda: [zlib.decompress(data) for data in _tallies()],
        canonical=lambda found: zlib.decompress(_encoded_tally(found)),
    ),
    Target("state", _state, lambda: _blobs(b"secvm-state"), canonical=State.to_bytes),
    Target(
        "state-of-any",
        State.from_bytes,
        lambda: _blobs(b"secvm-state"),
        canonical=State.to_bytes,
        allowed=(BadInputError,),
    ),
    Target("weights", _weights, lambda: _blobs(b"secvm-weights"), canonical=Weights.to_bytes),
)
