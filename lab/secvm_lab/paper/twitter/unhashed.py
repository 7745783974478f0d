"""People at Twitter's shape as they are, without hashing: a bin for each of some hundred million words.

Two looks at the same people, a chunk at a time: the first finds which words belong to one person alone, the second lays
the others out (``engine.collapsed``). Some people only, half of a crowd, say, have fewer words in common and
more of their own; that is another layout and the same model.

    rows, labels = unhashed(TwitterPeople(), seed=1)
    half, half_labels = unhashed(TwitterPeople(), 1, take=some)
    for swept in sweep(rows, labels, experiments, train=..., rounds=100): ...   # experiments with rows.n_bins bins
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm_lab.engine.collapsed import CollapsedRows, Collapser, Owners
from secvm_lab.paper.twitter.people import CHUNK, TwitterPeople

#: Frequent words are told from rare ones by the first people.
_SAMPLE = 4 * CHUNK


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
    some = np.ones(people.n_people, np.bool_) if take is None else take
    if some.shape != (people.n_people,):
        raise BadInputError("it must be said of each person whether it takes part")
    if not some.any():
        raise BadInputError("nobody takes part")

    def look() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]]:
        """Lengths, words and labels of those who take part, chunk after chunk."""
        for first, indptr, words, labels in people.chunks(seed, size, threads=threads):
            here, lengths = some[first : first + len(labels)], np.diff(indptr)
            if here.all():
                yield lengths, words, labels
            else:
                yield lengths[here], words[np.repeat(here, lengths)], labels[here]

    owners, labels_seen = Owners(people.vocabulary), list[NDArray[np.int8]]()
    #: The first people: their row lengths and words.
    sample: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    for lengths, words, labels in look():
        owners.see(words)
        if sum(map(len, labels_seen)) < _SAMPLE:
            sample.append((lengths, words))
        labels_seen.append(labels)
    lengths, words = (np.concatenate(parts) for parts in zip(*sample, strict=True))
    sample.clear()
    collapser = Collapser(owners, int(some.sum()), (_indptr(lengths), words, None), write_own=write_own)
    for lengths, words, _ in look():
        collapser.add(_indptr(lengths), words)
    return collapser.finish(), np.concatenate(labels_seen).astype(np.int64)


def _indptr(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
