"""Lanes on this machine: found, tried, and compiled when somebody asks for it (docs/adr/0048-eight-lanes.md).

``find_lanes`` never fails: either there are lanes, or one short name says why not. In order:

 1. the CPU has what the code needs, by the kernel's list of its features;
 2. ``build_lanes`` has compiled ``crypto/sealing/_lanes.c``: the file's name carries the digest of source and
    compiler's options, so that code of another version is never taken for this one's;
 3. nobody but us and root can have written it, or put another in its place;
 4. it opens and refuses what the readable code opens and refuses, on capsules of every kind, and seals the same bytes.

Nothing is ever compiled because a program was started.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from secvm.crypto.sealing import lanes as face
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.sealing.layers import BulkSealer, inner_layer, outer_layer
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer
from secvm.errors import SecVMError

Mode = Literal["auto", "off"]

_LIBRARY = "opener.so"
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = (
    *("-std=gnu11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-march=x86-64-v4", "-mavx512ifma", "-msha", "-maes", "-mpclmul"),
    # Beside the exchange, which says itself how wide it is, wide registers only hold SHA instructions up.
    "-mprefer-vector-width=128",
)
#: As /proc/cpuinfo writes them. What x86-64-v4 has beside these, every CPU with them has.
_FEATURES = {
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma"),
    *("aes", "avx2", "bmi1", "bmi2", "fma", "movbe", "pclmulqdq", "sha_ni"),
}


@dataclass(frozen=True, slots=True)
class LaneSearch:
    """Lanes, or why there are none: a short name, as logs take them."""

    lanes: Lanes | None
    reason: str


def find_lanes(mode: Mode = "auto", folder: Path | None = None) -> LaneSearch:
    """The lanes of this machine. ``folder``: where they were built, if not in the usual place."""
    if mode == "off":
        return LaneSearch(None, "switched-off")
    if not cpu_can():
        return LaneSearch(None, "cpu")
    for parent in _parents() if folder is None else (folder,):
        built = parent / _name()
        # Unlike ``Path.exists`` it says no, too, where we may not look: in the home of somebody else, say.
        if os.path.exists(built / _LIBRARY):  # noqa: PTH110
            return _load(built) if _is_ours(built) else LaneSearch(None, "unsafe-folder")
    return LaneSearch(None, "not-built")


def _load(built: Path) -> LaneSearch:
    try:
        lanes = Lanes(str(built / _LIBRARY))
    except (OSError, AttributeError):
        return LaneSearch(None, "does-not-load")
    if not opens_alike(lanes):
        return LaneSearch(None, "opens-otherwise")
    return LaneSearch(lanes, "found") if seals_alike(lanes) else LaneSearch(None, "seals-otherwise")


def cpu_can(described: str | None = None) -> bool:
    """Whether the CPU has every instruction; ``described``: what /proc/cpuinfo says."""
    if described is None:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            return False
        with contextlib.suppress(OSError):
            described = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    flags = [line.partition(":")[2].split() for line in (described or "").splitlines() if line.startswith("flags")]
    # A machine may have cores of two kinds; the program runs on any of them.
    return bool(flags) and all(set(features) >= _FEATURES for features in flags)


# ── built ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_lanes(folder: Path | None = None) -> Path:
    """Compile the machine code, and return the folder it lies in.

    Raises
    ------
    SecVMError
        No compiler, no folder that is ours alone, or a compiler that failed.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise SecVMError("there is no C compiler (cc, gcc or clang)", next_step="Install one; or go without lanes.")
    parent = _place(folder)
    built = parent / _name()
    if os.path.exists(built / _LIBRARY) and _is_ours(built):  # noqa: PTH110
        return built
    # Beside its place, so that it gets there whole or not at all.
    unfinished = Path(tempfile.mkdtemp(prefix="lanes-unfinished-", dir=parent))
    try:
        _compile([compiler, *_OPTIONS], unfinished / _LIBRARY, _source().read_bytes())
        # A build of another process that was quicker is as good, and may be in use: only one that nobody should
        # trust is taken away.
        if not _is_ours(built):
            shutil.rmtree(built, ignore_errors=True)
        with contextlib.suppress(OSError):
            unfinished.rename(built)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return built


def _compile(command: list[str], to: Path, source: bytes) -> None:
    """What is compiled comes by a pipe: exactly the bytes that the digest was taken of."""
    ran = subprocess.run([*command, "-x", "c", "-", "-o", str(to)], input=source, capture_output=True, check=False)  # noqa: S603
    if ran.returncode:
        raise SecVMError("the C compiler failed: " + (ran.stderr.decode(errors="replace").strip() or "without a word"))


def _source() -> Path:
    return Path(face.__file__).with_name("_lanes.c")


def _name() -> str:
    digest = hashlib.sha256(" ".join(_OPTIONS).encode() + b"\0" + _source().read_bytes()).hexdigest()
    return f"lanes-{digest[:16]}"


def _parents() -> tuple[Path, ...]:
    beside = Path(face.__file__).parent / "__pycache__"
    try:
        return beside, Path.home() / ".cache" / "secvm"
    except RuntimeError:  # nobody's home
        return (beside,)


def _place(folder: Path | None) -> Path:
    """The first folder that can be made and that only we can write to."""
    for parent in _parents() if folder is None else (folder,):
        with contextlib.suppress(OSError):
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(parent) and os.access(parent, os.W_OK):
                return parent
    raise SecVMError(
        "there is no folder for machine code that only this user can write to",
        next_step="Take the right to write from others: chmod go-w, up to the root.",
    )


def _is_ours(path: Path) -> bool:
    """Whether only we and root can change what lies there, or put something else in its place."""
    try:
        path = path.resolve(strict=True)
        inside = list(path.iterdir()) if path.name.startswith("lanes-") else []
        return all(_safe(place.lstat(), sticky=place in path.parents) for place in (*inside, path, *path.parents))
    except OSError:
        return False


def _safe(status: os.stat_result, *, sticky: bool) -> bool:
    # In a folder such as /tmp others may write, but not touch what is ours.
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky and status.st_mode & stat.S_ISVTX)
    return status.st_uid in {0, os.geteuid()} and not others


# ── tried ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def opens_alike(lanes: Lanes) -> bool:
    """Whether lanes open and refuse what the readable code does: many lengths, and whatever can be wrong."""
    # Dice that can be thrown again: this is a test, and what it seals is nobody's.
    thrown = _thrown(b"lanes")
    key = GatewayKey(7, X25519PrivateKey(thrown(32)))
    sealer = RequestSealer(key.configuration)
    capsules = [sealer.seal(thrown(size), thrown).capsule for size in (*range(20), 31, 32, 33, 78, 79, 80, 127, 500)]
    some = capsules[5]
    header, point, rest = some[:7], some[7:39], some[39:]
    capsules += [
        some,
        header + point + rest[:-1] + bytes([rest[-1] ^ 1]),
        header + point + bytes([rest[0] ^ 128]) + rest[1:],
        header + bytes(32) + rest,
        header + b"\1" + bytes(31) + rest,
        # The highest bit of a point is not looked at; but it is a part of what was sealed.
        header + point[:31] + bytes([point[31] ^ 128]) + rest,
        header + b"\xff" * 32 + rest,
        header + point + rest[:16],
        header + point + rest[:15],
        b"\0" + some[1:],
        b"",
    ]
    slow, quick = GatewayKeys([key]), GatewayKeys([key], lanes)
    alike = [
        _comparable(slow.open_unanswered(capsules[:count])) == _comparable(quick.open_unanswered(capsules[:count]))
        for count in (*range(10), len(capsules))
    ]
    return all(alike)


def seals_alike(lanes: Lanes) -> bool:
    """Whether lanes seal the same capsules of both layers as the readable code, and open or refuse the same of them."""
    thrown = _thrown(b"layers")
    private, label = X25519PrivateKey(thrown(32)), thrown(32)
    slow, quick = BulkSealer(), BulkSealer(lanes)
    alike = []
    for layer in (inner_layer(label), outer_layer(label)):
        for count in (*range(1, 10), 33):
            ephemerals, contents = thrown(32 * count), thrown(layer.content_bytes * count)
            capsules = slow.seal(layer, private.public_key, ephemerals, contents)
            alike.append(quick.seal(layer, private.public_key, ephemerals, contents) == capsules)
            size = layer.capsule_bytes
            some = capsules[:size]
            bad = (bytes(32) + some[32:], some[:-1] + bytes([some[-1] ^ 1]), bytes([some[0] ^ 1]) + some[1:])
            mixed = capsules + b"".join(bad)
            alike.append(quick.open_all(layer, private, mixed) == slow.open_all(layer, private, mixed))
    return all(alike)


def _thrown(seed: bytes) -> Callable[[int], bytes]:
    count = 0

    def throw(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(seed + count.to_bytes(4, "big")).digest(size)

    return throw


def _comparable(opened: Sequence[bytes | Exception]) -> list[object]:
    return [result if isinstance(result, bytes) else (type(result), str(result)) for result in opened]
