"""A status of many rounds is made of pieces that are made once: the same bytes, and a round more costs a round."""

import asyncio
import json

import pytest

from secvm.coordinator.experiments.history import PlainHistories, PlainHistory, PlainRound
from secvm.coordinator.experiments.status_document import LeakageMeter, TellableRound, Watchers, status
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Standing
from secvm.learning import aggregate
from secvm.learning.aggregate.scoring import Score
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import Coordinator, add, experiment, times
from tests.unit.protocol.helpers import START, document, log_terms


def rounds(count: int) -> list[TellableRound]:
    """All told but the newest; every third was abandoned."""
    found = []
    for number in range(1, count + 1):
        last = LastRound(tally="ab" * 32, participants=(30 + number, 40), cells=((9 + number, 3), (4, 7)))
        if number % 3 == 0:
            last = LastRound(tally=None, participants=(), cells=())
        state, told = ("open", None) if number == count else ("abandoned" if number % 3 == 0 else "published", last)
        found.append(TellableRound(number, state, times(START + number), told))
    return found


def metered(of: ExperimentDocument, told: int) -> LeakageMeter:
    meter = LeakageMeter(of)
    for number in range(1, told + 1):
        tally = aggregate.empty_tally(of.experiment)
        tally.plus[0, -1], tally.minus[0, -1], tally.participants[:] = 20 + number, 9, (700 + number, 900)
        if number % 3:
            meter.watch(number, tally)
    return meter


def made(of: ExperimentDocument, count: int, watchers: Watchers, told: list[TellableRound]) -> bytes:
    return status(of, standing=Standing.RUNNING, rounds=told[:count], watchers=watchers)


@pytest.mark.parametrize("of", [document(title='Ünï "c" \u2027'), document(log=log_terms())])
def test_with_kept_pieces_the_bytes_are_those_of_a_status_made_anew(of: ExperimentDocument) -> None:
    all_rounds = rounds(16)
    kept = Watchers(of.experiment, leakage=metered(of, 15))
    for count in range(17):
        # The newest of each is not told yet.
        told = [*all_rounds[: max(0, count - 1)], *rounds(count)[-1:]]
        data = made(of, count, kept, told)
        assert data == made(of, count, Watchers(of.experiment, leakage=metered(of, 15)), told)
        # And it is written as JSON is written everywhere here.
        content = json.loads(data)
        assert json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() == data
        assert list(content)[-3:] == ["rounds", "leakage", "notes"]
        assert [one["number"] for one in content["rounds"]] == list(range(1, count + 1))
        assert [one["round"] for one in content["leakage"]["per_round"]] == [
            one["number"] for one in content["rounds"] if one["state"] == "published"
        ]


def test_how_a_round_ended_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    of, scored, score = document(), [], aggregate.score

    def counted(asked: Experiment, tally: Tally) -> Score:
        scored.append(tally)
        return score(asked, tally)

    monkeypatch.setattr(aggregate, "score", counted)
    watchers, all_rounds = Watchers(of.experiment), rounds(30)
    for count in range(1, 31):
        made(of, count, watchers, all_rounds)
    assert len(scored) == sum(one.last is not None and one.last.tally is not None for one in all_rounds)


def test_a_round_that_is_told_differently_is_written_anew() -> None:
    of = document()
    watchers, told = Watchers(of.experiment), rounds(3)
    before = made(of, 3, watchers, told)
    other = LastRound(tally="cd" * 32, participants=(1, 2), cells=((1, 0), (0, 1)))
    told[0] = TellableRound(1, "published", times(START), other)
    assert made(of, 3, watchers, told) != before
    assert made(of, 3, watchers, told) == made(of, 3, Watchers(of.experiment), told)


def test_repro_where_a_round_stands_was_found_by_comparing_it_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    of = experiment(rounds=3)
    add(store, of)
    asyncio.run(Coordinator(store, ManualClock(START - 1_000_000)).go())
    (book,) = PlainHistories(store).read()

    def compared(_one: PlainRound, _other: object) -> bool:
        raise AssertionError("rounds are compared")

    monkeypatch.setattr(PlainRound, "__eq__", compared)
    assert isinstance(book, PlainHistory)
    assert [book.public_state(one) for one in book.rounds] == ["published"] * 3
