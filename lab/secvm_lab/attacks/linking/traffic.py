"""Attacks by what a relay sees or hands on: how much, twice, or together with the coordinator.

A13: how many packages somebody sends says what they are.

A relay sees who sends how much. Without padding whoever violates the margin sends an update, whoever does not sends one
participation package; and a long text sends more than a short one. With the defence everybody sends exactly B packages
of one size. Devices are real (``individual.contribution.contribute``); some are switched off in mid-window.

A14: a capsule that is sent again.

Whoever holds a sealed capsule, a relay above all, can send it again. Counted each time, a hundred copies lift one cell
of the public tally by a hundred: the relay, who knows whose capsule it was, reads what was inside. Replays come in the
same batch, in another, and in the next epoch, whose key does not open them. Without the defence what opens is counted;
with it the real path runs: the gateway opens (``open_block``), and ``count_epoch`` counts a capsule once, by its
digest.

A15: relay and coordinator collude.

With one relay there is nothing to measure: it sees who left which sealed bytes, the coordinator sees what those bytes
say when they are opened, and together they know the sender of every package. **Everything that this project promises is
void then.** The only remedy is a relay that does not collude. With two relays one may be honest: it takes the outer
layer off and hands a whole round on together. What it would give if it handed on at once, or every minute, is measured
beside it. Both relays together are A49.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting.epoch_count import RoundToCount, count_epoch
from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.store.records import view_records
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer, encode_key_configurations
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort, Package, ParticipationPackage, TrainPackage
from secvm.participant.sending.sealing import CAPSULE_BYTES, gateway_seal
from secvm.protocol.codec import AddressedPackage, ExperimentId, decode, encode
from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point, goal
from secvm_lab.attacks.drawing import (
    draw_person,
    draw_size,
    draw_weights,
    generator,
    mixed_round,
    plain_experiment,
    words,
)
from secvm_lab.attacks.statistics import auc, wilson
from secvm_lab.attacks.views import NOTHING, CollusionView, Deposit, KnownCopies, Nothing, Opened, PublicView, RelayView

# ── A13 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES_FINGERPRINT, BINS_FINGERPRINT, MOST, BUDGET = 100, 200, 60, 64
WINDOW = Window(opens_at=0, closes_at=600_000)
#: This share of devices is switched off at some moment of the window, whatever they send.
SWITCHED_OFF = 0.1
#: Weights of this size let about half of the people violate the margin.
SIZE = 0.8


def guess_fingerprint(view: RelayView, knowing: Nothing) -> dict[str, float]:
    """For each client how likely it violates the margin: the more it sends, the likelier."""
    del knowing
    sent: dict[str, float] = {}
    for deposit in view.deposits:
        sent[deposit.who] = sent.get(deposit.who, 0.0) + deposit.size
    return sent


def sent_by(dice: np.random.Generator, drawn: Iterator[int], packages: list[Package], who: str) -> list[Deposit]:
    """What the relay sees of one device."""
    off = int(dice.integers(WINDOW.closes_at)) if dice.random() < SWITCHED_OFF else WINDOW.closes_at
    times = spread(len(packages), WINDOW, drawn)
    return [Deposit(who, at, CAPSULE_BYTES) for at in times if at < off]


def play_fingerprint(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A crowd in each trial."""
    dice = generator(seed, 13, defended=defended)
    drawn = words(dice)
    experiment = plain_experiment(BINS_FINGERPRINT, budget=BUDGET if defended else None)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for trial in range(trials):
        weights = draw_weights(dice, BINS_FINGERPRINT, size=SIZE)
        violates, deposits = {}, []
        for device in range(DEVICES_FINGERPRINT):
            person = draw_person(dice, BINS_FINGERPRINT, draw_size(dice, MOST))
            own = UnsafeSeededDice(bytes(8), device)
            packages = contribute(
                person, experiment=experiment, training=weights, evaluation=weights, dice=own, round_number=trial + 1
            )
            violates[str(device)] = any(isinstance(package, TrainPackage) for package in packages)
            deposits += sent_by(dice, drawn, packages, str(device))
        found = guess_fingerprint(RelayView(tuple(deposits)), NOTHING)
        for who, violated in violates.items():
            scores[violated].append(found.get(who, 0.0))
        advance(1)
    value, interval = auc(scores[True], scores[False])
    told = {"violators": len(scores[True]), "others": len(scores[False]), "switched_off_share": SWITCHED_OFF}
    return Measurement(value, interval, trials, told)


FINGERPRINT = Attack(
    number=13,
    title="count fingerprint at the relay",
    slug="count-fingerprint",
    needs="The relay: it knows its clients and counts what each of them leaves.",
    steps=("Add up the bytes of each client.", "Who sends more is the likelier violator."),
    metric="AUC of violator or not",
    chance=0.5,
    defence="Everybody sends exactly B packages of one size, padded with nulls that look like all others.",
    remains="A device that is switched off in mid-window sends less, whatever it has to say.",
    goal=goal(undefended_at_least=0.9, defended_at_most=0.52),
    trials=60,
    quick_trials=20,
    guess=guess_fingerprint,
    play=play_fingerprint,
)


# ── A14 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES_REPLAY, BINS_REPLAY, FEATURES, COPIES = 8, 50, 6, 30
EXPERIMENT = plain_experiment(BINS_REPLAY, budget=FEATURES + 2)
ROUND = RoundToCount(ExperimentId(bytes(16)), EXPERIMENT, 1)


def guess_replay(view: PublicView, knowing: KnownCopies) -> tuple[int, int] | None:
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


def play_replay(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """A round in each trial; one capsule of it is sent again and again."""
    dice = generator(seed, 14, defended=defended)
    accepted = late = learnt = 0
    for _ in range(trials):
        world = _Round(dice)
        for _ in range(DEVICES_REPLAY):
            person = draw_person(dice, BINS_REPLAY, FEATURES)
            world.send(ParticipationPackage(cohort=Cohort.TRAIN, class_index=person.label))
            for place in person.vector.values:
                world.send(TrainPackage(model=0, bin_index=place, sign=1 if person.label else -1))
        target = TrainPackage(model=0, bin_index=int(dice.integers(BINS_REPLAY)), sign=1)
        capsule = world.send(target)
        honest = tally_view(count([world.capsules], world.key, dice, defended=defended))
        half = [capsule] * (COPIES // 2)
        # Half in the same batch, half in another; and half as many in the next epoch, in vain in any case.
        seen = tally_view(count([world.capsules + half, half], world.key, dice, defended=defended))
        accepted += int((seen - honest).sum())
        late += int(tally_view(count([half], world.following, dice, defended=defended)).sum())
        learnt += guess_replay(PublicView(tallies=(seen,)), KnownCopies(COPIES)) == (target.bin_index, 1)
        advance(1)
    told = trials * COPIES
    detail = {
        "replays": told,
        "accepted": accepted,
        "accepted_in_the_next_epoch": late,
        "content_learnt": learnt / trials,
    }
    return Measurement(accepted / told, wilson(accepted, told), trials, detail)


REPLAY = Attack(
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
    guess=guess_replay,
    play=play_replay,
)


# ── A15 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

DEVICES_COLLUSION, PACKAGES = 20, 8
#: What the second hop adds to the way, in milliseconds.
ON_THE_WAY = 20
#: How long the second hop holds capsules, in milliseconds; None: there is no second hop.
HOPS: dict[str, int | None] = {
    "1": None,
    "2, at once": 0,
    "2, minutes": 60_000,
    "2, rounds": WINDOW.closes_at,
}


def guess_collusion(view: CollusionView, knowing: Nothing) -> tuple[str, ...]:
    """Whose each opened package is: by its bytes; else by time, the latest deposit before it that is still free."""
    del knowing
    by_bytes = {deposit.capsule: deposit.who for deposit in view.relay.deposits}
    waiting = sorted(view.relay.deposits, key=lambda deposit: deposit.at)
    packages = view.coordinator.rounds[0].packages
    names = [""] * len(packages)
    arrivals: defaultdict[int, list[int]] = defaultdict(list)
    for place, package in enumerate(packages):
        arrivals[package.arrived_at or 0].append(place)
    begun = 0
    for at in sorted(arrivals):
        # What came before this moment and was not handed on before it is what is handed on now.
        senders: list[str] = []
        while begun < len(waiting) and waiting[begun].at <= at and len(senders) < len(arrivals[at]):
            senders.append(waiting[begun].who)
            begun += 1
        for place, who in zip(arrivals[at], senders, strict=False):
            names[place] = who
    return tuple(by_bytes.get(package.capsule, name) for package, name in zip(packages, names, strict=True))


def collude(
    dice: np.random.Generator, drawn: Iterator[int], keys: tuple[GatewayKey, GatewayKey], hold: int | None
) -> tuple[CollusionView, list[str]]:
    """One round: what the two see, and whose each package is."""
    inner, outer = (RequestSealer(key.configuration) for key in keys)
    hop = GatewayKeys([keys[1]])
    deposits, handed = [], []
    for device in map(str, range(DEVICES_COLLUSION)):
        for at in spread(PACKAGES, WINDOW, drawn):
            sealed = inner.seal(dice.bytes(32), dice.bytes).capsule
            if hold is None:
                left, arrives, came = sealed, at, sealed
            else:
                left = outer.seal(sealed, dice.bytes).capsule
                came = hop.open(left).request
                arrives = at + int(dice.integers(1, ON_THE_WAY)) if hold == 0 else -(-(at + 1) // hold) * hold
            deposits.append(Deposit(device, at, len(left), hashlib.sha256(left).digest()))
            handed.append((Opened("train", 0, 1.0, arrived_at=arrives, capsule=hashlib.sha256(came).digest()), device))
    seen, whose = mixed_round(handed, drawn)
    return CollusionView(RelayView(tuple(deposits)), seen), whose


def play_collusion(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Without: one hop. With: a second, honest one that waits for the whole round; the curve has what is between."""
    dice = generator(seed, 15, defended=defended)
    drawn = words(dice)
    ways = HOPS if defended else {"1": None}
    right = dict.fromkeys(ways, 0)
    for _ in range(trials):
        keys = tuple(GatewayKey(i, X25519PrivateKey.generate(dice.bytes)) for i in (1, 2))
        for way, hold in ways.items():
            view, whose = collude(dice, drawn, (keys[0], keys[1]), hold)
            right[way] += sum(named == true for named, true in zip(guess_collusion(view, NOTHING), whose, strict=True))
        advance(1)
    every = trials * DEVICES_COLLUSION * PACKAGES
    points = tuple(Point(way, hits / every, wilson(hits, every)) for way, hits in right.items())
    last = points[-1]
    if not defended:
        return Measurement(last.value, last.ci95, trials, {"void": True})
    return Measurement(
        last.value,
        last.ci95,
        trials,
        {"by_chance": 1 / DEVICES_COLLUSION},
        Curve("hops, and when the second hands on", points),
    )


COLLUSION = Attack(
    number=15,
    title="relay-coordinator collusion",
    slug="collusion",
    needs="The relay and the coordinator, together.",
    steps=(
        "Compare the bytes that each client left with the bytes that were opened.",
        "Where a further hop changed them, compare times.",
    ),
    metric="share of packages whose sender is named",
    chance=1 / DEVICES_COLLUSION,
    defence="None with one relay: the promise is void. With two, the other relay has a layer of its own and hands on"
    " whole rounds, which leaves chance.",
    remains="With one relay, everything; and with two that collude (A49).",
    trials=20,
    quick_trials=3,
    guess=guess_collusion,
    play=play_collusion,
)
