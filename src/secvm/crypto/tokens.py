"""Anonymous one-use tokens: a client is given so many for a round, and nobody can tell later which were whose.

    batch = TokenBatch(seed, 100)                      # the device: 32 secret bytes, kept until the tokens are used
    answer = issue(key, batch.request(key.public), dice)      # the issuer, which knows who asks, and counts
    tokens = batch.tokens(answer, key.public)          # the device again; raises where the issuer cheats
    nonce = redeem(key, tokens[0])                     # the issuer again, of whoever brings it

A token is a nonce and half of the VOPRF's output on it (``voprf``), 32 bytes each. Issuer and redeemer
are one party, which has a key for each round: a VOPRF can be verified only by whoever could mint as well. So tokens
keep out those who were given none, and do not bind the issuer.

Everything about a batch follows from its seed. A device that lost the answer asks again with the same bytes, and is
given the same tokens: an issuer may answer them as often as it likes, and has issued no more for it.

The issuer's side runs in compiled, constant-time code where the package ``voprf`` is installed (the
extra ``tokens``), and in Python's integers where it is not: the same tokens, twenty times slower.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import importlib
from typing import Any

from secvm.crypto import voprf
from secvm.crypto.ristretto255 import ELEMENT_BYTES, ORDER
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import LocalProtocolError, MalformedMessageError

try:
    _quick: Any = importlib.import_module("voprf").ristretto
except ModuleNotFoundError:
    _quick = None

SEED_BYTES = voprf.KEY_SEED_BYTES
PUBLIC_KEY_BYTES = ELEMENT_BYTES
NONCE_BYTES = 32
TOKEN_BYTES = 64
MAX_TOKENS = voprf.MAX_BATCH
REQUEST_MEDIA_TYPE = "application/vnd.secvm.token-request"
ANSWER_MEDIA_TYPE = "application/vnd.secvm.tokens"

_ROUND_INFO = b"secvm-v2-token-round"


#: Whether the issuer's side is compiled here.
COMPILED = _quick is not None


class TokenKey:
    """The secret key of one round. Does not show itself when printed."""

    def __init__(self, seed: bytes, info: bytes, *, quick: bool = COMPILED) -> None:
        self._key = voprf.derive_key_pair(seed, info)
        #: The compiled evaluator of the same key.
        self._evaluator: Any = _quick.Evaluator.from_seed(seed, info) if quick else None

    @classmethod
    def of_round(cls, seed: bytes, *, quick: bool = COMPILED) -> TokenKey:
        """The key of the one round whose seed this is."""
        return cls(seed, _ROUND_INFO, quick=quick)

    def __repr__(self) -> str:
        return "TokenKey(...)"

    @property
    def public(self) -> bytes:
        """As it stands in the commitment."""
        return self._key.public

    def output_of(self, nonce: bytes) -> bytes:
        """The function's value."""
        if self._evaluator is None:
            return voprf.output_of(self._key, nonce)
        return bytes(self._evaluator.evaluate_known_input(nonce))

    def evaluate(self, blinded: list[bytes], dice: RandomBytes) -> tuple[list[bytes], bytes]:
        """Blinded elements → evaluated ones, and one proof. The compiled code throws the system's dice."""
        if self._evaluator is None:
            return voprf.evaluate(self._key, blinded, dice)
        try:
            elements = [_quick.BlindedInput.deserialize(data) for data in blinded]
            answer = bytes(self._evaluator.evaluate_batch(elements).serialize())
        except ValueError:
            raise MalformedMessageError("these bytes are no element of the group") from None
        # It writes the proof first.
        return _elements(answer[voprf.PROOF_BYTES :]), answer[: voprf.PROOF_BYTES]


def issue(key: TokenKey, request: bytes, dice: RandomBytes) -> bytes:
    """What to answer to a request: an evaluated element for each blinded one, in order, and one proof for all.

    Raises ``MalformedMessageError`` for a request of another form, or under another key.
    """
    if request[:PUBLIC_KEY_BYTES] != key.public:
        raise MalformedMessageError("a request for tokens under another key", problem="unknown-key")
    evaluated, proof = key.evaluate(_elements(request[PUBLIC_KEY_BYTES:]), dice)
    return b"".join(evaluated) + proof


def tokens_wanted(request: bytes) -> int:
    """How many tokens a request is for. Raises ``MalformedMessageError`` where it cannot be one."""
    count, rest = divmod(len(request) - PUBLIC_KEY_BYTES, ELEMENT_BYTES)
    if rest or not 0 < count <= MAX_TOKENS:
        raise MalformedMessageError("a request for tokens has another length")
    return count


def redeem(key: TokenKey, token: bytes) -> bytes | None:
    """The nonce of a token that was issued under this key; None of any other. Once only is the caller's business."""
    nonce = token[:NONCE_BYTES]
    expected = key.output_of(nonce)[: TOKEN_BYTES - NONCE_BYTES]
    return nonce if hmac.compare_digest(expected, token[NONCE_BYTES:]) else None


class TokenBatch:
    """A device's side of one issuance."""

    def __init__(self, seed: bytes, count: int) -> None:
        if len(seed) != SEED_BYTES or not 0 < count <= MAX_TOKENS:
            raise LocalProtocolError(f"a batch has a seed of {SEED_BYTES} bytes and 1 to {MAX_TOKENS} tokens")
        self._nonces = [_stretch(seed, b"nonce", i)[:NONCE_BYTES] for i in range(count)]
        # 512 bits modulo a number of 253: uniform but for 2^-259. Zero would blind nothing, and never comes.
        self._blinds = [int.from_bytes(_stretch(seed, b"blind", i), "little") % ORDER for i in range(count)]

    def __repr__(self) -> str:
        return "TokenBatch(...)"

    @functools.cached_property
    def _blinded(self) -> list[bytes]:
        return voprf.blind(self._nonces, self._blinds)

    def request(self, public: bytes) -> bytes:
        """What the issuer is sent: the key that is meant, and a blinded element for each token."""
        return public + b"".join(self._blinded)

    def tokens(self, answer: bytes, public: bytes) -> list[bytes]:
        """The tokens. Raises ``BadProofError`` where the issuer took another key, ``MalformedMessageError`` where it
        answered something else.
        """
        if len(answer) != len(self._nonces) * ELEMENT_BYTES + voprf.PROOF_BYTES:
            raise MalformedMessageError("the issuer's answer has another length")
        evaluated, proof = _elements(answer[: -voprf.PROOF_BYTES]), answer[-voprf.PROOF_BYTES :]
        outputs = voprf.finalize(self._nonces, self._blinds, self._blinded, evaluated, proof, public)
        return [
            nonce + output[: TOKEN_BYTES - NONCE_BYTES] for nonce, output in zip(self._nonces, outputs, strict=True)
        ]


def _stretch(seed: bytes, what: bytes, i: int) -> bytes:
    return hashlib.blake2b(what + i.to_bytes(4, "big"), key=seed, person=b"secvm-v1-tokens\0").digest()


def _elements(data: bytes) -> list[bytes]:
    if not data or len(data) % ELEMENT_BYTES:
        raise MalformedMessageError("these bytes are no elements side by side")
    return [data[at : at + ELEMENT_BYTES] for at in range(0, len(data), ELEMENT_BYTES)]
