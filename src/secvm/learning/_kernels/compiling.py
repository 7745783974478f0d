"""How the quick kernels are compiled, and the few machine operations that numba has no word for.

Promises: no fastmath, no numba threads, results that depend on no CPU feature. The vector operations are LLVM's own
vectors of integers: on a CPU with narrower registers LLVM splits them, and the sums stay the same integers.

The first process that compiles says so, on stderr: it is the only time that a fit takes seconds without a reason to be
seen. Later ones, which may need other kernels, say nothing. The environment variable ``SECVM_QUIET`` silences it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.extending import intrinsic

#: Where it is set, nothing is said of compiling.
QUIET = "SECVM_QUIET"


class _Announcement(event.Listener):  # type: ignore[misc]  # numba tells no types
    """Says, before the first kernel of this process is compiled, what takes the time; kernels of others do not count.

    numba sends the event only where it found no machine code on disk.
    """

    def __init__(self) -> None:
        #: Every kernel, and whether its machine code is kept.
        self.kernels: dict[Any, bool] = {}
        self.said = False
        event.register("numba:compile", self)

    def on_start(self, event_: Any) -> None:
        """A kernel is about to be compiled."""
        kernel = event_.data["dispatcher"]
        if self.said or kernel not in self.kernels or os.environ.get(QUIET):
            return
        self.said = True
        often = "each part of it once after an installation"
        if not self.kernels[kernel]:
            often = "in every process: neither NUMBA_CACHE_DIR, the package nor ~/.cache/secvm can be written"
        elif not _first_time():
            return
        sys.stderr.write(f"secvm: compiling for this machine, some seconds, {often}\n")
        sys.stderr.flush()

    def on_end(self, event_: Any) -> None:
        """Nothing is said of it."""


_announcement = _Announcement()


def _first_time() -> bool:
    """Whether no process has said it since these sources were installed."""
    folder = _cache_folder(Path(__file__).parent)
    try:
        Path(folder or os.devnull, "told").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


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
    asked_for = [Path(nb.config.CACHE_DIR)] if nb.config.CACHE_DIR else []
    for parent in (*asked_for, package / "learning" / "_kernels" / "__pycache__", Path.home() / ".cache" / "secvm"):
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

    ``NUMBA_CACHE_DIR`` names another place for it. Where no folder can be written (a read-only installation without a
    home) the code is compiled anew each time.
    """
    folder = _cache_folder(Path(function.__code__.co_filename).parent)
    before = nb.config.CACHE_DIR
    nb.config.CACHE_DIR = folder or before  # read when the kernel is declared, and only then
    try:
        kernel = nb.njit(nogil=True, cache=folder is not None)(function)
    finally:
        nb.config.CACHE_DIR = before
    _announcement.kernels[kernel] = folder is not None
    return kernel


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
