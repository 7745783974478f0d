"""Records of beacons over a real socket: a server on this machine that serves what real beacons said."""

import json
from collections.abc import Iterator

import pytest

from secvm.crypto.beacons.sources import QUICKNET, verify_beacon
from secvm.errors import BadBeaconError, BadInputError, BeaconUnavailableError
from secvm.runtime.beacons import WebBeacons
from tests.serving import Server, serving
from tests.unit.crypto.recorded_beacons import (
    CERTIFICATE,
    DRAND,
    DRAND_RECORD,
    NIST,
    OUTPUT,
    PULSE,
    RANDOMNESS,
    RECORDED,
    ROUND,
    SERVED_PULSE,
)

CERTIFICATE_ID = RECORDED["nist"]["served"]["pulse"]["certificateId"]
PULSE_PATH = f"/nist/chain/1/pulse/{PULSE}"
ROUND_PATH = f"/drand/{QUICKNET.chain_hash}/public/{ROUND}"
SERVED = {
    PULSE_PATH: SERVED_PULSE,
    f"/nist/certificate/{CERTIFICATE_ID}": CERTIFICATE,
    ROUND_PATH: DRAND_RECORD,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(SERVED) as running:
        yield running


def source(url: str, *, drand: tuple[str, ...] = ("/drand",), issuers: bytes = b"") -> WebBeacons:
    urls = [url + path for path in drand]
    return WebBeacons(nist_url=url + "/nist", drand_urls=urls, issuers=issuers)


def test_what_servers_serve_verifies_with_issuers_behind_the_certificate(server: Server) -> None:
    beacons = source(server.url, issuers=CERTIFICATE)
    record = beacons.fetch(NIST, PULSE)
    assert record.count(b"BEGIN CERTIFICATE") == 2
    assert verify_beacon(NIST, PULSE, record).value == OUTPUT
    assert verify_beacon(DRAND, ROUND, beacons.fetch(DRAND, ROUND)).value == RANDOMNESS


def test_round_that_is_not_there_yet_can_be_asked_for_again(server: Server) -> None:
    for chain in (NIST, DRAND):
        with pytest.raises(BeaconUnavailableError):
            source(server.url).fetch(chain, 7)


def test_another_drand_server_is_asked_when_one_has_nothing(server: Server) -> None:
    assert source(server.url, drand=("/nobody", "/drand")).fetch(DRAND, ROUND) == DRAND_RECORD


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[" * 60_000,
        b"\xff",
        json.dumps({"pulse": {}}).encode(),
        json.dumps({"pulse": {"certificateId": "../../secret"}}).encode(),
        json.dumps({"pulse": {"certificateId": "00"}}).encode(),
        json.dumps({"pulse": {"certificateId": 7}}).encode(),
    ],
)
def test_answer_that_names_no_certificate_is_refused(server: Server, content: bytes) -> None:
    server.serve({PULSE_PATH: content})
    with pytest.raises(BadBeaconError):
        source(server.url).fetch(NIST, PULSE)


def test_only_known_chains_and_rounds_are_asked_for(server: Server) -> None:
    for chain, number in (("drand", 7), ("", 7), (DRAND, 0), (NIST, 2**53)):
        with pytest.raises(BadBeaconError):
            source(server.url).fetch(chain, number)
    # The development beacon needs no network.
    assert verify_beacon("local-unsafe", 7, source(server.url).fetch("local-unsafe", 7), allow_unsafe=True).at == 7000
    assert server.asked == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host", "", "host"])
def test_addresses_are_of_the_web(url: str) -> None:
    for given in ({"nist_url": url}, {"drand_urls": [url]}):
        with pytest.raises(BadInputError):
            WebBeacons(**given)
    with pytest.raises(BadInputError):
        WebBeacons(drand_urls=[])


def test_the_newest_pulse_is_told_with_its_number_and_time(server: Server) -> None:
    server.serve({"/nist/pulse/last": SERVED_PULSE})
    assert source(server.url).newest_pulse(1) == (PULSE, 1_535_651_040_000)


@pytest.mark.parametrize(
    "pulse",
    [
        {"chainIndex": 2, "pulseIndex": 5, "timeStamp": "2018-08-30T17:44:00.000Z"},
        {"chainIndex": 1, "pulseIndex": 0, "timeStamp": "2018-08-30T17:44:00.000Z"},
        {"chainIndex": 1, "pulseIndex": "5", "timeStamp": "2018-08-30T17:44:00.000Z"},
        {"chainIndex": 1, "pulseIndex": 5, "timeStamp": "2018-08-30T17:44:00.000"},
        {"chainIndex": 1, "pulseIndex": 5, "timeStamp": "yesterday"},
        {"chainIndex": 1},
        [],
    ],
)
def test_what_is_no_newest_pulse_of_this_chain_is_refused(server: Server, pulse: object) -> None:
    server.serve({"/nist/pulse/last": json.dumps({"pulse": pulse}).encode()})
    with pytest.raises(BadBeaconError):
        source(server.url).newest_pulse(1)
