"""The same population once more, as real processes over real sockets: what a simulation is held to.

Every device of the plan becomes a participant of a federation (``testing.federation``), with the same features, label
and dice. Who is there in which round is the plan's; devices that are not are paused, as their person would pause them.
What the coordinator publishes after every round is compared with the simulation's round: state bytes, and every count.
With a ``PrivacyTarget`` two relays add cover. Their dice are seeded and their openings published: so the simulation has
the very cover of the deployment.

Nobody straggles here: a federation waits until every package is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.round_cover import CoverOrigins
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.participant.storage.state import DeviceState, Status
from secvm.privacy.target import PrivacyTarget
from secvm.testing.federation import Federation, HostOf, Pace
from secvm_lab.online.population.attendance import Attendance, Present
from secvm_lab.online.population.calendar import openings
from secvm_lab.online.population.crowd import Crowd, crowd, salt
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.rounds import OnlineRounds
from secvm_lab.published import Published, from_outside, published

#: S: a round of few devices and bins is done in seconds.
_PARTS = 4
#: Devices are few and their packages too: time may run quickly.
PACE = Pace(length_s=30, grace_s=4, lead_s=10, rate=30.0)


@dataclass(frozen=True, eq=False)
class Simulated:
    """What there is after a round: the state's bytes, and its tally, where one is published."""

    state: bytes
    tally: Tally | None


def attendance(plan: Plan, people: Crowd, rounds: int, first: int = 1) -> list[Present]:
    """Who is there in the rounds of a plan from the ``first`` on."""
    found = Attendance(plan, people.people)
    return [found.round(opening) for opening in openings(plan)[first - 1 : first - 1 + rounds]]


def simulated(
    people: Crowd, experiment: Experiment, present: Sequence[Present], origins: CoverOrigins | None = None
) -> list[Simulated]:
    """The rounds as the simulation has them; ``origins``: what the openings of a deployment say of relays' cover."""
    covered = experiment.cover is not None
    rounds = OnlineRounds(
        experiment, people.one_per_bin() if covered else people, floor=people.plan.floor, origins=origins
    )
    found = []
    for one in present:
        played = rounds.play(one)
        # With two relays a round that is not stepped is counted all the same.
        tally = None if played.abandoned and not covered else played.tally
        found.append(Simulated(rounds.state.to_bytes(), tally))
    return found


class Deployment:
    """A federation of a plan's devices."""

    def __init__(
        self, folder: Path, people: Crowd, *, rounds: int, hosts: int = 2, target: PrivacyTarget | None = None
    ) -> None:
        plan = people.plan
        if plan.data is not None or plan.stragglers:
            raise BadInputError("a deployment is for made-up people, none of whom goes away within a round")
        self._people, self._rounds, self._target = people, rounds, target
        self.experiment = plan.experiment()
        path = folder / "people.jsonl"
        path.write_bytes(_file(people))
        cuts = np.linspace(0, len(people), hosts + 1).astype(int).tolist()
        self._federation = Federation(
            folder,
            hosts=[HostOf(path, low, high - low) for low, high in pairwise(cuts)],
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


def small_crowd(plan: Plan) -> Crowd:
    """The devices of a plan, with nobody who goes away within a round."""
    return crowd(replace(plan, stragglers=0.0), plan.days)


def _file(people: Crowd) -> bytes:
    """Everybody as a line of a file of people."""
    plan = people.plan
    lines = []
    for first, words in plan.words.chunks(people.people.labels, plan.seed):
        for number, row in enumerate(words.tolist(), start=first):
            label = plan.labels[int(people.people.labels[number])]
            lines.append(orjson.dumps({"label": label, "features": [str(word) for word in row]}))
    return b"\n".join(lines) + b"\n"
