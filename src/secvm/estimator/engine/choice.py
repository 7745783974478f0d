"""Which training to take for one model: the engine where it can do what is asked and there is enough to do.

An engine's loops are compiled anew after each update of SecVM, which small trainings would feel.
"""

from __future__ import annotations

from secvm.estimator.engine.lane import why_not, why_not_single
from secvm.estimator.training import Attendance, OfflineTraining, Population
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.experiment import Experiment

#: Entries times rounds from which on the engine is taken: a few seconds of the plain kernels.
ENOUGH = 2 * 10**9


def training_for(
    experiment: Experiment,
    people: Population,
    *,
    rounds: int,
    attendance: Attendance | None = None,
    seed: bytes = b"",
    threads: int = 1,
) -> OfflineTraining:
    """The quickest training that does what is asked; all give the same states."""
    plain = (
        people.multiplicity is None
        and attendance is None
        and (people.train is None or bool(people.train.any()))
        and len(people.rows.bins) * rounds >= ENOUGH
        and kernels().name == "fast"
    )
    if plain and why_not(experiment) is None:
        from secvm.estimator.engine.training import EngineTraining  # late: here numba comes in

        return EngineTraining(experiment, people, seed=seed, threads=threads)
    if plain and why_not_single(experiment) is None:
        from secvm.estimator.engine.single import SingleTraining  # late: as above

        return SingleTraining(experiment, people, seed=seed, threads=threads)
    return OfflineTraining(experiment, seed=seed, threads=threads)
