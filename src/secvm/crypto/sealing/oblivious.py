"""Oblivious HTTP (RFC 9458), bytes to bytes: a request sealed for the gateway, an answer sealed for that one device.

    configuration → seal_request(configuration, request, dice) → capsule            the device
    capsule → GatewayKeys.open(capsule) → OpenedRequest.seal_response(…) → capsule  the gateway
    capsule → SealedRequest.open_response(capsule) → response                       the device

Requests and responses are binary HTTP (``binary_http``), but nothing here looks inside them. A capsule has seven
clear bytes that name key and algorithms, then ``enc``, then the ciphertext; an answer has a nonce, then the ciphertext.
Nobody learns from a capsule who sent it, and two capsules are linked by nothing.

Whatever bytes come in, opening raises ``MalformedMessageError`` (no capsule) or ``OpeningError`` (not for us, or
changed on its way); reading key configurations raises ``MalformedMessageError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from secvm.crypto.sealing import kdf
from secvm.crypto.sealing.hpke import AEADS, AES_128_GCM, TAG_BYTES, Aead, Context, Schedule
from secvm.crypto.sealing.kem import (
    PUBLIC_KEY_BYTES,
    PrivateKey,
    PublicKey,
    RandomBytes,
    X25519PrivateKey,
    enc_bytes,
    low_order,
    public_key_bytes,
    read_public_key,
    throw,
)
from secvm.crypto.sealing.lanes import OPENED, WRONG_TAG, LaneKey, Lanes
from secvm.errors import (
    LocalProtocolError,
    MalformedMessageError,
    OpeningError,
    RemoteProtocolError,
    UnknownKeyError,
)

KEYS_MEDIA_TYPE = "application/ohttp-keys"
REQUEST_MEDIA_TYPE = "message/ohttp-req"
RESPONSE_MEDIA_TYPE = "message/ohttp-res"

_REQUEST_LABEL = b"message/bhttp request"
_RESPONSE_LABEL = b"message/bhttp response"
_HEADER_BYTES = 7

#: Numbers of a KDF and an AEAD in HPKE's registries.
Algorithms = tuple[int, int]
#: What gateways of ours offer: one choice, so that a choice cannot tell devices apart.
OUR_ALGORITHMS: Algorithms = (kdf.HKDF_SHA256, AES_128_GCM.aead_id)


# ── key configurations ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class KeyConfiguration:
    """What a device must know of a gateway's key (RFC 9458 §3.1). Public."""

    #: One byte that travels in clear. It must not tell the relay more than which key is current.
    key_id: int
    public_key: PublicKey
    #: The gateway's choices, the best liked first; there may be some that we do not know.
    algorithms: tuple[Algorithms, ...] = (OUR_ALGORITHMS,)

    def to_bytes(self) -> bytes:
        _check_configuration(self.key_id, self.algorithms)
        listed = b"".join(number.to_bytes(2, "big") for pair in self.algorithms for number in pair)
        return (
            self.key_id.to_bytes(1, "big")
            + self.public_key.kem_id.to_bytes(2, "big")
            + self.public_key.to_bytes()
            + len(listed).to_bytes(2, "big")
            + listed
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyConfiguration:
        """Read one configuration whose KEM we have. Raises ``MalformedMessageError`` and nothing else."""
        key_length = public_key_bytes(int.from_bytes(data[1:3], "big")) if len(data) >= 3 else None
        if key_length is None:
            raise MalformedMessageError("a key configuration of a kind that is not known here")
        listed = data[3 + key_length + 2 :]
        if len(data) < 3 + key_length + 2 or int.from_bytes(data[3 + key_length : 5 + key_length], "big") != len(
            listed
        ):
            raise MalformedMessageError("a key configuration whose lengths do not add up")
        if not listed or len(listed) % 4:
            raise MalformedMessageError("a key configuration without a whole number of algorithms")
        numbers = [int.from_bytes(listed[i : i + 2], "big") for i in range(0, len(listed), 2)]
        return cls(
            key_id=data[0],
            public_key=read_public_key(int.from_bytes(data[1:3], "big"), data[3 : 3 + key_length]),
            algorithms=tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        )

    @property
    def chosen(self) -> Algorithms:
        """The first of its algorithms that we have. Raises ``UnknownKeyError`` where there is none."""
        for pair in self.algorithms:
            if pair[0] == kdf.HKDF_SHA256 and pair[1] in AEADS:
                return pair
        raise UnknownKeyError("the gateway's key has no algorithm that is known here")


def encode_key_configurations(configurations: Iterable[KeyConfiguration]) -> bytes:
    """Write a document of type ``application/ohttp-keys``, the best liked key first."""
    encoded = [configuration.to_bytes() for configuration in configurations]
    if not encoded:
        raise LocalProtocolError("a list of key configurations has at least one")
    return b"".join(len(data).to_bytes(2, "big") + data for data in encoded)


def decode_key_configurations(data: bytes) -> tuple[KeyConfiguration, ...]:
    """Read a document of type ``application/ohttp-keys``.

    Keys of a kind that is not known here are left out; so the result may be empty. With one fault the whole document is
    refused, as RFC 9458 §3.2 asks: devices that rescued different parts of it could be told apart.
    Raises ``MalformedMessageError`` and nothing else.
    """
    configurations = []
    at = 0
    while at < len(data) or not data:
        length = int.from_bytes(data[at : at + 2], "big")
        encoded = data[at + 2 : at + 2 + length]
        if len(data) < at + 2 or len(encoded) != length or length < 3:
            raise MalformedMessageError("a list of key configurations whose lengths do not add up")
        at += 2 + length
        if public_key_bytes(int.from_bytes(encoded[1:3], "big")) is not None:
            configurations.append(KeyConfiguration.from_bytes(encoded))
    return tuple(configurations)


def leaves_no_choice(data: bytes, kem_id: int) -> bool:
    """Whether a document of key configurations has exactly one, of this KEM and with our pair of algorithms alone.

    The bytes alone decide, so that all machines say the same of one document, also those that lack the KEM. Whether the
    key in it is a good one is seen where something is sealed for it.
    """
    pair = b"".join(number.to_bytes(2, "big") for number in OUR_ALGORITHMS)
    length = 1 + 2 + PUBLIC_KEY_BYTES[kem_id] + 2 + len(pair)
    return (
        len(data) == 2 + length
        and data[:2] == length.to_bytes(2, "big")
        and data[3:5] == kem_id.to_bytes(2, "big")
        and data[-6:] == len(pair).to_bytes(2, "big") + pair
    )


def _check_configuration(key_id: int, algorithms: Sequence[Algorithms]) -> None:
    if not 0 <= key_id <= 255:
        raise LocalProtocolError("a key's number is one byte")
    if not 1 <= len(algorithms) <= 65532 // 4:
        raise LocalProtocolError("a key has at least one pair of algorithms, and at most 16383")
    if not all(0 <= number < 2**16 for pair in algorithms for number in pair):
        raise LocalProtocolError("an algorithm's number has two bytes")


def _header(key_id: int, kem_id: int, algorithms: Algorithms) -> bytes:
    return key_id.to_bytes(1, "big") + b"".join(number.to_bytes(2, "big") for number in (kem_id, *algorithms))


def _schedule(header: bytes, kem_id: int, aead: Aead) -> Schedule:
    return Schedule(kem_id, aead, _REQUEST_LABEL + b"\0" + header)


# ── the device ───────────────────────────────────────────────────────────────────────────────────────────────────────


class SealedRequest:
    """A capsule to send, and what is needed to open its answer, which nobody else can."""

    def __init__(self, header: bytes, context: Context, request: bytes) -> None:
        #: The bytes that travel. To send again, send these again: sealing anew would be counted anew.
        self.capsule = header + context.enc + context.seal(b"", request)
        self._context = context

    def open_response(self, capsule: bytes) -> bytes:
        """Open the answer. Raises ``MalformedMessageError`` or ``OpeningError`` and nothing else."""
        at = _answer_nonce_bytes(self._context)
        if len(capsule) < at + TAG_BYTES:
            raise MalformedMessageError("too short for an answer")
        return self._context.aead.open(*_answer_keys(self._context, capsule[:at]), b"", capsule[at:])

    def __repr__(self) -> str:
        return f"SealedRequest({len(self.capsule)} bytes)"


class RequestSealer:
    """Seals many requests for one gateway key; each with a fresh ephemeral key of its own."""

    def __init__(self, configuration: KeyConfiguration) -> None:
        chosen = configuration.chosen
        _check_configuration(configuration.key_id, configuration.algorithms)
        self._public_key = configuration.public_key
        self._header = _header(configuration.key_id, self._public_key.kem_id, chosen)
        self._schedule = _schedule(self._header, self._public_key.kem_id, AEADS[chosen[1]])

    def seal(self, request: bytes, dice: RandomBytes) -> SealedRequest:
        """Seal one request. ``dice`` must give bytes that nobody can guess and that are never used again."""
        return SealedRequest(self._header, self._schedule.send_to(self._public_key, dice), request)


def seal_request(configuration: KeyConfiguration, request: bytes, dice: RandomBytes) -> SealedRequest:
    """Seal one request for the gateway; see ``RequestSealer``."""
    return RequestSealer(configuration).seal(request, dice)


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────


class OpenedRequest:
    """What was in a capsule, and the means to answer whoever sent it, unknown as it is."""

    def __init__(self, request: bytes, context: Context) -> None:
        #: Binary HTTP, not looked into yet.
        self.request = request
        #: Random, and the same when a capsule is sent again: by this a package is counted once.
        self.enc = context.enc
        self._context = context

    def seal_response(self, response: bytes, dice: RandomBytes) -> bytes:
        """Seal the answer."""
        nonce = throw(dice, _answer_nonce_bytes(self._context))
        return nonce + self._context.aead.seal(*_answer_keys(self._context, nonce), b"", response)

    def __repr__(self) -> str:
        return f"OpenedRequest({len(self.request)} bytes)"


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """One of a gateway's keys."""

    key_id: int
    private_key: PrivateKey
    algorithms: tuple[Algorithms, ...] = (OUR_ALGORITHMS,)

    @property
    def configuration(self) -> KeyConfiguration:
        """What devices must know of it."""
        return KeyConfiguration(self.key_id, self.private_key.public_key, self.algorithms)


@dataclass(frozen=True, slots=True)
class _Lock:
    private_key: PrivateKey
    schedule: Schedule
    body_at: int
    lane_key: LaneKey | None = None

    def open_one(self, capsule: bytes) -> bytes:
        at = self.body_at
        return self.schedule.open_one(self.private_key, capsule[_HEADER_BYTES:at], capsule[at:])

    def open(self, capsule: bytes) -> OpenedRequest:
        context = self.schedule.receive(self.private_key, capsule[_HEADER_BYTES : self.body_at])
        return OpenedRequest(context.open(b"", capsule[self.body_at :]), context)


class GatewayKeys:
    """The keys a gateway opens with; a new one and the one before, for capsules under way.

    With ``lanes`` many capsules are opened eight at a time, where their key is one of X25519 and AES-128-GCM; what
    comes out is the same.
    """

    def __init__(self, keys: Iterable[GatewayKey], lanes: Lanes | None = None) -> None:
        self._locks: dict[bytes, _Lock] = {}
        keys = tuple(keys)
        seen = set()
        for key in keys:
            _check_configuration(key.key_id, key.algorithms)
            if key.key_id in seen:
                raise LocalProtocolError("two keys with one number")
            seen.add(key.key_id)
            for pair in key.algorithms:
                if pair[0] != kdf.HKDF_SHA256 or pair[1] not in AEADS:
                    raise LocalProtocolError("a key with an algorithm that is not known here")
                kem_id = key.private_key.kem_id
                header = _header(key.key_id, kem_id, pair)
                schedule = _schedule(header, kem_id, AEADS[pair[1]])
                lane_key = None
                if lanes is not None and isinstance(key.private_key, X25519PrivateKey):
                    lane_key = lanes.key(schedule, key.private_key.public_key, key.private_key)
                body_at = _HEADER_BYTES + enc_bytes(kem_id)
                self._locks[header] = _Lock(key.private_key, schedule, body_at, lane_key)
        self._keys = keys
        self._by_lanes = any(lock.lane_key is not None for lock in self._locks.values())

    def with_lanes(self, lanes: Lanes | None) -> GatewayKeys:
        """The same keys, opening by these lanes from now on; or without any."""
        return GatewayKeys(self._keys, lanes)

    def open(self, capsule: bytes) -> OpenedRequest:
        """Open one capsule. Raises ``MalformedMessageError`` or ``OpeningError`` and nothing else."""
        return self._lock_of(capsule).open(capsule)

    def _lock_of(self, capsule: bytes) -> _Lock:
        if len(capsule) < _HEADER_BYTES:
            raise MalformedMessageError("too short for a capsule")
        lock = self._locks.get(capsule[:_HEADER_BYTES])
        if lock is None:
            raise UnknownKeyError
        if len(capsule) < lock.body_at + TAG_BYTES:
            raise MalformedMessageError("too short for a capsule")
        return lock

    def open_unanswered(self, capsules: Sequence[bytes]) -> list[bytes | RemoteProtocolError]:
        """Open many that nobody waits for, in order: the request of each, or why it does not open.

        One bad capsule harms no other. Each key's capsules are opened together where it has lanes.
        """
        opened: dict[int, bytes | RemoteProtocolError] = {}
        for header in {capsule[:_HEADER_BYTES] for capsule in capsules} if self._by_lanes else ():
            lock = self._locks.get(header)
            if lock is None or lock.lane_key is None:
                continue
            shortest = lock.body_at + TAG_BYTES
            places = [
                i for i, capsule in enumerate(capsules) if capsule.startswith(header) and len(capsule) >= shortest
            ]
            content = lock.lane_key.open([capsules[i] for i in places])
            for place, request, fate in zip(places, content.requests, content.fates, strict=True):
                opened[place] = _why(fate) if request is None else request
        return [opened[i] if i in opened else self._attempt(capsule) for i, capsule in enumerate(capsules)]

    def _attempt(self, capsule: bytes) -> bytes | RemoteProtocolError:
        try:
            return self._lock_of(capsule).open_one(capsule)
        except RemoteProtocolError as error:
            # Without its traceback, which would hold on to every local value of the opening.
            return error.with_traceback(None)

    def __repr__(self) -> str:
        return f"GatewayKeys({len(self._locks)} kinds of capsules)"


def _why(fate: int) -> OpeningError:
    """The error that the readable code raises."""
    assert fate != OPENED
    return OpeningError() if fate == WRONG_TAG else low_order()


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer_nonce_bytes(context: Context) -> int:
    return max(context.aead.nonce_bytes, context.aead.key_bytes)


def _answer_keys(context: Context, nonce: bytes) -> tuple[bytes, bytes]:
    """RFC 9458 §4.4: key and nonce of an answer come from the request's context, its ``enc`` and a fresh nonce."""
    secret = context.export(_RESPONSE_LABEL, _answer_nonce_bytes(context))
    prk = kdf.extract(context.enc + nonce, secret)
    return kdf.expand(prk, b"key", context.aead.key_bytes), kdf.expand(prk, b"nonce", context.aead.nonce_bytes)
