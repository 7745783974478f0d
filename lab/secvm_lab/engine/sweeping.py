"""sweep: any number of models over the same people, sixteen lanes at a time.

Models that are bound to agree for a while, because they differ in λ or in averaging alone, share a lane until their
violators differ (``company``). Each comes out, in the order given, with its curve and its last state as soon as its
group is done, so that who is interrupted keeps what came out before. A group needs memory for its own states only, and
has fewer lanes where bins are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import PreparedRows
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm_lab.engine.collapsed import CollapsedRows
from secvm_lab.engine.cuda.device import Gpu
from secvm_lab.engine.cuda.sweeping import sweep_on
from secvm_lab.engine.engine import WIDTHS, Engine, lane_bytes, lay_out
from secvm_lab.engine.people import LaidOutPeople
from secvm_lab.engine.swept import Progress, Swept, rounds_to_evaluate

#: What the lanes of a group may take together, people's own share left out.
_MEMORY = 5 * 2**30


def sweep(
    people: PreparedRows | BinnedRows | CollapsedRows,
    labels: NDArray[np.int64],
    experiments: Sequence[Experiment],
    *,
    train: NDArray[np.bool_] | None = None,
    test: NDArray[np.bool_] | None = None,
    rounds: int,
    evaluate: Sequence[int] | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    share: bool = True,
    states: bool | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Iterator[Swept]:
    """Train all models for ``rounds`` rounds.

    Args:
        people: binned rows, or rows laid out already, their own words collapsed or not.
        experiments: one for each model; they share bins and labels.
        train: people x models, True where a person trains a model; None: everybody trains all.
        test: people x models, True where a model predicts a person; None: everybody who does not train the model.
        evaluate: rounds after which test people are predicted; None: all.
        share: let models share a lane while they agree; results are the same.
        states: whether to give states; None: unless own words are collapsed, for then a state is mostly made of them.
        device: where; the results are the same. A GPU takes binned rows, and shares no lanes.
    """
    if device == "cuda":
        if not isinstance(people, BinnedRows):
            raise BadInputError("a GPU takes binned rows, and lays them out in its own way")
        asked: dict[str, Any] = {"train": train, "test": test, "evaluate": evaluate, "progress": progress}
        yield from sweep_on(Gpu(), people, labels, experiments, rounds=rounds, states=states is not False, **asked)
        return
    wanted = rounds_to_evaluate(rounds, evaluate, {"train": train, "test": test}, (len(labels), len(experiments)))
    if states is None:
        states = not isinstance(people, CollapsedRows)
    crowd = lay_out(people, labels, threads)
    job = _Job(crowd, labels, experiments, train, test, rounds, wanted, progress, share, states)
    left, done = list(range(len(experiments))), dict[int, Swept]()
    given = 0
    while left:
        done |= {one.model: one for one in job.train_some(left, given + len(done))}
        left = [model for model in left if model not in done]
        while given in done:
            yield done.pop(given)
            given += 1


@dataclass(frozen=True, eq=False, repr=False)
class _Job:
    """What does not change from group to group."""

    people: LaidOutPeople
    labels: NDArray[np.int64]
    experiments: Sequence[Experiment]
    train: NDArray[np.bool_] | None
    test: NDArray[np.bool_] | None
    rounds: int
    wanted: tuple[int, ...]
    progress: Progress | None
    share: bool
    states: bool

    def train_some(self, left: Sequence[int], n_done: int) -> Iterator[Swept]:
        """As many of the first models as there is room for; at least one."""
        group = self._group(left)
        train, test = (None if table is None else table[:, group] for table in (self.train, self.test))
        engine = Engine(
            self.people,
            self.labels,
            [self.experiments[model] for model in group],
            train=train,
            test=test,
            share=self.share,
            room=self._room,
        )
        cells = []
        for t in range(1, self.rounds + 1):
            engine.advance()
            if t in self.wanted:
                cells.append(engine.cells())
            if self.progress is not None:
                self.progress(n_done, len(group) - len(engine.put_off), t)
        table = np.stack(cells) if cells else np.zeros((0, len(group), 2, 2), np.int64)
        put_off = set(engine.put_off)
        for k, model in enumerate(group):
            if k not in put_off:
                yield Swept(
                    model,
                    engine.state(k) if self.states else State(rule=Pegasos.name, step=engine.step, vectors={}),
                    np.ascontiguousarray(table[:, k]),
                    self.wanted,
                    tuple(engine.two_cycles[k].spells),
                    engine.score_passes,
                    engine.shared_rounds(k),
                )

    @property
    def _room(self) -> int:
        """Lanes for which there is memory."""
        longest = max((e.rule.averaging for e in self.experiments if isinstance(e.rule, Pegasos)), default=1)
        each = lane_bytes(self.people.n_lines, longest)
        return max(width for width in WIDTHS if width == 1 or width * each <= _MEMORY)

    def _group(self, left: Sequence[int]) -> list[int]:
        """The first models that find room, those who can share a lane with them included.

        A lane may part, and those who then find no room come again; each group ends with all its lanes in use.
        """
        if not self.share:
            return list(left[: self._room])
        group, seen = [], set()
        for model in left:
            experiment = self.experiments[model]
            masks = (None if t is None else np.packbits(t[:, model]).tobytes() for t in (self.train, self.test))
            seen.add((experiment.loss, experiment.class_weights, *masks))
            if len(seen) > self._room:
                break
            group.append(model)
        return group
