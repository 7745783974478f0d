"""Watcher: looks at a coordinator every second, keeps what it read, and tells the hub what has changed.

A look that fails changes nothing of what is known; the page says since when, and why, and goes on looking. What cannot
be used of one experiment is that experiment's problem and nobody else's; it is asked for again a little later.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, TypeVar

import orjson

from secvm.dashboard import view
from secvm.dashboard.coordinator_client import Reader
from secvm.dashboard.events import Hub
from secvm.dashboard.live import Live, totals
from secvm.dashboard.public_status import (
    OVER,
    ExperimentListing,
    ExperimentStatus,
    Health,
    read_health,
    read_list,
    read_metrics,
)
from secvm.dashboard.view import has_guarantee, nights
from secvm.dashboard.watched_log import CHECKPOINT, MOST_CHECKPOINT_BYTES, WatchedLog, checkpoint_path, witnesses
from secvm.errors import RemoteProtocolError, SecVMError, UnreachableError
from secvm.protocol.documents.experiment import MAX_DOCUMENT_BYTES, ExperimentDocument, read_published
from secvm.runtime.clock import Clock
from secvm.runtime.service import any_of

MOST_LIST_BYTES = 2**24
#: Ten thousand rounds with two labels are a tenth of it.
MOST_STATUS_BYTES = 2**27
MOST_HEALTH_BYTES = 2**16
MOST_METRICS_BYTES = 2**20
#: From here on a status is read in a thread: others shall not wait for it.
_LARGE_BYTES = 2**18
#: What could not be used is not asked for again before.
_AGAIN_MS = 10_000
#: Without changes.
_QUIET_MS = 5000
_ROUNDS_IN_EVENT = 1000


@dataclass
class Known:
    """What is known of one experiment."""

    listed: ExperimentListing
    document: ExperimentDocument | None = None
    status: ExperimentStatus | None = None
    log: WatchedLog | None = None
    problem: str | None = None
    #: Not before this instant of the machine is it asked for again.
    again_at: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing of it will change any more."""
        status = self.status
        return status is not None and status.standing in OVER and status.standing == self.listed.standing


class Watcher:
    """One coordinator, watched."""

    def __init__(
        self,
        reader: Reader,
        hub: Hub,
        *,
        clock: Clock,
        steady: Clock,
        zone: tzinfo = UTC,
        poll_s: float = 1.0,
        audit: Callable[[], dict[str, Any]] | None = None,
        audit_every_s: float = 600.0,
    ) -> None:
        """``clock``: the coordinator's and the page's time; ``steady``: the machine's, which nobody steers.
        ``zone``: where nights are shaded. ``audit`` takes its time, and is called in a thread; None: there is none.
        """
        self._reader, self._hub, self._clock, self._steady = reader, hub, clock, steady
        self._zone = zone
        self._poll_ms = int(1000 * poll_s)
        self._audit, self._audit_every_ms = audit, int(1000 * audit_every_s)
        self._known: dict[str, Known] = {}
        self._left_out = 0
        self._problem: str | None = "the coordinator has not been asked yet"
        self._since = clock.now()
        self._reachable = False
        self._health: Health | None = None
        self._live = Live()
        self._whole: WatchedLog | None = None
        self._audited: dict[str, Any] | None = None
        self._poked = asyncio.Event()
        #: What was told last, and when.
        self._last_told = b""
        self._last_told_at = 0

    def poke(self) -> None:
        """Look again at once: something has been changed from here."""
        self._poked.set()

    def known(self, digest: str) -> Known | None:
        """What is known of an experiment."""
        return self._known.get(digest)

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop."""
        auditing = asyncio.ensure_future(self._run_audits())
        try:
            while not stop.is_set():
                begun = self._steady.now()
                self._poked.clear()
                await self.look()
                await any_of(stop.wait(), self._poked.wait(), self._steady.sleep_until(begun + self._poll_ms))
        finally:
            auditing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await auditing

    async def look(self) -> None:
        """One look at everything, and what has changed is told."""
        try:
            await self._look_at_list()
            looks = (self._look_at(known) for known in self._known.values())
            for fault in await asyncio.gather(*looks, return_exceptions=True):
                if fault is not None:
                    raise fault
            await self._look_at_server()
            problem = None
        except (UnreachableError, RemoteProtocolError) as fault:
            self._live.away()
            problem = str(fault)
        if problem != self._problem:
            self._problem, self._reachable, self._since = problem, problem is None, self._clock.now()
        self._tell_now()

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look_at_list(self) -> None:
        path = "/v1/experiments"
        try:
            data = await self._reader.changed(path, most=MOST_LIST_BYTES)
            if data is None:
                return
            listed, self._left_out = read_list(data)
        except FileNotFoundError:
            raise UnreachableError("there is no coordinator at this address") from None
        except RemoteProtocolError:
            self._reader.forget(path)
            raise
        before, self._known = self._known, {}
        for experiment in listed:
            known = before.get(experiment.digest) or Known(experiment)
            known.listed = experiment
            self._known[experiment.digest] = known

    async def _look_at(self, known: Known) -> None:
        if known.settled or self._steady.now() < known.again_at:
            return
        digest = known.listed.digest
        path = f"/v1/experiment/{digest}"
        facts = _facts(known)
        first = known.status is None
        try:
            if known.document is None:
                known.document = await self._document(path, digest)
            await self._look_at_status(known, f"{path}/status")
            await self._look_at_log(known)
            known.problem = None
        except FileNotFoundError:
            known.problem = "the coordinator lists this experiment and does not show it"
        except (RemoteProtocolError, ArithmeticError, ValueError) as fault:
            self._reader.forget(f"{path}/status")
            # Of what nobody has thought of only this much is said.
            why = str(fault) if isinstance(fault, SecVMError) else "its numbers make no sense"
            known.problem = f"what is served of this experiment cannot be used: {why}"
            known.again_at = self._steady.now() + _AGAIN_MS
        if first or _facts(known) != facts:
            self._hub.tell("experiment", {"digest": digest})

    async def _document(self, path: str, digest: str) -> ExperimentDocument:
        self._reader.forget(path)
        data = await self._reader.changed(path, most=2 * MAX_DOCUMENT_BYTES)
        assert data is not None
        # A document may ask for much computing before it is known to be one.
        return await in_background(lambda: read_published(data, digest=digest))

    async def _look_at_status(self, known: Known, path: str) -> None:
        data = await self._reader.changed(path, most=MOST_STATUS_BYTES)
        if data is None:
            return
        digest, before, document = known.listed.digest, known.status, known.document

        def read() -> ExperimentStatus:
            status = ExperimentStatus.read(data, digest=digest, before=before)
            if document is not None and status.labels != document.experiment.labels:
                raise RemoteProtocolError("its status has other labels than its document")
            if document is not None and status.leakage.formal_guarantee != has_guarantee(document):
                raise RemoteProtocolError("its status claims another guarantee than its document gives")
            return status

        status = await in_background(read) if len(data) > _LARGE_BYTES else read()
        known.status = status
        if before is None:
            # Whoever shows it reads all of it.
            return
        for first in range(0, len(status.changed), _ROUNDS_IN_EVENT):
            numbers = status.changed[first : first + _ROUNDS_IN_EVENT]
            self._hub.tell("rounds", {"digest": digest, **self.rounds(known, numbers)})

    async def _look_at_log(self, known: Known) -> None:
        document = known.document
        if document is None or document.log is None:
            return
        path = checkpoint_path(known.listed.digest)
        known.log = await self._checkpoint(path, document, known.log)

    async def _checkpoint(
        self, path: str, document: ExperimentDocument, before: WatchedLog | None
    ) -> WatchedLog | None:
        assert document.log is not None
        try:
            data = await self._reader.changed(path, most=MOST_CHECKPOINT_BYTES)
            return before if data is None else WatchedLog.read(data, terms=document.log)
        except FileNotFoundError:
            return None
        except RemoteProtocolError:
            self._reader.forget(path)
            raise

    async def _look_at_server(self) -> None:
        try:
            health = await self._reader.changed("/health", most=MOST_HEALTH_BYTES)
            metrics = await self._reader.changed("/metrics", most=MOST_METRICS_BYTES)
        except FileNotFoundError:
            # Behind a proxy that shows the public files alone: there are no live figures then.
            self._health = None
            self._reader.forget("/health")
            self._live.away()
        else:
            # None: as it was.
            self._health = self._health if health is None else read_health(health)
            figures = read_metrics(metrics or b"")
            self._live.look(figures, steady=self._steady.now(), now=self._clock.now())
        self._live.rounds(self._running())
        logged = next((known.document for known in self._known.values() if known.document and known.document.log), None)
        if logged is not None:
            self._whole = await self._checkpoint(CHECKPOINT, logged, self._whole)

    def _running(self) -> list[tuple[str, Any]]:
        running = [
            (digest, view.running_round(known.status))
            for digest, known in self._known.items()
            if known.status is not None
        ]
        return [(digest, round_) for digest, round_ in running if round_ is not None]

    # ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> dict[str, Any]:
        """What ``/api/now`` answers."""
        return {
            "now": self._clock.now(),
            "coordinator": {
                "url": self._reader.url,
                "reachable": self._reachable,
                "since": self._since,
                "problem": self._problem,
                "left_out": self._left_out,
            },
            "experiments": [self.summary(known) for known in self._known.values()],
            "server": self._server(),
        }

    def summary(self, known: Known) -> dict[str, Any]:
        """One experiment in a few numbers."""
        live = None
        if known.status is not None and known.document is not None:
            running = view.running_round(known.status)
            if running is not None:
                live = self._live.round_so_far(known.document, running, self._running())
        return view.summary(known.listed, known.document, known.status, live=live, problem=known.problem)

    def rounds(self, known: Known, numbers: Sequence[int]) -> dict[str, Any]:
        """These rounds of an experiment, and the nights among them."""
        status, document = known.status, known.document
        assert status is not None
        assert document is not None
        shown = [status.rounds[number - 1] for number in numbers]
        return {
            "total": len(status.rounds),
            "columns": view.columns(status, numbers),
            "nights": nights(document.windows, shown, zone=self._zone),
        }

    def _server(self) -> dict[str, Any]:
        health = self._health
        seen = [known.log for known in self._known.values() if known.log is not None]
        silent = [] if health is None or health.log is None else health.log.silent
        return {
            **self._live.rates(),
            **totals(self._live.figures),
            "node": None if health is None or health.node is None else health.node.model_dump(),
            "logs": None if health is None or health.log is None else health.log.model_dump(),
            "log": None if self._whole is None else self._whole.content(),
            "lost": [] if health is None else [alarm.model_dump() for alarm in health.lost],
            "witnesses": witnesses(seen, own=self._whole, silent=silent, now=self._clock.now()),
            "audit": self._audited,
        }

    def _tell_now(self) -> None:
        content, steady = self.now(), self._steady.now()
        now = content.pop("now")
        data = orjson.dumps(content)
        changed = data != self._last_told or bool(self._running())
        if changed or steady - self._last_told_at >= _QUIET_MS:
            self._last_told, self._last_told_at = data, steady
            self._hub.mention("now", orjson.dumps({"now": now, **content}))

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run_audits(self) -> None:
        while self._audit is not None:
            begun = self._steady.now()
            try:
                report = await in_background(self._audit)
            except Exception:  # noqa: BLE001  (whatever it is: the page goes on, and says that there is no audit)
                report = {"ok": None, "faults": [], "warnings": [], "problem": "the audit could not be made"}
            self._audited = {"at": self._clock.now(), **report, "seconds": (self._steady.now() - begun) / 1000}
            if self._audit_every_ms <= 0:
                return
            await self._steady.sleep_until(self._steady.now() + self._audit_every_ms)


def _facts(known: Known) -> tuple[object, ...]:
    status = known.status
    size = None if known.log is None else known.log.signed.checkpoint.size
    return known.listed.standing, known.problem, size, None if status is None else status.facts()


T = TypeVar("T")


async def in_background(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises. Who stops waiting lets it run on, unheard."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, fault: BaseException | None) -> None:
        if done.cancelled():
            return
        if fault is None:
            done.set_result(result)  # type: ignore[arg-type]  # None is T where work returns None
        else:
            done.set_exception(fault)

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  (handed to whoever waits)
            fault = error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, daemon=True, name="background").start()
    return await done
