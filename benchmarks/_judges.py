"""Whom one training of ours is held to: linear models of other people's programs, each tuned over a small grid.

A judge's accuracy is the best over its grid, and its time the least of three runs of every setting that has it. One
thread: CPU time of settings for one thread. Two threads: wall time of all settings; liblinear-multicore has some for
two threads, and the others only ever use one.

**What counts is training alone.** Scikit-learn trains on a sparse matrix, and what its ``fit`` makes of one is its own.
The other two would read files for longer than they learn, so people are laid out for them before the clock starts (how
long that took is said, in CPU time):

- *liblinear-multicore*: its array of nodes, as ``problem`` makes it.
- *Vowpal Wabbit*: an ``Example`` of each person in memory, numbered by bin, so that nothing is parsed or hashed. A pass
  shows each to ``learn``. That is the descent of ``--cache_file --passes N --holdout_off`` in less time, as no cache is
  decoded. Only rates that do not depend on how many examples there have been are tried: nobody counts them here.

Both are installed for this benchmark alone, by hand (``INSTALL``), because liblinear-multicore is compiled on the spot.
A judge that is missing is named.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import say

#: In the root of the checkout, after the first `./secvm bench`; liblinear-multicore needs a C++ compiler.
INSTALL = ".venv/bin/uv pip install --python .venv/bin/python --group judges"
#: Runs of each training of ours and of each tuned setting; the best counts.
RUNS = 3


class People(NamedTuple):
    """Whom a judge trains on and whom it is tested with: sparse rows of float64, and labels 0 and 1."""

    inside: Any
    labels: NDArray[np.int64]
    outside: Any
    labels_outside: NDArray[np.int64]


class Setting(Protocol):
    """A judge with one setting of its grid."""

    threads: int

    def train(self) -> None:
        """From nothing; this is what is timed."""

    def says(self) -> NDArray[np.int64]:
        """Labels of the people outside."""


class Fit(NamedTuple):
    """One training: CPU time of this thread, wall time, test accuracy."""

    cpu: float
    wall: float
    accuracy: float


class Judgement(NamedTuple):
    """What a judge reached, and how fast: with one thread in CPU time, with two in wall time."""

    one: Fit
    two: Fit
    #: One fit of each setting for one thread.
    every: list[Fit]


class Judge(NamedTuple):
    """A program: the distribution that it comes in, and its grid over some people."""

    distribution: str
    settings: Callable[[People], list[Setting]]


def split_by_presence(judges: Mapping[str, Judge]) -> tuple[dict[str, Judge], list[str]]:
    """Judges that are installed, and the names of those that are not, which are also said aloud."""
    present, missing = {}, []
    for name, judge in judges.items():
        try:
            version(judge.distribution)
        except PackageNotFoundError:
            missing.append(name)
            say(f"{name} is not measured: {judge.distribution} is not installed; {INSTALL}")
        else:
            present[name] = judge
    return present, missing


def lost(ratios: Mapping[str, float]) -> list[str]:
    """Judges to whom we lose: our time over theirs is above 1, or infinite, because we never were as right."""
    return [name for name, ratio in ratios.items() if ratio > 1]


def judgement(name: str, judge: Judge, people: People) -> Judgement:
    """Tune a judge, and time what it is tuned to."""
    settings = judge.settings(people)
    found = [_fit(setting, people) for setting in settings]

    def tuned(threads: int) -> Fit:
        allowed = [k for k, setting in enumerate(settings) if setting.threads <= threads]
        best = max(found[k].accuracy for k in allowed)
        equals = [k for k in allowed if found[k].accuracy == best]
        again = [found[k] for k in equals] + [_fit(settings[k], people) for k in equals for _ in range(RUNS - 1)]
        return Fit(min(fit.cpu for fit in again), min(fit.wall for fit in again), best)

    one, two = tuned(1), tuned(2)
    say(f"{name}: {one.accuracy:.4f} in {one.cpu:.2f} s; two threads: {two.accuracy:.4f} in {two.wall:.2f} s")
    return Judgement(one, two, [fit for fit, setting in zip(found, settings, strict=True) if setting.threads == 1])


def _fit(setting: Setting, people: People) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cpu, wall = time.thread_time(), time.perf_counter()
        setting.train()
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return Fit(cpu, wall, float((setting.says() == people.labels_outside).mean()))


@contextmanager
def _laying_out(name: str) -> Iterator[None]:
    before = time.thread_time()
    yield
    say(f"{name}: people laid out in {time.thread_time() - before:.2f} s, not counted")


# -- scikit-learn ----------------------------------------------------------------------------------------------------


class _ScikitLearn:
    threads = 1

    def __init__(self, model: Any, people: People) -> None:
        self._model, self._people = model, people

    def train(self) -> None:
        self._model.fit(self._people.inside, self._people.labels)

    def says(self) -> NDArray[np.int64]:
        return np.asarray(self._model.predict(self._people.outside))


def _linear_svc(people: People) -> list[Setting]:
    from sklearn.svm import LinearSVC

    grid = itertools.product((1e-6, 1e-5, 1e-4, 1e-3), (1e-4, 1e-2))
    return [_ScikitLearn(LinearSVC(C=c, tol=tol, max_iter=200), people) for c, tol in grid]


def _sgd(people: People) -> list[Setting]:
    from sklearn.linear_model import SGDClassifier

    return [
        _ScikitLearn(
            SGDClassifier(alpha=alpha, average=True, max_iter=epochs, tol=None, random_state=1),
            people,
        )
        for alpha, epochs in itertools.product((1e-3, 1e-2, 1e-1, 1.0), (1, 3, 6))
    ]


# -- liblinear-multicore ---------------------------------------------------------------------------------------------


class _Liblinear:
    def __init__(self, problem: Any, people: People, options: str, threads: int) -> None:
        self.threads = threads
        self._problem, self._outside = problem, people.outside
        self._options = f"{options} -m {threads} -q"

    def train(self) -> None:
        from liblinear.liblinearutil import train

        self._model = train(self._problem, self._options)

    def says(self) -> NDArray[np.int64]:
        weights = np.ctypeslib.as_array(self._model.w, (self._model.get_nr_feature(),))
        first, second = self._model.get_labels()
        return np.asarray(np.where(self._outside @ weights > 0, first, second))


def _liblinear(people: People) -> list[Setting]:
    """Squared hinge by its dual and its primal, and hinge; each with its usual tolerance and with ten times that."""
    from liblinear.liblinearutil import problem

    problem(people.labels[:1], people.inside[:1])  # compiles the conversion
    with _laying_out("liblinear_multicore"):
        laid_out = problem(people.labels, people.inside)
    solvers = ((1, 0.1), (2, 0.01), (3, 0.1))
    return [
        _Liblinear(laid_out, people, f"-s {solver} -c {c} -e {usual * loose}", threads)
        for threads in (1, 2)
        for solver, usual in solvers
        for c in (1e-6, 1e-5, 1e-4, 1e-3)
        for loose in (1, 10)
    ]


# -- Vowpal Wabbit ---------------------------------------------------------------------------------------------------


class _Examples(NamedTuple):
    """People as Vowpal Wabbit keeps them. How far apart a bin's numbers are depends on the way of descent."""

    workspace: Any
    inside: list[Any]
    outside: list[Any]

    @classmethod
    def of(cls, people: People, flags: str) -> _Examples:
        from vowpalwabbit import Example, Workspace

        workspace = Workspace(flags)

        def examples(rows: Any, labels: Iterable[int]) -> Iterable[Any]:
            for start, end, label in zip(rows.indptr[:-1], rows.indptr[1:], labels, strict=True):
                bins, values = rows.indices[start:end].tolist(), rows.data[start:end].tolist()
                example = Example(workspace, {"w": list(zip(bins, values, strict=True))})
                example.set_label_string("1" if label else "-1")
                example.setup_example()
                yield example

        inside, outside = (people.inside, people.labels), (people.outside, people.labels_outside)
        return cls(workspace, list(examples(*inside)), list(examples(*outside)))


class _VowpalWabbit:
    threads = 1

    def __init__(self, examples: _Examples, flags: str, passes: int) -> None:
        self._examples, self._flags, self._passes = examples, flags, passes

    def train(self) -> None:
        from vowpalwabbit import Workspace

        # Examples of another workspace: it has the same numbers, and the weights come out the same.
        self._workspace = Workspace(self._flags)
        learn = self._workspace.learn
        for _ in range(self._passes):
            for example in self._examples.inside:
                learn(example)

    def says(self) -> NDArray[np.int64]:
        return np.array([self._workspace.predict(example) > 0 for example in self._examples.outside], np.int64)


def _vowpal_wabbit(people: People) -> list[Setting]:
    """Its own adaptive descent, and plain descent at a constant rate."""
    bits = int(people.inside.shape[1] - 1).bit_length()
    settings: list[Setting] = []
    for way, rates in {"": (0.005, 0.02, 0.1), "--sgd --power_t 0 ": (1e-6, 1e-5, 1e-4)}.items():
        flags = f"--quiet --no_stdin -b {bits} {way}"
        with _laying_out("vowpal_wabbit"):
            examples = _Examples.of(people, flags)
        for loss, rate, passes in itertools.product(("hinge", "logistic"), rates, (1, 3, 6)):
            settings.append(_VowpalWabbit(examples, f"{flags}--loss_function {loss} -l {rate}", passes))
    return settings


#: The judges that every environment of developers has.
SKLEARN = {"linear_svc": Judge("scikit-learn", _linear_svc), "sgd": Judge("scikit-learn", _sgd)}
JUDGES = {
    **SKLEARN,
    "liblinear_multicore": Judge("liblinear-multicore", _liblinear),
    "vowpal_wabbit": Judge("vowpalwabbit", _vowpal_wabbit),
}
