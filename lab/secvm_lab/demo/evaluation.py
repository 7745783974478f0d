"""What is computed once a demonstration's federation is over: the same rounds offline, without cover, and attacked.

The people are known here, as nowhere in a real federation. Who took part in which round stands in the devices' own
books. All of it can be had again from the seed and what was published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins
from secvm.estimator.training import Population
from secvm.learning.aggregate.scoring import score_cells
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.learning.rows import BinnedRows
from secvm.participant.storage.state import DeviceState
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm_lab.demo.attack import VICTIMS, attack_labels
from secvm_lab.demo.crowd import Crowd, binned, central_accuracy, sampled, who_trains
from secvm_lab.demo.plan import Plan
from secvm_lab.demo.replay import Replay
from secvm_lab.demo.result import Guarantee, Protected


@dataclass(frozen=True, eq=False, repr=False)
class Afterwards:
    """What came of it."""

    replay: Replay
    #: Accuracy of a model that saw all the data in one place.
    central: float
    #: None: a plain experiment.
    protected: Protected | None


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
        attendance = self._attendance(devices, document.digest)
        replay = self._replayed(self._experiment, attendance, origins)
        guarantee, protected = Guarantee.of(document), None
        if guarantee is not None:
            tell("attacking labels")
            plain = self._replayed(replace(self._experiment, cover=None, budget=None), attendance, None)
            dice = np.random.default_rng([self._plan.seed, 3])
            attack = attack_labels(self._experiment, replay.training_weights, self._victims(), dice)
            protected = Protected(guarantee, score_cells(plain.further_cells()).accuracy.value, attack)
        tell("training in one place")
        return Afterwards(replay, central_accuracy(self._crowd, self._train), protected)

    def _rows(self, features: list[dict[str, int]], dice_seed: bytes) -> BinnedRows:
        """People as a device pins them."""
        taken = sampled(features, self._plan.features_per_person, dice_seed=dice_seed)
        return binned(taken, self._binning, one_per_bin=self._plan.covered)

    def _victims(self) -> BinnedRows:
        """People who took no part, each as often as it takes."""
        rows = self._rows(self._crowd.further_features[:VICTIMS], self._plan.dice_seed + b", victims")
        return rows.take(np.resize(np.arange(len(rows)), VICTIMS))

    def _replayed(self, experiment: Experiment, attendance: NDArray[np.bool_], origins: CoverOrigins | None) -> Replay:
        rows = self._rows(self._crowd.features, self._plan.dice_seed)
        replay = Replay(
            experiment,
            Population(rows=rows, labels=self._crowd.codes, train=self._train),
            dice_seed=self._plan.dice_seed,
            floor=self._plan.floor(len(experiment.labels)),
            further=self.further,
            further_codes=self._crowd.further_codes,
            origins=origins,
        )
        for here in attendance:
            replay.advance(here)
        return replay

    def _attendance(self, devices: Path, digest: str) -> NDArray[np.bool_]:
        """Rounds x people: who took part, by each device's own books."""
        found = np.zeros((self._plan.rounds, len(self._crowd)), dtype=np.bool_)
        for number in range(len(self._crowd)):
            state = DeviceState(devices / f"{number:06d}")
            for one in state.history(digest):
                found[one.round_number - 1, number] = True
            state.close()
        return found
