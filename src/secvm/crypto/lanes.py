"""Lanes: many capsules of one gateway key opened eight at a time, by machine code where there is some.

``_lanes.c`` does for X25519, HKDF-SHA256 and AES-128-GCM what ``hpke.Schedule.open_one`` does, bit for bit and error
for error; tests hold the two equal. Here is only its face: the numbers and texts that it needs are written by
``kem`` and ``hpke``, and nothing else is known twice. Finding, compiling and trying it is ``runtime.lanes``'s work; a
gateway that was given no lanes opens one capsule after the other.

While it opens, other threads run.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from secvm.crypto import kdf
from secvm.crypto.hpke import AES_128_GCM, TAG_BYTES, Schedule
from secvm.crypto.kem import EXPAND_TEXT, EXTRACT_TEXT, X25519PrivateKey
from secvm.errors import LocalProtocolError

#: So many at once.
LANES = 8
#: What became of a capsule.
OPENED, LOW_ORDER, WRONG_TAG = range(3)

_HEADER_BYTES = 7
_POINT_BYTES = 32
#: Clear bytes, ephemeral key and tag: what a capsule has beside its content.
OVERHEAD_BYTES: Final = _HEADER_BYTES + _POINT_BYTES + TAG_BYTES
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


class LaneKey:
    """One gateway key, laid out for the machine code. Does not show itself when printed."""

    def __init__(self, lanes: Lanes, private: X25519PrivateKey, schedule: Schedule) -> None:
        self._lanes = lanes
        self._key = _Key()
        texts = {
            "extract": EXTRACT_TEXT,
            "expand": EXPAND_TEXT,
            "secret": schedule.secret_ikm,
            # The counter of HKDF's first and only block.
            "key": schedule.key_info + b"\1",
            "nonce": schedule.nonce_info + b"\1",
        }
        for name, text in texts.items():
            assert len(text) <= ctypes.sizeof(getattr(self._key, name)), "the C source has room for longer ones"
            ctypes.memmove(getattr(self._key, name), text, len(text))
            setattr(self._key, f"{name}_size", len(text))
        ctypes.memmove(self._key.private_key, private.secret_bytes(), _POINT_BYTES)
        ctypes.memmove(self._key.public_key, private.public_key.to_bytes(), _POINT_BYTES)

    def open(self, capsules: Sequence[bytes], *, secrets: bool = False) -> Content:
        """Open capsules that all have this key's header, and ``OVERHEAD_BYTES`` or more."""
        return self._lanes.open(self._key, capsules, secrets=secrets)

    def __del__(self) -> None:
        ctypes.memset(ctypes.byref(self._key), 0, ctypes.sizeof(self._key))

    def __repr__(self) -> str:
        return "LaneKey(...)"


class Lanes:
    """The machine code, loaded."""

    def __init__(self, library: str) -> None:
        """``library``: what ``_lanes.c`` was compiled to. Raises ``OSError`` or ``AttributeError`` where it is not."""
        self._open = ctypes.CDLL(library).secvm_lanes_open
        pointer = ctypes.c_void_p
        self._open.argtypes = [pointer, ctypes.c_size_t, *(5 * [pointer])]
        self._open.restype = None

    def key(self, private: X25519PrivateKey, schedule: Schedule) -> LaneKey | None:
        """A key to open with; None where it seals with another cipher than AES-128-GCM."""
        return LaneKey(self, private, schedule) if schedule.aead is AES_128_GCM else None

    def open(self, key: _Key, capsules: Sequence[bytes], *, secrets: bool) -> Content:
        """See ``LaneKey.open``."""
        count = len(capsules)
        sizes = array("I", map(len, capsules))
        assert sizes.itemsize == 4, "the C source has 32 bits for a size"
        # Whoever calls has looked already; here a size that is too small would be read past its end.
        if min(sizes, default=OVERHEAD_BYTES) < OVERHEAD_BYTES:
            raise LocalProtocolError("too short for a capsule")
        side_by_side = b"".join(capsules)
        opened = bytearray(len(side_by_side))
        fates = ctypes.create_string_buffer(count)
        shared = ctypes.create_string_buffer(kdf.HASH_BYTES * count) if secrets else None
        self._open(
            ctypes.byref(key),
            count,
            side_by_side,
            sizes.buffer_info()[0],
            (ctypes.c_uint8 * len(opened)).from_buffer(opened),
            fates,
            shared,
        )
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

    def __repr__(self) -> str:
        return "Lanes(...)"
