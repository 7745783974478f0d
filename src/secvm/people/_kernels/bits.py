"""Wide loads for the scanners: eight bytes as a word, sixteen bytes as a mask, and SipHash on top of them.

Every array given here has at least ``PADDING`` readable bytes after the last one that counts, so that a wide load at
any counted byte stays inside it. Loads are little-endian, as is every machine that numba supports.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from secvm.learning._kernels.siphash import _C0, _C1, _C2, _C3, _finish, _round

#: Bytes that must be readable after the end of the data.
PADDING = 32

_BYTE = ir.IntType(8)


def _pointer(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def lent(typingctx, array):
    """The same array without its share in the reference count; the caller keeps the original alive.

    Numba counts references, with atomic operations, whenever an array leaves a tuple. Without them, and with the small
    functions inlined, a feature took 35 ns instead of 77 (measured together, not apart).
    """

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        original = context.make_array(kind)(context, builder, args[0])
        copy = context.make_array(kind)(context, builder, args[0])
        copy.meminfo = ir.Constant(original.meminfo.type, None)
        copy.parent = ir.Constant(original.parent.type, None)
        return copy._getvalue()  # noqa: SLF001 numba has no public name for it

    return array(array), codegen


@intrinsic
def load_word(typingctx, data, index):
    """The eight bytes at ``index``, which need not be aligned, as a uint64."""

    def codegen(context, builder, signature, args):
        wide = builder.bitcast(_pointer(context, builder, signature, args), ir.IntType(64).as_pointer())
        return builder.load(wide, align=1)

    return types.uint64(data, types.intp), codegen


@intrinsic
def special_mask(typingctx, data, index):
    """A bit for each of the sixteen bytes at ``index`` that a plain ASCII JSON string cannot hold: quotes, backslashes,
    control characters, and bytes above 127.
    """

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, 16)
        pointer = builder.bitcast(_pointer(context, builder, signature, args), vector.as_pointer())
        chunk = builder.load(pointer, align=1)

        def all_of(byte):
            return ir.Constant(vector, [ir.Constant(_BYTE, byte)] * 16)

        quote = builder.icmp_unsigned("==", chunk, all_of(0x22))
        backslash = builder.icmp_unsigned("==", chunk, all_of(0x5C))
        # As signed numbers, bytes above 127 are negative: one comparison finds them and the control characters.
        outside = builder.icmp_signed("<", chunk, all_of(0x20))
        found = builder.or_(builder.or_(quote, backslash), outside)
        return builder.zext(builder.bitcast(found, ir.IntType(16)), ir.IntType(64))

    return types.uint64(data, types.intp), codegen


@intrinsic
def trailing_zeros(typingctx, word):
    """Number of zero bits below the lowest one bit; the word is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@nb.njit(forceinline=True)
def tail_word(data, start, n):
    """The ``n`` < 8 bytes at ``start``, zeros above them."""
    return load_word(data, start) & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))


@nb.njit(forceinline=True)
def hash_bytes(k0, k1, data, start, end):
    """SipHash-2-4 of ``data[start:end]``, eight bytes a load; equals ``reference.siphash24``."""
    v0 = k0 ^ _C0
    v1 = k1 ^ _C1
    v2 = k0 ^ _C2
    v3 = k1 ^ _C3
    n = end - start
    i = start
    whole = end - 7
    while i < whole:
        m = load_word(data, i)
        v3 ^= m
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= m
        i += 8
    return _finish(v0, v1, v2, v3, tail_word(data, i, end - i) | (np.uint64(n & 0xFF) << np.uint64(56)))


@nb.njit(forceinline=True)
def same_bytes(a, a_start, b, b_start, n):
    """Whether ``n`` bytes are equal."""
    i = 0
    while i < n - 7:
        if load_word(a, a_start + i) != load_word(b, b_start + i):
            return False
        i += 8
    return tail_word(a, a_start + i, n - i) == tail_word(b, b_start + i, n - i)
