"""What beacons serve, as bytes: read strictly, because anybody may have written it.

Other people's JSON: any order of keys and any white space are theirs to choose, so these are no canonical documents.
Everything else is fixed: exactly the fields that are expected, no key twice, no float, no integer beyond 64 bits, and
hexadecimal of exactly the length that is expected, in either case of letters. Whatever does not fit raises
``BadBeaconError`` and nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from secvm.errors import BadBeaconError

#: A pulse of NIST's has about 4 kB, a certificate with its issuers about 8; drand's rounds have 250 bytes.
MAX_RECORD_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class BeaconOutput:
    """What a beacon said, **verified**."""

    #: NIST: 64 bytes. drand, and the local one: 32.
    value: bytes
    #: Before this instant, in milliseconds, nobody outside the beacon knew it.
    at: int


def read_object(data: bytes, what: str) -> BeaconFields:
    """The one JSON object that these bytes are."""
    if len(data) > MAX_RECORD_BYTES:
        raise BadBeaconError(f"{what} has {len(data)} bytes; at most {MAX_RECORD_BYTES} are read")
    try:
        content = json.loads(data.decode(), object_pairs_hook=_once, parse_float=_no_number, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadBeaconError(f"{what} is no JSON of the kind that beacons serve") from None
    return BeaconFields(content, what)


class BeaconFields:
    """The fields of an object, by name; those that are there must be exactly those that are asked for."""

    def __init__(self, content: object, what: str) -> None:
        if not isinstance(content, dict):
            raise BadBeaconError(f"{what} is no object")
        self._content: dict[str, Any] = content
        self._what = what

    def has_exactly(self, *names: str) -> BeaconFields:
        """The object itself, if these are its fields."""
        if set(self._content) != set(names):
            raise BadBeaconError(f"{self._what} has other fields than it should")
        return self

    def text(self, name: str) -> str:
        value = self._content[name]
        # What has no UTF-8 (half a surrogate pair) cannot have been signed.
        if not isinstance(value, str) or not value.isascii():
            raise self._refuse(name)
        return value

    def integer(self, name: str, *, bits: int) -> int:
        value = self._content[name]
        # True is an int to Python.
        if type(value) is not int or not 0 <= value < 2**bits:
            raise self._refuse(name)
        return value

    def hexadecimal(self, name: str, length: int) -> bytes:
        value = self._content[name]
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]*", value) or len(value) != 2 * length:
            raise self._refuse(name)
        return bytes.fromhex(value)

    def inner(self, name: str) -> BeaconFields:
        return BeaconFields(self._content[name], f"{self._what}'s {name}")

    def inner_list(self, name: str) -> list[BeaconFields]:
        value = self._content[name]
        if not isinstance(value, list):
            raise self._refuse(name)
        return [BeaconFields(item, f"{self._what}'s {name}") for item in value]

    def _refuse(self, name: str) -> BadBeaconError:
        return BadBeaconError(f"{self._what}'s {name} is not as it should be")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError
    return content


def _no_number(_: str) -> NoReturn:
    raise ValueError
