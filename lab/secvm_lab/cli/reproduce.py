"""``secvm reproduce``: the paper's numbers and figures, each with one command."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.commands import group
from secvm.cli.offline.options import check_writable
from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm_lab.cli.reproduce_offline import offline
from secvm_lab.cli.time_left import TimeLeft, as_typed, tell_and_write, used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from secvm_lab.beyond.findings import Findings
    from secvm_lab.online.reproduction import Reproduction
    from secvm_lab.paper.lemmas import Claim, Point
    from secvm_lab.reports import ReportPage


def beyond(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="A file of people with two labels, besides the made-up ones.")
    ] = None,
    people: Annotated[int, typer.Option(min=100, help="Made-up people.")] = 4000,
    splits: Annotated[int, typer.Option(min=1, help="Splits for each number of hashes and bins.")] = 32,
    most_hashes: Annotated[int, typer.Option(min=1, max=16, help="From one hash for each feature up to so many.")] = 4,
    network_splits: Annotated[int, typer.Option(min=1, help="Splits for each network.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each training.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of people, splits and dice.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Write the report, its figures and numbers here.")] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Try a network and more hashes for each feature.

    Both are shown where they help and where they do not, by rounds and by packages. Example:

    \b
        ./secvm reproduce beyond --data examples/people.jsonl --folder beyond
    """
    from secvm_lab.beyond.findings import Asked, find
    from secvm_lab.beyond.page import page_of
    from secvm_lab.reports import check_folder

    began = time.perf_counter()
    if folder is not None:
        check_folder(folder)
    threads = min(2, os.cpu_count() or 1)
    asked = Asked(people, splits, network_splits, rounds, seed, data, most_hashes, threads)
    with progress("trainings and hashings", asked.steps) as advance:
        found = find(asked, advance)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    content = {
        **found.told(),
        "seconds": round(seconds, 2),
        # On a machine that others use too, the better measure of what it takes.
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_rss_mb": round(used.ru_maxrss / 1024, 1),
    }

    def made() -> ReportPage:
        page = page_of(found)
        page.made_by(as_typed(context), seconds)
        return page

    tell_and_write(content, output_format, lambda told: _beyond_lines(found, told), folder, made)


def _beyond_lines(found: Findings, told: dict[str, Any]) -> list[str]:
    from secvm_lab.beyond import page

    lines = []
    for problem, outcomes in found.networks:
        lines += [f"{problem.name}: {problem.told}; {problem.hidden} hidden units", ""]
        lines += [*_table(page.NETWORK_HEADER, page.network_rows(outcomes)), ""]
    lines += [page.network_sentence(found), page.cover_sentence(found), page.NOT_COVERED, ""]
    for name, cells in found.hashed:
        lines += [f"More hashes for each feature, {name}:", ""]
        lines += [*_table(page.HASHES_HEADER, page.hashes_rows(cells)), ""]
    lines += [page.hashes_sentence(found)]
    return [*lines, *([f"report: {told['report']}"] if "report" in told else []), f"{told['seconds']:.0f} seconds"]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


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
    """Reproduce figures 2 and 3, the online evaluation.

    The people are made up; what they do and why recall drops at night is told in docs/results/online.md. Example:

    \b
        ./secvm reproduce online --folder online
        ./secvm reproduce online --people 10000 --format json
    """
    from secvm_lab.online.population.plan import Plan
    from secvm_lab.online.population.words import TitleWords
    from secvm_lab.online.reproduction import reproduce
    from secvm_lab.online.reproduction_page import page
    from secvm_lab.reports import check_folder

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
    told = found.told() | used(begun, digits=3)
    tell_and_write(
        told,
        output_format,
        lambda shown: _online_lines(found, shown),
        folder,
        lambda: page(found, as_typed(context), seconds),
    )


def _online_lines(found: Reproduction, told: dict[str, Any]) -> list[str]:
    from secvm_lab.online.reproduction_page import small

    settings, labels = told["settings"], found.plan.labels
    lines = [
        f"{settings['people']:,} made-up people at any time, {settings['words']} words each, {settings['bins']:,} bins",
        small(found.plan.people),
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


app = group("Reproduce the paper's numbers and figures.")


app.command()(offline)
app.command()(online)
app.command()(beyond)


@app.command()
def lemmas(
    picture: Annotated[Path | None, typer.Option(help="Draw Lemma 3 beside the attacker into this SVG file.")] = None,
    seed: Annotated[int, typer.Option(help="Of the dice with which the attacker is played.")] = 1,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Check the paper's lemmas at its own sizes.

    Lemma 3 bounds the difference of two tiny probabilities, also where the label is found nearly always. Example:

    \b
        ./secvm reproduce lemmas --picture lemma3.svg
    """
    from secvm.files import write_atomically
    from secvm_lab.paper import lemmas as paper

    check_writable(picture, "--picture")
    with progress("sizes played", len(paper.SIZES)) as advance:
        points = paper.curve(seed=seed, on_point=lambda _: advance(1))
    claims, jumps = paper.claims(), paper.jumps()
    content = {
        "claims": [asdict(one) for one in claims],
        "lemma3": [asdict(one) for one in points],
        "floor": [{"packages": n, "printed": printed, "exact": exact} for n, printed, exact in jumps],
    }
    emit(content, output_format, text="\n".join(_lemma_lines(claims, points, jumps)))
    if picture is not None:
        write_atomically(picture, paper.draw(points).encode())


def _lemma_lines(claims: list[Claim], points: list[Point], jumps: list[tuple[int, float, float]]) -> list[str]:
    width = max(len(one.said) for one in claims) + 2
    lines = ["The paper's claims (95,880,008 words, 95,880 bins, 34,615 people of a sign, 1,826 words each):", ""]
    lines += [f"  {one.said:<{width}}{'holds' if one.holds else 'FAILS':<7}{one.found}" for one in claims]
    lines += ["", "Lemma 3 beside the best attacker, in one round:", ""]
    lines.append(f"  {'people of a sign':>16}  {'as printed':>12}  {'exactly':>12}  {'AUC':>6}  {'played':>6}")
    for one in points:
        printed, exact = f"1e{one.printed_log10:.0f}", f"1e{one.exact_log10:.0f}"
        lines.append(
            f"  {one.participants:>16,}  {printed:>12}  {exact:>12}  {one.auc:6.3f}  {one.played:6.3f}"
            f" +- {2 * one.played_error:.3f}"
        )
    worst = max(jumps, key=lambda jump: jump[1])
    lines += [
        "",
        "Computed exactly the bound is always tiny, also where the label is found for certain:",
        "every single tally is improbable.",
        f"As printed, with its floor, it even exceeds one: {worst[1]:.2f} for {worst[0]} packages in two bins.",
    ]
    return lines
