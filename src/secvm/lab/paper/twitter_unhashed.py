"""People at Twitter's shape as they are, without hashing: a bin for each of some hundred million words.

Two looks at the same people, a chunk at a time: the first finds which words belong to one person alone, the second lays
the others out (``estimator.engine.collapsed``). Some people only, half of a crowd, say, have fewer words in common and
more of their own; that is another layout and the same model.

    rows, labels = unhashed(TwitterPeople(), seed=1, take=half)
    for swept in sweep(rows, labels, experiments, train=..., rounds=100): ...   # experiments with rows.n_bins bins
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.engine.collapsed import CollapsedRows, Collapser, Owners
from secvm.lab.paper.twitter import CHUNK, TwitterPeople

#: Frequent words are told from rare ones by the first people.
_SAMPLE = 4 * CHUNK

_Part = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]


def unhashed(
    people: TwitterPeople,
    seed: int,
    *,
    take: NDArray[np.bool_] | None = None,
    threads: int = 1,
    size: int = CHUNK,
    write_own: bool = False,
) -> tuple[CollapsedRows, NDArray[np.int64]]:
    """Rows of the people who take part, in their order, and their labels.

    Args:
        take: True for each person who takes part; None: everybody.
        write_own: whether words of one person alone are written down, which states need and curves do not.
    """
    if take is not None and take.shape != (people.n_people,):
        raise BadInputError("take must say of each person whether it takes part")
    n = people.n_people if take is None else int(take.sum())
    if not n:
        raise BadInputError("nobody takes part")
    owners, labels = Owners(people.vocabulary), []
    sample: list[_Part] = []
    for part in _parts(people, seed, take, size, threads):
        owners.see(part[1])
        labels.append(part[2])
        if sum(len(known) for _, _, known in sample) < _SAMPLE:
            sample.append(part)
    first = 0
    indptr = [np.zeros(1, np.int64)]
    for part in sample:
        indptr.append(part[0][1:] + first)
        first += int(part[0][-1])
    some = (np.concatenate(indptr), np.concatenate([words for _, words, _ in sample]))
    del sample
    collapser = Collapser(owners, n, some, write_own=write_own)
    del some
    for part in _parts(people, seed, take, size, threads):
        collapser.add(part[0], part[1])
    return collapser.finish(), np.concatenate(labels).astype(np.int64)


def _parts(
    people: TwitterPeople, seed: int, take: NDArray[np.bool_] | None, size: int, threads: int
) -> Iterator[_Part]:
    """Rows and labels of those who take part, chunk after chunk."""
    for first, indptr, words, labels in people.chunks(seed, size, threads=threads):
        if take is None:
            yield indptr, words, labels
            continue
        here = take[first : first + len(labels)]
        lengths = np.diff(indptr)
        kept = np.concatenate([[0], np.cumsum(lengths[here])]).astype(np.int64)
        yield kept, words[np.repeat(here, lengths)], labels[here]
