"""Targets: notes, checkpoints, proofs and tiles of a log, and what public beacons serve."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from secvm.crypto.beacons.nist_pulse import NistPulse, verify_pulse
from secvm.crypto.beacons.records import read_object
from secvm.crypto.beacons.sources import QUICKNET, verify_beacon, verify_round
from secvm.crypto.merkle import Frontier, check_consistency, check_inclusion
from secvm.crypto.notes import Note, NoteKey, NoteSignature, SignatureKind, read_signature_lines
from secvm.errors import BadBeaconError, BadInputError, BadProofError, MalformedMessageError
from secvm.protocol.log.checkpoints import Checkpoint, hash_line, read_checkpoint, read_hash, read_number
from secvm.protocol.log.policy import LogPolicy, read_policy
from secvm.protocol.log.proofs import (
    CosigningRequest,
    LogProof,
    read_cosignatures,
    read_size,
    write_cosignatures,
    write_size,
)
from secvm.protocol.log.tiles import Tile, read_bundle, write_bundle
from secvm.protocol.trust.trusted_log import Appended
from secvm.runtime.beacons import WebBeacons
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import SIGNED, Target
from secvm_lab.fuzz.world import as_text, files, history

_BAD_BEACON = (BadBeaconError,)
T = TypeVar("T")


def _note() -> bytes:
    return files(f"{history().document.digest}/checkpoint")[0]


def _text(name: str, read: Callable[[str], T], seeds: Callable[[], list[bytes]], write: Callable[[T], str]) -> Target:
    """Text that is written in one way."""
    return Target(name, lambda data: read(as_text(data)), seeds, canonical=lambda found: write(found).encode())


def _note_keys() -> list[bytes]:
    log = history().parties.log.public
    return [NoteKey("w.example/1", log, kind).to_text().encode() for kind in SignatureKind]


def _lines() -> list[bytes]:
    return ["".join(line.to_line() for line in Note.from_bytes(_note()).signatures).encode()]


def _cosigning_requests() -> list[bytes]:
    log = history().log
    size = log.tree.size
    path = log.tree.consistency_proof(2, size)
    return [CosigningRequest(2, path, log.checkpoint().data).to_bytes()]


def _read_checkpoint(data: bytes) -> object:
    signed = read_checkpoint(data, log=history().log.note_key)
    signed.times(history().terms.witness_keys)
    return signed.data


def _check_proof(data: bytes) -> object:
    log = history().log
    return LogProof.from_bytes(data).check(history().manifests[1].log_entry.to_bytes(), log=log.note_key)


def _log_lines(data: bytes) -> object:
    """What a device makes of a tile of entries."""
    log = history().log
    return Appended(Frontier(), read_bundle(data, width=log.tree.size), log.checkpoint()).entries


def _merkle(data: bytes) -> None:
    """A proof of any length, for any place: sizes first, hashes after them."""
    numbers = [int.from_bytes(data[at : at + 8], "big") >> 1 for at in (0, 8)]
    hashes = list(world.pieces(data[16:], 32)) or [bytes(32)]
    check_inclusion(hashes[0], index=numbers[0], size=numbers[1], proof=hashes[1:], root=hashes[0])
    check_consistency(
        first=numbers[0], second=numbers[1], first_root=hashes[0], second_root=hashes[-1], proof=hashes[1:]
    )


def _drand() -> list[bytes]:
    return [json.dumps({"round": 1000, "randomness": "00" * 32, "signature": "ab" * 48}).encode()]


class _Answering(WebBeacons):
    """A beacon that answers what it is told to."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer

    def _get(self, _url: str) -> bytes:
        return self._answer


_NEWEST = '{"pulse":{"chainIndex":2,"pulseIndex":5,"timeStamp":"2026-01-01T00:00:00.000Z","certificateId":"' + "ab" * 64
_PULSE = {
    "uri": "https://beacon.nist.gov/beacon/2.0/chain/2/pulse/5",
    "version": "Version 2.0",
    "cipherSuite": 0,
    "period": 60000,
    "certificateId": "ab" * 64,
    "chainIndex": 2,
    "pulseIndex": 5,
    "timeStamp": "2026-01-01T00:00:00.000Z",
    "localRandomValue": "00" * 64,
    "external": {"sourceId": "00" * 64, "statusCode": 0, "value": "00" * 64},
    "listValues": [
        {"uri": f"https://beacon.nist.gov/beacon/2.0/chain/2/pulse/{at}", "type": kind, "value": "00" * 64}
        for kind, at in (("previous", 4), ("hour", 3), ("day", 2), ("month", 1), ("year", 1))
    ],
    "precommitmentValue": "00" * 64,
    "statusCode": 0,
    "signatureValue": "00" * 512,
    "outputValue": "00" * 64,
}


def _pulse(data: bytes) -> object:
    found = NistPulse.from_bytes(data)
    return found.signed, found.at


TARGETS = (
    Target("note", Note.from_bytes, lambda: [_note()], canonical=Note.to_bytes),
    _text(
        "note-line",
        NoteSignature.from_line,
        lambda: [line for line in _lines()[0].split(b"\n") if line],
        lambda found: found.to_line()[:-1],
    ),
    _text("note-lines", read_signature_lines, _lines, lambda found: "".join(line.to_line() for line in found)),
    _text("note-key", NoteKey.from_text, _note_keys, NoteKey.to_text),
    Target(
        "log-policy",
        read_policy,
        lambda: [LogPolicy.of_terms(history().terms).to_bytes(), b"quorum none\n"],
        allowed=(BadInputError,),
    ),
    Target(
        "checkpoint-text",
        lambda data: Checkpoint.from_text(as_text(data)),
        lambda: [Note.from_bytes(_note()).text.encode()],
        canonical=lambda found: found.to_text().encode(errors="surrogateescape"),
    ),
    Target("checkpoint", _read_checkpoint, lambda: [_note()], canonical=bytes, allowed=SIGNED),
    _text("hash-line", read_hash, world.texts(hash_line(bytes(32))[:-1]), lambda found: hash_line(found)[:-1]),
    _text("number-line", read_number, world.texts("0", "17", str(2**63 - 1)), str),
    Target("log-proof", LogProof.from_bytes, lambda: files("/proof/"), canonical=LogProof.to_bytes),
    Target("log-proof-check", _check_proof, lambda: files("/proof/2"), allowed=(*SIGNED, BadProofError)),
    Target(
        "merkle-proof",
        _merkle,
        lambda: [(6).to_bytes(8, "big") + (14).to_bytes(8, "big") + bytes(range(32)) * 4],
        allowed=(BadProofError,),
    ),
    Target("cosigning-request", CosigningRequest.from_bytes, _cosigning_requests, canonical=CosigningRequest.to_bytes),
    Target("cosignatures", read_cosignatures, _lines, canonical=write_cosignatures),
    Target("cosigned-size", read_size, lambda: [write_size(300)], canonical=write_size),
    _text(
        "tile-path",
        Tile.from_path,
        world.texts("tile/0/x001/x234/067", "tile/entries/000.p/5", "tile/7/000.p/1"),
        lambda tile: tile.path,
    ),
    Target(
        "bundle",
        lambda data: read_bundle(data, width=5),
        lambda: [write_bundle(history().log.entries[:5])],
        canonical=write_bundle,
    ),
    Target(
        "log-lines",
        _log_lines,
        lambda: [write_bundle(history().log.entries)],
        allowed=(MalformedMessageError, BadProofError),
    ),
    # ── beacons ──────────────────────────────────────────────────────────────────────────────────────────────────────
    Target(
        "beacon-object",
        lambda data: read_object(data, "a record"),
        lambda: [*_drand(), json.dumps({"pulse": _PULSE}).encode()],
        allowed=_BAD_BEACON,
    ),
    Target("drand-round", lambda data: verify_round(QUICKNET, 1000, data), _drand, allowed=_BAD_BEACON),
    Target("nist-pulse", _pulse, lambda: [json.dumps({"pulse": _PULSE}).encode()], allowed=_BAD_BEACON),
    Target(
        "nist-record",
        lambda data: verify_pulse(2, 5, data),
        lambda: [json.dumps({"pulse": _PULSE}).encode() + b"\n-----BEGIN CERTIFICATE-----\nAA==\n"],
        allowed=_BAD_BEACON,
    ),
    Target(
        "beacon-record",
        lambda data: verify_beacon("local-unsafe-a", 5, data, allow_unsafe=True),
        lambda: files("/beacon/0"),
        allowed=_BAD_BEACON,
    ),
    Target(
        "nist-newest", lambda data: _Answering(data).newest_pulse(2), world.texts(_NEWEST + '"}}'), allowed=_BAD_BEACON
    ),
    Target(
        "nist-fetched",
        lambda data: _Answering(data).fetch("nist-2.0-chain-2", 5),
        world.texts(_NEWEST + '"}}'),
        allowed=_BAD_BEACON,
    ),
)
