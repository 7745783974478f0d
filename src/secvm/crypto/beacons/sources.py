r"""Public randomness: outputs of public beacons, verified or refused, and the salt that they fix.

An experiment names rounds that lie in the future when it is published, so that nobody who writes it can choose its
salt. Later anybody takes the *records* of those rounds, from whomever; what is here says whether they are genuine,
since when they can have been known, and which salt follows. Three kinds of chains, by name:

- ``drand-quicknet``: a beacon of many. Its output is a threshold signature, so that no few of its members know it
  early. The scheme is ``bls-unchained-g1-rfc9380``: BLS12-381, signatures in G1, the chain's key in G2. What is signed
  is SHA-256 of the round's number, 8 bytes big-endian; the signature of a round is unique, so nobody chooses it, and
  the output is its SHA-256. The round's time follows from its number, whoever serves it;
- ``nist-2.0-chain-N``: chain N of NIST's beacon, rounds are its pulse indices: ``nist_pulse``;
- ``local-unsafe`` or ``local-unsafe-SEED``: **for development**. Its outputs follow from its name, so everybody knows
  all of them at any time. It is refused unless the caller says ``allow_unsafe=True``, which a device must never do for
  people's data.

The salt is of the outputs, in the order in which the experiment names its beacons, and of the number of bins; **not**
of the experiment's digest, of which its author could try many once the outputs are known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from py_arkworks_bls12381 import GT, G1Point, G2Point

from secvm.crypto.beacons import nist_pulse
from secvm.crypto.beacons.records import BeaconOutput, read_object
from secvm.errors import BadBeaconError, LocalProtocolError

MAX_BEACONS = 8
MAX_ROUND = 2**53 - 1
SALT_BYTES = 32


# ── drand ────────────────────────────────────────────────────────────────────────────────────────────────────────────

SIGNATURE_BYTES = 48
PUBLIC_KEY_BYTES = 96
#: RFC 9380's tag of this scheme. It says SHA-256 for G1, which older chains of drand got wrong.
DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"


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


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────

DRAND_CHAINS = {"drand-quicknet": QUICKNET}

_LOCAL = re.compile(r"local-unsafe(-[a-z0-9.-]{1,51})?")
_NIST = re.compile(r"nist-2\.0-chain-([1-9][0-9]{0,8})")
_LOCAL_BYTES = 32


class BeaconSource(Protocol):
    """Where records come from. It need not be trusted: whoever takes a record verifies it."""

    def fetch(self, chain: str, round_number: int) -> bytes:
        """The record of this round.

        Raises
        ------
        BeaconUnavailableError
            There is none, or none yet.
        BadBeaconError
            There is no such chain, or what came cannot be a record.
        """
        ...


def is_unsafe(chain: str) -> bool:
    """Whether this is a development beacon, by its name."""
    return _LOCAL.fullmatch(chain) is not None


def nist_chain_index(chain: str) -> int | None:
    """Which of NIST's chains this is; None if it is none."""
    match = _NIST.fullmatch(chain)
    return int(match[1]) if match else None


def round_time(chain: str, round_number: int) -> int | None:
    """The instant, in milliseconds, before which a round is not known, as far as its number tells.

    None for NIST: there it stands in the pulse alone (``verify_beacon`` gives it). Rounds of the development beacon are
    seconds since 1970; that is when they are *meant* to be known.
    """
    _check_round(round_number)
    if chain in DRAND_CHAINS:
        return drand_time(DRAND_CHAINS[chain], round_number)
    if is_unsafe(chain):
        return round_number * 1000
    if nist_chain_index(chain) is None:
        raise BadBeaconError("nobody here knows a beacon of this name")
    return None


def verify_beacon(
    chain: str,
    round_number: int,
    record: bytes,
    *,
    pins: AbstractSet[str] = nist_pulse.PINS,
    allow_unsafe: bool = False,
) -> BeaconOutput:
    """The output of this round, and since when it can have been known, if the record is genuine.

    Parameters
    ----------
    chain, round_number
        As the experiment names them.
    record
        The bytes as a ``BeaconSource`` gives them.
    pins
        Certificates that are trusted for NIST's pulses, or to lead to those that signed them.
    allow_unsafe
        Take the development beacon too.

    Raises
    ------
    BadBeaconError
        For any other bytes, an unknown chain, and the development beacon where it is not allowed.
    """
    _check_round(round_number)
    if chain in DRAND_CHAINS:
        return verify_round(DRAND_CHAINS[chain], round_number, record)
    index = nist_chain_index(chain)
    if index is not None:
        return nist_pulse.verify_pulse(index, round_number, record, pins=pins)
    if not is_unsafe(chain):
        raise BadBeaconError("nobody here knows a beacon of this name")
    if not allow_unsafe:
        raise BadBeaconError("a beacon for development, whose outputs everybody knows, is no public randomness")
    return _verify_local(chain, round_number, record)


def salt_from(outputs: Sequence[bytes], bins: int) -> bytes:
    """The salt that verified outputs fix, in the order in which the experiment names their beacons (§21.4).

    One output that nobody knew when the experiment was logged is enough to make the salt unknown then.
    """
    if not 1 <= len(outputs) <= MAX_BEACONS or not 1 <= bins < 2**63:
        raise LocalProtocolError(f"a salt follows from one to {MAX_BEACONS} outputs and a number of bins")
    if any(len(output) not in {_LOCAL_BYTES, nist_pulse.OUTPUT_BYTES} for output in outputs):
        raise LocalProtocolError("these are no outputs of beacons")
    prefixed = b"".join(bytes([len(output)]) + output for output in outputs)
    data = bins.to_bytes(8, "little") + bytes([len(outputs)]) + prefixed
    return hashlib.blake2b(data, digest_size=SALT_BYTES, person=b"secvm-v1-beacons").digest()


class LocalUnsafeBeacon:
    """The development beacon as a source: it has every round, also those to come."""

    def fetch(self, chain: str, round_number: int) -> bytes:
        _check_round(round_number)
        if not is_unsafe(chain):
            raise BadBeaconError("the development beacon has no chain but its own")
        return json.dumps({"round": round_number, "output": _local_output(chain, round_number).hex()}).encode()


def _local_output(chain: str, round_number: int) -> bytes:
    data = round_number.to_bytes(8, "little") + chain.encode()
    return hashlib.blake2b(data, digest_size=_LOCAL_BYTES, person=b"secvm-v1-unsafe\0").digest()


def _verify_local(chain: str, round_number: int, record: bytes) -> BeaconOutput:
    fields = read_object(record, "a development round").has_exactly("round", "output")
    value = _local_output(chain, round_number)
    if fields.integer("round", bits=53) != round_number or fields.hexadecimal("output", _LOCAL_BYTES) != value:
        raise BadBeaconError("this is no round of this development beacon")
    return BeaconOutput(value=value, at=round_number * 1000)


def _check_round(round_number: int) -> None:
    if not 1 <= round_number <= MAX_ROUND:
        raise BadBeaconError(f"a beacon's rounds are numbered from 1 to {MAX_ROUND}; there is no round {round_number}")
