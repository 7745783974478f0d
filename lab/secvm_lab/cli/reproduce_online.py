"""``secvm reproduce online``: the paper's online evaluation, on a made-up population of its size."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm_lab.cli.time_left import TimeLeft, as_typed

if TYPE_CHECKING:
    from secvm_lab.online.reproduction import Reproduction


def online(
    context: typer.Context,
    people: Annotated[int, typer.Option(help="Daily active people.", min=100)] = 200_000,
    words: Annotated[int, typer.Option(help="Words of each of them.", min=1)] = 300,
    choose: Annotated[
        bool, typer.Option(help="Also choose λ and class weight on other people, and run with them.")
    ] = True,
    folder: Annotated[
        Path | None, typer.Option(help="Write report.html and each figure as CSV and PNG here.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of people, habits and dice.", min=0)] = 1,
    threads: Annotated[int, typer.Option(help="Threads; the result does not depend on it.", min=1)] = 2,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make the paper's figures 2 and 3 again.

    The people are made up; what they do and why recall drops at night is told in docs/results/online.md. Example:

    \b
        ./secvm reproduce online --folder online
        ./secvm reproduce online --people 10000 --format json
    """
    from secvm.pages.reports import check_folder, write_report
    from secvm_lab.online.population.plan import Plan
    from secvm_lab.online.population.words import TitleWords
    from secvm_lab.online.reproduction import reproduce
    from secvm_lab.online.reproduction_page import page

    begun = time.monotonic()
    if folder is not None:
        check_folder(folder)
    # Of a small population a night round has few people; a floor of a hundred would abandon it.
    plan = Plan(
        people=people,
        words=TitleWords(per_person=words),
        floor=max(2, min(100, people // 200)),
        seed=seed,
        threads=threads,
    )
    left = TimeLeft(note)
    found = reproduce(plan, left.watch, choosing=choose)
    seconds = time.monotonic() - begun
    told = found.told()
    if folder is not None:
        written = write_report(folder, page(found, as_typed(context), seconds))
        told["report"] = str(folder / "report.html")
        if written.note:
            note(f"secvm: {written.note}")
    told["seconds"] = round(time.monotonic() - begun, 3)
    told["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    emit(told, output_format, text="\n".join(_lines(found, told)))


def _lines(found: Reproduction, told: dict[str, Any]) -> list[str]:
    settings, labels = told["settings"], found.plan.labels
    lines = [
        f"{settings['people']:,} made-up people at any time, {settings['words']} words each, {settings['bins']:,} bins",
        "",
        f"{'':32}  {'by day':^17}  {'at night':^17}  drop",
        f"{'recall':32}  " + "  ".join(f"{label:>8}" for label in (*found.plan.labels, *found.plan.labels)),
    ]
    for words, runs in (("the paper's settings", told), ("chosen", told.get("chosen"))):
        if runs is None:
            continue
        lines += [f"{f'{words}, {run}':32}  {_cells(runs[run], labels)}" for run in ("continuous", "daytime")]
    if "chosen" in told:
        chosen = told["chosen"]
        lines += ["", f"chosen on other people: lambda {chosen['lambda']:g}, weight {chosen['weight']:g}"]
    if "short_rows" in told:
        short = told["short_rows"]
        lines += ["", f"people of {short['words']} words"]
        lines += [f"{name:32}  {_cells(short[name], labels)}" for name in ("paper", "chosen")]
        lines.append(f"chosen: lambda {short['chosen']['lambda']:g}, weight {short['chosen']['weight']:g}")
    if "report" in told:
        lines.append(f"report: {told['report']}")
    lines.append(f"{told['seconds']:.1f} s, {told['peak_rss_mb']:.0f} MB")
    return lines


def _cells(run: dict[str, Any], labels: tuple[str, ...]) -> str:
    """Mean recalls of a run, by day and at night, and the drop."""
    cells = []
    for part in ("day", "night"):
        means = run["means"][part]
        cells += [f"{'-':>8}" if means is None else f"{_number(means['recall'][label]):>8}" for label in labels]
    drop, error = run["night_drop"], run["night_drop_error"]
    return "  ".join(cells) + f"  {_number(drop)} +- {_number(error)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
