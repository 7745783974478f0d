"""Whose salt it is: fixed by public randomness after the experiment was logged, or drawn by its author.

``trust.salt`` gives a device the salt or an error. The auditor tells each fault by itself, and can fetch the records
from the beacons' own servers as well: then it also sees a coordinator that serves none.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.auditor.files import experiment_path
from secvm.auditor.subject import Subject
from secvm.crypto.beacons.records import MAX_RECORD_BYTES, BeaconOutput
from secvm.crypto.beacons.sources import BeaconSource, is_unsafe, round_time, salt_from, verify_beacon
from secvm.errors import BeaconUnavailableError, RemoteProtocolError
from secvm.protocol.documents.experiment import Beacon, HashedBins

VOCABULARY = "no salt: bins are the words of a public vocabulary"
OWN = "drawn by whoever wrote the experiment: nobody can tell how often"
PUBLIC = "fixed by public randomness after the experiment was logged"
DEVELOPMENT = "fixed by a development beacon, which everybody can compute beforehand"
WAITING = "not fixed yet: a beacon's round is still to come"
UNUSED = "never needed: the experiment ended without a round"
UNKNOWN = "not known: what should fix it is missing or wrong"


@dataclass(frozen=True, slots=True)
class CheckedSalt:
    """A salt and where it comes from, in words."""

    words: str
    value: bytes | None = None


class SaltCheck:
    """Checks where the salt of one experiment comes from."""

    def __init__(self, subject: Subject, *, beacons: BeaconSource | None = None) -> None:
        """``beacons``: ask these as well; None takes what the coordinator serves."""
        self._subject, self._beacons = subject, beacons
        self._document, self._findings = subject.document, subject.findings

    def check(self, *, committed_at: int | None, first_opening: int | None, unused: bool = False) -> CheckedSalt:
        """Where the salt comes from; ``committed_at`` is when a quorum had cosigned the experiment.

        ``unused``: it ended without a round. Its beacons may have spoken too early, and that is why; nobody fetched
        them then, and nobody needs to.
        """
        binning, findings = self._document.binning, self._findings
        if not isinstance(binning, HashedBins):
            return CheckedSalt(VOCABULARY)
        if binning.salt is not None:
            findings.warn("the experiment's salt was " + OWN)
            return CheckedSalt(OWN, binning.salt)
        if self._document.log is None:
            findings.fault(
                "salt", "beacons are to fix the salt, and without a log nobody can tell what was known first"
            )
        if unused:
            return CheckedSalt(UNUSED)
        outputs = []
        for index, beacon in enumerate(binning.beacons):
            output = self._output(index, beacon, started=first_opening is not None)
            if output is None:
                continue
            if committed_at is not None and output.at <= committed_at:
                findings.fault("salt", f"round {beacon.round_number} of {beacon.chain} was known when it was logged")
            if first_opening is not None and output.at > first_opening:
                findings.warn("round 1 opened before its salt could be known: nobody can have taken part then")
            outputs.append(output.value)
        if len(outputs) < len(binning.beacons):
            return CheckedSalt(UNKNOWN if any(fault.check == "salt" for fault in findings.faults) else WAITING)
        unsafe = any(is_unsafe(beacon.chain) for beacon in binning.beacons)
        proven = committed_at is not None and not any(fault.check == "salt" for fault in findings.faults)
        words = DEVELOPMENT if unsafe else PUBLIC if proven else UNKNOWN
        return CheckedSalt(words, salt_from(outputs, binning.bins))

    def _output(self, index: int, beacon: Beacon, *, started: bool) -> BeaconOutput | None:
        """What a beacon gave, verified; None, and perhaps a fault, where that cannot be told."""
        findings, record_name = self._findings, f"round {beacon.round_number} of {beacon.chain}"
        if is_unsafe(beacon.chain):
            if self._document.test:
                findings.warn("the experiment's salt is " + DEVELOPMENT)
            else:
                findings.fault("salt", "a development beacon is to fix the salt of an experiment that is no test")
        path, served = experiment_path(self._document.digest, "beacon", index), None
        record = self._subject.read("salt", path, None, most=MAX_RECORD_BYTES)
        if record is None and (started or self._is_past(beacon)):
            findings.fault("salt", f"the record of {record_name}, which fixes the salt, is not served")
        try:
            served = None if record is None else self._verify(beacon, record)
        except RemoteProtocolError as fault:
            findings.fault("salt", f"what is served as {record_name} is not genuine: {fault}")
        fetched = self._fetched(beacon, record_name)
        return served or fetched

    def _fetched(self, beacon: Beacon, record_name: str) -> BeaconOutput | None:
        if self._beacons is None:
            return None
        try:
            return self._verify(beacon, self._beacons.fetch(beacon.chain, beacon.round_number))
        except BeaconUnavailableError as error:
            self._findings.leave_out(f"{record_name} from its own servers: {error}")
        except RemoteProtocolError as fault:
            self._findings.leave_out(f"{record_name} from its own servers: what came is not genuine ({fault})")
        return None

    def _verify(self, beacon: Beacon, record: bytes) -> BeaconOutput:
        unsafe = is_unsafe(beacon.chain)
        return verify_beacon(beacon.chain, beacon.round_number, record, allow_unsafe=unsafe and self._document.test)

    def _is_past(self, beacon: Beacon) -> bool:
        """Whether the round is known by now, as far as its number tells."""
        try:
            at = round_time(beacon.chain, beacon.round_number)
        except RemoteProtocolError:
            return True
        # A coordinator has an hour to fetch and show it.
        return at is not None and at + 3_600_000 < self._subject.now
