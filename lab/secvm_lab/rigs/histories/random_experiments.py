"""Experiments and tallies at random: small, and such that an honest coordinator could have published them."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

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
from secvm_lab.rigs.histories.parties import Parties

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
