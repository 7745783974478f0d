"""Shards of opened rounds as files: all of them are there, none is half, and they heal and go whatever is killed."""

import asyncio
import io
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.relayed import shard_files as shard_folder
from secvm.coordinator.relayed.shard_files import ShardFiles, ShardFolder
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto import merkle
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counting import CapsuleReader
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import DAY_MS, shard_entry, shards_root
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from tests.effort import scaled
from tests.unit.coordinator.rounds import files
from tests.unit.coordinator.test_relayed_rounds import Killed, Mortal, silent_about
from tests.unit.coordinator.two_relays import KEPT_DAYS, Federation, TwoRelays, begun, document, make_small

SHARD, PIECE = 80, 160
KINDS = ("shard", "capsules", "tally")


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched, shard=SHARD, piece=PIECE)
        yield


def shards_in(folder: Path, federation: Federation) -> dict[str, bytes]:
    return shards_below(folder, federation.relays.document.digest)


def shards_below(folder: Path, digest: str) -> dict[str, bytes]:
    """The files of shards, by their path below the experiment."""
    below = f"v1/experiment/{digest}/"
    found = {path.removeprefix(below): data for path, data in files(folder).items() if path.startswith(below)}
    return {path: data for path, data in found.items() if path.split("/")[0] in (*KINDS, "shards")}


def test_folder_has_every_shard_and_they_are_what_the_opening_is_bound_to(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    federation = begun(store, tmp_path / "public")
    asyncio.run(federation.go())
    of, one = federation.relays.document, federation.round()[1]
    said, opening = federation.relays.said[one.manifest.label], of.read(Opening, federation.public("opening/1"))
    assert opening.count_seed is not None
    reader = CapsuleReader.of(of, one.manifest, opening.count_seed)
    found = shards_in(tmp_path / "public", federation)
    count = -(-len(said.batch) // SHARD)
    assert count > 2 * PIECE // SHARD, "several pieces"
    assert set(found) == {"shards/1", *(f"{kind}/1/{shard}" for kind in KINDS for shard in range(count))}
    # What is answered out of the store is the same.
    assert found == {path: federation.public(path) for path in found}
    capsules = [found[f"capsules/1/{shard}"] for shard in range(count)]
    assert b"".join(capsules) == b"".join(said.batch)
    entries = []
    for shard, data in enumerate(capsules):
        listed = [data[at : at + 80] for at in range(0, len(data), 80)]
        digests = [capsule_digest(capsule) for capsule in listed]
        assert found[f"shard/1/{shard}"].endswith(b"".join(digests))
        tally = ShardTally.from_bytes(found[f"tally/1/{shard}"])
        assert tally.sub_tally == reader.sub_tally(listed)
        entries.append(shard_entry(digests, tally.sub_tally))
        assert opening.shards is not None
        merkle.check_inclusion(
            merkle.leaf_hash(entries[-1]), index=shard, size=count, proof=tally.path, root=opening.shards
        )
    assert shards_root(entries) == opening.shards
    store.close()


def test_unopened_round_has_no_file_and_its_capsules_are_gone_at_once(tmp_path: Path) -> None:
    store = MemoryStore()
    of = document(rounds=1)
    federation = begun(store, tmp_path, TwoRelays(of, lie=silent_about("mix_reveal")))
    asyncio.run(federation.go())
    assert json.loads(federation.public("status"))["rounds"][0]["state"] == "unopened"
    assert (shards_in(tmp_path, federation), store.batches()) == ({}, [])


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def opened(small: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TwoRelays, ManualClock]:
    """A store whose only round is opened and logged, and of which no file was written yet."""
    place = tmp_path_factory.mktemp("opened") / "store"
    store = SQLiteStore(place)
    federation = begun(store, None)
    asyncio.run(federation.go())
    store.close()
    return place, federation.relays, federation.clock


class MortalDisk:
    """A file system whose process dies at its n-th moment; from then on it does nothing any more."""

    CALLS: tuple[tuple[Any, str], ...] = (
        (Path, "open"), (Path, "replace"), (Path, "unlink"), (os, "fsync"), (shutil, "rmtree"),
    )  # fmt: skip

    def __init__(self, dies_at: int | None) -> None:
        self.moment, self.dies_at, self.dead = 0, dies_at, False

    @contextmanager
    def under(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            for owner, name in self.CALLS:
                patched.setattr(owner, name, self._mortal(name, getattr(owner, name)))
            yield

    def _mortal(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def mortal(*arguments: Any, **named: Any) -> Any:
            self.moment += 1
            if self.moment == self.dies_at:
                self._leave_half(name, arguments[0])
            if self.dies_at is not None and self.moment >= self.dies_at:
                raise Killed
            return call(*arguments, **named)

        return mortal

    @staticmethod
    def _leave_half(name: str, of: Any) -> None:
        """What was not durable yet is there by half; so is a folder that was being removed."""
        if name == "fsync" and stat.S_ISREG(os.fstat(of).st_mode):
            os.ftruncate(of, os.fstat(of).st_size // 2)
        if name == "rmtree":
            os.remove(next(Path(of).iterdir()))  # noqa: PTH107  (Path's own is mortal)


class Scene:
    """Processes one after the other on a copy of the opened store, and on one public folder."""

    def __init__(self, opened: tuple[Path, TwoRelays, ManualClock], folder: Path) -> None:
        place, self.relays, clock = opened
        self.clock, self.store, self.public = ManualClock(clock.now()), folder / "store", folder / "public"
        folder.mkdir()
        shutil.copy(place, self.store)

    def live(self, disk: MortalDisk | None = None, forgets_at: int | None = None) -> None:
        """A process until it has nothing to do, or is killed."""
        store = SQLiteStore(self.store)
        mortal: Any = Mortal(store, forgets_at, ("forget_batch",))
        federation = Federation(mortal, self.relays, self.clock, folder=self.public)
        try:
            with (MortalDisk(None) if disk is None else disk).under():
                asyncio.run(federation.driver.step())
        except Killed:
            pass
        finally:
            store.close()

    def shards(self) -> dict[str, bytes]:
        """Files that a static server shows."""
        found = shards_below(self.public, self.relays.document.digest)
        return {path: data for path, data in found.items() if not path.rpartition("/")[2].startswith(".")}


def test_killed_at_any_moment_of_writing_nothing_is_half_and_the_next_start_heals(
    opened: tuple[Path, TwoRelays, ManualClock], tmp_path: Path
) -> None:
    scene, disk = Scene(opened, tmp_path / "whole"), MortalDisk(None)
    scene.live(disk)
    whole = scene.shards()
    assert len(whole) > 10
    seen = set()
    for dies_at in range(1, disk.moment + 1, scaled(11, 1)):
        scene = Scene(opened, tmp_path / str(dies_at))
        scene.live(MortalDisk(dies_at))
        killed = scene.shards()
        assert killed.items() <= whole.items()
        seen.add(len(killed))
        scene.live()
        assert scene.shards() == whole
        assert not list(scene.public.rglob(".*")), "nothing is left beside"
    assert len(seen) > 4


def test_killed_at_any_moment_of_forgetting_the_next_start_goes_on_with_it(
    opened: tuple[Path, TwoRelays, ManualClock], tmp_path: Path
) -> None:
    # The index, and a folder of each of three kinds; and the store before and after it forgets.
    deaths: list[dict[str, Any]] = [
        *({"disk": MortalDisk(dies_at)} for dies_at in range(1, 5)),
        {"forgets_at": 1},
        {"forgets_at": 2},
    ]
    for number, death in enumerate(deaths):
        scene = Scene(opened, tmp_path / str(number))
        scene.live()
        assert scene.shards()
        scene.clock.advance((KEPT_DAYS + 1) * DAY_MS)
        scene.live(**death)
        assert scene.shards(), "it was killed before it was done"
        scene.live()
        assert scene.shards() == {}
        store = SQLiteStore(scene.store)
        assert store.batches() == []
        store.close()


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_full_disk_is_told_once_and_the_shards_come_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, lines, full = MemoryStore(), io.StringIO(), True
    federation = begun(store, None)
    asyncio.run(federation.go())

    def write(place: Path, data: bytes) -> None:
        if full:
            raise BadInputError(f"cannot write {place}: No space left on device")
        write_atomically(place, data)

    monkeypatch.setattr(shard_folder, "write_atomically", write)
    folder = ShardFolder(tmp_path, ShardFiles(store), Log(lines, federation.clock, "coordinator"))
    folder.want(store.batches(), [])
    assert [asyncio.run(folder.keep_up()) for _ in range(2)] == [False, False]
    assert files(tmp_path) == {}
    full = False
    assert asyncio.run(folder.keep_up())
    assert len(shards_in(tmp_path, federation)) > 10
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == [
        "shards-not-written",
        "shards-written-again",
    ]
