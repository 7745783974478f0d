"""ShardFolder: shards of opened rounds as files of the public folder, written from the store and removed with it.

Showing says which rounds' shards are public and which are forgotten. What is missing in the folder is written, file by
file, each whole or not at all; what is forgotten is removed. Nothing of that is remembered beyond this process: after a
kill at any moment the next one looks again, and the store has everything until the folder may have nothing.

It is done beside everything else: hundreds of files are made durable, and no round waits for that.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from secvm.coordinator.publisher import experiment_path
from secvm.coordinator.relayed.shard_files import INDEX, OF_SHARD, Place, ShardFiles
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.runtime.logs import Log


class ShardFolder:
    """The shards in one public folder. Any thread may say what is wanted."""

    def __init__(self, folder: Path | None, files: ShardFiles, log: Log | None = None) -> None:
        """Without a folder nothing is written: shards are answered out of the store."""
        self._folder, self._files, self._log = folder, files, log
        #: Which rounds' files shall be there, and which shall not; and what this process has seen to.
        self._wanted: dict[Place, bool] = {}
        self._done: dict[Place, bool] = {}
        self._lock = threading.Lock()
        self._one = asyncio.Lock()
        self._told = True

    def want(self, public: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """From now on these rounds' files belong in the folder, and of these others none."""
        if self._folder is not None:
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
        for path, kind, shard in self._files.named(place):
            file = self._file(path)
            # What is there is whole, and never another.
            if file.is_file():
                continue
            data = self._files.made(place, kind, shard)
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
        assert self._folder is not None, "nothing is wanted in no folder"
        return self._folder.joinpath(*path.strip("/").split("/"))

    def _tell(self, *, is_whole: bool) -> None:
        if self._log is not None and is_whole is not self._told:
            self._log.tell("shards-written-again" if is_whole else "shards-not-written")
        self._told = is_whole
