"""The label attack on a demonstration's rounds, beside what the accountant allows.

The attackers are the coordinator and one of the two relays together. They know a victim's bins and what everybody else
sent, and take that and the colluding relay's cover off the net tallies of all rounds. What stays is the victim's own
packages and S - 1 parts of the honest relay's cover. They ask which of two labels the victim has; their score is the
exact likelihood ratio, so that nobody who knows as much does better.

Victims are made-up people who took no part. Each is played twice, once with either label: it sends what its device
would have sent under the weights of the rounds that took place, thinned by new dice, and the honest relay draws its
cover anew by the law that the experiment's document tells. New dice for every play matter: victims who share one draw
of the cover could be ranked against each other as no two worlds ever can. Both relays' cover has the same law, so it is
no matter which of them is the worse.

Without cover the same rounds tell an attacker who knows all the rest the label for certain: the package that says
"I am here, with this label" is then the only one that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import Population, PreparedPopulation
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import ALWAYS
from secvm.learning.weights import Weights
from secvm.privacy.accounting.guarantee import auc_of_curve
from secvm.privacy.accounting.relay_cover import contribution_of, relay_mechanism
from secvm_lab.attacks.counting.covered import draw_cover_counts, law_of
from secvm_lab.attacks.counting.likelihood import CERTAIN, CoverLaw
from secvm_lab.attacks.statistics import Interval, auc

#: So many victims, each with both labels, make the 95 % interval's half width less than .02.
VICTIMS = 2_000
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelAttack:
    """What came of it."""

    auc: float
    #: 95 %, over victims and dice.
    interval: Interval
    #: The largest AUC that the accountant allows anybody: a flipped label, all rounds, one relay's cover.
    allowed: float
    #: The AUC of the same rounds without cover.
    plain: float
    victims: int

    @property
    def within(self) -> bool:
        """Whether nobody could tell that the attack does better than is allowed."""
        return self.interval[0] <= self.allowed


def attack_labels(
    experiment: Experiment, weights: Sequence[Weights], victims: BinnedRows, dice: np.random.Generator
) -> LabelAttack:
    """The attack on victims with these bins, in rounds with these training weights."""
    game = _Game(experiment, weights, victims, dice)
    cover = experiment.cover
    if cover is None:
        raise ValueError("the attack is played on an experiment with cover, and this one has none")
    laws = law_of(cover.train), law_of(cover.participation)
    value, interval = auc(game.scores(1, *laws), game.scores(0, *laws))
    plain, _ = auc(game.scores(1, None, None), game.scores(0, None, None))
    mechanism = relay_mechanism(contribution_of(experiment, rounds=len(weights)), cover)
    return LabelAttack(value, interval, auc_of_curve(mechanism), plain, len(victims))


def log_ratio(seen: NDArray[np.int64], q: _Floats | float, law: CoverLaw | None) -> _Floats:
    """The logarithm of the likelihood ratio of a unit that is sent with chance q to none, by a cell's count.

    Of a count k under NB(r, p), P(k - 1) / P(k) is k / ((k + r - 1) p). Without cover a unit that is seen is certain.
    """
    if law is None:
        one_more = np.where(seen > 0, np.inf, 0.0)
    else:
        one_more = seen / (np.maximum(seen + law.shape - 1, law.shape) * law.p)
    with np.errstate(divide="ignore"):
        found: _Floats = np.clip(np.log(1 - q + q * one_more), -CERTAIN, CERTAIN)
    return found


class _Game:
    """Victims in rounds, and what is seen of them."""

    def __init__(
        self, experiment: Experiment, weights: Sequence[Weights], victims: BinnedRows, dice: np.random.Generator
    ) -> None:
        count = len(victims)
        self._dice = dice
        #: Victims x cells: which bins each has, the bias last, which everybody has.
        self._has = np.zeros((count, experiment.n_bins + 1), dtype=np.bool_)
        self._has[np.repeat(np.arange(count), np.diff(victims.indptr)), victims.bins] = True
        self._has[:, -1] = True
        self._q = (experiment.thinning.keep53(victims.squared_norms.tolist()) / ALWAYS)[:, None]
        here = np.ones(count, dtype=np.bool_)
        #: By label, then by round, victims x models: the sign of each victim's update.
        self._signs = []
        for label in (0, 1):
            people = Population(rows=victims, labels=np.full(count, label, dtype=np.int64))
            prepared = PreparedPopulation(experiment, people, kernels(), b"", threads=1)
            rounds = enumerate(weights, start=1)
            self._signs.append([prepared.verdicts(one, number, here) for number, one in rounds])

    def scores(self, label: int, train: CoverLaw | None, participation: CoverLaw | None) -> _Floats:
        """How much each victim's rounds speak for the second label, when the victim has this one."""
        total = np.zeros(len(self._has))
        for first, second in zip(*self._signs, strict=True):
            sent = (first, second)[label]
            for model, sign in np.ndindex(sent.shape[1], 2):
                told = 1 - 2 * sign
                mine = self._has & (sent[:, model] == told)[:, None] & (self._dice.random(self._has.shape) < self._q)
                speaks = (self._has * log_ratio(self._seen(mine, train), self._q, train)).sum(axis=1)
                total += speaks * (1.0 * (second[:, model] == told) - 1.0 * (first[:, model] == told))
            mine = np.zeros((len(total), 2), dtype=np.bool_)
            mine[:, label] = True
            here = log_ratio(self._seen(mine, participation), 1.0, participation)
            total += here[:, 1] - here[:, 0]
        return total

    def _seen(self, sent: NDArray[np.bool_], law: CoverLaw | None) -> NDArray[np.int64]:
        """What is left of the counts of these cells."""
        own = sent.astype(np.int64)
        return own if law is None else own + draw_cover_counts(self._dice, law, sent.shape)
