"""SecVMClassifier() with no argument beside LinearSVC, default and tuned, on data sets that nobody chose for it.

Accuracy is the mean over random splits, three quarters to train and one to test, with its standard error. Both are
fitted on the same people of the same matrix: words as there or not (LinearSVC, too, is better with them so;
``--counts`` takes counts), svmlight as written, numbers scaled for the peer by StandardScaler and columns of a data
frame one-hot by OneHotEncoder, which SecVM does by itself. "tuned" is LinearSVC with C of .001 to 10 by a
cross-validation of its own in each split. The difference is taken to the better of both, split by split; splits share
people, so that the true error of a difference is somewhat larger than the one printed. Times are CPU seconds of one
``fit``, compiled beforehand (of tuned: of the search); memory is the most that a process has which holds the data and
fits once.

``--data`` takes a folder: each file of people in it or in a folder of it is a data set (JSON lines, svmlight, CSV,
Parquet; .gz), files called train and test are one together. Without it: what scikit-learn has, and made-up people,
with a data frame of ages, incomes, cities and dates, plain and under ε = 4.

    ./secvm bench estimator [--data FOLDER] [--splits 10] [--only NAME ...] [--format json]
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._data_sets import DataSet, carried_along, found_in, mixed_frame
from benchmarks._measuring import in_a_process, memory_mb, say
from secvm.cli.output import table
from secvm.errors import BadInputError

_OURS, _DEFAULT, _TUNED = "secvm", "linear_svc", "linear_svc_tuned"
_C = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Points that may be lost against the better of both; of the mixed data frame, plain and under ε.
_GOAL, _GOAL_FRAME, _GOAL_PRIVATE = 0.5, 1.0, 3.0
_EPSILON = 4.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--data", type=Path, help="folder with files of people")
    parser.add_argument(
        "--label", help="column with the label in CSV and Parquet; else label, target, class, y, or the last"
    )
    parser.add_argument("--counts", action="store_true", help="words as often as they come")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="+", help="these data sets", metavar="NAME")
    parser.add_argument("--people", type=int, default=20_000, help="of the made-up data frame")
    parser.add_argument("--params", type=_parameters, default={}, help="SecVM's parameters instead, e.g. rounds=20")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All data sets."""
    if arguments.splits < 2:
        raise BadInputError("--splits must be at least 2: one split has no standard error")
    began = time.perf_counter()
    rows, refused = {}, {}
    for data, goal, more in _asked_for(arguments):
        name = data.name if not more else f"{data.name}, ε = {more['epsilon']:g}"
        if arguments.only and not any(wanted in name for wanted in arguments.only):
            continue
        try:
            rows[name] = _row(name, data, arguments.splits, goal=goal, parameters=arguments.params | more)
        except ValueError as error:
            # The table of the others is worth having, too.
            refused[name] = str(error)
            say(f"{name}: {error}")
    if not rows and not refused:
        raise BadInputError("there is no data set to compare on")
    return {
        "data_sets": rows,
        "refused": refused,
        "all_met": not refused and all(row["met"] for row in rows.values()),
        "splits": arguments.splits,
        "seconds": round(time.perf_counter() - began),
    }


def as_text(result: Mapping[str, Any]) -> str:
    """The table for people."""
    head: tuple[str, ...] = (
        "data",
        "people",
        "features",
        "labels",
        "SecVM",
        "LinearSVC",
        "tuned",
        "difference",
        "goal",
        "met",
    )
    head += ("fit s", "LinearSVC", "tuned", "MB", "LinearSVC")
    lines = [head]
    for name, row in result["data_sets"].items():
        accuracies = [f"{row[who]['accuracy']:.4f} ±{row[who]['error']:.4f}" for who in (_OURS, _DEFAULT, _TUNED)]
        difference = f"{row['difference']:+.2f} ±{row['difference_error']:.2f}"
        seconds = [f"{row[who]['fit_s']:.2f}" for who in (_OURS, _DEFAULT, _TUNED)]
        memory = [f"{row[who]['peak_mb']:.0f}" for who in (_OURS, _DEFAULT)]
        sizes = [f"{row[size]:,}" for size in ("people", "features", "labels")]
        met = "met" if row["met"] else "missed"
        lines.append((name, *sizes, *accuracies, difference, f"{row['goal']:+.1f}", met, *seconds, *memory))
    lines_refused = [f"{name}: {sentence}" for name, sentence in result["refused"].items()]
    share = "all" if result["all_met"] else "not all"
    last = f"{result['splits']} splits, {result['seconds']} s; difference in points, {share} goals met"
    return "\n".join([*table(lines), *lines_refused, last])


def _asked_for(arguments: argparse.Namespace) -> Iterator[tuple[DataSet, float, dict[str, Any]]]:
    """Data sets, what may be lost on them, and parameters of SecVM that are not the default."""
    if arguments.data is not None:
        for data in found_in(arguments.data, counts=arguments.counts, label=arguments.label):
            yield data, -_GOAL, {}
        return
    for data in carried_along():
        yield data, -_GOAL, {}
    frame = mixed_frame(arguments.people)
    yield frame, -_GOAL_FRAME, {}
    yield frame, -_GOAL_PRIVATE, {"epsilon": _EPSILON}


def _row(name: str, data: DataSet, splits: int, *, goal: float, parameters: dict[str, Any]) -> dict[str, Any]:
    """One data set: accuracies, times and memory of all three, and the difference."""
    from sklearn.model_selection import GridSearchCV

    from secvm.estimator import SecVMClassifier

    fewest = np.unique(data.y, return_counts=True)[1].min()
    contestants: dict[str, Callable[[int], Any]] = {
        _OURS: lambda split: SecVMClassifier(random_state=split, **parameters),
        _DEFAULT: lambda _: data.peer(),
        _TUNED: lambda _: GridSearchCV(data.peer(), {"linearsvc__C": _C}, cv=3),
    }
    found: dict[str, list[float]] = {who: [] for who in contestants}
    seconds: dict[str, list[float]] = {who: [] for who in contestants}
    for split in range(splits):
        train, test = _split(data, split, stratified=bool(fewest >= 4))
        if split == 0:
            _quietly(contestants[_OURS](0).fit, _take(data.X, train), data.y[train])  # compiles
        for who, make in contestants.items():
            model, began = make(split), time.process_time()
            _quietly(model.fit, _take(data.X, train), data.y[train])
            seconds[who].append(time.process_time() - began)
            found[who].append(float((model.predict(_take(data.X, test)) == data.y[test]).mean()))
        say(f"{name}: split {split + 1} of {splits}: " + ", ".join(f"{who} {found[who][-1]:.4f}" for who in found))
    row: dict[str, Any] = {"people": len(data.y), "features": data.features, "labels": len(np.unique(data.y))}
    row["form"] = data.form
    for who in contestants:
        row[who] = {"accuracy": round(float(np.mean(found[who])), 4), "error": round(_error(found[who]), 4)}
        row[who]["fit_s"] = round(float(np.mean(seconds[who])), 3)
    for who, megabytes in _memory(data, parameters).items():
        row[who]["peak_mb"] = megabytes
    better = max((_DEFAULT, _TUNED), key=lambda who: float(np.mean(found[who])))
    differences = 100 * (np.array(found[_OURS]) - np.array(found[better]))
    difference = round(float(differences.mean()), 3)
    return row | {
        "better": better,
        "difference": difference,
        "difference_error": round(_error(differences.tolist()), 3),
        "goal": goal,
        "met": difference >= goal,
    }


def _split(data: DataSet, seed: int, *, stratified: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    from sklearn.model_selection import train_test_split

    stratify = data.y if stratified else None
    train, test = train_test_split(np.arange(len(data.y)), test_size=0.25, random_state=seed, stratify=stratify)
    return train, test


def _take(X: Any, where: NDArray[np.int64]) -> Any:
    return X.iloc[where] if hasattr(X, "iloc") else X[where]


def _error(values: list[float]) -> float:
    """Of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _quietly(fit: Callable[..., Any], *arguments: Any) -> None:
    """Without the warnings that LinearSVC's default iterations are too few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(*arguments)


def _memory(data: DataSet, parameters: dict[str, Any]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(pickle.dumps(data, protocol=5))
        measured = {who: in_a_process(peak_mb, str(path), who, parameters) for who in (_OURS, _DEFAULT)}
    return {who: round(megabytes, 1) for who, megabytes in measured.items()}


def peak_mb(path: str, who: str, parameters: dict[str, Any]) -> float:
    """The most that this process ever had, after one fit."""
    data = pickle.loads(Path(path).read_bytes())
    if who == _OURS:
        from secvm.estimator import SecVMClassifier

        model: Any = SecVMClassifier(random_state=0, **parameters)
    else:
        model = data.peer()
    train, _ = _split(data, 0, stratified=False)
    _quietly(model.fit, _take(data.X, train), data.y[train])
    return memory_mb()


def _parameters(text: str) -> dict[str, Any]:
    """NAME=VALUE,NAME=VALUE; values as Python writes them, or text."""
    from ast import literal_eval

    def value(word: str) -> Any:
        try:
            return literal_eval(word)
        except (ValueError, SyntaxError):
            return word

    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    return {name: value(word) for name, _, word in pairs}
