"""The parts of the demonstration's page: figures and tables, each a piece of HTML made of a ``DemoResult``."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from secvm.learning.aggregate.scoring import Share
from secvm.pages.figure import Bars, Curve, Figure, ReferenceLine, Stack
from secvm.privacy.risk import up
from secvm_lab.demo.attack import LabelAttack
from secvm_lab.demo.result import DemoResult
from secvm_lab.reports import number, numbers_behind, percent, plot

#: Classes beyond so many share colours; devices that test have one of their own.
_COLOURS, _TESTING = 7, 7


def levels(rows: Sequence[tuple[str, float, str]], *, lowest: float = 0.0) -> str:
    """Bars below each other: what each is, how far it reaches from ``lowest`` to 1, and its value in words."""
    shown = []
    for colour, (name, value, words) in enumerate(rows):
        width = 100 * min(1.0, max(0.0, (value - lowest) / (1 - lowest)))
        told = f"{name}: {words}. The axis goes from {lowest:g} to 1, and the bar fills {width:.0f} percent of it."
        shown.append(
            f"<span>{html.escape(name)}</span><b>{html.escape(words)}</b>"
            f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img"><title>{html.escape(name)}</title>'
            f"<desc>{html.escape(told)}</desc>"
            f'<rect class="bar-{colour}" width="{width:.1f}" height="10"/></svg>'
        )
    return f'<div class="levels">{"".join(shown)}</div>'


def accuracy_levels(result: DemoResult) -> str:
    """The model beside the same rounds without cover, and beside all the data in one place; nothing of a plain run."""
    if result.protected is None:
        return ""
    rows = [
        ("this federation", result.accuracy),
        ("the same rounds without cover", result.protected.plain_accuracy),
        ("LinearSVC, all data in one place", result.central_accuracy),
    ]
    return levels([(name, value, percent(value)) for name, value in rows])


def attack_levels(attack: LabelAttack) -> str:
    """The attack beside what is allowed; bars begin at a coin's .5."""
    low, high = attack.interval
    return levels(
        [
            ("label attack on this run", attack.auc, f"{attack.auc:.3f} ({low:.3f} to {high:.3f})"),
            ("the most that the guarantee allows", attack.allowed, f"{up(attack.allowed, 1000):.3f}"),
            ("the same rounds without cover", attack.plain, f"{attack.plain:.3f}"),
        ],
        lowest=0.5,
    )


def accuracy_figure(result: DemoResult) -> str:
    """Accuracy on people who took no part, round by round, with what it is compared with."""
    values = [line.accuracy for line in result.lines]
    guess = max(share.value for share in result.final.baseline)
    everything = [*(v for v in values if not math.isnan(v)), guess, result.central_accuracy]
    figure = Figure(
        "accuracy",
        title="Accuracy after each round",
        description=(
            f"Accuracy on {number(result.tested_on)} further people, round by round, ending at"
            f" {percent(result.accuracy)};"
            f" the central model has {percent(result.central_accuracy)}, a guess of the larger class {percent(guess)}."
        ),
        across="round",
        up="accuracy",
        curves=[Curve("this federation", [line.number for line in result.lines], values)],
        rules=[
            ReferenceLine("always the larger class", guess),
            ReferenceLine("LinearSVC, all data in one place", result.central_accuracy),
        ],
        lowest=math.floor(10 * min(everything)) / 10,
        highest=min(1.0, math.ceil(10 * max(everything) + 0.2) / 10),
        percent=True,
    )
    rows = [[str(line.number), percent(line.accuracy)] for line in result.lines]
    return plot(figure, behind=numbers_behind(["round", "accuracy"], rows))


def _interval(share: Share) -> str:
    low, high = share.interval
    return f"{percent(share.value)} [{percent(low, 0)}, {percent(high, 0)}]"


def class_figures(result: DemoResult) -> str:
    """Figure 2 of the paper: recall and precision of every class over the rounds."""
    scored = [line for line in result.lines if line.score is not None]
    figures, rows = [], [[str(line.number)] for line in scored]
    for label, name in enumerate(result.labels):
        curves = []
        for colour, kind in enumerate(("recall", "precision")):
            shares: list[Share] = [getattr(line.score, kind)[label] for line in scored]
            curves.append(
                Curve(
                    kind,
                    [line.number for line in scored],
                    [share.value for share in shares],
                    low=[share.interval[0] if share.of else math.nan for share in shares],
                    high=[share.interval[1] if share.of else math.nan for share in shares],
                    colour=colour,
                    dashed=kind == "precision",
                )
            )
            for row, share in zip(rows, shares, strict=True):
                row.append(_interval(share))
        of = sum(line.score.baseline[label].of for line in scored if line.score)
        baseline = sum(line.score.baseline[label].hits for line in scored if line.score) / max(1, of)
        last = scored[-1].score if scored else None
        told = (
            f" In the last round recall {_interval(last.recall[label])}, precision {_interval(last.precision[label])}."
            if last
            else ""
        )
        figure = Figure(
            f"class-{label}",
            title=f"Class “{name}”",
            description=(
                f"Recall and precision of class {name} over the rounds, with 95 % intervals, as counted from test"
                f" packages; the marginal baseline is {percent(baseline)}.{told}"
            ),
            across="round",
            up="share",
            curves=curves,
            rules=[ReferenceLine("marginal baseline", baseline)],
            lowest=0.0,
            highest=1.0,
            percent=True,
        )
        figures.append(plot(figure, half=True))
    head = ["round", *(f"{kind} {name}" for name in result.labels for kind in ("recall", "precision"))]
    return f'<div class="pair">{"".join(figures)}</div>' + numbers_behind(head, rows)


def participants_figure(result: DemoResult) -> str:
    """Figure 3 of the paper: participants per class and round."""
    stacks = [
        Stack(name, [line.participants[label] for line in result.lines], colour=label % _COLOURS)
        for label, name in enumerate(result.labels)
    ]
    tested = [line.score.accuracy.of if line.score else 0 for line in result.lines]
    stacks.append(Stack("testing", tested, colour=_TESTING))
    totals = [sum(line.participants) + test for line, test in zip(result.lines, tested, strict=True)]
    figure = Figure(
        "participants",
        title="Participants in each round",
        description=(
            f"Participants per class and round: between {number(min(totals, default=0))} and"
            f" {number(max(totals, default=0))} of {number(result.participants)} took part in a round."
        ),
        across="round",
        up="participants",
        bars=Bars([line.number for line in result.lines], stacks),
    )
    rows = [
        [str(line.number), *(number(count) for count in line.participants), number(test), number(line.sent)]
        for line, test in zip(result.lines, tested, strict=True)
    ]
    head = ["round", *result.labels, "testing", "packages sent"]
    return plot(figure, behind=numbers_behind(head, rows))


def arrivals_figure(result: DemoResult) -> str:
    """When packages arrived within their windows; nothing where nobody looked."""
    if not sum(result.arrivals):
        return ""
    n, mean = len(result.arrivals), sum(result.arrivals) / len(result.arrivals)
    figure = Figure(
        "arrivals",
        title="Arrivals over the window",
        description=(
            f"Packages acknowledged in each of {n} equal parts of the windows, all rounds together: from"
            f" {number(min(result.arrivals))} to {number(max(result.arrivals))}, on average {mean:,.0f}."
        ),
        across="percent of the window",
        up="packages",
        bars=Bars([100 * (i + 0.5) / n for i in range(n)], [Stack("packages", result.arrivals)]),
        rules=[ReferenceLine("if exactly even", mean)],
    )
    rows = [[f"{100 * i // n}–{100 * (i + 1) // n} %", number(count)] for i, count in enumerate(result.arrivals)]
    return plot(figure, behind=numbers_behind(["part", "packages"], rows))
