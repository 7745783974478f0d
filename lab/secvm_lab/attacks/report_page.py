"""The lab's page: one file, nothing fetched from anywhere, made of the measured rows and nothing else."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from secvm.pages.figure import Curve, Figure, NamedPlace, ReferenceLine
from secvm_lab.attacks.attack import Curve as Measured
from secvm_lab.attacks.attack import Measurement, Row
from secvm_lab.reports import cards, numbers_behind, plot, shell, table


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The overview's own units: a line for each attack and a scale from 0 to 1; names on the left, or above."""

    kind: str
    width: int
    left: int
    line: int
    above: bool

    def x(self, value: float) -> float:
        return round(self.left + value * (self.width - self.left - 20), 1)


_DESK, _PHONE = _Sheet("large", 880, 330, 30, above=False), _Sheet("small", 360, 12, 46, above=True)
#: Above the first line, and below the middle of each.
_TOP, _BELOW = 26, 15
#: What the overview adds to the style of all reports.
_STYLE = (
    "svg .hollow{fill:var(--card);stroke:var(--c2);stroke-width:2.5}"
    "svg .chance{stroke:var(--rule);stroke-width:1.6}"
    ".met{color:var(--good);font-weight:600}.missed{color:var(--bad);font-weight:600}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;max-width:48rem;margin:.5rem 0}"
    "dt{color:var(--soft)}dd{margin:0}ol{margin:.3rem 0;padding-left:1.3rem;max-width:44rem}"
)


def page(rows: Sequence[Row], *, quick: bool, seed: int) -> str:
    """The whole page."""
    return shell(
        "The attack lab",
        "<h1>The attack lab</h1>"
        + _opening(rows, quick=quick)
        + overview(rows)
        + "".join(_one(row) for row in rows)
        + f"<footer>Made by <code>secvm attack report{' --quick' if quick else ''} --seed {seed}</code>. This page is"
        " one file and fetches nothing.</footer>",
        style=_STYLE,
    )


def written(found: Measurement) -> str:
    """A value and its interval, in one piece; or the outcome in words."""
    return found.said if "outcome" in found.detail else found.said.replace(" ", "\u00a0")


def _opening(rows: Sequence[Row], *, quick: bool) -> str:
    judged = [row for row in rows if row.met is not None]
    shown = [
        (str(len(rows)), "attacks, each measured without and with its defence"),
        (f"{sum(bool(row.met) for row in judged)} of {len(judged)}", "stated goals are met"),
    ]
    fewer = " This is a quick run: intervals are wide." if quick else ""
    return (
        '<p class="lead">What each attacker can do with what it sees, and nothing else. A metric of 1 is full success;'
        f" what chance alone gives is marked. Every value has its 95 % interval.{fewer}</p>" + cards(shown)
    )


# ── the picture of all ───────────────────────────────────────────────────────────────────────────────────────────────


def overview(rows: Sequence[Row]) -> str:
    """All attacks on one scale: a dot without the defence, a dot with it, their intervals, and chance."""
    body = [
        [row.attack.name, row.attack.metric, written(row.undefended), _defended(row), _verdict(row)] for row in rows
    ]
    named = [("key-1", "without the defence"), ("key-2", "with the defence")]
    legend = "".join(f'<li><span class="key {kind}"></span>{name}</li>' for kind, name in named)
    return (
        '<figure class="plot"><p class="title">All attacks: orange without the defence, green with it</p>'
        f'{_scale(rows, _DESK)}{_scale(rows, _PHONE)}<ul class="legend" aria-hidden="true">{legend}<li>○ not built</li>'
        "<li>| chance</li></ul></figure>" + table(["attack", "metric", "without", "with the defence", "goal"], body)
    )


def _scale(rows: Sequence[Row], sheet: _Sheet) -> str:
    height = _TOP + sheet.line * len(rows) + 26
    parts = []
    for step in range(5):
        x = sheet.x(step / 4)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{height - 24}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{height - 8}" text-anchor="middle">{step / 4:g}</text>')
    for place, row in enumerate(rows):
        y = _TOP + sheet.line * (place + 1) - _BELOW
        name, x, up, anchor = html.escape(row.attack.name), sheet.left - 14, 4, "end"
        if sheet.above:
            x, up, anchor = sheet.left, -14, "start"
        parts.append(f'<text class="label" x="{x}" y="{y + up}" text-anchor="{anchor}">{name}</text>')
        chance = sheet.x(row.attack.chance)
        parts.append(f'<line class="chance" x1="{chance}" x2="{chance}" y1="{y - 9}" y2="{y + 9}"/>')
        for colour, found in ((1, row.undefended), (2, row.defended)):
            low, high = (sheet.x(end) for end in found.ci95)
            parts.append(f'<line class="whisker series-{colour}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>')
            hollow = " hollow" if colour == 2 and not row.attack.built else ""
            parts.append(f'<circle class="dot-{colour}{hollow}" cx="{sheet.x(found.value)}" cy="{y}" r="5.5"/>')
    return (
        f'<svg class="{sheet.kind}" viewBox="0 0 {sheet.width} {height}" role="img"><title>All attacks</title>'
        "<desc>For each attack its metric without and with the defence, between 0 and 1, with 95 % intervals."
        f" The table below has the numbers.</desc>{''.join(parts)}</svg>"
    )


def _defended(row: Row) -> str:
    return written(row.defended) + ("" if row.allowed is None else f", allowed {row.allowed:.3f}")


def _verdict(row: Row) -> str:
    if not row.attack.built:
        return "not built"
    return {True: "met", False: "missed", None: "–"}[row.met]


# ── each attack ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _one(row: Row) -> str:
    attack = row.attack
    steps = "".join(f"<li>{html.escape(step)}</li>" for step in attack.steps)
    defence = "defence" if attack.built else "not built"
    said = [("needs", attack.needs), ("metric", f"{attack.metric}; chance alone gives {attack.chance:.3g}")]
    said += [("without", written(row.undefended)), ("with", _defended(row)), (defence, attack.defence)]
    said += [("remains", attack.remains)] if attack.remains else []
    listed = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in said)
    if attack.goal is not None:
        verdict = '<span class="met">met</span>' if row.met else '<span class="missed">missed</span>'
        listed += f"<dt>goal</dt><dd>{html.escape(attack.goal.sentence)}: {verdict}</dd>"
    details = {**row.undefended.detail, **row.defended.detail}
    behind = [[_words(n), _cell(row.undefended.detail.get(n)), _cell(row.defended.detail.get(n))] for n in details]
    trials = [["trials", f"{row.undefended.trials:,}", f"{row.defended.trials:,}"]]
    return (
        f"<h2>{html.escape(attack.name)}</h2><ol>{steps}</ol><dl>{listed}</dl>"
        + _figure(row)
        + numbers_behind(["what", "without", "with the defence"], trials + behind)
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
    return str(value)


def _figure(row: Row) -> str:
    curves = [
        (name, colour, found.curve)
        for name, colour, found in (("without", 1, row.undefended), ("with the defence", 2, row.defended))
        if found.curve is not None
    ]
    if not curves:
        return ""
    first = curves[0][2]
    up = first.up or row.attack.metric
    places = [point.place for point in first.points]
    figure = Figure(
        row.attack.slug,
        title=up[:1].upper() + up[1:],
        description=f"{up} against {first.across}, with 95 % intervals.",
        across=first.across,
        # The title says it.
        up="",
        curves=[_curve(name, colour, curve, places) for name, colour, curve in curves],
        rules=[] if first.up else [ReferenceLine("chance", row.attack.chance)],
        lowest=0.0,
        highest=1.0,
        places=[NamedPlace(float(i), place) for i, place in enumerate(places)],
    )
    return plot(figure)


def _curve(name: str, colour: int, measured: Measured, places: Sequence[str]) -> Curve:
    found = {point.place: point for point in measured.points}
    values = [found[place].value if place in found else math.nan for place in places]
    ends = [found[place].ci95 if place in found else (math.nan, math.nan) for place in places]
    return Curve(name, range(len(places)), values, [low for low, _ in ends], [high for _, high in ends], colour=colour)
