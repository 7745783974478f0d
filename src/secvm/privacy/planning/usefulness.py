"""Whether a private plan leaves a model: the noise of a cell against the people in it.

A cell of the train tally holds, on average, the units of all people who train over all cells; at most, because people
whose margin is not violated send none. Both relays' cover gives it noise of a known deviation. Measured on made-up
people (the table of ``accuracy_cost``, 1,000 bins, ten rounds): of what a model would learn without noise about a third
is left where the noise of a cell is as large as its people, an eighth where it is three times as large, three quarters
where it is a third; of people whose words are fewer, more. That is an expectation, no promise.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from secvm.privacy.planning.relay_plan import RelayPlan

#: People of a cell over its noise: below the first there is no usable model, from the second on noise costs little.
LEAST_SIGNAL, GOOD_SIGNAL = 1.0, 3.0


class Outlook(enum.Enum):
    """What is left to learn."""

    USABLE = "usable"
    POOR = "poor"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usefulness:
    """Noise and people of a mean train cell, and what to change where they do not fit."""

    outlook: Outlook
    people_per_cell: float
    noise_per_cell: float
    #: The fewest people, or the most bins, with which it would be usable, all else as it is.
    people_needed: int
    bins_possible: int

    @property
    def sentence(self) -> str:
        """For the operator: what to expect, and the next step."""
        seen = (
            f"a train cell holds {self.people_per_cell:,.1f} people's units on average, and the noise of both relays is"
            f" {self.noise_per_cell:,.1f}"
        )
        change = (
            f"Plan with {self.people_needed:,} people or more, with {self.bins_possible:,} bins or fewer, or ask for a"
            " larger ε."
        )
        if self.outlook is Outlook.USABLE:
            return f"Private, and usable: {seen}."
        if self.outlook is Outlook.POOR:
            return f"Private, and the noise costs much of the accuracy: {seen}. {change}"
        return f"Private, and no usable model: {seen}. {change}"


def usefulness(plan: RelayPlan) -> Usefulness:
    """What a plan leaves to learn for the people it expects."""
    question, noise = plan.question, plan.noise_per_cell
    sent = question.contribution.mean_units
    people = float(question.people * question.train_share) * sent / question.train_cells
    signal = people / noise
    outlook = Outlook.NONE if signal < LEAST_SIGNAL else Outlook.POOR if signal < GOOD_SIGNAL else Outlook.USABLE
    return Usefulness(
        outlook=outlook,
        people_per_cell=people,
        noise_per_cell=noise,
        people_needed=math.ceil(question.people * GOOD_SIGNAL / signal),
        # A person has no fewer units in fewer bins, down to as many as the features.
        bins_possible=max(1, math.floor((question.bins + 1) * signal / GOOD_SIGNAL) - 1),
    )
