"""A public folder that cannot be written is no end: what waits is kept, told, and written when there is room."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from secvm.coordinator import driver as driving
from secvm.coordinator import publisher as publishing
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.memory import MemoryStore
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.learning import aggregate
from secvm.protocol.canonical import digest_of
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import Coordinator, add, at_work, experiment, files, held_epochs, until
from tests.unit.coordinator.test_node_view import Follower
from tests.unit.protocol.helpers import START


class Disk:
    """A disk that may be full, under the public folder alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.refused = 0
        monkeypatch.setattr(publishing, "write_atomically", self.write)

    def write(self, place: Path, data: bytes) -> None:
        if self.full:
            self.refused += 1
            raise BadInputError(f"cannot write {place}: No space left on device")
        write_atomically(place, data)


def events(lines: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in lines.getvalue().splitlines()]


def test_repro_what_a_full_disk_refused_is_kept_told_once_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, lines, store, of = Disk(monkeypatch), io.StringIO(), MemoryStore(), experiment()
    add(store, of)
    publisher = Publisher(store, tmp_path, log=Log(lines, ManualClock(START), "coordinator"))
    blob = digest_of(aggregate.start(of.experiment).to_bytes())
    publisher.put("/v1/keys", b"old keys")
    publisher.put_blob(blob)
    asyncio.run(publisher.flush())
    publisher.put("/v1/keys", b"keys")
    asyncio.run(publisher.flush())
    # The blob comes first, and nothing that may name it was tried without it; of the keys the newest alone waits.
    assert (disk.refused, publisher.unwritten, files(tmp_path)) == (2, 2, {})
    assert publisher.public("/v1/keys") == (b"keys", "application/octet-stream")
    disk.full = False
    asyncio.run(publisher.flush())
    assert files(tmp_path) == {f"v1/blob/{blob}": store.blob(blob), "v1/keys": b"keys"}
    assert publisher.unwritten == 0
    assert events(lines) == ["public-folder-not-written", "public-folder-written-again"]


def test_repro_a_place_that_cannot_be_made_is_no_end_either(tmp_path: Path) -> None:
    (tmp_path / "v1").write_bytes(b"a file where a folder belongs")
    publisher = Publisher(MemoryStore(), tmp_path)
    publisher.put("/v1/keys", b"keys")
    asyncio.run(publisher.flush())
    assert publisher.unwritten == 1


def test_repro_a_full_public_folder_stops_no_round_and_its_keys_go_on_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    store, clock = MemoryStore(), ManualClock(START - 100_000)
    digest = add(store, experiment())
    coordinator = Coordinator(store, clock, tmp_path)
    asyncio.run(coordinator.go(until=lambda: len(store.rounds(digest)) == 2))
    assert store.rounds(digest)[0].epoch not in held_epochs(store)
    assert files(tmp_path) == {}
    disk.full = False
    asyncio.run(coordinator.step())
    assert f"v1/experiment/{digest}/manifest/2" in files(tmp_path)


def written(folder: Path) -> bool:
    """Whether there is a file. Nothing is read: one that is being written has another name in the next moment."""
    return any(path.is_file() for path in folder.rglob("*"))


async def test_repro_the_driver_tries_again_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "AGAIN_S", 0.001)
    disk = Disk(monkeypatch)
    coordinator = Coordinator(MemoryStore(), ManualClock(START), tmp_path)
    async with at_work(coordinator.driver):
        # The clock stands still all the time.
        await until(lambda: disk.refused > 1)
        disk.full = False
        await until((tmp_path / "v1/keys").exists)


async def test_repro_a_node_that_follows_outlives_a_full_public_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    store = MemoryStore()
    add(store, experiment())
    follower = Follower(store, ManualClock(START), folder=tmp_path)
    async with at_work(follower.following):
        await until(lambda: disk.refused > 0)
        disk.full = False
        while not written(tmp_path):
            follower.steady.advance(500)
            await asyncio.sleep(0)
