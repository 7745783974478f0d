"""Binary HTTP: the RFC's examples, round trips, and everything that must be refused."""

import pytest
from hypothesis import given
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
from tests.rigs.vectors import vectors

#: The examples of RFC 9292 §5, in its order.
CURL_KNOWN, CURL_INDETERMINATE, APACHE_INDETERMINATE, CHUNKED_KNOWN = (
    bytes.fromhex(case["bytes"]) for case in vectors("sealing_messages")["cases"][:4]
)
CURL = decode_request(CURL_KNOWN)


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
    assert decode_request(encoded) == request
    with pytest.raises(MalformedMessageError):
        decode_response(encoded)


@given(response=responses, way=ways, padding=st.integers(0, 100))
def test_responses_come_back(response: Response, way: dict[str, bool], padding: int) -> None:
    encoded = encode_response(response, **way)
    assert decode_response(encoded + bytes(padding)) == response
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


@given(junk=st.binary(min_size=1, max_size=20).filter(any))
def test_padding_that_is_not_zero_is_refused(junk: bytes) -> None:
    for good in (CURL_INDETERMINATE, encode_request(CURL)):
        with pytest.raises(MalformedMessageError, match="padding"):
            decode_request(good + junk)


def test_integers_longer_than_needed_are_read() -> None:
    for written in ("40 03", "80 00 00 03", "c0 00 00 00 00 00 00 03"):
        data = CURL_KNOWN[:1] + bytes.fromhex(written) + CURL_KNOWN[2:]
        assert decode_request(data) == CURL


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
BAD_REQUESTS: dict[str, Request | Response] = {
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
BAD_RESPONSES: dict[str, Request | Response] = {
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
        return encode(message, indeterminate=indeterminate)


def encode(message: Request | Response, *, indeterminate: bool) -> bytes:
    if isinstance(message, Request):
        return encode_request(message, indeterminate=indeterminate)
    return encode_response(message, indeterminate=indeterminate)


#: Read in this framing they are another message: a name of no bytes ends its section, and a final status is final.
ANOTHER = {(f"{part}: no name", True) for part in ("headers", "trailers")} | {
    ("a final status as an informational", framing) for framing in (False, True)
}


@pytest.mark.parametrize("indeterminate", [False, True], ids=["known", "indeterminate"])
@pytest.mark.parametrize("why", [*BAD_REQUESTS, *BAD_RESPONSES])
def test_bad_messages_are_neither_written_nor_read(
    why: str, monkeypatch: pytest.MonkeyPatch, *, indeterminate: bool
) -> None:
    message = (BAD_REQUESTS | BAD_RESPONSES)[why]
    with pytest.raises(LocalProtocolError):
        encode(message, indeterminate=indeterminate)
    if (why, indeterminate) not in ANOTHER:
        careless = unchecked(message, monkeypatch, indeterminate=indeterminate)
        with pytest.raises(MalformedMessageError):
            (decode_request if isinstance(message, Request) else decode_response)(careless)


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
