"""One node of ``benchmarks/cluster.py``, a process of its own: opens and counts what is stored, as a coordinator does.

    python -m benchmarks._cluster_node URL

It obeys lines on its standard input, each a JSON object, and answers each with one:

    {"epoch": 3, "lanes": true, "adds": true}     open its share of the epoch, count its share of the shards; whoever
                                                   adds is the driver, and returns when the whole epoch is counted
    {"quit": true}
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import orjson

from benchmarks import _ingest_server as setting
from benchmarks._measuring import answer, memory_mb
from secvm.coordinator.counting.epoch_count import RoundToCount, ShardCounting, count_epoch
from secvm.coordinator.intake.opener import Opener
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.store.port import StoredKey
from secvm.coordinator.store.postgres import PostgresStore
from secvm.crypto.sealing.lanes import Lanes
from secvm.runtime.lanes import find_lanes
from secvm.runtime.metrics import Metrics

ROUNDS = [RoundToCount(setting.DOCUMENT.experiment_id, setting.DOCUMENT.experiment, setting.ROUND)]
#: How often a node that has nothing left to open looks whether others still have.
_NAP_S = 0.002


def key_of(epoch: int) -> StoredKey:
    """All epochs have one key, so that the same capsules can be stored again and again."""
    return StoredKey(epoch, setting.KEY.key_id, setting.KEY.private)


async def work(store: PostgresStore, epoch: int, lanes: Lanes | None, *, adds: bool) -> dict[str, object]:
    """Open and count a share."""
    opener = Opener(store, metrics=Metrics("coordinator"), lanes=lanes)
    opener.update(CurrentRounds(keys=(key_of(epoch),)))
    counting = ShardCounting(store, os.urandom, nap_s=_NAP_S)
    started, cpu = time.perf_counter(), time.process_time()
    await opener.finish(epoch)
    while await asyncio.to_thread(store.left_sealed, epoch):  # noqa: ASYNC110  (another process has them)
        await asyncio.sleep(_NAP_S)
    opened = time.perf_counter()
    told: dict[str, object] = {}
    if adds:
        counted = await counting.whole(epoch, ROUNDS)
        told = {"distinct": counted.distinct, "counted": int(counted.tallies[0].plus.sum())}
    else:
        while await asyncio.to_thread(counting.count_one, epoch, lambda: ROUNDS):
            pass
    ended = time.perf_counter()
    return {
        **told,
        "started": started,
        "opened": opened,
        "ended": ended,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": memory_mb(),
    }


def main(url: str) -> None:
    """Obey until told to quit."""
    store = PostgresStore(url)
    lanes = find_lanes().lanes
    # Kernels are compiled, or read from their cache, once in a process's life.
    count_epoch([bytes(64)], ROUNDS, dice=os.urandom)
    answer(lanes=lanes is not None)
    for line in sys.stdin:
        asked: dict[str, Any] = orjson.loads(line)
        if "quit" in asked:
            break
        answer(**asyncio.run(work(store, asked["epoch"], lanes if asked["lanes"] else None, adds=asked["adds"])))
    store.close()


if __name__ == "__main__":
    main(sys.argv[1])
