"""A14: a capsule that is sent again.

Whoever holds a sealed capsule, a relay above all, can send it again. Counted each time, a hundred copies lift one cell
of the public tally by a hundred: the relay, who knows whose capsule it was, reads what was inside. Replays come in the
same batch, in another, and in the next epoch, whose key does not open them. Without the defence what opens is counted;
with it the real path runs: the gateway opens (``open_block``), and ``count_epoch`` counts a capsule once, by its
digest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting.epoch_count import RoundToCount, count_epoch
from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.store.records import view_records
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, encode_key_configurations
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Cohort, Package, ParticipationPackage, TrainPackage
from secvm.participant.sending.sealing import gateway_seal
from secvm.protocol.codec import AddressedPackage, ExperimentId, decode, encode
from secvm_lab.attacks.attack import Advance, Attack, Measurement, goal
from secvm_lab.attacks.drawing import draw_person, generator, plain_experiment
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import KnownCopies, PublicView

DEVICES, BINS, FEATURES, COPIES = 8, 50, 6, 30
EXPERIMENT = plain_experiment(BINS, budget=FEATURES + 2)
ROUND = RoundToCount(ExperimentId(bytes(16)), EXPERIMENT, 1)


def guess(view: PublicView, knowing: KnownCopies) -> tuple[int, int] | None:
    """Bin and sign of what was replayed: the one cell that is as large as the copies."""
    counts = view.tallies[0][0]
    place = int(np.argmax(counts))
    if counts.flat[place] < knowing.copies:
        return None
    return place // 2, place % 2


def tally_view(tally: Tally) -> NDArray[np.int64]:
    """A tally as views have it."""
    return np.stack([tally.minus, tally.plus], axis=2)


class _Round:
    """Capsules of one epoch, and the key that opens them."""

    def __init__(self, dice: np.random.Generator) -> None:
        self.key = GatewayKey(7, X25519PrivateKey.generate(dice.bytes))
        #: Of the epoch after this one.
        self.following = GatewayKey(8, X25519PrivateKey.generate(dice.bytes))
        self._seal = gateway_seal(dice.bytes)
        self.capsules: list[bytes] = []

    def send(self, package: Package) -> bytes:
        """Seal a package and send it."""
        keys = encode_key_configurations([self.key.configuration])
        plain = encode(AddressedPackage(ROUND.experiment_id, ROUND.round_number, package))
        self.capsules.append(self._seal(plain, keys))
        return self.capsules[-1]


def count(batches: list[list[bytes]], key: GatewayKey, dice: np.random.Generator, *, defended: bool) -> Tally:
    """Open batches and count them: as the coordinator does, or everything that opens."""
    blocks = [open_block(GatewayKeys([key]), batch).block for batch in batches]
    if defended:
        return count_epoch(blocks, [ROUND], dice=dice.bytes).tallies[0]
    records = [row.tobytes() for block in blocks for row in view_records(block)]
    return aggregate.empty_tally(EXPERIMENT).count(decode(record[32:]).package for record in records)


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial; one capsule of it is sent again and again."""
    dice = generator(seed, 14, defended=defended)
    accepted = late = learnt = 0
    for _ in range(trials):
        world = _Round(dice)
        for _ in range(DEVICES):
            person = draw_person(dice, BINS, FEATURES)
            world.send(ParticipationPackage(cohort=Cohort.TRAIN, class_index=person.label))
            for place in person.vector.values:
                world.send(TrainPackage(model=0, bin_index=place, sign=1 if person.label else -1))
        target = TrainPackage(model=0, bin_index=int(dice.integers(BINS)), sign=1)
        capsule = world.send(target)
        honest = tally_view(count([world.capsules], world.key, dice, defended=defended))
        half = [capsule] * (COPIES // 2)
        # Half in the same batch, half in another; and half as many in the next epoch, in vain in any case.
        seen = tally_view(count([world.capsules + half, half], world.key, dice, defended=defended))
        accepted += int((seen - honest).sum())
        late += int(tally_view(count([half], world.following, dice, defended=defended)).sum())
        learnt += guess(PublicView(tallies=(seen,)), KnownCopies(COPIES)) == (target.bin_index, 1)
        advance(1)
    told = trials * COPIES
    detail = {
        "replays": told,
        "accepted": accepted,
        "accepted_in_the_next_epoch": late,
        "content_learnt": learnt / trials,
    }
    return Measurement(accepted / told, wilson(accepted, told), trials, detail)


ATTACK = Attack(
    number=14,
    title="replay",
    slug="replay",
    needs="The relay, or whoever else can copy a sealed capsule.",
    steps=(
        "Send somebody's capsule many times, in the same batch, in another and in the next epoch.",
        "The cell of the public tally that grows by as many is what was inside.",
    ),
    metric="share of replays that are counted",
    chance=0.0,
    defence="A capsule counts once, by its digest, until the key that opens it is destroyed; a package names its"
    " round.",
    goal=goal(undefended_at_least=0.99, defended_at_most=0.0),
    trials=100,
    quick_trials=10,
    guess=guess,
    play=play,
)
