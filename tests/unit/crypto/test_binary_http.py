"""Binary HTTP: the RFC's examples, round trips, and everything that must be refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from secvm.crypto.sealing.binary_http import (
    Field,
    InformationalResponse,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from secvm.errors import LocalProtocolError, MalformedMessageError

# ── the examples of RFC 9292 §5 ──────────────────────────────────────────────────────────────────────────────────────

CURL = Request(
    method=b"GET",
    scheme=b"https",
    authority=b"",
    path=b"/hello.txt",
    headers=(
        (b"user-agent", b"curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
        (b"host", b"www.example.com"),
        (b"accept-language", b"en, mi"),
    ),
)
CURL_KNOWN = bytes.fromhex("""
    00034745 54056874 74707300 0a2f6865 6c6c6f2e 74787440 6c0a7573 65722d61
    67656e74 34637572 6c2f372e 31362e33 206c6962 6375726c 2f372e31 362e3320
    4f70656e 53534c2f 302e392e 376c207a 6c69622f 312e322e 3304686f 73740f77
    77772e65 78616d70 6c652e63 6f6d0f61 63636570 742d6c61 6e677561 67650665
    6e2c206d 690000
""")
CURL_INDETERMINATE = bytes.fromhex("""
    02034745 54056874 74707300 0a2f6865 6c6c6f2e 7478740a 75736572 2d616765
    6e743463 75726c2f 372e3136 2e33206c 69626375 726c2f37 2e31362e 33204f70
    656e5353 4c2f302e 392e376c 207a6c69 622f312e 322e3304 686f7374 0f777777
    2e657861 6d706c65 2e636f6d 0f616363 6570742d 6c616e67 75616765 06656e2c
    206d6900 00000000 00000000 00000000
""")
APACHE = Response(
    status=200,
    headers=(
        (b"date", b"Mon, 27 Jul 2009 12:28:53 GMT"),
        (b"server", b"Apache"),
        (b"last-modified", b"Wed, 22 Jul 2009 19:15:56 GMT"),
        (b"etag", b'"34aa387-d-1568eb00"'),
        (b"accept-ranges", b"bytes"),
        (b"content-length", b"51"),
        (b"vary", b"Accept-Encoding"),
        (b"content-type", b"text/plain"),
    ),
    content=b"Hello World! My content includes a trailing CRLF.\r\n",
    informational=(
        InformationalResponse(status=102, headers=((b"running", b'"sleep 15"'),)),
        InformationalResponse(
            status=103,
            headers=(
                (b"link", b"</style.css>; rel=preload; as=style"),
                (b"link", b"</script.js>; rel=preload; as=script"),
            ),
        ),
    ),
)
APACHE_INDETERMINATE = bytes.fromhex("""
    03406607 72756e6e 696e670a 22736c65 65702031 35220040 67046c69 6e6b233c
    2f737479 6c652e63 73733e3b 2072656c 3d707265 6c6f6164 3b206173 3d737479
    6c65046c 696e6b24 3c2f7363 72697074 2e6a733e 3b207265 6c3d7072 656c6f61
    643b2061 733d7363 72697074 0040c804 64617465 1d4d6f6e 2c203237 204a756c
    20323030 39203132 3a32383a 35332047 4d540673 65727665 72064170 61636865
    0d6c6173 742d6d6f 64696669 65641d57 65642c20 3232204a 756c2032 30303920
    31393a31 353a3536 20474d54 04657461 67142233 34616133 38372d64 2d313536
    38656230 30220d61 63636570 742d7261 6e676573 05627974 65730e63 6f6e7465
    6e742d6c 656e6774 68023531 04766172 790f4163 63657074 2d456e63 6f64696e
    670c636f 6e74656e 742d7479 70650a74 6578742f 706c6169 6e003348 656c6c6f
    20576f72 6c642120 4d792063 6f6e7465 6e742069 6e636c75 64657320 61207472
    61696c69 6e672043 524c462e 0d0a0000
""")
CHUNKED = Response(status=200, content=b"This content contains CRLF.\r\n", trailers=((b"trailer", b"text"),))
CHUNKED_KNOWN = bytes.fromhex("""
    0140c800 1d546869 7320636f 6e74656e 7420636f 6e746169 6e732043 524c462e
    0d0a0d07 74726169 6c657204 74657874
""")


def test_examples_are_written_byte_for_byte() -> None:
    assert encode_request(CURL) == CURL_KNOWN
    assert encode_request(CURL, indeterminate=True, padded_to=len(CURL_INDETERMINATE)) == CURL_INDETERMINATE
    assert encode_response(APACHE, indeterminate=True) == APACHE_INDETERMINATE
    assert encode_response(CHUNKED) == CHUNKED_KNOWN


@pytest.mark.parametrize("shortest", [False, True])
def test_examples_are_read(*, shortest: bool) -> None:
    assert decode_request(CURL_KNOWN, shortest=shortest) == CURL
    assert decode_request(CURL_INDETERMINATE, shortest=shortest) == CURL
    assert decode_response(APACHE_INDETERMINATE, shortest=shortest) == APACHE
    assert decode_response(CHUNKED_KNOWN, shortest=shortest) == CHUNKED


def test_examples_may_be_truncated_just_as_far_as_the_rfc_says() -> None:
    for cut in range(1, 3):
        assert decode_request(CURL_KNOWN[:-cut]) == CURL
    for cut in range(1, 13):
        assert decode_request(CURL_INDETERMINATE[:-cut]) == CURL
    assert encode_request(CURL, truncated=True) == CURL_KNOWN[:-2]
    assert encode_request(CURL, indeterminate=True, truncated=True) == CURL_INDETERMINATE[:-12]


@pytest.mark.parametrize("whole", [CURL_KNOWN[:-2], CURL_INDETERMINATE[:-12]], ids=["known", "indeterminate"])
def test_truncated_anywhere_else_is_refused(whole: bytes) -> None:
    end_of_control_data = whole.index(b"/hello.txt") + len(b"/hello.txt")
    for cut in range(len(whole)):
        if cut == end_of_control_data:
            assert decode_request(whole[:cut]).headers == ()
            continue
        with pytest.raises(MalformedMessageError):
            decode_request(whole[:cut])


def test_truncated_response_is_read_or_refused() -> None:
    ends = {
        len(APACHE_INDETERMINATE) - 1,
        len(APACHE_INDETERMINATE) - 1 - 53,
        APACHE_INDETERMINATE.index(b"\x40\xc8") + 2,
    }
    for cut in range(len(APACHE_INDETERMINATE)):
        if cut in ends:
            decode_response(APACHE_INDETERMINATE[:cut])
            continue
        with pytest.raises(MalformedMessageError):
            decode_response(APACHE_INDETERMINATE[:cut])


# ── round trips ──────────────────────────────────────────────────────────────────────────────────────────────────────

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
names = st.text(TOKEN, min_size=1, max_size=70).map(str.encode)
values = (
    st.binary(max_size=80).map(lambda value: value.translate(None, b"\0\n\r").strip(b" \t"))
    | st.integers(60, 70).map(lambda size: b"v" * size)
    | st.just(b"v" * 16384)
)
fields = st.lists(st.tuples(names, values), max_size=4).map(tuple)
headers = st.tuples(st.lists(st.tuples(names.map(lambda n: b":x" + n), values), max_size=2).map(tuple), fields).map(
    lambda both: both[0] + both[1]
)
contents = st.binary(max_size=100) | st.sampled_from([63, 64, 16383, 16384]).map(bytes)
visible = st.text([chr(c) for c in range(0x21, 0x7F) if chr(c) != "@"], max_size=70).map(str.encode)
requests = st.builds(
    Request,
    method=st.text(TOKEN.upper(), min_size=1, max_size=8).map(str.encode).filter(lambda m: m != b"CONNECT"),
    scheme=st.sampled_from([b"https", b"http", b"HTTPS", b"coap+tcp"]),
    authority=visible,
    path=visible.map(lambda path: b"/" + path),
    headers=headers,
    content=contents,
    trailers=fields,
)
early = st.builds(InformationalResponse, status=st.integers(100, 199), headers=headers)
responses = st.builds(
    Response,
    status=st.integers(200, 599),
    headers=headers,
    content=contents,
    trailers=fields,
    informational=st.lists(early, max_size=2).map(tuple),
)
ways = st.fixed_dictionaries({"indeterminate": st.booleans(), "truncated": st.booleans()})


@given(request=requests, way=ways, padding=st.none() | st.integers(0, 100))
def test_requests_come_back(request: Request, way: dict[str, bool], padding: int | None) -> None:
    encoded = encode_request(request, **way)
    if padding is not None:
        padded = encode_request(request, **way, padded_to=len(encoded) + padding)
        assert padded == encoded + bytes(padding)
        encoded = padded
    assert decode_request(encoded, shortest=True) == request
    with pytest.raises(MalformedMessageError):
        decode_response(encoded)


@given(response=responses, way=ways, padding=st.integers(0, 100))
def test_responses_come_back(response: Response, way: dict[str, bool], padding: int) -> None:
    encoded = encode_response(response, **way)
    assert decode_response(encoded + bytes(padding), shortest=True) == response
    with pytest.raises(MalformedMessageError):
        decode_request(encoded)


def test_content_in_several_chunks_is_joined() -> None:
    head = encode_request(CURL, indeterminate=True, truncated=True)
    assert decode_request(head + b"\x03one\x40\x03two\x00\x01a\x01b\x00").content == b"onetwo"
    assert decode_request(head + b"\x03one\x03two\x00\x01a\x01b\x00").trailers == ((b"a", b"b"),)


def test_connect_and_asterisk_are_written_and_read() -> None:
    for request in (
        Request(method=b"CONNECT", scheme=b"", authority=b"example.com:443", path=b""),
        Request(method=b"OPTIONS", scheme=b"https", authority=b"example.com", path=b"*"),
    ):
        assert decode_request(encode_request(request)) == request


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=b"\xff" * 9)
def test_random_bytes_raise_nothing_but_malformed(data: bytes) -> None:
    for shortest in (False, True):
        for decode in (decode_request, decode_response):
            try:
                decode(data, shortest=shortest)
            except MalformedMessageError:
                continue


@pytest.mark.parametrize("good", [CURL_KNOWN, CURL_INDETERMINATE, APACHE_INDETERMINATE, CHUNKED_KNOWN])
@given(data=st.data())
def test_changed_bytes_raise_nothing_but_malformed(good: bytes, data: st.DataObject) -> None:
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert", "drop"])):
            case "set":
                changed[at] = data.draw(st.integers(0, 255))
            case "cut":
                del changed[at + 1 :]
            case "insert":
                changed[at:at] = data.draw(st.binary(max_size=9))
            case "drop" if len(changed) > 1:
                del changed[at]
    decode = decode_request if good[0] in {0, 2} else decode_response
    try:
        read = decode(bytes(changed))
    except MalformedMessageError:
        return
    # What was read is a message, and can be written.
    if isinstance(read, Request):
        assert decode_request(encode_request(read)) == read
    else:
        assert decode_response(encode_response(read)) == read


@given(junk=st.binary(min_size=1, max_size=20).filter(any))
def test_padding_that_is_not_zero_is_refused(junk: bytes) -> None:
    for good in (CURL_INDETERMINATE, encode_request(CURL)):
        with pytest.raises(MalformedMessageError, match="padding"):
            decode_request(good + junk)


def test_integers_longer_than_needed_are_read_unless_the_shortest_are_asked_for() -> None:
    for written in ("40 03", "80 00 00 03", "c0 00 00 00 00 00 00 03"):
        data = CURL_KNOWN[:1] + bytes.fromhex(written) + CURL_KNOWN[2:]
        assert decode_request(data) == CURL
        with pytest.raises(MalformedMessageError, match="more bytes than it needs"):
            decode_request(data, shortest=True)


def request_with(**changes: object) -> Request:
    told = {"method": b"GET", "scheme": b"https", "authority": b"example.com", "path": b"/", **changes}
    return Request(**told)  # type: ignore[arg-type]  # a table of faults


BAD_FIELDS: dict[str, tuple[Field, ...]] = {
    "no name": ((b"", b"v"),),
    "upper case": ((b"Host", b"v"),),
    "a blank in the name": ((b"a b", b"v"),),
    "a colon in the name": ((b"a:b", b"v"),),
    "a name beyond ASCII": ((b"\xc3\xa9", b"v"),),
    "a name with a line end": ((b"a\n", b"v"),),
    "a colon alone": ((b":", b"v"),),
    "control data as a field": ((b":method", b"GET"),),
    "a status as a field": ((b":status", b"200"),),
    "a pseudo-field after a field": ((b"a", b"b"), (b":protocol", b"v")),
    "a line end in the value": ((b"a", b"b\nc"),),
    "a carriage return in the value": ((b"a", b"b\r"),),
    "a zero byte in the value": ((b"a", b"\0"),),
    "a blank before the value": ((b"a", b" b"),),
    "a tab after the value": ((b"a", b"b\t"),),
}
BAD_REQUESTS = {
    "no method": request_with(method=b""),
    "a method with a blank": request_with(method=b"GE T"),
    "no scheme": request_with(scheme=b""),
    "a scheme with a colon": request_with(scheme=b"https:"),
    "no path": request_with(path=b""),
    "a path without a slash": request_with(path=b"a"),
    "an asterisk for GET": request_with(path=b"*"),
    "a path with a blank": request_with(path=b"/a b"),
    "a path with a line end": request_with(path=b"/\r\n"),
    "a path beyond ASCII": request_with(path=b"/\xc3\xa9"),
    "an authority with a blank": request_with(authority=b"a b"),
    "an authority that names a user": request_with(authority=b"me@example.com"),
    "CONNECT with a path": request_with(method=b"CONNECT"),
    "CONNECT without authority": request_with(method=b"CONNECT", scheme=b"", path=b"", authority=b""),
    "a pseudo-field among the trailers": request_with(trailers=((b":protocol", b"v"),)),
    **{f"headers: {why}": request_with(headers=bad) for why, bad in BAD_FIELDS.items()},
    **{f"trailers: {why}": request_with(trailers=bad) for why, bad in BAD_FIELDS.items()},
}
BAD_RESPONSES = {
    "a status of 99": Response(status=99),
    "a status of 600": Response(status=600),
    "an informational status as the last": Response(status=199),
    "a final status as an informational": Response(status=200, informational=(InformationalResponse(status=200),)),
    "an informational with a bad field": Response(
        status=200, informational=(InformationalResponse(status=100, headers=((b"A", b""),)),)
    ),
}


def unchecked(message: Request | Response, monkeypatch: pytest.MonkeyPatch, *, indeterminate: bool) -> bytes:
    """What a careless writer would send."""
    with monkeypatch.context() as patch:
        for check in ("_check_control_data", "_check_fields", "_check_status"):
            patch.setattr(f"secvm.crypto.sealing.binary_http.{check}", lambda *_, **__: None)
        if isinstance(message, Request):
            return encode_request(message, indeterminate=indeterminate)
        return encode_response(message, indeterminate=indeterminate)


@pytest.mark.parametrize("indeterminate", [False, True], ids=["known", "indeterminate"])
@pytest.mark.parametrize("why", BAD_REQUESTS)
def test_bad_requests_are_neither_written_nor_read(
    why: str, monkeypatch: pytest.MonkeyPatch, *, indeterminate: bool
) -> None:
    with pytest.raises(LocalProtocolError):
        encode_request(BAD_REQUESTS[why], indeterminate=indeterminate)
    if "no name" in why and indeterminate:
        return  # there, a name of no bytes is the section's end
    careless = unchecked(BAD_REQUESTS[why], monkeypatch, indeterminate=indeterminate)
    with pytest.raises(MalformedMessageError):
        decode_request(careless)


@pytest.mark.parametrize("indeterminate", [False, True], ids=["known", "indeterminate"])
@pytest.mark.parametrize("why", BAD_RESPONSES)
def test_bad_responses_are_neither_written_nor_read(
    why: str, monkeypatch: pytest.MonkeyPatch, *, indeterminate: bool
) -> None:
    with pytest.raises(LocalProtocolError):
        encode_response(BAD_RESPONSES[why], indeterminate=indeterminate)
    if why == "a final status as an informational":
        return  # read from the front, it is the final one, and what follows is its headers
    careless = unchecked(BAD_RESPONSES[why], monkeypatch, indeterminate=indeterminate)
    with pytest.raises(MalformedMessageError):
        decode_response(careless)


def test_message_longer_than_its_padding_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be padded"):
        encode_request(CURL, padded_to=len(CURL_KNOWN) - 1)


def test_long_lengths_take_no_memory() -> None:
    with pytest.raises(MalformedMessageError):
        decode_request(CURL_KNOWN[:1] + b"\xff" * 8 + CURL_KNOWN[1:])


def test_messages_do_not_print_what_they_hold() -> None:
    request = request_with(path=b"/secret", headers=((b"secret", b"secret"),), content=b"secret")
    response = Response(
        status=200,
        headers=((b"secret", b"secret"),),
        content=b"secret",
        informational=(InformationalResponse(status=100, headers=((b"secret", b"secret"),)),),
    )
    printed = f"{request!r} {response!r} {response.informational!r}"
    assert "secret" not in printed
