"""Lanes: many capsules of one key opened or sealed eight at a time, by machine code where there is some.

``_lanes.c`` does for X25519, HKDF-SHA256 and AES-128-GCM what ``hpke.Schedule.open_one`` and ``layers.Layer`` do, bit
for bit and error for error; tests hold the two equal. Here is only its face: the numbers and texts that it needs are
written by ``kem`` and ``hpke``, and nothing else is known twice. Finding, compiling and trying it is
``runtime.lanes``'s work; a gateway or relay that was given no lanes does one capsule after the other.

While it works, other threads run.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from secvm.crypto.sealing import kdf
from secvm.crypto.sealing.hpke import AES_128_GCM, TAG_BYTES, Schedule
from secvm.crypto.sealing.kem import EXPAND_TEXT, EXTRACT_TEXT, X25519PrivateKey, X25519PublicKey
from secvm.errors import LocalProtocolError

#: So many at once.
LANES = 8
#: What became of a capsule.
OPENED, LOW_ORDER, WRONG_TAG = range(3)

_HEADER_BYTES = 7
_POINT_BYTES = 32
#: Clear bytes, ephemeral key and tag: what a capsule has beside its content.
OVERHEAD_BYTES: Final = _HEADER_BYTES + _POINT_BYTES + TAG_BYTES
#: The same of a layer's capsule, which has no clear bytes.
_SEAL_BYTES: Final = _POINT_BYTES + TAG_BYTES
_SHORT, _LONG = 64, 128


class _Key(ctypes.Structure):
    """As ``lanes_key`` of the C source."""

    _fields_ = (
        ("private_key", ctypes.c_uint8 * _POINT_BYTES),
        ("public_key", ctypes.c_uint8 * _POINT_BYTES),
        ("extract", ctypes.c_uint8 * _SHORT),
        ("expand", ctypes.c_uint8 * _SHORT),
        ("secret", ctypes.c_uint8 * _SHORT),
        ("key", ctypes.c_uint8 * _LONG),
        ("nonce", ctypes.c_uint8 * _LONG),
        ("extract_size", ctypes.c_uint32),
        ("expand_size", ctypes.c_uint32),
        ("secret_size", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("nonce_size", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class Content:
    """What came of many capsules; the i-th entries belong to the i-th capsule."""

    #: What was in each; None where it did not open.
    requests: list[bytes | None] = field(repr=False)
    #: OPENED, LOW_ORDER or WRONG_TAG.
    fates: bytes
    #: The secrets of the key encapsulation, 32 bytes each, where they were asked for.
    secrets: bytes = field(default=b"", repr=False)


def _laid_out(schedule: Schedule, public: X25519PublicKey, private: X25519PrivateKey | None) -> _Key:
    key = _Key()
    texts = {
        "extract": EXTRACT_TEXT,
        "expand": EXPAND_TEXT,
        "secret": schedule.secret_ikm,
        # The counter of HKDF's first and only block.
        "key": schedule.key_info + b"\1",
        "nonce": schedule.nonce_info + b"\1",
    }
    for name, text in texts.items():
        room = ctypes.sizeof(getattr(key, name))
        if len(text) > room:
            # Copied all the same, it would overwrite what lies behind it.
            raise LocalProtocolError(f"the C source has room for {room} bytes of {name}, not for {len(text)}")
        ctypes.memmove(getattr(key, name), text, len(text))
        setattr(key, f"{name}_size", len(text))
    if private is not None:
        ctypes.memmove(key.private_key, private.secret_bytes(), _POINT_BYTES)
    ctypes.memmove(key.public_key, public.to_bytes(), _POINT_BYTES)
    return key


class LaneKey:
    """A key of a gateway, or of one layer of a round's seals, laid out for the machine code. Does not show itself."""

    def __init__(
        self, lanes: Lanes, schedule: Schedule, public: X25519PublicKey, private: X25519PrivateKey | None = None
    ) -> None:
        """``private``: only to open."""
        self._lanes, self._opens = lanes, private is not None
        self._key = _laid_out(schedule, public, private)

    def open(self, capsules: Sequence[bytes], *, secrets: bool = False) -> Content:
        """Open a gateway's capsules: all have this key's header, and ``OVERHEAD_BYTES`` or more."""
        count = len(capsules)
        sizes = array("I", map(len, capsules))
        assert sizes.itemsize == 4, "the C source has 32 bits for a size"
        # Whoever calls has looked already; here a size that is too small would be read past its end.
        if not self._opens or min(sizes, default=OVERHEAD_BYTES) < OVERHEAD_BYTES:
            raise LocalProtocolError("too short for a capsule, or no key to open it with")
        side_by_side = b"".join(capsules)
        opened = bytearray(len(side_by_side))
        fates = ctypes.create_string_buffer(count)
        shared = ctypes.create_string_buffer(kdf.HASH_BYTES * count) if secrets else None
        place = sizes.buffer_info()[0]
        self._lanes.open(ctypes.byref(self._key), count, side_by_side, place, _room(opened), fates, shared)
        requests: list[bytes | None] = []
        at = 0
        for size, fate in zip(sizes, fates.raw, strict=True):
            requests.append(None if fate else bytes(opened[at : at + size - OVERHEAD_BYTES]))
            at += size
        secret_bytes = b""
        if shared is not None:
            secret_bytes = shared.raw
            ctypes.memset(shared, 0, len(shared))
        return Content(requests, fates.raw, secret_bytes)

    def seal(self, ephemerals: bytes, contents: bytes, size: int) -> bytes:
        """A layer's capsules of contents of ``size`` bytes each, all side by side, with 32 secret bytes for each."""
        count, rest = divmod(len(contents), size)
        if rest or len(ephemerals) != _POINT_BYTES * count:
            raise LocalProtocolError("contents and ephemeral secrets do not belong together")
        capsules = bytearray(count * (size + _SEAL_BYTES))
        self._lanes.seal(ctypes.byref(self._key), count, ephemerals, contents, size, _room(capsules))
        return bytes(capsules)

    def open_all(self, capsules: bytes, size: int) -> tuple[bytes, bytes]:
        """Contents of a layer's capsules of ``size`` bytes each, and their fates; zeros where one did not open."""
        count, rest = divmod(len(capsules), size)
        if rest or size < _SEAL_BYTES or not self._opens:
            raise LocalProtocolError("no whole number of capsules, or no key to open them with")
        inside, fates = bytearray(count * (size - _SEAL_BYTES)), bytearray(count)
        self._lanes.open_fixed(ctypes.byref(self._key), count, capsules, size, _room(inside), _room(fates))
        return bytes(inside), bytes(fates)

    def __del__(self) -> None:
        ctypes.memset(ctypes.byref(self._key), 0, ctypes.sizeof(self._key))

    def __repr__(self) -> str:
        return "LaneKey(...)"


def _room(buffer: bytearray) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * len(buffer)).from_buffer(buffer)


class Lanes:
    """The machine code, loaded: its three functions, as ``LaneKey`` calls them."""

    def __init__(self, library: str) -> None:
        """``library``: what ``_lanes.c`` was compiled to. Raises ``OSError`` or ``AttributeError`` where it is not."""
        code = ctypes.CDLL(library)
        self.open, self.open_fixed, self.seal = (
            getattr(code, f"secvm_lanes_{name}") for name in ("open", "open_fixed", "seal")
        )
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.open.argtypes = [pointer, size, *(5 * [pointer])]
        self.open_fixed.argtypes = [pointer, size, pointer, size, pointer, pointer]
        self.seal.argtypes = [pointer, size, pointer, pointer, size, pointer]
        self.open.restype = self.open_fixed.restype = self.seal.restype = None

    def key(
        self, schedule: Schedule, public: X25519PublicKey, private: X25519PrivateKey | None = None
    ) -> LaneKey | None:
        """A key to seal with, and to open with where it is private; None for another cipher than AES-128-GCM."""
        return LaneKey(self, schedule, public, private) if schedule.aead is AES_128_GCM else None

    def __repr__(self) -> str:
        return "Lanes(...)"
