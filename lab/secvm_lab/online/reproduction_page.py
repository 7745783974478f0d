"""The page of the online evaluation, and the paper's figures 2 a to d and 3, from runs."""

from __future__ import annotations

from collections.abc import Sequence

from secvm.learning.aggregate.scoring import Share
from secvm.pages.figure import Curve, Figure, Shade
from secvm_lab.online.reproduction import Pair, Reproduction, ShortRows, Tried
from secvm_lab.online.result import MINORITY, Drop, Line, Run
from secvm_lab.reports import ReportPage

#: The minority is drawn in one colour everywhere, the majority in another, both together in a third.
_COLOURS = (0, 1)
_TOTAL = 2
#: From so many people on, of whom some 200 of the minority test in a round by day.
ENOUGH = 10_000
#: The verdict of a run that is smaller.
_SMALL = "small run, not judged"


def nights(run: Run) -> tuple[Shade, ...]:
    """Stretches of night rounds."""
    found: list[list[int]] = []
    for line in run.lines:
        if not line.opening.night:
            continue
        number = line.opening.number
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple(Shade(low - 0.5, high + 0.5, "night") for low, high in found)


def participants(run: Run, name: str, title: str) -> Figure:
    """Test participants by round: of both labels, and all."""
    rounds = _rounds(run.lines)
    curves = [
        Curve(label, rounds, [line.tested[i] for line in run.lines], colour=_COLOURS[i])
        for i, label in enumerate(run.labels)
    ]
    curves.append(Curve("all", rounds, [sum(line.tested) for line in run.lines], colour=_TOTAL))
    return Figure(
        name=name,
        title=title,
        description="Test participants by round, of both labels and all together; nights are shaded.",
        across="round",
        up="test participants",
        curves=curves,
        shades=nights(run),
        lowest=0.0,
    )


def beside(runs: Sequence[tuple[str, Run]], name: str, title: str) -> Figure:
    """The minority's recall in several runs."""
    curves = [
        Curve(words, _rounds(run.lines), [line.recall for line in run.lines], colour=i)
        for i, (words, run) in enumerate(runs)
    ]
    return Figure(
        name=name,
        title=title,
        description="The minority's recall by round under each setting; nights are shaded.",
        across="round",
        up="recall",
        curves=curves,
        shades=nights(runs[0][1]),
        percent=True,
        lowest=0.0,
        highest=1.0,
    )


def shares(run: Run, what: str, name: str, title: str) -> Figure:
    """Recall or precision of both labels by round, each beside its share among the test people."""
    rounds, curves = _rounds(run.lines), []
    for i, label in enumerate(run.labels):
        found: list[Share] = [getattr(line.score, what)[i] for line in run.lines]
        low, high = ([share.interval[end] for share in found] for end in (0, 1))
        curves.append(Curve(f"{what}, {label}", rounds, [s.value for s in found], low, high, colour=_COLOURS[i]))
        share = [line.score.baseline[i].value for line in run.lines]
        curves.append(Curve(f"share, {label}", rounds, share, colour=_COLOURS[i], dashed=True))
    return Figure(
        name=name,
        title=title,
        description=f"The {what} of both labels by round with 95 % intervals, beside each label's share among the test "
        f"people, which a guess by the marginals would reach; the minority is {run.labels[MINORITY]}.",
        across="round",
        up=what,
        curves=curves,
        shades=nights(run),
        percent=True,
        lowest=0.0,
        highest=1.0,
    )


def _rounds(lines: Sequence[Line]) -> list[float]:
    return [float(line.opening.number) for line in lines]


def page(found: Reproduction, command: str, seconds: float) -> ReportPage:
    """The report."""
    plan, paper = found.plan, found.paper
    minority = plan.labels[MINORITY]
    made = ReportPage(
        "The online evaluation, on made-up people",
        f"{plan.people:,} people at any time, {plan.words.per_person} words each, rounds of eleven minutes. Nobody is"
        " real: what is shown is what the rounds do, not what anybody reads.",
    )
    made.prose(small(plan.people))
    _statements(made, paper, minority, judged=not small(plan.people))
    made.heading("Around the clock")
    _pictures(made, paper.continuous, "2a", "2c", "around the clock")
    made.figure(
        participants(paper.continuous, "figure3", "Fig. 3: test participants"),
        "Those who test, by round. The night is quiet, and the minority is quieter still.",
    )
    made.heading("By day only")
    _pictures(made, paper.daytime, "2b", "2d", "by day only")
    if found.chosen is not None and found.choice is not None:
        _chosen(made, found, found.chosen, found.choice)
    if found.short is not None:
        _few_words(made, found.short)
    made.made_by(command, seconds)
    return made


def small(people: int) -> str:
    """That a run is too small to judge by, and what size is enough; empty: it is not."""
    if people >= ENOUGH:
        return ""
    return f"Small run: {people:,} people show that it works and judge nothing. {ENOUGH:,} or more are enough."


def _statements(made: ReportPage, paper: Pair, minority: str, *, judged: bool) -> None:
    def say(theirs: str, ours: str, holds: str) -> None:
        made.statement(theirs, ours, holds if judged else _SMALL)

    run, by_day = paper.continuous, paper.daytime
    day, night = run.told(rounds=False)["means"]["day"], run.told(rounds=False)["means"]["night"]
    recall, share = day["recall"][minority], day["baseline"][minority]
    say(
        "Recall for females, the minority, lies far above the marginal baseline.",
        f"By day {recall:.1%}, where its share is {share:.1%}.",
        "yes" if recall > 2 * share else "no",
    )
    majority = next(label for label in run.labels if label != minority)
    say(
        "Recall for males is at around the same level as their baseline; recall for females is significantly worse.",
        f"{majority} {day['recall'][majority]:.1%} (share {day['baseline'][majority]:.1%}), {minority} {recall:.1%}.",
        _worse(day["recall"][majority] - recall),
    )
    if night is not None:
        drop = run.night_drop
        say(
            "At night recall for females drops: there is very little training signal for them then.",
            f"By day {recall:.1%}, at night {night['recall'][minority]:.1%}: a drop of {_points(drop)}. Of the"
            f" training, weights included, the minority has {day['weighted_share']:.0%} by day,"
            f" {night['weighted_share']:.0%} at night.",
            _dropped(drop),
        )
    spread, spread_by_day = run.hourly_spread or 0.0, by_day.hourly_spread or 0.0
    say(
        "Trained by day only, it is much more stable.",
        f"From hour to hour recall for {minority} spreads by {100 * spread:.1f} points around the clock, by"
        f" {100 * spread_by_day:.1f} by day only (standard deviations, chance included). The middle of the day is above"
        f" its edges by {_points(by_day.night_drop)}.",
        _steadier(spread, spread_by_day),
    )
    precision = day["precision"]
    say(
        "Precision lies far above the baseline for both.",
        ", ".join(f"{label} {precision[label]:.1%} (share {day['baseline'][label]:.1%})" for label in run.labels) + ".",
        "yes" if all(precision[label] > day["baseline"][label] for label in run.labels) else "no",
    )


def _worse(by: float) -> str:
    """How far one recall is below the other, as a verdict."""
    if by > 0.05:
        return "yes"
    return f"partly: worse by {100 * by:.1f} points only" if by > 0 else "no: not worse here"


def _dropped(drop: Drop) -> str:
    """Whether recall drops, as a verdict: three standard errors are beyond chance, less is not seen either way."""
    if drop.value is None or drop.error is None:
        return "not measured"
    if drop.value > 3 * drop.error:
        return "yes"
    if drop.value < -3 * drop.error:
        return "no: it rises"
    return "open: within three standard errors; more people would tell"


def _steadier(clock: float, by_day: float) -> str:
    """Whether one spread is much below the other: at most half, or at most three quarters of it."""
    if by_day <= clock / 2:
        return "yes"
    return "partly: steadier, by less than half" if by_day <= 0.75 * clock else "no"


def _pictures(made: ReportPage, run: Run, of_recall: str, of_precision: str, words: str) -> None:
    for what, number in (("recall", of_recall), ("precision", of_precision)):
        made.figure(
            shares(run, what, f"figure{number}", f"Fig. {number}: {what}, {words}"),
            f"Solid: {what} with its 95 % interval. Dashed: the label's share among the test people.",
        )


def _chosen(made: ReportPage, found: Reproduction, chosen: Pair, choice: Tried) -> None:
    made.heading("λ and class weight, chosen well")
    made.prose(
        f"On other people {len(found.tried)} pairs were tried for two days. Taken is the pair whose "
        "smallest mean recall, of either label, by day or at night, is the largest: "
        f"λ = {float(choice.lambda_):g}, weight {float(choice.weight):g}."
    )
    rows = []
    for words, pair in (("the paper's", found.paper), ("chosen", chosen)):
        for hours, run in (("around the clock", pair.continuous), ("by day only", pair.daytime)):
            means = run.told(rounds=False)["means"]
            cells = [
                "–" if means[part] is None else f"{means[part]['recall'][label]:.1%}"
                for part in ("day", "night")
                for label in run.labels
            ]
            rows.append([f"{words}, {hours}", *cells, _points(run.night_drop)])
    labels = found.plan.labels
    made.table(
        ["settings", *(f"recall {when}, {label}" for when in ("by day", "at night") for label in labels), "drop"], rows
    )
    made.figure(
        beside(
            [("the paper's settings", found.paper.continuous), ("chosen settings", chosen.continuous)],
            "chosen",
            f"Recall of {labels[MINORITY]}, both settings",
        ),
        "The same people and the same nights.",
    )
    made.table(
        ["λ, weight", "majority by day", "minority by day", "majority at night", "minority at night", "the smallest"],
        [
            [
                f"{float(one.lambda_):g}, {float(one.weight):g}",
                *(f"{value:.1%}" for value in (*one.by_day, *one.at_night)),
                f"{one.merit:.1%}",
            ]
            for one in found.tried
        ],
        caption="Mean recalls of the pilot's second day.",
    )


def _few_words(made: ReportPage, short: ShortRows) -> None:
    made.heading("People of few words")
    made.prose(
        f"With {short.words} words a person, margins stay below one and everybody violates for ever: with the paper's"
        " λ and weight the model calls nearly everybody the same. Two days around the clock, means of the second."
    )
    rows = []
    for words, run in (
        ("the paper's", short.paper),
        (f"chosen: λ = {float(short.choice.lambda_):g}, weight {float(short.choice.weight):g}", short.chosen),
    ):
        means = run.told(rounds=False)["means"]
        cells = [f"{means[part]['recall'][label]:.1%}" for part in ("day", "night") for label in run.labels]
        rows.append([words, *cells])
    labels = short.paper.labels
    made.table(["settings", *(f"recall {when}, {x}" for when in ("by day", "at night") for x in labels)], rows)


def _points(drop: Drop) -> str:
    if drop.value is None:
        return "–"
    error = "" if drop.error is None else f" ± {100 * drop.error:.1f}"
    return f"{100 * drop.value:.1f}{error} points"
