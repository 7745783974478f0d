"""Bad input on sockets: each attack runs beside somebody honest, who is always answered.

Each is tried twice: with its limit, and it gets nowhere; without, and it gets what it wants, so that the test can fail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

import pytest

from secvm.runtime.http._connection import Connection
from secvm.runtime.http._parser import Reading
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, Limits
from tests.unit.runtime.http_talk import Place, Talk, get, post, serving, small, until
from tests.unit.runtime.test_http_server import UNCLEAR

NEVER = 10**12
#: More than the system's buffers of a connection take.
LARGE = 8_000_000


class Handler:
    """Answers at once, or with much, or never; and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse | asyncio.Future[HttpResponse]:
        self.asked.append(request.path)
        if request.path == "/never":
            return asyncio.get_running_loop().create_future()
        if request.path == "/large":
            # Another one for each, as sealed answers are.
            return HttpResponse(200, bytes(LARGE) + str(len(self.asked)).encode())
        return HttpResponse(200, b"yes")


@asynccontextmanager
async def honest(place: Place) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Somebody who asks again and again, on a connection that stays and on fresh ones."""
    async with place.talk() as stays:

        async def ask() -> None:
            async with place.talk() as fresh:
                for talk in (stays, fresh):
                    talk.send(post(b"honest", "/honest"))
                    answer = await talk.answer()
                    assert (answer.status, answer.body) == (200, b"yes")

        await ask()
        yield ask
        await ask()


class Crowd:
    """Connections of an attacker."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.talks: list[Talk] = []

    async def come(self, count: int, said: bytes = b"", address: str = "127.0.0.1") -> None:
        for _ in range(count):
            talk = await small(self.place.port, address)
            self.talks.append(talk)
            if said:
                talk.send(said)
        await self.settled()

    async def settled(self) -> None:
        """What was sent has arrived, and what follows from it is done."""
        for _ in range(100):
            await asyncio.sleep(0)

    def say(self, data: bytes) -> None:
        for talk in self.talks:
            if not talk.writer.is_closing():
                talk.send(data)

    def leave(self) -> None:
        for talk in self.talks:
            talk.writer.transport.abort()


Ask = Callable[[], Awaitable[None]]
Act = Callable[[Crowd, Handler, Ask], Awaitable[bool]]


def attackers(place: Place) -> list[Connection]:
    """Connections that have asked for nothing honest: all but the one that stays."""
    return [one for one in place.server.connections if one._path != "/honest"]


# ── attacks: each says whether it got what it wanted ─────────────────────────────────────────────────────────────────


async def drip(crowd: Crowd, ask: Ask, start: bytes, seconds: int) -> bool:
    """To hold connections by a byte a second."""
    await crowd.come(10, start)
    for second in range(seconds):
        crowd.say(b"x")
        await asyncio.sleep(0)
        if second % 10 == 0:
            await ask()
        crowd.place.pass_time(1)
    await crowd.settled()
    crowd.place.pass_time(6)
    await crowd.settled()
    return len(attackers(crowd.place)) >= 10


async def drip_a_head(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    return await drip(crowd, ask, b"GET / HTTP/1.1\r\nhost: a\r\nx: ", 30)


async def drip_a_body(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    return await drip(crowd, ask, get("/", "content-length: 10000", method="POST"), 30)


async def say_nothing(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    await crowd.come(10)
    for _ in range(3):
        await ask()
        crowd.place.pass_time(10)
        await crowd.settled()
    return len(attackers(crowd.place)) >= 10


async def read_drop_by_drop(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    """To hold large answers by reading a little now and then."""
    await crowd.come(4, get("/large"))
    for _ in range(30):
        for talk in crowd.talks:
            await talk.reader.read(600)
        await ask()
        crowd.place.pass_time(4)
    await crowd.settled()
    return len(attackers(crowd.place)) >= 4


async def hoard_answers(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    """To fill the memory with answers that nobody reads."""
    await crowd.come(12, get("/large"))
    await ask()
    return crowd.place.server.guard.unread > 8 * LARGE


async def hoard_bodies(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    """To fill the memory with requests that never end."""
    await crowd.come(30, post(bytes(16_000))[:-100])
    await ask()
    return crowd.place.server.guard.receiving > 200_000


async def declare_too_much(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    await crowd.come(1, get("/", "content-length: 1000000000", method="POST") + bytes(10_000))
    await ask()
    return crowd.place.server.guard.receiving >= 10_000


async def flood_with_chunks(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    await crowd.come(1, get("/", "transfer-encoding: chunked", method="POST"))
    for _ in range(100):
        crowd.say(b"400\r\n" + bytes(1024) + b"\r\n")
        await asyncio.sleep(0)
    await crowd.settled()
    await ask()
    return crowd.place.server.guard.receiving >= 100_000


async def many_fields(crowd: Crowd, handler: Handler, ask: Ask) -> bool:
    await crowd.come(1, get("/bomb", *(f"x{i}: 1" for i in range(600))))
    await ask()
    return "/bomb" in handler.asked


async def a_long_line(crowd: Crowd, handler: Handler, ask: Ask) -> bool:
    await crowd.come(1, b"GET /bomb HTTP/1.1\r\nhost: a\r\nx: ")
    for _ in range(20):
        crowd.say(b"x" * 1000)
        await asyncio.sleep(0)
    crowd.say(b"\r\n\r\n")
    await crowd.settled()
    await ask()
    return "/bomb" in handler.asked


async def pipeline(crowd: Crowd, handler: Handler, ask: Ask) -> bool:
    """To make thousands of requests wait on one connection."""
    await crowd.come(1, get("/never") * 5000)
    await ask()
    held = sum(len(one._held) for one in crowd.place.server.connections)
    return handler.asked.count("/never") + held > 1000


async def come_in_crowds(crowd: Crowd, _handler: Handler, ask: Ask) -> bool:
    """To take every place of one server from one address."""
    await crowd.come(40, address="127.0.0.2")
    await ask()
    return len(attackers(crowd.place)) >= 40


@dataclass(frozen=True)
class Attack:
    act: Act
    #: With the limit, and without.
    defended: Limits
    without: Limits


DEFAULT = Limits()
ATTACKS = [
    Attack(drip_a_head, replace(DEFAULT, head_s=10), replace(DEFAULT, head_s=NEVER)),
    Attack(drip_a_body, replace(DEFAULT, request_s=10), replace(DEFAULT, request_s=NEVER)),
    Attack(say_nothing, replace(DEFAULT, head_s=10), replace(DEFAULT, head_s=NEVER, idle_s=NEVER)),
    Attack(read_drop_by_drop, replace(DEFAULT, idle_s=20), replace(DEFAULT, idle_s=NEVER)),
    Attack(hoard_answers, replace(DEFAULT, unread_bytes=4 * LARGE), DEFAULT),
    Attack(hoard_bodies, replace(DEFAULT, receiving_bytes=100_000), DEFAULT),
    Attack(declare_too_much, DEFAULT, replace(DEFAULT, body_bytes=NEVER)),
    Attack(flood_with_chunks, DEFAULT, replace(DEFAULT, body_bytes=NEVER)),
    Attack(many_fields, DEFAULT, replace(DEFAULT, fields=NEVER)),
    Attack(a_long_line, DEFAULT, replace(DEFAULT, head_bytes=NEVER)),
    Attack(pipeline, DEFAULT, replace(DEFAULT, pipelined=NEVER)),
    Attack(come_in_crowds, replace(DEFAULT, exempt=(), per_address=10), DEFAULT),
]


async def carried_out(attack: Attack, limits: Limits) -> bool:
    handler = Handler()
    async with serving(handler, limits=limits) as place, AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(place))
        crowd = Crowd(place)
        stack.callback(crowd.leave)
        return await attack.act(crowd, handler, ask)


@pytest.mark.usefixtures("both_loops")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.act.__name__)
async def test_an_attack_gets_nowhere_and_the_honest_are_served(attack: Attack) -> None:
    assert not await carried_out(attack, attack.defended)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.act.__name__)
async def test_without_its_limit_the_same_attack_gets_what_it_wants(attack: Attack) -> None:
    assert await carried_out(attack, attack.without)


# ── a full house ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gives_way", [True, False])
async def test_the_silent_give_way_when_the_house_is_full(monkeypatch: pytest.MonkeyPatch, *, gives_way: bool) -> None:
    """Without that rule whoever comes last is turned away, honest or not."""
    if not gives_way:
        monkeypatch.setattr(Connection, "may_go", lambda _self: False)

    async with serving(Handler(), limits=Limits(connections=20)) as place:
        crowd = Crowd(place)
        await crowd.come(20)
        async with place.talk() as late:
            late.send(get())
            if gives_way:
                assert (await late.answer()).status == 200
                assert len(place.server.connections) <= 20
            else:
                assert await late.ended()
        crowd.leave()


async def test_strangers_do_not_push_out_those_that_the_operator_names() -> None:
    """A relay's idle connections outlive any number of newcomers from elsewhere."""

    limits = Limits(connections=6, exempt=(IPv4Network("127.0.0.1/32"),))
    async with serving(Handler(), limits=limits) as place:
        named = Crowd(place)
        await named.come(3)
        strangers = Crowd(place)
        await strangers.come(30, address="127.0.0.2")
        assert sum(one._peer == "127.0.0.1" for one in place.server.connections) == 3
        assert len(place.server.connections) <= 6
        for crowd in (named, strangers):
            crowd.leave()


# ── smuggling ────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Of the requests whose meaning is not certain, those that such a parser takes.
LENIENT = (
    *("length, then chunks", "chunked twice", "space before colon"),
    *("folded length", "lone newlines", "chunks in 1.0"),
)


@pytest.mark.parametrize("form", LENIENT)
async def test_a_server_that_guesses_lets_a_request_be_smuggled_in(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """With a parser that forgives, and without our own look: so the table above can fail."""
    forgives = {
        f"lenient_{what}": True
        for what in ("headers", "chunked_length", "transfer_encoding", "optional_lf_after_cr", "optional_cr_before_lf")
    }
    begin = Reading.__init__

    def begin_forgiving(self: Reading, server: HttpServer) -> None:
        begin(self, server)
        self._parser.set_dangerous_leniencies(**forgives)

    monkeypatch.setattr(Reading, "__init__", begin_forgiving)
    monkeypatch.setattr(Reading, "_problem", lambda *_: None)

    handler = Handler()
    async with serving(handler) as place, place.talk() as talk:
        talk.send(UNCLEAR[form] + get("/smuggled"))
        await until(lambda: len(handler.asked) == 2)
        assert handler.asked == ["/unclear", "/smuggled"]


# ── other bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────

HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(32)) + b"\x20" + bytes(160)


@pytest.mark.parametrize("said", [HELLO, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 64, b"SSH-2.0-x\r\n"])
async def test_who_speaks_something_else_is_told_so_and_ends(said: bytes) -> None:
    async with serving(Handler()) as place, honest(place) as ask, place.talk() as talk:
        talk.send(said)
        assert (await talk.answer()).status in {400, 505}
        assert await talk.ended()
        await ask()


@pytest.mark.usefixtures("both_loops")
@pytest.mark.parametrize("said", [b"", b"GET / HT", post(b"1234567")[:-2]])
async def test_who_closes_one_half_without_a_request_is_gone(said: bytes) -> None:
    async with serving(Handler()) as place, honest(place) as ask:
        async with place.talk() as talk:
            talk.send(said)
            await asyncio.sleep(0)
            talk.writer.write_eof()
            assert await talk.ended()
        await ask()
        await until(lambda: len(place.server.connections) == 1)
        assert place.server.guard.receiving == 0


@pytest.mark.usefixtures("both_loops")
async def test_one_answer_that_many_read_slowly_is_there_once() -> None:
    body = bytes(2**22)

    async with serving(lambda _request: HttpResponse(200, body)) as place:
        crowd = Crowd(place)
        await crowd.come(20, get())
        await until(lambda: all(not one._writing for one in place.server.connections))
        assert place.server.guard.unread == len(body)
        buffered = [one._transport.get_write_buffer_size() for one in place.server.connections]
        assert max(buffered) < 2**18
        read = crowd.talks[0]
        assert (await read.answer()).body == body
        crowd.leave()
        await until(lambda: not place.server.connections)
        assert place.server.guard.unread == 0
