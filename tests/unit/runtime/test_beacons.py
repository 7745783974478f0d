"""Records of beacons over a real socket: a server on this machine that serves what real beacons said."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from secvm.crypto.beacons.records import MAX_RECORD_BYTES
from secvm.crypto.beacons.sources import QUICKNET, verify_beacon
from secvm.errors import BadBeaconError, BadInputError, BeaconUnavailableError
from secvm.runtime.beacons import WebBeacons
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
Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def give(content: bytes) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


@contextmanager
def serving(answers: dict[str, Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            if answer is None:
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def source(url: str, *, drand: tuple[str, ...] = ("/drand",), issuers: bytes = b"") -> WebBeacons:
    urls = [url + path for path in drand]
    return WebBeacons(nist_url=url + "/nist", drand_urls=urls, issuers=issuers)


def test_what_servers_serve_verifies() -> None:
    with serving({path: give(content) for path, content in SERVED.items()}) as url:
        beacons = source(url)
        assert verify_beacon(NIST, PULSE, beacons.fetch(NIST, PULSE)).value == OUTPUT
        assert verify_beacon(DRAND, ROUND, beacons.fetch(DRAND, ROUND)).value == RANDOMNESS


def test_issuers_come_behind_the_certificate() -> None:
    with serving({path: give(content) for path, content in SERVED.items()}) as url:
        record = source(url, issuers=CERTIFICATE).fetch(NIST, PULSE)
    assert record.count(b"BEGIN CERTIFICATE") == 2
    assert verify_beacon(NIST, PULSE, record).value == OUTPUT


def test_round_that_is_not_there_yet_can_be_asked_for_again() -> None:
    with serving({}) as url:
        for chain in (NIST, DRAND):
            with pytest.raises(BeaconUnavailableError):
                source(url).fetch(chain, 7)


def test_another_drand_server_is_asked_when_one_has_nothing() -> None:
    with serving({ROUND_PATH: give(DRAND_RECORD)}) as url:
        assert source(url, drand=("/nobody", "/drand")).fetch(DRAND, ROUND) == DRAND_RECORD


def test_nobody_at_the_address_is_unavailable() -> None:
    with serving({}) as url:
        pass
    with pytest.raises(BeaconUnavailableError):
        source(url).fetch(DRAND, ROUND)


def test_answer_too_long_is_refused() -> None:
    with serving({ROUND_PATH: give(bytes(MAX_RECORD_BYTES + 1))}) as url, pytest.raises(BadBeaconError):
        source(url).fetch(DRAND, ROUND)


def test_answer_that_leads_elsewhere_is_not_followed() -> None:
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", ROUND_PATH)
        request.end_headers()

    moved = ROUND_PATH.replace("/drand", "/moved")
    with serving({moved: elsewhere, ROUND_PATH: give(DRAND_RECORD)}) as url, pytest.raises(BeaconUnavailableError):
        source(url, drand=("/moved",)).fetch(DRAND, ROUND)


def test_answer_that_is_no_http_is_unavailable() -> None:
    def noise(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"noise\r\n\r\n")

    with serving({ROUND_PATH: noise}) as url, pytest.raises(BeaconUnavailableError):
        source(url).fetch(DRAND, ROUND)


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
def test_answer_that_names_no_certificate_is_refused(content: bytes) -> None:
    with serving({PULSE_PATH: give(content)}) as url, pytest.raises(BadBeaconError):
        source(url).fetch(NIST, PULSE)


def test_only_known_chains_and_rounds_are_asked_for() -> None:
    with serving({}) as url:
        for chain, number in (("drand", 7), ("", 7), (DRAND, 0), (NIST, 2**53)):
            with pytest.raises(BadBeaconError):
                source(url).fetch(chain, number)


def test_development_beacon_needs_no_network() -> None:
    with serving({}) as url:
        record = source(url).fetch("local-unsafe", 7)
    assert verify_beacon("local-unsafe", 7, record, allow_unsafe=True).at == 7000


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host", "", "host"])
def test_addresses_are_of_the_web(url: str) -> None:
    for given in ({"nist_url": url}, {"drand_urls": [url]}):
        with pytest.raises(BadInputError):
            WebBeacons(**given)
    with pytest.raises(BadInputError):
        WebBeacons(drand_urls=[])


def test_the_newest_pulse_is_told_with_its_number_and_time() -> None:
    with serving({"/nist/pulse/last": give(SERVED_PULSE)}) as url:
        assert source(url).newest_pulse(1) == (PULSE, 1_535_651_040_000)


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
def test_what_is_no_newest_pulse_of_this_chain_is_refused(pulse: object) -> None:
    with (
        serving({"/nist/pulse/last": give(json.dumps({"pulse": pulse}).encode())}) as url,
        pytest.raises(BadBeaconError),
    ):
        source(url).newest_pulse(1)
