"""What an attack is, what a measurement of one says, and attacks measured without and with their defences.

An attack says in sentences what it needs, what it does, how it is measured and what stops it. Its ``guess`` is what
the attacker does with what it sees: one view and one piece of knowledge, by type. Its ``play`` makes worlds, asks the
guess, compares with the truth, and is told whether the defence stands.

Every metric lies between 0 and 1. What chance alone would give is ``chance``: 1/2 for an AUC, 0 for a share caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from secvm_lab.attacks.views import Knowledge, View

V = TypeVar("V", bound=View)
K = TypeVar("K", bound=Knowledge)
G = TypeVar("G")

#: Called with each number of trials that are done.
Advance = Callable[[int], None]
#: What a measurement says besides its value; it is written as JSON.
Detail = Mapping[str, int | float | str | bool | None]


@dataclass(frozen=True, slots=True)
class Point:
    """A value at one place of a curve."""

    place: str
    value: float
    ci95: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """How the metric, or something that belongs to it, depends on something else."""

    across: str
    points: tuple[Point, ...]
    #: What its values are; empty: the attack's metric.
    up: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How well an attack did."""

    value: float
    #: The interval that holds the true value in 95 of 100 measurements.
    ci95: tuple[float, float]
    trials: int
    detail: Detail = field(default_factory=dict)
    curve: Curve | None = None

    def __post_init__(self) -> None:
        low, high = self.ci95
        if not 0 <= low <= self.value <= high <= 1:
            raise ValueError("a measurement lies in its interval, and that in 0..1")

    @property
    def said(self) -> str:
        """The value with its interval; where no dice decide, the outcome in words."""
        outcome = self.detail.get("outcome")
        return f"{self.value:.3f} [{self.ci95[0]:.3f}, {self.ci95[1]:.3f}]" if outcome is None else str(outcome)


@dataclass(frozen=True, slots=True)
class Goal:
    """What the defence has to reach, in a sentence and as a test of both measurements (undefended, defended)."""

    sentence: str
    met: Callable[[Measurement, Measurement], bool]
    #: Where the detail with the defence has what the accountant allows; None: the goal is not about that.
    bound: str | None = None


def goal(*, undefended_at_least: float | None = None, defended_at_most: float | None = None) -> Goal:
    """The usual goal: the attack works without its defence, and does not work with it."""
    said = []
    if undefended_at_least is not None:
        said.append(f"at least {undefended_at_least:g} without")
    if defended_at_most is not None:
        said.append(f"at most {defended_at_most:g} with the defence")

    def met(undefended: Measurement, defended: Measurement) -> bool:
        works = undefended_at_least is None or undefended.value >= undefended_at_least
        return works and (defended_at_most is None or defended.value <= defended_at_most)

    return Goal(", ".join(said), met)


class Play(Protocol):
    """Plays so many trials of an attack."""

    def __call__(self, trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack(Generic[V, K, G]):
    """One attack."""

    number: int
    #: A few words; with the number it is the attack's name.
    title: str
    #: Its name on the command line.
    slug: str
    #: Who attacks, and what it must be able to do or know.
    needs: str
    steps: tuple[str, ...]
    metric: str
    #: What chance alone gives.
    chance: float
    defence: str
    #: Whether the product has this defence; if not, its figure is of something that could be built.
    built: bool = True
    #: What stays, with the defence, or what the measurement leaves out. Empty: nothing known.
    remains: str = ""
    goal: Goal | None = None
    #: Trials of ``secvm attack run`` and ``report``, and of ``report --quick``.
    trials: int
    quick_trials: int
    guess: Callable[[V, K], G]
    play: Play

    @property
    def name(self) -> str:
        """The number and a few words."""
        return f"A{self.number} {self.title}"

    def measure(self, trials: int, seed: int, *, defended: bool, advance: Advance | None = None) -> Measurement:
        """Play so many trials, with the defence or without."""
        return self.play(trials, seed, defended=defended, advance=advance or (lambda _: None))


@dataclass(frozen=True, slots=True)
class Row:
    """One attack, measured twice."""

    attack: Attack[Any, Any, Any]
    undefended: Measurement
    defended: Measurement

    @property
    def met(self) -> bool | None:
        """Whether the attack's goal is met; None where it has none."""
        return None if self.attack.goal is None else self.attack.goal.met(self.undefended, self.defended)

    @property
    def allowed(self) -> float | None:
        """What the accountant allows with the defence; None where that is not the question."""
        bound = None if self.attack.goal is None else self.attack.goal.bound
        return None if bound is None else float(self.defended.detail[bound] or 0.0)

    @property
    def wanted(self) -> str:
        """The goal in words, with what is allowed here; empty where the attack has none."""
        if self.attack.goal is None:
            return ""
        return self.attack.goal.sentence + ("" if self.allowed is None else f", here {self.allowed:.3f}")

    @property
    def verdict(self) -> str:
        """Whether the goal is met, in a word."""
        if not self.attack.built:
            return "not built"
        return {True: "met", False: "MISSED", None: ""}[self.met]

    def cells(self) -> dict[str, object]:
        """One flat row, for a table: names and numbers."""
        row: dict[str, object] = {"name": self.attack.name, "slug": self.attack.slug, "metric": self.attack.metric}
        row["chance"] = self.attack.chance
        for name, found in (("undefended", self.undefended), ("defended", self.defended)):
            row |= {name: found.value, f"{name}_low": found.ci95[0], f"{name}_high": found.ci95[1]}
        return row | {"allowed": self.allowed, "goal": self.wanted, "met": self.met, "defence": self.attack.defence}

    def as_json(self) -> dict[str, object]:
        """The keys of ``secvm attack report --format json``."""
        written: dict[str, object] = {
            "name": self.attack.name,
            "slug": self.attack.slug,
            "metric": self.attack.metric,
            "chance": self.attack.chance,
            "undefended": self.undefended.value,
            "defended": self.defended.value,
            "ci95": {"undefended": list(self.undefended.ci95), "defended": list(self.defended.ci95)},
            "allowed": self.allowed,
            "trials": {"undefended": self.undefended.trials, "defended": self.defended.trials},
            "defence": self.attack.defence,
            "built": self.attack.built,
            "remains": self.attack.remains,
            "detail": {"undefended": dict(self.undefended.detail), "defended": dict(self.defended.detail)},
        }
        curves = {"undefended": self.undefended.curve, "defended": self.defended.curve}
        if any(curves.values()):
            written["curves"] = {name: _as_json(curve, self.attack.metric) for name, curve in curves.items() if curve}
        if self.attack.goal is not None:
            written |= {"goal": self.attack.goal.sentence, "met": self.met}
        return written


def _as_json(curve: Curve, metric: str) -> dict[str, object]:
    points = {point.place: {"value": point.value, "ci95": list(point.ci95)} for point in curve.points}
    return {"across": curve.across, "up": curve.up or metric, "points": points}


def measure(
    attack: Attack[Any, Any, Any], *, trials: int | None = None, seed: int = 0, advance: Advance | None = None
) -> Row:
    """An attack without its defence and with it; ``advance`` hears of twice ``trials``."""
    size = attack.trials if trials is None else trials
    undefended = attack.measure(size, seed, defended=False, advance=advance)
    return Row(attack, undefended, attack.measure(size, seed, defended=True, advance=advance))


def measure_all(
    every: Iterable[Attack[Any, Any, Any]],
    *,
    quick: bool,
    seed: int = 0,
    beginning: Callable[[Attack[Any, Any, Any]], None] | None = None,
) -> list[Row]:
    """Every attack; ``beginning`` hears of each before it is played."""
    rows = []
    for attack in every:
        if beginning is not None:
            beginning(attack)
        rows.append(measure(attack, trials=attack.quick_trials if quick else attack.trials, seed=seed))
    return rows
