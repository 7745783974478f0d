"""What stands under a seal reads as it was written, by whoever wrote it, and its length says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing import binary_http
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.plain.sealed_requests import (
    REQUEST_BYTES,
    Answer,
    FetchRequest,
    PackageRequest,
    fetch_answer,
    fetch_request,
    package_in,
    package_request,
    read_answer,
    read_request,
)

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@given(st.binary(min_size=32, max_size=32))
def test_a_package_is_read_as_it_was_written(package: bytes) -> None:
    request = package_request(package)
    assert len(request) == REQUEST_BYTES
    assert read_request(request) == PackageRequest(package)
    assert package_in(request) == package
    assert binary_http.decode_request(request).content == package


@given(
    package=st.binary(max_size=40),
    indeterminate=st.booleans(),
    authority=st.sampled_from([b"", b"gateway.invalid", b"gateway.example"]),
    padding=st.integers(0, 50),
)
def test_a_strangers_way_to_write_it_means_the_same(
    package: bytes, indeterminate: bool, authority: bytes, padding: int
) -> None:
    strange = binary_http.Request(
        method=b"POST",
        scheme=b"https",
        authority=authority,
        path=b"/v1/packages",
        headers=((b"content-type", b"application/octet-stream"),),
        content=package,
    )
    written = binary_http.encode_request(strange, indeterminate=indeterminate) + bytes(padding)
    assert read_request(written) == PackageRequest(package)
    assert package_in(written) == package


@given(st.integers(0, REQUEST_BYTES - 1), st.integers(1, 255))
def test_a_changed_byte_is_never_taken_for_the_same_package(at: int, flip: int) -> None:
    package = bytes(range(32))
    data = bytearray(package_request(package))
    data[at] ^= flip
    try:
        read = read_request(bytes(data))
    except MalformedMessageError:
        return
    # A letter of the authority, or of the scheme: what strangers may choose.
    same = data[-33:-1] == package and data[:6] == package_request(package)[:6]
    assert read != PackageRequest(package) or same


def test_a_fetch_is_no_package() -> None:
    assert read_request(fetch_request("/v1/keys")) == FetchRequest("/v1/keys")
    with pytest.raises(MalformedMessageError):
        package_in(fetch_request("/v1/keys"))


@given(st.integers(200, 599), st.binary(max_size=3000))
def test_answers_to_fetches_are_padded_in_steps(status: int, content: bytes) -> None:
    answer = fetch_answer(status, content, DATE)
    # Under its seal: a nonce of 16 bytes and a tag of 16 more.
    assert (len(answer) + 32) % 4096 == 0
    assert len(answer) - len(content) < 4096 + 64
    assert read_answer(answer) == Answer(status, content, DATE)


def test_two_dates_are_none() -> None:
    twice = binary_http.Response(status=200, headers=((b"date", b"x"), (b"date", b"x")))
    other = binary_http.Response(status=200, headers=((b"date", b"\xff"),))
    for response in (twice, other):
        with pytest.raises(MalformedMessageError):
            read_answer(binary_http.encode_response(response))


def test_what_cannot_be_written_is_our_own_fault() -> None:
    for wrong in (
        lambda: package_request(bytes(31)),
        lambda: fetch_request("/é"),
        lambda: fetch_request("keys"),
        lambda: fetch_answer(200, b"", "é"),
    ):
        with pytest.raises(LocalProtocolError):
            wrong()


def test_nothing_under_a_seal_prints_itself() -> None:
    shown = repr((PackageRequest(b"secret"), FetchRequest("/secret"), Answer(200, b"secret")))
    assert "secret" not in shown


def test_repro_a_relay_does_not_see_by_its_length_what_is_fetched() -> None:
    # Fresh looks at the log and manifests that were missed had lengths of their own.
    digest, names = "0" * 64, ("manifest/latest", "manifest/1048575", "proof/1048576", "ending", "first")
    place = f"/v1/experiment/{digest}"
    paths = ["/v1/keys", place, f"/v1/blob/{digest}", f"/secvm/v1/{digest}/checkpoint"]
    paths += [f"{place}/{name}" for name in (*names, "beacon/7", "opening/1048575", "shards/1048575", "news/1048575")]
    paths += [f"{place}/{kind}/1048575/{2**32 - 1}" for kind in ("shard", "capsules", "tally")]
    assert {len(fetch_request(path)) for path in paths} == {256}
    assert [read_request(fetch_request(path)) for path in paths] == [FetchRequest(path) for path in paths]
