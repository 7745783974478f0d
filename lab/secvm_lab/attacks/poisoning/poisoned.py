"""A world for poisoning: people who train a model, and devices among them that send whatever they like.

Words follow Zipf's law and are hashed to bins, as devices do it. The malicious devices are people of the same kind, so
they know what such people are like; what honest devices send is counted by ``estimator.training``, and what malicious
ones send is counted on top, within what the relay lets through.

The experiments that malicious devices attack (A16), and the clipping that each is defended with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment, Robust, default_budget
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.relay_plan import plan_relays, question_for
from secvm.privacy.target import PrivacyTarget
from secvm_lab.attacks.views import ParticipantView, PublicView
from secvm_lab.population import ZipfPeople

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sent:
    """What all malicious devices send in a round, besides telling that they take part."""

    #: (bins + 1) x 2: units of minus, units of plus.
    units: Counts
    #: Further participation packages, per label.
    participations: Counts

    @property
    def packages(self) -> int:
        """How many these are."""
        return int(self.units.sum() + self.participations.sum())


#: What malicious devices make of what they see.
Plot = Callable[[ParticipantView], Sent]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a world is."""

    people: int = 10_000
    test_people: int = 4_000
    bins: int = 1_000
    features: int = 100
    vocabulary: int = 20_000
    rounds: int = 20
    malicious: Fraction = Fraction(1, 100)

    @property
    def devices(self) -> int:
        """Malicious ones."""
        return max(1, math.floor(self.people * self.malicious))

    @property
    def experiment(self) -> Experiment:
        """Swift with ρ = 1."""
        return Experiment(
            n_bins=self.bins,
            labels=("a", "b"),
            rule=Swift(),
            thinning=Thinning(rho=Fraction(1)),
            features_per_person=self.features,
        )

    @property
    def budget(self) -> int:
        """B of that experiment, where none is given. It cuts one honest round in 30,000: not played here."""
        return default_budget(self.experiment, hashes=1, presence=True)


class PoisonWorld:
    """People of one seed, some of whom may be malicious; ``accuracy`` trains once more for each question."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        everybody = size.people + size.test_people
        words, labels = ZipfPeople(
            n_people=everybody,
            words_per_person=size.features,
            vocabulary=size.vocabulary,
            signal=0.5,
            label_noise=0.1,
        ).generate(seed)
        # Any fixed map of words to bins would do: what matters is that words share bins.
        bins = np.random.default_rng((seed, 16)).integers(0, size.bins, size.vocabulary)[words]
        offsets = np.arange(everybody + 1, dtype=np.int64) * size.features
        rows = kernels().bin_rows(offsets, bins.ravel().astype(np.int32), None, size.bins).present()
        self._people = Population(rows.take(np.arange(size.people)), labels[: size.people].astype(np.int64))
        self._tested = rows.take(np.arange(size.people, everybody))
        self._answers = labels[size.people :] == 1
        self._seed = seed
        self._honest: dict[tuple[Experiment, int], list[float]] = {}

    def first_tally(self, experiment: Experiment) -> Counts:
        """(bins + 1) x 2: what a first round among honest people counts, minus first."""
        tally = self._first_tally(experiment)
        return np.stack([tally.minus[0], tally.plus[0]], axis=-1)

    def stopping_devices(self, experiment: Experiment, budget: int) -> int:
        """How few devices can lift one cell of a first round above what cover explains, so that it is not stepped."""
        cover, tally = experiment.cover, self._first_tally(experiment)
        assert cover is not None  # without it no round is refused for a count that nobody explains
        train, participation, *_ = cover.most_in_a_cell(self.size.people)
        room = min(train - max(tally.plus.max(), tally.minus.max()), participation - tally.participants.max())
        return int(room) // (budget - 1) + 1

    def _first_tally(self, experiment: Experiment) -> Tally:
        training = OfflineTraining(experiment, seed=self._seed.to_bytes(8, "big"))
        training.advance(self._people)
        assert training.tally is not None
        return training.tally

    def own(self) -> Counts:
        """(bins + 1) x 2: what the malicious devices' own people would send without thinning, by their true label."""
        found = np.zeros((self.size.bins + 1, 2), dtype=np.int64)
        rows, labels = self._people.rows, self._people.labels
        for who in range(self.size.devices):
            own = rows.bins[int(rows.indptr[who]) : int(rows.indptr[who + 1])]
            found[own, labels[who]] += 1
            found[-1, labels[who]] += 1
        return found

    def accuracy(
        self, experiment: Experiment, rounds: int, plot: Plot | None = None, quota: int = 0, *, limited: bool = True
    ) -> list[float]:
        """Test accuracy after each round. With a plot, each malicious device gets ``quota`` packages through.

        ``limited``: with two relays' cover, whether a round that nobody can explain is not stepped (the rule).
        """
        if plot is None and (experiment, rounds) in self._honest:
            return self._honest[experiment, rounds]
        honest = np.ones(self.size.people, dtype=np.bool_)
        if plot is not None:
            honest[: self.size.devices] = False
        training = _Poisoned(experiment, self, plot, quota, limited=limited)
        found = []
        for _ in range(rounds):
            training.advance(self._people, lambda _: honest)
            found.append(self._tested_with(aggregate.evaluation_weights(experiment, training.state).mantissas[0]))
        if plot is None:
            self._honest[experiment, rounds] = found
        return found

    def _tested_with(self, weights: NDArray[np.int32]) -> float:
        rows = self._tested
        scores = np.add.reduceat(weights[rows.bins].astype(np.int64), rows.indptr[:-1]) + int(weights[-1])
        return float(np.mean((scores >= 0) == self._answers))


class _Poisoned(OfflineTraining):
    """Rounds in which malicious devices are counted too."""

    def __init__(
        self, experiment: Experiment, world: PoisonWorld, plot: Plot | None, quota: int, *, limited: bool
    ) -> None:
        super().__init__(experiment, seed=world._seed.to_bytes(8, "big"))  # noqa: SLF001  (one world, two classes)
        self._size, self._plot, self._quota, self._limited = world.size, plot, quota, limited
        self._tallies: list[Counts] = []
        self._weights: list[NDArray[np.float64]] = []
        self._participants: list[int] = []

    def received(self, tally: Tally) -> Tally:
        if self._plot is not None:
            tally = self._poisoned(tally, self._plot)
        self._tallies.append(np.stack([tally.minus, tally.plus], axis=-1))
        self._participants.append(int(tally.participants.sum()))
        return tally

    def _can_step(self, tally: Tally, devices: int) -> bool:
        if not self._limited:
            return True
        # Malicious devices take part as everybody does, and the entry relay counts them.
        return super()._can_step(tally, devices + (0 if self._plot is None else self._size.devices))

    def _poisoned(self, tally: Tally, plot: Plot) -> Tally:
        mantissas = aggregate.training_weights(self.experiment, self.state)
        self._weights.append(np.float64(mantissas.unit) * mantissas.mantissas.astype(np.float64))
        public = PublicView(tuple(self._tallies), tuple(self._weights), tuple(self._participants))
        cover = self.experiment.cover if self._limited else None
        most = None if cover is None else cover.most_in_a_cell(self._size.people)[0]
        sent = plot(ParticipantView(public, self._quota, most))
        return poisoned(tally, sent, self._size.devices, self._quota)


def poisoned(tally: Tally, sent: Sent, devices: int, quota: int) -> Tally:
    """The tally with what so many malicious devices send on top, at most ``quota`` packages each."""
    if sent.packages > devices * (quota - 1) or min(sent.units.min(), sent.participations.min()) < 0:
        raise ValueError("malicious devices send more than the relay lets through")
    # They tell that they take part, as everybody does: half of them each label.
    people = np.array([devices - devices // 2, devices // 2]) + sent.participations
    return replace(
        tally,
        minus=tally.minus + sent.units[:, 0],
        plus=tally.plus + sent.units[:, 1],
        participants=tally.participants + people,
    )


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
