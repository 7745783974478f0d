"""The paper's figures 2 a to d and 3, from runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secvm.learning.aggregate.scoring import Share
from secvm.pages.figure import Curve, Figure, Shade
from secvm_lab.online.result import MINORITY, Line, Run

#: The minority is drawn in one colour everywhere, the majority in another, both together in a third.
_COLOURS = (0, 1)
_TOTAL = 2


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


def recall(run: Run, name: str, title: str) -> Figure:
    """Recall of both labels by round, each beside its share among the test people."""
    return _shares(run, name, title, "recall", lambda line: line.score.recall)


def precision(run: Run, name: str, title: str) -> Figure:
    """Precision of both labels by round, each beside its share among the test people."""
    return _shares(run, name, title, "precision", lambda line: line.score.precision)


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


def _shares(run: Run, name: str, title: str, what: str, of: Callable[[Line], tuple[Share, ...]]) -> Figure:
    rounds, curves = _rounds(run.lines), []
    for i, label in enumerate(run.labels):
        shares = [of(line)[i] for line in run.lines]
        low, high = ([share.interval[end] for share in shares] for end in (0, 1))
        curves.append(Curve(f"{what}, {label}", rounds, [s.value for s in shares], low, high, colour=_COLOURS[i]))
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
