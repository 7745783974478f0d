"""Measure attacks without and with their defences, as rows for a table, JSON or a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement


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
