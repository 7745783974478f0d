"""Cosigner: asks witnesses to cosign the log, once for all experiments (``add-checkpoint`` of c2sp.org/tlog-witness).

 1. Every witness has a task of its own: one that is slow, away or broken holds nobody up.
 2. A witness is asked when it has not cosigned the checkpoint that is asked about (``Logbook.asked_size``), or not
    since this process began, or when its cosignature grows old by the coordinator's clock: well before a third of
    ``freshness_s`` has passed.
 3. What it answers counts when the line is its own and fits the checkpoint (``Logbook.take``). Whatever else comes is a
    failure, counted and tried again later, in the machine's time: a clock that stands still stops no retries.
 4. A witness that has seen another size tells it (409) and is asked again, with a proof from there. If it has seen
    *more* than there is, or a proof from what it has seen does not convince it (422), then what it has seen is no
    beginning of this log. The log is halted, and nothing of it is signed here any more: somebody signed with its key
    before, and a second signature would make the fork.

Nobody waits for this. When there is a quorum, ``wake`` tells the driver.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any

from secvm.coordinator.log.logbook import Logbook
from secvm.crypto.notes import NoteKey
from secvm.errors import MalformedMessageError, RemoteProtocolError, UnreachableError
from secvm.protocol.log.proofs import CosigningRequest, read_cosignatures, read_size
from secvm.runtime.clock import Clock
from secvm.runtime.http.client import HttpClient
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import end_all

#: A few cosignature lines, or a size.
MAX_ANSWER_BYTES = 2**16
#: For one answer, all of it.
TIMEOUT_S = 10.0
#: After a failure, doubled with each further one.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
#: A witness that is asked again because it has seen another size may have seen a third one meanwhile.
_MOST_TRIES = 3
#: Of ``freshness_s``: when cosignatures are renewed. Before a third, so that there is time for failures.
_RENEWED_AFTER = 4


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    """A witness, and where it is asked."""

    #: Its name and key as they stand under checkpoints.
    key: NoteKey
    #: The submission prefix: ``/add-checkpoint`` comes after it.
    url: str


class _Outcome(enum.Enum):
    """What became of one request."""

    COSIGNED = "cosigned"
    #: It answered, but not with a cosignature of this log.
    REFUSED = "refused"
    #: It did not answer.
    AWAY = "away"


@dataclass(eq=False, repr=False)
class Cosigner:
    """Asks witnesses for cosignatures, so that every set of terms has a fresh quorum."""

    logbook: Logbook
    witnesses: InitVar[Sequence[WitnessAddress]]
    clock: Clock
    _: KW_ONLY
    wake: Callable[[], None]
    log: Log = SILENT
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))
    timeout_s: float = TIMEOUT_S
    first_pause_s: float = FIRST_PAUSE_S

    def __post_init__(self, witnesses: Sequence[WitnessAddress]) -> None:
        self._witnesses = tuple(witnesses)
        self._poked = [asyncio.Event() for _ in self._witnesses]
        #: The size that a witness has seen last, as far as is known.
        self._seen: dict[NoteKey, int] = {}
        names = {"witness": tuple(witness.key.name for witness in self._witnesses)}
        self._cosigned = self.metrics.counter("cosignatures", "Cosignatures that came and are right.", names)
        self._failed = self.metrics.counter("witness_failures", "Requests to witnesses that brought none.", names)
        self._entries = self.metrics.gauge("log_entries_cosigned", "Entries of the log that a quorum has cosigned.")
        self._waiting = self.metrics.gauge("log_waiting", "1 while the log waits for a quorum.")
        self._halted = self.metrics.gauge("log_halted", "1 when a witness has seen something else of the log.")
        self.logbook.on_growth = self.poke

    def poke(self) -> None:
        """Ask witnesses soon: there is something new."""
        self._measure()
        for poked in self._poked:
            poked.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Ask whenever something is due, until told to stop."""
        async with self._client() as client:
            await first_of(stop.wait(), *(self._attend(at, client) for at in range(len(self._witnesses))))

    async def ask_all(self) -> None:
        """Ask every witness about everything that is due, once."""
        async with self._client() as client:
            await asyncio.gather(*(self._pass(at, client) for at in range(len(self._witnesses))))

    def _client(self) -> HttpClient:
        return HttpClient(answer_s=self.timeout_s)

    # ── one witness ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _attend(self, at: int, client: HttpClient) -> None:
        pause_s = self.first_pause_s
        while True:
            self._poked[at].clear()
            well = await self._pass(at, client)
            waits: list[Awaitable[object]] = [self._poked[at].wait()]
            if well:
                pause_s = self.first_pause_s
            else:
                waits.append(asyncio.sleep(pause_s))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            next_at = self._due_at(at)
            # What is overdue has just failed: it waits for the machine's time, not for the clock's.
            if next_at is not None and next_at > self.clock.now():
                waits.append(self.clock.sleep_until(next_at))
            await first_of(*waits)

    async def _pass(self, at: int, client: HttpClient) -> bool:
        """Ask one witness what is due now; whether that went well."""
        due_at = self._due_at(at)
        if due_at is None or due_at > self.clock.now():
            return True
        size, outcome = self.logbook.asked_size, await self._ask(at, client)
        well = outcome is _Outcome.COSIGNED
        (self._cosigned if well else self._failed).add(1, witness=self._witnesses[at].key.name)
        if not well:
            self.log.tell("not-cosigned", witness=at, size=size, reason=outcome.value)
        self._measure()
        return well

    def _due_at(self, at: int) -> int | None:
        """When this witness is to be asked; once after each start, whatever is known. None: it is not needed."""
        logbook, key = self.logbook, self._witnesses[at].key
        counts_for = [terms.freshness_s for terms in logbook.active() if key in terms.witness_keys]
        if not counts_for:
            return None
        made = logbook.lines.get(key)
        if made is None or (logbook.was_there and key not in logbook.asked):
            return 0
        return made.at + 1000 * min(counts_for) // _RENEWED_AFTER

    async def _ask(self, at: int, client: HttpClient) -> _Outcome:
        witness, logbook = self._witnesses[at], self.logbook
        signed = logbook.checkpoint()
        size = signed.checkpoint.size
        old = min(self._seen.get(witness.key, logbook.most_cosigned), size)
        for _ in range(_MOST_TRIES):
            path = logbook.log.tree.consistency_proof(old, size)
            request = CosigningRequest(old, path, signed.data).to_bytes()
            try:
                status, data = await self._post(client, witness.url + "/add-checkpoint", request)
            except UnreachableError:
                return _Outcome.AWAY
            if status == 200:
                try:
                    self._take(size, witness.key, data)
                except RemoteProtocolError:
                    return _Outcome.REFUSED
                self._seen[witness.key] = size
                return _Outcome.COSIGNED
            size_seen = _size_told(data, old) if status == 409 else old
            # From nothing there is nothing to prove: who refuses that has cosigned nothing else. The last: until July
            # 2026 C2SP answered 409 to a second root of one size, with that size or without.
            if size_seen > size or (status == 422 and old > 0) or (status == 409 and size_seen == old == size):
                self._halt(at, size, size_seen)
                return _Outcome.REFUSED
            if size_seen == old:
                return _Outcome.REFUSED
            old = self._seen[witness.key] = size_seen
        return _Outcome.REFUSED

    def _take(self, size: int, witness: NoteKey, data: bytes) -> None:
        lines = [line for line in read_cosignatures(data) if (line.name, line.key_id) == (witness.name, witness.key_id)]
        if not lines:
            raise MalformedMessageError("a witness's answer has no line of its own")
        news = [self.logbook.take(size, witness, line, now=self.clock.now()) for line in lines]
        if any(news):
            self.wake()

    def _halt(self, at: int, size: int, size_seen: int) -> None:
        self.logbook.halt()
        # Whatever the reason, an old copy of the store or a key in other hands, a person has to look.
        self.log.tell("log-halted-witness-has-seen-another", witness=at, size=size, limit=size_seen)
        self.wake()

    async def _post(self, client: HttpClient, url: str, body: bytes) -> tuple[int, bytes]:
        headers = {"content-type": "application/octet-stream"}
        answer = await client.ask(url, most=MAX_ANSWER_BYTES, method="POST", headers=headers, body=body)
        if len(answer.content) > MAX_ANSWER_BYTES:
            raise UnreachableError(f"a witness answers more than {MAX_ANSWER_BYTES} bytes")
        return answer.status, answer.content

    def _measure(self) -> None:
        self._entries.set(self.logbook.most_cosigned)
        self._waiting.set(self.logbook.waiting())
        self._halted.set(self.logbook.halted)


def _size_told(data: bytes, asked: int) -> int:
    """The size in an answer 409; one that tells none says that it is not the one that was asked from."""
    try:
        return read_size(data)
    except RemoteProtocolError:
        return asked


async def first_of(*waits: Awaitable[Any]) -> None:
    """Return when the first is done, and end the others. Raises what the first raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # A cancellation that comes just now is not swallowed: nothing is caught here.
        await end_all(*tasks)
    for wait in done:
        wait.result()
