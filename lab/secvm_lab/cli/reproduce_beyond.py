"""``secvm reproduce beyond``: a small network by packages, and more hashes for each feature, both as they come out."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note, progress
from secvm_lab.cli.time_left import as_typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from secvm_lab.beyond.findings import Findings


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
    """Go beyond the paper's linear model: a network, more hashes.

    Both are shown where they help and where they do not, by rounds and by packages. Example:

    \b
        ./secvm reproduce beyond --data examples/people.jsonl --folder beyond
    """
    from secvm.pages.reports import check_folder, write_report
    from secvm_lab.beyond.findings import Asked, find
    from secvm_lab.beyond.page import page_of

    began = time.perf_counter()
    if folder is not None:
        check_folder(folder)
    threads = min(2, os.cpu_count() or 1)
    asked = Asked(people, splits, network_splits, rounds, seed, data, most_hashes, threads)
    with progress("trainings and hashings", asked.steps) as advance:
        found = find(asked, advance)
    seconds = time.perf_counter() - began
    if folder is not None:
        page = page_of(found)
        page.made_by(as_typed(context), seconds)
        written = write_report(folder, page)
        if written.note:
            note(written.note)
    used = resource.getrusage(resource.RUSAGE_SELF)
    content = {
        **found.told(),
        "seconds": round(seconds, 2),
        # On a machine that others use too, the better measure of what it takes.
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_rss_mb": round(used.ru_maxrss / 1024, 1),
    }
    emit(content, output_format, text="\n".join(_lines(found, seconds)))


def _lines(found: Findings, seconds: float) -> list[str]:
    from secvm_lab.beyond import page

    lines = []
    for problem, outcomes in found.networks:
        lines += [f"{problem.name}: {problem.told}; {problem.hidden} hidden units", ""]
        lines += [*_table(page.NETWORK_HEADER, page.network_rows(outcomes)), ""]
    lines += [page.network_sentence(found), page.cover_sentence(found), page.NOT_COVERED, ""]
    for name, cells in found.hashed:
        lines += [f"More hashes for each feature, {name}:", ""]
        lines += [*_table(page.HASHES_HEADER, page.hashes_rows(cells)), ""]
    lines += [page.hashes_sentence(found), f"{seconds:.0f} seconds"]
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
