"""A small HTTP/1.1 server: httptools reads, one handler answers, at once or later.

It is made for very many very small requests: a handler that returns an ``HttpResponse`` costs no task, one that returns
a future is answered when the future is done, and answers keep the order of their requests (pipelining). A request is
handed over whole. Every limit has a number in ``Limits``; who breaks one is answered in one line and disconnected.

It speaks plain HTTP: TLS, names and certificates are the work of what stands before it.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Mapping

from secvm.files import or_bad_input
from secvm.runtime.http._connection import Connection
from secvm.runtime.http.guard import Guard
from secvm.runtime.http.messages import BeforeBody, Handler, Heads, HttpRequest, HttpResponse, Limits, http_date
from secvm.runtime.service import stop_listening

__all__ = ["Handler", "HttpRequest", "HttpResponse", "HttpServer", "Limits", "http_date"]

#: How often a server looks for connections that take too long. One timer for all: a timer for each request would cost
#: as much as answering it.
_SWEEP_S = 1.0


#: Descriptors for everything that is no connection: stores, logs, requests of our own.
_OTHER_FILES = 256


def _file_descriptors(wanted: int) -> int:
    """So many connections the system lets us have; the soft limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard - _OTHER_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted + _OTHER_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + _OTHER_FILES, hard))
    return max(1, wanted)


class HttpServer:
    """Listens, hands every request to the handler, and stops in good order."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        body_limits: Mapping[str, int] | None = None,
        date: Callable[[], str] | None = None,
        refusals: Mapping[int, HttpResponse] | None = None,
        before_body: BeforeBody | None = None,
        closed_after: tuple[str, ...] = (),
    ) -> None:
        """``body_limits``: other limits for some paths, and for all below one that ends with a slash. ``date``: what
        the Date field says, none without.
        ``refusals``: what to answer when the server itself refuses with that status (400, 413, 431).
        ``before_body``: may refuse a request before its content has come.
        ``closed_after``: paths, and all below one that ends with a slash, whose answer is the last of its connection.
        """
        self.handler = handler
        self.before_body: BeforeBody = before_body or (lambda _path, _headers: None)
        self.limits = limits or Limits()
        self._body_limits: Mapping[str, int] = dict(body_limits or {})
        self._below = tuple((path, most) for path, most in self._body_limits.items() if path.endswith("/"))
        self._closed_after = closed_after
        self.refusals: Mapping[int, HttpResponse] = dict(refusals or {})
        self.guard = Guard(self.limits)
        self.heads = Heads(date)
        self.connections: set[Connection] = set()
        self.draining = False
        #: The loop's, from the start on.
        self.time: Callable[[], float] = lambda: 0.0
        self._tasks: set[asyncio.Task[HttpResponse]] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event = asyncio.Event()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, also when 0 was asked for.

        Raises
        ------
        BadInputError
            When nobody can listen there.
        """
        loop = asyncio.get_running_loop()
        self.time = loop.time
        with or_bad_input(f"cannot listen on {host} port {port}"):
            self._server = await loop.create_server(lambda: Connection(self), host, port, backlog=4096)
        self.guard.connections = min(self.limits.connections, _file_descriptors(self.limits.connections))
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep_again)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def drain(self, *, patience_s: float = 10.0) -> None:
        """Take no new connections or requests, finish what is under way, close."""
        self.draining = True
        if self._server is not None:
            await stop_listening(self._server)
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            try:
                await asyncio.wait_for(self._emptied.wait(), patience_s)
            except TimeoutError:
                for connection in list(self.connections):
                    connection.abort()
        # Only tasks that were made here: somebody's future is somebody's.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def sweep(self, now: float) -> None:
        """End what took too long; ``now`` is the loop's time."""
        for connection in list(self.connections):
            connection.look(now)

    def _sweep_again(self) -> None:
        self.sweep(self.time())
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep_again)

    def body_limit(self, path: str) -> int:
        """Most bytes of the content of a request for this path."""
        below = (most for prefix, most in self._below if path.startswith(prefix))
        return self._body_limits[path] if path in self._body_limits else next(below, self.limits.body_bytes)

    def closes_after(self, path: str) -> bool:
        """Whether the connection ends with the answer to a request for this path."""
        return any(
            path == closed or (closed.endswith("/") and path.startswith(closed)) for closed in self._closed_after
        )

    # ── what its connections ask of it ───────────────────────────────────────────────────────────────────────────────

    def opened(self, connection: Connection, peer: str) -> bool:
        """Whether there is room for one more connection; then it is counted."""
        if self.draining or not self.guard.admit(connection, peer):
            return False
        self.connections.add(connection)
        return True

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self.guard.gone(connection)
        self.connections.discard(connection)
        if self.draining and not self.connections:
            self._emptied.set()

    def keep(self, task: asyncio.Task[HttpResponse]) -> None:
        """Hold a handler's task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
