"""The HTTP server under pressure: order, limits of time and number, clients that do not read, and the end."""

import asyncio
import contextlib
import socket
from collections.abc import Mapping

import pytest

from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, Limits
from tests.unit.runtime.http_talk import echo, get, post, serving, small, until

# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Later:
    """A handler that answers when it is told to; paths that begin with ``/now`` at once."""

    def __init__(self) -> None:
        self.owed: dict[str, asyncio.Future[HttpResponse]] = {}
        self.asked: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse | asyncio.Future[HttpResponse]:
        self.asked.append(request.path)
        if request.path.startswith("/now"):
            return echo(request)
        return self.owed.setdefault(request.path, asyncio.get_running_loop().create_future())

    def answer(self, path: str) -> None:
        self.owed[path].set_result(HttpResponse(200, path.encode()))


@pytest.mark.usefixtures("both_loops")
async def test_answers_keep_the_order_of_their_requests() -> None:
    later = Later()
    async with serving(later) as place, place.talk() as talk:
        talk.send(get("/1") + get("/now") + get("/2") + get("/now/2") + get("/3"))
        await until(lambda: len(later.asked) == 5)
        for path in ("/3", "/2", "/1"):
            later.answer(path)
        said = [(await talk.answer()).body for _ in range(5)]
        assert said == [b"/1", b"GET /now  ", b"/2", b"GET /now/2  ", b"/3"]


async def test_a_refusal_waits_for_the_answers_before_it() -> None:
    later = Later()
    async with serving(later) as place, place.talk() as talk:
        talk.send(get("/1") + get("/2") + b"garbage\r\n\r\n" + get("/3"))
        await until(lambda: len(later.asked) == 2)
        later.answer("/2")
        later.answer("/1")
        assert [(await talk.answer()).body for _ in range(2)] == [b"/1", b"/2"]
        assert (await talk.answer()).status == 400
        assert await talk.ended()
    assert later.asked == ["/1", "/2"]


@pytest.mark.usefixtures("both_loops")
async def test_who_has_said_all_still_gets_the_answers() -> None:
    later = Later()
    async with serving(later) as place, place.talk() as talk:
        talk.send(get("/1") + get("/2"))
        talk.writer.write_eof()
        await until(lambda: len(later.asked) == 2)
        later.answer("/1")
        assert (await talk.answer()).body == b"/1"
        later.answer("/2")
        answer = await talk.answer()
        assert (answer.body, answer.headers["connection"]) == (b"/2", "close")
        assert await talk.ended()


async def test_one_future_answers_many_and_outlives_those_who_leave() -> None:
    group: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
    asked: list[str] = []

    def handler(request: HttpRequest) -> asyncio.Future[HttpResponse]:
        asked.append(request.path)
        return group

    async with serving(handler) as place, place.talk() as stays:
        async with place.talk() as leaves:
            stays.send(get("/1") + get("/2"))
            leaves.send(get("/3"))
            await until(lambda: len(asked) == 3)
            leaves.vanish()
        await until(lambda: len(place.server.connections) == 1)
        assert not group.done()
        group.set_result(HttpResponse(202))
        assert [(await stays.answer()).status for _ in range(2)] == [202, 202]


async def test_the_fault_of_an_answer_that_nobody_waits_for_is_nobodys() -> None:
    go = asyncio.Event()
    began: list[bool] = []

    async def slow(_request: HttpRequest) -> HttpResponse:
        began.append(True)
        await go.wait()
        raise RuntimeError("too late")

    async with serving(slow) as place:
        async with place.talk() as talk:
            talk.send(get())
            await until(lambda: began)
            talk.vanish()
        await until(lambda: not place.server.connections)
        go.set()
        await until(lambda: not place.server._tasks)


# ── pressure ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("both_loops")
async def test_no_more_than_so_many_requests_of_a_connection_wait() -> None:
    later = Later()
    async with serving(later, limits=Limits(pipelined=4)) as place, place.talk() as talk:
        paths = [f"/{number}" for number in range(50)]
        talk.send(b"".join(get(path) for path in paths) + get("/now", "connection: close"))
        await until(lambda: len(later.asked) == 4)
        for number, path in enumerate(paths):
            await until(lambda path=path: path in later.owed)  # type: ignore[misc]  # mypy wants no default
            assert len(later.asked) <= number + 4
            later.answer(path)
        assert [(await talk.answer()).body for _ in paths] == [path.encode() for path in paths]
        assert (await talk.answer()).headers["connection"] == "close"
        assert await talk.ended()


@pytest.mark.usefixtures("both_loops")
async def test_who_does_not_read_is_not_read_from_and_loses_nothing() -> None:
    asked: list[str] = []

    def handler(request: HttpRequest) -> HttpResponse:
        asked.append(request.path)
        return HttpResponse(200, request.path.encode() + b"x" * 100_000)

    async with serving(handler) as place:
        talk = await small(place.port)
        talk.send(b"".join(get(f"/{number}") for number in range(300)) + b"garbage\r\n\r\n")
        await until(lambda: any(not one._writing for one in place.server.connections))
        assert len(asked) < 200
        for number in range(300):
            assert (await talk.answer()).body.rstrip(b"x") == b"/%d" % number
        assert (await talk.answer()).status == 400
        assert await talk.ended()
        talk.writer.transport.abort()
    assert asked == [f"/{number}" for number in range(300)]


@pytest.mark.usefixtures("both_loops")
@pytest.mark.parametrize("field", ["connection: keep-alive", "connection: close"])
async def test_who_never_reads_is_cut_off(field: str) -> None:
    async with serving(lambda _: HttpResponse(200, bytes(10**8)), limits=Limits(idle_s=10)) as place:
        talk = await small(place.port)
        talk.send(get("/", field))
        await until(lambda: any(not one._writing for one in place.server.connections))
        place.pass_time(9)
        assert place.server.connections
        place.pass_time(2)
        await until(lambda: not place.server.connections)
        talk.writer.transport.abort()


async def test_more_connections_than_allowed_are_closed_at_once_while_all_are_at_work() -> None:
    later = Later()
    async with serving(later, limits=Limits(connections=2)) as place, place.talk() as one:
        async with place.talk() as two:
            one.send(get("/1"))
            two.send(get("/2"))
            await until(lambda: len(later.asked) == 2)
            async with place.talk() as three:
                assert await three.ended()
            two.vanish()
        await until(lambda: len(place.server.connections) == 1)
        async with place.talk() as four:
            four.send(get("/now"))
            assert (await four.answer()).status == 200
        later.answer("/1")
        assert (await one.answer()).body == b"/1"


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_silent_connection_is_closed_without_a_word() -> None:
    async with serving(limits=Limits(idle_s=10)) as place, place.talk() as talk:
        await until(lambda: place.server.connections)
        place.pass_time(9)
        talk.send(get())
        assert (await talk.answer()).status == 200
        place.pass_time(9)
        talk.send(get())
        assert (await talk.answer()).status == 200
        place.pass_time(11)
        assert await talk.ended()


async def test_who_waits_for_an_answer_is_not_silent() -> None:
    later = Later()
    async with serving(later, limits=Limits(idle_s=10, request_s=10)) as place, place.talk() as talk:
        talk.send(get("/1"))
        await until(lambda: later.asked)
        place.pass_time(1000)
        later.answer("/1")
        assert (await talk.answer()).body == b"/1"
        place.pass_time(9)
        talk.send(get("/now"))
        assert (await talk.answer()).status == 200


@pytest.mark.usefixtures("both_loops")
async def test_who_was_refused_and_goes_on_talking_is_cut_off() -> None:
    # The client does not close at our end of file by itself.
    async with serving() as place, place.talk() as talk:
        talk.send(b"garbage\r\n\r\n")
        assert (await talk.answer()).status == 400
        talk.send(b"more")
        place.pass_time(1)
        assert place.server.connections
        place.pass_time(10)
        await until(lambda: not place.server.connections)


async def test_the_server_looks_in_by_itself() -> None:
    """One timer for all connections; it is set again each time, and ends with the server."""

    async with serving(limits=Limits(idle_s=10)) as place, place.talk() as talk:
        await until(lambda: place.server.connections)
        before = place.server._sweeper
        place.now = 11
        place.server._sweep_again()
        assert await talk.ended()
        assert place.server._sweeper is not before
        assert before is not None
        before.cancel()
    assert place.server._sweeper is not None
    assert place.server._sweeper.cancelled()


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("both_loops")
async def test_drain_answers_what_is_under_way_and_closes() -> None:
    later = Later()
    async with serving(later) as place, place.talk() as idle, place.talk() as owed, place.talk() as half:
        idle.send(get("/now"))
        assert (await idle.answer()).status == 200
        owed.send(get("/1") + get("/2"))
        half.send(post(b"body", "/now")[:-2])
        await until(lambda: len(later.asked) == 3 and any(one._receiving for one in place.server.connections))
        draining = asyncio.create_task(place.server.drain())
        assert await idle.ended()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", place.port)
        half.send(b"dy" + get("/now/too-late"))
        answer = await half.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST /now  body", "close")
        assert await half.ended()
        later.answer("/1")
        assert "connection" not in (await owed.answer()).headers
        later.answer("/2")
        assert (await owed.answer()).headers["connection"] == "close"
        assert await owed.ended()
        await draining
        assert not place.server.connections
        assert "/now/too-late" not in later.asked


@pytest.mark.usefixtures("both_loops")
async def test_drain_has_an_end_and_cancels_only_its_own() -> None:
    never: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
    ends: list[str] = []

    async def slow() -> HttpResponse:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return HttpResponse(200)

    def handler(request: HttpRequest) -> asyncio.Future[HttpResponse] | HttpResponse:
        ends.append("asked")
        return never if request.path == "/never" else slow()  # type: ignore[return-value]  # a handler may

    async with serving(handler) as place, place.talk() as one, place.talk() as two:
        one.send(get("/never"))
        two.send(get("/slow"))
        await until(lambda: len(ends) == 2)
        await asyncio.sleep(0)
        await place.server.drain(patience_s=0)
        assert await one.ended()
        assert await two.ended()
    assert ends == ["asked", "asked", "cancelled"]
    assert not never.done()


async def test_repro_a_large_body_that_comes_steadily_is_not_too_slow() -> None:
    limits = Limits(request_s=10, idle_s=1000, body_bytes=2**20, bytes_per_s=1000)
    async with serving(limits=limits) as place, place.talk() as talk:
        data = post(b"x" * 30_000)
        talk.send(data[:25_000])
        await until(lambda: any(len(one._body) > 20_000 for one in place.server.connections))
        place.pass_time(29)
        talk.send(data[25_000:])
        assert (await talk.answer()).status == 200
        # Who has sent little has little time.
        talk.send(data[:5000])
        await until(lambda: any(len(one._body) > 4000 for one in place.server.connections))
        place.pass_time(16)
        assert (await talk.answer()).status == 408


async def test_repro_who_may_not_send_a_large_body_is_told_so_before_it_comes() -> None:
    def before_body(path: str, headers: Mapping[str, str]) -> HttpResponse | None:
        return HttpResponse(401) if path == "/large" and "authorization" not in headers else None

    async with serving(body_limits={"/large": 2**20}, before_body=before_body) as place:
        async with place.talk() as talk:
            talk.send(post(b"x" * 2**19, "/large")[:1000])
            assert (await talk.answer()).status == 401
        async with place.talk() as talk:
            talk.send(post(b"x" * 2**17, "/large", "authorization: me"))
            assert (await talk.answer()).status == 200


@pytest.mark.usefixtures("both_loops")
async def test_repro_a_connection_accepted_in_the_turn_before_the_drain_stayed_open() -> None:
    server = HttpServer(echo)
    port = await server.start("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port)) as client:
        # asyncio accepts in the turn after the first, and would give the connection its transport in the one after
        # the second: the server was closed in between.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await server.drain()
        # The other side hears of the end; only a socket that stayed open would not tell it.
        client.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
