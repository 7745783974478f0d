"""The life of a round, as a table. What is not in the table does not happen.

Everything that changes a round's state is an event here; docs/pictures/round.svg is drawn from ``TRANSITIONS``. No
round is ever extended, and an abandoned one keeps its number: the next round takes the next, with the same state.
"""

from __future__ import annotations

import enum

from secvm.errors import LocalProtocolError


class RoundState(enum.Enum):
    """Where a round stands."""

    #: Its manifest is signed; devices compute. Nothing is taken yet.
    ANNOUNCED = "announced"
    #: Between opens_at and closes_at: devices send.
    OPEN = "open"
    #: Until accept_until: what was sent in time may still arrive.
    CLOSING = "closing"
    #: The floor was met and the tally is fixed, durably.
    TALLIED = "tallied"
    #: The next manifest, with this round's tally in it, is public. The end.
    PUBLISHED = "published"
    #: The floor was missed: nothing of it is published, the state stays. The end.
    ABANDONED = "abandoned"


class RoundEvent(enum.Enum):
    """What happens to a round."""

    WINDOW_OPENED = "window opened"
    WINDOW_CLOSED = "window closed"
    FLOOR_MET = "floor met"
    FLOOR_MISSED = "floor missed"
    MANIFEST_SIGNED = "next manifest signed"


TRANSITIONS: dict[RoundState, dict[RoundEvent, RoundState]] = {
    RoundState.ANNOUNCED: {RoundEvent.WINDOW_OPENED: RoundState.OPEN},
    RoundState.OPEN: {RoundEvent.WINDOW_CLOSED: RoundState.CLOSING},
    RoundState.CLOSING: {
        RoundEvent.FLOOR_MET: RoundState.TALLIED,
        RoundEvent.FLOOR_MISSED: RoundState.ABANDONED,
    },
    RoundState.TALLIED: {RoundEvent.MANIFEST_SIGNED: RoundState.PUBLISHED},
    RoundState.PUBLISHED: {},
    RoundState.ABANDONED: {},
}


def advance(state: RoundState, event: RoundEvent) -> RoundState:
    """The state after the event; an event that has no place in this state is refused."""
    after = TRANSITIONS[state].get(event)
    if after is None:
        raise LocalProtocolError(f"a round that is {state.value} knows no '{event.value}'")
    return after


def due(state: RoundState, *, now: int, opens_at: int, closes_at: int) -> RoundEvent | None:
    """The event that the clock brings about now, if any. A driver that slept asks again after each."""
    if state is RoundState.ANNOUNCED and now >= opens_at:
        return RoundEvent.WINDOW_OPENED
    if state is RoundState.OPEN and now >= closes_at:
        return RoundEvent.WINDOW_CLOSED
    return None
