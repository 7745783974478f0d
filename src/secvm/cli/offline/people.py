"""The people of a file as the learning commands take them: words of JSON lines and svmlight, or columns.

Columns of CSV and Parquet become words and levels exactly as data frames do for the estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from secvm.cli.output import note, progress
from secvm.errors import BadInputError
from secvm.estimator.model import ModelFile
from secvm.estimator.offline_run import train_bins_only
from secvm.learning.individual.binning import Binning, HashBinning
from secvm.people.columns import Columns, has_columns, read_columns
from secvm.people.person import LabelCodes, People
from secvm.people.reader import Progress, read_people

if TYPE_CHECKING:
    from secvm.estimator.binner import FeatureBinner
    from secvm.estimator.frames.plan import FramePlan

PeopleArgument = Annotated[
    Path,
    typer.Argument(help="JSON lines, svmlight, CSV or Parquet; .gz or plain.", show_default=False, metavar="PEOPLE"),
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        help="The label, of CSV and Parquet.", metavar="COLUMN", show_default=False, rich_help_panel="Features"
    ),
]
#: How many there are → who of them trains.
WhoTrains = Callable[[int], NDArray[np.bool_]]
#: What gives the bins that public numbers suggest → those that are wanted; None for unhashed.
Wanted = Callable[[Callable[[], int]], Binning | None]


@dataclass(frozen=True, eq=False)
class Read:
    """A file that was read to train on, and how another one is read for the same model."""

    folk: People
    in_train: NDArray[np.bool_]
    #: What was made of columns, where there were some.
    frame: FramePlan | None
    #: Reads test people.
    testers: Callable[[Path], People]


def read_to_train(path: Path, wanted: Wanted, *, label: str | None, values: str, who_trains: WhoTrains) -> Read:
    """The people who train, and those of the same file who test; unhashed, their words are the bins."""
    if has_columns(path):
        return _columns_to_train(path, wanted, label=label, values=values, who_trains=who_trains)
    refuse_label(path, label)
    presence = values in ("presence", "one-per-bin")
    binning = wanted(lambda: _public_bins([["a word"]]))
    folk = _read_lines(path, binning, presence=presence)
    in_train = who_trains(len(folk))
    if binning is None:
        folk = train_bins_only(folk, in_train)
    return Read(folk, in_train, None, lambda test: _read_lines(test, folk.binning, presence=presence))


def read_for_model(model: ModelFile, path: Path, *, label: str | None, labels_required: bool) -> People:
    """People as a trained model takes them."""
    if model.quantiser is not None:
        raise BadInputError("this model was trained on columns of numbers; use it from Python")
    if has_columns(path) != (model.frame is not None):
        trained = "columns; give it CSV or Parquet" if model.frame else "words; give it JSON lines or svmlight"
        raise BadInputError(f"{path}: this model was trained on {trained}")
    if model.frame is None:
        refuse_label(path, label)
        folk = read_people(path, model.binning, presence=model.presence, labels_required=labels_required)
        return replace(folk, rows=folk.rows.present()) if model.one_per_bin else folk
    from secvm.estimator import FeatureBinner

    table = read_columns(path, label, labels_required=labels_required, texts=_texts(model.frame))
    return _people(table, FeatureBinner.of_model(model))


def _public_bins(people: Any) -> int:
    # Late: it looks at columns, and brings scipy along.
    from secvm.estimator.frames.plan import public_bins

    return public_bins(people)


def refuse_label(path: Path, label: str | None) -> None:
    """Lines of people name their label themselves."""
    if label is not None:
        raise BadInputError(
            f"{path}: --label names a column, and this file has none: it is neither CSV nor Parquet by its name"
        )


def _columns_to_train(path: Path, wanted: Wanted, *, label: str | None, values: str, who_trains: WhoTrains) -> Read:
    from secvm.estimator import FeatureBinner

    table = read_columns(path, label)
    in_train = who_trains(len(table))
    binning = wanted(lambda: _public_bins(table.frame))
    hashed = binning if isinstance(binning, HashBinning) else None
    binner = FeatureBinner(
        n_bins=hashed.n_bins if hashed else None,
        n_hashes=hashed.n_hashes if hashed else 1,
        salt=hashed.salt if hashed else None,
        values=values,
    )
    binner.fit(table.frame, sample_weight=in_train.astype(np.float64))
    if binning is not None:
        binner.binning_ = binning
    plan = binner.frame_
    assert plan is not None
    for doubt in plan.doubts():
        note(f"secvm: {doubt}")
    folk = _people(table, binner)
    if hashed:
        folk = replace(folk, n_features=len(plan.features(table.frame).words))

    def testers(test: Path) -> People:
        if not has_columns(test):
            raise BadInputError(f"{test}: those who train have columns, and those who test have none")
        return _people(read_columns(test, label, texts=_texts(plan)), binner)

    return Read(folk, in_train, plan, testers)


def _texts(plan: FramePlan) -> Collection[str]:
    return [column.name for column in plan.columns if column.kind in ("words", "text")]


def _people(table: Columns, binner: FeatureBinner) -> People:
    """Columns as rows of bins. Nobody's features are drawn: who trains is cut to its contribution later."""
    labels = LabelCodes()
    codes = np.array([labels.code(label) for label in table.labels], dtype=np.int32)
    names, codes = labels.finish(codes)
    return People(binner.rows(table.frame, whole=True), names, codes, binner.binning_, None)


def _read_lines(path: Path, binning: Binning | None, *, presence: bool) -> People:
    with _percent(f"reading {path.name}") as moved:
        count = isinstance(binning, HashBinning)
        return read_people(path, binning, presence=presence, count_features=count, on_progress=moved)


@contextmanager
def _percent(description: str) -> Iterator[Progress]:
    with progress(description, 100) as advance:
        shown = 0

        def moved(done: int, total: int) -> None:
            nonlocal shown
            percent = 100 * done // max(1, total)
            advance(percent - shown)
            shown = percent

        yield moved
