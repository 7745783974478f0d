"""A small federation that is disturbed while it works, held to the same rounds played offline.

Real processes over loopback, people of the generator, seeded learning dice. Who disturbs is handed in
(``testing.kills``, or nobody). What must come out does not depend on it: the state of ``OfflineTraining`` over the same
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
from secvm.auditor.web import WebFiles
from secvm.crypto.signing import Envelope
from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import Population
from secvm.lab.demo.crowd import Crowd, binned, made_up, sampled, who_trains
from secvm.lab.demo.plan import TRAIN_SHARE, Plan
from secvm.lab.demo.replay import Replay
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import HashBinning
from secvm.participant.state import DeviceState
from secvm.protocol.blobs import decode_tally
from secvm.protocol.ending import Ending
from secvm.protocol.manifest import RoundManifest, read_relay_count
from secvm.runtime.clock import SystemClock
from secvm.testing.federation import Federation, HostOf, Pace

#: A long lead: devices ask for a manifest again and again until somebody is there to answer.
PACE = Pace(length_s=60, grace_s=8, lead_s=600, rate=40.0)
#: Somebody who is told of the federation once it runs, before the first round.
Disturb = Callable[[Federation], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out, and what should have."""

    state: bytes = field(repr=False)
    expected: bytes = field(repr=False)
    #: Per round: packages that devices scheduled, saw acknowledged, and that the relay deposited.
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

    @property
    def unnoted(self) -> int:
        """Packages that count and whose answer no device wrote down before it was killed."""
        return sum(self.counted) - sum(self.acknowledged)


def run_disturbed(
    folder: Path,
    *,
    participants: int = 24,
    rounds: int = 4,
    seed: int = 0,
    descent: str = "swift",
    epsilon: float | None = None,
    disturb: Disturb | None = None,
    wait_for_packages: bool = True,
    before_closing: Callable[[], None] | None = None,
    after_round: Callable[[], None] | None = None,
    tokens: bool = False,
    nodes: int = 0,
    database: str | None = None,
) -> Outcome:
    """All rounds. Without ``wait_for_packages`` windows close on time, whoever is away. ``tokens``: every package needs
    an anonymous token, which changes no tally. ``epsilon``: with cover. ``nodes`` on a ``database``: the coordinator is
    so many processes.
    """
    plan = Plan(participants=participants, rounds=rounds, hosts=2, seed=seed, bins=60, descent=descent, epsilon=epsilon)
    crowd = made_up(participants, seed=seed, further=50)
    experiment = plan.experiment(crowd.labels, float(np.mean([len(person) for person in crowd.features])))
    given_up: list[int] = []
    people = folder / "people.jsonl"
    crowd.write(people, range(participants))
    hosts = [HostOf(people, numbers.start, len(numbers)) for numbers in plan.hosted(participants)]
    tallies, counted, state = [], [], ""
    # Longer than any process takes to come back, also on a busy machine.
    with Federation(
        folder,
        hosts=hosts,
        seed=plan.dice_seed.decode(),
        pace=PACE,
        patience_s=120,
        tokens=experiment.budget if tokens else None,
        nodes=nodes,
        database=database,
    ) as federation:
        federation.start_servers()
        federation.begin(plan.specification(experiment, participants))
        assert federation.document is not None
        # With cover, the coordinator plans it, and B.
        experiment = experiment if epsilon is None else federation.document.experiment
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
            )
            given_up.append(counts.lost)
            if after_round is not None:
                after_round()
            served = federation.following(number)
            assert served is not None
            payload = Envelope.from_bytes(served).payload
            told = Ending.from_bytes(payload) if number == rounds else RoundManifest.from_bytes(payload)
            state = told.state
            assert told.last is not None
            tally = None
            if told.last.tally is not None:
                tally = tally_of(federation, told.last.tally, experiment)
            tallies.append(tally)
            assert federation.document is not None
            relay_count = told.last.relay_count
            counted.append(0 if relay_count is None else read_relay_count(relay_count, federation.document).capsules)
        federation.clock.meanwhile = None
        reached = federation.patiently(lambda: federation.public(f"/v1/blob/{state}"), "the last state")
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
    replay = offline(plan, crowd, experiment)
    expected = [replay.advance(row).tally for row in here]
    return Outcome(reached, replay.state, scheduled, acknowledged, counted, given_up, tallies, expected, faults, forks)


def offline(plan: Plan, crowd: Crowd, experiment: Experiment) -> Replay:
    """The same people's rounds, offline."""
    binning = HashBinning(n_bins=plan.bins, salt=plan.salt)
    return Replay(
        experiment,
        Population(
            rows=binned(
                sampled(crowd.features, plan.features_per_person, dice_seed=plan.dice_seed),
                binning,
                one_per_bin=plan.epsilon is not None,
            ),
            labels=crowd.codes,
            train=who_trains(plan.participants, share=TRAIN_SHARE, dice_seed=plan.dice_seed),
        ),
        dice_seed=plan.dice_seed,
        floor=plan.floor(len(crowd.labels)),
        further=Evaluator(experiment, binned(crowd.further_features, binning)),
        further_codes=crowd.further_codes,
    )


def attendance(folder: Path, digest: str, *, participants: int, rounds: int) -> NDArray[np.bool_]:
    """Who took part in which round, by the devices' own history."""
    here = np.zeros((rounds, participants), dtype=np.bool_)
    for number in range(participants):
        device = DeviceState(folder / "devices" / f"{number:06d}")
        for one in device.history(digest):
            here[one.round_number - 1, number] = True
        device.close()
    return here


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


def tally_of(federation: Federation, digest: str, experiment: Experiment) -> Tally:
    """A published tally."""
    blob = federation.patiently(lambda: federation.public(f"/v1/blob/{digest}"), "a tally")
    return decode_tally(blob, digest=digest, experiment=experiment)
