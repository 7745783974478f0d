"""What a demonstration is asked for, and the experiment that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secvm.crypto.beacons.sources import LocalUnsafeBeacon, salt_from, verify_beacon
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.experiment import Beacon
from secvm.testing.federation_settings import BEACON_ROUND, HostOf

if TYPE_CHECKING:
    from secvm_lab.demo.crowd import Crowd

#: ρ for swift: with a few hundred people a unit more says more than a round more.
RHO = Fraction(3, 2)
#: With so few people the usual step of 100 runs past the goal.
SWIFT_STEP = Fraction(5)
PEGASOS_LAMBDA = Fraction(1, 3)
#: Who trains, and with cover: its noise is the same for any number of people, so nearly everybody does.
TRAIN_SHARE, COVER_TRAIN_SHARE = Fraction(7, 10), Fraction(9, 10)
#: Probability with which a device misses a round.
MISSES = 0.03
#: Fewest train participants of a round.
FLOOR = 2
#: Fewest packages of a device in a round that are worth a round.
_FEWEST, _MOST = 8, 64
#: Devices, rounds and bins where nothing is said of them: plain, and with cover, where bins are a public vocabulary.
#: Two thousand devices lost up to .9 points to the noise of one round, which is what the planner chooses for ε = 1; two
#: rounds lost up to .8, ended up to 2.7 below a central classifier instead of 2.1, and take twice as long.
#: Without cover the accuracy stands still after six rounds; more only take longer.
PARTICIPANTS, ROUNDS, BINS = 340, 8, 400
COVER_PARTICIPANTS, COVER_ROUNDS, COVER_BINS = 2_000, 1, 40
#: ε of a demonstration where nobody says another.
EPSILON = 1.0
#: With cover: so many of a person's features; hardly anybody has more of the vocabulary.
COVER_FEATURES = 12
#: Witnesses of the log.
WITNESSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of ``secvm demo``."""

    #: Without a number of devices, rounds or bins: what goes with cover, or without.
    participants: int = 0
    rounds: int = 0
    hosts: int = 2
    seed: int = 0
    descent: str = "swift"
    bins: int = 0
    #: With cover for this ε over all rounds; None: plain.
    epsilon: float | None = None
    delta: float = 1e-5
    data: Path | None = None
    report: Path = Path("report.html")
    #: Where processes keep their files; a temporary folder without.
    keep: Path | None = None
    #: Whether the operator's page runs beside the federation.
    page: bool = True

    def __post_init__(self) -> None:
        usual = (PARTICIPANTS, ROUNDS, BINS) if self.epsilon is None else (COVER_PARTICIPANTS, COVER_ROUNDS, COVER_BINS)
        for name, value in zip(("participants", "rounds", "bins"), usual, strict=True):
            object.__setattr__(self, name, getattr(self, name) or value)
        limits = {
            "--participants": (self.participants, 10, 20_000),
            "--rounds": (self.rounds, 1, 200),
            "--hosts": (self.hosts, 1, 16),
            "--seed": (self.seed, 0, 2**32 - 1),
            "--bins": (self.bins, 2, 2**20),
        }
        for name, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise BadInputError(f"{name} must lie between {least} and {most}")
        if self.hosts > self.participants:
            raise BadInputError("there must be at least as many participants as hosts")
        if self.epsilon is not None and not (0 < self.epsilon <= 32 and 0 < self.delta < 1):
            raise BadInputError("--epsilon must lie above 0 and at most at 32, --delta between 0 and 1")
        if self.epsilon is not None and self.descent != "swift":
            raise BadInputError(f"--descent {self.descent} goes with --plain: under cover the rule is swift")

    @property
    def covered(self) -> bool:
        """Whether two relays add cover."""
        return self.epsilon is not None

    @property
    def vocabulary_size(self) -> int:
        """So many names are the bins; 0: bins are hashed."""
        return self.bins if self.covered else 0

    @property
    def train_share(self) -> Fraction:
        return COVER_TRAIN_SHARE if self.covered else TRAIN_SHARE

    @property
    def dice_seed(self) -> bytes:
        """What the devices' learning dice are seeded with."""
        return b"secvm demo %d" % self.seed

    @property
    def beacon(self) -> Beacon:
        """The round of the development beacon that fixes the salt: another chain for every seed."""
        return Beacon(f"local-unsafe-demo-{self.seed}", BEACON_ROUND)

    @property
    def salt(self) -> bytes:
        """What the bins are hashed with, as devices compute it from the beacon once its round is known."""
        chain, number = self.beacon.chain, self.beacon.round_number
        record = LocalUnsafeBeacon().fetch(chain, number)
        return salt_from([verify_beacon(chain, number, record, allow_unsafe=True).value], self.bins)

    def rule(self) -> DescentRule:
        return Swift(step_size=SWIFT_STEP) if self.descent == "swift" else Pegasos(lambda_=PEGASOS_LAMBDA)

    def thinning(self, features: float) -> Thinning:
        """Thinning for people of so many features; both rules then send about the same."""
        if self.descent == "swift":
            return Thinning(rho=RHO)
        q = min(Fraction(1), (RHO / Fraction(math.sqrt(max(1.0, features)))).limit_denominator(100))
        return Thinning(q=q)

    def experiment(self, crowd: Crowd) -> Experiment:
        """The experiment for these people, by how many features they have on average."""
        features = float(np.mean([len(person) for person in crowd.features]))
        units = float(RHO) * math.sqrt(features + 1)
        budget = min(_MOST, max(_FEWEST, math.ceil(units + math.sqrt(units))))
        return Experiment(
            n_bins=self.bins,
            labels=crowd.labels,
            rule=self.rule(),
            thinning=self.thinning(features),
            budget=budget,
        )

    def carried(self, crowd: Crowd, folder: Path) -> list[HostOf]:
        """The hosts, once their people are written into this folder, and the vocabulary where there is one."""
        people, words = folder / "people.jsonl", crowd.write_vocabulary(folder / "words.txt")
        crowd.write(people)
        cuts = [len(crowd) * i // self.hosts for i in range(self.hosts + 1)]
        return [HostOf(people, low, high - low, words) for low, high in pairwise(cuts)]

    @property
    def features_per_person(self) -> int | None:
        return None if self.epsilon is None else COVER_FEATURES

    def floor(self, labels: int) -> int:
        """Fewest train participants, or with cover devices: at least so many as there are labels."""
        return FLOOR if self.epsilon is None else max(FLOOR, labels)

    def specification(self, crowd: Crowd) -> dict[str, Any]:
        """The experiment in an operator's words, as a coordinator takes it; windows and relays are the federation's.

        The vocabulary is the bins, where they are not hashed. The coordinator plans cover, and with it the budget, the
        thinning and the step.
        """
        experiment, vocabulary = self.experiment(crowd), crowd.vocabulary
        told: dict[str, Any] = {
            "title": "A federation in miniature",
            "question": "Which side do people lean to, by the pages they read?",
            "labels": list(experiment.labels),
            "floor": self.floor(len(experiment.labels)),
            "features": {"source": "people-file", "description": "words of page titles, and hosts", "presence": True},
            "binning": {
                "bins": experiment.n_bins,
                "beacons": [{"chain": self.beacon.chain, "round": self.beacon.round_number}],
            },
            "descent": {"rule": self.descent},
            "multiclass": experiment.multiclass,
            "train_share": str(self.train_share),
            "rounds": self.rounds,
        }
        if vocabulary is not None:
            told["binning"] = {"bins": vocabulary.n_bins, "vocabulary": vocabulary.digest}
        if self.epsilon is not None:
            told["people"] = len(crowd)
            told["features"]["per_participant"] = self.features_per_person
            told["privacy"] = {"epsilon": repr(self.epsilon), "delta": repr(self.delta)}
            return told
        told["budget"] = experiment.budget
        told["descent"]["thinning"] = str(experiment.thinning)
        if self.descent == "swift":
            told["descent"]["step_size"] = str(SWIFT_STEP)
        else:
            told["descent"]["lambda"] = str(PEGASOS_LAMBDA)
        return told
