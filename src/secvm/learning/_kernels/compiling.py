"""How the quick kernels are compiled, and the few machine operations that numba has no word for.

Promises: no fastmath, no numba threads, results that depend on no CPU feature. The vector operations are LLVM's own
vectors of integers: on a CPU with narrower registers LLVM splits them, and the sums stay the same integers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@cache
def _cache_folder(beside: Path) -> str | None:
    """A folder for machine code, named by the sources of all kernels of this package and of those ``beside`` it, which
    may be another package's: kernels inline each other across files, and numba alone would renew a kernel only when its
    own file changes.
    """
    package = Path(__file__).parents[2]
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted({*package.glob("*/_kernels/*.py"), *beside.glob("*.py")}):
        digest.update(source.read_bytes())
    for parent in (package / "learning" / "_kernels" / "__pycache__", Path.home() / ".cache" / "secvm"):
        folder = parent / f"machine-code-{digest.hexdigest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return None


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel on first use, let other threads run meanwhile, and keep the machine code on disk.

    Where no folder can be written (a read-only installation without a home) the code is compiled anew each time.
    """
    folder = _cache_folder(Path(function.__code__.co_filename).parent)
    if folder is None:
        return nb.njit(nogil=True)(function)
    before = nb.config.CACHE_DIR
    nb.config.CACHE_DIR = folder  # read when the kernel is declared, and only then
    try:
        return nb.njit(nogil=True, cache=True)(function)
    finally:
        nb.config.CACHE_DIR = before


def _element(context, builder, array_type, array, index):
    """Pointer to ``array[index]``, unchecked."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _vector(builder, pointer, bits, lanes):
    """The pointer as one to a vector of integers, and the alignment that may be assumed: one element's."""
    return builder.bitcast(pointer, ir.VectorType(ir.IntType(bits), lanes).as_pointer()), bits // 8


def _load(builder, pointer, bits, lanes):
    pointer, align = _vector(builder, pointer, bits, lanes)
    return builder.load(pointer, align=align)


def _store(builder, value, pointer, bits, lanes):
    pointer, align = _vector(builder, pointer, bits, lanes)
    builder.store(value, pointer, align=align)


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for the cache line of ``array[index]``; a hint, which may point past the end."""

    def generate(context, builder, signature, args):
        pointer = builder.bitcast(_element(context, builder, signature.args[0], *args), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        builder.call(
            cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0"), [pointer, i32(0), i32(3), i32(1)]
        )
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def trailing_zeros(typing_context, word):
    """Number of the lowest set bit of a word that is not zero."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def add_four_lines(typing_context, sums, weights, i0, i1, i2, i3, lanes):
    """``sums[:L] += weights[i0:i0+L] + ... + weights[i3:i3+L]``: int32 weights, int64 sums, L = len(lanes)."""

    def generate(context, builder, signature, args):
        width = signature.args[6].count
        wide = ir.VectorType(ir.IntType(64), width)
        lines = [
            builder.sext(_load(builder, _element(context, builder, signature.args[1], args[1], i), 32, width), wide)
            for i in args[2:6]
        ]
        four = builder.add(builder.add(lines[0], lines[1]), builder.add(lines[2], lines[3]))
        target = _element(context, builder, signature.args[0], args[0], ir.IntType(64)(0))
        _store(builder, builder.add(_load(builder, target, 64, width), four), target, 64, width)
        return context.get_dummy_value()

    return types.void(sums, weights, i0, i1, i2, i3, lanes), generate


@intrinsic
def add_line(typing_context, counts, index, units, row, lanes):
    """``counts[index:index+L] += units[row:row+L]``, uint32, L = len(lanes)."""

    def generate(context, builder, signature, args):
        width = signature.args[4].count
        target = _element(context, builder, signature.args[0], args[0], args[1])
        line = _load(builder, _element(context, builder, signature.args[2], args[2], args[3]), 32, width)
        _store(builder, builder.add(_load(builder, target, 32, width), line), target, 32, width)
        return context.get_dummy_value()

    return types.void(counts, index, units, row, lanes), generate
