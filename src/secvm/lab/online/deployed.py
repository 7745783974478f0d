"""The same population once more, as real processes over real sockets: what a simulation is held to.

Every device of the plan becomes a participant of a federation (``testing.federation``), with the same features, label
and dice. Who is there in which round is the plan's; devices that are not are paused, as their person would pause them.
What the coordinator publishes after every round is compared with the simulation's round: state bytes, and every count.

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

from secvm.crypto.signing import Envelope
from secvm.errors import BadInputError
from secvm.lab.online.attendance import Attendance, Present
from secvm.lab.online.calendar import openings
from secvm.lab.online.crowd import Crowd, crowd, salt
from secvm.lab.online.plan import Plan
from secvm.lab.online.rounds import OnlineRounds
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.participant.state import DeviceState, Status
from secvm.protocol.blobs import decode_tally
from secvm.protocol.ending import Ending
from secvm.protocol.manifest import RoundManifest
from secvm.testing.federation import COORDINATOR, Federation, HostOf, Pace

#: Devices are few and their packages too: time may run quickly.
PACE = Pace(length_s=30, grace_s=4, lead_s=10, rate=30.0)


@dataclass(frozen=True, eq=False)
class Published:
    """What there is after a round: the state's bytes, and its tally unless it was abandoned."""

    state: bytes
    tally: Tally | None


@dataclass(frozen=True, slots=True)
class Cover:
    """A promise that the federation's coordinator plans cover for."""

    epsilon: float
    delta: float
    gamma: float


def attendance(plan: Plan, people: Crowd, rounds: int, first: int = 1) -> list[Present]:
    """Who is there in the rounds of a plan from the ``first`` on."""
    found = Attendance(plan, people.people)
    return [found.round(opening) for opening in openings(plan)[first - 1 : first - 1 + rounds]]


def simulated(people: Crowd, experiment: Experiment, present: Sequence[Present]) -> list[Published]:
    """The rounds as the simulation has them."""
    if experiment.cover is not None:
        people = people.one_per_bin()
    rounds = OnlineRounds(experiment, people, floor=people.plan.floor)
    found = []
    for one in present:
        played = rounds.play(one)
        found.append(Published(rounds.state.to_bytes(), None if played.abandoned else played.tally))
    return found


class Deployment:
    """A federation of a plan's devices."""

    def __init__(self, folder: Path, people: Crowd, *, rounds: int, hosts: int = 2, cover: Cover | None = None) -> None:
        plan = people.plan
        if plan.data is not None or plan.stragglers:
            raise BadInputError("a deployment is for made-up people, none of whom goes away within a round")
        self._people, self._rounds, self._cover = people, rounds, cover
        self.experiment = plan.experiment()
        path = folder / "people.jsonl"
        path.write_bytes(_file(people))
        cuts = np.linspace(0, len(people), hosts + 1).astype(int).tolist()
        self._federation = Federation(
            folder,
            hosts=[HostOf(path, low, high - low) for low, high in pairwise(cuts)],
            seed=plan.device_seed.decode(),
            pace=PACE,
            floor=2,
            witnesses=1,
        )
        #: Who is not paused.
        self._awake: NDArray[np.bool_] = np.ones(len(people), dtype=np.bool_)

    def run(self, present: Sequence[Present]) -> list[Published]:
        """All rounds with these devices, and what was published after each."""
        found = []
        with self._federation as federation:
            federation.start_servers()
            federation.begin(self._specification())
            assert federation.document is not None
            # With cover the coordinator plans it, and B.
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
                found.append(self._published(number))
        return found

    def _wake_only(self, here: NDArray[np.bool_]) -> None:
        """Pause everybody else."""
        for number in np.flatnonzero(here != self._awake).tolist():
            state = DeviceState(self._federation.folder / "devices" / f"{number:06d}")
            state.set_status(self._federation.digest, Status.JOINED if here[number] else Status.PAUSED)
            state.close()
        self._awake = here.copy()

    def _published(self, number: int) -> Published:
        federation = self._federation
        served = federation.following(number)
        assert served is not None
        kind = Ending if number == self._rounds else RoundManifest
        told = kind.from_bytes(Envelope.from_bytes(served).payload)
        assert told.last is not None
        tally = None
        if told.last.tally is not None:
            blob = federation.ask(COORDINATOR, "GET", f"/v1/blob/{told.last.tally}")
            tally = decode_tally(blob, digest=told.last.tally, experiment=self.experiment)
        return Published(federation.ask(COORDINATOR, "GET", f"/v1/blob/{told.state}"), tally)

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
        if self._cover is not None:
            del told["budget"]
            told["privacy"] = {
                "epsilon": repr(self._cover.epsilon),
                "delta": repr(self._cover.delta),
                "participants": plan.people,
                "gamma": repr(self._cover.gamma),
                "shape": 30,
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
