"""The life of a round is the table and nothing else."""

import itertools

import pytest

from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import TRANSITIONS, RoundEvent, RoundState, advance, due


@pytest.mark.parametrize(("state", "event"), list(itertools.product(RoundState, RoundEvent)))
def test_what_is_not_in_the_table_is_refused(state: RoundState, event: RoundEvent) -> None:
    if event in TRANSITIONS[state]:
        assert advance(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(LocalProtocolError):
            advance(state, event)


def test_every_state_has_its_row_and_every_event_its_place() -> None:
    assert set(TRANSITIONS) == set(RoundState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(RoundEvent)


def test_no_state_is_ever_left_and_entered_again() -> None:
    def ends(state: RoundState, seen: tuple[RoundState, ...]) -> set[RoundState]:
        assert state not in seen
        after = TRANSITIONS[state].values()
        return set().union(*(ends(s, (*seen, state)) for s in after)) if after else {state}

    assert ends(RoundState.ANNOUNCED, ()) == {RoundState.PUBLISHED, RoundState.ABANDONED}


def test_clock_opens_and_closes_and_decides_nothing_else() -> None:
    times = {"opens_at": 10, "closes_at": 20}
    assert due(RoundState.ANNOUNCED, now=9, **times) is None
    assert due(RoundState.ANNOUNCED, now=10, **times) is RoundEvent.WINDOW_OPENED
    assert due(RoundState.OPEN, now=19, **times) is None
    assert due(RoundState.OPEN, now=20, **times) is RoundEvent.WINDOW_CLOSED
    # A driver that slept through the window takes both steps, one after the other.
    assert due(RoundState.ANNOUNCED, now=99, **times) is RoundEvent.WINDOW_OPENED
    for state in (RoundState.CLOSING, RoundState.TALLIED, RoundState.PUBLISHED, RoundState.ABANDONED):
        assert due(state, now=99, **times) is None
