"""``secvm audit``: replay a coordinator's experiments from outside, explain evidence, look at collisions of a hash.

One command and one below it: ``secvm audit collisions``. Anything else after ``secvm audit`` is what shall be audited.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from secvm.cli.audit.collisions import collisions
from secvm.cli.commands import group
from secvm.cli.coordinator_options import COORDINATOR_VARIABLE, usual_coordinator
from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm.errors import BadInputError, RemoteProtocolError

if TYPE_CHECKING:
    from secvm.auditor.report import Report

EXIT_FAULT = 1


class Beacons(StrEnum):
    """Where records of public randomness come from. Each is verified, wherever it comes from."""

    SERVED = "served"
    LIVE = "live"


class _AuditGroup(TyperGroup):
    """Whatever is not the name of a command below is an argument of the audit itself."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if args and args[0] in self.commands and args[0] != "replay":
            return super().make_context(info_name, args, parent, **extra)
        return self.commands["replay"].make_context(info_name, args, parent, **extra)


app = group("Replay a coordinator's experiments, or examine evidence.", cls=_AuditGroup, no_args_is_help=False)
app.command("collisions")(collisions)


@app.command("replay")
def audit(
    where: Annotated[
        str | None,
        typer.Argument(
            help=f"URL of a coordinator, or a copy of its public folder; else {COORDINATOR_VARIABLE}.",
            metavar="URL|FOLDER",
            show_default=False,
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only the experiment of this digest, or its beginning.", metavar="DIGEST")
    ] = None,
    beacons: Annotated[
        Beacons,
        typer.Option(help="Public randomness as the coordinator serves it, or asked from the beacons besides."),
    ] = Beacons.SERVED,
    policy: Annotated[
        Path | None,
        typer.Option(help="Logs and witnesses that you know, a policy file of C2SP's; else experiments name them."),
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="Examine this file of evidence instead, offline.", metavar="FILE")
    ] = None,
    evidence_to: Annotated[
        Path | None, typer.Option(help="Where to write evidence, if signed bytes prove a fault.", metavar="FILE")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Audit as of this time, such as 2026-11-15T12:00:00Z; else now.", metavar="TIME"),
    ] = None,
    *,
    skip_models: Annotated[
        bool, typer.Option("--skip-models", help="Do not fetch states and weights, which follow from the tallies.")
    ] = False,
    skip_capsules: Annotated[
        bool, typer.Option("--skip-capsules", help="Do not count capsules of two relays again, where they are public.")
    ] = False,
    ask_relays: Annotated[
        bool, typer.Option("--ask-relays", help="Ask the two relays' own doors for counts, reveals and leaves.")
    ] = False,
    largest_tally: Annotated[int, typer.Option(help="Largest tally to read, in MiB.", min=1)] = 256,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Replay a coordinator's experiments, or examine evidence.

    Reads public files only: log and witnesses, salt, windows, floors, counts, and every step from the published
    tallies. 'Step follows' does not say that a tally is true; what cannot be seen from outside is listed. Ends with 0
    when nothing was found, 1 when something is wrong, 2 when there is nothing to audit. Of evidence: 0 when it
    convicts, 1 when it shows nothing. Examples:

    \b
        ./secvm audit https://coordinator.example
        ./secvm audit https://coordinator.example --experiment 3fa9 --evidence-to found.json
        ./secvm audit https://coordinator.example --policy log.policy
        ./secvm audit https://coordinator.example --ask-relays
        ./secvm audit copied-public-folder --format json
        ./secvm audit --evidence found.json
        ./secvm audit collisions --help           how well an experiment's bins hide words
    """
    if where is None and evidence is None:
        where = usual_coordinator()
    if (where is None) == (evidence is None):
        raise BadInputError("say what to audit: a coordinator's URL, its public folder, or --evidence FILE")
    if evidence is not None:
        _examine(evidence, output_format)
        return
    assert where is not None
    if evidence_to is not None and evidence_to.exists():
        raise BadInputError(f"{evidence_to} is there already: evidence replaces nothing")
    from secvm.auditor.audit import audit_files
    from secvm.auditor.files import WebFiles, open_files
    from secvm.cli.audit.text import report_text
    from secvm.files import read_beginning_with
    from secvm.protocol.log.policy import MOST_POLICY_BYTES, read_policy
    from secvm.runtime.beacons import WebBeacons
    from secvm.runtime.clock import SystemClock

    clock = SystemClock()
    known = None if policy is None else read_policy(read_beginning_with(b"", policy, most=MOST_POLICY_BYTES))
    files, snapshot = open_files(where)
    now = clock.now if at is None else _instant(at)
    with progress("rounds replayed") as advance:
        report = audit_files(
            files,
            now=now,
            experiment=experiment,
            beacons=WebBeacons() if beacons is Beacons.LIVE else None,
            policy=known,
            snapshot=snapshot,
            models=not skip_models,
            capsules=not skip_capsules,
            doors=(lambda url: WebFiles(url, clock)) if ask_relays else None,
            most_tally_bytes=largest_tally * 2**20,
            on_round=lambda _experiment, _done, _planned: advance(1),
        )
    written = _write_evidence(report, evidence_to)
    content = {**report.to_content(), "evidence_written": written}
    emit(content, output_format, text=report_text(report))
    if not report.ok:
        raise typer.Exit(EXIT_FAULT)


def _instant(text: str) -> int:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        raise BadInputError(f"--at must be a time such as 2026-11-15T12:00:00Z, not '{text[:40]}'") from None
    if instant.tzinfo is None:
        raise BadInputError("--at needs a time zone: end it with Z for UTC")
    return int(instant.timestamp() * 1000)


def _write_evidence(report: Report, place: Path | None) -> str | None:
    """The first piece, which is whole by itself."""
    if not report.evidence:
        return None
    if place is None:
        note("Signed bytes prove a fault to anybody: --evidence-to FILE writes them.")
        return None
    from secvm.auditor.explanation import WATERMARK
    from secvm.files import write_atomically

    write_atomically(place, report.evidence[0])
    note(f"Evidence written to {place}. {WATERMARK}")
    return str(place)


def _examine(file: Path, output_format: Format) -> None:
    from secvm.auditor.explanation import explain
    from secvm.cli.audit.text import explanation_text
    from secvm.files import read_beginning_with
    from secvm.protocol.evidence.missing_canary import BEGINS as MISSING_CANARY
    from secvm.protocol.evidence.plain import EVIDENCE_BEGINS, MAX_EVIDENCE_BYTES

    data = read_beginning_with((EVIDENCE_BEGINS, MISSING_CANARY), file, most=MAX_EVIDENCE_BYTES)
    try:
        explanation = explain(data)
    except RemoteProtocolError as fault:
        emit({"evidence": "shows nothing", "why": str(fault)}, output_format, text=f"It shows nothing: {fault}.")
        raise typer.Exit(EXIT_FAULT) from None
    emit(explanation.to_content(), output_format, text=explanation_text(explanation))
