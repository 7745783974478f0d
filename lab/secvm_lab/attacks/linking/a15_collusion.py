"""A15: relay and coordinator collude.

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

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer
from secvm.protocol.schedule import Window, spread
from secvm_lab.attacks.attack import Advance, Attack, Curve, Measurement, Point
from secvm_lab.attacks.drawing import generator, mixed_round, words
from secvm_lab.attacks.statistics import wilson
from secvm_lab.attacks.views import NOTHING, CollusionView, Deposit, Nothing, Opened, RelayView

DEVICES, PACKAGES = 20, 8
WINDOW = Window(opens_at=0, closes_at=600_000)
#: What the second hop adds to the way, in milliseconds.
ON_THE_WAY = 20
#: How long the second hop holds capsules, in milliseconds; None: there is no second hop.
HOPS: dict[str, int | None] = {
    "1": None,
    "2, at once": 0,
    "2, minutes": 60_000,
    "2, rounds": WINDOW.closes_at,
}


def guess(view: CollusionView, knowing: Nothing) -> tuple[str, ...]:
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
    for device in map(str, range(DEVICES)):
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


def play(trials: int, seed: int, *, defended: bool, advance: Advance) -> Measurement:
    """Without: one hop. With: a second, honest one that waits for the whole round; the curve has what is between."""
    dice = generator(seed, 15, defended=defended)
    drawn = words(dice)
    ways = HOPS if defended else {"1": None}
    right = dict.fromkeys(ways, 0)
    for _ in range(trials):
        keys = tuple(GatewayKey(i, X25519PrivateKey.generate(dice.bytes)) for i in (1, 2))
        for way, hold in ways.items():
            view, whose = collude(dice, drawn, (keys[0], keys[1]), hold)
            right[way] += sum(named == true for named, true in zip(guess(view, NOTHING), whose, strict=True))
        advance(1)
    every = trials * DEVICES * PACKAGES
    points = tuple(Point(way, hits / every, wilson(hits, every)) for way, hits in right.items())
    last = points[-1]
    if not defended:
        return Measurement(last.value, last.ci95, trials, {"void": True})
    return Measurement(
        last.value, last.ci95, trials, {"by_chance": 1 / DEVICES}, Curve("hops, and when the second hands on", points)
    )


ATTACK = Attack(
    number=15,
    title="relay-coordinator collusion",
    slug="collusion",
    needs="The relay and the coordinator, together.",
    steps=(
        "Compare the bytes that each client left with the bytes that were opened.",
        "Where a further hop changed them, compare times.",
    ),
    metric="share of packages whose sender is named",
    chance=1 / DEVICES,
    defence="None with one relay: the promise is void. With two, the other relay has a layer of its own and hands on"
    " whole rounds, which leaves chance.",
    remains="With one relay, everything; and with two that collude (A49).",
    trials=20,
    quick_trials=3,
    guess=guess,
    play=play,
)
