"""What is computed once a demonstration's federation is over: the same rounds offline, without cover, and attacked.

The people are known here, as nowhere in a real federation. Who took part in which round stands in the devices' own
books. All of it can be had again from the seed and what was published.

What the federation counted is compared with the same rounds offline (``secvm_lab.replay``), tally by tally. It is also
where the demonstration learns what a coordinator cannot know: how many devices sent an update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins
from secvm.estimator.training import Population
from secvm.learning.aggregate.scoring import Score, score_cells
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import ALWAYS
from secvm.participant.storage.state import DeviceState
from secvm.privacy.leakage import law
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm_lab.demo.attack import VICTIMS, attack_labels
from secvm_lab.demo.crowd import Crowd, binned, central_accuracy, sampled, who_trains
from secvm_lab.demo.plan import Plan
from secvm_lab.demo.result import Guarantee, Leakage, Protected
from secvm_lab.replay import Replay


def leakage(replay: Replay) -> Leakage:
    """What the tallies give away, by the law alone (docs/privacy.md); of the model that gives away most."""
    people, experiment = replay.people, replay.experiment
    assert people.train is not None
    norms = people.rows.squared_norms[people.train].tolist()
    q = float((experiment.thinning.keep53(norms) / ALWAYS).mean()) if norms else 1.0
    total, summed = 0.0, []
    for one in replay.rounds:
        models = [law(q=q, bins=experiment.n_bins, senders=sides) for sides in one.violators if any(sides)]
        total += max(models, default=0.0)
        summed.append(total)
    return Leakage(q=q, summed=tuple(summed))


def counted_twice(counted: Sequence[Tally | None], expected: Sequence[Tally | None]) -> int:
    """How much the federation counted beyond what was sent, summed over all rounds and cells."""
    return sum(_beyond(found, should) for found, should in zip(counted, expected, strict=True))


def missing(counted: Sequence[Tally | None], expected: Sequence[Tally | None]) -> int:
    """How much was sent and not counted, summed over all rounds and cells."""
    return sum(_beyond(should, found) for found, should in zip(counted, expected, strict=True))


def _beyond(one: Tally | None, other: Tally | None) -> int:
    if one is None:
        return 0
    fields: tuple[Any, ...] = ("plus", "minus", "participants", "cells")
    return sum(int(np.maximum(getattr(one, name) - (getattr(other, name) if other else 0), 0).sum()) for name in fields)


@dataclass(frozen=True, eq=False, repr=False)
class Afterwards:
    """What came of it."""

    replay: Replay
    #: Accuracy of a model that saw all the data in one place.
    central: float
    #: None: a plain experiment.
    protected: Protected | None
    #: Of the last model, on people who took no part.
    final: Score


class Computing:
    """The people of one demonstration, and all that is computed of them."""

    def __init__(self, plan: Plan, crowd: Crowd, experiment: Experiment) -> None:
        """``experiment``: as it was published, its cover included."""
        self._plan, self._crowd, self._experiment = plan, crowd, experiment
        self._binning: Binning = crowd.vocabulary or HashBinning(n_bins=plan.bins, salt=plan.salt)
        #: Those who took no part.
        self.further = Evaluator(
            experiment, binned(crowd.further_features, self._binning, one_per_bin=self._plan.covered)
        )
        self._train = who_trains(len(crowd), share=plan.train_share, dice_seed=plan.dice_seed)

    def afterwards(
        self,
        document: ExperimentDocument,
        devices: Path,
        origins: CoverOrigins | None,
        tell: Callable[[str], None],
    ) -> Afterwards:
        """All of it; ``devices`` is the folder of their books. ``tell`` is told what is being done."""
        tell("playing it again offline")
        here, _ = attendance(devices, document.digest, participants=len(self._crowd), rounds=self._plan.rounds)
        replay = self._replayed(self._experiment, here, origins)
        guarantee, protected = Guarantee.of(document), None
        if guarantee is not None:
            tell("attacking labels")
            plain = self._replayed(replace(self._experiment, cover=None, budget=None), here, None)
            dice = np.random.default_rng([self._plan.seed, 3])
            attack = attack_labels(self._experiment, replay.training_weights, self._victims(), dice)
            protected = Protected(guarantee, score_cells(self.further_cells(plain)).accuracy.value, attack)
        tell("training in one place")
        return Afterwards(replay, self.central(), protected, score_cells(self.further_cells(replay)))

    def central(self) -> float:
        """Accuracy of a model that saw all the data in one place."""
        return central_accuracy(self._crowd, self._train)

    def _rows(self, features: list[dict[str, int]], dice_seed: bytes) -> BinnedRows:
        """People as a device pins them."""
        taken = sampled(features, self._plan.features_per_person, dice_seed=dice_seed)
        return binned(taken, self._binning, one_per_bin=self._plan.covered)

    def _victims(self) -> BinnedRows:
        """People who took no part, each as often as it takes."""
        rows = self._rows(self._crowd.further_features[:VICTIMS], self._plan.dice_seed + b", victims")
        return rows.take(np.resize(np.arange(len(rows)), VICTIMS))

    def _replayed(self, experiment: Experiment, here: NDArray[np.bool_], origins: CoverOrigins | None) -> Replay:
        replay = self.replay(experiment, origins)
        for present in here:
            replay.advance(present)
        return replay

    def replay(self, experiment: Experiment, origins: CoverOrigins | None = None) -> Replay:
        """The same people's rounds, offline; ``origins``: where two relays' cover came from."""
        rows = self._rows(self._crowd.features, self._plan.dice_seed)
        return Replay(
            experiment,
            Population(rows=rows, labels=self._crowd.codes, train=self._train),
            dice_seed=self._plan.dice_seed,
            floor=self._plan.floor(len(experiment.labels)),
            origins=origins,
        )

    def further_cells(self, replay: Replay) -> NDArray[np.int64]:
        """The confusion matrix of a replay's model on people who took no part."""
        return self.further.cells(replay.evaluation_weights, self._crowd.further_codes)


def attendance(devices: Path, digest: str, *, participants: int, rounds: int) -> tuple[NDArray[np.bool_], list[str]]:
    """Rounds x people: who took part, by each device's own books; and why devices have ended their participation."""
    here, accused = np.zeros((rounds, participants), dtype=np.bool_), list[str]()
    for number in range(participants):
        state = DeviceState(devices / f"{number:06d}")
        for one in state.history(digest):
            here[one.round_number - 1, number] = True
        distrust = state.trust.distrust(digest)
        accused += [] if distrust is None else [distrust]
        state.close()
    return here, accused
