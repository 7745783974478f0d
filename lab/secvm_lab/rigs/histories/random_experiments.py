"""Parties, experiments and tallies at random: small, and such that an honest coordinator could have published them.

Everybody's keys are drawn from seeded dice, and witnesses do their work in memory. For tests and for the lab: whoever
knows the seed knows every key.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from secvm.crypto.merkle import EMPTY_ROOT
from secvm.crypto.notes import NoteKey, NoteSignature
from secvm.crypto.signing import SEED_BYTES, SigningKey
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.experiment import (
    Beacon,
    ExperimentDocument,
    FeaturesWanted,
    HashedBins,
    Relay,
    Windows,
)
from secvm.protocol.log.checkpoints import Checkpoint, check_growth, read_checkpoint
from secvm.protocol.log.policy import LogTerms, Witness
from secvm.protocol.log.proofs import CosigningRequest


@dataclass(slots=True)
class HonestWitness:
    """Cosigns what extends what it has seen of an origin, and nothing else. It remembers as long as it lives."""

    name: str
    key: SigningKey
    #: The largest tree that it has cosigned, by origin.
    seen: dict[str, Checkpoint] = field(default_factory=dict)

    @property
    def public(self) -> Witness:
        """As an experiment names it."""
        return Witness(self.name, self.key.public)

    def size_of(self, origin: str) -> int:
        """How much it has seen of a log."""
        return self.seen[origin].size if origin in self.seen else 0

    def cosign(self, request: CosigningRequest, *, log: NoteKey, time_s: int) -> NoteSignature:
        """Its line under the checkpoint.

        Raises
        ------
        BadProofError
            The checkpoint does not extend what it has seen.
        RemoteProtocolError
            It is none of this log.
        """
        found = read_checkpoint(request.checkpoint, log=log).checkpoint
        old = self.seen.get(log.name, Checkpoint(log.name, 0, EMPTY_ROOT))
        check_growth(old, found, request.path)
        self.seen[log.name] = found
        return found.cosign(self.key, name=self.name, time_s=time_s)


@dataclass(frozen=True, slots=True)
class Parties:
    """Who serves an experiment, with their keys."""

    coordinator: SigningKey
    log: SigningKey
    relays: tuple[SigningKey, ...]
    witnesses: tuple[HonestWitness, ...]
    #: What the origins of the log begin with.
    log_name: str = "log.example"

    @classmethod
    def drawn(cls, dice: random.Random, *, witnesses: int = 3, relays: int = 1) -> Parties:
        """Fresh keys for all of them."""
        return cls(
            coordinator=draw_key(dice),
            log=draw_key(dice),
            relays=tuple(draw_key(dice) for _ in range(relays)),
            witnesses=tuple(HonestWitness(f"w{i}.example", draw_key(dice)) for i in range(witnesses)),
        )

    def anew(self) -> Parties:
        """The same keys, and witnesses that have seen nothing yet: another world."""
        return replace(self, witnesses=tuple(HonestWitness(one.name, one.key) for one in self.witnesses))

    def log_terms(self, *, quorum: int | None = None, freshness_s: int = 3600) -> LogTerms:
        """The terms of their log; the quorum is the smallest that is allowed, unless told."""
        return LogTerms(
            name=self.log_name,
            key=self.log.public,
            witnesses=tuple(witness.public for witness in self.witnesses),
            quorum=len(self.witnesses) // 2 + 1 if quorum is None else quorum,
            freshness_s=freshness_s,
        )


def draw_key(dice: random.Random) -> SigningKey:
    """A key that comes back with the same dice."""
    return SigningKey(dice.randbytes(SEED_BYTES))


#: 2026-01-01.
START = 1_767_225_600_000
#: How long before the first opening an experiment is published, and its beacons are still to come.
BEFORE_FIRST_MS = 3_600_000


def draw_experiment(dice: random.Random, **changes: Any) -> Experiment:
    """A question of a few bins: either rule, two to four labels, class weights or none."""
    rule = dice.choice(["pegasos", "swift"])
    labels = dice.randint(2, 4)
    told: dict[str, Any] = {
        "n_bins": dice.randint(1, 24),
        "labels": tuple("abcd"[:labels]),
        "multiclass": dice.choice(["ovr", "ovo"]),
        "budget": dice.randint(4, 20),
        "class_weights": tuple(Fraction(dice.randint(1, 9), dice.randint(1, 4)) for _ in range(labels))
        if dice.random() < 0.5
        else (),
    }
    if rule == "swift":
        told |= {"rule": Swift(), "thinning": Thinning(rho=Fraction(dice.randint(1, 8), 2))}
    else:
        told |= {
            "rule": Pegasos(
                lambda_=Fraction(1, 10 ** dice.randint(1, 6)),
                averaging=dice.randint(1, 3),
                step_cap=dice.choice([None, Fraction(1, 2)]),
            ),
            "thinning": Thinning(q=Fraction(1, dice.randint(2, 4))) if dice.random() < 0.3 else Thinning(),
        }
    return Experiment(**{**told, **changes})


def draw_document(
    dice: random.Random,
    parties: Parties,
    *,
    experiment: Experiment | None = None,
    beacons: int | None = None,
    **changes: Any,
) -> ExperimentDocument:
    """An experiment with a log, to be published at ``START``.

    ``beacons``: how many of them fix its salt; 0: it stands there. It is marked as a test, as it must be with the
    development beacon.
    """
    experiment = draw_experiment(dice) if experiment is None else experiment
    share = Fraction(7, 10)
    count = dice.randint(0, 3) if beacons is None else beacons
    named = tuple(
        Beacon(f"local-unsafe-{dice.getrandbits(32):x}", START // 1000 + dice.randint(600, 3000)) for _ in range(count)
    )
    told: dict[str, Any] = {
        "title": "Which words tell a from b?",
        "question": "",
        "experiment": experiment,
        "features": FeaturesWanted(source="words", description="Words that the person has written."),
        "binning": HashedBins(
            bins=experiment.n_bins,
            hashes=dice.randint(1, 3),
            salt=None if named else dice.randbytes(32),
            beacons=named,
        ),
        "windows": Windows(length_s=60 * dice.randint(5, 30), grace_s=60, first_opening=START + BEFORE_FIRST_MS),
        "floor": dice.randint(3, 8),
        "train_share": share,
        "rounds": 30,
        "coordinator_keys": (parties.coordinator.public,),
        "relays": tuple(
            Relay(url=f"https://relay{i}.example/r", key=key.public) for i, key in enumerate(parties.relays)
        ),
        "log": parties.log_terms(quorum=dice.randint(len(parties.witnesses) // 2 + 1, len(parties.witnesses))),
        "test": True,
    }
    return ExperimentDocument(**{**told, **changes})


def draw_tally(dice: random.Random, document: ExperimentDocument, *, train: int, test: int) -> Tally:
    """What so many train and test participants may have sent, person by person, none more than the budget."""
    experiment = document.experiment
    tally, signs = aggregate.empty_tally(experiment), experiment.models.signs
    labels, bins = len(experiment.labels), experiment.n_bins
    for _ in range(train):
        label, left = dice.randrange(labels), experiment.train_budget or 0
        tally.participants[label] += 1
        for model in range(experiment.models.n_models):
            sign = int(signs[label, model])
            if not sign or not left or dice.random() < 0.3:
                continue
            side = tally.plus if sign > 0 else tally.minus
            units = dice.randint(1, min(left, 6))
            left -= units
            side[model, bins] += 1
            for _ in range(units - 1):
                side[model, dice.randrange(bins)] += 1
    for _ in range(test):
        tally.cells[dice.randrange(labels), dice.randrange(labels)] += 1
    return tally
