"""A round of two relays, played by a federation: where its clock stands still, and what it waits for there.

 1. *joined*: before the window opens, until every device that attends has sealed its request, and both relays know the
    round's label.
 2. *sent*: before it closes, until every request has left; and before accept_until, until each has its receipt.
 3. *closed*: at accept_until, where the entry relay begins to draw its cover.
 4. *batched*: at batch_by, until the mixing relay has the entry relay's count.
 5. *mixed*: at mix_by, until the round is opened and what follows is published: the mixing relay hands on, one part of
    each relay is opened, the coordinator counts. It ends *over*.

Everything is seen from outside: the hosts' status, relays' public doors, the coordinator's public files. After the last
round ``settle`` lets time go on until devices have fetched the ending and looked for their last canaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.public_counts import read_shown
from secvm.testing.federation_relays import MIX, ROLES
from secvm.testing.patient_clock import JOINING_QUIET_S, PatienceLostError

if TYPE_CHECKING:
    from secvm.testing.federation import Federation, RoundCounts

#: Nothing new for so long, in seconds of the machine, and every request has left or will not.
_SENT_QUIET_S = 3.0
#: Told at which of the steps above time stands still, with nobody in the middle of anything that could not be repeated.
Between = Callable[[str], None]
Look = Callable[[int], None]


class RelayedPlay:
    """One round of a federation."""

    def __init__(
        self, federation: Federation, number: int, *, attending: int, spent: Callable[[], bool] = lambda: True
    ) -> None:
        """``attending``: so many devices take part. The round's manifest is published. Before ``spent()`` nobody goes
        on from joining, sending or the batch.
        """
        self._federation, self._number, self._attending, self._spent = federation, number, attending, spent
        self._clock = federation.clock
        self.manifest = relayed_manifest(federation, number)
        self._times = self.manifest.instants
        self._counts: RoundCounts = federation.counts(number)

    def play(
        self,
        *,
        look: Look | None = None,
        before_closing: Callable[[], None] | None = None,
        wait_for_packages: bool = True,
        between: Between | None = None,
    ) -> tuple[RoundCounts, float]:
        """All of it; see ``Federation.play_round``."""
        tell = between or (lambda _step: None)
        self.join()
        tell("joined")
        waited = 0.0
        if wait_for_packages:
            waited = self.send(look)
        else:
            close = partial(self._clock.run_to, self._times.closes_at, until=lambda: True, what="the end", look=look)
            self._open_window(close)
        if before_closing is not None:
            before_closing()
        tell("sent")
        self._clock.leap_to(self._times.accept_until)
        tell("closed")
        self.batch()
        tell("batched")
        self._clock.leap_to(self._times.mix_by)
        tell("mixed")
        self.open()
        tell("over")
        return self._counts, waited

    # ── step by step ─────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self) -> None:
        """Until every device that attends has sealed its request, and both relays know the round."""
        # Askings spread over the grace after the round before, and looks for canaries over another; then there is only
        # computing to wait for.
        asked = self._clock.now() + 2000 * self._federation.pace.grace_s
        self._clock.creep_to(
            self._times.opens_at,
            until=lambda: self._all_joined() and self._spent(),
            what="devices to join, and relays to know the round",
            progress=lambda: self._counts,
            run_until=asked + 500,
            quiet_s=JOINING_QUIET_S,
        )

    def send(self, look: Look | None = None) -> float:
        """Until every request has its receipt; how long that was waited for.

        Before the window closes time stands until nothing happens any more: every request has left then. What was not
        taken is sent again in the grace, which has not ended before that.
        """
        return self._open_window(lambda: self._creep(self._times.closes_at, look) + self._creep_on(look))

    def _creep(self, instant: int, look: Look | None) -> float:
        enough = _quiet(lambda: self._counts, self._all_sent, seconds=_SENT_QUIET_S)
        return self._clock.creep_to(
            instant,
            until=lambda: enough() and self._spent(),
            what="requests to leave",
            progress=lambda: self._counts,
            look=look,
        )

    def _creep_on(self, look: Look | None) -> float:
        return self._clock.creep_to(
            self._times.accept_until,
            until=self._all_sent,
            what="receipts",
            progress=lambda: self._counts,
            look=look,
            run_until=self._clock.now(),
            quiet_s=JOINING_QUIET_S,
        )

    def _open_window(self, wait: Callable[[], float]) -> float:
        self._clock.leap_to(self._times.opens_at)
        self._federation.window_open = True
        waited = wait()
        self._federation.window_open = False
        return waited

    def batch(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Until the mixing relay has the entry relay's batch; ``unless()`` there cannot be one."""
        self._clock.leap_to(self._times.batch_by)
        self._clock.run_to(
            self._times.batch_by,
            until=lambda: self._spent() and (unless() or self._batched()),
            what="the entry relay's batch",
        )

    def open(self) -> None:
        """Until the round is opened and what follows is published."""
        self._clock.leap_to(self._times.mix_by)
        self._clock.run_to(self._times.mix_by, until=self._followed, what="what follows")

    def stay_unopened(self) -> None:
        """Until what follows is published of a round that cannot be opened."""
        self._clock.leap_to(self._times.open_by)
        self._clock.run_to(self._times.open_by, until=self._followed, what="what follows an unopened round")

    # ── what is waited for ───────────────────────────────────────────────────────────────────────────────────────────

    def _all_joined(self) -> bool:
        return self._look().joined >= self._attending and all(self._shown(role) is not None for role in ROLES)

    def _all_sent(self) -> bool:
        # What a device has joined is on its way, acknowledged or lost; nothing else is counted of it.
        counts = self._look()
        return counts.joined >= self._attending and not counts.waiting

    def _look(self) -> RoundCounts:
        self._federation.look_after()
        self._counts = self._federation.counts(self._number)
        return self._counts

    def _batched(self) -> bool:
        return "entry_count" in (self._shown(MIX) or {})

    def _followed(self) -> bool:
        return self._federation.following(self._number) is not None

    def _shown(self, role: str) -> dict[str, bytes] | None:
        """Statements that a relay shows of the round; None: it does not know it, or does not answer."""
        path = f"{self._federation.relay_path}/counts/{self.manifest.label.hex()}"
        found = self._federation.answer(role, path)
        try:
            return None if found is None else read_shown(found)
        except MalformedMessageError:
            return None


def relayed_manifest(federation: Federation, number: int) -> RelayedManifest:
    """The manifest of a round, once it is public."""
    path = f"/v1/experiment/{federation.digest}/manifest/{number}"
    served = federation.patiently(lambda: federation.public(path), f"the manifest of round {number}")
    return RelayedManifest.from_bytes(Envelope.from_bytes(served).payload)


def settle(federation: Federation) -> None:
    """After the last round: time goes on until every device knows the ending and has looked for its last canary."""

    def told() -> tuple[int, ...]:
        found = federation.status()
        return len(found), *(sum(one[name] for one in found) for name in ("devices", "ended", "canaries"))

    def settled() -> bool:
        hosts, devices, ended, canaries = told()
        return hosts == len(federation.host_names) and ended == devices and not canaries

    clock, pace = federation.clock, federation.pace
    # No further: devices have had time enough.
    end = clock.now() + 1000 * pace.period_s
    while not settled():
        if clock.now() >= end:
            raise PatienceLostError("devices did not fetch the ending and look for their canaries in a whole period")
        # A grace, over which moments are spread, and a pause: whoever is late by much more takes it for sleep and draws
        # another moment.
        clock.run_to(
            min(end, clock.now() + 1000 * pace.grace_s),
            until=_quiet(told, settled),
            what="devices to have no more to say",
            progress=told,
        )


def _quiet(
    told: Callable[[], object], settled: Callable[[], bool], *, seconds: float = JOINING_QUIET_S
) -> Callable[[], bool]:
    """Whether nothing has changed for a while, or nothing need change any more."""
    last: list[object] = [None]
    since = [time.monotonic()]

    def is_quiet() -> bool:
        found, now = told(), time.monotonic()
        if found != last[0]:
            last[0], since[0] = found, now
        return settled() or now - since[0] >= seconds

    return is_quiet
