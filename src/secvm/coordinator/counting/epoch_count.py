"""Counting an epoch: blocks of opened packages go by once, each capsule counts once, and tallies come out.

    counted = count_epoch(store.opened(epoch), rounds, dice=dice)
    counted.tallies                      # one for each round, in the order of ``rounds``

A capsule is known by its SHA-256. Its first record counts, later ones do not. A package that has no place in the rounds
of the epoch is refused under the name of its problem, by the rules of ``protocol.codec.check_package``, and changes no
count. It counts with the compiled kernels where numba is installed, else with the readable ones. Both count the same.

Where there are several nodes an epoch is counted in **shards**, by all that live, and added up by the driver. Records
fall into shards by the first bits of their digest. Equal capsules have equal digests, so "each capsule once" is a
question inside one shard; and tallies are integers and add in any order. So the sum of the shards is the count of the
whole, byte for byte.

 1. A node claims a shard when the epoch is closed and nothing of it is sealed, counts it, and keeps the result in the
    store. A claim ends by itself: what a dead node had claimed is counted by the next one that asks.
 2. The driver claims and counts like everybody, waits for what others have claimed, and adds.
 3. A result says which rounds it is of. One of other rounds, by a node that had not heard of all of them, is not
    believed: the driver counts that shard itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting._kernels import plan as p
from secvm.coordinator.counting._kernels import reference
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.records import check_block, view_words
from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.errors import LocalProtocolError, MalformedMessageError, NotInstalledError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.canonical import is_integer
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.documents.blobs import encode_tally, read_tally_bytes

Name = Literal["fast", "reference"]


def kernels(name: Name | None = None) -> ModuleType:
    """The named kernels, or the quickest that this installation can run: a module with ``Seen`` and ``tally``."""
    has_numba = find_spec("numba") is not None
    if name == "reference" or (name is None and not has_numba):
        return reference
    if not has_numba:
        raise NotInstalledError("counting with the fast kernels", "numba", "coordinator")
    from secvm.coordinator.counting._kernels import fast  # noqa: PLC0415  # late: here numba comes in

    return fast


_KEY_BYTES = 16
#: Small blocks are put together up to this size, so that a kernel is called for many records.
_GATHERED_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class RoundToCount:
    """One round of the epoch, and what its packages may name."""

    experiment_id: ExperimentId
    experiment: Experiment
    round_number: int


#: How many packages of a round were counted: to train, to test, of participants who train, who test, and nulls, which
#: are in no tally. For the operator.
Kinds = tuple[int, ...]


@dataclass(frozen=True)
class EpochCount:
    """What an epoch, or one shard of it, came to. As bytes it is one line of JSON, and then the tallies."""

    #: One for each round, in the order in which they were asked for.
    tallies: list[Tally]
    kinds: list[Kinds]
    #: Records that went by, and how many capsules they were of.
    received: int
    distinct: int
    #: Distinct capsules whose package was not counted, by name of the problem; only those that occurred.
    refused: dict[str, int]

    def to_bytes(self, rounds: Sequence[RoundToCount]) -> bytes:
        """The count as it is kept; ``rounds`` are those that were counted."""
        tallies = [encode_tally(tally, counted.experiment) for tally, counted in zip(self.tallies, rounds, strict=True)]
        head = {
            "rounds": _names(rounds),
            "kinds": self.kinds,
            "received": self.received,
            "distinct": self.distinct,
            "refused": self.refused,
            "tallies": [len(data) for data in tallies],
        }
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(tallies)

    @classmethod
    def from_bytes(cls, data: bytes, rounds: Sequence[RoundToCount]) -> EpochCount:
        """The count of these rounds. Raises ``MalformedMessageError`` for other bytes, and for other rounds."""
        line, _, rest = data.partition(b"\n")
        try:
            head: dict[str, Any] = json.loads(line)
            if head["rounds"] != _names(rounds):
                raise MalformedMessageError("the count of a shard is of other rounds than those asked for")
            tallies, at = [], 0
            for counted, length in zip(rounds, head["tallies"], strict=True):
                tallies.append(read_tally_bytes(rest[at : at + length], counted.experiment))
                at += length
            kinds = [tuple(row) for row in head["kinds"]]
            # ``dict`` would take a list of pairs as well.
            refused = {**head["refused"]}
            count = cls(tallies, kinds, head["received"], head["distinct"], refused)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise MalformedMessageError("these bytes are not the count of a shard") from None
        numbers = [
            count.received,
            count.distinct,
            *count.refused.values(),
            *(number for row in kinds for number in row),
        ]
        if not all(is_integer(number) and number >= 0 for number in numbers):
            raise MalformedMessageError("the count of a shard has an entry that is not a count")
        if [len(row) for row in kinds] != [p.N_KINDS] * len(rounds) or at != len(rest):
            raise MalformedMessageError("the count of a shard has parts that do not fit together")
        return count


def _names(rounds: Sequence[RoundToCount]) -> list[list[object]]:
    return [[counted.experiment_id.hex(), counted.round_number] for counted in rounds]


def count_epoch(
    blocks: Iterable[bytes],
    rounds: Sequence[RoundToCount],
    *,
    dice: RandomBytes,
    using: Name | None = None,
) -> EpochCount:
    """Count all blocks of an epoch into tallies. Only digests and counts are held in memory, no packages.

    ``dice`` throw the key of the table of digests (see ``_kernels.fast``): secret, and after the last capsule came.
    """
    named = [(counted.experiment_id, counted.round_number) for counted in rounds]
    if len(set(named)) != len(named):
        raise LocalProtocolError("a round is to be counted twice at once")
    if any(len(identity) != EXPERIMENT_ID_BYTES for identity, _ in named):
        raise LocalProtocolError(f"an experiment's id has {EXPERIMENT_ID_BYTES} bytes")
    plan = make_plan(rounds)
    chosen = kernels(using)
    seen = chosen.Seen(throw(dice, _KEY_BYTES))
    received = 0
    for block in _gathered(blocks):
        words = view_words(block)
        chosen.tally(words, seen.first(words), plan)
        received += len(words)
    refused = {name: count for name, count in zip(p.REFUSALS, plan.refused.tolist(), strict=True) if count}
    return EpochCount(
        tallies=[_tally(plan, i) for i in range(len(rounds))],
        kinds=[tuple(row) for row in plan.kinds.tolist()],
        received=received,
        distinct=len(seen),
        refused=refused,
    )


def make_plan(rounds: Sequence[RoundToCount]) -> p.Plan:
    """The layout of these rounds, with nothing counted yet."""
    ids, shapes, at = [], [], 0
    for counted in rounds:
        identity, experiment = counted.experiment_id, counted.experiment
        ids.append([int.from_bytes(word, "little") for word in (identity[:6], identity[6:14], identity[14:])])
        models, bins, labels = experiment.models.n_models, experiment.n_bins + 1, len(experiment.labels)
        row = [counted.round_number, models, bins, labels, int(experiment.loss.regression)]
        for size in (models * bins, models * bins, labels, labels**2):
            row.append(at)
            at += size
        shapes.append(row)
    return p.Plan(
        ids=np.array(ids, dtype=np.uint64).reshape(-1, 3),
        shapes=np.array(shapes, dtype=np.int64).reshape(-1, 9),
        counts=np.zeros(at, dtype=np.int64),
        kinds=np.zeros((len(rounds), p.N_KINDS), dtype=np.int64),
        refused=np.zeros(len(p.REFUSALS), dtype=np.int64),
    )


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        check_block(block)
        parts.append(block)
        size += len(block)
        if size >= _GATHERED_BYTES:
            # A single block is handed on as it is: ``join`` does not copy it.
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _tally(plan: p.Plan, i: int) -> Tally:
    _, models, bins, labels, _, plus, minus, participants, cells = plan.shapes[i].tolist()

    def part(start: int, *shape: int) -> NDArray[np.int64]:
        return plan.counts[start : start + int(np.prod(shape))].reshape(shape)

    return Tally(
        plus=part(plus, models, bins),
        minus=part(minus, models, bins),
        participants=part(participants, labels),
        cells=part(cells, labels, labels),
    )


#: How long the driver waits before it asks again what others have counted.
_NAP_S = 0.05


def add_shards(counts: Sequence[EpochCount]) -> EpochCount:
    """The count of the epoch, from those of all its shards in their order; each is of the same rounds."""
    refused: Counter[str] = Counter()
    for count in counts:
        refused.update(count.refused)
    kinds = zip(*(count.kinds for count in counts), strict=True)
    return EpochCount(
        tallies=[reduce(Tally.merge, same) for same in zip(*(count.tallies for count in counts), strict=True)],
        kinds=[tuple(map(sum, zip(*same, strict=True))) for same in kinds],
        received=sum(count.received for count in counts),
        distinct=sum(count.distinct for count in counts),
        refused=dict(refused),
    )


@dataclass(eq=False, repr=False)
class ShardCounting:
    """Counts shards on one node. Blocks; ``whole`` does not."""

    store: CoordinatorStore
    dice: RandomBytes
    _: KW_ONLY
    nap_s: float = _NAP_S

    def count_one(self, epoch: int, rounds: Callable[[], Sequence[RoundToCount]]) -> bool:
        """Claim a shard and count it. False: there is none to be had, now or any more.

        ``rounds`` is asked once there is one: only what is read then is sure to hold every round of a closed epoch.
        """
        shard = self.store.claim_shard(epoch)
        if shard is None:
            return False
        counted = rounds()
        self.store.keep_shard(epoch, shard, self._count(epoch, shard, counted).to_bytes(counted))
        return True

    async def whole(self, epoch: int, rounds: Sequence[RoundToCount]) -> EpochCount:
        """For the driver: the whole epoch, with everybody's help."""
        while True:
            if await asyncio.to_thread(self.count_one, epoch, lambda: rounds):
                continue
            done = await asyncio.to_thread(self.store.counted_shards, epoch)
            if len(done) == self.store.n_shards:
                results = await asyncio.to_thread(self.store.shards, epoch)
                return await asyncio.to_thread(self._add, epoch, results, rounds)
            # Others are at it, or were: their claims end.
            await asyncio.sleep(self.nap_s)

    def _add(self, epoch: int, results: dict[int, bytes], rounds: Sequence[RoundToCount]) -> EpochCount:
        counts = []
        for shard in sorted(results):
            try:
                counts.append(EpochCount.from_bytes(results.pop(shard), rounds))
            except MalformedMessageError:
                counts.append(self._count(epoch, shard, rounds))
        return add_shards(counts)

    def _count(self, epoch: int, shard: int, rounds: Sequence[RoundToCount]) -> EpochCount:
        return count_epoch(self.store.opened(epoch, shard), rounds, dice=self.dice)
