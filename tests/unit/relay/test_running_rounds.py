"""When a round is over: a clock that is wrong for a moment ends nothing. And what is counted of a round."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from secvm.relay.batches.running_rounds import STAGES, SURE_MS, RoundMeter, RunningRounds
from secvm.relay.entry.rounds import EntryRound
from secvm.runtime.http.messages import HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from tests.unit.relay.relayed import ENTRY_KEY, TIMES, Machine, plan


@dataclass
class Hands:
    """A clock whose hands are put anywhere, also back."""

    at: int

    def now(self) -> int:
        return self.at

    async def sleep_until(self, at: int) -> None:
        raise NotImplementedError


async def nobody(*_arguments: object) -> HttpResponse:
    return HttpResponse(502)


def test_a_clock_that_leaps_ahead_for_a_moment_ends_no_round(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "entry")
    machine.start()
    assert machine.keeping is not None
    clock, steady = Hands(1600), Hands(0)
    running: RunningRounds[EntryRound] = RunningRounds(
        keeping=machine.keeping,
        key=ENTRY_KEY,
        make=lambda _plan: machine.start(),
        next_url=lambda _plan: "http://mix.invalid",
        other_url=lambda _plan: "http://mix.invalid",
        put=nobody,
        clock=clock,
        steady=steady,
        log=Log(io.StringIO(), clock),
        meter=RoundMeter(Metrics("relay")),
        first_pause_s=0.001,
    )
    assert running._now(plan()) == 1600
    clock.at = TIMES.open_by + 10**9
    assert running._now(plan()) == TIMES.open_by - 1
    steady.at = SURE_MS - 1
    assert running._now(plan()) == TIMES.open_by - 1
    # Put right again: what it said before does not count.
    clock.at = TIMES.batch_by
    assert running._now(plan()) == TIMES.batch_by
    clock.at, steady.at = TIMES.open_by, SURE_MS
    assert running._now(plan()) == TIMES.open_by - 1
    steady.at = 2 * SURE_MS
    assert running._now(plan()) == TIMES.open_by
    machine.die()


def test_what_is_counted_has_no_number_and_no_name() -> None:
    metrics = Metrics("relay")
    meter = RoundMeter(metrics)
    for step in ("part-3", "told-entry-reveal", "handed-on", "somebody-s-name"):
        meter.stepped(step, 2.0)
    for door, status in (("submit", 200), ("submit", 403), ("198.51.100.7", 404)):
        meter.answered(door, status)
    page = metrics.page()[0].decode()
    steps = {"part": 1, "told": 1, "handed-on": 1}
    assert all(f'round_steps_total{{stage="{stage}"}} {steps.get(stage, 0)}.0' in page for stage in STAGES)
    assert 'round_step_seconds_sum{stage="part"} 2.0' in page
    assert 'role_refused_total{door="submit",status="403"} 1.0' in page
    assert "somebody" not in page
    assert "198.51.100.7" not in page
