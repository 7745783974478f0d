"""One demonstration from beginning to end: people, federation, rounds, replay, result.

The rounds happen in other processes; this one makes the people, steers the clock, looks at what is public, and now and
then decides for a device to miss a round, as its person would with ``secvm participant pause``. When all is over it
audits the coordinator from outside, as anybody can, reads from the devices' own books in which rounds each took part,
plays the same rounds offline, and compares. With a guarantee it plays them without cover too, and attacks labels.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secvm.auditor.audit import audit_files
from secvm.auditor.files import WebFiles
from secvm.auditor.report import Report
from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator
from secvm.learning import aggregate
from secvm.learning.experiment import Experiment
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.participant.storage.state import DeviceState, Status
from secvm.protocol.documents.blobs import decode_weights
from secvm.runtime.clock import SystemClock
from secvm.testing.federation import COORDINATOR, Federation, Pace
from secvm.testing.processes import ROOM_BYTES, in_memory
from secvm_lab.demo.crowd import Crowd, from_file, made_up
from secvm_lab.demo.evaluation import Afterwards, Computing, counted_twice, leakage
from secvm_lab.demo.plan import MISSES, WITNESSES, Plan
from secvm_lab.demo.result import Checks, DemoResult, RoundLine
from secvm_lab.published import Published, origins_of, published

#: Parts of a window in which arrivals are counted.
PARTS = 20
#: At a window's end about half a second is waited for the last answers. If it was no more than this, time may run
#: quicker; if it was as much as that, devices had fallen behind.
_CALM_S, _BEHIND_S = 0.6, 1.0
_SLOWEST, _FASTEST = 2.0, 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, for whoever watches."""

    stage: str
    round_number: int = 0
    rounds: int = 0
    participants: int = 0
    packages: int = 0
    packages_per_s: float = 0.0
    accuracy: float = 0.0
    #: Where the operator's page is, as soon as it is there.
    page: str = ""


Watch = Callable[[Progress], None]


#: Called with the result while coordinator and page still run; they end when it returns.
Stay = Callable[[DemoResult], None]


def run_demo(plan: Plan, watch: Watch, stay: Stay | None = None) -> DemoResult:
    """The whole demonstration; processes and temporary files are gone when it returns or raises."""
    begun = time.monotonic()
    watch(Progress("making people", rounds=plan.rounds))
    crowd = _crowd(plan)
    with _folder(plan.keep) as folder, contextlib.ExitStack() as running:
        hosts = plan.carried(crowd, folder)
        watch(Progress("starting processes", rounds=plan.rounds))
        federation = running.enter_context(
            Federation(
                folder,
                hosts=hosts,
                seed=plan.dice_seed.decode(),
                pace=Pace(),
                witnesses=WITNESSES,
                dashboard=plan.page,
                covered=plan.covered,
                # The demo audits at its end; recounting beside the devices would cost a tenth of its time.
                audit_every_s=600,
            )
        )
        federation.start_servers()
        if plan.page:
            watch(Progress("page", rounds=plan.rounds, page=federation.page_url))
        federation.begin(plan.specification(crowd))
        assert federation.document is not None
        # With cover the coordinator has planned it, and with it the budget.
        experiment = federation.document.experiment
        set_up = time.monotonic()
        computing = Computing(plan, crowd, experiment)
        played = _Play(plan, federation, crowd, experiment, computing.further, watch)
        played.rounds()
        watch(Progress("auditing from outside", plan.rounds, plan.rounds))
        played.audit()
        watch(Progress("ending processes", plan.rounds, plan.rounds))
        if stay is None:
            running.close()
        else:
            federation.children.stop(federation.host_names)
        done = computing.afterwards(
            federation.document,
            folder / "devices",
            origins_of(played.published),
            lambda stage: watch(Progress(stage, plan.rounds, plan.rounds)),
        )
        result = replace(
            played.result(done),
            seconds=time.monotonic() - set_up,
            setup_seconds=set_up - begun,
            page=federation.page_url if plan.page else None,
        )
        if stay is not None:
            stay(result)
    return result


class _Play:
    """The rounds of the federation, watched from outside."""

    def __init__(
        self,
        plan: Plan,
        federation: Federation,
        crowd: Crowd,
        experiment: Experiment,
        further: Evaluator,
        watch: Watch,
    ) -> None:
        self._plan, self._federation, self._crowd = plan, federation, crowd
        self._experiment, self._further, self._watch = experiment, further, watch
        self._dice = np.random.default_rng([plan.seed, 2])
        self._away: list[int] = []
        #: After each round.
        self.published: list[Published] = []
        self._accuracies: list[float] = []
        self._sent: list[int] = []
        self._arrivals = np.zeros(PARTS, dtype=np.int64)
        self._report: Report | None = None

    def rounds(self) -> None:
        """All of them."""
        budget = self._experiment.budget or 0
        federation, plan = self._federation, self._plan
        for number in range(1, plan.rounds + 1):
            attending = len(self._crowd) - len(self._away)
            arrivals = _Arrivals(federation, federation.opens_at(number))
            begun = time.monotonic()

            def miss_next() -> None:
                self._change_attendance(last=number == plan.rounds)  # noqa: B023  (called within the round)

            counts, waited = federation.play_round(
                number, attending=attending, budget=budget, look=arrivals.look, before_closing=miss_next
            )
            took = time.monotonic() - begun
            self._arrivals += arrivals.parts()
            self._sent.append(counts.acknowledged)
            self.published.append(published(federation, number))
            self._accuracies.append(self._accuracy(self.published[-1]))
            self._adapt(waited)
            self._watch(
                Progress(
                    "training",
                    number,
                    plan.rounds,
                    counts.joined,
                    sum(self._sent),
                    counts.acknowledged / max(took, 1e-9),
                    self._accuracies[-1],
                )
            )

    def audit(self) -> None:
        """As anybody can: from what the coordinator shows, while it runs."""
        federation = self._federation
        self._report = audit_files(
            WebFiles(federation.coordinator_url, SystemClock()), now=federation.clock.now, experiment=federation.digest
        )

    def _change_attendance(self, *, last: bool) -> None:
        """People who pause now miss the next round; those who missed this one are back for it."""
        back, gone = self._away, np.flatnonzero(self._dice.random(len(self._crowd)) < MISSES).tolist()
        gone = [] if last else [number for number in gone if number not in back]
        for number, status in [*((n, Status.JOINED) for n in back), *((n, Status.PAUSED) for n in gone)]:
            state = DeviceState(self._federation.folder / "devices" / f"{number:06d}")
            state.set_status(self._federation.digest, status)
            state.close()
        self._away = gone

    def _adapt(self, waited: float) -> None:
        """Let time run as quickly as the machine can follow."""
        clock = self._federation.clock
        if waited < _CALM_S:
            clock.rate = min(_FASTEST, clock.rate * 1.2)
        elif waited > _BEHIND_S:
            clock.rate = max(_SLOWEST, clock.rate / 1.3)

    def _accuracy(self, after: Published) -> float:
        digest = after.evaluation_weights
        blob = self._federation.ask(COORDINATOR, "GET", f"/v1/blob/{digest}")
        weights = decode_weights(blob, digest=digest, experiment=self._experiment)
        cells = self._further.cells(weights, self._crowd.further_codes)
        return float(np.trace(cells) / max(1, cells.sum()))

    def result(self, done: Afterwards) -> DemoResult:
        """Everything put together."""
        plan, federation, replay = self._plan, self._federation, done.replay
        assert self._report is not None
        tallies = [one.tally for one in self.published]
        lines = []
        rounds = zip(self.published, self._accuracies, self._sent, strict=True)
        for number, (one, accuracy, sent) in enumerate(rounds, start=1):
            found = None if one.tally is None else aggregate.score(self._experiment, one.tally)
            lines.append(
                RoundLine(
                    number=number,
                    participants=(0,) * len(self._crowd.labels)
                    if one.tally is None
                    else tuple(aggregate.uncovered(self._experiment.cover, one.tally).participants.tolist()),
                    score=found,
                    accuracy=accuracy,
                    sent=sent,
                    counted=self._counted(number, one),
                    abandoned=one.tally is None,
                )
            )
        sent, counted = sum(self._sent), sum(line.counted for line in lines)
        twice = counted_twice(tallies, [one.tally for one in replay.rounds])
        return DemoResult(
            participants=len(self._crowd),
            hosts=plan.hosts,
            witnesses=len(federation.witness_names),
            rounds=plan.rounds,
            budget=self._experiment.budget or 0,
            bins=plan.bins,
            seed=plan.seed,
            descent=plan.descent,
            thinning=str(self._experiment.thinning),
            people=self._crowd.words,
            labels=self._crowd.labels,
            lines=tuple(lines),
            tested_on=len(self._crowd.further_codes),
            final=done.final,
            central_accuracy=done.central,
            checks=Checks(
                sent,
                counted,
                twice,
                bit_exact=self.published[-1].state == replay.state,
                faults=tuple(fault.sentence for fault in self._report.faults),
                steps_replayed=self._report.steps_replayed,
                recounted=self._report.recounted[0],
            ),
            leakage=leakage(replay) if done.protected is None else None,
            protected=done.protected,
            seconds=0.0,
            setup_seconds=0.0,
            arrivals=tuple(self._arrivals.tolist()),
            capsule_bytes=OUTER_BYTES if plan.covered else CAPSULE_BYTES,
            report=str(plan.report),
        )

    def _counted(self, number: int, after: Published) -> int:
        """Packages of devices that were counted; with two relays, those that were handed on."""
        if self._plan.covered:
            return after.packages
        told = self._federation.events(COORDINATOR, "round-tallied", round=number)
        return int(told[-1]["packages"]) if told else 0


class _Arrivals:
    """Arrivals at the relay over a window, from its counter, which is all that it tells."""

    def __init__(self, federation: Federation, opens_at: int) -> None:
        self._federation, self._opens_at = federation, opens_at
        self._length = 1000 * federation.pace.length_s
        self._seen: list[tuple[float, int]] = []

    def look(self, now: int) -> None:
        place = (now - self._opens_at) / self._length
        if place >= 0 and (not self._seen or place - self._seen[-1][0] >= 0.5 / PARTS):
            arrived = self._federation.arrived()
            if arrived is not None:
                self._seen.append((place, arrived))

    def parts(self) -> NDArray[np.int64]:
        """So many in each part, by straight lines between what was seen."""
        if len(self._seen) < 2 or any(b[1] < a[1] for a, b in zip(self._seen, self._seen[1:], strict=False)):
            return np.zeros(PARTS, dtype=np.int64)
        places, counts = zip(*self._seen, strict=True)
        ends = np.interp(np.linspace(0, 1, PARTS + 1), places, counts)
        return np.asarray(np.diff(np.rint(ends)), dtype=np.int64)


def _crowd(plan: Plan) -> Crowd:
    if plan.data is None:
        return made_up(plan.participants, seed=plan.seed, vocabulary_size=plan.vocabulary_size)
    return from_file(plan.data, plan.participants, seed=plan.seed, vocabulary_size=plan.vocabulary_size)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A new folder, gone in the end unless somebody wants to keep it."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise BadInputError(f"cannot make the folder {keep}: {error.strerror or 'input/output error'}") from None
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="secvm-demo-", dir=in_memory(ROOM_BYTES)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
