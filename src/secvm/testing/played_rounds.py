"""Rounds as a federation plays them: where its clock stands still, and what it waits for there.

Both kinds of round have four parts, each a method, for whoever disturbs something in one of them; ``play`` is all of
them. In a plain round (``PlainPlay``):

 1. ``join``: before the window opens, until every device that attends has its capsules.
 2. ``send``: before it closes, until every package is acknowledged.
 3. ``close``: before accept_until, until the relay's deposit has been taken.
 4. ``open``: at accept_until, until the coordinator has published what follows.

In a round of two relays (``RelayedPlay``):

 1. ``join``: until every device that attends has sealed its request, and both relays know the round's label.
 2. ``send``: before the window closes, until every request has left; and before accept_until, until each has its
    receipt.
 3. ``close``: at accept_until the entry relay begins to draw its cover; at batch_by, until the mixing relay has the
    entry relay's count.
 4. ``open``: at mix_by, until the round is opened and what follows is published: the mixing relay hands on, one part of
    each relay is opened, the coordinator counts.

Everything is seen from outside: the hosts' status, relays' public doors, the coordinator's public files. After the last
round of two relays ``settle`` lets time go on until devices have fetched the ending and looked for their last canaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.protocol.relays.counts import read_shown
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.relay.setting_up import RELAY_PATH
from secvm.testing.clock import JOINING_QUIET_S, PatienceLostError
from secvm.testing.federation_settings import MIX, ROLES

if TYPE_CHECKING:
    from secvm.testing.federation import Federation, HostCounts

#: Nothing new for so long, in seconds of the machine, and every request has left or will not.
_SENT_QUIET_S = 3.0
#: While devices join: nothing new for so long, in seconds of the federation, and half of the time left goes by.
_JOINING_QUIET_OF_CLOCK_S = 10.0
#: Told of a step that is over, while time stands still: "joined", "sent"; of two relays also "closed", "batched" and
#: "mixed"; in the end "over".
Between = Callable[[str], None]
#: Told the federation's time, again and again while it goes on.
Look = Callable[[int], None]


class PlainPlay:
    """One plain round of a federation."""

    #: Graces over which devices ask for a manifest after the round before.
    _graces = 1

    def __init__(
        self,
        federation: Federation,
        number: int,
        *,
        attending: int,
        budget: int,
        spent: Callable[[], bool],
        quiet_s: float,
    ) -> None:
        """``attending`` devices take part, with ``budget`` packages each.

        Before ``spent()`` no part but the last ends. Nothing new for ``quiet_s``, by the machine's clock, and half of
        the time that is left of the window goes by: whoever disturbs devices needs more of it.
        """
        self._federation, self._number, self._attending = federation, number, attending
        self._budget, self._spent, self._quiet_s = budget, spent, quiet_s
        self._clock = federation.clock
        self._counts = federation.counts(number)
        self._set_instants()

    def _set_instants(self) -> None:
        pace = self._federation.pace
        self.opens_at = self._federation.opens_at(self._number)
        self.closes_at = self.opens_at + 1000 * pace.length_s
        self.accept_until = self.closes_at + 1000 * pace.grace_s

    def play(
        self,
        *,
        look: Look | None = None,
        before_closing: Callable[[], None] | None = None,
        between: Between | None = None,
    ) -> tuple[HostCounts, float]:
        """Play all of it; see ``Federation.play_round``."""
        tell = between or (lambda _step: None)
        self.join()
        tell("joined")
        waited = self.send(look)
        if before_closing is not None:
            before_closing()
        tell("sent")
        self.close(between=tell)
        self.open()
        tell("over")
        return self._counts, waited

    def join(self) -> None:
        """Wait until every device that attends has what it will send."""
        # Askings spread over the grace after the round before; then there is only computing to wait for.
        asked = self._clock.now() + 1000 * self._graces * self._federation.pace.grace_s
        self._clock.creep_to(
            self.opens_at,
            until=lambda: self._all_joined() and self._spent(),
            what="devices to join",
            progress=lambda: self._counts,
            run_until=asked + 500,
            # A slow clock is for slow answers, over Tor: who asks in vain must still have a time to ask again.
            quiet_s=max(JOINING_QUIET_S, _JOINING_QUIET_OF_CLOCK_S / self._clock.rate),
        )

    def send(self, look: Look | None = None) -> float:
        """Open the window, and wait until all is sent; how long that was waited for."""
        self._clock.leap_to(self.opens_at)
        return self._await_packages(look)

    def _await_packages(self, look: Look | None) -> float:
        return self._clock.creep_to(
            self.closes_at,
            until=lambda: self._all_sent() and self._spent(),
            what="acknowledgements",
            progress=lambda: self._counts,
            look=look,
            quiet_s=self._quiet_s,
        )

    def close(self, *, between: Between | None = None, unless: Callable[[], bool] = lambda: False) -> None:  # noqa: ARG002  (of two relays)
        """Wait until what was sent is handed on; ``unless()`` it cannot be."""
        federation = self._federation
        self._clock.leap_to(self.opens_at + int(1000 * federation.pace.deposit_after_s))
        self._clock.run_to(
            self.accept_until - 1,
            until=lambda: self._spent() and (unless() or federation.deposited(self._number - 1)),
            what="the relay's deposit",
        )

    def open(self, *, unopened: bool = False) -> None:  # noqa: ARG002  (a plain round is always opened)
        """Wait until what follows is published."""
        self._clock.run_to(self.accept_until, until=self._followed, what="what follows")

    # ── what is waited for ───────────────────────────────────────────────────────────────────────────────────────────

    def _all_joined(self) -> bool:
        return self._look().joined >= self._attending

    def _all_sent(self) -> bool:
        counts = self._look()
        enough = counts.acknowledged + counts.lost >= counts.joined * self._budget
        return counts.joined >= self._attending and enough

    def _look(self) -> HostCounts:
        self._federation.look_after()
        self._counts = self._federation.counts(self._number)
        return self._counts

    def _followed(self) -> bool:
        return self._federation.following(self._number) is not None


class RelayedPlay(PlainPlay):
    """One round of two relays. The round's manifest is published."""

    # Looks for canaries spread over a second grace.
    _graces = 2

    def _set_instants(self) -> None:
        federation, number = self._federation, self._number
        path = f"/v1/experiment/{federation.digest}/manifest/{number}"
        served = federation.patiently(lambda: federation.public(path), f"the manifest of round {number}")
        self.manifest = RelayedManifest.from_bytes(Envelope.from_bytes(served).payload)
        times = self.manifest.instants
        self.opens_at, self.closes_at, self.accept_until = times.opens_at, times.closes_at, times.accept_until

    def _await_packages(self, look: Look | None) -> float:
        """Before the window closes time stands until nothing happens any more: every request has left then. What was
        not taken is sent again in the grace, which has not ended before that.
        """
        quiet = _quiet(lambda: self._counts, self._all_sent, seconds=_SENT_QUIET_S)
        waited = self._clock.creep_to(
            self.closes_at,
            until=lambda: quiet() and self._spent(),
            what="requests to leave",
            progress=lambda: self._counts,
            look=look,
        )
        return waited + self._clock.creep_to(
            self.accept_until,
            until=self._all_sent,
            what="receipts",
            progress=lambda: self._counts,
            look=look,
            run_until=self._clock.now(),
            quiet_s=JOINING_QUIET_S,
        )

    def close(self, *, between: Between | None = None, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until the mixing relay has the entry relay's batch; ``unless()`` there cannot be one."""
        tell = between or (lambda _step: None)
        times = self.manifest.instants
        self._clock.leap_to(times.accept_until)
        tell("closed")
        self._clock.leap_to(times.batch_by)
        self._clock.run_to(
            times.batch_by,
            until=lambda: self._spent() and (unless() or self._batched()),
            what="the entry relay's batch",
        )
        tell("batched")
        self._clock.leap_to(times.mix_by)
        tell("mixed")

    def open(self, *, unopened: bool = False) -> None:
        """Wait until the round is opened and what follows is published; or until it stays ``unopened``."""
        times = self.manifest.instants
        instant = times.open_by if unopened else times.mix_by
        self._clock.leap_to(instant)
        self._clock.run_to(instant, until=self._followed, what="what follows")

    def _all_joined(self) -> bool:
        return super()._all_joined() and all(self._shown(role) is not None for role in ROLES)

    def _all_sent(self) -> bool:
        # What a device has joined is on its way, acknowledged or lost; nothing else is counted of it.
        counts = self._look()
        return counts.joined >= self._attending and not counts.waiting

    def _batched(self) -> bool:
        return "entry_count" in (self._shown(MIX) or {})

    def _shown(self, role: str) -> dict[str, bytes] | None:
        """Statements that a relay shows of the round; None: it does not know it, or does not answer."""
        path = f"{RELAY_PATH}/counts/{self.manifest.label.hex()}"
        answer = self._federation.answer(role, path)
        try:
            return None if answer is None else read_shown(answer)
        except MalformedMessageError:
            return None


def settle(federation: Federation) -> None:
    """Let time go on after the last round, until every device knows the ending and has looked for its last canary."""

    def status() -> tuple[int, ...]:
        hosts = federation.status()
        return len(hosts), *(sum(host[name] for host in hosts) for name in ("devices", "ended", "canaries"))

    def settled() -> bool:
        hosts, devices, ended, canaries = status()
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
            until=_quiet(status, settled),
            what="devices to have no more to say",
            progress=status,
        )


def _quiet(
    status: Callable[[], object], settled: Callable[[], bool], *, seconds: float = JOINING_QUIET_S
) -> Callable[[], bool]:
    """Whether nothing has changed for a while, or nothing need change any more."""
    last: object = None
    since = time.monotonic()

    def is_quiet() -> bool:
        nonlocal last, since
        new, now = status(), time.monotonic()
        if new != last:
            last, since = new, now
        return settled() or now - since >= seconds

    return is_quiet
