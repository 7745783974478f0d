"""Witnesses small enough to read, and a coordinator whose rounds they see."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from secvm.coordinator.clock_check import ClockCheck
from secvm.coordinator.log.cosigning import Cosigner, WitnessAddress
from secvm.coordinator.log.log_files import EntryLog, LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.notes import Note, NoteKey
from secvm.errors import BadProofError, UnreachableError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import Checkpoint, check_growth, read_checkpoint
from secvm.protocol.log.proofs import CosigningRequest, write_cosignatures, write_size
from secvm.runtime.clock import Clock
from secvm.runtime.http.client import HttpClient
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import Coordinator, Crowd, crowd, experiment
from tests.unit.protocol.helpers import LOG, WITNESSES, log_terms

TERMS = log_terms()
KEYS = TERMS.witness_keys
Answer = tuple[int, bytes]


def logged(**changes: Any) -> ExperimentDocument:
    """An experiment that has a log."""
    return experiment(**{"log": TERMS, **changes})


class TinyWitness:
    """What c2sp.org/tlog-witness says, in memory. Its memory survives whoever asks."""

    def __init__(self, number: int, clock: Clock) -> None:
        self.key, self.note_key, self.clock = WITNESSES[number], KEYS[number], clock
        self.newest: dict[str, Checkpoint] = {}
        #: All that it ever cosigned.
        self.cosigned: list[Checkpoint] = []
        self.asked = 0
        #: Takes the place of its answers: away, or broken.
        self.instead: Callable[[bytes], Answer] | None = None

    def add_checkpoint(self, body: bytes) -> Answer:
        self.asked += 1
        if self.instead is not None:
            return self.instead(body)
        return self.honest(body)

    def honest(self, body: bytes) -> Answer:
        request = CosigningRequest.from_bytes(body)
        new = Checkpoint.from_text(Note.from_bytes(request.checkpoint).text)
        read_checkpoint(request.checkpoint, log=NoteKey(new.origin, LOG.public))
        old = self.newest.get(new.origin, Checkpoint(new.origin, 0, new.root))
        if request.old != old.size:
            return 409, write_size(old.size)
        try:
            if old.size:
                check_growth(old, new, request.path)
        except BadProofError:
            return 422, b""
        self.newest[new.origin] = new
        self.cosigned.append(new)
        return 200, write_cosignatures([self.line(new)])

    def line(self, of: Checkpoint) -> Any:
        return of.cosign(self.key, name=self.note_key.name, time_s=self.clock.now() // 1000)


def away(body: bytes) -> Answer:
    raise UnreachableError


def all_answer(witnesses: Sequence[TinyWitness], instead: Callable[[bytes], Answer] | None) -> None:
    """From now on these witnesses answer so; None: honestly."""
    for witness in witnesses:
        witness.instead = instead


class InProcess(Cosigner):
    """Asks witnesses without a network."""

    def __init__(self, witnesses: Sequence[TinyWitness], *given: Any, **named: Any) -> None:
        addresses = [WitnessAddress(witness.note_key, str(i)) for i, witness in enumerate(witnesses)]
        super().__init__(given[0], addresses, *given[1:], **named)
        self.people = witnesses

    async def _post(self, client: HttpClient, url: str, body: bytes) -> Answer:
        return self.people[int(url.partition("/")[0])].add_checkpoint(body)


class Logged(Coordinator):
    """A coordinator with a log, around a store that may have been somebody else's before."""

    def __init__(
        self,
        store: CoordinatorStore,
        clock: ManualClock,
        witnesses: Sequence[TinyWitness],
        folder: Path | None = None,
        *,
        sent: set[tuple[str, int]] | None = None,
        check: ClockCheck | None = None,
    ) -> None:
        self.logbook = Logbook(store, LOG, TERMS)
        if check is not None:
            self.logbook.on_time, check.on_doubt = check.hear, self.logbook.ask_anew

        def entries(publisher: Publisher) -> EntryLog:
            self.files = LogFiles(self.logbook, publisher)
            return EntryLog(self.files)

        super().__init__(store, clock, folder, sent=sent, entries=entries, check=check)
        self.cosigner = InProcess(witnesses, self.logbook, clock, wake=self.driver.wake)

    async def step(self, who: Crowd = crowd) -> int | None:
        """The driver, then witnesses, then the driver again with what they said, then everybody who sees a round."""
        await self.driver.step()
        await self.cosigner.ask_all()
        at = await self.driver.step()
        await self.cosigner.ask_all()
        at = await self.driver.step() or at
        self.everybody_sends(who)
        return at


@asynccontextmanager
async def serving(answer: Callable[[bytes], Answer], *, elsewhere: str = "") -> AsyncIterator[str]:
    """A witness behind a real socket; its submission prefix. ``elsewhere``: where redirects lead."""

    async def handle(request: web.Request) -> web.Response:
        assert (request.method, request.path) == ("POST", "/w/add-checkpoint")
        status, data = answer(await request.read())
        headers = {"location": elsewhere} if 300 <= status < 400 else {}
        return web.Response(status=status, body=data, headers=headers)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/w"
    finally:
        await runner.cleanup()
