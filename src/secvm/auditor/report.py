"""What an audit found, as values: for people, for programs (``to_content`` has stable keys), and for the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from secvm.auditor.findings import ROUND_CHECKS, Fault, Findings, Mark
from secvm.auditor.relayed_findings import RELAYED_CHECKS
from secvm.auditor.round_facts import RoundFacts
from secvm.protocol.documents.recomputation import Model

#: What nobody can see from outside, whatever the files say.
NOT_SEEN = (
    "with one relay, whether tallies are true: a coordinator can invent packages within what budget and relay allow",
    "whether a round that was abandoned was below its floor: of such rounds nothing is told",
    "whether a capsule was left out: only the device that holds its acknowledgement can tell",
    "whether others are shown the same files: compare the checkpoint with theirs, or ask a witness",
    "whether witnesses, relays and coordinator are independent of each other",
    "whether devices run the code that they say they run",
    "whether gateway keys were destroyed when their rounds were over",
)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round."""

    experiment: str
    number: int
    #: In honest words: that a step follows does not make the round true.
    verdict: str
    #: Check to what came out.
    checks: Mapping[str, Mark]
    #: Of a round with two relays: how it ended, in numbers.
    facts: RoundFacts | None = None


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """One experiment."""

    experiment: str
    title: str
    #: running, finished, stopped; "unknown" where not even that can be read.
    standing: str
    rounds: tuple[RoundReport, ...]
    steps_replayed: int
    #: Where the salt comes from, in words.
    salt: str
    #: The salt in hexadecimal; None where there is none, or none yet.
    salt_value: str | None
    #: Entries of its log; None: it has no log, or none that can be believed.
    log_size: int | None
    #: When a quorum had cosigned it, in milliseconds.
    committed_at: int | None
    findings: Findings
    #: Of two relays: opened rounds whose capsules are not public, or not any more.
    capsules_gone: tuple[int, ...] = ()
    #: The newest model, computed from zero; only as good as ``ok`` says. None: there is no round, or no telling.
    model: Model | None = field(default=None, repr=False, compare=False)

    @property
    def ended(self) -> bool:
        return self.standing != "running"

    @property
    def rounds_trained(self) -> int:
        """After how many rounds the model is: the newest one is not over, unless the experiment is."""
        return len(self.rounds) if self.ended else max(len(self.rounds) - 1, 0)

    @property
    def recounted(self) -> dict[int, int]:
        """Packages that were counted again, by round."""
        told = {one.number: one.facts.recounted for one in self.rounds if one.facts is not None}
        return {number: count for number, count in told.items() if count is not None}

    @property
    def ok(self) -> bool:
        return not self.findings.faults


@dataclass(frozen=True, slots=True)
class Report:
    """One audit."""

    experiments: tuple[ExperimentReport, ...]
    #: What concerns the coordinator, and no experiment of its own.
    general: Findings
    #: Experiments that were logged and never run: digest to why they are named.
    never_run: Mapping[str, str]

    @property
    def faults(self) -> list[Fault]:
        return [fault for found in self._all() for fault in found.faults]

    @property
    def warnings(self) -> list[str]:
        return _once(sentence for found in self._all() for sentence in found.warnings)

    @property
    def not_checked(self) -> list[str]:
        return _once((*(sentence for found in self._all() for sentence in found.not_checked), *NOT_SEEN))

    @property
    def evidence(self) -> list[bytes]:
        """Files that convict, each by itself."""
        return [data for found in self._all() for data in found.evidence]

    @property
    def rounds(self) -> list[RoundReport]:
        return [one for experiment in self.experiments for one in experiment.rounds]

    @property
    def steps_replayed(self) -> int:
        return sum(experiment.steps_replayed for experiment in self.experiments)

    @property
    def recounted(self) -> tuple[int, int]:
        """Packages that were counted again, and in how many rounds."""
        counts = [count for one in self.experiments for count in one.recounted.values()]
        return sum(counts), len(counts)

    @property
    def ok(self) -> bool:
        """Nothing was found. That is all that it says."""
        return not self.faults

    def to_content(self) -> dict[str, Any]:
        """For programs. Keys stay; later versions may add some."""
        only = self.experiments[0].experiment if len(self.experiments) == 1 else None
        return {
            "audit": "ok" if self.ok else "failed",
            "experiment": only,
            "experiments": [_experiment_content(one) for one in self.experiments],
            "rounds": [_round_content(one) for one in self.rounds],
            "steps_replayed": self.steps_replayed,
            "recounted": self.recounted[0],
            "rounds_recounted": self.recounted[1],
            "faults": [_fault_content(fault) for fault in self.faults],
            "warnings": self.warnings,
            "not_checked": self.not_checked,
            "never_run": [{"experiment": digest, "why": why} for digest, why in self.never_run.items()],
        }

    def _all(self) -> list[Findings]:
        return [self.general, *(one.findings for one in self.experiments)]


def _experiment_content(one: ExperimentReport) -> dict[str, Any]:
    return {
        "experiment": one.experiment,
        "title": one.title,
        "audit": "ok" if one.ok else "failed",
        "standing": one.standing,
        "rounds": len(one.rounds),
        "steps_replayed": one.steps_replayed,
        "salt": one.salt,
        "salt_value": one.salt_value,
        "log_size": one.log_size,
        "committed_at": one.committed_at,
        "recounted": sum(one.recounted.values()),
        "rounds_recounted": len(one.recounted),
        "capsules_gone": list(one.capsules_gone),
    }


def _round_content(one: RoundReport) -> dict[str, Any]:
    names = ROUND_CHECKS if one.facts is None else RELAYED_CHECKS
    told: dict[str, Any] = {
        "experiment": one.experiment,
        "number": one.number,
        "verdict": one.verdict,
        "checks": {check: one.checks.get(check, "not checked") for check in names},
    }
    return told if one.facts is None else {**told, "relays": one.facts.to_content()}


def _fault_content(fault: Fault) -> dict[str, Any]:
    told = {
        "experiment": fault.experiment,
        "round": fault.round_number,
        "check": fault.check,
        "what": fault.sentence,
        "provable": fault.provable,
    }
    return told if fault.found is None else {**told, "finding": fault.found.lower()}


def _once(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))
