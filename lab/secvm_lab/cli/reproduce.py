"""``secvm reproduce``: the paper's numbers and figures, made again, each with one command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit, progress
from secvm_lab.cli.reproduce_beyond import beyond
from secvm_lab.cli.reproduce_offline import offline
from secvm_lab.cli.reproduce_online import online

if TYPE_CHECKING:
    from secvm_lab.paper.lemmas import Claim, Point

app = group("Make the paper's numbers and figures again.")


app.command()(offline)
app.command()(online)
app.command()(beyond)


@app.command()
def lemmas(
    picture: Annotated[Path | None, typer.Option(help="Draw Lemma 3 beside the attacker into this SVG file.")] = None,
    seed: Annotated[int, typer.Option(help="Of the dice with which the attacker is played.")] = 1,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Recompute the paper's lemmas at its own sizes.

    Lemma 3 bounds the difference of two tiny probabilities, also where the label is found nearly always. Example:

    \b
        ./secvm reproduce lemmas --picture lemma3.svg
    """
    from secvm.files import write_atomically
    from secvm_lab.paper import lemmas as paper

    with progress("sizes played", len(paper.SIZES)) as advance:
        points = paper.curve(seed=seed, on_point=lambda _: advance(1))
    claims, jumps = paper.claims(), paper.jumps()
    if picture is not None:
        write_atomically(picture, paper.draw(points).encode())
    content = {
        "claims": [asdict(one) for one in claims],
        "lemma3": [asdict(one) for one in points],
        "floor": [{"packages": n, "printed": printed, "exact": exact} for n, printed, exact in jumps],
    }
    emit(content, output_format, text="\n".join(_lines(claims, points, jumps)))


def _lines(claims: list[Claim], points: list[Point], jumps: list[tuple[int, float, float]]) -> list[str]:
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
