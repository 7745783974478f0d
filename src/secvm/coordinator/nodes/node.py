"""One node of many that share one database: a frontend that always answers, and a driver while the node leads.

Every node is a gateway, shows what is public, takes the operator's requests, opens and counts its share. While another
node leads, what it takes and shows is derived from the store (``node_view``). While it leads (``election``), a driver
and the keeper of the log are built anew for the term, on ``store.driving(term)``, and thrown away with it: nothing that
one term believed reaches the next. They run in an event loop of their own, because they block while the database works
and the frontend must not wait for that.

What all nodes of one database must have in common (``agree_on_grid``, ``agree_on_keys``) the first node that comes
writes down; every other one compares, and one that differs is told so before it does anything. With another grid a
number would mean another time; with another key it would sign what no device believes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from secvm.coordinator.assembly import Drivers, LogKeeper, RelayedView, make_log_keeper
from secvm.coordinator.counting.epoch_count import ShardCounting
from secvm.coordinator.frontend import Frontend, ProcessParts
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.nodes.election import Election
from secvm.coordinator.nodes.node_view import NodeView, ShardHelper
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.port import CoordinatorStore, find_blob
from secvm.coordinator.store.rules import agreed_name
from secvm.crypto.beacons.sources import BeaconSource
from secvm.crypto.signing import PUBLIC_KEY_BYTES, SigningKey, VerifyKey
from secvm.errors import BadInputError, LocalProtocolError, StoreError
from secvm.runtime.clock import Clock
from secvm.runtime.service import any_of, end_all, in_own_loop

_GRID, _SIGNING, _LOG = "grid", "signing key", "log key"


def agree_on_grid(store: CoordinatorStore, settings: CoordinatorProgramSettings) -> None:
    """Refuse settings whose epochs are not those of the nodes before."""
    wanted = {"origin_ms": settings.epochs.origin_ms, "period_s": settings.epochs.period_s}
    there = store.agree(_GRID, json.dumps(wanted, sort_keys=True).encode())
    if json.loads(there) != wanted:
        raise BadInputError(
            "origin_ms and period_s of the epochs are not those of the other nodes of this database",
            next_step=f"There they are {there.decode()}.",
        )


def agree_on_keys(store: CoordinatorStore, key: SigningKey, log_key: SigningKey) -> None:
    """Refuse keys that are not those of the nodes before."""
    for name, ours in ((_SIGNING, key), (_LOG, log_key)):
        if store.agree(name, ours.public.data) != ours.public.data:
            raise BadInputError(f"the {name} here is not the one of the other nodes; copy it from one of them")


def known_log_key(store: CoordinatorStore) -> VerifyKey | None:
    """The public key that logs; None where no node that signs has come yet, and told both its keys."""
    stored = [find_blob(store, agreed_name(name)) or b"" for name in (_SIGNING, _LOG)]
    return VerifyKey(stored[1]) if all(len(data) == PUBLIC_KEY_BYTES for data in stored) else None


def log_key_of_others(store: CoordinatorStore) -> VerifyKey:
    """For a node that cannot sign: the log's public key."""
    key = known_log_key(store)
    if key is None:
        raise StoreError(
            "no node that drives has used this database yet",
            next_step="Start one that has drives = true and the keys that sign and log; this one can wait for it.",
        )
    return key


def must_have(path: Path, store: CoordinatorStore) -> None:
    """Refuse to make a new key where the other nodes have one: nobody would believe it."""
    if not path.exists() and known_log_key(store) is not None:
        raise BadInputError(
            f"{path} is missing, and other nodes of this database have such a key",
            next_step="Copy it from one of them, or set drives = false.",
        )


#: Threads that ask for the lead: one may wait for a database that does not answer while the next one asks.
_LEADING = 3
#: How many times as rarely a store is polled that announces changes itself.
_PATIENT = 10


@runtime_checkable
class ChangeFeed(Protocol):
    """A store that announces that something may have changed."""

    def wait_for_change(self, seconds: float) -> bool:
        """Return when something may have changed, or after so many seconds; whether it may have."""
        ...


class Node:
    """The frontend of one node, its view of the store, and its candidacy as the driver."""

    def __init__(
        self,
        parts: ProcessParts,
        *,
        log_key: SigningKey | None,
        source: BeaconSource,
        steady: Clock,
    ) -> None:
        """``log_key`` and ``held.key`` are None at a node that does not drive. ``steady``: a clock that nobody sets."""
        part = parts.settings.node
        if part is None or (part.drives and (parts.key is None or log_key is None)):
            raise LocalProtocolError("a node that drives has keys")
        self._parts, self._part, self._log_key = parts, part, log_key
        self._source = source
        self._steady = steady
        self._frontend = Frontend(parts, refresh=self._refresh, look_s=part.poll_s, health=self.health)
        self._frontend.wake = self._changed
        self._relayed_view: RelayedView | None = None
        self._view = NodeView(
            parts.store,
            self._frontend.publisher,
            parts.clock,
            grid=parts.settings.epochs.grid,
            update=self._frontend.update,
            terms=parts.terms,
            steady=steady,
            log=parts.log,
            metrics=parts.metrics,
            # Where the store announces changes, polling is only for those that it missed.
            poll_s=part.poll_s * (_PATIENT if isinstance(parts.store, ChangeFeed) else 1),
            also=lambda: self._view_of_now().show(),
        )
        self._helper = ShardHelper(
            self._view,
            ShardCounting(parts.store, parts.dice).count_one,
            steady=steady,
            every_s=part.poll_s,
            log=parts.log,
        )
        # Of their own: whoever asks for what is public uses the other threads, as many as there are.
        self._leading = ThreadPoolExecutor(_LEADING, thread_name_prefix="lead")
        self._election = Election(
            parts.store,
            name=part.name,
            lease_s=part.lease_s,
            clock=steady,
            dice=parts.dice,
            drive=self._drive,
            call=self._at_once,
            log=parts.log,
            metrics=parts.metrics,
        )
        self._lag = parts.metrics.gauge("view_lag_seconds", "How old this node's view of the store is.")
        #: While this node drives: wakes its driver, lets it look at what others did, and how its log and clock are.
        self._nudge: Callable[[], None] | None = None
        self._look: Callable[[], None] | None = None
        self._health: Callable[[], dict[str, object]] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Answer requests and, where elected, drive, until ``stop`` is set."""
        self._frontend.ingest.start()
        # Before the first request: what runs and what is public is known.
        await self._view.refresh()
        await self._frontend.open()
        tasks = [asyncio.ensure_future(task) for task in self._tasks(stop)]
        try:
            # If one of them fails, so does the process: whoever runs it starts it again.
            await asyncio.gather(*tasks)
        finally:
            await end_all(*tasks)
            await self._frontend.close()
            self._leading.shutdown(wait=False)

    def _tasks(self, stop: asyncio.Event) -> list[asyncio.Future[None]]:
        helping = self._view_of_now().help(stop, self._steady, self._part.poll_s)
        running = [
            self._view.run(stop), self._helper.run(stop), helping, self._measure(stop), self._listen(stop),
        ]  # fmt: skip
        if self._part.drives:
            running.append(self._election.run(stop))
        else:
            self._parts.log.tell("following")
        return [asyncio.ensure_future(routine) for routine in running]

    def _view_of_now(self) -> RelayedView:
        """The view of experiments with two relays."""
        if self._relayed_view is None:
            self._relayed_view = RelayedView(self._parts, self._frontend, self._view.files)
        return self._relayed_view

    def health(self) -> dict[str, object]:
        """The state of this node, for /health."""
        term = self._election.term
        logbook = self._view.logbook
        content: dict[str, object] = {
            "node": {
                "name": self._part.name,
                "role": "follower" if term is None else "driver",
                "term": term,
                "lag_ms": self._view.lag_ms,
            }
        }
        if self._health is not None:
            return content | self._health()
        return content if logbook is None else content | {"log": logbook.health()}

    async def _measure(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            lag = self._view.lag_ms
            self._lag.set(-1 if lag is None else lag / 1000)
            await any_of(stop.wait(), self._steady.sleep_until(self._steady.now() + int(1000 * self._part.poll_s)))

    async def _listen(self, stop: asyncio.Event) -> None:
        """Wait for changes where the store announces them. Those that it misses are found by polling."""
        store = self._parts.store
        while isinstance(store, ChangeFeed) and not stop.is_set():
            try:
                changed = await asyncio.to_thread(store.wait_for_change, self._part.poll_s)
            except StoreError:
                await any_of(stop.wait(), self._steady.sleep_until(self._steady.now() + int(1000 * self._part.poll_s)))
                continue
            if changed:
                self._view.poke()
                if self._look is not None:
                    self._look()
            else:
                self._view.heard_nothing()

    def _at_once(self, act: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
        """Call in a thread of its own, so that no lease is lost because many requests use the others."""
        return asyncio.get_running_loop().run_in_executor(self._leading, act, *given)

    async def _refresh(self) -> None:
        await self._view.refresh()

    def _told(self, present: CurrentRounds) -> None:
        """Take over what runs from the driver of this node."""
        self._frontend.update(present)
        self._view.note_announced(present)

    def _changed(self) -> None:
        """The operator has changed something here."""
        if self._nudge is not None:
            self._nudge()
        self._view.poke()

    # ── driving ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _drive(self, term: int, ending: asyncio.Event) -> None:
        await self._view.pause()
        outside = asyncio.get_running_loop()
        try:
            await in_own_loop(lambda stop: self._term(term, stop, outside), ending)
        finally:
            self._nudge = self._look = self._health = None
            self._view.resume()

    async def _term(self, term: int, stop: asyncio.Event, outside: asyncio.AbstractEventLoop) -> None:
        """Drive for one term, in an event loop of its own."""
        parts, frontend = self._parts, self._frontend
        store = parts.store.driving(term)
        driving = Drivers(
            parts,
            frontend,
            store,
            ingest=_Outside(outside, frontend.ingest, self._told),
            keeper=self._log_keeping(store),
            steady=self._steady,
            count=ShardCounting(store, parts.dice).whole,
        )
        inside, look = asyncio.get_running_loop(), asyncio.Event()
        self._nudge = lambda: _call(inside, driving.nudge)
        self._look = lambda: _call(inside, look.set)
        self._health = driving.health
        driving.prepare()
        try:
            await driving.run(stop, self._watch(store, driving.nudge, look, stop))
        finally:
            driving.close()

    def _log_keeping(self, store: CoordinatorStore) -> LogKeeper | None:
        return make_log_keeper(self._parts, store, self._frontend.publisher, key=self._log_key, source=self._source)

    async def _watch(
        self, store: CoordinatorStore, nudge: Callable[[], None], look: asyncio.Event, stop: asyncio.Event
    ) -> None:
        """Wake the driver when an operator has spoken at another node."""
        known = None
        while not stop.is_set():
            look.clear()
            standings = [(routine.digest, routine.standing) for routine in await asyncio.to_thread(store.experiments)]
            # Also the first time: its first step may have read just before something came.
            if standings != known:
                nudge()
            known = standings
            await any_of(
                stop.wait(), look.wait(), self._steady.sleep_until(self._steady.now() + int(1000 * self._part.poll_s))
            )


class _Outside:
    """Ingest as the driver uses it: it lives in the event loop of the frontend."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ingest: Ingest, update: Callable[[CurrentRounds], None]
    ) -> None:
        self._loop, self._ingest, self._update = loop, ingest, update

    def update(self, present: CurrentRounds) -> None:
        """Hand what runs to the frontend's event loop."""
        self._loop.call_soon_threadsafe(self._update, present)

    async def finish(self, epoch: int) -> None:
        """Wait for ``Ingest.finish`` in the frontend's event loop."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ingest.finish(epoch), self._loop))


def _call(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """In a loop that may have ended this instant, also between a question and this."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(act)
