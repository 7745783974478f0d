"""A simulated population beside a deployed one: the same people and dice, the same bytes after every round.

Every device of the plan becomes a participant of a federation (``testing.federation``), with the same features, label
and dice. Who is there in which round is the plan's; devices that are not are paused, as their person would pause them.
What the coordinator publishes after every round is compared with the simulation's round: state bytes, and every count.
With a ``PrivacyTarget`` two relays add cover. Their dice are seeded and their openings published: so the simulation has
the very cover of the deployment.

Nobody straggles here: a federation waits until every package is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from secvm.estimator.round_cover import CoverOrigins
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.participant.storage.state import DeviceState, Status
from secvm.privacy.target import PrivacyTarget
from secvm.testing.federation import Federation, HostOf, Pace
from secvm_lab.online.population.attendance import Attendance, Present
from secvm_lab.online.population.crowd import Crowd, crowd, salt
from secvm_lab.online.population.plan import Learning, Plan, Rhythm
from secvm_lab.online.population.residents import openings
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.rounds import OnlineRounds
from secvm_lab.published import Published, from_outside, origins_of, published

#: S: a round of few devices and bins is done in seconds.
_PARTS = 4
#: Devices are few and their packages too: time may run quickly.
PACE = Pace(length_s=30, grace_s=4, lead_s=10, rate=30.0)


def simulated(
    people: Crowd, experiment: Experiment, present: Sequence[Present], origins: CoverOrigins | None = None
) -> list[tuple[bytes, Tally | None]]:
    """The state's bytes and the tally, where one is published, after each round of the simulation. ``origins``: what
    the openings of a deployment say of relays' cover.
    """
    covered = experiment.cover is not None
    rounds = OnlineRounds(
        experiment, people.one_per_bin() if covered else people, floor=people.plan.floor, origins=origins
    )
    found = []
    for one in present:
        played = rounds.play(one)
        # With two relays a round that is not stepped is counted all the same.
        found.append((rounds.state.to_bytes(), None if played.abandoned and not covered else played.tally))
    return found


class Deployment:
    """A federation of a plan's devices."""

    def __init__(self, folder: Path, people: Crowd, *, rounds: int, target: PrivacyTarget | None) -> None:
        plan = people.plan
        self._people, self._rounds, self._target = people, rounds, target
        self.experiment = plan.experiment()
        path = folder / "people.jsonl"
        path.write_bytes(_file(people))
        self._federation = Federation(
            folder,
            hosts=[HostOf(path, 0, len(people))],
            seed=plan.device_seed.decode(),
            pace=PACE,
            witnesses=1,
            covered=target is not None,
        )
        #: What an auditor found from outside after the last round.
        self.faults: list[str] = []
        #: Who is not paused.
        self._awake: NDArray[np.bool_] = np.ones(len(people), dtype=np.bool_)

    def run(self, present: Sequence[Present]) -> list[Published]:
        """All rounds with these devices, and what was published after each."""
        found: list[Published] = []
        with self._federation as federation:
            federation.start_servers()
            federation.begin(self._specification())
            assert federation.document is not None
            # With a guarantee the coordinator plans cover, and B.
            self.experiment = federation.document.experiment
            self._wake_only(present[0].here)
            # Devices that have just joined would ask for the manifest before they look whether they are paused.
            for name in federation.host_names:
                federation.kill(name)
                federation.restart(name)
                federation.patiently(lambda name=name: federation.answer(name, "/health"), name)  # type: ignore[misc]
            for number, one in enumerate(present, start=1):
                coming = present[number].here if number < len(present) else one.here
                federation.play_round(
                    number,
                    attending=int(one.here.sum()),
                    budget=self.experiment.budget or 0,
                    before_closing=lambda coming=coming: self._wake_only(coming),  # type: ignore[misc]
                )
                found.append(published(federation, number))
            self.faults = from_outside(federation)[0]
        return found

    def _wake_only(self, here: NDArray[np.bool_]) -> None:
        """Pause everybody else."""
        for number in np.flatnonzero(here != self._awake).tolist():
            state = DeviceState(self._federation.folder / "devices" / f"{number:06d}")
            state.set_status(self._federation.digest, Status.JOINED if here[number] else Status.PAUSED)
            state.close()
        self._awake = here.copy()

    def _specification(self) -> dict[str, Any]:
        plan, experiment = self._people.plan, self.experiment
        rule = experiment.rule
        descent: dict[str, Any] = {"rule": rule.name, "thinning": str(experiment.thinning)}
        if isinstance(rule, Pegasos):
            descent |= {"lambda": str(rule.lambda_), "averaging": rule.averaging}
        else:
            descent["step_size"] = rule.parameters()["step_size"]
        told: dict[str, Any] = {
            "title": "A population in miniature",
            "labels": list(plan.labels),
            "floor": plan.floor,
            "features": {
                "source": "people-file",
                "description": "words",
                "presence": True,
                "per_participant": experiment.features_per_person,
            },
            "binning": {"bins": plan.bins, "salt": salt(plan.seed).hex()},
            "descent": descent,
            "class_weights": {plan.labels[1]: str(plan.learning.weight)},
            "budget": experiment.budget,
            "train_share": str(plan.train_share),
            "rounds": self._rounds,
        }
        if self._target is not None:
            del told["budget"]
            told["people"] = plan.people
            told["privacy"] = {
                "epsilon": str(self._target.epsilon),
                "delta": str(self._target.delta),
                "parts": _PARTS,
            }
        return told


def _file(people: Crowd) -> bytes:
    """Everybody as a line of a file of people."""
    plan = people.plan
    lines = []
    for first, words in plan.words.chunks(people.people.labels, plan.seed):
        for number, row in enumerate(words.tolist(), start=first):
            label = plan.labels[int(people.people.labels[number])]
            lines.append(orjson.dumps({"label": label, "features": [str(word) for word in row]}))
    return b"\n".join(lines) + b"\n"


def held_to_the_deployment(
    folder: Path, plan: Plan, rounds: int, target: PrivacyTarget | None = None, lonely: int | None = None
) -> tuple[int, set[int]]:
    """Every round's state and counts; how many devices there were, and the different numbers of them in a round.

    In the round ``lonely`` one device trains and one tests: enough for the relay, too few for the coordinator. With two
    relays' cover such a round is counted, and nothing is learnt from it.
    """
    people = crowd(replace(plan, stragglers=0.0), plan.days)
    there = Attendance(people.plan, people.people)
    present = [there.round(opening) for opening in openings(people.plan)[:rounds]]
    if lonely is not None:
        alone = np.zeros(len(people), dtype=np.bool_)
        here = present[lonely - 1].here
        alone[[np.flatnonzero(here & cohort)[0] for cohort in (people.train, ~people.train)]] = True
        present[lonely - 1] = replace(present[lonely - 1], here=alone)
    deployment = Deployment(folder, people, rounds=rounds, target=target)
    deployed = deployment.run(present)
    expected = simulated(people, deployment.experiment, present, origins_of(deployed))
    assert len(deployed) == rounds
    assert deployment.faults == []
    for number, ((state, tally), theirs) in enumerate(zip(expected, deployed, strict=True), start=1):
        assert (theirs.tally is None) == (number == lonely and target is None), number
        assert tally == theirs.tally, number
        assert state == theirs.state, number
    # There was something to be compared: units of both signs, and test people.
    tallies = [one.tally for one in deployed if one.tally is not None]
    assert all(sum(int(getattr(one, name).sum()) for one in tallies) for name in ("plus", "minus", "cells"))
    # Of few people noise may leave nobody, and then nothing is learnt.
    assert target is not None or len({one.state for one in deployed}) == rounds - (lonely is not None)
    return len(people), {int(one.here.sum()) for one in present}


@pytest.mark.takes(minutes=3)
def test_two_hundred_participants_and_ten_rounds_have_the_bytes_of_the_deployment(tmp_path: Path) -> None:
    # B is small, so that ten rounds of real sockets take seconds; some are cut by it.
    plan = Plan(
        people=188,
        words=TitleWords(per_person=20, vocabulary=2**12),
        rhythm=Rhythm(peak=1.0),
        bins=50,
        days=2,
        begin=12,
        floor=2,
        budget=4,
        learning=Learning(rule=Pegasos(lambda_=Fraction(1, 3)), thinning=Thinning(q=Fraction(1, 8))),
    )
    devices, there = held_to_the_deployment(tmp_path, plan, 10, lonely=4)
    assert devices >= 200
    # Not everybody is there in every round, and not the same ones.
    assert max(there) < devices
    assert len(there) > 3


@pytest.mark.takes(minutes=2)
def test_under_two_relays_cover_devices_that_come_and_go_have_the_bytes_of_the_deployment(tmp_path: Path) -> None:
    plan = Plan(
        people=40,
        words=TitleWords(per_person=6, vocabulary=2**9),
        rhythm=Rhythm(peak=0.8),
        bins=8,
        days=1,
        begin=12,
        floor=3,
        learning=Learning(rule=Swift(step_size=Fraction(5)), thinning=Thinning(rho=Fraction(1))),
    )
    target = PrivacyTarget(Fraction(8), Fraction(1, 1000))
    devices, there = held_to_the_deployment(tmp_path, plan, 4, target, lonely=3)
    # Whoever was away believes the rounds in between, and goes on.
    assert max(there) < devices
    assert len(there) > 1
