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
  the limit of a bin is public, so whoever knows it spreads over as many bins as hurt most (30, 100, 300, all).

Without a defence a device sends a hundred times what an honest one may. With it the relay's quota holds a device to the
budget B, and the step clips bins (``learning/aggregate/robust.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from secvm.lab.attacks.attack import Advance, Attack, Curve, Measurement, Point, goal
from secvm.lab.attacks.poisoned import PoisonWorld, Sent, Size
from secvm.lab.attacks.statistics import average
from secvm.lab.attacks.views import Knowledge, ParticipantView
from secvm.learning.aggregate.robust import Robust
from secvm.learning.experiment import Experiment
from secvm.privacy.shuffle_dp import plan

SIZE = Size()
DEFENCE = Robust(clip=Fraction(1, 4))
#: What a device may send where nobody counts, beside one that is counted.
WITHOUT_QUOTA = 100
#: Numbers of bins over which the last two plots spread.
SPREADS = {"ten bins": 10, "adaptive, 30 bins": 30, "adaptive, 100 bins": 100, "adaptive, 300 bins": 300}
PLOTS = ("label flip", "ascent", "bias", "popular bins", "participations", *SPREADS)
#: Budgets of the curve: that of a plain experiment, and on to what cover needs.
BUDGETS = (24, 50, 100, 200, 400)
CURVE_PLOTS = ("label flip", *SPREADS)
CURVE_WORLDS = 3


@dataclass(frozen=True, slots=True)
class Malice(Knowledge):
    """What malicious devices agreed upon, and what they know of themselves."""

    plot: str
    devices: int
    #: (bins + 1) x 2: their own people's features by true label, minus first.
    own: NDArray[np.int64]
    #: Over how many bins they spread, where the plot is to spread.
    spread: int = 0


def guess(view: ParticipantView, knowing: Malice) -> Sent:
    """What they send in the round that comes."""
    units = knowing.devices * (view.budget - 1)
    bins = len(knowing.own)
    wanted = np.zeros((bins, 2))
    popular = knowing.own.sum(axis=1).astype(np.float64)
    if knowing.plot == "participations":
        return Sent(np.zeros((bins, 2), dtype=np.int64), np.array([units, 0]))
    if knowing.plot == "bias":
        wanted[-1, 1] = 1.0
    elif knowing.plot == "popular bins":
        wanted[np.argsort(-popular[:-1], kind="stable")[:10], 1] = 1.0
    elif knowing.plot == "ascent" and view.public.tallies:
        weights = view.public.weights[-1][0]
        against = np.abs(weights) * view.public.tallies[0][0].sum(axis=-1)
        wanted[np.arange(bins), (weights < 0).astype(np.int64)] = against
    elif knowing.spread:
        if not view.public.tallies:  # a first tally of their own making would tell them nothing
            return Sent(wanted.astype(np.int64), np.zeros(2, dtype=np.int64))
        first = view.public.tallies[0][0]
        net = first[:, 1] - first[:, 0]
        most = np.argsort(-np.abs(net[:-1]), kind="stable")[: knowing.spread]
        wanted[most, (net[most] < 0).astype(np.int64)] = np.maximum(first[most].sum(axis=-1), 1)
    else:  # what one knows before the first tally: oneself
        wanted = knowing.own[:, ::-1].astype(np.float64)
    return Sent(_shared_out(wanted, units), np.zeros(2, dtype=np.int64))


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


def lost(world: PoisonWorld, plain: Experiment, robust: Robust | None, quota: int, plots: Sequence[str]) -> Lost:
    """What each plot costs an experiment, compared with the same experiment among honest people without a defence."""
    undisturbed = world.accuracy(plain)
    used = replace(plain, robust=robust)
    alone = undisturbed if robust is None else world.accuracy(used)
    own = world.own()

    def cost(name: str) -> float:
        knowing = Malice(name, world.size.devices, own, SPREADS.get(name, 0))
        return undisturbed[-1] - world.accuracy(used, partial(guess, knowing=knowing), quota)[-1]

    half = len(undisturbed) // 2
    return Lost(
        {name: cost(name) for name in plots},
        undisturbed[-1] - alone[-1],
        undisturbed[half] - alone[half],
        undisturbed[-1],
    )


def play(trials: int, seed: int, *, defended: bool, advance: Advance, size: Size = SIZE) -> Measurement:
    """A world in each trial; the worst plot is the one with the largest mean."""
    plain = size.experiment
    quota, robust = (size.budget, DEFENCE) if defended else (WITHOUT_QUOTA * size.budget, None)
    worlds = [PoisonWorld(size, seed=1_000 * seed + i) for i in range(trials)]
    found = []
    for world in worlds:
        found.append(lost(world, plain, robust, quota, PLOTS))
        advance(1)
    worst = _worst(found, PLOTS)
    detail: dict[str, int | float | str | bool | None] = {
        "worst plot": worst,
        "packages per device and round": quota,
        "accuracy without attack and defence": float(np.mean([one.accuracy for one in found])),
        "malicious devices, share": float(size.malicious),
        "rounds": size.rounds,
    }
    if defended:
        detail["price of clipping"] = float(np.mean([one.price for one in found]))
        detail["price of clipping half way"] = float(np.mean([one.price_half_way for one in found]))
    detail |= {f"lost by {name}": float(np.mean([one.by_plot[name] for one in found])) for name in PLOTS}
    if defended and trials >= CURVE_WORLDS:
        trimmed = [lost(world, plain, replace(DEFENCE, trim=3), quota, ()) for world in worlds[:CURVE_WORLDS]]
        detail["price of clipping, rounds trimmed by 3 too"] = float(np.mean([one.price for one in trimmed]))
        detail |= _with_cover(worlds[:CURVE_WORLDS], size)
    value, ci95 = _within([one.by_plot[worst] for one in found])
    curve = _curve(worlds[:CURVE_WORLDS], plain, robust) if trials >= CURVE_WORLDS else None
    return Measurement(value, ci95, trials, detail, curve)


def _curve(worlds: Sequence[PoisonWorld], plain: Experiment, robust: Robust | None) -> Curve:
    """Accuracy lost by what a device may send, up to what cover makes necessary; the quota holds in both curves."""
    points = []
    for quota in BUDGETS:
        found = [lost(world, plain, robust, quota, CURVE_PLOTS) for world in worlds]
        worst = _worst(found, CURVE_PLOTS)
        points.append(Point(str(quota), *_within([one.by_plot[worst] for one in found])))
    return Curve("packages per device and round", tuple(points))


def _with_cover(worlds: Sequence[PoisonWorld], size: Size) -> dict[str, float]:
    """The same plots against an experiment with cover: ε = 1, δ = 1e-6, half of the devices honest; B is its plan's."""
    plain = size.experiment
    planned = plan(
        epsilon=1.0,
        delta=1e-6,
        rounds=size.rounds,
        features=size.features,
        bins=size.bins,
        thinning=plain.thinning,
        participants=size.people,
        gamma=Fraction(1, 2),
        labels=2,
    ).cover
    # The cap on a person's own units cuts next to nobody: not played, as the budget is not.
    covered = replace(plain, cover=replace(planned, real_cap=size.features + 1))
    found = [lost(world, covered, DEFENCE, planned.budget, CURVE_PLOTS) for world in worlds]
    worst = _worst(found, CURVE_PLOTS)
    rarer = [
        lost(world.with_malicious(size.malicious / 10), covered, DEFENCE, planned.budget, CURVE_PLOTS)
        for world in worlds
    ]
    rarely = _worst(rarer, CURVE_PLOTS)
    return {
        "with cover: packages per device and round": planned.budget,
        "with cover: accuracy without attack": float(np.mean([one.accuracy for one in found])),
        "with cover: price of clipping": float(np.mean([one.price for one in found])),
        "with cover: lost by ten bins": float(np.mean([one.by_plot["ten bins"] for one in found])),
        f"with cover: lost by {worst}, the worst": float(np.mean([one.by_plot[worst] for one in found])),
        "with cover: lost to a tenth as many malicious devices": float(np.mean([one.by_plot[rarely] for one in rarer])),
    }


def _worst(found: Sequence[Lost], plots: Sequence[str]) -> str:
    mean: Callable[[str], float] = lambda name: float(np.mean([one.by_plot[name] for one in found]))  # noqa: E731
    return max(plots, key=mean)


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
    defence="The relay's quota holds a device to the experiment's budget; the step clips every bin to a quarter of"
    " a standard deviation of chance.",
    remains="It needs a small budget, such as a plain experiment's (24 here). Cover makes B some hundreds, and then one"
    " device in a hundred has more units than honest people's nets together: pushed a little in many bins they look"
    " like other people, and no count tells (the curve). And a quota counts clients: who has a hundred addresses,"
    " credentials or tokens is a hundred devices.",
    goal=goal(undefended_at_least=0.1, defended_at_most=0.02),
    trials=10,
    quick_trials=2,
    guess=guess,
    play=play,
)
