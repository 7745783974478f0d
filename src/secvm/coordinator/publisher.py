"""Publisher: what a coordinator shows to everyone (docs/protocol.md §19.2), as files and as answers.

 1. What the driver puts here is in the store already: nothing is seen before it is durable. After a crash the driver
    puts everything again, and what is missing or old in the folder is written.
 2. Files are replaced whole, what a document names before the document: a reader finds the old or the new, never half
    of one, never nothing.
 3. Answers come from memory, blobs from the store with a small cache; neither waits for the folder. What cannot be
    written, on a full disk say, is kept for the next flush.
 4. What is made when it is asked for (``further``: shards of an opened round) is answered; ``relayed.shard_folder``
    brings it into the folder. News of a round, made of the other files, are answered alone.

In the folder ``/v1/experiment/D`` is the file ``v1/experiment/D/index``, because ``D`` is a folder there too. Any
static server can serve it; deploy/ has an example.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.oblivious import KEYS_MEDIA_TYPE
from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm.protocol.canonical import digest_of
from secvm.protocol.relays.news import make_news, read_news_path
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import SILENT, Log

JSON_MEDIA_TYPE = "application/json"
#: Envelopes and blobs: bytes that only programs read.
BYTES_MEDIA_TYPE = "application/octet-stream"
#: What has its digest or number in its name never changes.
_FOR_EVER = "public, max-age=31536000, immutable"
#: What changes from round to round. A device that gets an old one for so long is still before the next opening.
_SHORT = "public, max-age=5"
#: Blobs kept in memory; those of the newest round are asked for by everybody.
_CACHE_BYTES = 2**26
#: Blobs that ``warm`` fetches: a tally, a state and two weights for each of two rounds.
_WARMED = 8

#: News kept in memory: those of a few experiments.
_MOST_NEWS = 64

#: Digits of a number in a path: rounds and shards have no more.
_LONGEST_NUMBER = 10

#: Whether a path is shown.
IsShown = Callable[[str], bool]
#: A path, and a way to ask whether another one is shown → what is there, and its media type.
Further = Callable[[str, IsShown], tuple[bytes, str] | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """One public file, in memory."""

    data: bytes
    media_type: str
    #: Whether its content can never be another.
    lasting: bool
    tag: str


def experiment_path(digest: str) -> str:
    """The path of an experiment's document."""
    return f"/v1/experiment/{digest}"


def manifest_path(digest: str, number: int | None) -> str:
    """Where the manifest of a round is; without a number, the newest."""
    return f"/v1/experiment/{digest}/manifest/{'latest' if number is None else number}"


def opening_path(digest: str, number: int) -> str:
    """Where the opening of a round with two relays is."""
    return f"/v1/experiment/{digest}/opening/{number}"


def blob_path(digest: str) -> str:
    """The path of a blob."""
    return f"/v1/blob/{digest}"


def decimal(text: str) -> int | None:
    """A number as paths have it: decimal, without zeros before it; None for any other text."""
    if not (0 < len(text) <= _LONGEST_NUMBER and text.isascii() and text.isdigit()):
        return None
    return None if text[0] == "0" and text != "0" else int(text)


def remove_unfinished(folder: Path) -> None:
    """Files that a process was writing when it was killed. In a container the next one has its number and its names."""
    for file in folder.rglob(".*.tmp"):
        file.unlink(missing_ok=True)


@dataclass(eq=False, repr=False)
class Publisher:
    """Shows what it is given. Put, then ``flush``. Any thread may put and ask; one at a time flushes.

    Without a folder it only answers. ``further`` finds what is too much to be put here.
    """

    store: CoordinatorStore
    folder: Path | None = None
    _: KW_ONLY
    further: Further | None = None
    log: Log = SILENT

    def __post_init__(self) -> None:
        #: Files that the last flush could not write; the next one tries again.
        self.unwritten = 0
        self._shown: dict[str, Shown] = {}
        self._blobs: set[str] = set()
        #: Experiments, by their kind.
        self._listed: dict[str, tuple[dict[str, object], ...]] = {}
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached_bytes = 0
        #: News by path, and what they were made of.
        self._news: OrderedDict[str, tuple[tuple[Shown | None, ...], Shown]] = OrderedDict()
        self._lock = threading.Lock()
        #: What is not in the folder yet, in order; blobs without their bytes.
        self._unwritten: list[tuple[str, bytes | None]] = []
        self._others: list[Callable[[str], bytes | None]] = []
        if self.folder is not None:
            remove_unfinished(self.folder)

    # ── what the driver tells ────────────────────────────────────────────────────────────────────────────────────────

    def put(self, path: str, data: bytes, *, media_type: str = BYTES_MEDIA_TYPE, lasting: bool = False) -> None:
        """Show these bytes at this path from now on."""
        before = self._shown.get(path)
        if before is not None and before.data == data:
            return
        with self._lock:
            self._shown[path] = Shown(data, media_type, lasting, f'"{digest_of(data)[:32]}"')
            self._unwritten.append((path, data))

    def put_keys(self, data: bytes) -> None:
        """Show the key configuration that devices seal fetches with."""
        self.put("/v1/keys", data, media_type=KEYS_MEDIA_TYPE)

    def put_json(self, path: str, data: bytes) -> None:
        """Something for people and programs, unsigned."""
        self.put(path, data, media_type=JSON_MEDIA_TYPE)

    def put_listing(self, kind: str, listed: Sequence[dict[str, object]]) -> None:
        """Show which experiments there are: those of this kind, beside those of others."""
        self._listed[kind] = tuple(listed)
        every = [listed for name in sorted(self._listed) for listed in self._listed[name]]
        content = json.dumps({"experiments": every}, separators=(",", ":"), ensure_ascii=False)
        self.put_json("/v1/experiments", content.encode())

    def put_blob(self, digest: str) -> None:
        """Show a blob of the store. What no public document names stays in the store."""
        if digest not in self._blobs:
            with self._lock:
                self._blobs.add(digest)
                self._unwritten.append((blob_path(digest), None))

    def answer_also(self, find: Callable[[str], bytes | None]) -> None:
        """Answer what ``find`` has at a path, too: bytes that never change, and need not be kept here."""
        self._others = [*self._others, find]

    def no_longer_answer(self, find: Callable[[str], bytes | None]) -> None:
        """Take back ``answer_also``."""
        self._others = [other for other in self._others if other != find]

    def write(self, path: str, data: bytes) -> None:
        """Put something into the folder alone, in its place among the others; whoever asks is answered otherwise."""
        if self.folder is not None:
            with self._lock:
                self._unwritten.append((path, data))

    async def flush(self) -> None:
        """Bring the folder up to date. Blobs go first, the newest version of a file alone is written.

        The first file that cannot be written ends the flush, because what comes later may name it. It is no error:
        everything is answered from memory, and the rest is kept (``unwritten``) for the next flush.
        """
        with self._lock:
            waiting, self._unwritten = self._unwritten, []
        if self.folder is None:
            return
        blobs = [(path, data) for path, data in waiting if data is None]
        newest = {path: data for path, data in waiting if data is not None}
        left = deque([*blobs, *newest.items()])
        try:
            while left:
                await self._write(*left[0])
                left.popleft()
        except (BadInputError, OSError):
            self._count_unwritten(len(left))
        else:
            self._count_unwritten(0)
        finally:
            # Also when a node's database went away, or its term ended: what it owes the folder it still does.
            with self._lock:
                self._unwritten = [*left, *self._unwritten]

    def _count_unwritten(self, left: int) -> None:
        if bool(left) is not bool(self.unwritten):
            self.log.tell("public-folder-not-written" if left else "public-folder-written-again", waiting=left)
        self.unwritten = left

    async def _write(self, path: str, data: bytes | None) -> None:
        """In a thread: disks and databases take their time, and packages arrive meanwhile. None: a blob."""
        assert self.folder is not None
        place = self._place(self.folder, path)

        def write() -> None:
            # A blob is known by its name.
            if place.is_file() and (data is None or place.read_bytes() == data):
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, self.store.blob(path.rpartition("/")[2]) if data is None else data)

        await asyncio.to_thread(write)

    @staticmethod
    def _place(folder: Path, path: str) -> Path:
        parts = path.strip("/").split("/")
        return folder.joinpath(*parts, "index") if parts[:-1] == ["v1", "experiment"] else folder.joinpath(*parts)

    # ── what everybody asks ──────────────────────────────────────────────────────────────────────────────────────────

    def public(self, path: str) -> tuple[bytes, str] | None:
        """The content at a path and its media type; None where nothing is public."""
        shown = self._find(path)
        return None if shown is None else (shown.data, shown.media_type)

    def is_shown(self, path: str) -> bool:
        """Whether something was put at this path. Any thread may ask."""
        return path in self._shown

    def at_hand(self, path: str) -> bool:
        """Whether this is answered out of memory, without asking the store."""
        return path in self._shown or path.removeprefix("/v1/blob/") in self._cache

    def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a plain GET or HEAD."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(405, headers=(("allow", "GET, HEAD"),))
        shown = self._find(request.path)
        if shown is None:
            return HttpResponse(404, b"there is nothing here\n", "text/plain", (("cache-control", "no-store"),))
        headers = (("cache-control", _FOR_EVER if shown.lasting else _SHORT), ("etag", shown.tag))
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if shown.tag in known or "*" in known:
            return HttpResponse(304, headers=headers)
        # To a HEAD the server sends no content, but tells the length of this one.
        return HttpResponse(200, shown.data, shown.media_type, headers)

    def _find(self, path: str) -> Shown | None:
        digest = path.removeprefix("/v1/blob/")
        if digest != path:
            return Shown(self._blob(digest), BYTES_MEDIA_TYPE, True, f'"{digest}"') if digest in self._blobs else None
        if path in self._shown:
            return self._shown[path]
        asked = read_news_path(path)
        if asked is not None:
            return self._find_news(path, *asked)
        for find in self._others:
            data = find(path)
            if data is not None:
                return Shown(data, BYTES_MEDIA_TYPE, True, f'"{digest_of(data)[:32]}"')
        if self.further is not None:
            made = self.further(path, self.is_shown)
            # Not lasting: it is forgotten one day, and caches should forget it too.
            return None if made is None else Shown(*made, False, f'"{digest_of(made[0])[:32]}"')
        return None

    def _find_news(self, path: str, experiment: str, number: int) -> Shown | None:
        """News are made once for each manifest and checkpoint."""
        place = experiment_path(experiment)
        names = (self._shown.get(f"{place}/manifest/latest"), self._shown.get(f"{place}/checkpoint"))
        known = self._news.get(path)
        if known is None or known[0] != names:
            made = make_news(self._content, experiment, number)
            if made is None:
                return None
            data = made.to_bytes()
            known = names, Shown(data, BYTES_MEDIA_TYPE, False, f'"{digest_of(data)[:32]}"')
            while len(self._news) >= _MOST_NEWS:
                self._news.popitem(last=False)
            self._news[path] = known
        return known[1]

    def _content(self, path: str) -> bytes | None:
        shown = self._find(path)
        return None if shown is None else shown.data

    def _blob(self, digest: str) -> bytes:
        data = self._cache.get(digest)
        if data is None:
            # Without the lock: a database over the network takes its time.
            data = self.store.blob(digest)
        with self._lock:
            if digest not in self._cache:
                self._cached_bytes += len(data)
            self._cache[digest] = data
            self._cache.move_to_end(digest)
            while self._cached_bytes > _CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return data

    def warm(self) -> None:
        """Have the newest blobs in memory, those of a round or two, before everybody asks for them. Blocks."""
        with self._lock:
            newest = [path for path, data in self._unwritten if data is None][-_WARMED:]
        for path in newest:
            self._blob(path.rpartition("/")[2])
