"""Devices with a fault, most of them the published client's of 2018: what the tests of unlinkability must notice.

Each fault is a function that changes the code under test for as long as a patch lives. They are here, and not in the
tests, because other processes must find them by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest

from secvm.errors import LocalProtocolError
from secvm.learning.package import NullPackage
from secvm.participant import device as device_module
from secvm.participant.dice import RandomBytes
from secvm.participant.membership import Polling
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.participant.sending.transport import SendReply
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.plain import session as session_module
from secvm.protocol.plain import session_memory
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import PackagesReady, Reason
from secvm.protocol.plain.session_memory import Seal
from secvm.protocol.schedule import Window, below, redraw, spread
from tests.deep.statistical.crowd import GRACE_MS, KINDS, DeviceDice, Net

T = TypeVar("T")


def _unshuffled(items: Sequence[T], _words: Iterator[int]) -> list[T]:
    return list(items)


def participation_at_once(patch: pytest.MonkeyPatch) -> None:
    """Participation, and the first package after it, leave when the window opens; only the rest is delayed."""

    def hasty(count: int, window: Window, words: Iterator[int]) -> list[int]:
        return [window.opens_at] * 2 + spread(count - 2, window, words) if count > 2 else spread(count, window, words)

    patch.setattr(session_module, "shuffle", _unshuffled)
    patch.setattr(session_module, "spread", hasty)


def updates_at_once(patch: pytest.MonkeyPatch) -> None:
    """What is computed leaves within a tenth of the window; nulls, which come last, fill the rest of it."""

    def by_kind(count: int, window: Window, words: Iterator[int]) -> list[int]:
        soon = Window(window.opens_at, window.opens_at + (window.closes_at - window.opens_at) // 10)
        busy = cell[0] if count > 1 else 0
        return spread(busy, soon, words) + spread(count - busy, window, words)

    cell = [0]
    ready = ParticipantSession._packages_ready

    def noting(self: ParticipantSession, event: PackagesReady, now: int, words: Iterator[int]) -> Any:
        cell[0] = sum(not isinstance(one, NullPackage) for one in event.packages)
        return ready(self, event, now, words)

    patch.setattr(ParticipantSession, "_packages_ready", noting)
    patch.setattr(session_module, "shuffle", _unshuffled)
    patch.setattr(session_module, "spread", by_kind)


def kinds_in_order(patch: pytest.MonkeyPatch) -> None:
    """Times are drawn well, but given out in the order in which packages were computed."""
    patch.setattr(session_module, "shuffle", _unshuffled)
    patch.setattr(session_module, "spread", lambda count, window, words: sorted(spread(count, window, words)))


def one_generator_in_a_loop(patch: pytest.MonkeyPatch) -> None:
    """Each time alone is uniform, but a step of the generator leads from one to the next."""

    def stepped(count: int, window: Window, words: Iterator[int]) -> list[int]:
        length = window.closes_at - window.opens_at
        first = below(length, words)
        return [window.opens_at + (first + i * (length // 3 + 1)) % length for i in range(count)]

    patch.setattr(session_module, "spread", stepped)


def a_part_of_the_window(patch: pytest.MonkeyPatch) -> None:
    """A device sends in its own half hour, so to say: what comes close in time comes from one person more often."""

    def crowded(count: int, window: Window, words: Iterator[int]) -> list[int]:
        half = (window.closes_at - window.opens_at) // 2
        begins = window.opens_at + below(half, words)
        return spread(count, Window(begins, begins + half), words)

    patch.setattr(session_module, "spread", crowded)


def a_phase_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """A timer of a minute that began when the device did: any minute, but always the same second of it."""

    def phased(count: int, window: Window, words: Iterator[int]) -> list[int]:
        phase = below(60_000, words)
        minutes = (window.closes_at - window.opens_at) // 60_000
        return [window.opens_at + phase + 60_000 * below(minutes, words) for _ in range(count)]

    patch.setattr(session_module, "spread", phased)


def _knowing_now(patch: pytest.MonkeyPatch) -> list[int]:
    """A cell with the time at which the packages of the device at work were ready."""
    cell = [0]
    ready = ParticipantSession._packages_ready

    def noting(self: ParticipantSession, packages: Any, now: int, words: Iterator[int]) -> Any:
        cell[0] = now
        return ready(self, packages, now, words)

    patch.setattr(ParticipantSession, "_packages_ready", noting)
    return cell


def from_fetch_to_deadline(patch: pytest.MonkeyPatch) -> None:
    """Who comes late takes part, and sends all the more densely."""
    cell, against = _knowing_now(patch), ParticipantSession._reason_against

    def lenient(self: ParticipantSession, *round_: Any, **clock: Any) -> Reason | None:
        reason = against(self, *round_, **clock)
        return None if reason is Reason.LATE else reason

    def dense(count: int, window: Window, words: Iterator[int]) -> list[int]:
        left = Window(max(window.opens_at, cell[0]), window.closes_at)
        return spread(count, left if count > 1 else window, words)

    patch.setattr(ParticipantSession, "_reason_against", lenient)
    patch.setattr(session_module, "spread", dense)


def delays_from_the_fetch(patch: pytest.MonkeyPatch) -> None:
    """Times count from the fetch and not from the opening: when one asked shows in when one sends."""
    cell = _knowing_now(patch)

    def counted(count: int, window: Window, words: Iterator[int]) -> list[int]:
        early = window.opens_at - cell[0]
        return [max(window.opens_at, at - early) for at in spread(count, window, words)]

    patch.setattr(session_module, "spread", counted)


def polls_at_a_fixed_phase(patch: pytest.MonkeyPatch) -> None:
    """A device asks always at the same second after the end of a round."""
    first = Polling.first

    def fixed(self: Polling, now: int) -> int:
        if not hasattr(self, "phase"):
            self.phase = first(self, now) - now  # type: ignore[attr-defined]
        return now + int(self.phase) % GRACE_MS  # type: ignore[attr-defined]

    patch.setattr(Polling, "first", fixed)


def overdue_at_once(patch: pytest.MonkeyPatch) -> None:
    """Who comes back sends all that it missed, at once."""

    def hasty(times: Sequence[int], window: Window, _words: Iterator[int], *, now: int, grace: int = 0) -> list[int]:
        if now >= window.closes_at:
            raise LocalProtocolError("nothing is left of the window")
        return [at if at + grace >= now else now for at in times]

    patch.setattr(session_module, "redraw", hasty)


def a_burst_within_the_grace(patch: pytest.MonkeyPatch) -> None:
    """Who comes back sends at once what it missed in the last ten seconds, and draws only the rest again."""

    def hasty(times: Sequence[int], window: Window, words: Iterator[int], *, now: int, grace: int = 0) -> list[int]:
        redrawn = redraw(times, window, words, now=now, grace=grace or session_memory.GRACE_MS)
        return [max(at, now) for at in redrawn]

    patch.setattr(session_module, "redraw", hasty)


def silence(patch: pytest.MonkeyPatch) -> None:
    """Nulls are not sent: who has nothing to say is silent, and that says it."""
    send = Net.send

    async def speaking(self: Net, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:
        return SendReply(b"") if capsule[0] == 0 else await send(self, capsule, relay, label=label)

    def telling(random_bytes: RandomBytes) -> Seal:
        return _seal(random_bytes, lambda kind, capsule: bytes([kind != "null"]) + capsule[1:])

    patch.setattr(Net, "send", speaking)
    patch.setattr(device_module, "gateway_seal", telling)


def sizes_by_kind(patch: pytest.MonkeyPatch) -> None:
    """Packages are sealed as long as they are, and a prediction is a few bytes shorter than an update."""

    def telling(random_bytes: RandomBytes) -> Seal:
        shorter = {"train": 1, "test": 4, "participation": 2, "null": 3}
        return _seal(random_bytes, lambda kind, capsule: capsule[: -shorter[kind]])

    patch.setattr(device_module, "gateway_seal", telling)


def _seal(random_bytes: RandomBytes, change: Any) -> Seal:
    assert isinstance(random_bytes, DeviceDice)

    def seal(plaintext: bytes, _gateway_keys: bytes) -> bytes:
        kind = KINDS[plaintext[1]]
        capsule: bytes = change(kind, random_bytes(CAPSULE_BYTES))
        random_bytes.sealed[capsule] = kind
        return capsule

    return seal
