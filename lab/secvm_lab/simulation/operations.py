"""What may happen in a simulation: kinds of operations, and what each may be told.

An operation is a tuple, its name first, so that a list of them can be pasted into a test as it is printed. ``KINDS``
has all of them; whoever draws lists, hypothesis in tests or ``draw`` here, draws from it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from secvm_lab.simulation.machines.network import FATES, LINKS

Op = tuple[object, ...]

NODES = ("node 0", "node 1")
WITNESSES = ("witness 0", "witness 1", "witness 2")
DEVICES = ("device 0", "device 1", "device 2")
#: Who has a process that may end, and a clock.
PARTIES = (*NODES, "relay", *WITNESSES, *DEVICES)
#: Who has a disk; all nodes have the database's, so that it fails more often.
DISKS = ("database", "database", "database", "relay", *WITNESSES, *DEVICES)
#: Instants of a slot around which most is at stake.
PHASES = ("before opening", "open", "before closing", "closed", "deposit", "before end", "over", "next slot")
#: At which of its points a party dies: now, soon, or deep inside of whatever it does next.
POINTS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)

#: Of each kind of operation, how often it is drawn where nobody says otherwise, and all that its arguments may be.
_KINDS: Mapping[str, tuple[int, *tuple[Sequence[object], ...]]] = {
    # Time passes: so many seconds; up to an instant of the round; until somebody's packages were answered.
    "wait": (3, (1, 4, 15, 40, 120)),
    "until": (6, PHASES),
    "upload": (5, (1, 3, 6)),
    # People.
    "join": (1, DEVICES),
    "leave": (1, DEVICES),
    "pause": (1, DEVICES),
    "resume": (1, DEVICES),
    # Somebody sends again what was on the wire before: the newest capsules, or those of a round before.
    "resend": (2, (0, 1, 2)),
    "replay": (2, (0, 1, 5)),
    # The network: what becomes of the next message of a kind.
    "fate": (8, LINKS, FATES),
    # Processes: who, at which point, for how many seconds it is gone.
    "crash": (9, PARTIES, POINTS, (0, 1, 8, 60)),
    "stall": (2, (*NODES, "relay"), (3, 30, 90)),
    "fail over": (2, (0, 1, 2, 3, 5, 8)),
    # Disks: full for so many seconds; the next commit is said to have failed, and has (not) happened.
    "full": (2, DISKS, (2, 20)),
    "fsync": (3, DISKS, (True, False)),
    # Clocks, in seconds.
    "jump": (2, (*PARTIES, "database"), (-600, -70, -5, 5, 70, 600)),
    # The operator.
    "operate": (1, NODES, ("pause", "resume", "resume", "stop")),
}
KINDS: Mapping[str, tuple[Sequence[object], ...]] = {name: tuple(of) for name, (_, *of) in _KINDS.items()}
WEIGHTS: Mapping[str, int] = {name: weight for name, (weight, *_) in _KINDS.items()}


def table(weights: Mapping[str, int] = WEIGHTS, *, each: int = 50) -> list[Op]:
    """All operations side by side, each kind as often as it weighs: whoever draws from here draws with these weights.

    The simplest comes first, for those who shrink towards the beginning. The others are in no order: whoever prefers
    some numbers to others prefers no kind.
    """
    found: list[Op] = []
    for name, weight in weights.items():
        whole = list(itertools.product(*KINDS[name]))
        # All of them in turn, and each as often as the next.
        found += [(name, *whole[i % len(whole)]) for i in range(max(each * weight, len(whole)))]
    random.Random("table").shuffle(found)  # noqa: S311  (always the same order)
    return [("wait", 1), *found]


def draw(dice: random.Random, *, most: int = 30, weights: Mapping[str, int] = WEIGHTS) -> list[Op]:
    """A list at random."""
    kinds, shares = list(weights), list(weights.values())
    names = dice.choices(kinds, shares, k=dice.randint(1, most))
    return [(name, *(dice.choice(of) for of in KINDS[name])) for name in names]
