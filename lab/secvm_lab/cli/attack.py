"""``secvm attack``: the attack lab on the command line."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.offline.options import check_outputs
from secvm.cli.output import Format, FormatOption, as_lines, emit, note, progress
from secvm.files import write_together

if TYPE_CHECKING:
    from secvm_lab.attacks.attack import Row

app = group("Run every known attack, without and with the defence.")

SeedOption = Annotated[int, typer.Option("--seed", help="The same seed, the same figures.", min=0)]


@app.command("list")
def list_attacks(*, output_format: FormatOption = Format.TXT) -> None:
    """Name every attack, its metric and its defence.

    \b
    Example:
        ./secvm attack list
    """
    from secvm_lab.attacks.registry import attacks

    every = attacks().values()
    rows = [
        {
            "name": attack.name,
            "slug": attack.slug,
            "needs": attack.needs,
            "steps": list(attack.steps),
            "metric": attack.metric,
            "defence": attack.defence,
            "remains": attack.remains,
            "goal": attack.goal.sentence if attack.goal else None,
        }
        for attack in every
    ]
    width = max((len(attack.slug) for attack in every), default=0)
    lines = [line for a in every for line in (f"{f'A{a.number}':4} {a.slug:{width}}  {a.metric}", f"     {a.defence}")]
    emit({"attacks": rows}, output_format, text="\n".join(lines))


@app.command("run")
def run_attack(
    *,
    name: Annotated[str, typer.Argument(help="Its name, as 'list' gives it, or its number: A4.")],
    trials: Annotated[
        int | None, typer.Option("--trials", help="How often; the attack knows a good number.", min=1)
    ] = None,
    seed: SeedOption = 0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Measure one attack without its defence and with it.

    \b
    Example:
        ./secvm attack run timing-clusters --trials 20
    """
    from secvm_lab.attacks.attack import measure
    from secvm_lab.attacks.registry import find

    attack = find(name)
    size = attack.trials if trials is None else trials
    with progress(attack.name, 2 * size) as advance:
        row = measure(attack, trials=size, seed=seed, advance=advance)
    result = {**row.as_json(), "needs": attack.needs, "steps": list(attack.steps), "seed": seed}
    emit(result, output_format, text=as_text(row))


@app.command("report")
def report(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: minutes become seconds.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write a page with plots here (one HTML file).")] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write the table here, with numbers of its own for each interval.")
    ] = None,
    seed: SeedOption = 0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Measure every attack without its defence and with it.

    \b
    Example:
        ./secvm attack report --quick --out attacks.html --csv attacks.csv
    """
    from secvm_lab.attacks.attack import measure_all
    from secvm_lab.attacks.registry import attacks
    from secvm_lab.attacks.report_page import page

    check_outputs({"--out": out, "--csv": table})
    started = time.monotonic()
    every = list(attacks().values())
    rows = measure_all(every, quick=quick, seed=seed, beginning=lambda attack: note(f"attacking: {attack.name}"))
    seconds = time.monotonic() - started
    result = {
        "attacks": [row.as_json() for row in rows],
        "goals_met": all(row.met is not False for row in rows),
        "quick": quick,
        "seed": seed,
        "seconds": round(seconds, 1),
        "page": None if out is None else str(out),
        "csv": None if table is None else str(table),
    }
    # Shown first: what took minutes is not lost to a full disk.
    emit(result, output_format, text=as_table(rows))
    files = {table: as_csv(rows)} if table is not None else {}
    if out is not None:
        files[out] = page(rows, quick=quick, seed=seed)
    write_together({path: content.encode() for path, content in files.items()})


def as_text(row: Row) -> str:
    """One attack, to read."""
    attack = row.attack
    lines = [attack.name, "", f"Needs: {attack.needs}"]
    lines += [f"  {number}. {step}" for number, step in enumerate(attack.steps, 1)]
    lines += [f"Defence: {attack.defence}", *([f"What remains: {attack.remains}"] if attack.remains else []), ""]
    for said, found in (("without the defence", row.undefended), ("with the defence", row.defended)):
        lines += [f"{said}: {attack.metric} {found.said}, {found.trials} trials"]
        lines += as_lines(found.detail, 4)
        if found.curve is not None:
            lines += [f"    {found.curve.up or attack.metric}, by {found.curve.across}"]
            lines += as_lines(
                {p.place: f"{p.value:.3f} [{p.ci95[0]:.3f}, {p.ci95[1]:.3f}]" for p in found.curve.points}, 6
            )
    if attack.goal is not None:
        lines += ["", f"Goal: {row.wanted}: {'met' if row.met else 'MISSED'}"]
    if row.undefended.trials < attack.trials:
        lines.append(f"Small run: {row.undefended.trials} trials show that it works, {attack.trials} can judge it.")
    return "\n".join(lines)


def as_table(rows: Sequence[Row]) -> str:
    """One line an attack, under the names of the columns."""
    cells = [("attack", "metric", "without", "with the defence", "", "goal")]
    cells += [
        (row.attack.name, row.attack.metric, row.undefended.said, row.defended.said, row.verdict, row.wanted)
        for row in rows
    ]
    widths = [max(len(line[place]) for line in cells) for place in range(len(cells[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def as_csv(rows: Sequence[Row]) -> str:
    """A line an attack, after one of names."""
    text, every = io.StringIO(), [row.cells() for row in rows]
    writer = csv.DictWriter(text, fieldnames=list(every[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(every)
    return text.getvalue()
