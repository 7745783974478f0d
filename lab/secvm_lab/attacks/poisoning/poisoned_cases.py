"""The experiments that malicious devices attack (A16), and the clipping that each is defended with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from secvm.learning.experiment import Experiment, Robust
from secvm.privacy.planning.relay_plan import plan_relays, question_for
from secvm.privacy.target import PrivacyTarget
from secvm_lab.attacks.poisoning.poisoned import Size

#: Of the experiment with two relays' cover.
TARGET = PrivacyTarget(Fraction(1))


def defence(rounds: int) -> Robust:
    """Clipping for so many rounds. What a push of all rounds comes to is then about the same for few and many."""
    return Robust(clip=Fraction(5, rounds))


@dataclass(frozen=True, slots=True)
class Case:
    """An experiment that is attacked."""

    name: str
    experiment: Experiment
    rounds: int
    budget: int


def cases(size: Size) -> tuple[Case, Case]:
    """A plain experiment, and one with cover: rounds, thinning and rule as they follow from its ε."""
    return Case("plain", size.experiment, size.rounds, size.budget), covered_case(size)


def covered_case(size: Size, rounds: int | None = None) -> Case:
    """An experiment with cover for so many rounds, or as many as its planner takes."""
    question, settings = question_for(
        target=TARGET,
        people=size.people,
        bins=size.bins,
        features=size.features,
        train_share=Fraction(1),
        rounds=rounds,
    )
    made = plan_relays(question)
    covered = replace(size.experiment, rule=settings.rule, thinning=settings.thinning, cover=made.cover)
    name = "cover" if rounds is None else f"cover for {rounds} rounds"
    return Case(name, covered, settings.rounds, made.budget)
