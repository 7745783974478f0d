"""What an experiment's public tallies give away of a label: planned from its parameters, and measured by its counts.

The law of ``label_leakage``, for any number of labels. Who knows a person's bins asks whether the label is a or b. In a
model where a and b have different signs, the person stands on another side (or on none); each side on which it may
stand adds q · bins / V, with V the people who send on that side:

    d'² = q · bins · Σ 1/V      over models in which the signs differ, and the sides that a or b stand on

Two labels have one model and two sides: the law as it is printed. The pair that is easiest to tell apart counts.

- **Planned**: everybody who trains sends, and labels are equally frequent, unless their shares are told. In later
  rounds fewer send, and so each of them is easier to find; thinning's q is that of a person with F features, of whom
  there are as many as F says.
- **Measured**: every violator has a unit of the bias, sent with the same q as the others. So a side's bias count is
  about q V, and q · bins / V is q² · bins over that count. Counts are public: anybody can do this.

Refusals rest on the law itself. The corrected AUC stands beside it where it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import ALWAYS
from secvm.privacy.leakage.label_leakage import auc_of, exact_auc

#: The corrected law takes time that grows with the bins; beyond so many the law alone is said.
_CORRECTED_BINS = 1_000_000
#: Labels whose pairs are looked at.
_COMPARED = 32


@dataclass(frozen=True, slots=True)
class PlannedLeak:
    """What all rounds together would give away, if each were as planned."""

    #: Train participants of a round that it was computed for.
    participants: float
    #: d'² of one round, and its AUC.
    d_squared_round: float
    auc_round: float
    #: Over all rounds, as if the others were new people every time.
    d_squared: float
    auc: float
    #: The AUC of all rounds with every correction; None where only the law is known.
    auc_corrected: float | None


@lru_cache(maxsize=256)
def planned_leak(
    experiment: Experiment,
    *,
    train_participants: float,
    rounds: int,
    hashes: int = 1,
    shares: tuple[float, ...] | None = None,
) -> PlannedLeak | None:
    """At so many train participants in a round, of all labels together; None: the label is a number, and has no law.

    ``shares``: of each label, where they are known; equal, unless told.
    """
    if experiment.loss.regression:
        return None
    labels = len(experiment.labels)
    people = [train_participants * share for share in shares or (1 / labels,) * labels]
    signs = experiment.models.signs
    senders = np.array([np.array(people) @ (signs == side) for side in (1, -1)])
    once = keep_share(experiment, hashes=hashes) * experiment.n_bins * _easiest(signs, senders)
    return PlannedLeak(
        participants=train_participants,
        d_squared_round=once,
        auc_round=auc_of(once),
        d_squared=rounds * once,
        auc=auc_of(rounds * once),
        auc_corrected=_corrected(experiment, people, rounds, hashes),
    )


def measured_leak(experiment: Experiment, tally: Tally, *, hashes: int = 1) -> float | None:
    """d'² of a round that was tallied; None: no law.

    With cover this is what the counts would say without it: cover's mean is taken off, and its noise stays.
    """
    if experiment.loss.regression:
        return None
    if experiment.cover is not None:
        tally = aggregate.uncovered(experiment.cover, tally)
    counts = np.stack([tally.plus[:, -1], tally.minus[:, -1]]).astype(np.float64)
    q = keep_share(experiment, hashes=hashes)
    # Where nobody stands there is nothing to hide behind; one is the least that makes a number.
    return q * q * experiment.n_bins * _easiest(experiment.models.signs, np.maximum(counts, 1.0))


def keep_share(experiment: Experiment, *, hashes: int = 1) -> float:
    """The share q of a person with as many features as the experiment takes; 1 where there is no bound on them."""
    features = experiment.features_per_person
    if features is None:
        return 1.0 if experiment.thinning.q is None else float(experiment.thinning.q)
    held = min(features * hashes, experiment.n_bins)
    return int(experiment.thinning.keep53([held + 1])[0]) / ALWAYS


def _easiest(signs: NDArray[np.int8], senders: NDArray[np.float64]) -> float:
    """The largest Σ 1/V of any two labels; ``senders`` is + and - per model."""
    each = 1 / np.maximum(senders, 1e-9)
    # What a label's side adds in every model.
    added = np.where(signs > 0, each[0], np.where(signs < 0, each[1], 0.0))
    # Of very many labels only those that stand out most are compared with each other.
    rows = np.argsort(-added.sum(axis=1), kind="stable")[:_COMPARED]
    return max(
        float(np.where(signs[first] != signs[second], added[first] + added[second], 0.0).sum())
        for first, second in combinations(rows.tolist(), 2)
    )


def _corrected(experiment: Experiment, people: Sequence[float], rounds: int, hashes: int) -> float | None:
    features = experiment.features_per_person
    if len(people) != 2 or features is None or min(people) < 1 or experiment.n_bins > _CORRECTED_BINS:
        return None
    # F is the most that anybody has. Where it fills the bins, the correction would take everybody for somebody who has
    # them all, and say that nothing can be told.
    if 2 * features * hashes > experiment.n_bins:
        return None
    return exact_auc(
        positive=int(people[1]),
        negative=int(people[0]),
        bins=experiment.n_bins,
        features=features * hashes,
        rounds=rounds,
        q=keep_share(experiment, hashes=hashes),
    )
