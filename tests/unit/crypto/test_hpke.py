"""HPKE against the RFC's vectors, pyca's own HPKE, and bad luck."""

import hmac
import json
import os
from pathlib import Path
from typing import Any

import cryptography_vectors
import pytest
from cryptography.hazmat.primitives import hpke as pyca
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing import kdf, kem
from secvm.crypto.sealing.hpke import (
    AEADS,
    AES_128_GCM,
    CHACHA20_POLY1305,
    MAX_PLAINTEXT_BYTES,
    Aead,
    Schedule,
)
from secvm.errors import LocalProtocolError, MalformedMessageError, OpeningError
from tests.unit.crypto.dice import unsafe_seeded, unsafe_written

PrivateKey = kem.X25519PrivateKey | kem.HybridPrivateKey

#: All points of low order of Curve25519, as u-coordinates: 0, 1, two of order 8, p - 1, and p, p + 1 written too large.
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
]


def rfc_vectors(file: str) -> list[dict[str, Any]]:
    folder = Path(cryptography_vectors.__file__).parent / "HPKE"
    return [
        vector
        for vector in json.loads((folder / file).read_text(encoding="utf-8"))
        if vector["mode"] == 0
        and vector["kem_id"] in {kem.X25519, kem.MLKEM768_X25519}
        and vector["kdf_id"] == kdf.HKDF_SHA256
        and vector["aead_id"] in AEADS
    ]


RFC_9180 = rfc_vectors("test-vectors.json")
POST_QUANTUM = rfc_vectors("hpke-pq-test-vectors.json")


def private_key(kem_id: int, data: bytes) -> PrivateKey:
    return kem.X25519PrivateKey(data) if kem_id == kem.X25519 else kem.HybridPrivateKey(data)


def suite_name(vector: dict[str, Any]) -> str:
    return f"kem {vector['kem_id']:#06x} aead {vector['aead_id']}"


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", [*RFC_9180, *POST_QUANTUM], ids=suite_name)
def test_recipient_gives_every_byte_of_the_vector(vector: dict[str, Any]) -> None:
    key = private_key(vector["kem_id"], bytes.fromhex(vector["skRm"]))
    enc = bytes.fromhex(vector["enc"])
    assert key.public_key.to_bytes().hex() == vector["pkRm"]
    assert key.decapsulate(enc).hex() == vector["shared_secret"]
    schedule = Schedule(vector["kem_id"], AEADS[vector["aead_id"]], bytes.fromhex(vector["info"]))
    context = schedule.receive(key, enc)
    assert context._key.hex() == vector["key"]
    assert context._base_nonce == int(vector["base_nonce"], 16)
    for message in vector["encryptions"]:
        assert context._nonce().hex() == message["nonce"]
        opened = context.open(bytes.fromhex(message["aad"]), bytes.fromhex(message["ct"]))
        assert opened.hex() == message["pt"]
    for export in vector["exports"]:
        assert context.export(bytes.fromhex(export["exporter_context"]), export["L"]).hex() == export["exported_value"]


@pytest.mark.parametrize("vector", RFC_9180, ids=suite_name)
def test_sender_gives_every_byte_of_the_vector(vector: dict[str, Any]) -> None:
    schedule = Schedule(vector["kem_id"], AEADS[vector["aead_id"]], bytes.fromhex(vector["info"]))
    public = kem.X25519PublicKey(bytes.fromhex(vector["pkRm"]))
    sender = schedule.send_to(public, unsafe_written(vector["skEm"]))
    assert sender.enc.hex() == vector["enc"]
    for message in vector["encryptions"]:
        assert sender.seal(bytes.fromhex(message["aad"]), bytes.fromhex(message["pt"])).hex() == message["ct"]
    for export in vector["exports"]:
        assert sender.export(bytes.fromhex(export["exporter_context"]), export["L"]).hex() == export["exported_value"]


@pytest.mark.parametrize("vector", RFC_9180, ids=suite_name)
def test_keys_are_derived_as_in_the_vector(vector: dict[str, Any]) -> None:
    for who in ("R", "E"):
        derived = kem.X25519PrivateKey.derive(bytes.fromhex(vector[f"ikm{who}"]))
        assert derived.secret_bytes().hex() == vector[f"sk{who}m"]
        assert derived.public_key.to_bytes().hex() == vector[f"pk{who}m"]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_extract_is_the_standard_librarys_hmac(salt: bytes, ikm: bytes) -> None:
    assert kdf.extract(salt, ikm) == hmac.digest(salt, ikm, "sha256")


# ── pyca's own HPKE ──────────────────────────────────────────────────────────────────────────────────────────────────


def pyca_suite(kem_id: int, aead: Aead) -> pyca.Suite:
    return pyca.Suite(
        pyca.KEM.X25519 if kem_id == kem.X25519 else pyca.KEM.MLKEM768_X25519,
        pyca.KDF.HKDF_SHA256,
        pyca.AEAD.AES_128_GCM if aead is AES_128_GCM else pyca.AEAD.CHACHA20_POLY1305,
    )


def pyca_private(key: PrivateKey) -> x25519.X25519PrivateKey | pyca.MLKEM768X25519PrivateKey:
    if isinstance(key, kem.X25519PrivateKey):
        return x25519.X25519PrivateKey.from_private_bytes(key.secret_bytes())
    return pyca.MLKEM768X25519PrivateKey(key._post_quantum, key._classical)


def pyca_public(key: kem.PublicKey) -> x25519.X25519PublicKey | pyca.MLKEM768X25519PublicKey:
    data = key.to_bytes()
    classical = x25519.X25519PublicKey.from_public_bytes(data[-32:])
    if key.kem_id == kem.X25519:
        return classical
    return pyca.MLKEM768X25519PublicKey(mlkem.MLKEM768PublicKey.from_public_bytes(data[:-32]), classical)


KEYS: list[PrivateKey] = [
    kem.X25519PrivateKey.generate(unsafe_seeded("classical")),
    kem.HybridPrivateKey.generate(unsafe_seeded("hybrid")),
]


@pytest.mark.parametrize("aead", [AES_128_GCM, CHACHA20_POLY1305], ids=["AES-128-GCM", "ChaCha20-Poly1305"])
@pytest.mark.parametrize("key", KEYS, ids=["X25519", "hybrid"])
@given(message=st.binary(max_size=200), info=st.binary(max_size=50))
def test_pyca_opens_ours_and_we_open_pycas(key: PrivateKey, aead: Aead, message: bytes, info: bytes) -> None:
    schedule = Schedule(key.kem_id, aead, info)
    suite = pyca_suite(key.kem_id, aead)
    sender = schedule.send_to(key.public_key, os.urandom)
    assert suite.decrypt(sender.enc + sender.seal(b"", message), pyca_private(key), info) == message
    theirs = suite.encrypt(message, pyca_public(key.public_key), info)
    size = kem.enc_bytes(key.kem_id)
    assert schedule.receive(key, theirs[:size]).open(b"", theirs[size:]) == message


# ── bad luck and bad will ────────────────────────────────────────────────────────────────────────────────────────────


def pair(key: PrivateKey) -> tuple[bytes, bytes, Schedule]:
    schedule = Schedule(key.kem_id, AES_128_GCM, b"info")
    sender = schedule.send_to(key.public_key, os.urandom)
    return sender.enc, sender.seal(b"aad", b"hello"), schedule


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("top_bit", [0, 1])
def test_shared_secret_of_zero_is_refused_on_both_sides(point: int, top_bit: int) -> None:
    data = ((point % 2**255) | (top_bit << 255)).to_bytes(32, "little")
    with pytest.raises(MalformedMessageError, match="low order"):
        kem.X25519PublicKey(data)
    with pytest.raises(OpeningError, match="low order"):
        KEYS[0].decapsulate(data)
    with pytest.raises(MalformedMessageError, match="low order"):
        kem.HybridPublicKey(KEYS[1].public_key.to_bytes()[:-32] + data)
    with pytest.raises(OpeningError, match="low order"):
        KEYS[1].decapsulate(bytes(1088) + data)


def test_zero_is_refused_even_if_the_library_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        def exchange(self, peer: object) -> bytes:
            return bytes(32)

    key = kem.X25519PrivateKey.generate(unsafe_seeded())
    monkeypatch.setattr(key, "_key", Careless())
    with pytest.raises(OpeningError):
        key.decapsulate(KEYS[0].public_key.to_bytes())


@pytest.mark.parametrize("key", KEYS, ids=["X25519", "hybrid"])
@given(data=st.data())
def test_flipped_bit_anywhere_does_not_open(key: PrivateKey, data: st.DataObject) -> None:
    enc, sealed, schedule = pair(key)
    whole = bytearray(enc + sealed)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(OpeningError):
        schedule.receive(key, bytes(whole[: len(enc)])).open(b"aad", bytes(whole[len(enc) :]))


@pytest.mark.parametrize("key", KEYS, ids=["X25519", "hybrid"])
def test_other_aad_info_key_or_order_does_not_open(key: PrivateKey) -> None:
    enc, sealed, schedule = pair(key)
    with pytest.raises(OpeningError):
        schedule.receive(key, enc).open(b"another", sealed)
    with pytest.raises(OpeningError):
        Schedule(key.kem_id, AES_128_GCM, b"another").receive(key, enc).open(b"aad", sealed)
    with pytest.raises(OpeningError):
        schedule.receive(type(key).generate(os.urandom), enc).open(b"aad", sealed)
    context = schedule.receive(key, enc)
    assert context.open(b"aad", sealed) == b"hello"
    with pytest.raises(OpeningError):
        context.open(b"aad", sealed)


def test_failed_opening_does_not_move_on() -> None:
    enc, sealed, schedule = pair(KEYS[0])
    context = schedule.receive(KEYS[0], enc)
    for bad in (b"", sealed[:15], sealed[:-1], sealed + b"\0"):
        with pytest.raises(OpeningError):
            context.open(b"aad", bad)
    assert context.open(b"aad", sealed) == b"hello"


def test_messages_under_one_key_are_limited() -> None:
    enc, sealed, schedule = pair(KEYS[0])
    context = schedule.receive(KEYS[0], enc)
    context._sequence = 2**96 - 1
    with pytest.raises(LocalProtocolError):
        context.open(b"aad", sealed)


def test_message_too_long_for_the_library_is_refused_by_name() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return MAX_PLAINTEXT_BYTES + 17

    with pytest.raises(LocalProtocolError):
        AES_128_GCM.seal(bytes(16), bytes(12), b"", Long())
    with pytest.raises(OpeningError):
        AES_128_GCM.open(bytes(16), bytes(12), b"", Long())


def test_wrong_sizes_of_our_own_are_refused() -> None:
    for call in (
        lambda: kem.X25519PrivateKey(bytes(31)),
        lambda: kem.HybridPrivateKey(bytes(33)),
        lambda: kem.X25519PrivateKey.derive(bytes(31)),
        lambda: kem.X25519PrivateKey.generate(lambda count: bytes(count - 1)),
        lambda: kdf.expand(bytes(32), b"", 255 * 32 + 1),
        lambda: kdf.labeled_expand(b"", bytes(32), b"", b"", 2**16),
        lambda: Schedule(kem.X25519, AES_128_GCM, b"").send_to(KEYS[1].public_key, os.urandom),
        lambda: Schedule(kem.X25519, AES_128_GCM, b"").receive(KEYS[1], bytes(1120)),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    for size in (0, 31, 33):
        with pytest.raises(MalformedMessageError):
            kem.X25519PublicKey(bytes(size))
        with pytest.raises(MalformedMessageError):
            kem.HybridPublicKey(bytes(size))
    for key in KEYS:
        for size in (0, 1, 31, 33, 1088, 1119, 1121):
            with pytest.raises(OpeningError):
                key.decapsulate(b"\x09" * size)
    with pytest.raises(MalformedMessageError, match="no ML-KEM key"):
        kem.HybridPublicKey(b"\xff" * 1184 + KEYS[0].public_key.to_bytes())


# ── secrets stay quiet ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", KEYS, ids=["X25519", "hybrid"])
def test_keys_and_contexts_do_not_print_themselves(key: PrivateKey) -> None:
    enc, sealed, schedule = pair(key)
    context = schedule.receive(key, enc)
    secrets = [key.secret_bytes(), context._key, context._secret]
    printed = f"{key!r} {key!s} {context!r} {schedule.send_to(key.public_key, os.urandom)!r}"
    assert not any(repr(secret) in printed or secret.hex() in printed for secret in secrets)
    with pytest.raises(OpeningError) as caught:
        context.open(b"another", sealed)
    # No error of the library hangs on it, whose frames would hold the key.
    assert caught.value.__context__ is None
    assert not any(repr(secret) in repr(caught.value) for secret in secrets)
