"""``secvm_lab.simulate``: an experiment's rounds over people in memory, as a federation of them would play them.

Nothing is sealed and nothing is sent; the counts are those of the packages. Document, cohorts, dice, bins and steps are
made by the product's own code, so a plain experiment comes to the bytes that ``secvm.testing.Federation`` comes to with
the same seed. With a guarantee the relays of a federation throw dice of their own, and here cover is drawn from the
seed, by the same law.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from secvm.coordinator.experiments.status_document import Watchers, notes_of, scores
from secvm.errors import BadInputError
from secvm.estimator.binner import FeatureBinner
from secvm.estimator.training import Population
from secvm.learning import aggregate
from secvm.learning.aggregate.convergence import Plateau
from secvm.participant.person.pinning import binning_of
from secvm.testing.asked import Asked, Experiment, People, Vocabulary
from secvm.testing.federation_settings import RELAY_STEPS, Pace
from secvm.testing.result import Result, Round
from secvm_lab.demo.crowd import who_trains
from secvm_lab.replay import Replay


def simulate(
    experiment: Experiment,
    people: People,
    *,
    vocabulary: Vocabulary | None = None,
    seed: str | int = 0,
    rounds: int | None = None,
) -> Result:
    """Train an experiment over these people, as a federation of their devices would, and say what came of it.

    Parameters
    ----------
    experiment
        A specification as ``secvm experiment new`` takes it: a file, or a dict of the same keys. Relays, windows and
        beacons belong to a deployment and are not looked at; title, labels, floor and source may be left out.
    people
        A file of people, or for each of them a pair of words and label. They are data that you hold.
    vocabulary
        The words that are the bins, or a file of them, where they are not hashed.
    seed
        Of the people's dice, the salt and the cover. The same seed gives the same model.
    rounds
        The first so many; None: all.

    Examples
    --------
    >>> people = [(["rain", "tea"], "north"), (["sea", "sand"], "south")] * 20
    >>> result = simulate({"binning": {"bins": 50}, "budget": 8, "rounds": 3, "privacy": "none"}, people)
    >>> result.model.predict([["rain"], ["sand"]]).tolist()
    ['north', 'south']
    """
    asked = Asked.of(experiment, people, vocabulary=vocabulary, seed=seed)
    document, early = asked.document(Pace(relays=RELAY_STEPS) if asked.covered else Pace())
    if rounds is not None and (type(rounds) is not int or rounds < 1):
        raise BadInputError("rounds must be at least 1, a whole number, or left out for all")
    model, binning = document.experiment, binning_of(document, asked.vocabulary)
    dice_seed, count = asked.seed.encode(), len(asked.people)
    result = Result(
        document=document,
        rounds=(),
        devices=count,
        weights=aggregate.evaluation_weights(model, aggregate.start(model)),
        binning=binning,
    )
    binner = FeatureBinner.of_model(result.model_file)
    binner.dice_seed = dice_seed
    codes = {label: code for code, label in enumerate(model.labels)}
    replay = Replay(
        model,
        Population(
            rows=binner.rows([person.features for person in asked.people]),
            labels=np.array([codes[str(person.label)] for person in asked.people], dtype=np.int64),
            train=who_trains(count, share=document.train_share, dice_seed=dice_seed),
        ),
        dice_seed=dice_seed,
        floor=document.floor,
    )
    plateau = None if early is None else Plateau(patience=early.patience, at_least=early.at_least)
    watchers, played = Watchers(model, plateau=plateau), list[Round]()
    everybody = np.ones(count, dtype=np.bool_)
    while len(played) < min(document.rounds, rounds or document.rounds) and not watchers.stop:
        one = replay.advance(everybody)
        watchers.watch(one.number, one.tally)
        content = {} if one.tally is None else scores(model, one.tally)
        played.append(Round.of(one.number, content, learnt=one.learnt))
    return replace(
        result,
        rounds=tuple(played),
        weights=replay.evaluation_weights,
        notes=tuple(notes_of(watchers, early=watchers.stop and len(played) < document.rounds)),
    )
