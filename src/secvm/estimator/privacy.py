"""An (ε, δ) to train under, and the plan that follows from public numbers: two relays' cover, and what it costs.

Somebody who asks for privacy gives a ``PrivacyTarget``; everything else follows before any data are looked at: the rule
(swift), its rounds, its thinning, the cover of both relays, and what it all costs. Nothing depends on how many take
part but the rounds and the step, which are chosen so that the noise leaves a model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from secvm.errors import BadInputError
from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.arithmetic import exact
from secvm.learning.cover_law import RelayCover
from secvm.learning.individual.dice import Purpose, dice_keys
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.privacy.accounting.accountant import Adjacency
from secvm.privacy.accounting.guarantee import NO_PROTECTION, WEAK
from secvm.privacy.planning.noise_settings import NoiseSettings
from secvm.privacy.planning.relay_plan import RelayPlan, plan_relays, question_for
from secvm.privacy.risk import up
from secvm.privacy.target import PrivacyTarget

#: At most so many of a person's features take part where nobody says how many.
CONTRIBUTION = 300
#: People whose dice are thrown at once, for the memory it takes.
_PEOPLE_AT_ONCE = 1024
#: Plans take seconds, and a search over parameters asks for the same one again and again.
_plan_once = lru_cache(maxsize=64)(plan_relays)


@dataclass(frozen=True, repr=False)
class PrivacyPlan:
    """What an (ε, δ) costs, known before anybody is asked."""

    settings: NoiseSettings
    plan: RelayPlan

    @property
    def cover(self) -> RelayCover:
        """What each of the two relays adds."""
        return self.plan.cover

    @property
    def budget(self) -> int:
        """B: packages a device sends in each round, nulls included."""
        return self.plan.budget

    @property
    def contribution(self) -> int:
        """The most bins of a person that take part, the bias not counted."""
        return self.plan.question.contribution.cells - 1

    @property
    def epsilon(self) -> float:
        """ε at δ, as the accountant finds it: what was asked for, or less."""
        return self.plan.achieved

    @property
    def label_epsilon(self) -> float:
        """ε at the same δ against any other thing that somebody might have sent, another label among it."""
        delta = float(self.plan.question.target.delta)
        return self.plan.mechanism.epsilon(delta=delta, adjacency=Adjacency.LABEL_FLIP)

    def __repr__(self) -> str:
        return f"<PrivacyPlan: {self.plan.question.target}, rounds: {self.settings.rounds}>"

    def __str__(self) -> str:
        return self.in_words()

    def content(self) -> dict[str, Any]:
        """All of it as stable keys."""
        target = self.plan.question.target
        return {
            "epsilon": float(target.epsilon),
            "delta": float(target.delta),
            "epsilon_achieved": round(self.epsilon, 4),
            "epsilon_label": round(self.label_epsilon, 4),
            "contribution": self.contribution,
            "rounds": self.settings.rounds,
            "step_size": float(self.settings.step_size),
            "rho": float(self.settings.rho),
            "floor": float(self.settings.floor),
            "budget_per_device_round": self.budget,
            "relay_packages": self.cover.packages,
            "parts": self.cover.parts,
            "noise_per_cell": round(self.plan.noise_per_cell, 2),
            "noise_to_signal": float(f"{self.settings.noise_to_signal:.3g}"),
            "score_noise": float(f"{self.settings.score_noise:.3g}"),
        }

    def in_words(self) -> str:
        """The cost in a few lines, for a person who decides whether to start."""
        settings, bins, epsilon = self.settings, self.contribution, up(self.epsilon, 100)
        among = "in the one round" if settings.rounds == 1 else f"over all {settings.rounds} rounds"
        flip, noise = self.label_epsilon, 100 * settings.noise_to_signal
        other = "there is no ε" if math.isinf(flip) else f"it is ε = {up(flip, 100):.2f}"
        return (
            f"{self.plan.question.target} {among}, as long as in each round one of the two relays is honest\n"
            f"spent: ε = {epsilon:.2f}; with another label in place of a person's {other}\n"
            f"at most {bins} bin{'' if bins == 1 else 's'} of a person, thinned by ρ = {float(settings.rho):g}\n"
            f"each device sends {self.budget} packages a round, and each relay adds {self.cover.packages:,} of cover\n"
            f"noise: {noise:.1f} % of the length of one person's row, in a round's mean direction"
        )


class PrivacyWarning(UserWarning):
    """What was asked for is a number and hardly a protection, or leaves nothing to learn."""


def doubts(target: PrivacyTarget, people: int) -> Iterator[str]:
    """What somebody should know who asks for this (ε, δ) over so many people."""
    if target.epsilon >= NO_PROTECTION:
        yield f"{target} is asked for. {WEAK}"
    if target.delta * people > 1:
        yield (
            f"delta = {float(target.delta):g} is more than one in {people:,} people, all that train: it would allow to "
            f"publish somebody's data as they are. Take a tenth of 1/{people} or less."
        )


def warn_of(sentences: Iterable[str], kind: type[Warning] = PrivacyWarning) -> None:
    """Say it as scikit-learn's estimators say such things."""
    for sentence in sentences:
        warnings.warn(sentence, kind, stacklevel=2)


def planned(
    target: PrivacyTarget,
    *,
    people: int,
    bins: int,
    labels: int,
    features: int = CONTRIBUTION,
    n_hashes: int = 1,
    multiclass: str = "ovr",
    rounds: int | None = None,
    rho: float | None = None,
) -> PrivacyPlan:
    """The plan for so many people, bins and labels (1 for numbers); ``rounds`` and ``rho`` where they are given."""
    if features < 1 or (rounds is not None and rounds < 1) or (rho is not None and not rho > 0):
        raise BadInputError("features per person and rounds must be at least 1, and ρ above 0")
    models = LabelModels(n_labels=labels, multiclass=multiclass)
    question, settings = question_for(
        target=target,
        people=people,
        bins=bins,
        features=features,
        labels=labels,
        models=models.n_models,
        violable=models.most_per_person,
        hashes=n_hashes,
        train_share=exact(1),
        rounds=rounds,
        rho=None if rho is None else exact(float(rho)),
    )
    return PrivacyPlan(settings=settings, plan=_plan_once(question))


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
