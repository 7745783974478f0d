"""The readable kernels: a set of digests, and packages counted with numpy, many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting._kernels import plan as p
from secvm.coordinator.counting._kernels.plan import Plan
from secvm.coordinator.store.records import right_form

_DIGEST_WORDS = 4
_LITTLE = np.dtype("<u8")


class DigestSet:
    """The digests that have come so far."""

    def __init__(self, key: bytes) -> None:
        # Python's set needs no key: what it hashes are bytes, under a key of its own.
        del key
        self._seen: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def first(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For each record whether its digest comes for the first time; from now on it has come."""
        fresh = np.zeros(len(words), dtype=np.bool_)
        digests = words[:, :_DIGEST_WORDS].astype(_LITTLE).tobytes()
        for i in range(len(words)):
            digest = digests[32 * i : 32 * i + 32]
            fresh[i] = digest not in self._seen
            self._seen.add(digest)
        return fresh


#: What ``epoch_count`` asks of either module.
Seen = DigestSet


def tally(words: NDArray[np.uint64], fresh: NDArray[np.bool_], plan: Plan) -> None:
    """Count the packages of the fresh records into the plan."""
    packages = words[fresh, _DIGEST_WORDS:].astype(_LITTLE).view(np.uint8).reshape(-1, 32)
    kind = packages[:, 1].astype(np.int64)
    number = packages[:, 18:22].copy().view("<u4")[:, 0].astype(np.int64)
    a = packages[:, 22:24].copy().view("<u2")[:, 0].astype(np.int64)
    b = packages[:, 24:28].copy().view("<u4")[:, 0].astype(np.int64)
    c = packages[:, 28].astype(np.int64)

    # Form first, as ``protocol.codec.decode`` has it.
    ok = right_form(packages)
    plan.refused[p.GARBAGE] += np.count_nonzero(~ok)

    # Then the round, as ``check_package`` has it.
    known = np.zeros(len(packages), dtype=np.bool_)
    placed = np.zeros(len(packages), dtype=np.bool_)
    ids = words[fresh, _DIGEST_WORDS : _DIGEST_WORDS + 3] >> np.array([16, 0, 0], dtype=np.uint64)
    ids[:, 2] &= np.uint64(0xFFFF)
    for i in range(len(plan.shapes)):
        mine = ok & (ids == plan.ids[i]).all(axis=1)
        known |= mine
        here = mine & (number == plan.shapes[i, p.ROUND])
        placed |= here
        _count_round(plan, i, kind[here], a[here], b[here], c[here])
    plan.refused[p.UNKNOWN_EXPERIMENT] += np.count_nonzero(ok & ~known)
    plan.refused[p.WRONG_ROUND] += np.count_nonzero(known & ~placed)


def _count_round(
    plan: Plan, i: int, kind: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64]
) -> None:
    shape = plan.shapes[i]
    n_labels = shape[p.LABELS]

    train, no_model, no_bin = kind == 1, a >= shape[p.MODELS], b >= shape[p.BINS]
    plan.refused[p.UNKNOWN_MODEL] += np.count_nonzero(train & no_model)
    plan.refused[p.BIN_OUT_OF_RANGE] += np.count_nonzero(train & ~no_model & no_bin)
    train &= ~no_model & ~no_bin
    start = np.where(c == 1, shape[p.PLUS], shape[p.MINUS])
    np.add.at(plan.counts, (start + a * shape[p.BINS] + b)[train], 1)
    plan.kinds[i, p.TRAIN] += np.count_nonzero(train)

    test, no_cell = kind == 2, (np.maximum(a, b) >= n_labels) | bool(shape[p.REGRESSION])
    plan.refused[p.UNKNOWN_CLASS] += np.count_nonzero(test & no_cell)
    test &= ~no_cell
    np.add.at(plan.counts, (shape[p.CELLS] + a * n_labels + b)[test], 1)
    plan.kinds[i, p.TEST] += np.count_nonzero(test)

    person, no_label = kind == 3, a >= n_labels
    plan.refused[p.UNKNOWN_CLASS] += np.count_nonzero(person & no_label)
    person &= ~no_label
    trains = person & (c == 1)
    np.add.at(plan.counts, (shape[p.PARTICIPANTS] + a)[trains], 1)
    plan.kinds[i, p.TRAIN_PARTICIPANT] += np.count_nonzero(trains)
    plan.kinds[i, p.TEST_PARTICIPANT] += np.count_nonzero(person & ~trains)

    plan.kinds[i, p.NULL] += np.count_nonzero(kind == 4)
