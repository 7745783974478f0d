"""People at Twitter's shape as they are, without hashing: a bin for each of some hundred million words.

Two looks at the same people, a chunk at a time: the first finds which words belong to one person alone, the second lays
the others out (``engine.collapsed``). Some people only, half of a crowd, say, have fewer words in common and
more of their own; that is another layout and the same model.

    rows, labels = unhashed(TwitterPeople(), seed=1)
    (a, a_labels), (b, b_labels) = unhashed_groups(TwitterPeople(), 1, [half, ~half])
    for swept in sweep(rows, labels, experiments, train=..., rounds=100): ...   # experiments with rows.n_bins bins
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm_lab.engine.collapsed import CollapsedRows, Collapser, Owners
from secvm_lab.paper.twitter.people import CHUNK, Chunk, TwitterPeople

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
    if take is None:
        take = np.ones(people.n_people, np.bool_)
    (found,) = unhashed_groups(people, seed, [take], threads=threads, size=size, write_own=write_own)
    return found


def unhashed_groups(
    people: TwitterPeople,
    seed: int,
    groups: Sequence[NDArray[np.bool_]],
    *,
    threads: int = 1,
    size: int = CHUNK,
    write_own: bool = False,
) -> list[tuple[CollapsedRows, NDArray[np.int64]]]:
    """As ``unhashed`` for several groups of people at once, halves, say: everybody is drawn only twice."""
    for take in groups:
        if take.shape != (people.n_people,):
            raise BadInputError("each group must say of each person whether it takes part")
        if not take.any():
            raise BadInputError("nobody takes part")
    looks = [_Group(take, Owners(people.vocabulary)) for take in groups]
    for chunk in people.chunks(seed, size, threads=threads):
        for group in looks:
            group.see(chunk)
    for group in looks:
        group.begin(write_own=write_own)
    for chunk in people.chunks(seed, size, threads=threads):
        for group in looks:
            group.add(chunk)
    return [group.finish() for group in looks]


@dataclass(eq=False, repr=False)
class _Group:
    """Some people on their way into a layout."""

    take: NDArray[np.bool_]
    owners: Owners
    _labels: list[NDArray[np.int8]] = field(default_factory=list)
    #: The first people: their row lengths and words.
    _sample: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = field(default_factory=list)
    _collapser: Collapser | None = None

    def _part(self, chunk: Chunk) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]:
        """Lengths, words and labels of those in a chunk who take part."""
        first, indptr, words, labels = chunk
        here, lengths = self.take[first : first + len(labels)], np.diff(indptr)
        if here.all():
            return lengths, words, labels
        return lengths[here], words[np.repeat(here, lengths)], labels[here]

    def see(self, chunk: Chunk) -> None:
        lengths, words, labels = self._part(chunk)
        self.owners.see(words)
        if sum(map(len, self._labels)) < _SAMPLE:
            self._sample.append((lengths, words))
        self._labels.append(labels)

    def begin(self, *, write_own: bool) -> None:
        lengths, words = (np.concatenate(parts) for parts in zip(*self._sample, strict=True))
        self._sample.clear()
        self._collapser = Collapser(
            self.owners, int(self.take.sum()), (_indptr(lengths), words, None), write_own=write_own
        )

    def add(self, chunk: Chunk) -> None:
        assert self._collapser is not None
        lengths, words, _ = self._part(chunk)
        self._collapser.add(_indptr(lengths), words)

    def finish(self) -> tuple[CollapsedRows, NDArray[np.int64]]:
        assert self._collapser is not None
        rows, self._collapser = self._collapser.finish(), None
        return rows, np.concatenate(self._labels).astype(np.int64)


def _indptr(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
