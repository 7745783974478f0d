"""A17: the final model alone, and the question whether somebody was among those it learnt from.

A model that learnt from few people fits them better than others of the same kind. The attacker has the last weights and
a person's bins and label. It trains models of its own on other people, in the same way, cover included; they say which
margin this person has where it was *not* learnt from. How far the real model's margin lies above is the score.

Cover protects the tallies, and the model is computed from them: what holds of the tallies holds of it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import RELAYS, Noise
from secvm.learning.individual.update import band, verdicts
from secvm.learning.losses import ONE
from secvm.privacy.accounting.accountant import Adjacency
from secvm_lab.attacks.attack import Advance, Attack, Measurement
from secvm_lab.attacks.counting.covered import Crowd, Setting, draw_cover_counts, draw_crowd, goal_within, law_of
from secvm_lab.attacks.counting.likelihood import Floats, KnownPersons
from secvm_lab.attacks.drawing import generator
from secvm_lab.attacks.statistics import auc, average
from secvm_lab.attacks.views import PublicView

SETTING = Setting(people=300, bins=1_000, features=50, rounds=10)
SHADOWS = 12
LAMBDA = Fraction(1)
#: A label is the teacher's with this much of noise besides, in standard deviations of what the teacher says.
NOISE = 0.5


def guess(view: PublicView, knowing: KnownPersons) -> Floats:
    """For each person, how much its margin is above what models have that did not learn from it."""
    own = knowing.signs * (knowing.vectors @ view.weights[-1][0])
    others = knowing.signs[:, None] * (knowing.vectors @ knowing.shadows.T)
    found: Floats = (own - others.mean(axis=1)) / (others.std(axis=1) + 1e-9)
    return found


class World:
    """People whose labels a teacher half explains; a model learns from some of them."""

    def __init__(self, setting: Setting, dice: np.random.Generator, *, covered: bool) -> None:
        self._setting, self._dice, self._covered = setting, dice, covered
        # λ for few people and few rounds: a plain model is then about as good as any on people that it has not seen.
        self._experiment = replace(setting.experiment(covered=covered), rule=Pegasos(lambda_=LAMBDA))
        self._teacher = dice.normal(size=setting.bins)

    def people(self) -> Crowd:
        """As many new people as an experiment has."""
        setting = self._setting
        drawn = draw_crowd(self._dice, people=setting.people, bins=setting.bins, features=setting.features)
        said = self._teacher @ drawn.has
        said = said + self._dice.normal(scale=NOISE * said.std(), size=drawn.size)
        return Crowd(drawn.has, (said > np.median(said)).astype(np.int8))

    def learn(self, crowd: Crowd) -> NDArray[np.float64]:
        """The last weights of the experiment, run over these people by the experiment's own rule."""
        experiment, cover = self._experiment, self._setting.plan.cover
        vectors = vectors_of(crowd)
        signs = signs_of(crowd).astype(np.int8)
        state = aggregate.start(experiment)
        for _ in range(self._setting.rounds):
            weights = aggregate.training_weights(experiment, state)
            if weights.first:
                sent = signs
            else:
                scores = vectors @ weights.mantissas[0].astype(np.int64)
                lower, upper = band(threshold=ONE, width=0, norm=None, unit=weights.unit)
                sent = verdicts(scores, signs, np.full(crowd.size, lower), np.full(crowd.size, upper))
            tally = replace(
                aggregate.empty_tally(experiment),
                plus=vectors[sent > 0].sum(axis=0)[None, :] + self._noise(cover.train, (1, vectors.shape[1])),
                minus=vectors[sent < 0].sum(axis=0)[None, :] + self._noise(cover.train, (1, vectors.shape[1])),
                participants=np.bincount(crowd.labels, minlength=2) + self._noise(cover.participation, (2,)),
            )
            # Where noise hides that anybody was there, nothing is learnt of the round.
            if aggregate.uncovered(experiment.cover, tally).participants.any():
                state = aggregate.step(experiment, state, tally)
        return aggregate.evaluation_weights(experiment, state).values()

    def _noise(self, noise: Noise, size: tuple[int, ...]) -> NDArray[np.int64]:
        """What both relays add: who has the model alone takes nothing off."""
        if not self._covered:
            return np.zeros(size, dtype=np.int64)
        return draw_cover_counts(self._dice, law_of(noise, RELAYS), size)


def vectors_of(crowd: Crowd) -> NDArray[np.int64]:
    """``[person, bin]``, the bias last."""
    return np.concatenate([crowd.has.T.astype(np.int64), np.ones((crowd.size, 1), dtype=np.int64)], axis=1)


def signs_of(crowd: Crowd) -> NDArray[np.int64]:
    """1 or -1."""
    found: NDArray[np.int64] = 2 * crowd.labels.astype(np.int64) - 1
    return found


def play_in(setting: Setting, trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A model in each trial; its people against as many of whom it knows nothing."""
    dice = generator(seed, 17, defended=defended)
    world = World(setting, dice, covered=defended)
    shadows = np.array([world.learn(world.people())[0] for _ in range(SHADOWS)])
    found, accuracy = [], []
    for _ in range(trials):
        learnt, others = world.people(), world.people()
        weights = world.learn(learnt)
        view = PublicView(weights=(weights,))
        scores = [guess(view, KnownPersons(vectors_of(c), signs_of(c), shadows)) for c in (learnt, others)]
        found.append(auc(*scores)[0])
        accuracy.append(float((signs_of(others) * (vectors_of(others) @ weights[0]) > 0).mean()))
        advance(1)
    value, interval = average(found)
    detail: dict[str, int | float | str | bool | None] = {
        "people": setting.people,
        "bins": setting.bins,
        "rounds": setting.rounds,
        "accuracy_on_others": float(np.mean(accuracy)),
    }
    if defended:
        detail |= {
            "accountant_auc": setting.auc_bound(Adjacency.ZERO_OUT),
            "epsilon": setting.plan.achieved,
            "budget": setting.plan.budget,
        }
    return Measurement(value, interval, trials, detail)


ATTACK = Attack(
    number=17,
    title="membership on the final model",
    slug="membership",
    needs="Anybody who has the final model, a person's bins and label, and people of the same kind to train on.",
    steps=(
        "Train models of one's own on other people.",
        "Ask how far the person's margin under the real model lies above that under one's own.",
    ),
    metric="AUC of membership",
    chance=0.5,
    defence="Follows from cover: the model is made of covered tallies.",
    remains="At this size (few people, many bins) the cover also costs nearly all of the accuracy; with more people a"
    " plain model betrays less, and cover costs less.",
    goal=goal_within(0.6),
    trials=100,
    quick_trials=20,
    guess=guess,
    play=partial(play_in, SETTING),
)
