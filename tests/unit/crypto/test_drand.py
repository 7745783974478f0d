"""Rounds of drand: signed by the chain, or refused; the pairing held to a slow and plain implementation."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from secvm.crypto.beacons.sources import DOMAIN, QUICKNET, DrandChain, check_signature, drand_time, verify_round
from secvm.errors import BadBeaconError, LocalProtocolError
from tests.unit.crypto.recorded_beacons import DRAND_RECORD, RANDOMNESS, RECORDED, ROUND
from tests.unit.crypto.slow_pairings import (
    FQ12,
    G2,
    G1Compressed,
    G2Compressed,
    compress_G1,
    decompress_G1,
    decompress_G2,
    final_exponentiate,
    hash_to_G1,
    neg,
    pairing,
)

SIGNATURE = bytes.fromhex(RECORDED["drand"]["served"]["signature"])


def made_up_chain(secret: int) -> DrandChain:
    key = (G2Point() * Scalar(secret)).to_compressed_bytes()
    return replace(QUICKNET, beacon_id="made-up", public_key=key)


def signed(secret: int, round_number: int) -> bytes:
    message = hashlib.sha256(round_number.to_bytes(8, "big")).digest()
    return (G1Point.hash_to_curve(message, DOMAIN) * Scalar(secret)).to_compressed_bytes()


def record(round_number: int, signature: bytes) -> bytes:
    randomness = hashlib.sha256(signature).hexdigest()
    return json.dumps({"round": round_number, "randomness": randomness, "signature": signature.hex()}).encode()


def test_quicknet_is_the_chain_of_its_published_hash() -> None:
    # Key, period, beginning and seed are all in it: none of them can have been mistyped.
    assert QUICKNET.chain_hash == "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"


def test_recorded_round_is_genuine() -> None:
    output = verify_round(QUICKNET, ROUND, DRAND_RECORD)
    assert output.value == RANDOMNESS
    assert output.at == drand_time(QUICKNET, ROUND) == 1_694_775_603_000


def test_other_implementation_agrees_on_the_recorded_round() -> None:
    message = hashlib.sha256(ROUND.to_bytes(8, "big")).digest()
    hashed = hash_to_G1(message, DOMAIN, hashlib.sha256)  # type: ignore[arg-type]  # it wants the function, and says not so
    assert compress_G1(hashed).to_bytes(48, "big") == G1Point.hash_to_curve(message, DOMAIN).to_compressed_bytes()
    point = decompress_G1(G1Compressed(int.from_bytes(SIGNATURE, "big")))
    key_bytes = QUICKNET.public_key
    halves = (int.from_bytes(key_bytes[:48], "big"), int.from_bytes(key_bytes[48:], "big"))
    key = decompress_G2(G2Compressed(halves))
    left, right = pairing(G2, point, final_exponentiate=False), pairing(key, neg(hashed), final_exponentiate=False)
    assert final_exponentiate(left * right) == FQ12.one()
    # So that nobody holds us to an oracle that always agrees.
    assert final_exponentiate(left * left * right) != FQ12.one()


@given(secret=st.integers(1, 2**250), round_number=st.integers(1, 2**53 - 1))
def test_what_a_chain_signs_is_taken_from_it_and_from_no_other(secret: int, round_number: int) -> None:
    signature = signed(secret, round_number)
    check_signature(made_up_chain(secret), round_number, signature)
    for chain, number in ((QUICKNET, round_number), (made_up_chain(secret), round_number + 1)):
        with pytest.raises(BadBeaconError):
            check_signature(chain, number, signature)


@given(at=st.integers(0, 8 * len(SIGNATURE) - 1))
def test_signature_with_any_bit_changed_is_refused(at: int) -> None:
    wrong = (int.from_bytes(SIGNATURE, "big") ^ 1 << at).to_bytes(len(SIGNATURE), "big")
    with pytest.raises(BadBeaconError):
        verify_round(QUICKNET, ROUND, record(ROUND, wrong))


@pytest.mark.parametrize("first", [0xC0, 0xE0, 0xFF])
def test_identity_signs_nothing_however_it_is_spelt(first: int) -> None:
    for last in (0, 1):
        with pytest.raises(BadBeaconError):
            verify_round(QUICKNET, ROUND, record(ROUND, bytes([first]) + bytes(46) + bytes([last])))


def test_identity_is_no_chains_key() -> None:
    # With it the pairing would hold for the identity as the signature, and so for everybody.
    chain = replace(QUICKNET, public_key=b"\xc0" + bytes(95))
    for signature in (b"\xc0" + bytes(47), SIGNATURE):
        with pytest.raises(BadBeaconError):
            check_signature(chain, ROUND, signature)


def test_point_outside_the_subgroup_is_refused() -> None:
    outside = b"\x80" + bytes(46) + b"\x04"
    assert not G1Point.from_compressed_bytes_unchecked(outside).is_in_subgroup()
    with pytest.raises(BadBeaconError):
        verify_round(QUICKNET, ROUND, record(ROUND, outside))


def test_genuine_signature_moved_out_of_the_subgroup_is_refused() -> None:
    # The pairing alone might not tell: the part that was added has an order that divides the cofactor.
    order = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
    outside = G1Point.from_compressed_bytes_unchecked(b"\x80" + bytes(46) + b"\x04")
    small = outside * Scalar(order - 1) + outside
    assert small != G1Point.identity()
    moved = (G1Point.from_compressed_bytes(SIGNATURE) + small).to_compressed_bytes()
    with pytest.raises(BadBeaconError):
        verify_round(QUICKNET, ROUND, record(ROUND, moved))


@given(round_number=st.integers(1, 2**53 - 2))
def test_rounds_follow_each_other_by_the_period(round_number: int) -> None:
    assert drand_time(QUICKNET, round_number + 1) - drand_time(QUICKNET, round_number) == 3000


@pytest.mark.parametrize("round_number", [0, -1, 2**53])
def test_chain_has_no_such_round(round_number: int) -> None:
    with pytest.raises(BadBeaconError):
        drand_time(QUICKNET, round_number)


def test_chain_needs_a_whole_key() -> None:
    with pytest.raises(LocalProtocolError):
        replace(QUICKNET, public_key=bytes(48))
