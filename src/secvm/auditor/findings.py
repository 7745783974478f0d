"""What an audit finds, while it goes on: faults, warnings, and what it could not look at. Nothing stops at the first.

A **fault** is something that an honest coordinator never shows. A **warning** is allowed and still worth knowing. What
nobody can see from outside is told too, so that "nothing found" is not taken for more than it is.

Where the bytes behind a fault are all signed, they are kept as evidence; each piece is examined before it is kept, as
whoever receives it will.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

from secvm.errors import RemoteProtocolError
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.plain import MAX_EVIDENCE_BYTES, Evidence, examine
from secvm.protocol.evidence.relayed import RelayedEvidence, Who

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

#: Checks of a round with two relays, in the order in which reports show them.
RELAYED_CHECKS = (
    "signed",
    "chain",
    "logged",
    "window",
    "commitments",
    "statements",
    "counts",
    "reveals",
    "opened",
    "step",
    "blobs",
    "parts",
    "capsules",
    "doors",
)

_KEEP = "keep the evidence, and show it to people who take part"
_ASK_C = "ask the coordinator's operator for the signed file"

#: Enough to know; a server that lies in every round of a million must not fill the memory.
MOST_FAULTS = 1000
_MOST_EVIDENCE = 16
_MOST_WARNINGS = 1000


class FaultKind(enum.Enum):
    """What an auditor can find wrong with a round of two relays: whose fault it is, and the sentence people read.

    Programs go by the name, so that a sentence can be written better without changing a verdict. An unopened round is
    no fault: any of the parties may have been down.
    """

    MANIFEST_UNREADABLE = (Who.COORDINATOR, "signed", "its manifest cannot be believed", _ASK_C)
    MANIFEST_NOT_SHOWN = (Who.COORDINATOR, "chain", "its manifest is not served, and later ones are", _ASK_C)
    BROKEN_CHAIN = (Who.COORDINATOR, "chain", "its manifest does not continue what was before", _KEEP)
    WINDOW = (Who.COORDINATOR, "window", "its instants do not follow from the experiment", _KEEP)
    COMMITMENT = (Who.COORDINATOR, "commitments", "its manifest lacks a relay's own commitment", _KEEP)
    USED_BEFORE = (Who.COORDINATOR, "commitments", "a count key or commitment is used a second time", _KEEP)
    OPENING_NOT_SHOWN = (Who.COORDINATOR, "opened", "its opening is named and not served", _ASK_C)
    OPENING_UNREADABLE = (Who.COORDINATOR, "opened", "its opening cannot be believed", _ASK_C)
    OTHER_OPENING = (Who.COORDINATOR, "chain", "the document after it names another opening", _KEEP)
    FALSE_OPENING = (Who.COORDINATOR, "opened", "it is called opened, and its opening is false", _KEEP)
    FORGED_STATEMENT = (
        Who.COORDINATOR,
        "statements",
        "its opening holds what no relay signed for it",
        "ask the relays for theirs",
    )
    SEED = (Who.COORDINATOR, "opened", "the published seed is not the count key's", _KEEP)
    ENTRY_EQUATION = (Who.ENTRY, "counts", "the entry relay's capsules are not B · M + D", _KEEP)
    MIX_EQUATION = (Who.MIX, "counts", "the mixing relay's capsules are not n₁ − refused + D", _KEEP)
    COUNTS_DISAGREE = (
        Who.EITHER,
        "counts",
        "the relays name different counts or reveals of each other",
        "ask at both relays' doors",
    )
    TWO_STATEMENTS_OF_ENTRY = (Who.ENTRY, "statements", "the entry relay signed two for one", _KEEP)
    TWO_STATEMENTS_OF_MIX = (Who.MIX, "statements", "the mixing relay signed two for one", _KEEP)
    ENTRY_REVEAL = (Who.ENTRY, "reveals", "the entry relay opened what it was not bound to", _KEEP)
    MIX_REVEAL = (Who.MIX, "reveals", "the mixing relay opened what it was not bound to", _KEEP)
    TALLY = (Who.COORDINATOR, "step", "its net tally is named and not to be had", _ASK_C)
    FIRST_MODEL = (Who.COORDINATOR, "step", "the first model is not zero", _KEEP)
    STEP = (Who.COORDINATOR, "step", "the model after it does not follow from its net tally", _KEEP)
    BLOBS = (Who.COORDINATOR, "blobs", "a state or weights are not served as they were signed", _ASK_C)
    RUNS = (Who.COORDINATOR, "capsules", "the digests in public are not those that the mixing relay signed", _ASK_C)
    PART_OF_ENTRY = (
        Who.EITHER,
        "parts",
        "a capsule of the entry relay's opened part was not handed on",
        "ask a relay for the digests of the entry relay's batch: they tell which of the two",
    )
    PART_DROPPED_BY_ENTRY = (Who.ENTRY, "parts", "the entry relay's opened part is not in its own batch", _KEEP)
    PART_DROPPED_BY_MIX = (Who.MIX, "parts", "the mixing relay left out what was in the entry relay's batch", _KEEP)
    PART_OF_MIX = (Who.MIX, "parts", "the mixing relay's opened part is not in what it handed on", _KEEP)
    CAPSULES = (Who.COORDINATOR, "capsules", "capsules in public are not those of their digests", _ASK_C)
    SHARDS = (Who.COORDINATOR, "capsules", "a sub-tally in public is not under the root of the shards", _ASK_C)
    COUNT = (Who.COORDINATOR, "capsules", "its capsules, counted again, do not give a signed sub-tally", _KEEP)
    RAW = (Who.COORDINATOR, "capsules", "its sub-tallies together are not net tally and opened parts", _KEEP)
    WITHHELD = (
        Who.COORDINATOR,
        "capsules",
        "capsules that must still be public are not served",
        "look again in an hour",
    )
    ENDING = (Who.COORDINATOR, "chain", "the ending cannot be believed, or does not follow", _KEEP)

    def __init__(self, who: Who, check: str, what: str, next_step: str) -> None:
        #: Whom it concerns.
        self.who = who
        #: Which of ``RELAYED_CHECKS`` finds it.
        self.check = check
        self._what, self._next_step = what, next_step

    def sentence(self, detail: str = "") -> str:
        """Who, what and the next step in one sentence; ``detail`` says more of this case."""
        more = f" ({detail})" if detail else ""
        return f"{self.who.value}: {self._what}{more}; {self._next_step}"


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
    #: Of experiments with two relays.
    kind: FaultKind | None = None


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
        kind: FaultKind | None = None,
    ) -> None:
        """Something is wrong."""
        provable = evidence is not None and self._keep(evidence)
        fault = Fault(check, sentence, self.experiment, round_number, provable, kind)
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
