"""The page as a process: here the real clock and the server are picked, and put together.

On SIGTERM: nobody new, listeners are let go, what is under way is answered, and nothing is left: there is no state.
Nothing about visitors is written anywhere; what goes wrong is told by its kind and the lines of code it came through.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from secvm.dashboard.app import Page, Plan, make_app
from secvm.dashboard.events import Hub
from secvm.dashboard.forwarding import Forwarding
from secvm.dashboard.guard import names_of
from secvm.dashboard.nights import time_zone
from secvm.dashboard.plan import Planner
from secvm.dashboard.reading import Reader, checked_url
from secvm.dashboard.settings import DashboardSettings
from secvm.dashboard.shell import Shell
from secvm.dashboard.watching import Watcher
from secvm.errors import BadInputError
from secvm.pages.assets import Assets
from secvm.runtime.clock import Clock, SteadyClock, SteeredClock, SystemClock
from secvm.runtime.logs import Log
from secvm.runtime.service import run_service
from secvm.runtime.waits import any_of, end_all

#: How long answers may take to come to their end once all is over.
_GRACE_S = 2
_CONNECTIONS = 1000
_HEARTBEAT_MS = 15_000
#: For a request, head and body, until its last byte; as the other servers' (``runtime.http_messages.Limits``).
_REQUEST_S = 15.0

#: An audit of the coordinator, which takes its time: what ``/api/now`` shows of it.
AuditOnce = Callable[[Clock], dict[str, Any]]


def serve(settings: DashboardSettings, *, audit: AuditOnce | None, listening: Callable[[str], None]) -> None:
    """Serve the page until somebody says stop. ``listening`` is told its address."""
    told = settings.testing.clock
    clock: Clock = SystemClock() if told is None else SteeredClock(told)
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
        request_s: float = _REQUEST_S,
    ) -> None:
        """``request_s``: so long may a request take to come."""
        checked_url(settings.coordinator.url)
        self._settings, self._clock, self._steady = settings, clock, steady
        self._audit, self._plan, self._request_s = audit, plan, request_s
        self._zone = time_zone(settings.page.time_zone)
        self._shell = Shell(Assets("secvm.pages", "secvm.dashboard"))

    async def run(self, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
        """Until told to stop."""
        settings, clock = self._settings, self._clock
        audit = self._audit if settings.audit.on else None
        # Another one each time that the page is started, which is all that it is for.
        hub = Hub(f"{self._steady.now() & 0xFFFFFFFF:x}{clock.now() & 0xFFFFFFFF:x}")
        with _listening(settings.listen.host, settings.listen.port) as door:
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
                forwarding = Forwarding(reader, watcher.poke)
                page = Page(watcher, hub, forwarding, shell=self._shell, steady=self._steady, plan=self._plan)
                names = names_of(settings.listen.host, settings.page.public_hosts)
                server = _Server(make_app(page, names=names), request_s=self._request_s)
                await self._serve(server, watcher, hub, door, stop, listening)

    async def _serve(
        self,
        server: _Server,
        watcher: Watcher,
        hub: Hub,
        door: socket.socket,
        stop: asyncio.Event,
        listening: Callable[[str], None],
    ) -> None:
        watching = asyncio.ensure_future(watcher.run(stop))
        beating = asyncio.ensure_future(self._beat(hub, stop))
        serving = asyncio.ensure_future(server.serve(sockets=[door]))
        try:
            listening(_address(door))
            # If one of them fails, so does the process: whoever runs it starts it again.
            await asyncio.wait([watching, beating, serving], return_when=asyncio.FIRST_COMPLETED)
            hub.close()
            server.should_exit = True
            await serving
            for task in (watching, beating):
                if task.done():
                    task.result()
        finally:
            await end_all(watching, beating, serving)

    async def _beat(self, hub: Hub, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await any_of(stop.wait(), self._steady.sleep_until(self._steady.now() + _HEARTBEAT_MS))
            hub.beat()


class _Server(uvicorn.Server):
    """Signals are ``runtime.service``'s, the loop is there already, and nothing is logged."""

    def __init__(self, app: Any, *, request_s: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=functools.partial(_TimedRequests, request_s=request_s),  # type: ignore[arg-type]  # it is only called
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Somebody else has them."""
        yield


class _TimedRequests(HttpToolsProtocol):
    """Cuts off who does not finish a request in time: uvicorn itself waits for ever for the rest of one.

    The time runs from the connection's beginning, and later from the first byte after an answer, whatever that byte is,
    until a request is complete. Between requests uvicorn's own limit holds.
    """

    def __init__(self, *more: Any, request_s: float, **named: Any) -> None:
        super().__init__(*more, **named)
        self._request_s = request_s
        self._cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        # Before the first request there is no cycle.
        if self._cut_off is None and getattr(self.cycle, "response_complete", True):
            self._expect_request()
        super().data_received(data)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._cut_off = self.loop.call_later(self._request_s, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._cut_off is not None:
            self._cut_off.cancel()
            self._cut_off = None


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A port that browsers can come to."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        door = socket.create_server((host, port), family=family, backlog=200)
    except OSError as error:
        raise BadInputError(f"cannot listen on {host}:{port}: {error.strerror or 'no such address'}") from None
    with door:
        yield door


def _address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
