"""What an audit finds, while it goes on: faults, warnings, and what it could not look at. Nothing stops at the first.

A **fault** is something that an honest coordinator never shows. A **warning** is allowed and still worth knowing. What
nobody can see from outside is told too, so that "nothing found" is not taken for more than it is.

Where the bytes behind a fault are all signed, they are kept as evidence; each piece is examined before it is kept, as
whoever receives it will.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from secvm.errors import RemoteProtocolError
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.plain import MAX_EVIDENCE_BYTES, Evidence, examine
from secvm.protocol.evidence.relayed import RelayedEvidence

#: Checks of a round, in the order in which reports show them.
ROUND_CHECKS = (
    "signed",
    "chain",
    "window",
    "hours",
    "quota",
    "gateway_key",
    "logged",
    "floor",
    "counts",
    "relay_count",
    "plausible",
    "step",
    "blobs",
)
Mark = Literal["ok", "doubtful", "failed", "not checked"]

#: Enough to know; a server that lies in every round of a million must not fill the memory.
MOST_FAULTS = 1000
_MOST_EVIDENCE = 16
_MOST_WARNINGS = 1000


class EnoughError(Exception):
    """So much is wrong that the rest is not looked at."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that an honest coordinator never shows."""

    #: Which check found it; one of ``ROUND_CHECKS`` where it concerns a round.
    check: str
    #: In one sentence.
    sentence: str
    #: Digest of the experiment; None: it concerns all of them.
    experiment: str | None = None
    round_number: int | None = None
    #: Signed bytes show it to anybody.
    provable: bool = False
    #: Of experiments with two relays: the name of a ``relayed_findings.Found``.
    found: str | None = None


@dataclass
class Findings:
    """What was found of one experiment, or of the coordinator as a whole."""

    experiment: str | None = None
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    #: Files of ``protocol.evidence``, each of which convicts by itself.
    evidence: list[bytes] = field(default_factory=list)
    #: Round to check to mark.
    marks: dict[int, dict[str, Mark]] = field(default_factory=dict)

    def fault(
        self,
        check: str,
        sentence: str,
        *,
        round_number: int | None = None,
        evidence: Evidence | RelayedEvidence | None = None,
        found: str | None = None,
    ) -> None:
        """Something is wrong."""
        provable = evidence is not None and self._keep(evidence)
        fault = Fault(check, sentence, self.experiment, round_number, provable, found)
        if fault not in self.faults:
            self.faults.append(fault)
        if round_number is not None:
            self.marks.setdefault(round_number, {})[check] = "failed"
        if len(self.faults) >= MOST_FAULTS:
            raise EnoughError

    def warn(self, sentence: str) -> None:
        """Something is allowed, and worth knowing."""
        if sentence not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(sentence)

    def doubt(self, check: str, sentence: str, *, round_number: int) -> None:
        """Something about a round is unlikely, and the coordinator need not be to blame."""
        self.warn(f"round {round_number}: {sentence}")
        self.marks.setdefault(round_number, {}).setdefault(check, "doubtful")

    def leave_out(self, sentence: str) -> None:
        """Something could not be looked at."""
        if sentence not in self.not_checked and len(self.not_checked) < _MOST_WARNINGS:
            self.not_checked.append(sentence)

    def passed(self, round_number: int, *checks: str) -> None:
        """Checks of a round that found nothing; one that has failed stays failed."""
        marks = self.marks.setdefault(round_number, {})
        for check in checks:
            marks.setdefault(check, "ok")

    def has_failed(self, round_number: int, check: str) -> bool:
        """Whether a check of a round has found something already."""
        return self.marks.get(round_number, {}).get(check) == "failed"

    def first_fault(self, round_number: int) -> Fault | None:
        """The first thing that was found wrong with a round."""
        return next((fault for fault in self.faults if fault.round_number == round_number), None)

    def _keep(self, evidence: Evidence | RelayedEvidence) -> bool:
        data = evidence.to_bytes()
        if len(data) > MAX_EVIDENCE_BYTES:
            return False
        try:
            if isinstance(evidence, RelayedEvidence):
                examine_relayed(data)
            else:
                examine(data)
        except RemoteProtocolError:
            return False
        if data not in self.evidence and len(self.evidence) < _MOST_EVIDENCE:
            self.evidence.append(data)
        return True
