"""An honest run: rounds that are met and abandoned, keys that change, devices that come late and stay away.

Whoever refuses in it refuses in vain. In half of the runs the coordinator computes with ``second_rule``, which knows
nothing of ours.
"""

from __future__ import annotations

import random

import numpy as np

from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.trust.salt import salt_of
from secvm.protocol.trust.trusted_rounds import Trusted, TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory, lines_from
from secvm_lab.rigs.lies import second_rule


class SecondImplementation(PublicHistory):
    """A coordinator whose rule somebody else wrote."""

    def step(self, state: State, tally: Tally) -> State:
        counts = second_rule.Counts(tally.plus.tolist(), tally.minus.tolist(), tally.participants.tolist())
        vectors = {name: vector.tolist() for name, vector in state.vectors.items()}
        take = second_rule.swift_step if state.rule == "swift" else second_rule.pegasos_step
        number, new = take(self.document.experiment, state.step, vectors, counts)
        return State(
            rule=state.rule, step=number, vectors={n: np.array(rows, state.vectors[n].dtype) for n, rows in new.items()}
        )

    def weights(self, state: State) -> tuple[Weights, Weights]:
        vectors = {name: vector.tolist() for name, vector in state.vectors.items()}
        if state.rule == "swift":
            pair = tuple(second_rule.swift_weights(state.step, vectors[name]) for name in ("weights", "average"))
        else:
            pair = second_rule.pegasos_weights(self.document.experiment, state.step, vectors)
        training, evaluation = (
            Weights(np.array(rows, np.int32), unit, normalised=state.rule == "swift", first=state.step == 0)
            for rows, unit in pair
        )
        return training, evaluation


def honest_run(dice: random.Random) -> int:
    """One run to its end; how many looks devices have taken comes back. Raises what a device raises."""
    kind = dice.choice([PublicHistory, SecondImplementation])
    history = kind.drawn(dice, relays=dice.randint(0, 2))
    devices: list[Trusted | None] = [None] * dice.randint(1, 3)
    looks = 0
    for _ in range(dice.randint(1, 6)):
        history.announce()
        if dice.random() < 0.3:
            # Cosignatures are renewed while the round is the newest.
            history.cosign(history.now + 1000 * dice.randint(1, 60))
        for i, kept in enumerate(devices):
            if dice.random() < 0.6:
                devices[i], looks = _look(history, kept), looks + 1
        history.conclude(None if dice.random() < 0.25 else history.draw_tally())
    if dice.random() < 0.5:
        history.end()
    else:
        history.announce()
    for kept in (*devices, None):
        _look(history, kept)
    return looks + len(devices) + 1


def _look(history: PublicHistory, kept: Trusted | None) -> Trusted:
    document = read_published(history.files[history.place], digest=history.document.digest)
    if kept is None:
        salt_of(document, first=history.first, records=history.records, allow_unsafe=True)
    else:
        kept = Trusted.from_parts(kept.to_bytes(), kept.state)
    device = TrustedRounds(document, history.envelope, kept)
    device.believe(device.check(history.served(device), now=history.now))
    device.compare(history.files[f"{history.place}/checkpoint"], ())
    # Later in the window, when other experiments have gone on.
    later = history.branch()
    later.let_others_append()
    signed, since = later.cosign(), device.trusted.log.frontier.size
    device.compare(signed.data, lines_from(later.files, since, signed.checkpoint.size))
    return device.trusted
