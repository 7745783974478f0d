"""ristretto255 (RFC 9496): a group of prime order in which every element has one encoding of 32 bytes.

Written to be read, in Python's integers: an element is a point (X, Y, Z, T) of the Edwards curve behind Curve25519, in
extended coordinates, and four or eight such points stand for the same element; ``encode`` tells which. The formulas are
those of the RFC and of Hisil, Wong, Carter and Dawson (2008), complete: no input needs a case of its own.

Python's integers take longer for larger numbers, so this is **not constant-time**: somebody who can time many
multiplications by one secret may learn of it. docs/threat-model.md says what would follow for tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NewType

from secvm.errors import MalformedMessageError

ELEMENT_BYTES = SCALAR_BYTES = 32
UNIFORM_BYTES = 64
#: How many elements there are, a prime.
ORDER = 2**252 + 27742317777372353535851937790883648493

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_1 = pow(2, (_P - 1) // 4, _P)
_ONE_MINUS_D_SQUARED = (1 - _D * _D) % _P
_D_MINUS_ONE_SQUARED = (_D - 1) ** 2 % _P
_WINDOW_BITS = 4
_WINDOWS = -(-ORDER.bit_length() // _WINDOW_BITS)

#: An element, as one of the points that stand for it: X, Y, Z, T.
Element = NewType("Element", tuple[int, int, int, int])

IDENTITY = Element((0, 1, 1, 0))


def _is_negative(value: int) -> bool:
    return value % _P % 2 == 1


def _absolute(value: int) -> int:
    value %= _P
    return _P - value if value % 2 else value


def _sqrt_ratio(u: int, v: int) -> tuple[bool, int]:
    """Whether u/v is a square, and the root, not negative, of it or of √-1 · u/v (RFC 9496 §4.2)."""
    root = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    check = v * root * root % _P
    flipped = check in (-u % _P, -u * _ROOT_OF_MINUS_1 % _P)
    if flipped:
        root = root * _ROOT_OF_MINUS_1 % _P
    return check in (u % _P, -u % _P), _absolute(root)


_ROOT_OF_AD_MINUS_ONE = _P - _sqrt_ratio(-_D - 1, 1)[1]
_INVERSE_ROOT_OF_A_MINUS_D = _sqrt_ratio(1, -1 - _D)[1]


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def decode(data: bytes) -> Element:
    """The element with this encoding. Raises ``MalformedMessageError`` for any other bytes (RFC 9496 §4.3.1)."""
    s = int.from_bytes(data, "little")
    if len(data) != ELEMENT_BYTES or s >= _P or _is_negative(s):
        raise MalformedMessageError("these bytes are no element of the group")
    ss = s * s % _P
    u1, u2 = 1 - ss, 1 + ss
    u2_squared = u2 * u2 % _P
    v = (-_D * u1 * u1 - u2_squared) % _P
    square, inverse = _sqrt_ratio(1, v * u2_squared % _P)
    x_denominator = inverse * u2 % _P
    x = _absolute(2 * s * x_denominator)
    y = u1 * inverse * x_denominator * v % _P
    t = x * y % _P
    if not square or _is_negative(t) or y == 0:
        raise MalformedMessageError("these bytes are no element of the group")
    return Element((x, y, 1, t))


def encode(element: Element) -> bytes:
    """Its 32 bytes (RFC 9496 §4.3.2)."""
    x, y, z, t = element
    u1, u2 = (z + y) * (z - y) % _P, x * y % _P
    _, inverse = _sqrt_ratio(1, u1 * u2 * u2 % _P)
    denominator1, denominator2 = inverse * u1 % _P, inverse * u2 % _P
    z_inverse = denominator1 * denominator2 * t % _P
    denominator = denominator2
    if _is_negative(t * z_inverse):
        x, y = y * _ROOT_OF_MINUS_1 % _P, x * _ROOT_OF_MINUS_1 % _P
        denominator = denominator1 * _INVERSE_ROOT_OF_A_MINUS_D % _P
    if _is_negative(x * z_inverse):
        y = -y
    return _absolute(denominator * (z - y)).to_bytes(ELEMENT_BYTES, "little")


def from_uniform(data: bytes) -> Element:
    """The element that 64 uniform bytes stand for: nobody knows its logarithm (RFC 9496 §4.3.4)."""
    first, second = (int.from_bytes(half, "little") % 2**255 for half in (data[:32], data[32:UNIFORM_BYTES]))
    return add(_map(first), _map(second))


def _map(t: int) -> Element:
    """Elligator, as the RFC has it."""
    r = _ROOT_OF_MINUS_1 * t * t % _P
    u = (r + 1) * _ONE_MINUS_D_SQUARED % _P
    v = (-1 - r * _D) * (r + _D) % _P
    square, s = _sqrt_ratio(u, v)
    c = -1
    if not square:
        s, c = -_absolute(s * t), r
    n = (c * (r - 1) * _D_MINUS_ONE_SQUARED - v) % _P
    w0, w1 = 2 * s * v % _P, n * _ROOT_OF_AD_MINUS_ONE % _P
    w2, w3 = (1 - s * s) % _P, (1 + s * s) % _P
    return Element((w0 * w3 % _P, w2 * w1 % _P, w1 * w3 % _P, w0 * w2 % _P))


def decode_scalar(data: bytes) -> int:
    """A number below the order. Raises ``MalformedMessageError`` where it is not below, or has not 32 bytes."""
    scalar = int.from_bytes(data, "little")
    if len(data) != SCALAR_BYTES or scalar >= ORDER:
        raise MalformedMessageError("these bytes are no scalar of the group")
    return scalar


def encode_scalar(scalar: int) -> bytes:
    """Its 32 bytes, little-endian."""
    return (scalar % ORDER).to_bytes(SCALAR_BYTES, "little")


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────────


def add(first: Element, second: Element) -> Element:
    """Their sum."""
    x1, y1, z1, t1 = first
    x2, y2, z2, t2 = second
    a, b = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    c, d = 2 * _D * t1 % _P * t2, 2 * z1 * z2
    e, f, g, h = (b - a) % _P, (d - c) % _P, (d + c) % _P, (b + a) % _P
    return Element((e * f % _P, g * h % _P, f * g % _P, e * h % _P))


def _double(element: Element) -> Element:
    x, y, z, _ = element
    a, b = x * x, y * y
    h = (a + b) % _P
    e, g = (h - (x + y) ** 2) % _P, (a - b) % _P
    f = (2 * z * z + g) % _P
    return Element((e * f % _P, g * h % _P, f * g % _P, e * h % _P))


def _multiples(element: Element) -> Sequence[Element]:
    """0, 1, 2, … times it, as many as a window has values."""
    multiples = [IDENTITY]
    for _ in range(2**_WINDOW_BITS - 1):
        multiples.append(add(multiples[-1], element))
    return multiples


def weighted_sum(pairs: Iterable[tuple[int, Element]]) -> Element:
    """Σ scalar · element. All share their doublings: many at once cost a third of one at a time."""
    tables = [(scalar % ORDER, _multiples(element)) for scalar, element in pairs]
    total = IDENTITY
    for window in reversed(range(_WINDOWS)):
        for _ in range(_WINDOW_BITS):
            total = _double(total)
        for scalar, multiples in tables:
            total = add(total, multiples[scalar >> _WINDOW_BITS * window & 2**_WINDOW_BITS - 1])
    return total


def multiply(scalar: int, element: Element) -> Element:
    """Scalar times element."""
    return weighted_sum([(scalar, element)])


@functools.cache
def _base_tables() -> Sequence[Sequence[Element]]:
    """Multiples of the generator times 16⁰, 16¹, …: its products then need no doublings."""
    tables, element = [], BASE
    for _ in range(_WINDOWS):
        tables.append(_multiples(element))
        element = add(tables[-1][-1], element)
    return tables


def multiply_base(scalar: int) -> Element:
    """Scalar times the generator."""
    scalar %= ORDER
    total = IDENTITY
    for window, multiples in enumerate(_base_tables()):
        total = add(total, multiples[scalar >> _WINDOW_BITS * window & 2**_WINDOW_BITS - 1])
    return total


#: The generator: that of Curve25519.
BASE = decode(bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"))
