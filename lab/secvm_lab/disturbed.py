"""A small federation that is disturbed while it works, held to the same rounds played offline.

Real processes over loopback, people of the generator, seeded learning dice. Who disturbs is handed in
(a test's killer, or nobody). What must come out does not depend on it: the state of ``OfflineTraining`` over the same
people, dice and attendance, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from secvm.auditor.audit import audit_files
from secvm.auditor.files import WebFiles
from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins
from secvm.estimator.training import Population
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.participant.storage.state import DeviceState
from secvm.runtime.clock import SystemClock
from secvm.testing.federation import Federation, HostOf, Pace
from secvm.testing.played_rounds import Between
from secvm_lab.demo.crowd import Crowd, binned, made_up, sampled, who_trains
from secvm_lab.demo.plan import WITNESSES, Plan
from secvm_lab.demo.replay import Replay
from secvm_lab.published import Published, origins_of, published
from secvm_lab.rigs.balancer import Balancer

#: A long lead: devices ask for a manifest again and again until somebody is there to answer.
PACE = Pace(length_s=60, grace_s=8, lead_s=600, rate=40.0)
#: With two relays it is shorter, and time goes slower: where a minute goes by while an answer is on its way, a device
#: doubts its clock, and leaves the round out.
COVERED_PACE = Pace(length_s=60, grace_s=8, lead_s=200, rate=10.0)
#: Somebody who is told of the federation once it runs, before the first round.
Disturb = Callable[[Federation], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out, and what should have."""

    state: bytes = field(repr=False)
    expected: bytes = field(repr=False)
    #: Per round: packages that devices scheduled, saw acknowledged, and that a relay handed on.
    scheduled: list[int]
    acknowledged: list[int]
    counted: list[int]
    #: Per round: packages that devices had given up while the window was still open.
    given_up: list[int]
    tallies: list[Tally | None] = field(repr=False)
    expected_tallies: list[Tally | None] = field(repr=False)
    #: What an auditor found from outside afterwards, and forks that witnesses have kept: two trees of one size.
    faults: list[str]
    forks: int

    @property
    def right(self) -> bool:
        """Whether disturbing changed nothing: the same bytes, every scheduled package counted once, one log.

        What devices *know* to be acknowledged is no part of it. One that dies between an answer and its next note of
        answers, and comes back after the window, does not know of them; they count all the same.
        """
        same = self.state == self.expected and self.tallies == self.expected_tallies
        return same and self.counted == self.scheduled and not self.faults and not self.forks


def run_disturbed(
    folder: Path,
    *,
    participants: int = 24,
    rounds: int = 4,
    seed: int = 0,
    descent: str = "swift",
    bins: int = 60,
    epsilon: float | None = None,
    disturb: Disturb | None = None,
    wait_for_packages: bool = True,
    before_closing: Callable[[], None] | None = None,
    after_round: Callable[[], None] | None = None,
    between: Between | None = None,
    nodes: int = 0,
    database: str | None = None,
) -> Outcome:
    """All rounds. Without ``wait_for_packages`` windows close on time, whoever is away. ``epsilon``: with two relays'
    cover; ``between`` is told of each step of their rounds. ``nodes`` on a ``database``: the coordinator is so many
    processes.
    """
    plan = Plan(
        participants=participants, rounds=rounds, hosts=2, seed=seed, bins=bins, descent=descent, epsilon=epsilon
    )
    crowd = made_up(participants, seed=seed, further=50)
    experiment = plan.experiment(crowd.labels, float(np.mean([len(person) for person in crowd.features])))
    given_up: list[int] = []
    people = folder / "people.jsonl"
    crowd.write(people, range(participants))
    hosts = [HostOf(people, numbers.start, len(numbers)) for numbers in plan.hosted(participants)]
    found: list[Published] = []
    # Longer than any process takes to come back, also on a busy machine.
    with Federation(
        folder,
        hosts=hosts,
        seed=plan.dice_seed.decode(),
        pace=COVERED_PACE if plan.covered else PACE,
        patience_s=120,
        nodes=nodes,
        database=database,
        covered=plan.covered,
        doors=Balancer.before_nodes if nodes else None,
        witnesses=WITNESSES,
    ) as federation:
        federation.start_servers()
        federation.begin(plan.specification(experiment, participants))
        assert federation.document is not None
        # With a guarantee, the coordinator plans cover, and B.
        experiment = federation.document.experiment if plan.covered else experiment
        assert experiment.budget is not None
        if disturb is not None:
            disturb(federation)
        for number in range(1, rounds + 1):
            counts, _ = federation.play_round(
                number,
                attending=participants,
                budget=experiment.budget,
                wait_for_packages=wait_for_packages,
                before_closing=before_closing,
                between=between,
            )
            given_up.append(counts.lost)
            if after_round is not None:
                after_round()
            found.append(published(federation, number))
        federation.clock.meanwhile = None
        digest = federation.digest
        faults, forks = from_outside(federation)
    scheduled, acknowledged = [0] * rounds, [0] * rounds
    here = np.zeros((rounds, participants), dtype=np.bool_)
    for number in range(participants):
        device = DeviceState(folder / "devices" / f"{number:06d}")
        for one in device.history(digest):
            here[one.round_number - 1, number] = True
            scheduled[one.round_number - 1] += experiment.budget
            acknowledged[one.round_number - 1] += one.acknowledged
        device.close()
    replay = offline(plan, crowd, experiment, origins_of(found))
    return Outcome(
        state=found[-1].state,
        scheduled=scheduled,
        acknowledged=acknowledged,
        counted=[one.packages for one in found],
        given_up=given_up,
        tallies=[one.tally for one in found],
        expected_tallies=[replay.advance(row).tally for row in here],
        expected=replay.state,
        faults=faults,
        forks=forks,
    )


def offline(plan: Plan, crowd: Crowd, experiment: Experiment, origins: CoverOrigins | None = None) -> Replay:
    """The same people's rounds, offline; ``origins``: where two relays' cover came from."""
    binning = HashBinning(n_bins=plan.bins, salt=plan.salt)
    return Replay(
        experiment,
        Population(
            rows=binned(
                sampled(crowd.features, plan.features_per_person, dice_seed=plan.dice_seed),
                binning,
                one_per_bin=plan.covered,
            ),
            labels=crowd.codes,
            train=who_trains(plan.participants, share=plan.train_share, dice_seed=plan.dice_seed),
        ),
        dice_seed=plan.dice_seed,
        floor=plan.floor(len(crowd.labels)),
        further=Evaluator(experiment, binned(crowd.further_features, binning)),
        further_codes=crowd.further_codes,
        origins=origins,
    )


def attendance(folder: Path, digest: str, *, participants: int, rounds: int) -> tuple[NDArray[np.bool_], list[str]]:
    """Who took part in which round, by the devices' own history; and why devices have ended their participation."""
    here, accused = np.zeros((rounds, participants), dtype=np.bool_), list[str]()
    for number in range(participants):
        device = DeviceState(folder / "devices" / f"{number:06d}")
        for one in device.history(digest):
            here[one.round_number - 1, number] = True
        distrust = device.trust.distrust(digest)
        accused += [] if distrust is None else [distrust]
        device.close()
    return here, accused


def from_outside(federation: Federation) -> tuple[list[str], int]:
    """What an auditor finds, and how many forks the witnesses have kept as evidence."""
    seen = [
        json.loads(federation.patiently(lambda name=name: federation.answer(name, "/v1/seen"), name))  # type: ignore[misc]
        for name in federation.witness_names
    ]
    report = audit_files(
        WebFiles(federation.coordinator_url, SystemClock()), now=federation.clock.now, experiment=federation.digest
    )
    return [fault.sentence for fault in report.faults], sum(len(one["forks"]) for one in seen)
