"""sweep_on: any number of models over the same people on a GPU, as many at a time as its memory holds.

What ``engine.sweep`` gives, model by model, with the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm_lab.engine.cuda.device import Device
from secvm_lab.engine.cuda.engine import MOST_MODELS, CudaEngine
from secvm_lab.engine.cuda.people import DevicePeople
from secvm_lab.engine.swept import Progress, Swept, rounds_to_evaluate

#: The share of the free memory that models of one pass take: the rest is for what a round makes.
_SHARE = 0.8


def sweep_on(
    device: Device,
    people: DevicePeople | BinnedRows,
    labels: NDArray[np.int64],
    experiments: Sequence[Experiment],
    *,
    train: NDArray[np.bool_] | None = None,
    test: NDArray[np.bool_] | None = None,
    rounds: int,
    evaluate: Sequence[int] | None = None,
    progress: Progress | None = None,
    states: bool = True,
) -> Iterator[Swept]:
    """Train all models for ``rounds`` rounds; the arguments are those of ``engine.sweep``."""
    wanted = rounds_to_evaluate(rounds, evaluate, {"train": train, "test": test}, (len(labels), len(experiments)))
    crowd = DevicePeople.of_rows(device, people) if isinstance(people, BinnedRows) else people
    left, done = list(range(len(experiments))), dict[int, Swept]()
    given = 0
    while left:
        group = _group(crowd, experiments, left)
        tables = {
            name: None if table is None else table[:, group] for name, table in (("train", train), ("test", test))
        }
        engine = CudaEngine(crowd, labels, [experiments[model] for model in group], **tables)
        cells = []
        for t in range(1, rounds + 1):
            engine.advance()
            if t in wanted:
                cells.append(engine.cells())
            if progress is not None:
                progress(given + len(done), len(group), t)
        table = np.stack(cells) if cells else np.zeros((0, len(group), 2, 2), np.int64)
        for k, model in enumerate(group):
            done[model] = Swept(
                model,
                engine.state(k) if states else State(rule=Pegasos.name, step=engine.step, vectors={}),
                np.ascontiguousarray(table[:, k]),
                wanted,
                tuple(engine.two_cycles[k].spells),
                float(engine.score_passes[k]),
            )
        del engine
        left = [model for model in left if model not in done]
        while given in done:
            yield done.pop(given)
            given += 1


def _group(people: DevicePeople, experiments: Sequence[Experiment], left: Sequence[int]) -> list[int]:
    """The first models that average alike and find room together; at least one."""
    rules = [experiments[model].rule for model in left]
    if not all(isinstance(rule, Pegasos) for rule in rules):
        raise BadInputError("a sweep on a GPU trains by pegasos")
    first = rules[0]
    assert isinstance(first, Pegasos)
    alike = [model for model, rule in zip(left, rules, strict=True) if getattr(rule, "averaging", 0) == first.averaging]
    each = CudaEngine.bytes_for(people.n_people, people.n_bins, first.averaging)
    return alike[: min(MOST_MODELS, max(1, int(_SHARE * people.device.free()) // each))]
