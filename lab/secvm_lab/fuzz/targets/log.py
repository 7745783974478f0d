"""Targets: notes, checkpoints, proofs and tiles of a log, and what public beacons serve."""

from __future__ import annotations

import json

from secvm.crypto.beacons.nist_pulse import NistPulse, verify_pulse
from secvm.crypto.beacons.records import read_object
from secvm.crypto.beacons.sources import QUICKNET, verify_beacon, verify_round
from secvm.crypto.merkle import Frontier, check_consistency, check_inclusion
from secvm.crypto.notes import Note, NoteKey, NoteSignature, SignatureKind, read_signature_lines
from secvm.errors import BadBeaconError, BadInputError, BadProofError, BadSignatureError, MalformedMessageError
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
from secvm_lab.fuzz.target import Target
from secvm_lab.fuzz.world import as_text, files, history

_BAD_BEACON = (BadBeaconError,)


def _note() -> bytes:
    return files(f"{history().document.digest}/checkpoint")[0]


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


def _bundle(data: bytes) -> list[bytes]:
    return read_bundle(data, width=5)


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


def _newest_pulse(data: bytes) -> object:
    return _Answering(data).newest_pulse(2)


def _nist_record(data: bytes) -> object:
    return _Answering(data).fetch("nist-2.0-chain-2", 5)


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
    return found.signed_bytes(), found.at


TARGETS = (
    Target(name="note", decode=Note.from_bytes, canonical=Note.to_bytes, seeds=lambda: [_note()]),
    Target(
        name="note-line",
        decode=lambda data: NoteSignature.from_line(as_text(data)),
        canonical=lambda found: found.to_line().encode()[:-1],
        seeds=lambda: [line for line in _lines()[0].split(b"\n") if line],
    ),
    Target(
        name="note-lines",
        decode=lambda data: read_signature_lines(as_text(data)),
        canonical=lambda found: "".join(line.to_line() for line in found).encode(),
        seeds=_lines,
    ),
    Target(
        name="note-key",
        decode=lambda data: NoteKey.from_text(as_text(data)),
        canonical=lambda found: found.to_text().encode(),
        seeds=lambda: [
            NoteKey("w.example/1", history().parties.log.public, kind).to_text().encode() for kind in SignatureKind
        ],
    ),
    Target(
        name="log-policy",
        decode=read_policy,
        allowed=(BadInputError,),
        seeds=lambda: [LogPolicy.of_terms(history().terms).to_bytes(), b"quorum none\n"],
    ),
    Target(
        name="checkpoint-text",
        decode=lambda data: Checkpoint.from_text(as_text(data)),
        canonical=lambda found: found.to_text().encode(errors="surrogateescape"),
        seeds=lambda: [Note.from_bytes(_note()).text.encode()],
    ),
    Target(
        name="checkpoint",
        decode=_read_checkpoint,
        canonical=bytes,
        allowed=(MalformedMessageError, BadSignatureError),
        seeds=lambda: [_note()],
    ),
    Target(
        name="hash-line",
        decode=lambda data: read_hash(as_text(data)),
        canonical=lambda found: hash_line(found).encode()[:-1],
        seeds=lambda: [hash_line(bytes(32)).encode()[:-1]],
    ),
    Target(
        name="number-line",
        decode=lambda data: read_number(as_text(data)),
        canonical=lambda found: str(found).encode(),
        seeds=world.texts("0", "17", str(2**63 - 1)),
    ),
    Target(name="log-proof", decode=LogProof.from_bytes, canonical=LogProof.to_bytes, seeds=lambda: files("/proof/")),
    Target(
        name="log-proof-check",
        decode=_check_proof,
        allowed=(MalformedMessageError, BadSignatureError, BadProofError),
        seeds=lambda: files("/proof/2"),
    ),
    Target(
        name="merkle-proof",
        decode=_merkle,
        allowed=(BadProofError,),
        seeds=lambda: [(6).to_bytes(8, "big") + (14).to_bytes(8, "big") + bytes(range(32)) * 4],
    ),
    Target(
        name="cosigning-request",
        decode=CosigningRequest.from_bytes,
        canonical=CosigningRequest.to_bytes,
        seeds=_cosigning_requests,
    ),
    Target(name="cosignatures", decode=read_cosignatures, canonical=write_cosignatures, seeds=_lines),
    Target(name="cosigned-size", decode=read_size, canonical=write_size, seeds=lambda: [write_size(300)]),
    Target(
        name="tile-path",
        decode=lambda data: Tile.from_path(as_text(data)),
        canonical=lambda tile: tile.path.encode(),
        seeds=world.texts("tile/0/x001/x234/067", "tile/entries/000.p/5", "tile/7/000.p/1"),
    ),
    Target(
        name="bundle", decode=_bundle, canonical=write_bundle, seeds=lambda: [write_bundle(history().log.entries[:5])]
    ),
    Target(
        name="log-lines",
        decode=_log_lines,
        allowed=(MalformedMessageError, BadProofError),
        seeds=lambda: [write_bundle(history().log.entries)],
    ),
    # ── beacons ──────────────────────────────────────────────────────────────────────────────────────────────────────
    Target(
        name="beacon-object",
        decode=lambda data: read_object(data, "a record"),
        allowed=_BAD_BEACON,
        seeds=lambda: [*_drand(), json.dumps({"pulse": _PULSE}).encode()],
    ),
    Target(
        name="drand-round", decode=lambda data: verify_round(QUICKNET, 1000, data), allowed=_BAD_BEACON, seeds=_drand
    ),
    Target(
        name="nist-pulse", decode=_pulse, allowed=_BAD_BEACON, seeds=lambda: [json.dumps({"pulse": _PULSE}).encode()]
    ),
    Target(
        name="nist-record",
        decode=lambda data: verify_pulse(2, 5, data),
        allowed=_BAD_BEACON,
        seeds=lambda: [json.dumps({"pulse": _PULSE}).encode() + b"\n-----BEGIN CERTIFICATE-----\nAA==\n"],
    ),
    Target(
        name="beacon-record",
        decode=lambda data: verify_beacon("local-unsafe-a", 5, data, allow_unsafe=True),
        allowed=_BAD_BEACON,
        seeds=lambda: files("/beacon/0"),
    ),
    Target(name="nist-newest", decode=_newest_pulse, allowed=_BAD_BEACON, seeds=world.texts(_NEWEST + '"}}')),
    Target(name="nist-fetched", decode=_nist_record, allowed=_BAD_BEACON, seeds=world.texts(_NEWEST + '"}}')),
)
