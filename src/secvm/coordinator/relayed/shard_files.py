"""Shards of an opened round in public, for whoever looks for a capsule or counts again (docs/protocol.md §31, §32).

    /v1/experiment/D/shards/T       the first 8 bytes of each shard's first digest, side by side: which shard to ask for
    /v1/experiment/D/shard/T/K      number of hashes, 1 byte ‖ path of the shard's root in the mixing relay's tree
                                    ‖ the digests of its capsules, ascending
    /v1/experiment/D/capsules/T/K   its inner capsules, in the order of the digests
    /v1/experiment/D/tally/T/K      number of hashes, 1 byte ‖ path of the shard's entry in the tree of shards
                                    ‖ its sub-tally

``ShardFiles`` makes them out of the batch, as long as it is kept: on request, and for the public folder. One piece of a
batch is in memory at a time.

``ShardFolder`` writes what is missing in the public folder, file by file, each whole or not at all, and removes what is
forgotten. It remembers nothing beyond this process: after a kill at any moment the next one looks again, and the store
has everything until the folder may have nothing. Rounds do not wait for it.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from secvm.coordinator.publisher import BYTES_MEDIA_TYPE, IsShown, decimal, experiment_path, opening_path
from secvm.coordinator.relayed.relayed_history import opening_name
from secvm.coordinator.relayed.run_counting import CountedShard, read_run
from secvm.coordinator.store.port import CoordinatorStore, find_blob
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.sealing.layers import INNER_BYTES
from secvm.crypto.signing import Envelope
from secvm.errors import BadInputError, MalformedMessageError
from secvm.files import write_atomically
from secvm.protocol.relays.batches import PIECE_CAPSULES, capsule_digest, cut, piece_count
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.shards import SHARD, write_index
from secvm.runtime.logs import SILENT, Log

#: The file of a round, and those of each of its shards.
INDEX, OF_SHARD = "shards", ("shard", "capsules", "tally")
_SHARDS_OF_PIECE = PIECE_CAPSULES // SHARD
#: Rounds whose trees are kept in memory.
_REMEMBERED = 4

#: A round, by its experiment's digest and its number.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Trees:
    """What the files of all shards of a round have in common: some hundred bytes a shard."""

    index: bytes
    #: Over the roots of the shards' digests: the mixing relay's tree.
    runs: Tree
    #: Over the shards' entries: what the opening names.
    entries: Tree


class ShardFiles:
    """Makes the files of shards. Any thread may ask."""

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        self._rounds: OrderedDict[Place, _Trees] = OrderedDict()
        self._lock = threading.Lock()
        #: The piece that was asked for last: the shards of a piece are asked for one after the other.
        self._piece: tuple[tuple[str, int, int], bytes] | None = None

    def find(self, path: str, is_shown: IsShown) -> tuple[bytes, str] | None:
        """What is at a path as above, and its media type; None for anything else."""
        match path.split("/"):
            case ["", "v1", "experiment", digest, "shards" as kind, number]:
                shard: int | None = 0
            case ["", "v1", "experiment", digest, "shard" | "capsules" | "tally" as kind, number, named]:
                shard = decimal(named)
            case _:
                return None
        round_number = decimal(number)
        if round_number is None or shard is None or not is_shown(opening_path(digest, round_number)):
            return None
        data = self.made((digest, round_number), kind, shard)
        return None if data is None else (data, BYTES_MEDIA_TYPE)

    def named(self, place: Place) -> Iterator[tuple[str, str, int]]:
        """All files of a round: path, kind and shard; none where it is unopened or forgotten."""
        trees, of_round = self._trees(place), experiment_path(place[0])
        if trees is not None:
            yield f"{of_round}/{INDEX}/{place[1]}", INDEX, 0
            for shard in range(trees.runs.size):
                for kind in OF_SHARD:
                    yield f"{of_round}/{kind}/{place[1]}/{shard}", kind, shard

    def made(self, place: Place, kind: str, shard: int) -> bytes | None:
        """The bytes of one file; None where there is none, or it is forgotten."""
        trees = self._trees(place)
        if trees is None or shard >= trees.runs.size:
            return None
        if kind == INDEX:
            return trees.index
        run, at = divmod(shard, _SHARDS_OF_PIECE)
        if kind == "tally":
            shards = self._run(place, run)
            return None if shards is None else _after(trees.entries.inclusion_proof(shard), shards[at].sub_tally)
        piece = self._piece_of(place, run)
        if piece is None:
            return None
        capsules = piece[at * SHARD * INNER_BYTES : (at + 1) * SHARD * INNER_BYTES]
        if kind == "capsules":
            return capsules
        digests = b"".join(capsule_digest(capsule) for capsule in cut(capsules, INNER_BYTES))
        return _after(trees.runs.inclusion_proof(shard), digests)

    def _piece_of(self, place: Place, index: int) -> bytes | None:
        name, known = (*place, index), self._piece
        if known is not None and known[0] == name:
            return known[1]
        piece = self._store.piece(*name)
        self._piece = None if piece is None else (name, piece)
        return piece

    def _run(self, place: Place, run: int) -> list[CountedShard] | None:
        """What a piece came to; None where that is not here."""
        result = self._store.run_result(*place, run)
        try:
            return None if result is None else read_run(result)
        except MalformedMessageError:
            return None

    def _trees(self, place: Place) -> _Trees | None:
        """None where the round is unopened or forgotten."""
        if self._store.batch(*place) is None:
            return None
        with self._lock:
            if place in self._rounds:
                self._rounds.move_to_end(place)
                return self._rounds[place]
        trees = self._plant(place)
        if trees is not None:
            with self._lock:
                self._rounds[place] = trees
                while len(self._rounds) > _REMEMBERED:
                    self._rounds.popitem(last=False)
        return trees

    def _plant(self, place: Place) -> _Trees | None:
        signed = find_blob(self._store, opening_name(*place))
        opening = None if signed is None else Opening.from_bytes(Envelope.from_bytes(signed).payload)
        if opening is None or not opening.is_opened or opening.mix_count is None:
            return None
        firsts, roots, entries = list[bytes](), list[bytes](), list[bytes]()
        for run in range(piece_count(MixCount.enclosed(opening.mix_count).capsules)):
            shards = self._run(place, run)
            if shards is None:
                return None
            firsts += [shard.first for shard in shards]
            roots += [shard.root for shard in shards]
            entries += [leaf_hash(shard.entry) for shard in shards]
        return _Trees(write_index(firsts), Tree(roots), Tree(entries))


def _after(path: tuple[bytes, ...], content: bytes) -> bytes:
    """A path and what it leads from, as both files with a path have it."""
    return bytes([len(path)]) + b"".join(path) + content


@dataclass(eq=False, repr=False)
class ShardFolder:
    """The shards in one public folder. Any thread may say what is wanted.

    Without a folder nothing is written: shards are answered out of the store.
    """

    folder: Path | None
    files: ShardFiles
    log: Log = SILENT

    def __post_init__(self) -> None:
        #: Which rounds' files shall be there, and which shall not; and what this process has seen to.
        self._wanted: dict[Place, bool] = {}
        self._done: dict[Place, bool] = {}
        self._lock = threading.Lock()
        self._one = asyncio.Lock()
        self._told = True

    def want(self, public: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """From now on these rounds' files belong in the folder, and of these others none."""
        if self.folder is not None:
            with self._lock:
                self._wanted |= dict.fromkeys(public, True) | dict.fromkeys(forgotten, False)

    async def keep_up(self) -> bool:
        """Bring the folder up to date. False: something could not be written, and is to be tried again."""
        async with self._one:
            while (place := self._next()) is not None:
                wanted = self._wanted[place]
                try:
                    await asyncio.to_thread(self._write if wanted else self._remove, place)
                except (BadInputError, OSError):
                    self._tell(is_whole=False)
                    return False
                self._done[place] = wanted
            self._tell(is_whole=True)
            return True

    def _next(self) -> Place | None:
        with self._lock:
            return next((place for place, wanted in self._wanted.items() if self._done.get(place) is not wanted), None)

    def _write(self, place: Place) -> None:
        for path, kind, shard in self.files.named(place):
            file = self._file(path)
            # What is there is whole, and never another.
            if file.is_file():
                continue
            data = self.files.made(place, kind, shard)
            if data is None:
                # Forgotten meanwhile.
                return
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, data)

    def _remove(self, place: Place) -> None:
        # The index first: without it nobody is led to the rest.
        self._file(f"{experiment_path(place[0])}/{INDEX}/{place[1]}").unlink(missing_ok=True)
        for kind in OF_SHARD:
            folder = self._file(f"{experiment_path(place[0])}/{kind}/{place[1]}")
            if folder.is_dir():
                shutil.rmtree(folder)

    def _file(self, path: str) -> Path:
        assert self.folder is not None, "nothing is wanted in no folder"
        return self.folder.joinpath(*path.strip("/").split("/"))

    def _tell(self, *, is_whole: bool) -> None:
        if is_whole is not self._told:
            self.log.tell("shards-written-again" if is_whole else "shards-not-written")
        self._told = is_whole
