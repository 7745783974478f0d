"""Lies about how rounds with two relays ended, and what followed: steps, openings, counts, capsules that are gone.

What is told to everybody is logged and cosigned by all. Of an opening with something false in it, a device takes the
round for unopened: it sees the lie when the model moves all the same, or the second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.recomputation import Model, model_of
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.commitments import part_path
from secvm_lab.rigs.histories.relayed_history import LEAD_MS
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, MIX, STRANGER
from secvm_lab.rigs.histories.sealed_round import outers_in
from secvm_lab.rigs.lies.heard.scene import A_WHILE_MS, HeardScene, LoggedHistory

_FACTORS = (Fraction(2), Fraction(1, 4), Fraction(101, 100))
_OTHER = "1" * 64
Told = Callable[[Any], Any]


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def wrong_lambda(scene: HeardScene) -> str:
    """Another λ."""
    experiment = scene.history.document.experiment
    rule = experiment.rule
    assert isinstance(rule, Pegasos)
    factor = scene.dice.choice(_FACTORS)
    other = replace(experiment, rule=replace(rule, lambda_=rule.lambda_ * factor))
    return _stepped_otherwise(scene, str(factor), lambda state, tally: _model(scene, other, state, tally))


def wrong_class_weight(scene: HeardScene) -> str:
    """Another weight for one of the labels."""
    experiment, dice = scene.history.document.experiment, scene.dice
    weights = list(experiment.class_weights or (Fraction(1),) * len(experiment.labels))
    label = dice.randrange(len(weights))
    weights[label] *= dice.choice(_FACTORS)
    other = replace(experiment, class_weights=tuple(weights))
    return _stepped_otherwise(scene, f"label {label}", lambda state, tally: _model(scene, other, state, tally))


def wrong_normaliser(scene: HeardScene) -> str:
    """The counts divided by something else than the weighted number of participants."""
    variant = scene.dice.choice(["one more", "three times", "test people too"])

    def step(state: State, tally: Tally) -> Model:
        people = tally.participants
        told = {
            "one more": people + np.eye(len(people), dtype=np.int64)[int(people.argmax())],
            "three times": 3 * people,
            "test people too": people + tally.cells.sum(axis=1) + 1,
        }[variant]
        experiment = scene.history.document.experiment
        return _model(scene, experiment, state, replace(tally, participants=told))

    return _stepped_otherwise(scene, variant, step)


def first_state_not_zero(scene: HeardScene) -> str:
    """Round 1 does not begin from zero."""
    liar = scene.history.branch()
    liar.model = moved(scene, liar)
    liar.announce()
    scene.hear(liar)
    return ""


def weights_not_of_the_state(scene: HeardScene) -> str:
    """The state follows, and the weights are not the state's."""
    dice, liar = scene.dice, scene.history.branch()
    variant = dice.choice(["training", "evaluation", "swapped"])
    other = dice.randbytes(32).hex()

    def change(told: Any) -> Any:
        training, evaluation = told.training_weights, told.evaluation_weights
        if variant == "swapped" and training != evaluation:
            return replace(told, training_weights=evaluation, evaluation_weights=training)
        return replace(told, **{f"{'training' if variant == 'training' else 'evaluation'}_weights": other})

    liar.announce(manifest=change)
    scene.hear(liar)
    return variant


def step_after_too_few(scene: HeardScene) -> str:
    """A round below the floor changes the model."""
    liar = scene.history.branch()
    scene.round_of(liar, crowd=1)
    liar.model = moved(scene, liar)
    liar.announce()
    scene.hear(liar)
    return ""


def step_after_an_unopened_round(scene: HeardScene) -> str:
    """A round that was not opened changes the model."""
    liar = scene.history.branch()
    scene.round_of(liar, crowd=4, unopened=True)
    liar.model = moved(scene, liar)
    liar.announce()
    scene.hear(liar)
    return ""


def no_step(scene: HeardScene) -> str:
    """An opened round is not stepped."""
    liar = scene.history.branch()
    before = liar.model
    for _ in range(20):
        scene.round_of(liar, crowd=5)
        if liar.model.names != before.names:
            break
        before = liar.model
    liar.model = before
    liar.announce()
    scene.hear(liar)
    return ""


def tally_withheld(scene: HeardScene) -> str:
    """Nobody can step from a tally that is not there, or that is another one."""
    liar = scene.history.branch()
    scene.round_of(liar, crowd=5, asleep=True)
    path = f"/v1/blob/{liar.openings[-1].tally}"
    variant = scene.dice.choice(["none", "another", "half of it"])
    data = liar.files.pop(path)
    if variant == "another":
        other = liar.draw_net(5)
        other.plus[0, 0] += 1
        liar.files[path] = encode_tally(other, liar.document.experiment)
    elif variant == "half of it":
        liar.files[path] = data[: len(data) // 2]
    liar.announce()
    scene.hear(liar)
    return variant


# ── openings and what relays sign ────────────────────────────────────────────────────────────────────────────────────


def opening_of_a_stranger(scene: HeardScene) -> str:
    """An opening without the coordinator's signature."""
    liar = scene.history.branch()
    scene.round_of(liar, asleep=True)
    opening, path = liar.openings[-1], f"{liar.place}/opening/{liar.running.round_number}"
    liar.files[path] = opening.signed([STRANGER])
    liar.announce()
    scene.hear(liar)
    return ""


def opening_exchanged(scene: HeardScene) -> str:
    """What is shown as the opening is not what the log has, or what the next manifest names."""
    liar = scene.history.branch()
    scene.round_of(liar, asleep=True)
    other = replace(liar.openings[-1], mix_reveal=None, count_seed=None, tally=None, shards=None)
    liar.files[f"{liar.place}/opening/{liar.running.round_number}"] = other.signed([COORDINATOR])
    liar.announce()
    scene.hear(liar)
    return ""


def capsules_without_a_client(scene: HeardScene) -> str:
    """The entry relay hands on one capsule more than its submissions and cover."""
    lies: dict[str, Told] = {
        "entry_count": lambda told: replace(told, capsules=told.capsules + 1),
        "mix_count": lambda told: replace(told, refused=told.refused + 1),
    }
    return _falsely_opened(scene, lies)


def capsules_lost_in_the_mix(scene: HeardScene) -> str:
    """The mixing relay hands on one less than it says that it refused."""
    return _falsely_opened(scene, {"mix_count": lambda told: replace(told, refused=told.refused + 1)})


def count_after_another_batch(scene: HeardScene) -> str:
    """The mixing relay counted after another count of the entry relay."""
    return _falsely_opened(scene, {"mix_count": lambda told: replace(told, entry_count=_OTHER)})


def second_count_published(scene: HeardScene) -> str:
    """Reveals answer one count of the mixing relay, and another one is published."""
    second: Told = lambda count: replace(count, root=bytes(32))  # noqa: E731
    return _falsely_opened(
        scene, {}, opening=lambda made, told: replace(told, mix_count=second(made.mix_count).signed(MIX))
    )


def count_forged(scene: HeardScene) -> str:
    """The coordinator signs a relay's count itself."""
    name = scene.dice.choice(["entry_count", "mix_count", "entry_reveal", "mix_reveal"])

    def forge(made: Any, told: Any) -> Any:
        return replace(told, **{name: getattr(made, name).signed(STRANGER)})

    return f"{name}, {_falsely_opened(scene, {}, opening=forge)}"


def part_that_pleases(scene: HeardScene) -> str:
    """Both relays open the part that they like best."""

    def chosen(made: Any, told: Any) -> Any:
        secret, part = made.secret("entry"), (told.part + 1) % made.parts
        path = part_path(secret.part_seeds(made.parts), part)
        return replace(told, part=part, seed=secret.part_seed(part), path=path)

    return _falsely_opened(scene, {}, entry_reveal=chosen)


def seed_chosen_later(scene: HeardScene) -> str:
    """A relay shows a seed that it was not bound to."""
    name = scene.dice.choice(["entry_reveal", "mix_reveal"])
    seed = scene.dice.randbytes(32)
    return f"{name}, {_falsely_opened(scene, {name: lambda told: replace(told, seed=seed)})}"


def seed_of_another_key(scene: HeardScene) -> str:
    """The published seed opens nothing."""
    seed = scene.dice.randbytes(32)
    return _falsely_opened(scene, {"opening": lambda told: replace(told, count_seed=seed)})


# ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dropped_by_entry(scene: HeardScene) -> str:
    """The entry relay gives a receipt for a request, and hands none of it on."""
    return _dropped(scene, "entry_leaves_out")


def dropped_by_mix(scene: HeardScene) -> str:
    """The mixing relay replaces the capsules of a request."""
    return _dropped(scene, "mix_leaves_out")


def shards_withheld(scene: HeardScene) -> str:
    """The round is opened, and what was handed on in it is not public, or is something else."""
    liar = scene.history.branch()
    variant = scene.dice.choice(["no index", "no runs", "broken runs", "half an index"])

    def hide() -> None:
        number = liar.running.round_number
        index, runs = f"{liar.place}/shards/{number}", f"{liar.place}/shard/{number}/"
        if variant == "no index":
            del liar.files[index]
        elif variant == "half an index":
            liar.files[index] = liar.files[index][: len(liar.files[index]) // 2]
        for path in [path for path in liar.files if path.startswith(runs)]:
            data = liar.files.pop(path)
            if variant == "broken runs":
                liar.files[path] = data[:-1] + bytes([data[-1] ^ 1])
            elif variant != "no runs":
                liar.files[path] = data

    scene.round_of(liar, asleep=False, after=hide)
    _one_more(scene, liar)
    return variant


# ── how it is told ───────────────────────────────────────────────────────────────────────────────────────────────────


def moved(scene: HeardScene, history: LoggedHistory) -> Model:
    """Another model than the one that follows."""
    tally = aggregate.empty_tally(history.document.experiment)
    tally.participants[:], tally.plus[0, 0] = 9, scene.dice.randint(1, 20)
    return _model(scene, history.document.experiment, history.model.state, tally)


def _model(scene: HeardScene, experiment: Experiment, state: State, tally: Tally) -> Model:
    document = replace(scene.history.document, experiment=experiment)
    return model_of(document, aggregate.step(experiment, state, tally))


def _stepped_otherwise(scene: HeardScene, variant: str, step: Callable[[State, Tally], Model]) -> str:
    """A round at whose end the step is taken in the liar's way."""
    liar = scene.history.branch()
    for _ in range(20):
        before = liar.model.state
        played = scene.round_of(liar, crowd=5)
        if liar.model.state.step == before.step:
            continue
        wrong = step(before, played.net)
        if wrong.names != liar.model.names:
            liar.model = wrong
            break
    else:
        liar.model = moved(scene, liar)
    liar.announce()
    scene.hear(liar)
    return variant


def _falsely_opened(scene: HeardScene, lies: dict[str, Told], **of_round: Callable[[Any, Any], Any]) -> str:
    """An opening with something false in it, and the model moves all the same; or two of them.

    ``of_round``: lies that need the round itself.
    """
    liar = scene.history.branch()
    variant = scene.dice.choice(["stepped", "twice"]) if scene.joined else "stepped"
    for _ in range(2 if variant == "twice" else 1):
        told = {name: _of_running(liar, lie) for name, lie in of_round.items()}
        scene.round_of(liar, crowd=5, asleep=False, lies={**lies, **told})
    if variant == "stepped":
        liar.model = moved(scene, liar)
    _one_more(scene, liar)
    return variant


def _of_running(liar: LoggedHistory, lie: Callable[[Any, Any], Any]) -> Told:
    return lambda true: lie(liar.running, true)


def _dropped(scene: HeardScene, by: str) -> str:
    liar = scene.history.branch()

    def all_of_them() -> dict[str, frozenset[bytes]]:
        own = [outer for body in liar.requests.values() for outer in outers_in(body, liar.document)]
        digests = frozenset(map(capsule_digest, own))
        if by == "mix_leaves_out":
            made = replace(liar.running, bodies=tuple(liar.requests.values()))
            digests = frozenset(made.inner_of[digest] for digest in digests)
        return {by: digests}

    scene.round_of(liar, asleep=False, before=all_of_them)
    _one_more(scene, liar)
    return ""


def _one_more(scene: HeardScene, liar: LoggedHistory) -> None:
    """Time passes until everything was looked at; and one more round is announced."""
    scene.live(liar.running.manifest.instants.open_by + A_WHILE_MS)
    liar.announce(lead_ms=A_WHILE_MS + LEAD_MS)
    scene.hear(liar)
