"""Live against strangers: npm's @hpke/core (with its X-Wing) and bhttp-js, in both directions."""

import os
from collections.abc import Iterator

import pytest

from secvm.crypto.sealing import kem
from secvm.crypto.sealing.binary_http import (
    InformationalResponse,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from secvm.crypto.sealing.oblivious import (
    GatewayKey,
    GatewayKeys,
    decode_key_configurations,
    seal_request,
)
from secvm.errors import OpeningError
from tests.deep.strangers.node import Stranger, speaking


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    with speaking("seal.mjs") as process:
        yield process


KINDS = pytest.mark.parametrize("kem_id", [kem.X25519, kem.MLKEM768_X25519], ids=["X25519", "hybrid"])


@KINDS
def test_strangers_client_speaks_with_our_gateway(stranger: Stranger, kem_id: int) -> None:
    make = kem.X25519PrivateKey if kem_id == kem.X25519 else kem.HybridPrivateKey
    key = GatewayKey(5, make.generate(os.urandom))
    asked = stranger(
        "seal_request",
        configuration=key.configuration.to_bytes().hex(),
        method="POST",
        url="https://gateway.example/packages",
        headers={"content-type": "application/octet-stream", "x-long": "v" * 100},
        body=os.urandom(64).hex(),
    )
    opened = GatewayKeys([key]).open(bytes.fromhex(asked["capsule"]))
    assert opened.request.hex() == asked["plain"]
    request = decode_request(opened.request)
    assert (request.method, request.scheme, request.authority) == (b"POST", b"https", b"gateway.example")
    assert request.path == b"/packages"
    assert dict(request.headers) == {b"content-type": b"application/octet-stream", b"x-long": b"v" * 100}
    # One way to encode, theirs and ours.
    assert encode_request(request) == opened.request
    answer = Response(status=202, headers=((b"content-type", b"text/plain"),), content=b"counted")
    for encoded in (
        encode_response(answer),
        encode_response(answer, truncated=True, padded_to=200),
        encode_response(answer, indeterminate=True, padded_to=200),
    ):
        told = stranger("open_response", id=asked["id"], capsule=opened.seal_response(encoded, os.urandom).hex())
        assert (told["status"], told["headers"]) == (202, {"content-type": "text/plain"})
        assert bytes.fromhex(told["body"]) == b"counted"


@KINDS
@pytest.mark.parametrize("indeterminate", [False, True], ids=["known", "indeterminate"])
def test_our_client_speaks_with_strangers_gateway(stranger: Stranger, kem_id: int, *, indeterminate: bool) -> None:
    made = stranger("make_key", keyId=9, kem=kem_id)
    (configuration,) = decode_key_configurations(bytes.fromhex(made["keys"]))
    assert configuration.public_key.kem_id == kem_id
    package = os.urandom(64)
    request = Request(
        method=b"PUT",
        scheme=b"https",
        authority=b"gateway.example",
        path=b"/capsules/1?a=b",
        headers=((b"content-type", b"application/octet-stream"),),
        content=package,
        trailers=((b"x-trailer", b"yes"),),
    )
    encoded = encode_request(request, indeterminate=indeterminate, padded_to=300)
    sealed = seal_request(configuration, encoded, os.urandom)
    told = stranger("open_request", id=made["id"], capsule=sealed.capsule.hex())
    assert (told["method"], told["url"]) == ("PUT", "https://gateway.example/capsules/1?a=b")
    assert told["headers"] == {"content-type": "application/octet-stream"}
    assert bytes.fromhex(told["body"]) == package
    answered = stranger("seal_response", id=told["id"], status=404, headers={"x-why": "none"}, body=b"no".hex())
    answer = bytes.fromhex(answered["capsule"])
    response = decode_response(sealed.open_response(answer))
    assert (response.status, response.content) == (404, b"no")
    assert dict(response.headers)[b"x-why"] == b"none"
    with pytest.raises(OpeningError):
        sealed.open_response(answer[:-1] + bytes([answer[-1] ^ 1]))


@KINDS
def test_stranger_refuses_what_was_changed(stranger: Stranger, kem_id: int) -> None:
    made = stranger("make_key", keyId=9, kem=kem_id)
    (configuration,) = decode_key_configurations(bytes.fromhex(made["keys"]))
    request = Request(method=b"GET", scheme=b"https", authority=b"gateway.example", path=b"/")
    capsule = bytearray(seal_request(configuration, encode_request(request), os.urandom).capsule)
    assert "error" not in stranger.try_to("open_request", id=made["id"], capsule=capsule.hex())
    capsule[-1] ^= 1
    assert "error" in stranger.try_to("open_request", id=made["id"], capsule=capsule.hex())


@pytest.mark.parametrize("indeterminate", [False, True], ids=["known", "indeterminate"])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 16383, 16384, 100_000])
def test_stranger_reads_our_responses_of_every_length(stranger: Stranger, length: int, *, indeterminate: bool) -> None:
    response = Response(
        status=200,
        headers=((b"a", b"1"), (b"b", b"v" * min(length, 2000))),
        content=b"c" * length,
        informational=(InformationalResponse(status=103, headers=((b"link", b"</a>"),)),),
    )
    encoded = encode_response(response, indeterminate=indeterminate)
    told = stranger("decode", kind="response", data=encoded.hex())
    assert (told["status"], told["headers"]) == (200, {"a": "1", "b": "v" * min(length, 2000)})
    assert bytes.fromhex(told["body"]) == response.content
