"""The page as a process: here the real clock and the server are picked, and put together.

On SIGTERM: nobody new, listeners are let go, what is under way is answered, and nothing is left: there is no state.
Nothing about visitors is written anywhere; what goes wrong is told by its kind and the lines of code it came through.

``DashboardSettings`` is its TOML file and its command line; docs/how-to/look.md shows a whole file.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from secvm.dashboard.app import OperatorGuard, Page, Plan, names_of
from secvm.dashboard.coordinator_client import Forwarding, Reader
from secvm.dashboard.events import Hub
from secvm.dashboard.plan import DECLARED_MODULE, Planner, declared_module
from secvm.dashboard.view import ENDS_MODULE, ends_module, time_zone
from secvm.dashboard.watching import Watcher
from secvm.errors import BadInputError
from secvm.pages.assets import Assets
from secvm.pages.serving import REQUEST_S, RunningPage, listen_on
from secvm.pages.serving import serve as serve_page
from secvm.runtime.clock import Clock, SteadyClock, SteeredClock, SystemClock
from secvm.runtime.http.client import checked_url
from secvm.runtime.logs import Log
from secvm.runtime.service import any_of, end_all, run_service
from secvm.runtime.settings import Listen, Settings, SteeringPart, usual_port

#: Where it listens unless its settings say otherwise.
PORT = 8760
#: A host of a URL: a name, or an address without brackets.
PublicHost = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,250}[A-Za-z0-9])?$")]


class WatchedCoordinator(Settings):
    """``[coordinator]``: who is watched."""

    #: Where its public files are, and its /health, /metrics and /admin.
    url: str
    #: How often it is looked at, in seconds.
    poll_s: float = Field(default=1.0, ge=0.1, le=3600)


class PageSettings(Settings):
    """``[page]``: what is shown, and to whom."""

    #: Names besides the loopback's by which browsers may ask for this page, as they stand in its address.
    public_hosts: tuple[PublicHost, ...] = Field(default=(), max_length=16)
    #: IANA name of the zone in which nights are shaded for experiments that are always open.
    time_zone: str = "UTC"


class Audit(Settings):
    """``[audit]``: everything that is public, played again and again."""

    #: Seconds between the end of one and the next; 0: only one, at the start.
    every_s: float = Field(default=600, ge=0, le=10**7)
    #: Whether there is one at all.
    on: bool = True


class DashboardSettings(Settings):
    """All of it."""

    listen: Annotated[Listen, usual_port(PORT)] = Listen(port=PORT)
    coordinator: WatchedCoordinator
    page: PageSettings = PageSettings()
    audit: Audit = Audit()
    testing: SteeringPart = SteeringPart()


def read_listen(text: str) -> Listen:
    """HOST:PORT as it stands on a command line; an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise BadInputError("--listen must be a host and a port, such as 127.0.0.1:8760")
    return Listen(host=host, port=int(port))


_HEARTBEAT_MS = 15_000

#: An audit of the coordinator, which takes its time: what ``/api/now`` shows of it.
AuditOnce = Callable[[Clock], dict[str, Any]]


def serve(settings: DashboardSettings, *, audit: AuditOnce | None, listening: Callable[[str], None]) -> None:
    """Serve the page until somebody says stop. ``listening`` is told its address."""
    clock_file = settings.testing.clock
    clock: Clock = SystemClock() if clock_file is None else SteeredClock(clock_file)
    log = Log(sys.stderr, clock, "dashboard")
    steady = SteadyClock()
    dashboard = Dashboard(settings, clock=clock, steady=steady, audit=audit, plan=Planner(now=steady.now))
    run_service(lambda stop: dashboard.run(stop, listening), log=log)


class Dashboard:
    """One page, put together from its settings; what is wrong with them is told here."""

    def __init__(
        self,
        settings: DashboardSettings,
        *,
        clock: Clock,
        steady: Clock,
        audit: AuditOnce | None = None,
        plan: Plan | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        """``request_s``: so long may a request take to come."""
        checked_url(settings.coordinator.url)
        self._settings, self._clock, self._steady = settings, clock, steady
        self._audit, self._plan, self._request_s = audit, plan, request_s
        self._zone = time_zone(settings.page.time_zone)
        made = {DECLARED_MODULE: declared_module(), ENDS_MODULE: ends_module()}
        self._assets = Assets("secvm.pages", "secvm.dashboard", made=made)

    async def run(self, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
        """Until told to stop."""
        settings, clock = self._settings, self._clock
        audit = self._audit if settings.audit.on else None
        # Another one each time that the page is started, which is all that it is for.
        hub = Hub(f"{self._steady.now() & 0xFFFFFFFF:x}{clock.now() & 0xFFFFFFFF:x}")
        host, port = settings.listen.host, settings.listen.port
        with listen_on(host, port, complaint=f"cannot listen on {host}:{port}") as door:
            async with Reader(settings.coordinator.url) as reader:
                watcher = Watcher(
                    reader,
                    hub,
                    clock=clock,
                    steady=self._steady,
                    zone=self._zone,
                    poll_s=settings.coordinator.poll_s,
                    audit=None if audit is None else lambda: audit(clock),
                    audit_every_s=settings.audit.every_s,
                )
                page = Page(
                    watcher,
                    hub,
                    Forwarding(reader, watcher.poke),
                    guard=OperatorGuard(names_of(host, settings.page.public_hosts)),
                    assets=self._assets,
                    steady=self._steady,
                    plan=self._plan,
                    request_s=self._request_s,
                )
                served = await serve_page(door, page.answer, request_s=self._request_s, leaving_cancels=True)
                listening(served.address)
                await self._watch(watcher, hub, served, stop)

    async def _watch(self, watcher: Watcher, hub: Hub, served: RunningPage, stop: asyncio.Event) -> None:
        watching = asyncio.ensure_future(watcher.run(stop))
        beating = asyncio.ensure_future(self._beat(hub, stop))
        try:
            # If one of them fails, so does the process: whoever runs it starts it again.
            done, _ = await asyncio.wait([watching, beating], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            hub.close()
            await served.close()
            await end_all(watching, beating)

    async def _beat(self, hub: Hub, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await any_of(stop.wait(), self._steady.sleep_until(self._steady.now() + _HEARTBEAT_MS))
            hub.beat()
