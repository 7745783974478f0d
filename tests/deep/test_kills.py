"""kill -9 for everybody, again and again: nothing acknowledged is lost, nothing counts twice, the same bytes come out.

Coordinator, relay and hosts are real processes over loopback, and time is steered (docs/adr/0020). In the first test a
window closes when every scheduled package is acknowledged, so what comes out must be what comes out undisturbed. In the
second windows close on time, on whoever is away. In the third two relays add cover, and everything that was published
is held to the same rounds offline.
"""

from __future__ import annotations

import http.client
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from secvm.testing.federation import COORDINATOR, Federation
from secvm_lab.disturbed import Outcome, run_disturbed
from tests.rigs.kills import Kills
from tests.seeds import seed_for

#: In each of the two tests at least so many processes die; at least 50 in a run of the suite.
FEWEST_KILLS = 30


class Disturbing:
    """Kills from the moment the federation runs, and what came of it."""

    def __init__(self, purpose: str, *, holds_time: Callable[[Federation], bool], pause_s: float = 0.25) -> None:
        self._seed = seed_for(f"kills: {purpose}")
        self._holds_time, self._pause_s = holds_time, pause_s
        self.federation: Federation | None = None
        self.kills: Kills | None = None

    def __call__(self, federation: Federation) -> None:
        self.federation = federation
        self.kills = Kills(
            federation,
            random.Random(self._seed),
            pause_s=self._pause_s,
            holds_time=lambda: self._holds_time(federation),
        )
        federation.clock.meanwhile = self.kills.strike

    def check_enough(self) -> None:
        assert self.kills is not None
        assert self.federation is not None
        print(dict(self.kills.done))
        assert self.kills.done.keys() == set(self.federation.names)
        assert self.kills.done.total() >= FEWEST_KILLS


@pytest.mark.takes(minutes=2)
def test_killed_at_random_everybody_ends_in_the_bytes_of_the_undisturbed_run(tmp_path: Path) -> None:
    disturbing = Disturbing("the same bytes", holds_time=lambda _: True)
    (tmp_path / "disturbed").mkdir()
    (tmp_path / "undisturbed").mkdir()
    disturbed = run_disturbed(tmp_path / "disturbed", rounds=3, disturb=disturbing)
    disturbing.check_enough()
    undisturbed = run_disturbed(tmp_path / "undisturbed", rounds=3)
    assert disturbed.state == undisturbed.state
    for outcome in (disturbed, undisturbed):
        assert outcome.state == outcome.expected
        assert outcome.tallies == outcome.expected_tallies
        assert outcome.counted == outcome.scheduled
        # Whoever died when, there is one log: no witness was ever shown a second one, and an auditor finds no fault.
        assert outcome.forks == 0
        assert outcome.faults == []
        assert outcome.right
    assert undisturbed.acknowledged == undisturbed.scheduled
    # A device that dies between an answer and its next note of answers does not know of them; they count all the same.
    for acknowledged, scheduled in zip(disturbed.acknowledged, disturbed.scheduled, strict=True):
        assert acknowledged <= scheduled


@pytest.mark.takes(minutes=2)
def test_windows_that_close_on_the_killed_lose_nothing_acknowledged_and_refuse_what_is_late(tmp_path: Path) -> None:
    disturbing = Disturbing("windows that close on time", holds_time=lambda federation: not federation.window_open)
    late: list[bytes] = []
    answers: list[int] = []

    def keep_what_is_unsent() -> None:
        for path in sorted(tmp_path.glob("devices/*/state.sqlite")):
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as state:
                late.extend(capsule for (capsule,) in state.execute("SELECT capsule FROM capsule LIMIT 2"))
            state.close()

    def send_it_late() -> None:
        assert disturbing.federation is not None
        answers.extend(post_late(disturbing.federation, capsule) for capsule in late)
        late.clear()

    outcome = run_disturbed(
        tmp_path,
        rounds=4,
        disturb=disturbing,
        wait_for_packages=False,
        before_closing=keep_what_is_unsent,
        after_round=send_it_late,
    )
    disturbing.check_enough()
    print(outcome.scheduled, outcome.acknowledged, outcome.counted, sorted(set(answers)))
    # Somebody was away: else this would be the test above.
    assert sum(outcome.counted) < sum(outcome.scheduled)
    # All that a device saw acknowledged is counted. More may be: an answer that was lost, with its sender or its giver.
    # Of a round with too few train participants nothing is told.
    rounds = zip(outcome.acknowledged, outcome.counted, outcome.scheduled, outcome.tallies, strict=True)
    told = [one for one in rounds if one[3] is not None]
    assert told
    for acknowledged, counted, scheduled, _ in told:
        assert acknowledged <= counted <= scheduled
    # The key of the round is gone (400), or its epoch takes no more (410): either way, nothing changes.
    assert answers
    assert set(answers) <= {400, 410}
    check_only_what_was_sent(outcome)


@pytest.mark.takes(minutes=4)
def test_under_two_relays_cover_everybody_killed_at_random_ends_in_the_bytes_of_the_offline_run(tmp_path: Path) -> None:
    # A round ends when relays and coordinator have asked each other several times, seconds apart: they need some peace.
    disturbing = Disturbing("under two relays' cover", holds_time=lambda _: True, pause_s=2.5)
    outcome = run_disturbed(tmp_path, rounds=3, bins=8, epsilon=8.0, disturb=disturbing)
    disturbing.check_enough()
    # No round stayed unopened, no package of anybody was lost or counted twice, and no relay drew its cover again.
    assert all(tally is not None for tally in outcome.tallies)
    assert outcome.tallies == outcome.expected_tallies
    assert outcome.state == outcome.expected
    assert outcome.counted == outcome.scheduled
    assert outcome.faults == []
    assert outcome.forks == 0
    assert outcome.right


def post_late(federation: Federation, capsule: bytes) -> int:
    """The status of a capsule that comes after its round, past the relay; tried until somebody answers."""
    status = []

    def answered() -> bytes | None:
        connection = http.client.HTTPConnection("127.0.0.1", federation.port(COORDINATOR), timeout=10)
        try:
            connection.request("POST", "/v1/capsule", capsule, {"content-type": "message/ohttp-req"})
            answer = connection.getresponse()
            status.append(answer.status)
            return answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    federation.patiently(answered, "an answer to a late capsule")
    return status[-1]


def check_only_what_was_sent(outcome: Outcome) -> None:
    """The tally of the first round that counts is at most what everybody sent; later ones have other weights than the
    replay.
    """
    counted, sent = next(pair for pair in zip(outcome.tallies, outcome.expected_tallies, strict=True) if all(pair))
    for name in ("plus", "minus", "participants", "cells"):
        assert np.all(getattr(counted, name) <= getattr(sent, name)), name
