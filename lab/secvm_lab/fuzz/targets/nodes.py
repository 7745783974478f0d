"""Targets: what nodes of a coordinator leave for each other, machine code that opens capsules, and locked secrets."""

from __future__ import annotations

import functools

from secvm.coordinator.counting.epoch_count import EpochCount, RoundToCount
from secvm.coordinator.relayed.relayed_history import RoundFigures
from secvm.coordinator.relayed.run_counting import CountedShard, read_run, write_run
from secvm.crypto.locking import MAGIC, Cost, KeptKey, lock, unlock
from secvm.crypto.sealing.oblivious import GatewayKeys
from secvm.errors import BadInputError, WrongPassphraseError
from secvm.learning import aggregate
from secvm.runtime.lanes import find_lanes
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Target, expect

_CHEAP = Cost(10, 1, 1)
_WORD = b"a passphrase"


# ── shards ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _rounds() -> list[RoundToCount]:
    document = world.history().document
    return [RoundToCount(document.experiment_id, document.experiment, 1)]


def _shards() -> list[bytes]:
    tally = aggregate.empty_tally(world.history().document.experiment)
    made = EpochCount([tally], [(1, 0, 1, 0, 1)], 4, 3, {"garbage": 1})
    return [made.to_bytes(_rounds())]


def _shard(data: bytes) -> object:
    found = EpochCount.from_bytes(data, _rounds())
    numbers = (found.received, found.distinct, *found.refused.values())
    expect(all(type(number) is int and number >= 0 for number in numbers), "a shard counts what is no number")
    # What is written is read again as the same; floats that JSON may hold are no counts.
    expect(EpochCount.from_bytes(found.to_bytes(_rounds()), _rounds()) is not None, "a shard cannot be read again")
    return found.distinct


def _runs() -> list[bytes]:
    one = CountedShard(3, 1, 1, b"f" * 32, b"r" * 32, b"e" * 64, bytes(16))
    return [write_run([one]), write_run([one, CountedShard(1, 0, 1, bytes(32), bytes(32), bytes(64), b"")])]


# ── eight lanes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _lanes() -> GatewayKeys:
    """The machine code, where it was built (``secvm coordinator build-lanes``); else the readable code again."""
    return world.gateway_keys().with_lanes(find_lanes().lanes)


def _eight(data: bytes) -> object:
    good = _good()
    capsules = [data, good, data[:-1], good + data, data + b"\0", good, data, good, data]
    slow, quick = (keys.open_unanswered(capsules) for keys in (world.gateway_keys(), _lanes()))
    told = [[one if isinstance(one, bytes) else type(one) for one in opened] for opened in (slow, quick)]
    expect(told[0] == told[1], "lanes open otherwise than the readable code")
    return told[0]


@functools.cache
def _good() -> bytes:
    return world.sealed(bytes(80)).capsule


# ── locked secrets ───────────────────────────────────────────────────────────────────────────────────────────────────


def _unlock(data: bytes) -> object:
    at = len(MAGIC)
    if data.startswith(MAGIC) and len(data) >= at + 3:
        # Dear ones are allowed, and take a second; what is looked for here does not depend on it.
        Cost(*data[at : at + 3])
        data = data[:at] + bytes([_CHEAP.log2_n, _CHEAP.r, _CHEAP.p]) + data[at + 3 :]
    return unlock(data, _WORD)


@functools.cache
def _kept() -> KeptKey:
    return KeptKey(bytes(range(32)))


TARGETS = (
    Target("shard", _shard, _shards),
    Target("run-result", read_run, _runs, canonical=write_run),
    Target(
        "round-figures",
        RoundFigures.from_bytes,
        lambda: [RoundFigures().to_bytes(), RoundFigures(capsules=3, junk=1, reasons=("why",)).to_bytes()],
        canonical=RoundFigures.to_bytes,
    ),
    Target("capsule-lanes", _eight, lambda: [_good(), world.sealed(b"").capsule], allowed=()),
    Target(
        "locked-secret",
        _unlock,
        lambda: [lock(b"a secret", _WORD, world.dice(), _CHEAP)],
        allowed=(BadInputError, WrongPassphraseError),
    ),
    Target(
        "kept-secret",
        lambda data: _kept().unlock(data, b"vault"),
        lambda: [_kept().lock(b"content", b"vault", world.dice())],
        allowed=(BadInputError,),
    ),
)
