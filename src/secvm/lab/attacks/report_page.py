"""The lab's page: one file, nothing fetched from anywhere, made of the measured rows and nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence

from secvm.lab.attacks.attack import Measurement
from secvm.lab.attacks.report import Row
from secvm.lab.demo.report_parts import numbers_behind, table
from secvm.lab.demo.report_style import POLICY, STYLE
from secvm.lab.svg import Axes, Line, Rule, line_chart


def page(rows: Sequence[Row], *, quick: bool, seed: int) -> str:
    """The whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><title>The attack lab · SecVM</title>'
        f"<style>{STYLE}</style></head><body><main><h1>The attack lab</h1>"
        + _summary(rows)
        + "".join(_one(row) for row in rows)
        + f"<footer>Made by <code>secvm attack report{' --quick' if quick else ''} --seed {seed}</code>. This page is"
        " one file and fetches nothing.</footer></main></body></html>\n"
    )


def written(found: Measurement) -> str:
    """A value and its interval."""
    return f"{found.value:.3f} [{found.ci95[0]:.3f}, {found.ci95[1]:.3f}]"


def _summary(rows: Sequence[Row]) -> str:
    said = {True: "met", False: "missed", None: "–"}
    body = [
        [row.attack.name, row.attack.metric, written(row.undefended), written(row.defended), said[row.met]]
        for row in rows
    ]
    return table(["attack", "metric", "without", "with the defence", "goal"], body)


def _one(row: Row) -> str:
    attack = row.attack
    steps = "".join(f"<li>{html.escape(step)}</li>" for step in attack.steps)
    return (
        f"<h2>{html.escape(attack.name)}</h2><p>{html.escape(attack.needs)}</p><ol>{steps}</ol>"
        f"<p><strong>Defence.</strong> {html.escape(attack.defence)} {html.escape(attack.remains)}</p>"
        + _curve(row)
        + numbers_behind(
            ["what", "without", "with the defence"],
            [
                [name, str(row.undefended.detail.get(name, "–")), str(row.defended.detail.get(name, "–"))]
                for name in {**row.undefended.detail, **row.defended.detail}
            ],
        )
    )


def _curve(row: Row) -> str:
    shown = [(name, found.curve) for name, found in (("without", row.undefended), ("with the defence", row.defended))]
    curves = [(name, curve) for name, curve in shown if curve is not None]
    if not curves:
        return ""
    axes = Axes(
        title=row.attack.name,
        description=f"{row.attack.metric} against {curves[0][1].across}.",
        across=curves[0][1].across,
        up=row.attack.metric,
        places=[point.place for point in curves[0][1].points],
    )
    lines = [
        Line(
            name,
            [point.value for point in curve.points],
            [point.ci95[0] for point in curve.points],
            [point.ci95[1] for point in curve.points],
            colour=1 if name == "without" else 2,
        )
        for name, curve in curves
    ]
    return line_chart(axes, lines, [Rule("chance", row.attack.chance)])
