"""A coordinator and witnesses that can be killed at any point, with a network between them that loses and delays.

Everything inside is real: driver, logbook, cosigner, salting, publisher and store of the coordinator; doors, decision
and store of the witnesses; both on SQLite files. Only sockets are missing. Killed means: the files are copied as they
are at that instant, nothing that the dead process still does reaches anything, and the next one starts from the copy.
"""

import asyncio
import contextlib
import hashlib
import io
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from secvm.coordinator.experiments.operator_routes import PREFIX, Admin
from secvm.coordinator.log.beacon_records import Salting
from secvm.coordinator.log.cosigning import Cosigner, WitnessAddress
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.crypto.notes import Note
from secvm.errors import StoreError, UnreachableError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from secvm.runtime.http.client import HttpClient
from secvm.runtime.http.server import Request, Response
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from secvm.witness.decision import Decision, KnownLog, Logs, Question
from secvm.witness.server import SUBMIT_PATH, Doors
from secvm.witness.store import WitnessStore
from tests.unit.coordinator.rounds import GRID, dice
from tests.unit.coordinator.witnesses import KEYS, TERMS, Answer, Logged
from tests.unit.protocol.helpers import COORDINATOR, LOG, WITNESSES

ADMIN_KEY = "admin"


class KilledError(Exception):
    """The end of a process."""


class Files:
    """A folder of SQLite files, which survives as it is when whoever has them open is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lives = folder, 0
        self.now.mkdir(parents=True)

    @property
    def now(self) -> Path:
        return self._folder / str(self._lives)

    def survive(self) -> None:
        """From now on there is a copy, and nobody has it open. What SQLite keeps in shared memory is no file."""
        before = self.now
        self._lives += 1
        shutil.copytree(before, self.now, ignore=shutil.ignore_patterns("*-shm"))


class Process:
    """Passes points, and dies at one of them. Whatever it tries afterwards fails."""

    def __init__(self, files: Files) -> None:
        self._files = files
        #: Dies at the k-th point from now; 0: at none.
        self.left = 0
        self.dead = False

    def kill(self) -> None:
        if not self.dead:
            self.dead = True
            self._files.survive()

    def point(self) -> None:
        """Here it may die."""
        self.left -= 1
        if self.left == 0:
            self.kill()
        if self.dead:
            raise KilledError


class MortalStore:
    """A store before each of whose calls the process may die. After a call is before the next one."""

    def __init__(self, inside: SQLiteStore, process: Process) -> None:
        self._inside, self._process = inside, process

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inside, name)

        def call(*given: Any, **named: Any) -> Any:
            self._process.point()
            return method(*given, **named)

        return call


# ── witnesses ────────────────────────────────────────────────────────────────────────────────────────────────────────


class MortalWitness:
    """A witness: its doors and its store."""

    #: What it keeps its memory with.
    store_class = WitnessStore

    def __init__(self, number: int, folder: Path, clock: ManualClock) -> None:
        self.number, self.clock = number, clock
        self._files = Files(folder)
        WitnessStore.create(self._files.now / "store.db")
        #: "before" or "after": it dies with its next commit.
        self.doom: str | None = None
        #: All under which it gave its name to somebody.
        self.told: list[Checkpoint] = []
        self._begin()

    def _begin(self) -> None:
        self.store = self.store_class(self._files.now / "store.db")
        self.dead = False
        # Its store, and what may happen at a commit.
        store: Any = self
        self._doors = Doors(
            store,
            Logs([KnownLog.of_coordinator(TERMS.name, LOG.public)]),
            name=KEYS[self.number].name,
            key=WITNESSES[self.number],
            clock=self.clock,
            log=Log(io.StringIO(), self.clock, "witness"),
            metrics=Metrics("witness"),
            waiting=100,
            retry_after_s=1,
        )

    def answer(self, questions: Sequence[Question], *, time_s: int) -> list[Decision]:
        """As its doors ask its store."""
        doom, self.doom = self.doom, None
        if doom == "before":
            self._die()
        decided = self.store.answer(questions, time_s=time_s)
        if doom == "after":
            self._die()
        return decided

    def seen(self) -> list[tuple[Checkpoint, int]]:
        """As its doors ask its store when they are opened."""
        return self.store.seen()

    def _die(self) -> None:
        self.kill()
        raise StoreError("the witness was killed")

    def kill(self) -> None:
        if not self.dead:
            self.dead = True
            self._files.survive()

    async def submit(self, body: bytes) -> Answer:
        """What comes back over a network. Whoever is dead says nothing."""
        if self.dead:
            raise UnreachableError
        response = self._doors.handle(Request("POST", SUBMIT_PATH, "", {}, body, "nobody"))
        response = await response if isinstance(response, Awaitable) else response
        assert isinstance(response, Response)
        if self.dead:
            raise UnreachableError
        if response.status == 200:
            self.told.append(Checkpoint.from_text(Note.from_bytes(CosigningRequest.from_bytes(body).checkpoint).text))
        return response.status, response.body

    async def revive(self) -> None:
        """Start again from its file; if it lives, it is killed first."""
        self.kill()
        await self.close()
        self._begin()

    async def close(self) -> None:
        await self._doors.close()
        self.store.close()


class Network:
    """Carries requests to witnesses, and answers back: at once, late, half way, or not at all."""

    def __init__(self, witnesses: Sequence[MortalWitness]) -> None:
        self.witnesses = witnesses
        self.away: set[int] = set()
        #: How the next request to a witness fares: "lost", "late request" or "late answer".
        self.fate: dict[int, str] = {}
        #: What is still on its way.
        self.held: list[asyncio.Event] = []
        self.holding = asyncio.Event()

    async def carry(self, at: int, body: bytes) -> Answer:
        fate = self.fate.pop(at, "")
        if at in self.away:
            raise UnreachableError
        if fate == "late request":
            await self._hold()
        answer = await self.witnesses[at].submit(body)
        if fate == "lost":
            raise UnreachableError
        if fate == "late answer":
            await self._hold()
        return answer

    async def _hold(self) -> None:
        self.held.append(asyncio.Event())
        self.holding.set()
        await self.held[-1].wait()


# ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────────


class Asking(Cosigner):
    """Asks witnesses over that network."""

    def __init__(self, network: Network, process: Process, *given: Any, **named: Any) -> None:
        addresses = [WitnessAddress(key, str(at)) for at, key in enumerate(KEYS)]
        super().__init__(given[0], addresses, *given[1:], **named)
        self._network, self._process = network, process

    async def ask(self, at: int) -> None:
        """One witness about everything that is due."""
        async with self._client() as client:
            await self._pass(at, client)

    async def _post(self, client: HttpClient, url: str, body: bytes) -> Answer:
        self._process.point()
        answer = await self._network.carry(int(url.partition("/")[0]), body)
        self._process.point()
        return answer


class MortalCoordinator(Logged):
    """One life of a coordinator."""

    def __init__(
        self, files: Files, clock: ManualClock, network: Network, public: Path, sent: set[tuple[str, int]]
    ) -> None:
        self.process, self.inside = Process(files), SQLiteStore(files.now / "store.db")
        mortal: Any = MortalStore(self.inside, self.process)
        super().__init__(mortal, clock, (), public, sent=sent)
        # People's packages do not come from its own hand: no point of its life.
        self.ingest.store = self.inside
        self.asking = Asking(network, self.process, self.logbook, clock, wake=self.driver.wake)
        self.salting = Salting(
            store=mortal, source=LocalUnsafeBeacon(), clock=clock, logbook=self.logbook, wake=self.driver.wake
        )
        self._admin = Admin(
            store=mortal,
            key=COORDINATOR,
            admin_sha256=hashlib.sha256(ADMIN_KEY.encode()).digest(),
            grid=GRID,
            clock=clock,
            dice=dice,
            wake=self.driver.wake,
            log=TERMS,
        )
        self._network = network
        #: A conversation with each witness, one at a time.
        self.passes: dict[int, asyncio.Task[None]] = {}
        self.ingest.finish = self._mortal(self.ingest.finish)  # type: ignore[method-assign]
        self.publisher._write = self._mortal(self.publisher._write)  # type: ignore[method-assign]

    def _mortal(self, act: Callable[..., Awaitable[None]]) -> Any:
        async def acting(*given: Any, **named: Any) -> None:
            self.process.point()
            await act(*given, **named)
            self.process.point()

        return acting

    def operate(self, action: str, digest: str) -> int:
        """What the operator says; the answer's status."""
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        return self._admin.handle(Request("POST", f"{PREFIX}/{digest}/{action}", "", headers, b"", "nobody")).status

    async def ask(self, at: int) -> None:
        """Ask a witness; return when it is done, or something is on its way for long."""
        if at in self.passes and not self.passes[at].done():
            return
        task = self.passes[at] = asyncio.create_task(self.asking.ask(at))
        self._network.holding.clear()
        held = asyncio.create_task(self._network.holding.wait())
        await asyncio.wait([task, held], return_when=asyncio.FIRST_COMPLETED)
        held.cancel()
        if task.done():
            task.result()

    async def settle(self) -> None:
        """Return when no conversation goes on any more: nothing may be held."""
        for task in self.passes.values():
            with contextlib.suppress(KilledError):
                await task
        self.passes = {}
