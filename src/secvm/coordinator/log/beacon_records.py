"""Salts that nobody chose: fetch the records of the beacons that experiments name, and see that all is in order.

 1. An experiment that names beacons is logged first. If the first checkpoint that a quorum cosigned is not older than
    every one of its beacons' instants, somebody could have known the salt: the experiment is stopped.
 2. When a beacon's time has come its record is fetched, **verified**, and stored; from then on everybody is served it.
 3. Round 1 is announced when all records are there (``has_salt``).

The salt itself is computed by devices and auditors; nothing in a coordinator needs it. Failures are tried again in the
machine's time. Where an instant stands in the record alone (NIST's), the beacon is asked until it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from secvm.coordinator.log.cosigning import FIRST_PAUSE_S, LONGEST_PAUSE_S, first_of
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.beacons.nist_pulse import PINS
from secvm.crypto.beacons.records import BeaconOutput
from secvm.crypto.beacons.sources import BeaconSource, round_time, verify_beacon
from secvm.errors import BadBeaconError, BeaconUnavailableError
from secvm.protocol.documents.experiment import Beacon, ExperimentDocument, HashedBins
from secvm.runtime.clock import Clock
from secvm.runtime.logs import SILENT, Log


def beacons_of(document: ExperimentDocument) -> tuple[Beacon, ...]:
    """The beacons that fix an experiment's salt; none where it stands in it."""
    return document.binning.beacons if isinstance(document.binning, HashedBins) else ()


def has_salt(store: CoordinatorStore, document: ExperimentDocument) -> bool:
    """Whether everything is known that an experiment's bins follow from."""
    named = beacons_of(document)
    return not named or len(store.beacons(document.digest)) == len(named)


@dataclass(eq=False, repr=False, kw_only=True)
class BeaconKeeper:
    """Waits for beacons.

    ``wake`` tells the driver that all records of an experiment are there, or that it is stopped.
    """

    store: CoordinatorStore
    source: BeaconSource
    clock: Clock
    logbook: Logbook
    wake: Callable[[], None]
    log: Log = SILENT
    pins: AbstractSet[str] = PINS
    first_pause_s: float = FIRST_PAUSE_S

    def __post_init__(self) -> None:
        self._poked = asyncio.Event()
        #: Experiments that need nothing more from here.
        self._done: set[str] = set()

    def poke(self) -> None:
        """An experiment is new, or its log is further."""
        self._poked.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch whenever a beacon's time has come, until told to stop."""
        pause_s = self.first_pause_s
        while not stop.is_set():
            self._poked.clear()
            failed, next_at = await self.step()
            waits: list[Awaitable[object]] = [stop.wait(), self._poked.wait()]
            if failed:
                waits.append(asyncio.sleep(pause_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else self.first_pause_s
            if next_at is not None:
                waits.append(self.clock.sleep_until(next_at))
            await first_of(*waits)

    async def step(self) -> tuple[bool, int | None]:
        """Do all that is due; whether something failed, and the instant at which more will be due."""
        failed, instants = False, []
        for document in self._waiting():
            one_failed, at = await self._attend(document)
            failed = failed or one_failed
            if at is not None:
                instants.append(at)
        return failed, min(instants, default=None)

    def _waiting(self) -> list[ExperimentDocument]:
        waiting = []
        for stored in self.store.experiments():
            if stored.digest in self._done:
                continue
            document = stored.document
            if stored.standing in (Standing.STOPPED, Standing.FINISHED) or has_salt(self.store, document):
                self._done.add(stored.digest)
            else:
                waiting.append(document)
        return waiting

    async def _attend(self, document: ExperimentDocument) -> tuple[bool, int | None]:
        digest, named, now = document.digest, beacons_of(document), self.clock.now()
        times = [round_time(beacon.chain, beacon.round_number) for beacon in named]
        known = [at for at in times if at is not None]
        if not self.logbook.knows(digest):
            # So new that nobody has looked at it yet; whoever does pokes.
            return False, None
        seen = self.logbook.first_seen(digest)
        # (1)
        if seen is None:
            if any(at <= now for at in known):
                self._stop(digest)
            # Nothing is fetched before it is logged: what nobody here knows, nobody here can have used.
            return False, min((at for at in known if at > now), default=None)
        if any(at <= seen for at in known):
            self._stop(digest)
            return False, None
        # (2)
        there = self.store.beacons(digest)
        failed = False
        for index, (beacon, at) in enumerate(zip(named, times, strict=True)):
            if index in there or (at is not None and at > now):
                continue
            try:
                record, output = await asyncio.to_thread(self._fetch, beacon, document.test)
            except (BeaconUnavailableError, BadBeaconError) as fault:
                failed = True
                self._tell("beacon-failed", digest, "away" if isinstance(fault, BeaconUnavailableError) else "bad")
                continue
            if output.at <= seen:
                self._stop(digest)
                return False, None
            self.store.keep_beacon(digest, index, record)
            self._tell("beacon-kept", digest)
        # (3) What is kept already is public, even while others are waited for.
        if len(self.store.beacons(digest)) > len(there):
            self.wake()
        return failed, min((at for at in known if at > now), default=None)

    def _fetch(self, beacon: Beacon, test: bool) -> tuple[bytes, BeaconOutput]:
        record = self.source.fetch(beacon.chain, beacon.round_number)
        output = verify_beacon(beacon.chain, beacon.round_number, record, pins=self.pins, allow_unsafe=test)
        return record, output

    def _stop(self, digest: str) -> None:
        """Its salt could have been known when it was logged: nobody shall take part."""
        standing = {stored.digest: stored.standing for stored in self.store.experiments()}[digest]
        if standing in (Standing.RUNNING, Standing.PAUSED):
            self.store.set_standing(digest, Standing.STOPPED)
            self._tell("logged-too-late", digest)
            self.wake()

    def _tell(self, event: str, digest: str, reason: str | None = None) -> None:
        more = {} if reason is None else {"reason": reason}
        self.log.tell(event, experiment=digest, **more)
