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


class RoundEnd(enum.Enum):
    """How a round ended, as far as its coordinator knows: one name each, and the words that people read.

    It tells no number and accuses nobody. No signed document holds it.
    """

    COUNTED = "counted"
    NOTHING_CAME = "no relay handed anything on"
    RESTARTED = "the coordinator was started again while it ran, and not everything came in time"
    TOO_FEW_TRAINED = "fewer trained than the floor"
    TOO_FEW_SENT = "fewer devices sent than the floor"
    NOBODY_LEFT = "without cover nobody is left who trained"
    RELAY_SILENT = "a relay did not hand over everything in time"
    FALSE_STATEMENT = "something that a relay signed, or its cover, does not hold"
    COUNT_MISSING = "packages came that no relay has signed for"
    BEYOND_COVER = "a count is larger than devices and cover explain"
    NOT_IN_TIME = "it could not be counted in time"
    OUT_OF_RANGE = "its step leaves the range of numbers, so the experiment has ended"

    @property
    def word(self) -> str:
        """Its name in a status document, a metric and a webhook's event."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> RoundEnd:
        """The end of this name; raises ``ValueError`` where none has it."""
        for end in cls:
            if end.word == word:
                return end
        raise ValueError("no round ends like this")


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
