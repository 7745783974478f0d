"""Lies about the model, told to everybody: logged, cosigned by all, and consistent from the lie onwards.

No witness can see them. Whoever plays the steps again can.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, publish
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import draw_tally
from secvm_lab.rigs.lies.liar import Liar, Scene, Shown, Step, Told
from secvm_lab.rigs.lies.to_one_device import other_weights

#: A lie that by chance changes nothing is none: the liar tries again.
_TRIES = 10
_FACTORS = (Fraction(2), Fraction(1, 4), Fraction(101, 100))


def wrong_lambda(scene: Scene) -> Told:
    """Another constant of the rule: λ, a step size, a momentum."""
    experiment, dice = scene.history.document.experiment, scene.dice
    rule = experiment.rule
    other: Pegasos | Swift
    if isinstance(rule, Pegasos):
        field = dice.choice(["lambda", "averaging"])
        if field == "averaging":
            other = replace(rule, averaging=rule.averaging + 1)
        else:
            other = replace(rule, lambda_=rule.lambda_ * dice.choice(_FACTORS))
    else:
        assert isinstance(rule, Swift)
        field = dice.choice(["step_size", "momentum", "decay"])
        other = replace(rule, **{field: Fraction(99, 100) * getattr(rule, field) or Fraction(1, 1000)})
    return _learn_otherwise(scene, replace(experiment, rule=other), field)


def wrong_class_weight(scene: Scene) -> Told:
    """Another weight for one of the labels."""
    experiment, dice = scene.history.document.experiment, scene.dice
    weights = list(experiment.class_weights or (Fraction(1),) * len(experiment.labels))
    label = dice.randrange(len(weights))
    weights[label] *= dice.choice(_FACTORS)
    return _learn_otherwise(scene, replace(experiment, class_weights=tuple(weights)), f"label {label}")


def wrong_normaliser(scene: Scene) -> Told:
    """The counts divided by something else than the weighted number of participants."""
    experiment, dice = scene.history.document.experiment, scene.dice
    variant = dice.choice(["one more", "three times", "all alike", "test people too"])

    def step(state: State, tally: Tally) -> State:
        people = tally.participants
        told = {
            "one more": people + np.eye(len(people), dtype=np.int64)[int(people.argmax())],
            # Twice as many would change nothing where a step cap halves: it would halve once less.
            "three times": 3 * people,
            "all alike": np.full_like(people, max(1, int(people.sum()) // len(people))),
            "test people too": people + tally.cells.sum(axis=1) + 1,
        }[variant]
        return aggregate.step(experiment, state, replace(tally, participants=told))

    return _step_otherwise(scene, step, variant)


def first_state_not_zero(scene: Scene) -> Told:
    """Round 1 does not start from zero, and all goes on from there."""
    dice = scene.dice
    liar = Liar.after(scene.pasts[0] if scene.pasts else scene.history)
    variant = dice.choice(["an entry", "a step", "another experiment's", "weights alone"])
    start = liar.state
    if variant == "an entry":
        vectors = {name: vector.copy() for name, vector in start.vectors.items()}
        name = dice.choice(sorted(vectors))
        at = tuple(dice.randrange(n) for n in vectors[name].shape)
        vectors[name][at] = dice.choice([1, -1, 2**20])
        liar.state = State(rule=start.rule, step=dice.choice([0, 1]), vectors=vectors)
    elif variant == "a step":
        liar.state = State(rule=start.rule, step=dice.randint(1, 5), vectors=start.vectors)
    elif variant == "another experiment's":
        liar.state = aggregate.step(liar.document.experiment, start, liar.draw_tally())
    else:
        shown = liar.weights(start)
        moved = other_weights(scene, shown[0]), other_weights(scene, shown[1])
        liar.wrong_weights = lambda state: moved if state is start else PublicHistory.weights(liar, state)
    # Whoever has followed the honest past is no victim of this one.
    scene.kept = None
    _go_on(scene, liar, rounds=dice.randint(0, 3))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def weights_not_of_the_state(scene: Scene) -> Told:
    """The state follows, and the weights are not the state's."""
    dice = scene.dice
    variant = dice.choice(["training", "evaluation", "both", "swapped", "one round late"])
    before = scene.history.state

    def shown(state: State) -> tuple[Weights, Weights]:
        training, evaluation = PublicHistory.weights(scene.history, state)
        match variant:
            case "training":
                return other_weights(scene, training), evaluation
            case "evaluation":
                return training, other_weights(scene, evaluation)
            case "both":
                return other_weights(scene, training), other_weights(scene, evaluation)
            case "swapped":
                return evaluation, training
            case _:
                return PublicHistory.weights(scene.history, before)

    liar = Liar.after(scene.history)
    for _ in range(_TRIES):
        scene.one_more(liar)
        told = shown(liar.state)
        if [part.to_bytes() for part in told] != [part.to_bytes() for part in liar.weights(liar.state)]:
            break
    else:
        told = other_weights(scene, told[0]), told[1]
    liar.wrong_weights = lambda _: told
    liar.announce()
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def changed_bins(scene: Scene) -> Told:
    """Another number of bins in mid-experiment."""
    dice, history = scene.dice, scene.history
    old = history.document
    bins = old.experiment.n_bins + dice.choice([1, 2, 100])
    experiment = replace(old.experiment, n_bins=bins)
    assert isinstance(old.binning, HashedBins)
    other = replace(old, experiment=experiment, binning=replace(old.binning, bins=bins))
    return _changed_document(scene, other)


def changed_salt(scene: Scene) -> Told:
    """Another salt, or other hashes, in mid-experiment."""
    dice, old = scene.dice, scene.history.document
    assert isinstance(old.binning, HashedBins)
    binning = dice.choice(
        [
            replace(old.binning, salt=dice.randbytes(32), beacons=()),
            replace(old.binning, hashes=old.binning.hashes + 1),
        ]
    )
    return _changed_document(scene, replace(old, binning=binning))


def forged_tally(scene: Scene) -> Told:
    """A tally that nobody sent, within the budget. **Not detected**: recomputing shows that steps follow, no more."""
    liar = Liar.after(scene.history)
    _go_on(scene, liar, rounds=scene.dice.randint(1, 3))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant="within the budget")


# ── how it is told ───────────────────────────────────────────────────────────────────────────────────────────────────


def _shown_by(experiment: Experiment) -> Shown:
    """The weights of a state, as this experiment has them."""
    return lambda state: (
        aggregate.training_weights(experiment, state),
        aggregate.evaluation_weights(experiment, state),
    )


def _learn_otherwise(scene: Scene, experiment: Experiment, variant: str) -> Told:
    # With more vectors to average, the honest state has too few: it starts as its rule says.
    if aggregate.start(experiment).vectors.keys() != aggregate.start(scene.history.document.experiment).vectors.keys():
        return _from_the_start(scene, experiment, variant)
    return _step_otherwise(scene, partial(aggregate.step, experiment), variant, _shown_by(experiment))


def _from_the_start(scene: Scene, experiment: Experiment, variant: str) -> Told:
    liar = Liar.after(
        scene.pasts[0] if scene.pasts else scene.history,
        step=partial(aggregate.step, experiment),
        weights=_shown_by(experiment),
    )
    liar.state = aggregate.start(experiment)
    scene.kept = None
    _go_on(scene, liar, rounds=scene.dice.randint(1, 3))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def _step_otherwise(scene: Scene, step: Step, variant: str, shown: Shown | None = None) -> Told:
    """From some round on every step is taken in the liar's way, and what follows from it is told consistently."""
    liar = Liar.after(scene.history)
    wrong = liar.state
    for _ in range(_TRIES):
        before = liar.state
        _, tally = scene.one_more(liar)
        wrong = step(before, tally)
        told = [wrong.to_bytes(), *(part.to_bytes() for part in (shown or liar.weights)(wrong))]
        if told != [part.to_bytes() for part in (liar.state, *liar.weights(liar.state))]:
            break
    else:
        # Nothing was changed, so this is no lie yet; anything is better for the liar than the truth.
        wrong = aggregate.step(liar.document.experiment, wrong, liar.draw_tally())
    liar.state, liar.wrong_step = wrong, step
    liar.wrong_weights = shown
    _go_on(scene, liar, rounds=scene.dice.randint(0, 2))
    return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)


def _go_on(scene: Scene, liar: Liar, *, rounds: int) -> None:
    """So many more rounds, and then one that is announced, or the ending."""
    for _ in range(rounds):
        liar.announce()
        liar.conclude(liar.draw_tally())
    if liar.manifests and scene.dice.random() < 0.2:
        liar.end()
    else:
        liar.announce()


def _changed_document(scene: Scene, other: ExperimentDocument) -> Told:
    """The experiment becomes another one, under the name of the first."""
    dice = scene.dice
    liar = Liar.after(scene.history)
    variant = dice.choice(["another document", "manifests of another", "model of another"])
    if variant == "another document" and scene.newcomer:
        liar.announce()
        files = {**liar.files, liar.place: publish(other, keys=(liar.parties.coordinator,))}
        return Told(files=files, now=liar.now, public=files, variant=variant)
    if variant == "model of another" and other.experiment != liar.document.experiment:
        scene.one_more(liar)
        liar.announce()
        asked = other.experiment
        liar.state, liar.wrong_step = aggregate.start(asked), partial(aggregate.step, asked)
        liar.wrong_weights = _shown_by(asked)
        liar.conclude(draw_tally(dice, other, train=other.floor, test=0), counted_for=other.experiment)
        liar.announce()
        return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)
    start = aggregate.start(other.experiment)
    parts = [part.to_bytes() for part in (start, *liar.weights(start))] if dice.random() < 0.5 else []
    names = dict(zip(("state", "training_weights", "evaluation_weights"), map(digest_of, parts), strict=False))
    for part in parts:
        liar.put_blob(part)
    changes: dict[str, Any] = {"experiment": other.digest, **names}
    liar.announce(**changes)
    return Told(files=liar.files, now=liar.now, public=liar.files, variant="manifests of another")
