"""The HTTP server's words: what it understands, what it refuses, and what it says."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, Limits, http_date
from secvm.testing.clock import ManualClock
from tests.unit.runtime.http_talk import Answer, chunked, echo, get, post, run, serving, until

STREAM = [
    (get("/a?b=c"), b"GET /a b=c "),
    (post(b"hello", "/p"), b"POST /p  hello"),
    (chunked([b"ab", b"c" * 20, b"d"], "/c"), b"POST /c  ab" + b"c" * 20 + b"d"),
    (post(b"", "/e"), b"POST /e  "),
    (get("http://elsewhere.example:8/x?y"), b"GET /x y "),
    (get("HTTPS://elsewhere.example"), b"GET /  "),
    (get("http://elsewhere.example?q=/z"), b"GET / q=/z "),
    (get("*", method="OPTIONS"), b"OPTIONS *  "),
    (get("/%2e%2e//x?a?b"), b"GET /%2e%2e//x a?b "),
]


@pytest.mark.usefixtures("both_loops")
@pytest.mark.parametrize("sent", ["whole", "byte by byte", "pipelined"])
async def test_requests_are_understood_however_they_are_cut(sent: str) -> None:
    async with serving() as place, place.talk() as talk:
        if sent == "pipelined":
            talk.send(b"".join(data for data, _ in STREAM))
        for data, said in STREAM:
            if sent == "whole":
                talk.send(data)
            elif sent == "byte by byte":
                for byte in data:
                    talk.send(bytes([byte]))
                    await asyncio.sleep(0)
            answer = await talk.answer()
            assert (answer.status, answer.body) == (200, said)
            assert answer.headers == {"content-type": "text/plain", "content-length": str(len(said))}


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, sum(len(data) for data, _ in STREAM)), max_size=8))
def test_no_cut_changes_an_answer(cuts: list[int]) -> None:
    async def main() -> None:
        stream = b"".join(data for data, _ in STREAM)
        async with serving() as place, place.talk() as talk:
            ends = [*sorted(cuts), len(stream)]
            for begin, end in zip([0, *ends], ends, strict=False):
                talk.send(stream[begin:end])
                await asyncio.sleep(0)
            assert [(await talk.answer()).body for _ in STREAM] == [said for _, said in STREAM]

    run(main())


async def test_a_request_knows_its_fields_and_its_peer() -> None:
    seen: list[HttpRequest] = []

    def handler(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(204)

    async with serving(handler) as place, place.talk() as talk:
        talk.send(get("/", "X-One: a ", "x-one:b", "User-Agent: \xe9", "Empty:"))
        answer = await talk.answer()
        assert (answer.status, answer.headers) == (204, {})
    assert seen[0].headers == {"host": "a", "x-one": "a, b", "user-agent": "\xe9", "empty": ""}
    assert seen[0].peer == "127.0.0.1"


async def test_a_field_after_the_chunks_is_not_taken_for_one_of_the_head() -> None:
    def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, str(request.headers.get("authorization")).encode())

    async with serving(handler) as place, place.talk() as talk:
        talk.send(chunked([b"abc"], trailer=b"authorization: Bearer x\r\n"))
        assert (await talk.answer()).body == b"None"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────

HEAD = b"POST /unclear HTTP/1.1\r\nhost: a\r\n"
UNCLEAR = {
    "length twice": HEAD + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc",
    "two lengths": HEAD + b"content-length: 0\r\ncontent-length: 40\r\n\r\n",
    "list of lengths": HEAD + b"content-length: 3, 3\r\n\r\nabc",
    "signed length": HEAD + b"content-length: +3\r\n\r\nabc",
    "negative length": HEAD + b"content-length: -3\r\n\r\nabc",
    "hex length": HEAD + b"content-length: 0x3\r\n\r\nabc",
    "endless length": HEAD + b"content-length: " + b"9" * 40 + b"\r\n\r\nabc",
    "empty length": HEAD + b"content-length:\r\n\r\nabc",
    "length, then chunks": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks, then length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "other coding": HEAD + b"transfer-encoding: gzip\r\n\r\nabc",
    "coding before chunks": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, then something": HEAD + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "nearly chunked": HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked after a control": HEAD + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in 1.0": b"POST /unclear HTTP/1.0\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
    "chunk with a sign": HEAD + b"transfer-encoding: chunked\r\n\r\n+0\r\n\r\n",
    "chunk with 0x": HEAD + b"transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "chunk longer than it says": HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "space before colon": HEAD + b"content-length : 0\r\n\r\n",
    "folded field": HEAD + b"a: b\r\n c\r\n\r\n",
    "folded length": HEAD + b"content-length:\r\n 0\r\n\r\n",
    "carriage return inside a field": HEAD + b"x: a\rcontent-length: 5\r\n\r\n",
    "lone newlines": b"POST /unclear HTTP/1.1\nhost: a\ncontent-length: 0\n\n",
    "zero byte": HEAD + b"a: \0\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "no target": b"GET a HTTP/1.1\r\nhost: a\r\n\r\n",
    "other scheme": b"GET ftp://a/b HTTP/1.1\r\nhost: a\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n",
    "connect": b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01",
}


@pytest.mark.parametrize("what", UNCLEAR)
@pytest.mark.parametrize("first", [b"", get("/first")])
async def test_a_request_whose_meaning_is_not_certain_is_refused_and_nothing_after_it_is_read(
    what: str, first: bytes
) -> None:
    asked: list[str] = []

    def handler(request: HttpRequest) -> HttpResponse:
        asked.append(request.path)
        return echo(request)

    async with serving(handler) as place, place.talk() as talk:
        talk.send(first + UNCLEAR[what] + get("/smuggled"))
        if first:
            assert (await talk.answer()).body == b"GET /first  "
        answer = await talk.answer()
        assert answer.status == 400
        assert answer.headers["connection"] == "close"
        assert answer.body.count(b"\n") == 1
        assert await talk.ended()
    assert asked == (["/first"] if first else [])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 505),
        (post(b"x" * 11), 413),
        (chunked([b"x" * 6, b"y" * 5]), 413),
        (post(b"x" * 21, "/large"), 413),
        (post(b"x" * 4, "/small"), 413),
        (post(b"x" * 4, "http://b/small?a"), 413),
        (post(b"x" * 11, "/", "expect: 100-continue"), 413),
        (post(b"x", "/", "expect: gold"), 417),
        (get("/", "a: " + "b" * 300), 431),
        (get("/", *["a: b"] * 60), 431),
        (get("/" + "a" * 300), 431),
        (b"GET / HTTP/1.1\r\nendless: " + b"x" * 100_000, 431),
        (chunked([b"x"], trailer=b"a: b\r\n" * 60), 431),
    ],
)
async def test_what_is_too_large_or_not_spoken_here_has_its_own_answer(request_: bytes, status: int) -> None:
    limits = Limits(body_bytes=10, head_bytes=200)
    async with serving(limits=limits, body_limits={"/large": 20, "/small": 3}) as place:
        for pace in (len(request_), 50):
            async with place.talk() as talk:
                for at in range(0, len(request_), pace):
                    talk.send(request_[at : at + pace])
                    await asyncio.sleep(0)
                answer = await talk.answer()
                assert answer.status == status
                assert answer.headers["connection"] == "close"
                assert await talk.ended()


@pytest.mark.parametrize(
    "host", ["", "a", "a.example:8480", "127.0.0.1:", "[::1]:80", "[fe80::1%25eth0]", "a%20b", "a_b"]
)
async def test_hosts_that_the_specification_allows_are_taken(host: str) -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        assert (await talk.answer()).status == 200


async def test_chunks_of_one_byte_and_short_extensions_are_taken() -> None:
    async with serving(limits=Limits(body_bytes=20_000)) as place, place.talk() as talk:
        talk.send(chunked([b"x"] * 20_000))
        assert (await talk.answer()).body == b"POST /  " + b"x" * 20_000
        talk.send(get("/", "transfer-encoding: chunked", method="POST") + b"1;name=value\r\na\r\n0\r\n\r\n")
        assert (await talk.answer()).body == b"POST /  a"


@pytest.mark.parametrize("host", [b"a b", b"a/c", b"a b/c", b"me@a", b"a:b", b"[::1", b"a%2"])
async def test_repro_a_host_that_is_none_is_refused(host: bytes) -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(b"GET / HTTP/1.1\r\nhost: " + host + b"\r\n\r\n" + get("/smuggled"))
        assert (await talk.answer()).status == 400
        assert await talk.ended()


@pytest.mark.parametrize(
    "content",
    [b"1;" + b"x" * 200_000 + b"\r\na\r\n0\r\n\r\n", (b"1;" + b"x" * 400 + b"\r\na\r\n") * 100 + b"0\r\n\r\n"],
    ids=["one that is long", "many that are short"],
)
async def test_repro_extensions_of_chunks_have_a_limit(content: bytes) -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(get("/", "transfer-encoding: chunked", method="POST") + content)
        answer = await talk.answer()
        assert (answer.status, answer.body) == (400, b"too much between the chunks\n")
        assert await talk.ended()


async def test_repro_who_speaks_http_1_0_is_not_told_to_continue() -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(b"POST / HTTP/1.0\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n")
        await asyncio.sleep(0)
        talk.send(b"abc")
        answer = await talk.answer()
        assert (answer.status, answer.body) == (200, b"POST /  abc")


async def test_what_is_exactly_as_large_as_allowed_is_taken() -> None:
    async with serving(limits=Limits(body_bytes=10), body_limits={"/large": 20}) as place, place.talk() as talk:
        for data in (
            post(b"x" * 10),
            chunked([b"x" * 5, b"x" * 5]),
            post(b"x" * 20, "/large"),
            chunked([b"x" * 20], "/large"),
        ):
            talk.send(data)
            assert (await talk.answer()).status == 200


@pytest.mark.usefixtures("both_loops")
async def test_who_is_refused_in_the_middle_of_a_long_request_can_still_read_why() -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(get("/", "content-length: 9000000", method="POST"))
        for _ in range(90):
            talk.send(b"x" * 100_000)
            await asyncio.sleep(0)
        assert (await talk.answer()).status == 413
        await until(lambda: talk.writer.transport.get_write_buffer_size() == 0)
        assert await talk.ended()


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_head_is_answered_like_get_without_content() -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(get("/a", method="HEAD") + get("/b"))
        answer = await talk.answer(head_only=True)
        assert answer.headers["content-length"] == str(len(b"HEAD /a  "))
        assert (await talk.answer()).body == b"GET /b  "


@pytest.mark.parametrize("last", [get("/", "connection: close"), b"GET / HTTP/1.0\r\n\r\n"])
async def test_who_wants_to_close_is_answered_and_nothing_after_it(last: bytes) -> None:
    async with serving() as place, place.talk() as talk:
        talk.send(get("/1") + last + get("/no"))
        assert "connection" not in (await talk.answer()).headers
        assert (await talk.answer()).headers["connection"] == "close"
        assert await talk.ended()


@pytest.mark.parametrize("last", [get("/fetch"), post(b"x", "/submit/12")])
async def test_a_path_of_these_is_answered_last_on_its_connection(last: bytes) -> None:
    async with serving(closed_after=("/fetch", "/submit/")) as place, place.talk() as talk:
        talk.send(get("/fetch/1") + get("/submit") + last + get("/no"))
        assert "connection" not in (await talk.answer()).headers
        assert "connection" not in (await talk.answer()).headers
        assert (await talk.answer()).headers["connection"] == "close"
        assert await talk.ended()


async def test_who_waits_to_be_asked_for_content_is_asked() -> None:
    async with serving() as place, place.talk() as talk:
        request = post(b"body", "/", "Expect: 100-Continue")
        talk.send(request[:-4])
        assert await talk.answer() == Answer(100, {}, b"")
        talk.send(b"body")
        assert (await talk.answer()).body == b"POST /  body"
        # Who does not wait is not asked.
        talk.send(get("/next"))
        assert (await talk.answer()).body == b"GET /next  "


async def test_content_is_asked_for_after_the_answers_before_it() -> None:
    later: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
    asked: list[str] = []

    def handler(request: HttpRequest) -> HttpResponse | asyncio.Future[HttpResponse]:
        asked.append(request.path)
        return later if request.path == "/later" else echo(request)

    async with serving(handler) as place, place.talk() as talk:
        talk.send(get("/later") + post(b"body", "/", "expect: 100-continue")[:-4])
        await until(lambda: asked)
        later.set_result(HttpResponse(202))
        assert (await talk.answer()).status == 202
        assert (await talk.answer()).status == 100
        talk.send(b"body")
        assert (await talk.answer()).status == 200


async def test_a_handlers_fault_is_answered_without_detail() -> None:
    async def broken() -> HttpResponse:
        raise RuntimeError("secret")

    async def wrong() -> HttpResponse:
        return "secret"  # type: ignore[return-value]  # that is the fault

    async def cancelled() -> HttpResponse:
        raise asyncio.CancelledError

    def at_once() -> HttpResponse:
        raise RuntimeError("secret")

    faults: dict[str, Callable[[], Any]] = {
        "/now": at_once,
        "/later": broken,
        "/wrong": wrong,
        "/none": lambda: None,
        "/lines": lambda: HttpResponse(200, b"", headers=(("a", "b\r\nsecret: c"),)),
        "/letters": lambda: HttpResponse(200, b"", "text/\u20ac"),
        "/cancelled": cancelled,
        "/fine": lambda: HttpResponse(200),
    }

    def handler(request: HttpRequest) -> Any:
        return faults[request.path]()

    async with serving(handler) as place, place.talk() as talk:
        talk.send(b"".join(get(path) for path in faults))
        answers = [await talk.answer() for _ in faults]
    assert [answer.status for answer in answers] == [500] * 6 + [503, 200]
    assert all(answer.body == b"" and "secret" not in answer.headers for answer in answers[:-1])


async def test_the_date_is_the_clocks_and_is_written_once_a_second() -> None:
    clock = ManualClock(784_111_777_000)

    date = http_date(clock)
    assert date() is date()
    async with serving(date=http_date(clock)) as place, place.talk() as talk:
        for expected in ("Sun, 06 Nov 1994 08:49:37 GMT",) * 2 + ("Sun, 06 Nov 1994 08:49:38 GMT",):
            talk.send(get("/"))
            assert (await talk.answer()).headers["date"] == expected
            clock.advance(600)


def test_heads_of_many_lengths_are_right_and_not_all_kept() -> None:
    server = HttpServer(echo)
    for length in [*range(2000), *range(2000)]:
        head = server.heads.head(HttpResponse(200, b"x" * length, "a/b"), keep_alive=length % 2 == 0)
        assert b"content-length: %d\r\n" % length in head
        assert (b"connection: close\r\n" in head) == (length % 2 == 1)
        assert head.endswith(b"\r\n\r\n")
    assert len(server.heads._kept) < 1000


async def test_a_place_that_is_taken_is_one_sentence() -> None:
    async with serving() as place:
        with pytest.raises(BadInputError, match="cannot listen"):
            await HttpServer(echo).start("127.0.0.1", place.port)
