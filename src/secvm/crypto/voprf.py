"""A verifiable oblivious pseudorandom function: RFC 9497, mode VOPRF, suite ristretto255-SHA512.

Whoever has a secret key k computes a function F_k. A client learns F_k of inputs that the owner of the key never sees:

    blinded = blind(inputs, blinds)                          # the client: random elements, whatever the inputs are
    evaluated, proof = evaluate(key, blinded, dice)          # the owner: once k times each, and one proof for all
    outputs = finalize(inputs, blinds, blinded, evaluated, proof, key.public)

The proof (a batched DLEQ of Chaum and Pedersen) says that all were multiplied by the very key whose public half is
known: an owner that uses another key for somebody, to recognise them by it later, is found out before an output exists.
What the owner sees of an input is a uniform element, independent of it: no computer, however large, gets more out.

Names of functions are the RFC's where it has one. Its vectors are in ``vectors/v2/tokens.json``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from secvm.crypto import ristretto255 as group
from secvm.crypto.ristretto255 import Element
from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError

KEY_SEED_BYTES = 32
PROOF_BYTES = 2 * group.SCALAR_BYTES
OUTPUT_BYTES = 64
#: The RFC numbers a batch's elements in two bytes.
MAX_BATCH = 2**16 - 1

_CONTEXT = b"OPRFV1-\x01-ristretto255-SHA512"
_HASH_BLOCK_BYTES = 128


@dataclass(frozen=True, slots=True)
class SecretKey:
    """k, and k times the generator as bytes."""

    scalar: int = field(repr=False)
    public: bytes


def derive_key_pair(seed: bytes, info: bytes) -> SecretKey:
    """The key that a seed of 32 bytes gives under this name (RFC 9497 §3.2.1)."""
    if len(seed) != KEY_SEED_BYTES:
        raise LocalProtocolError(f"the seed of a key has {KEY_SEED_BYTES} bytes")
    for counter in range(256):
        scalar = _hash_to_scalar(seed + _prefixed(info) + bytes([counter]), b"DeriveKeyPair" + _CONTEXT)
        if scalar:
            return SecretKey(scalar, group.encode(group.multiply_base(scalar)))
    raise LocalProtocolError("no key follows from this seed")  # pragma: no cover  (once in 2^60000 seeds)


# ── the client ───────────────────────────────────────────────────────────────────────────────────────────────────────


def blind(inputs: Sequence[bytes], blinds: Sequence[int]) -> list[bytes]:
    """What the owner of the key is shown in place of the inputs. A blind is a secret uniform scalar, used once."""
    if not all(0 < scalar < group.ORDER for scalar in blinds):
        raise LocalProtocolError("a blind is a scalar, and not zero")
    return [
        group.encode(group.multiply(scalar, _hash_to_group(data))) for data, scalar in zip(inputs, blinds, strict=True)
    ]


def finalize(
    inputs: Sequence[bytes],
    blinds: Sequence[int],
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
    proof: bytes,
    public: bytes,
) -> list[bytes]:
    """F_k of every input, 64 bytes each.

    Raises
    ------
    BadProofError
        They were not all multiplied by the key whose public half this is.
    MalformedMessageError
        What came back are no elements, or another number of them.
    """
    if len(evaluated) != len(blinded):
        raise MalformedMessageError("the issuer answered for another number of elements")
    elements = [_element(data) for data in evaluated]
    pairs = list(zip((_element(data) for data in blinded), elements, strict=True))
    _verify(public, pairs, blinded, evaluated, proof)
    return [
        _output(data, group.multiply(pow(scalar, -1, group.ORDER), element))
        for data, scalar, element in zip(inputs, blinds, elements, strict=True)
    ]


# ── the owner of the key ─────────────────────────────────────────────────────────────────────────────────────────────


def evaluate(key: SecretKey, blinded: Sequence[bytes], dice: RandomBytes) -> tuple[list[bytes], bytes]:
    """Multiply every element by k, and prove it. Raises ``MalformedMessageError`` for what is no element."""
    if not 0 < len(blinded) <= MAX_BATCH:
        raise MalformedMessageError("a batch has at least one element, and fewer than 65,536")
    elements = [_element(data) for data in blinded]
    evaluated = [group.encode(group.multiply(key.scalar, element)) for element in elements]
    weights = _weights(key.public, blinded, evaluated)
    together = group.weighted_sum(zip(weights, elements, strict=True))
    product = group.multiply(key.scalar, together)
    nonce = random_scalar(dice)
    commitments = group.multiply_base(nonce), group.multiply(nonce, together)
    challenge = _challenge(key.public, together, product, *commitments)
    answer = (nonce - challenge * key.scalar) % group.ORDER
    return evaluated, group.encode_scalar(challenge) + group.encode_scalar(answer)


def output_of(key: SecretKey, data: bytes) -> bytes:
    """F_k of an input that is known: what ``finalize`` gives its client (the RFC's Evaluate)."""
    return _output(data, group.multiply(key.scalar, _hash_to_group(data)))


def random_scalar(dice: RandomBytes) -> int:
    """Uniform and not zero: drawn again until it is below the order (once more in eight draws of 253 bits, nearly)."""
    while True:
        scalar = int.from_bytes(throw(dice, group.SCALAR_BYTES), "little") & 2**253 - 1
        if 0 < scalar < group.ORDER:
            return scalar


# ── the proof ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _weights(public: bytes, blinded: Sequence[bytes], evaluated: Sequence[bytes]) -> list[int]:
    """One scalar for each pair, which nobody can choose: one proof for their weighted sums is a proof for all."""
    seed = hashlib.sha512(_prefixed(public) + _prefixed(b"Seed-" + _CONTEXT)).digest()
    return [
        _hash_to_scalar(_prefixed(seed) + i.to_bytes(2, "big") + _prefixed(element) + _prefixed(product) + b"Composite")
        for i, (element, product) in enumerate(zip(blinded, evaluated, strict=True))
    ]


def _challenge(public: bytes, *elements: Element) -> int:
    parts = [_prefixed(public), *(_prefixed(group.encode(element)) for element in elements), b"Challenge"]
    return _hash_to_scalar(b"".join(parts))


def _verify(
    public: bytes,
    pairs: Sequence[tuple[Element, Element]],
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
    proof: bytes,
) -> None:
    if len(proof) != PROOF_BYTES:
        raise MalformedMessageError("a proof has another length")
    challenge = group.decode_scalar(proof[: group.SCALAR_BYTES])
    answer = group.decode_scalar(proof[group.SCALAR_BYTES :])
    key = _element(public)
    weights = _weights(public, blinded, evaluated)
    together = group.weighted_sum((weight, element) for weight, (element, _) in zip(weights, pairs, strict=True))
    product = group.weighted_sum((weight, other) for weight, (_, other) in zip(weights, pairs, strict=True))
    first = group.weighted_sum([(answer, group.BASE), (challenge, key)])
    second = group.weighted_sum([(answer, together), (challenge, product)])
    if _challenge(public, together, product, first, second) != challenge:
        raise BadProofError


# ── hashing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _element(data: bytes) -> Element:
    if data == bytes(group.ELEMENT_BYTES):
        raise MalformedMessageError("the identity, where an element is wanted that says something")
    return group.decode(data)


def _output(data: bytes, element: Element) -> bytes:
    return hashlib.sha512(_prefixed(data) + _prefixed(group.encode(element)) + b"Finalize").digest()


def _hash_to_group(data: bytes) -> Element:
    element = group.from_uniform(_expand(data, b"HashToGroup-" + _CONTEXT))
    if group.encode(element) == bytes(group.ELEMENT_BYTES):
        raise LocalProtocolError("this input has no blinded form")  # pragma: no cover  (nobody knows such an input)
    return element


def _hash_to_scalar(data: bytes, tag: bytes = b"HashToScalar-" + _CONTEXT) -> int:
    return int.from_bytes(_expand(data, tag), "little") % group.ORDER


def _expand(data: bytes, tag: bytes) -> bytes:
    """64 bytes: expand_message_xmd of RFC 9380 §5.3.1 with SHA-512, of which one block is enough."""
    named = tag + bytes([len(tag)])
    length = group.UNIFORM_BYTES.to_bytes(2, "big")
    first = hashlib.sha512(bytes(_HASH_BLOCK_BYTES) + data + length + b"\0" + named).digest()
    return hashlib.sha512(first + b"\1" + named).digest()


def _prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
