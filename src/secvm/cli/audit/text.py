"""Reports of audits for people. Whatever a server has written is shown on one line, and shortened."""

from __future__ import annotations

import datetime as dt
from itertools import groupby
from typing import TYPE_CHECKING

from secvm.auditor.explanation import STILL_TO_CHECK, WATERMARK, Explanation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from secvm.auditor.findings import Fault
    from secvm.auditor.report import ExperimentReport, Report, RoundReport

_MOST_LETTERS = 200
#: More rounds than this are shown in spans of the same verdict.
_MANY_ROUNDS = 40


def report_text(report: Report) -> str:
    """The whole report."""
    lines: list[str] = []
    for experiment in report.experiments:
        lines += [*_experiment(experiment), ""]
    lines += _block("Something is wrong", [_fault(fault, report) for fault in report.faults])
    never_run = [f"{digest}  {why}" for digest, why in report.never_run.items()]
    lines += _block("Logged and never run", never_run)
    lines += _block("Worth knowing", report.warnings)
    lines += _block("Not checked, or not to be seen from outside", report.not_checked)
    faults = len(report.faults)
    steps = f"{report.steps_replayed} step{'' if report.steps_replayed == 1 else 's'} replayed"
    packages, rounds = report.recounted
    if rounds:
        steps += f"; {packages} packages counted again in {rounds} round{'' if rounds == 1 else 's'}"
    said = "nothing found" if not faults else f"{faults} fault{'' if faults == 1 else 's'} found"
    return "\n".join([*lines, f"{steps}; {said}."])


def _experiment(report: ExperimentReport) -> Iterator[str]:
    yield f"experiment {report.experiment}"
    yield f"  title    {short(report.title)}"
    yield f"  standing {report.standing}, {len(report.rounds)} round{'' if len(report.rounds) == 1 else 's'}"
    if report.log_size is not None:
        when = "" if report.committed_at is None else f", first cosigned by a quorum at {_time(report.committed_at)}"
        yield f"  log      {report.log_size} entries{when}"
    yield f"  salt     {report.salt}"
    if report.recounted or report.capsules_gone:
        yield f"  recount  {sum(report.recounted.values())} packages in {len(report.recounted)} rounds{_gone(report)}"
    if report.rounds:
        yield "   round  verdict"
        yield from _rounds(report.rounds)


def _gone(experiment: ExperimentReport) -> str:
    """Opened rounds that could not be counted again, in spans."""
    spans = []
    for _, pairs in groupby(enumerate(experiment.capsules_gone), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in pairs]
        spans.append(f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}")
    return f"; capsules gone of round {', '.join(spans)}" if spans else ""


def _rounds(rounds: tuple[RoundReport, ...]) -> Iterator[str]:
    if len(rounds) <= _MANY_ROUNDS or any(round_.facts is not None for round_ in rounds):
        for round_ in rounds:
            yield f"  {round_.number:>6}  {short(round_.verdict)}"
            if round_.facts is not None:
                yield from (f"          {short(line)}" for line in round_.facts.lines())
        return
    for verdict, same in groupby(rounds, key=lambda round_: round_.verdict):
        span = list(same)
        name = f"{span[0].number}" if len(span) == 1 else f"{span[0].number} to {span[-1].number}"
        yield f"  {name:>6}  {short(verdict)}"


def _fault(fault: Fault, report: Report) -> str:
    where = "" if fault.round_number is None else f"round {fault.round_number}: "
    if fault.experiment is not None and len(report.experiments) > 1:
        where = f"{fault.experiment[:16]} {where}"
    proof = " [signed bytes prove it]" if fault.provable else ""
    return f"{where}{short(fault.sentence)}{proof}"


def explanation_text(explanation: Explanation) -> str:
    """What a piece of evidence shows."""
    lines = [
        short(explanation.sentence),
        "",
        f"The file holds {explanation.what}.",
        "Signatures were verified here, without asking anybody.",
        "",
        f"experiment  {explanation.experiment}",
        f"title       {short(explanation.title)}",
        *(f"signed by   {short(signer)}" for signer in explanation.signed_by),
        "",
        *_block("What you must still check yourself", list(STILL_TO_CHECK)),
        WATERMARK,
    ]
    return "\n".join(lines)


def _block(title: str, sentences: list[str]) -> list[str]:
    if not sentences:
        return []
    return [f"{title}:", *(f"  - {short(sentence)}" for sentence in _some(sentences)), ""]


def _some(sentences: list[str]) -> Iterable[str]:
    yield from sentences[:100]
    if len(sentences) > 100:
        yield f"and {len(sentences) - 100} more"


def _time(instant: int) -> str:
    try:
        return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{instant} ms"


def short(text: str) -> str:
    """Text of others on one line, and not too long."""
    line = " ".join(text.splitlines())
    return line if len(line) <= _MOST_LETTERS else line[:_MOST_LETTERS] + "…"
