"""Data sets for benchmarks that are compared with a peer: files of people, what scikit-learn carries, and made-up ones.

Each is what its user would hand to an estimator: words as a sparse matrix, numbers as an array, columns as a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks._measuring import say
from secvm.errors import BadInputError
from secvm.people.columns import read_columns
from secvm.people.reader import read_people
from secvm_lab.population import ZipfPeople

_WORDS, _SVMLIGHT = (".jsonl", ".ndjson", ".json"), (".svm", ".svmlight", ".libsvm")
_COLUMNS = (".csv", ".tsv", ".parquet")
#: Names of a column that holds the label, where nobody names it; else it is the last one.
_LABELS = ("label", "target", "class", "y")


@dataclass(frozen=True, eq=False)
class DataSet:
    """People and their labels."""

    name: str
    #: What stands in a person's row.
    form: str
    X: Any
    y: NDArray[Any]

    @property
    def features(self) -> int:
        """Columns of the matrix or the data frame."""
        return int(self.X.shape[1])

    def peer(self, C: float = 1.0) -> Any:
        """LinearSVC as its documentation has it for such data: columns scaled, words of columns one-hot."""
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
        from sklearn.svm import LinearSVC

        svm = LinearSVC(C=C, random_state=0)
        if sp.issparse(self.X):
            return make_pipeline(svm)
        if isinstance(self.X, np.ndarray):
            return make_pipeline(StandardScaler(), svm)
        numbers = self.X.select_dtypes("number").columns.tolist()
        days = self.X.select_dtypes("datetime").columns.tolist()
        others = [name for name in self.X.columns if name not in (*numbers, *days)]
        columns = make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            (make_pipeline(FunctionTransformer(_days), SimpleImputer(), StandardScaler()), days),
            (OneHotEncoder(handle_unknown="ignore"), others),
        )
        return make_pipeline(columns, svm)


def _days(dates: Any) -> Any:
    """Days since 1970, as numbers."""
    return (dates - np.datetime64("1970-01-01", "s")) / np.timedelta64(1, "D")


def found_in(folder: Path, *, counts: bool, label: str | None) -> Iterator[DataSet]:
    """A data set for each file of people in a folder and the folders of it; ``train`` and ``test`` of one are joined.

    What is no file of people is left out, and said.
    """
    if not folder.is_dir():
        raise BadInputError(f"--data: there is no folder {folder}")
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        files = {path: _suffix(path) for path in sorted(place.iterdir()) if path.is_file()}
        files = {path: suffix for path, suffix in files.items() if suffix in (*_WORDS, *_SVMLIGHT, *_COLUMNS)}
        halves = [path for path in files if path.name.partition(".")[0] in ("train", "test")]
        whole = [[path] for path in files if path not in halves]
        for paths in [halves, *whole] if halves else whole:
            # A folder with one data set names it; names of several files tell them apart.
            name = place.name if len(whole) + bool(halves) == 1 and place != folder else paths[0].name.partition(".")[0]
            name = name if place == folder or name == place.name else f"{place.name}/{name}"
            try:
                data = _read(name, paths, files[paths[0]], counts=counts, label=label)
                _refuse_what_are_no_classes(data)
            except ValueError as error:
                say(f"left out: {name}: {error}")
            else:
                yield data


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])


def _read(name: str, paths: list[Path], suffix: str, *, counts: bool, label: str | None) -> DataSet:
    if suffix in _COLUMNS:
        return _of_frame(name, paths, label)
    if suffix in _SVMLIGHT:
        from sklearn.datasets import load_svmlight_files

        loaded = load_svmlight_files([str(path) for path in paths])
        return DataSet(name, "svmlight as written", sp.vstack(loaded[::2]).tocsr(), np.concatenate(loaded[1::2]))
    folks = [read_people(path, None) for path in paths]
    words = sorted({word for folk in folks for word in folk.binning.words})  # type: ignore[union-attr]  # none was given
    place = {word: k for k, word in enumerate(words)}
    tables = []
    for folk in folks:
        columns = np.array([place[word] for word in folk.binning.words], dtype=np.int32)  # type: ignore[union-attr]
        rows, shape = folk.rows, (len(folk), len(words))
        tables.append(sp.csr_matrix((rows.values.astype(np.float64), columns[rows.bins], rows.indptr), shape=shape))
    matrix = sp.vstack(tables).tocsr()
    if not counts:
        matrix.data = np.ones_like(matrix.data)
    labels = np.array([text for folk in folks for text in folk.label_texts])
    return DataSet(name, "words, counted" if counts else "words, there or not", matrix, labels)


def _of_frame(name: str, paths: list[Path], label: str | None) -> DataSet:
    import pandas as pd

    found = [read_columns(path, None, labels_required=False).frame for path in paths]
    frames = [each.to_pandas() if hasattr(each, "to_pandas") else pd.DataFrame(each) for each in found]
    frame = pd.concat(frames, ignore_index=True)
    named = [column for column in frame.columns if column == label or (label is None and column.lower() in _LABELS)]
    if not named and label is not None:
        raise BadInputError(f"there is no column '{label}'")
    column = named[0] if named else frame.columns[-1]
    frame = frame[frame[column].notna()].reset_index(drop=True)
    return DataSet(name, f"columns, label {column}", frame.drop(columns=column), frame[column].to_numpy())


def _refuse_what_are_no_classes(data: DataSet) -> None:
    if data.y.dtype.kind == "f" and (data.y != np.rint(data.y)).any():
        raise BadInputError("its label is a number, and classes are compared here")
    classes = len(np.unique(data.y))
    if not 2 <= classes <= len(data.y) // 4:
        raise BadInputError(f"{classes} labels for {len(data.y)} people")


def carried_along() -> Iterator[DataSet]:
    """What scikit-learn has without a network, and made-up people whose words follow Zipf."""
    from sklearn import datasets

    for load in (datasets.load_breast_cancer, datasets.load_digits, datasets.load_wine, datasets.load_iris):
        X, y = load(return_X_y=True)
        yield DataSet(load.__name__.removeprefix("load_"), "numbers", X, y)
    words, sides = ZipfPeople(n_people=6_000, words_per_person=60, vocabulary=20_000, label_noise=0.1).generate(1)
    ends = np.arange(len(words) + 1) * words.shape[1]
    matrix = sp.csr_matrix((np.ones(words.size), words.ravel(), ends), shape=(len(words), 20_000))
    yield DataSet("made-up words", "words, there or not", matrix, sides)


def mixed_frame(people: int, seed: int = 1) -> DataSet:
    """A data frame as people have them: ages, incomes, cities, dates, a flag, some ages missing."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, people).astype(float)
    income = np.exp(rng.normal(10.3, 0.6, people)).round(2)
    cities = np.array(["Rome", "Oslo", "Bern", "Kyiv", "Porto", "Gent", "Turku", "Graz", "Brno", "Lviv"])
    city = rng.choice(len(cities), people, p=(weights := 1 / np.arange(1, 11)) / weights.sum())
    day = rng.integers(0, 3 * 365, people)
    member = rng.random(people) < 0.4
    lean = rng.normal(0, 1, len(cities))[city] + 0.03 * (age - 54) + 1.2 * (np.log(income) - 10.3)
    lean += 0.002 * (day - 547) + 0.8 * (member - 0.4)
    bought = rng.random(people) < 1 / (1 + np.exp(-2 * lean))
    age[rng.random(people) < 0.02] = np.nan
    joined = np.datetime64("2021-01-01", "s") + day.astype("timedelta64[D]")
    frame = pd.DataFrame({"age": age, "income": income, "city": cities[city], "joined": joined, "member": member})
    return DataSet("mixed data frame", "columns", frame, np.where(bought, "yes", "no"))
