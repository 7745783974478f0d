"""Envelopes: what is signed stays what it was, for what it was meant."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import Envelope, SigningKey, VerifyKey, sign, signed_bytes, verify
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from tests.rigs.vectors import vectors

KEYS = [SigningKey(bytes([i]) * 32) for i in range(1, 4)]
PUBLIC = [key.public for key in KEYS]


@given(payload=st.binary(max_size=200), purpose=st.text(max_size=20), signers=st.sets(st.integers(0, 2), min_size=1))
def test_what_was_signed_comes_out(payload: bytes, purpose: str, signers: set[int]) -> None:
    data = sign(payload, purpose=purpose, keys=[KEYS[i] for i in signers])
    assert verify(data, purpose=purpose, keys=PUBLIC, threshold=len(signers)) == payload
    assert Envelope.from_bytes(data).to_bytes() == data
    if len(signers) < 3:
        with pytest.raises(BadSignatureError):
            verify(data, purpose=purpose, keys=PUBLIC, threshold=len(signers) + 1)


@given(a=st.text(max_size=4), b=st.binary(max_size=4), c=st.text(max_size=4), d=st.binary(max_size=4))
def test_no_two_purposes_and_payloads_are_signed_as_the_same_bytes(a: str, b: bytes, c: str, d: bytes) -> None:
    assert (signed_bytes(a, b) == signed_bytes(c, d)) == ((a, b) == (c, d))


def test_wrong_signature_of_a_trusted_key_spoils_the_good_one_of_another() -> None:
    good = Envelope.from_bytes(sign(b"payload", purpose="a", keys=KEYS[:2]))
    (first, signature), second = good.signatures
    spoiled = Envelope(good.payload, ((first, signature[:-1] + bytes([signature[-1] ^ 1])), second))
    with pytest.raises(BadSignatureError):
        verify(spoiled.to_bytes(), purpose="a", keys=PUBLIC)


def test_signatures_of_others_are_passed_over() -> None:
    data = sign(b"payload", purpose="a", keys=KEYS)
    assert verify(data, purpose="a", keys=PUBLIC[:1]) == b"payload"


def test_same_key_counts_once() -> None:
    data = sign(b"payload", purpose="a", keys=[KEYS[0], KEYS[0]])
    assert len(Envelope.from_bytes(data).signatures) == 1
    with pytest.raises(LocalProtocolError):
        verify(data, purpose="a", keys=[PUBLIC[0], PUBLIC[0]], threshold=2)


def test_every_truncated_extended_or_flipped_envelope_is_refused() -> None:
    data = sign(b"a payload", purpose="a", keys=KEYS[:2])
    for size in range(len(data)):
        with pytest.raises(MalformedMessageError):
            verify(data[:size], purpose="a", keys=PUBLIC)
    with pytest.raises(MalformedMessageError):
        verify(data + b"\0", purpose="a", keys=PUBLIC)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((MalformedMessageError, BadSignatureError)):
            verify(bytes(flipped), purpose="a", keys=PUBLIC, threshold=2)


def test_rfc_8032_key_and_an_id_that_is_not_the_key() -> None:
    # RFC 8032 §7.1, test 1
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(seed)
    assert key.public.data.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.public.key_id != key.public.data[:16]


def test_private_key_does_not_print_itself() -> None:
    assert repr(KEYS[0]) == "SigningKey(...)"
    assert "01" * 4 not in str(KEYS[0])


def test_keys_of_another_size_and_public_keys_that_are_no_point_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        SigningKey(b"short")
    with pytest.raises(LocalProtocolError):
        VerifyKey(b"short")
    no_point = VerifyKey(b"\x02" + bytes(30) + b"\x80")
    envelope = Envelope(b"", ((no_point.key_id, bytes(64)),))
    with pytest.raises(BadSignatureError):
        verify(envelope.to_bytes(), purpose="a", keys=[no_point])


# ── keys that bind nobody ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", vectors("bad_public_keys")["cases"], ids=lambda case: case["why"])
def test_repro_every_spelling_of_a_point_of_small_order_is_refused_as_a_key(case: dict[str, str]) -> None:
    spelling = bytes.fromhex(case["public_key"])
    with pytest.raises(MalformedMessageError, match="anybody can sign"):
        VerifyKey(spelling)
    with pytest.raises(MalformedMessageError):
        NoteKey("witness.example", VerifyKey(spelling), SignatureKind.COSIGNATURE)


def test_repro_a_y_that_is_not_reduced_is_no_key() -> None:
    p = 2**255 - 19
    for y in range(p, 2**255):
        for x in (0, 2**255):
            with pytest.raises(MalformedMessageError):
                VerifyKey((y | x).to_bytes(32, "little"))
    # Their neighbours below are.
    for x in (0, 2**255):
        VerifyKey((p - 2 | x).to_bytes(32, "little"))


def test_repro_a_constant_signature_proves_nothing() -> None:
    identity = b"\x01" + bytes(31)
    key_id = hashlib.sha256(b"secvm-v1-key\n" + identity).digest()[:16]
    forged = Envelope(b"any payload", ((key_id, identity + bytes(32)),)).to_bytes()
    with pytest.raises(MalformedMessageError, match="anybody can sign"):
        verify(forged, purpose="any purpose", keys=[VerifyKey(identity)])


@given(seed=st.binary(min_size=32, max_size=32))
def test_every_key_that_grows_from_a_seed_is_taken(seed: bytes) -> None:
    assert VerifyKey(SigningKey(seed).public.data) == SigningKey(seed).public
