"""Send times: in the window, and blind to what is sent."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import TRANSITIONS, RoundEvent, RoundState, advance, due
from secvm.protocol.schedule import WORD, Window, below, redraw, shuffle, spread
from tests.unit.protocol.helpers import words

WINDOWS = st.tuples(st.integers(0, 10**13), st.integers(1, 10**10)).map(lambda w: Window(w[0], w[0] + w[1]))


@given(n=st.integers(1, WORD), seed=st.integers())
def test_number_is_below_its_bound(n: int, seed: int) -> None:
    assert 0 <= below(n, words(seed)) < n


def test_words_of_the_incomplete_run_are_thrown_away() -> None:
    n = 3 * 2**62  # one run fits, a quarter of all words does not
    assert below(n, iter([WORD - 1, n, n - 1])) == n - 1
    assert below(n, iter([5])) == 5
    assert below(WORD, iter([WORD - 1])) == WORD - 1


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 8])
def test_every_number_is_equally_likely_counted_out_on_small_words(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With words of three bits instead of 64, all words can be tried: each number comes equally often."""
    monkeypatch.setattr("secvm.protocol.schedule.WORD", 8)
    drawn = [below(n, iter([word, 0])) for word in range(8) if word < 8 - 8 % n]
    assert all(drawn.count(i) == len(drawn) // n for i in range(n))


@pytest.mark.parametrize("n", [0, -1, WORD + 1])
def test_bounds_that_dice_cannot_draw_from_are_refused(n: int) -> None:
    with pytest.raises(LocalProtocolError):
        below(n, words())


def test_dice_that_are_none_are_refused() -> None:
    for bad in ([], [WORD], [-1]):
        with pytest.raises(LocalProtocolError):
            below(3, iter(bad))


@given(count=st.integers(0, 50), window=WINDOWS, seed=st.integers())
def test_times_lie_in_the_window_and_with_the_same_dice_are_the_same(count: int, window: Window, seed: int) -> None:
    times = spread(count, window, words(seed))
    assert len(times) == count
    assert all(window.opens_at <= at < window.closes_at for at in times)
    assert times == spread(count, window, words(seed))


@given(window=WINDOWS, seed=st.integers(), share=st.floats(0, 1, exclude_max=True))
def test_only_what_is_overdue_is_drawn_again_and_over_what_is_left(window: Window, seed: int, share: float) -> None:
    now = window.opens_at + int(share * (window.closes_at - window.opens_at))
    times = spread(20, window, words(seed))
    for grace in (0, 10_000):
        for before, after in zip(times, redraw(times, window, words(1), now=now, grace=grace), strict=True):
            if before >= now - grace:
                assert after == before
            else:
                assert now <= after < window.closes_at


def test_before_the_window_nothing_is_overdue_and_after_it_nothing_is_left() -> None:
    window = Window(1000, 2000)
    assert redraw([1000, 1999], window, iter([]), now=0) == [1000, 1999]
    with pytest.raises(LocalProtocolError):
        redraw([1500], window, words(), now=2000)


@given(st.lists(st.integers(), max_size=20), st.integers())
def test_shuffling_keeps_everything(items: list[int], seed: int) -> None:
    assert sorted(shuffle(items, words(seed))) == sorted(items)


def test_every_order_comes_equally_often_counted_out() -> None:
    orders = [tuple(shuffle("abcd", iter(thrown))) for thrown in itertools.product(range(4), range(3), range(2))]
    assert len(set(orders)) == len(orders) == 24


@pytest.mark.parametrize(("opens_at", "closes_at"), [(5, 5), (6, 5), (-1, 5)])
def test_window_opens_before_it_closes(opens_at: int, closes_at: int) -> None:
    with pytest.raises(LocalProtocolError):
        Window(opens_at, closes_at)


# ── the life of a round is the table and nothing else ────────────────────────────────────────────────────────────────


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
