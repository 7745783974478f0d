"""Storm: which fault comes when, drawn from dice, over the rounds of a deployment.

    plan = draw(dice, rounds=8, wanted={Kind.KILL: 200, Kind.STOP: 5, Kind.CUT: 5}, kinds={"node": 1})
    storm = Storm(deployment, dice, plan)
    deployment.clock.meanwhile = storm.strike

A round has four parts, and each gets its share of faults: devices join; the window is open; what was sent is closed and
deposited; the count, the step and the next manifest. A part does not end before its faults have come, except the count:
what is left of it then comes while the next round is joined. So all that was wanted has come at the end.

Time stands still or goes slowly while somebody is away, so that nobody is late because of it. A window has devices that
were asked to come later, and would not find a later any more: the faults that make nodes and relays say so (a database
killed, a full disk) do not come in the last seconds of a window.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from secvm_lab.chaos.deployment import Deployment, Part
from secvm_lab.chaos.faults import DATABASE, DRIVER, NODE, Fault, Faults, Kind

#: How faults spread over the parts.
_SHARES = {Part.JOINING: 2, Part.WINDOW: 4, Part.CLOSING: 2, Part.COUNTING: 4}
#: When a disk is full while somebody writes to it: a relay's or a lone coordinator's, and a database's.
_WRITTEN = ((Part.WINDOW,), (Part.COUNTING,))
#: Pause between two faults, in the mean.
_PAUSE_S = 0.15
#: So long a part that is over soon has run when its first fault comes, at most.
_FIRST_WITHIN_S = 0.35
#: While somebody is away in a window, seconds of the federation in one of the machine.
_SLOW_RATE = 1.5
#: … and no more than so many of its milliseconds: on a busy machine somebody may take a minute to come back.
_SLOW_MS = 6_000
#: Of the federation: nothing shaky comes so shortly before a window closes; and meanwhile time goes only so far.
_SHAKY_BEFORE_MS = 20_000
_CALM_MS = 8_000
#: Of the machine: so long everybody may take to be well again.
_RECOVERY_S = 90.0


#: For so many kills of nodes, driver, database and two relays, one of relays, witnesses and hosts comes besides.
_OTHERS_SHARE = 5

Plan = Mapping[tuple[int, Part], deque[Fault]]


def draw(
    dice: random.Random,
    *,
    rounds: int,
    wanted: Mapping[Kind, int],
    kinds: Mapping[str, int],
    disks: Sequence[str] = (),
    relays: Sequence[str] = ("relay",),
) -> Plan:
    """A plan. ``wanted``: how many of each kind; others are killed besides. ``kinds``: whom kills are for, by weight.
    ``disks``: whose there are. ``relays``: whose machines there are, and who is killed with witnesses and hosts.
    """
    names, weights = list(kinds), list(kinds.values())
    kills = wanted.get(Kind.KILL, 0)
    # All of them come, whatever the dice say.
    victims = [names[i % len(names)] for i in range(min(kills, len(names)))]
    victims += dice.choices(names, weights, k=kills - len(victims))
    victims += [dice.choice([*relays, "witness", "host"]) for _ in range(-(-kills // _OTHERS_SHARE))]
    whom: dict[Kind, Sequence[str]] = {
        Kind.KILL: victims,
        **dict.fromkeys((Kind.STOP, Kind.CUT, Kind.SLOW), (DRIVER, NODE)),
        **dict.fromkeys((Kind.LOSS, Kind.DELAY), ("door",)),
        Kind.RESTART: [dice.choice(list(relays))],
        Kind.DISK: disks,
    }
    counts = {**wanted, Kind.KILL: len(victims)}
    faults = [Fault(kind, some[i % len(some)]) for kind, some in whom.items() for i in range(counts.get(kind, 0))]
    dice.shuffle(faults)
    plan: dict[tuple[int, Part], list[Fault]] = defaultdict(list)
    parts = list(_SHARES)
    for i, fault in enumerate(faults):
        number = 1 + i * rounds // len(faults)
        part = dice.choices(parts, list(_SHARES.values()))[0]
        if fault.kind is Kind.DISK:
            part = dice.choice(_WRITTEN[fault.whom == DATABASE])
        elif fault.kind is Kind.RESTART:
            # Then a round has begun, and it is the only one whose secrets are in memory.
            part = Part.CLOSING
        plan[number, part].append(fault)
    # What asks devices to come later comes early in the window.
    return {place: deque(sorted(some, key=lambda fault: not fault.shaky)) for place, some in plan.items()}


class Storm:
    """Strikes when it is time. ``part`` and ``round_number`` are told by whoever plays the round."""

    def __init__(
        self,
        deployment: Deployment,
        dice: random.Random,
        plan: Plan,
        faults: Faults,
        *,
        say: Callable[[str], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._deployment = deployment
        self._dice = dice
        self._queues: defaultdict[tuple[int, Part], deque[Fault]] = defaultdict(deque, plan)
        self._faults = faults
        self._say = say
        self._monotonic, self._sleep = monotonic, sleep
        self._place = (0, Part.JOINING)
        self._next = 0.0
        self._closes_at = 0
        #: What has come, as (kind, whom).
        self.done: Counter[tuple[Kind, str]] = Counter()

    def enter(self, number: int, part: Part, *, closes_at: int = 0) -> None:
        """Begin a part. Faults of an earlier one that have not come yet come now, or as soon as they may. A database
        whose disk is full while it counts has no room from the first moment.
        """
        left = self._queues[self._place]
        self._place = (number, part)
        self._closes_at = closes_at
        queue = self._queues[self._place]
        queue.extend(left)
        left.clear()
        if part is Part.WINDOW:
            self._queues[self._place] = deque(sorted(queue, key=lambda fault: not fault.shaky))
        elif part is Part.COUNTING:
            self._queues[self._place] = deque(sorted(queue, key=lambda fault: fault.kind is not Kind.DISK))
        queue = self._queues[self._place]
        at_once = part is Part.COUNTING and bool(queue) and queue[0].kind is Kind.DISK
        if at_once:
            self._faults.prepare(queue[0].whom)
        self._next = self._monotonic() + (0.0 if at_once else self._dice.random() * _FIRST_WITHIN_S)

    def spent(self) -> bool:
        """Whether all faults of this part have come, or cannot come in it any more."""
        return not any(self._may(fault) for fault in self._queues[self._place])

    def left(self) -> int:
        """Faults that have not come yet, of all parts."""
        return sum(len(queue) for queue in self._queues.values())

    def strike(self) -> None:
        """The next fault, if it is time; back when everybody is well again."""
        if self._monotonic() < self._next:
            return
        queue = self._queues[self._place]
        due = [fault for fault in queue if self._may(fault)]
        if not due:
            return
        # Several at once, now and then.
        some = due[: self._dice.choice([1, 1, 1, 2, 2, 3])]
        if some[0].kind is not Kind.KILL:
            some = some[:1]
        some = [some[0], *(fault for fault in some[1:] if fault.kind is Kind.KILL)]
        for fault in some:
            queue.remove(fault)
        go_on = self._hold_time()
        try:
            for fault in some:
                whom = self._faults.strike(fault, number=self._place[0])
                self.done[fault.kind, fault.whom] += 1
                self._say(f"round {self._place[0]}, {self._place[1].value}: {fault.kind.value} {whom}")
            # Most of the time the next one comes while some nodes are still coming up.
            self._recover(whole=self._dice.randrange(4) == 0 or any(fault.kind is not Kind.KILL for fault in some))
        finally:
            go_on()
        self._next = self._monotonic() + self._dice.expovariate(1 / _PAUSE_S)

    def _may(self, fault: Fault) -> bool:
        if fault.kind is Kind.RESTART:
            return self._place[1] is Part.CLOSING
        if self._place[1] is not Part.WINDOW or not fault.shaky:
            return fault.kind is not Kind.DISK or self._place[1] in _WRITTEN[fault.whom == DATABASE]
        return self._closes_at - self._deployment.clock.now() > _SHAKY_BEFORE_MS

    def _hold_time(self) -> Callable[[], None]:
        clock = self._deployment.clock
        if self._place[1] is Part.COUNTING:
            return lambda: None  # it is only just beginning, and waits by itself for the end
        if self._place[1] is Part.WINDOW and self._closes_at - clock.now() > _CALM_MS:
            return clock.slacken(_SLOW_RATE, min(clock.now() + _SLOW_MS, self._closes_at - _CALM_MS))
        return clock.freeze()

    def _recover(self, *, whole: bool) -> None:
        deadline = self._monotonic() + _RECOVERY_S
        while not (self._deployment.well() if whole else self._deployment.well_enough()):
            if self._monotonic() > deadline:
                raise TimeoutError("not everybody came back")
            self._sleep(0.03)

    def finish(self) -> None:
        """All that has not come yet, one after the other; then everybody is well."""
        self._place = (self._place[0], Part.CLOSING)
        for queue in list(self._queues.values()):
            while queue:
                fault = queue.popleft()
                if fault.kind not in (Kind.DISK, Kind.RESTART):
                    self._faults.strike(fault, number=self._place[0])
                    self.done[fault.kind, fault.whom] += 1
                    self._recover(whole=False)
        self._recover(whole=True)
