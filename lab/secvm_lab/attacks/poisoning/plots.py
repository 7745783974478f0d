"""A16: some devices send what they like, to make the model worse.

One device in a hundred is malicious. They act together, read everything public (tallies, weights, the defence), know
what people like themselves are like, and name any bin and sign they want, in every round. The damage is the accuracy
that the model loses on other people, with the worst of their plots:

- **label flip**: their own people's features under the other label, again and again;
- **ascent**: against the weights of the last model, bin by bin;
- **bias**: everything into the bias, which everybody has;
- **popular bins**: everything into the ten most popular bins, with one sign;
- **participations**: a crowd that does not exist, all of one label;
- **ten bins** and **adaptive**: against what the first tally said, in the bins that said most, as far as the units go:
  the limit of a bin is public, so whoever knows it spreads over as many bins as hurt most (30, 100, 300).

Two experiments are attacked, each at its own budget B: a plain one of twenty rounds, and one with two relays' cover.
Without a defence a device sends a hundred times B. With it the relay's quota holds a device to B, and the step clips
bins (``learning/aggregate/robust.py``). With cover, a round in which a cell has more than M + 2q is not stepped; the
attackers know that and stay below it. Who wants to stop rounds goes above it (``stopping_devices``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from secvm.learning.experiment import Robust
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point, goal
from secvm_lab.attacks.poisoning.poisoned import Case, PoisonWorld, Sent, Size, cases, covered_case, defence
from secvm_lab.attacks.statistics import average
from secvm_lab.attacks.views import Knowledge, ParticipantView

SIZE = Size()
#: What a device may send where nobody counts, beside one that is counted.
WITHOUT_QUOTA = 100
#: Numbers of bins over which the last plots spread.
SPREADS = {"ten bins": 10, "adaptive, 30 bins": 30, "adaptive, 100 bins": 100, "adaptive, 300 bins": 300}
PLOTS = ("label flip", "ascent", "bias", "popular bins", "participations", *SPREADS)
#: Budgets of the curve, of the experiment with cover; its own is 103.
BUDGETS = (24, 50, 103, 200, 400)
CURVE_WORLDS = 3
#: Further experiments with cover, for more rounds than its planner takes: time for those who read tallies.
MORE_ROUNDS = (2, 10)


@dataclass(frozen=True, slots=True)
class Malice(Knowledge):
    """What malicious devices agreed upon, and what they know of themselves."""

    plot: str
    devices: int
    #: (bins + 1) x 2: their own people's features by true label, minus first.
    own: NDArray[np.int64]
    #: Over how many bins they spread, where the plot is to spread.
    spread: int = 0
    #: The first tally, for those who knew it beforehand (from an experiment with the same people, say).
    prior: NDArray[np.int64] | None = None


def guess(view: ParticipantView, knowing: Malice) -> Sent:
    """What they send in the round that comes."""
    units = knowing.devices * (view.budget - 1)
    bins = len(knowing.own)
    wanted = np.zeros((bins, 2))
    popular = knowing.own.sum(axis=1).astype(np.float64)
    if knowing.plot == "participations":
        # Half of the crowd is of this label already.
        crowd = units if view.most_in_a_cell is None else min(units, view.most_in_a_cell // 2)
        return Sent(np.zeros((bins, 2), dtype=np.int64), np.array([crowd, 0]))
    if knowing.plot == "bias":
        wanted[-1, 1] = 1.0
    elif knowing.plot == "popular bins":
        wanted[np.argsort(-popular[:-1], kind="stable")[:10], 1] = 1.0
    elif knowing.plot == "ascent" and view.public.tallies:
        weights = view.public.weights[-1][0]
        against = np.abs(weights) * view.public.tallies[0][0].sum(axis=-1)
        wanted[np.arange(bins), (weights < 0).astype(np.int64)] = against
    elif knowing.spread:
        first = view.public.tallies[0][0] if view.public.tallies else knowing.prior
        if first is None:  # a first tally of their own making would tell them nothing
            return Sent(wanted.astype(np.int64), np.zeros(2, dtype=np.int64))
        net = first[:, 1] - first[:, 0]
        most = np.argsort(-np.abs(net[:-1]), kind="stable")[: knowing.spread]
        wanted[most, (net[most] < 0).astype(np.int64)] = np.maximum(first[most].sum(axis=-1), 1)
    else:  # what one knows before the first tally: oneself
        wanted = knowing.own[:, ::-1].astype(np.float64)
    sent = _shared_out(wanted, units)
    if view.most_in_a_cell is not None:
        # What people like themselves fill of a cell at most, before thinning, is not theirs to fill.
        sent = np.minimum(sent, view.most_in_a_cell * np.maximum(knowing.devices - knowing.own, 0) // knowing.devices)
    return Sent(sent, np.zeros(2, dtype=np.int64))


def _shared_out(wanted: NDArray[np.float64], units: int) -> NDArray[np.int64]:
    """So many units, rounded down, in these proportions."""
    whole = wanted.sum()
    return np.floor(wanted * (units / whole)).astype(np.int64) if whole > 0 else np.zeros(wanted.shape, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Lost:
    """Accuracy lost in one world."""

    #: By plot, at the end.
    by_plot: dict[str, float]
    #: What the defence costs where nobody attacks, at the end and half way.
    price: float
    price_half_way: float
    #: Of the experiment without defence and without attack.
    accuracy: float


def lost(
    world: PoisonWorld,
    case: Case,
    robust: Robust | None,
    quota: int,
    plots: Sequence[str],
    *,
    insider: bool = False,
    limited: bool = True,
) -> Lost:
    """What each plot costs an experiment, compared with the same experiment among honest people without a defence.

    ``insider``: they knew the first tally beforehand. ``limited``: the rule of M + 2q holds.
    """
    undisturbed = world.accuracy(case.experiment, case.rounds)
    used = replace(case.experiment, robust=robust)
    alone = undisturbed if robust is None else world.accuracy(used, case.rounds)
    own, prior = world.own(), world.first_tally(case.experiment) if insider else None

    def cost(name: str) -> float:
        knowing = Malice(name, world.size.devices, own, SPREADS.get(name, 0), prior)
        plot = partial(guess, knowing=knowing)
        return undisturbed[-1] - world.accuracy(used, case.rounds, plot, quota, limited=limited)[-1]

    half = len(undisturbed) // 2
    by_plot = {name: cost(name) for name in plots}
    return Lost(by_plot, undisturbed[-1] - alone[-1], undisturbed[half] - alone[half], undisturbed[-1])


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A world in each trial; the worst is the experiment and plot with the largest mean."""
    both = cases(SIZE)
    worlds = [PoisonWorld(SIZE, seed=1_000 * seed + i) for i in range(trials)]
    found: dict[str, list[Lost]] = {case.name: [] for case in both}
    for world in worlds:
        for case in both:
            robust, quota = (defence(case.rounds), case.budget) if defended else (None, WITHOUT_QUOTA * case.budget)
            found[case.name].append(lost(world, case, robust, quota, PLOTS, limited=defended))
        advance(1)
    detail: dict[str, int | float | str | bool | None] = {"malicious devices, share": float(SIZE.malicious)}
    for case in both:
        detail |= _told(case, found[case.name], defended=defended)
    if defended and trials >= CURVE_WORLDS:
        detail |= _further(both[0], worlds[:CURVE_WORLDS])
        more = (covered_case(SIZE, rounds) for rounds in MORE_ROUNDS)
        for case in (both[1], *more):
            detail |= _clipping(case, worlds[:CURVE_WORLDS])
        stop = [world.stopping_devices(both[1].experiment, both[1].budget) for world in worlds]
        detail["cover: devices that can stop every round"] = max(stop)
    worst, plot = max(
        ((case.name, plot) for case in both for plot in PLOTS), key=lambda one: _mean(found[one[0]], one[1])
    )
    detail |= {"worst experiment": worst, "worst plot": plot}
    value, ci95 = _within([one.by_plot[plot] for one in found[worst]])
    curve = _curve(worlds[:CURVE_WORLDS], both[1], defended=defended) if trials >= CURVE_WORLDS else None
    return Measurement(value, ci95, trials, detail, curve)


def _told(case: Case, found: Sequence[Lost], *, defended: bool) -> dict[str, int | float]:
    """All that was found of one experiment."""
    told: dict[str, int | float] = {
        "packages per device and round": case.budget * (1 if defended else WITHOUT_QUOTA),
        "rounds": case.rounds,
        "accuracy without attack and defence": float(np.mean([one.accuracy for one in found])),
    }
    if defended:
        told["price of clipping"] = float(np.mean([one.price for one in found]))
        told["price of clipping half way"] = float(np.mean([one.price_half_way for one in found]))
    told |= {f"lost by {name}": _mean(found, name) for name in PLOTS}
    return {f"{case.name}: {name}": value for name, value in told.items()}


def _further(plain: Case, worlds: Sequence[PoisonWorld]) -> dict[str, float]:
    """Of the plain experiment: trimming's price beside clipping's, and attackers who knew the first tally."""
    robust, plots = defence(plain.rounds), tuple(SPREADS)
    insiders = [lost(one, plain, robust, plain.budget, plots, insider=True) for one in worlds]
    trimmed = [lost(one, plain, replace(robust, trim=3), plain.budget, ()) for one in worlds]
    return {
        "plain: lost with clipping, first tally known": _mean(insiders, _worst(insiders, plots)),
        "plain: price of clipping, rounds trimmed by 3 too": float(np.mean([one.price for one in trimmed])),
    }


def _clipping(case: Case, worlds: Sequence[PoisonWorld]) -> dict[str, float]:
    """What those who read tallies take from an experiment with cover, without clipping and with it."""
    told = {}
    for said, robust in (("without clipping", None), ("with clipping", defence(case.rounds))):
        for insider in (False, True):
            found = [lost(one, case, robust, case.budget, PLOTS, insider=insider) for one in worlds]
            name = "first tally known" if insider else "worst plot"
            told[f"{case.name}: lost {said}, {name}"] = _mean(found, _worst(found, PLOTS))
    return told


def _curve(worlds: Sequence[PoisonWorld], case: Case, *, defended: bool) -> Curve:
    """Accuracy lost to those who knew the first tally, by what a device may send; without and with clipping."""
    points, plots = [], tuple(SPREADS)
    robust = defence(case.rounds) if defended else None
    for quota in BUDGETS:
        found = [lost(world, case, robust, quota, plots, insider=True) for world in worlds]
        worst = _worst(found, plots)
        points.append(Point(str(quota), *_within([one.by_plot[worst] for one in found])))
    return Curve("packages per device and round, with cover", tuple(points))


def _mean(found: Sequence[Lost], plot: str) -> float:
    return float(np.mean([one.by_plot[plot] for one in found]))


def _worst(found: Sequence[Lost], plots: Sequence[str]) -> str:
    return max(plots, key=partial(_mean, found))


def _within(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """A mean with its interval; a model that got better has lost nothing."""
    mean, (low, high) = average(np.array(values))
    value = min(max(mean, 0.0), 1.0)
    return value, (min(max(low, 0.0), value), max(min(high, 1.0), value))


ATTACK = Attack(
    number=16,
    title="poisoning",
    slug="poisoning",
    needs="One device in a hundred, acting together. They read all that is public, and send what they like.",
    steps=(
        "Wait for the first tally, which tells the bins that say most.",
        "Send in every round all that the relay lets through, against what honest people say.",
        "Try label flip, ascent, bias, popular bins, a crowd that does not exist, ten bins, more bins; keep the worst.",
    ),
    metric="accuracy lost to one malicious device in a hundred",
    chance=0.0,
    defence="The relay's quota holds a device to the experiment's budget B; the step clips every bin to 5/T standard"
    " deviations of chance, for T rounds.",
    remains="It holds while B is small beside what honest people send, or rounds are few. With many rounds and a large"
    " B one device in a hundred has more units than honest people's nets together: pushed a little in many bins they"
    " look like other people, and no count tells (the curve). Who knows the first tally beforehand does more harm. And"
    " a quota counts clients: who has a hundred addresses, credentials or tokens is a hundred devices.",
    goal=goal(undefended_at_least=0.1, defended_at_most=0.02),
    trials=10,
    quick_trials=2,
    guess=guess,
    play=play,
)
