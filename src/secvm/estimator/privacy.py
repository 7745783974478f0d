"""Privacy: an (ε, δ) to train under, and the plan that follows from public numbers.

A person who asks for privacy gives ε and perhaps a few more numbers; everything else follows before any data are
looked at: the rule (swift), its rounds, its thinning, the cover, and what it all costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from secvm.errors import BadInputError
from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.arithmetic import exact
from secvm.learning.cover import Cover
from secvm.learning.individual.dice import Purpose, dice_keys
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.privacy.noise_settings import NoiseSettings, noise_settings
from secvm.privacy.shuffle_dp import CoverPlan, plan
from secvm.privacy.statement import NO_PROTECTION

#: r of the train cells' cover. Smaller ones make less cover on average and longer tails, and B is made by the tails.
SHAPE = 90
#: People whose dice are thrown at once, for the memory it takes.
_PEOPLE_AT_ONCE = 1024


@dataclass(frozen=True)
class Privacy:
    """What a person is promised: (ε, δ) over all rounds, against a coordinator that sees the shuffled packages.

    Two worlds are compared: one in which a person takes part, and one in which the same device sends its cover, but
    nothing of its own. Plain numbers, so that an estimator that holds it can be cloned, printed and searched over.
    """

    #: The smaller, the less can be learned of a person; 8 and more is no protection.
    epsilon: float
    delta: float = 1e-6
    #: At most so many of a person's features take part, drawn once.
    contribution: int = 300
    #: The share of devices that must be honest for the promise to hold.
    gamma: float = 1.0
    #: Rounds, and ρ of thinning; None: chosen from public numbers.
    rounds: int | None = None
    rho: float | None = None
    #: r of the cover in each train cell.
    shape: int = SHAPE
    #: (lowest, highest) of a number as the label, where it is one: public, and labels beyond it count as its ends.
    label_range: tuple[float, float] | None = None

    def planned(
        self, *, people: int, bins: int, labels: int, n_hashes: int = 1, multiclass: str = "ovr"
    ) -> PrivacyPlan:
        """The plan for so many people, bins and labels (1 for numbers)."""
        if not self.epsilon > 0 or not 0 < self.delta < 1 or not 0 < self.gamma <= 1:
            raise BadInputError("epsilon must lie above 0, delta between 0 and 1, gamma above 0 and at most at 1")
        if self.contribution < 1 or (self.rounds is not None and self.rounds < 1) or self.shape < 1:
            raise BadInputError("contribution, rounds and shape must be at least 1")
        models = LabelModels(n_labels=labels, multiclass=multiclass)
        # With one-vs-one a person has a side in labels - 1 of the pairs.
        violable = labels - 1 if multiclass == "ovo" and labels > 2 else models.n_models
        settings = noise_settings(
            people=people,
            bins=bins,
            contribution=self.contribution * n_hashes,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            gamma=exact(float(self.gamma)),
            models=violable,
            rounds=self.rounds,
            rho=None if self.rho is None else exact(float(self.rho)),
        )
        made = plan(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            rounds=settings.rounds,
            features=self.contribution,
            models=models.n_models,
            hashes=n_hashes,
            bins=bins,
            thinning=settings.thinning,
            participants=people,
            gamma=exact(float(self.gamma)),
            shape=self.shape,
            violable=violable,
            labels=labels,
        )
        return PrivacyPlan(settings=settings, plan=made, contribution=min(self.contribution * n_hashes, bins))


@dataclass(frozen=True)
class PrivacyPlan:
    """What an (ε, δ) costs, known before anybody is asked."""

    settings: NoiseSettings
    plan: CoverPlan
    #: The most bins of a person that take part, the bias not counted.
    contribution: int

    @property
    def cover(self) -> Cover:
        return self.plan.cover

    @property
    def budget(self) -> int:
        """B: packages a device sends in each round, nulls included."""
        return self.plan.cover.budget

    @property
    def cover_mean(self) -> float:
        """A device's mean number of cover packages in a round."""
        return float(self.plan.cover.mean_packages)

    @property
    def epsilon(self) -> float:
        """ε at δ, as the accountant finds it: what was asked for, or less."""
        return self.plan.achieved

    @property
    def honest(self) -> int:
        return self.plan.honest

    def told(self) -> dict[str, Any]:
        """All of it as stable keys."""
        return {
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "epsilon_achieved": round(self.epsilon, 4),
            "gamma": float(self.plan.gamma),
            "participants": self.plan.participants,
            "contribution": self.contribution,
            "rounds": self.settings.rounds,
            "rho": float(self.settings.rho),
            "floor": float(self.settings.floor),
            "budget_per_device_round": self.budget,
            "cover_mean": round(self.cover_mean, 2),
            "noise_to_signal": float(f"{self.settings.noise_to_signal:.3g}"),
        }

    def in_words(self) -> str:
        """The cost in a few lines, for a person who decides whether to start."""
        told = self.told()
        return (
            f"ε = {told['epsilon']:g} at δ = {told['delta']:g} over {told['rounds']} round(s), if {self.honest} of "
            f"{told['participants']} devices are honest and the relay shuffles; "
            f"at most {told['contribution']} bins of a person, thinned by ρ = {told['rho']:g}\n"
            f"each device sends {told['budget_per_device_round']} packages a round, {told['cover_mean']:.0f} of them "
            f"cover on average\n"
            f"noise in the mean direction: {100 * told['noise_to_signal']:.1f} % of the length of one person's row"
            + ("" if self.epsilon < NO_PROTECTION else f"\nan ε of {NO_PROTECTION:g} or more is no protection")
        )


def contributed(rows: BinnedRows, most: int, seed: bytes) -> BinnedRows:
    """One unit a bin, and at most ``most`` bins of each person, drawn once by its own dice.

    As ``sample_features`` draws, but among bins: each bin of a person draws a word, and the smallest words win.
    """
    lengths = np.diff(rows.indptr)
    kept = np.ones(len(rows.bins), dtype=np.bool_)
    long = np.flatnonzero(lengths > most)
    keys = dice_keys(seed, long.astype(np.int64), Purpose.FEATURES)
    for first in range(0, len(long), _PEOPLE_AT_ONCE):
        people = long[first : first + _PEOPLE_AT_ONCE]
        sizes = lengths[people]
        owner = np.repeat(np.arange(len(people)), sizes)
        place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        words = siphash24_words(keys[first : first + len(people)][owner], place.astype(np.uint64))
        order = np.lexsort((place, words, owner))  # people stay in their order, and so does ``place`` as a rank
        beyond = order[place >= most]
        kept[np.repeat(rows.indptr[people], sizes)[beyond] + place[beyond]] = False
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))]).astype(np.int64)
    return BinnedRows(indptr=indptr, bins=rows.bins[kept], values=rows.values[kept], n_bins=rows.n_bins).present()
