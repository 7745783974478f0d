"""Training what is missing: what is told of it meanwhile."""

from collections.abc import Iterator
from typing import Any

from secvm_lab.engine import Swept
from secvm_lab.paper.offline.crowd import MadeUpCrowd
from secvm_lab.paper.offline.models import Model, Stored
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.offline.training import LocalSweeper, Trainer
from secvm_lab.paper.twitter.people import TwitterPeople


def test_repro_models_that_begin_anew_do_not_count_twice() -> None:
    """Where lanes were full, models that parted were trained another time, and progress went past its end."""

    def more_often(*given: Any, progress: Any, **settings: Any) -> Iterator[Swept]:
        for number in range(1, 4):
            progress(0, 3, number)
        yield from LocalSweeper()(*given, progress=progress, **settings)

    crowd = MadeUpCrowd(TwitterPeople(n_people=40, words_per_person=20), 1)
    splits = Splits.draw(40, 3, 1)
    told: list[int] = []
    models = [Model(split, 30, 1, "5a17", "1e-4", 2, 4) for split in range(3)]
    assert len(Trainer(crowd, splits, Stored(None), more_often).train(models, told.append)) == 3
    assert sum(told) == 3 * 4
