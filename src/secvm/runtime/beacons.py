"""Beacons over the network: records of rounds from NIST's and drand's public servers, with limits.

What comes is not looked at here: ``crypto.beacons.sources.verify_beacon`` says whether it is genuine, so it does not
matter who answered. It does matter who *asks*: a device that asks for an experiment's rounds tells the beacon's servers
that it takes part. Records are therefore fetched once by whoever publishes or audits an experiment, and devices take
them with the experiment.

Blocking, on purpose: it is called once in an experiment's life, from a thread or from the command line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from secvm.crypto.beacons.records import MAX_RECORD_BYTES
from secvm.crypto.beacons.sources import DRAND_CHAINS, MAX_ROUND, LocalUnsafeBeacon, is_unsafe, nist_chain_index
from secvm.errors import BadBeaconError, BadInputError, BeaconUnavailableError, UnreachableError
from secvm.runtime.http.client import ask_blocking, checked_url

NIST_URL = "https://beacon.nist.gov/beacon/2.0"
DRAND_URLS = ("https://api.drand.sh", "https://api2.drand.sh", "https://api3.drand.sh")
#: For one answer, all of it.
TIMEOUT_S = 20.0


class WebBeacons:
    """A ``BeaconSource`` that asks the beacons' own servers, and has the development beacon at hand."""

    def __init__(
        self,
        *,
        nist_url: str = NIST_URL,
        drand_urls: Sequence[str] = DRAND_URLS,
        issuers: bytes = b"",
    ) -> None:
        """``issuers`` are certificates as PEM that lead from NIST's to a pinned one: NIST serves its own alone."""
        if not drand_urls:
            raise BadInputError("drand has at least one address")
        self._nist_url = checked_url(nist_url, "a beacon's address")
        self._drand_urls = tuple(checked_url(url, "a beacon's address") for url in drand_urls)
        self._issuers = issuers

    def fetch(self, chain: str, round_number: int) -> bytes:
        if not 1 <= round_number <= MAX_ROUND:
            raise BadBeaconError("a beacon has no round of this number")
        if is_unsafe(chain):
            return LocalUnsafeBeacon().fetch(chain, round_number)
        index = nist_chain_index(chain)
        if index is not None:
            return self._nist(index, round_number)
        if chain not in DRAND_CHAINS:
            raise BadBeaconError("nobody here knows a beacon of this name")
        return self._drand(DRAND_CHAINS[chain].chain_hash, round_number)

    def newest_pulse(self, chain_index: int) -> tuple[int, int]:
        """Index and instant, in milliseconds, of the newest pulse of this chain of NIST's, as it is said; unverified.

        Raises ``BeaconUnavailableError`` and ``BadBeaconError``, as ``fetch`` does.
        """
        try:
            pulse = json.loads(self._get(f"{self._nist_url}/pulse/last"))["pulse"]
            chain, index, at = pulse["chainIndex"], pulse["pulseIndex"], datetime.fromisoformat(pulse["timeStamp"])
            at_ms = int(at.timestamp() * 1000)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            raise BadBeaconError("NIST's answer is no pulse") from None
        if chain != chain_index or not isinstance(index, int) or not 1 <= index <= MAX_ROUND or at.tzinfo is None:
            raise BadBeaconError("NIST's newest pulse is of another chain, or has no number")
        return index, at_ms

    def _drand(self, chain_hash: str, round_number: int) -> bytes:
        *others, last = self._drand_urls
        for url in others:
            try:
                return self._get(f"{url}/{chain_hash}/public/{round_number}")
            except BeaconUnavailableError:
                continue
        return self._get(f"{last}/{chain_hash}/public/{round_number}")

    def _nist(self, chain_index: int, pulse_index: int) -> bytes:
        pulse = self._get(f"{self._nist_url}/chain/{chain_index}/pulse/{pulse_index}")
        try:
            certificate_id = bytes.fromhex(json.loads(pulse)["pulse"]["certificateId"]).hex()
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BadBeaconError("NIST's answer is no pulse") from None
        if len(certificate_id) != 128:
            raise BadBeaconError("NIST's answer is no pulse")
        certificate = self._get(f"{self._nist_url}/certificate/{certificate_id}")
        return b"\n".join((pulse, certificate, self._issuers))

    def _get(self, url: str) -> bytes:
        try:
            answer = ask_blocking(url, answer_s=TIMEOUT_S, most=MAX_RECORD_BYTES)
        except UnreachableError as fault:
            raise BeaconUnavailableError(f"the beacon does not answer: {fault}") from None
        if answer.status != 200:
            raise BeaconUnavailableError("the beacon has no such round, or not yet")
        if len(answer.content) > MAX_RECORD_BYTES:
            raise BadBeaconError("the beacon's answer is too long")
        return answer.content
