"""What an audit found, as values: for people, for programs (``to_content`` has stable keys), and for the exit code.

Chances that a lie had been seen are those of ``privacy.statements.detection``, for the numbers that the relays signed
of the round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from secvm.auditor.findings import RELAYED_CHECKS, ROUND_CHECKS, Fault, Findings, Mark
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.privacy.statements.detection import CellCount, blindly_for, canary, false_cover, in_cell_for
from secvm.protocol.documents.experiment import ExperimentDocument
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
    """The verdict on one round, with what each of its checks gave."""

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
    """The verdict on one experiment, with its rounds, its salt and its place in the log."""

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
        counts = {report.number: report.facts.recounted for report in self.rounds if report.facts is not None}
        return {number: count for number, count in counts.items() if count is not None}

    @property
    def ok(self) -> bool:
        return not self.findings.faults


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on everything that was audited: all experiments, and the coordinator as a whole."""

    experiments: tuple[ExperimentReport, ...]
    #: What concerns the coordinator, and no experiment of its own.
    general: Findings
    #: Experiments that were logged and never run: digest to why they are named.
    never_run: Mapping[str, str]

    @property
    def faults(self) -> list[Fault]:
        return [fault for findings in self._all() for fault in findings.faults]

    @property
    def warnings(self) -> list[str]:
        """Each once; where there are several experiments, one that is not of all of them names its own."""
        named: dict[str, list[str]] = {}
        for report in self.experiments:
            for sentence in report.findings.warnings:
                named.setdefault(sentence, []).append(f"{report.experiment[:8]}…")
        sentences = [
            sentence if len(digests) == len(self.experiments) else f"experiment {', '.join(digests)}: {sentence}"
            for sentence, digests in named.items()
        ]
        return _once((*self.general.warnings, *sentences))

    @property
    def not_checked(self) -> list[str]:
        return _once((*(sentence for findings in self._all() for sentence in findings.not_checked), *NOT_SEEN))

    @property
    def evidence(self) -> list[bytes]:
        """Files that convict, each by itself."""
        return [data for findings in self._all() for data in findings.evidence]

    @property
    def rounds(self) -> list[RoundReport]:
        return [report for experiment in self.experiments for report in experiment.rounds]

    @property
    def steps_replayed(self) -> int:
        return sum(experiment.steps_replayed for experiment in self.experiments)

    @property
    def recounted(self) -> tuple[int, int]:
        """Packages that were counted again, and in how many rounds."""
        counts = [count for report in self.experiments for count in report.recounted.values()]
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
            "experiments": [_experiment_content(report) for report in self.experiments],
            "rounds": [_round_content(report) for report in self.rounds],
            "steps_replayed": self.steps_replayed,
            "recounted": self.recounted[0],
            "rounds_recounted": self.recounted[1],
            "faults": [_fault_content(fault) for fault in self.faults],
            "warnings": self.warnings,
            "not_checked": self.not_checked,
            "never_run": [{"experiment": digest, "why": why} for digest, why in self.never_run.items()],
        }

    def _all(self) -> list[Findings]:
        return [self.general, *(report.findings for report in self.experiments)]


def _experiment_content(report: ExperimentReport) -> dict[str, Any]:
    return {
        "experiment": report.experiment,
        "title": report.title,
        "audit": "ok" if report.ok else "failed",
        "standing": report.standing,
        "rounds": len(report.rounds),
        "steps_replayed": report.steps_replayed,
        "salt": report.salt,
        "salt_value": report.salt_value,
        "log_size": report.log_size,
        "committed_at": report.committed_at,
        "recounted": sum(report.recounted.values()),
        "rounds_recounted": len(report.recounted),
        "capsules_gone": list(report.capsules_gone),
    }


def _round_content(report: RoundReport) -> dict[str, Any]:
    names = ROUND_CHECKS if report.facts is None else RELAYED_CHECKS
    content: dict[str, Any] = {
        "experiment": report.experiment,
        "number": report.number,
        "verdict": report.verdict,
        "checks": {check: report.checks.get(check, "not checked") for check in names},
    }
    return content if report.facts is None else {**content, "relays": report.facts.to_content()}


def _fault_content(fault: Fault) -> dict[str, Any]:
    content = {
        "experiment": fault.experiment,
        "round": fault.round_number,
        "check": fault.check,
        "what": fault.sentence,
        "provable": fault.provable,
    }
    return content if fault.kind is None else {**content, "finding": fault.kind.name.lower()}


def _once(sentences: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(sentences))


#: What "surely" means in a report.
SURELY = Fraction(99, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How surely somebody who lied in this round had been seen."""

    #: A relay that falsified a little of its own cover: at least this.
    false_cover: Fraction
    #: An entry relay that dropped one capsule of a device: its canary is that one.
    canary: Fraction
    #: Capsules that the mixing relay cannot drop blindly without being seen with 99 %.
    blindly: int
    #: Packages of the fullest train cell, likewise; None: not even all of them.
    fullest_cell: int | None

    def to_content(self) -> dict[str, Any]:
        """For programs."""
        return {
            "false_cover": str(self.false_cover),
            "canary": str(self.canary),
            "blindly_for_99": self.blindly,
            "fullest_cell_for_99": self.fullest_cell,
        }


def chances_of(document: ExperimentDocument, *, capsules: int, net: Tally | None) -> Chances:
    """Of a round whose entry relay handed on so many capsules; ``net``: its net tally, where it is there."""
    cover = document.relay_cover
    fullest = None
    if net is not None:
        fullest = _fullest(document, net)
    return Chances(
        false_cover=false_cover(Fraction(1, cover.packages), cover.parts),
        canary=canary(1, document.budget),
        blindly=blindly_for(SURELY, part=cover.part_packages, batch=capsules),
        fullest_cell=fullest,
    )


def _fullest(document: ExperimentDocument, net: Tally) -> int | None:
    """In the fullest train cell, by what is left there of people when the known mean is off."""
    cover = document.relay_cover
    left = aggregate.uncovered(cover, net)
    people = max(0, int(left.plus.max(initial=0)), int(left.minus.max(initial=0)))
    noise = cover.train
    added = round(noise.mean * cover.parts / (cover.parts - 1))
    return in_cell_for(float(SURELY), CellCount(people, added), shape=noise.part(cover.parts), parts=cover.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """The numbers of one round; None where nothing is told."""

    #: running, opened, unopened.
    ended: str
    #: What an unopened round lacks.
    missing: tuple[str, ...] = ()
    clients: int | None = None
    entry_capsules: int | None = None
    mix_capsules: int | None = None
    refused: int | None = None
    part: int | None = None
    #: Why an opened round was not stepped.
    stayed: str | None = None
    #: Packages that were counted again; None: capsules were not there, or not looked at.
    recounted: int | None = None
    chances: Chances | None = None

    def to_content(self) -> dict[str, Any]:
        """For programs; keys stay."""
        content = {number.name: getattr(self, number.name) for number in fields(self) if number.name != "chances"}
        seen = None if self.chances is None else self.chances.to_content()
        return {**content, "missing": list(self.missing), "seen": seen}

    def lines(self) -> list[str]:
        """For people."""
        if self.ended == "unopened":
            why = ", and ".join(self.missing) or "its opening is false"
            return [f"unopened: {why}"]
        if self.ended == "running":
            return []
        numbers = (
            f"opened: M {self.clients}, n₁ {self.entry_capsules}, n₂ {self.mix_capsules}, refused {self.refused},"
            f" part {self.part}"
        )
        lines = [numbers if self.stayed is None else f"{numbers}; not stepped: {self.stayed}"]
        if self.recounted is not None:
            lines.append(f"counted again: {self.recounted} packages")
        if self.chances is not None:
            chances = self.chances
            cell = "never in" if chances.fullest_cell is None else f"{chances.fullest_cell} of"
            lines.append(
                f"a lie had been seen: false cover with {_percent(chances.false_cover)} or more; with 99 % whoever"
                f" drops {chances.blindly} capsules blindly, or {cell} the fullest cell"
            )
        return lines


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.3g} %"
