"""Rounds of drand, a beacon of many: its output is a threshold signature, so that no few of its members know it early.

Chains of scheme ``bls-unchained-g1-rfc9380``: BLS12-381, signatures in G1, the chain's key in G2. What is signed is
SHA-256 of the round's number, 8 bytes big-endian; a round says nothing about the one before. The signature of a round
is unique, so nobody chooses it, and the output is its SHA-256.

A round's time follows from its number, whoever serves it: that is what makes "not known yet" checkable.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from py_arkworks_bls12381 import GT, G1Point, G2Point

from secvm.crypto.beacons.records import BeaconOutput, read_object
from secvm.errors import BadBeaconError, LocalProtocolError

SIGNATURE_BYTES = 48
PUBLIC_KEY_BYTES = 96
#: RFC 9380's tag of this scheme. It says SHA-256 for G1, which older chains of drand got wrong.
DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
#: The last round that its 8 bytes can name is later than anybody.
MAX_ROUND = 2**53 - 1


@dataclass(frozen=True, slots=True)
class DrandChain:
    """What is fixed of a chain. All of it, and no more, is in its hash, which is its name among drand's servers."""

    #: Its own name for itself.
    beacon_id: str
    public_key: bytes
    #: When round 1 was, in seconds.
    genesis_s: int
    period_s: int
    #: Digest of the group that began the chain.
    genesis_seed: bytes

    def __post_init__(self) -> None:
        if len(self.public_key) != PUBLIC_KEY_BYTES or self.period_s < 1 or self.genesis_s < 0:
            raise LocalProtocolError("a drand chain has a key of 96 bytes, a beginning and a period")

    @property
    def chain_hash(self) -> str:
        """The chain's name, in hexadecimal."""
        fixed = self.period_s.to_bytes(4, "big") + self.genesis_s.to_bytes(8, "big") + self.public_key
        return hashlib.sha256(fixed + self.genesis_seed + self.beacon_id.encode()).hexdigest()


#: The League of Entropy's chain of three-second rounds, since 2023.
QUICKNET = DrandChain(
    beacon_id="quicknet",
    public_key=bytes.fromhex(
        "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
        "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
    ),
    genesis_s=1_692_803_367,
    period_s=3,
    genesis_seed=bytes.fromhex("f477d5c89f21a17c863a7f937c6a6d15859414d2be09cd448d4279af331c5d3e"),
)


def drand_time(chain: DrandChain, round_number: int) -> int:
    """The instant, in milliseconds, at which the members begin to sign this round; nobody knows it before."""
    if not 1 <= round_number <= MAX_ROUND:
        raise BadBeaconError("a drand chain has no round of this number")
    return (chain.genesis_s + (round_number - 1) * chain.period_s) * 1000


def verify_round(chain: DrandChain, round_number: int, record: bytes) -> BeaconOutput:
    """The output of this round, out of the JSON that drand's servers give: ``round``, ``randomness``, ``signature``.

    Raises
    ------
    BadBeaconError
        Whatever else the bytes are.
    """
    at = drand_time(chain, round_number)
    fields = read_object(record, "a drand round").has_exactly("round", "randomness", "signature")
    signature = fields.hexadecimal("signature", SIGNATURE_BYTES)
    if fields.integer("round", bits=64) != round_number:
        raise BadBeaconError("this is another round of the chain")
    check_signature(chain, round_number, signature)
    value = hashlib.sha256(signature).digest()
    if fields.hexadecimal("randomness", len(value)) != value:
        raise BadBeaconError("a drand round's randomness is not the digest of its signature")
    return BeaconOutput(value=value, at=at)


def check_signature(chain: DrandChain, round_number: int, signature: bytes) -> None:
    """The chain's members signed this round, or this raises."""
    try:
        # The library looks at curve and subgroup. It also takes several spellings of the identity, hence what follows.
        point = G1Point.from_compressed_bytes(signature)
        key = G2Point.from_compressed_bytes(chain.public_key)
    except (ValueError, TypeError):
        raise BadBeaconError("a drand round's signature is no point of its curve") from None
    if point == G1Point.identity() or not point.is_in_subgroup() or point.to_compressed_bytes() != signature:
        raise BadBeaconError("a drand round's signature is outside the group of signatures")
    if key == G2Point.identity() or not key.is_in_subgroup():
        # With the identity as its key everybody could sign.
        raise BadBeaconError("a drand chain's key is outside the group of keys")
    hashed = G1Point.hash_to_curve(hashlib.sha256(round_number.to_bytes(8, "big")).digest(), DOMAIN)
    # e(signature, generator) = e(hashed, key), as one product.
    if not GT.pairing_check([point, -hashed], [G2Point(), key]):
        raise BadBeaconError("a drand round is not signed by its chain")
