"""What targets begin from: one honest history with all its files, and keys that everybody knows."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, SealedRequest, seal_request
from secvm.crypto.signing import Envelope
from secvm.crypto.tokens import TokenKey
from secvm_lab.rigs.histories.public_history import PublicHistory

_SEED = 7


@functools.cache
def history() -> PublicHistory:
    """Three rounds and an ending, of an experiment with a log, beacons and a relay."""
    found = PublicHistory.drawn(random.Random(_SEED), witnesses=2, beacons=1)  # noqa: S311  (no secrets here)
    found.play(3, abandoned=0.0)
    found.end()
    return found


@functools.cache
def documents() -> tuple[bytes, ...]:
    """Experiments of several kinds, as canonical bytes, of either rule."""
    drawn = [PublicHistory.drawn(random.Random(seed), witnesses=1) for seed in range(6)]  # noqa: S311
    return tuple(one.document.data for one in drawn)


def files(*ends: str) -> list[bytes]:
    """Public files whose path has one of these parts."""
    return [data for path, data in history().files.items() if any(end in path for end in ends)]


def payloads(*ends: str) -> list[bytes]:
    """What stands in the envelopes of such files."""
    return [Envelope.from_bytes(data).payload for data in files(*ends)]


def dice() -> Callable[[int], bytes]:
    """The same every time."""
    return random.Random(_SEED).randbytes  # noqa: S311


@functools.cache
def gateway_key() -> GatewayKey:
    """A gateway's key that everybody knows."""
    return GatewayKey(1, X25519PrivateKey.generate(dice()))


@functools.cache
def gateway_keys() -> GatewayKeys:
    """The same, to open with."""
    return GatewayKeys([gateway_key()])


def sealed(request: bytes) -> SealedRequest:
    """A capsule for that key."""
    return seal_request(gateway_key().configuration, request, dice())


@functools.cache
def token_key() -> TokenKey:
    """An issuer's key that everybody knows."""
    return TokenKey.of_round(bytes(32))


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """A place for files, in memory where the system has such."""
    shared = Path("/dev/shm")  # noqa: S108  (a folder with a name of its own is made in it)
    return tempfile.TemporaryDirectory(prefix="secvm-fuzz-", dir=shared if shared.is_dir() else None)


#: Where files of targets go: somebody else's folder (a fuzzer ends without tidying up), or one of this process.
_places: list[Path] = []
_own: list[tempfile.TemporaryDirectory[str]] = []


def use(folder: Path | None) -> None:
    """From now on files go there; None: to a folder of this process again."""
    _places[:] = [] if folder is None else [folder]


def folder() -> Path:
    """Where files go."""
    if not _places:
        _own.append(memory_folder())
        _places.append(Path(_own[-1].name))
    return _places[0]


def on_file(name: str, data: bytes) -> Path:
    """These bytes as a file that only its owner can read."""
    path = folder() / name
    if not path.exists():
        path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def texts(*lines: str) -> Callable[[], list[bytes]]:
    """Seeds that are text."""
    return lambda: [line.encode() for line in lines]


def as_text(data: bytes) -> str:
    """Bytes as the text that they may be, letters that are none included."""
    return data.decode(errors="surrogateescape")


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cut side by side."""
    for at in range(0, len(data), size):
        yield data[at : at + size]
