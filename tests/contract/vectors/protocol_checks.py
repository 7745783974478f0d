"""Checks of the vectors of what travels, by the code of this package and, where it is short, by a formula alone."""

import base64
import hashlib
import json
import struct
from dataclasses import replace
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secvm.crypto.signing import Envelope, VerifyKey, verify
from secvm.errors import (
    BadSignatureError,
    MalformedMessageError,
)
from secvm.protocol.codec import AddressedPackage, ExperimentId, decode
from secvm.protocol.documents.blobs import read_tally_bytes
from secvm.protocol.documents.ending import accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest, accept, last_round
from secvm.protocol.plain.sealed_requests import (
    Answer,
    FetchRequest,
    PackageRequest,
    read_answer,
    read_request,
)
from secvm.protocol.problems import PROBLEMS, read_problem
from secvm.protocol.schedule import Window, redraw, shuffle, spread
from tests.contract.vectors.reading import JSON, bytes_of, read_package, refused


def check_packages(content: JSON) -> None:
    for case in content["cases"]:
        package, (kind, a, b, c) = read_package(case["package"])
        data = bytes.fromhex(case["bytes"])
        identity = bytes.fromhex(case["experiment_id"])
        assert data == struct.pack("<BB16sIHIBBBB", 1, kind, identity, case["round"], a, b, c, 0, 0, 0)
        assert decode(data) == AddressedPackage(ExperimentId(identity), case["round"], package)


def check_bad_encodings(content: JSON) -> None:
    for good in content["good"]:
        decode(bytes.fromhex(good))
    refused(content["cases"], lambda case: decode(bytes_of(case)), MalformedMessageError)


def check_plain_experiment_document(content: JSON) -> None:
    for case in content["cases"]:
        data = case["text"].encode()
        assert hashlib.sha256(data).hexdigest() == case["digest"]
        assert case["digest"].startswith(case["experiment_id"])
        assert len(case["experiment_id"]) == 32
        assert json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == data
        document = ExperimentDocument.from_bytes(data)
        assert document.data == data
        assert document.experiment_id.hex() == case["experiment_id"]


def check_askers(content: JSON) -> None:
    for case in content["cases"]:
        document = ExperimentDocument.from_bytes(case["text"].encode())
        assert (document.data.decode(), document.digest) == (case["text"], case["digest"])
    refused(content["bad"], lambda case: ExperimentDocument.from_bytes(case["text"].encode()), MalformedMessageError)


def check_bad_plain_experiment_documents(content: JSON) -> None:
    ExperimentDocument.from_bytes(content["good"].encode())
    read = ExperimentDocument.from_bytes
    refused(content["cases"], lambda case: read(case["text"].encode()), MalformedMessageError)


def check_envelope(content: JSON) -> None:
    for case in content["cases"]:
        payload, purpose = bytes.fromhex(case["payload"]), case["purpose"].encode()
        signed = b"secvm-v1-signed\n" + struct.pack("<Q", len(purpose)) + purpose
        signed += struct.pack("<Q", len(payload)) + payload
        assert signed.hex() == case["signed"]
        slots = {}
        for seed, public, key_id in zip(case["seeds"], case["public_keys"], case["key_ids"], strict=True):
            private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
            assert private.public_key().public_bytes_raw().hex() == public
            assert hashlib.sha256(b"secvm-v1-key\n" + bytes.fromhex(public)).hexdigest()[:32] == key_id
            slots[bytes.fromhex(key_id)] = private.sign(signed)
        whole = b"secvm-envelope-v1\n" + bytes([len(slots)]) + b"".join(i + slots[i] for i in sorted(slots))
        whole += struct.pack("<I", len(payload)) + payload
        assert whole.hex() == case["bytes"]
        trusted = [VerifyKey(bytes.fromhex(public)) for public in case["public_keys"]]
        assert verify(whole, purpose=case["purpose"], keys=trusted, threshold=len(trusted)) == payload


def check_bad_public_keys(content: JSON) -> None:
    assert VerifyKey(bytes.fromhex(content["good"])).data.hex() == content["good"]
    refused(content["cases"], lambda case: VerifyKey(bytes.fromhex(case["public_key"])), MalformedMessageError)


def check_bad_envelopes(content: JSON) -> None:
    keys = [VerifyKey(bytes.fromhex(public)) for public in content["public_keys"]]
    assert verify(bytes.fromhex(content["good"]), purpose=content["purpose"], keys=keys, threshold=2)
    read = partial(verify, purpose=content["purpose"], keys=keys, threshold=2)
    refused(content["cases"], lambda case: read(bytes_of(case)), MalformedMessageError, BadSignatureError)


def check_plain_manifest(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["experiment"].encode())
    last, before = None, None
    for case in content["cases"]:
        told = json.loads(case["text"])
        data = bytes.fromhex(case["bytes"])
        assert hashlib.sha256(case["text"].encode()).hexdigest() == case["digest"]
        assert told["previous"] == before
        assert told["experiment"] == hashlib.sha256(content["experiment"].encode()).hexdigest()
        envelope = Envelope.from_bytes(data)
        assert envelope.payload == case["text"].encode()
        signature = envelope.signatures[0][1]
        message = b"secvm-v1-signed\n" + struct.pack("<Q", 17) + b"secvm-v1-manifest"
        message += struct.pack("<Q", len(envelope.payload)) + envelope.payload
        Ed25519PublicKey.from_public_bytes(document.coordinator_keys[0].data).verify(signature, message)
        last = accept(data, document=document, last=last)
        assert last.manifest.round_number == case["round"] == told["round"]
        assert last.manifest.data == case["text"].encode()
        assert base64.b64decode(told["gateway_keys"]) == last.manifest.gateway_keys
        before = case["digest"]
    second = RoundManifest.from_bytes(content["cases"][1]["text"].encode())
    assert second.last is not None
    tally = read_tally_bytes(bytes.fromhex(content["tally"]), document.experiment)
    assert last_round(tally) == replace(second.last, relay_count=None)
    assert int(tally.plus.sum() + tally.minus.sum()) == 30


def check_bad_plain_manifests(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["experiment"].encode())
    last = accept(bytes.fromhex(content["last"]), document=document)
    accept(bytes.fromhex(content["good"]), document=document, last=last)
    refused(content["cases"], lambda case: accept(bytes_of(case), document=document, last=last))


def check_plain_ending(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["experiment"].encode())
    for case in content["cases"]:
        told, data = json.loads(case["text"]), bytes.fromhex(case["bytes"])
        assert hashlib.sha256(case["text"].encode()).hexdigest() == case["digest"]
        last = None if case["last"] is None else accept(bytes.fromhex(case["last"]), document=document)
        ending = accept_ending(data, document=document, last=last)
        assert ending.data == case["text"].encode() == Envelope.from_bytes(data).payload
        assert (told["round"], told["manifest"]) == (
            (0, None) if last is None else (ending.round_number, ending.manifest)
        )
        assert last is None or told["manifest"] == hashlib.sha256(last.manifest.data).hexdigest()
        assert told["why"] == ending.why.value
        # It can be believed without any manifest as well.
        assert accept_ending(data, document=document) == ending


def check_bad_plain_endings(content: JSON) -> None:
    document = ExperimentDocument.from_bytes(content["experiment"].encode())
    last = accept(bytes.fromhex(content["last"]), document=document)
    accept_ending(bytes.fromhex(content["good"]), document=document, last=last)
    refused(content["cases"], lambda case: accept_ending(bytes_of(case), document=document, last=last))


def check_schedule(content: JSON) -> None:
    for case in content["cases"]:
        opens_at, closes_at = case["opens_at"], case["closes_at"]
        window, length = Window(opens_at, closes_at), closes_at - opens_at
        words, again = [int(w) for w in case["words"]], [int(w) for w in case["redraw_words"]]
        kept = [w for w in words if w < 2**64 - 2**64 % length]
        assert [opens_at + w % length for w in kept] == case["times"] == spread(5, window, iter(words))
        left = closes_at - case["now"]
        fresh = (case["now"] + w % left for w in again if w < 2**64 - 2**64 % left)
        assert [at if at >= case["now"] else next(fresh) for at in case["times"]] == case["redrawn"]
        assert redraw(case["times"], window, iter(again), now=case["now"]) == case["redrawn"]
    for case in content["shuffles"]:
        words = [int(w) for w in case["words"]]
        order, rest = list(range(case["count"])), iter(words)
        for i in range(case["count"] - 1, 0, -1):
            j = next(w for w in rest if w < 2**64 - 2**64 % (i + 1)) % (i + 1)
            order[i], order[j] = order[j], order[i]
        assert order == case["order"] == shuffle(range(case["count"]), iter(words))


def check_problems(content: JSON) -> None:
    assert [case["name"] for case in content["cases"]] == list(PROBLEMS)
    for case in content["cases"]:
        problem = read_problem(case["text"].encode())
        assert all(getattr(problem, name) == case[name] for name in ("name", "uri", "status", "retry"))
        assert json.loads(case["text"])["type"] == case["uri"]


def check_sealed_requests(content: JSON) -> None:
    for case in content["packages"]:
        package, request = bytes.fromhex(case["package"]), bytes.fromhex(case["request"])
        # The length of the content, as RFC 9000 writes integers: one byte below 64, else two.
        length = b" " if len(package) == 32 else b"\x40\x60"
        head = b"\0\4POST\5https\x0fgateway.invalid\x0c/v1/packages\0" + length
        assert request == head + package + b"\0"
    for case in content["packages"] + content["others"]:
        assert read_request(bytes.fromhex(case["request"])) == PackageRequest(bytes.fromhex(case["package"]))
    for case in content["fetches"]:
        assert read_request(bytes.fromhex(case["request"])) == FetchRequest(case["path"])
    refused(content["refused"], lambda case: read_request(bytes.fromhex(case["request"])), MalformedMessageError)
    for case in content["fetch_answers"]:
        body, answer = bytes.fromhex(case["content"]), bytes.fromhex(case["answer"])
        assert (len(answer) + 32) % 4096 == 0
        assert read_answer(answer) == Answer(case["status"], body, case["date"])
