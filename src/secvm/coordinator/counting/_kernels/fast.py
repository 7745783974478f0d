"""The quick kernels: a table of digests, and packages counted one by one in machine code.

**The table** has 2^b slots of eight bytes: 32 bits of the digest's hash and the digest's number, from 1; 0 is empty.
A digest begins to look at the slot that the upper bits of its hash name, and goes on to the next while slots are taken.
At a slot with its 32 bits it compares the whole digest, so that nobody's package is dropped for another's likeness.

**Whoever sends capsules chooses digests**: SHA-256 is uniform over honest capsules, but thirty bits of a digest are
ground in a second, and a table placed by the digest's own bits could be made one long row. So the hash is SipHash under
a key that is thrown for this count, after the last capsule came: positions are independent of anything a sender knew,
and a row is as short as chance makes it. The first 16 bytes of the digest are hashed; to make very many digests equal
there costs 2^64 and more, and then each costs a comparison, not a wrong count.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.counting._kernels import plan as p
from secvm.coordinator.counting._kernels.plan import Plan
from secvm.learning._kernels.compiling import compiled, prefetch
from secvm.learning._kernels.siphash import siphash24_short
from secvm.learning.declared import MAX_BINS
from secvm.learning.label_models import MAX_MODELS
from secvm.protocol.version import MAX_ROUND, PROTOCOL_VERSION

_FIRST_BITS = 12
#: Up to here, 128 MiB, the table grows fourfold: all digests move whenever it grows.
_LARGE_BITS = 24
#: Slots that are taken at most, of 16. Ten million digests fit 2^24 slots, 128 MiB.
_TAKEN_OF_16 = 10
#: Records whose slots are asked for ahead, so that memory is waited for once and not for each.
_AHEAD = 64
_LOW = np.uint64(0xFFFF_FFFF)
_32 = np.uint64(32)
_16 = np.uint64(16)
_8 = np.uint64(8)
_FF = np.uint64(0xFF)


@nb.njit(inline="always")
def _hash(key, first, second):
    return siphash24_short(key[0], key[1], first, second, True)


@compiled
def _first(words, table, bits, key, digests, count, fresh):
    """Mark the records whose digest is new, and append those digests; the new count."""
    n = len(words)
    shift = np.uint64(64 - bits)
    last = np.int64(len(table) - 1)
    hashes = np.empty(_AHEAD, dtype=np.uint64)
    for start in range(0, n, _AHEAD):
        end = min(n, start + _AHEAD)
        for i in range(start, end):
            hashes[i - start] = _hash(key, words[i, 0], words[i, 1])
            prefetch(table, np.int64(hashes[i - start] >> shift))
        for i in range(start, end):
            h = hashes[i - start]
            slot = np.int64(h >> shift)
            mark = h << _32
            new = True
            while table[slot] != 0:
                if (table[slot] & ~_LOW) == mark:
                    other = np.int64(table[slot] & _LOW) - 1
                    if (
                        digests[other, 0] == words[i, 0]
                        and digests[other, 1] == words[i, 1]
                        and digests[other, 2] == words[i, 2]
                        and digests[other, 3] == words[i, 3]
                    ):
                        new = False
                        break
                slot = (slot + 1) & last
            fresh[i] = new
            if new:
                for w in range(4):
                    digests[count, w] = words[i, w]
                count += 1
                table[slot] = mark | np.uint64(count)
    return count


@compiled
def _fill(table, bits, key, digests, count):
    """Enter digests that are known to be distinct into an empty table."""
    shift = np.uint64(64 - bits)
    last = np.int64(len(table) - 1)
    hashes = np.empty(_AHEAD, dtype=np.uint64)
    for start in range(0, count, _AHEAD):
        end = min(count, start + _AHEAD)
        for i in range(start, end):
            hashes[i - start] = _hash(key, digests[i, 0], digests[i, 1])
            prefetch(table, np.int64(hashes[i - start] >> shift))
        for i in range(start, end):
            slot = np.int64(hashes[i - start] >> shift)
            while table[slot] != 0:
                slot = (slot + 1) & last
            table[slot] = (hashes[i - start] << _32) | np.uint64(i + 1)


class DigestTable:
    """The digests that have come so far."""

    def __init__(self, key: bytes) -> None:
        self._key = np.frombuffer(key, dtype="<u8").astype(np.uint64)
        self._bits = _FIRST_BITS
        self._table = np.zeros(2**self._bits, dtype=np.uint64)
        self._digests = np.zeros((2**self._bits, 4), dtype=np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def first(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """For each record whether its digest comes for the first time; from now on it has come."""
        self._make_room(self._count + len(words))
        fresh = np.empty(len(words), dtype=np.bool_)
        self._count = int(_first(words, self._table, self._bits, self._key, self._digests, self._count, fresh))
        return fresh

    def _make_room(self, count: int) -> None:
        if count > len(self._digests):
            # In place where the system can: a copy would be as large again. An eighth more than needed, so that even
            # where it cannot, digests are moved a few times only.
            self._digests.resize((count + count // 8, 4), refcheck=False)
        if 16 * count > _TAKEN_OF_16 * len(self._table):
            while 16 * count > _TAKEN_OF_16 * 2**self._bits:
                self._bits += 2 if self._bits < _LARGE_BITS else 1
            self._table = np.zeros(0, dtype=np.uint64)
            self._table = np.zeros(2**self._bits, dtype=np.uint64)
            _fill(self._table, self._bits, self._key, self._digests, self._count)


#: What ``epoch_count`` asks of either module.
Seen = DigestTable


@compiled
def _tally(words, fresh, ids, shapes, counts, kinds, refused):
    for i in range(len(words)):
        if not fresh[i]:
            continue
        w4, w5, w6, w7 = words[i, 4], words[i, 5], words[i, 6], words[i, 7]
        kind = np.int64((w4 >> _8) & _FF)
        number = np.int64((w6 >> _16) & _LOW)
        a = np.int64(w6 >> np.uint64(48))
        b = np.int64(w7 & _LOW)
        # The sign or cohort, with the three zero bytes behind it: above 255 when they are none.
        c = np.int64(w7 >> _32)
        form = False
        if np.int64(w4 & _FF) == PROTOCOL_VERSION and 1 <= number <= MAX_ROUND and a < MAX_MODELS:
            if kind == 1:
                form = (c == 1 or c == 2) and b <= MAX_BINS
            elif kind == 2:
                form = c == 0 and b < MAX_MODELS
            elif kind == 3:
                form = (c == 1 or c == 2) and b == 0
            elif kind == 4:
                form = c == 0 and a == 0 and b == 0
        if not form:
            refused[p.GARBAGE] += 1
            continue
        known = False
        r = -1
        for j in range(len(ids)):
            if ids[j, 1] == w5 and ids[j, 0] == (w4 >> _16) and ids[j, 2] == (w6 & np.uint64(0xFFFF)):
                known = True
                if shapes[j, p.ROUND] == number:
                    r = j
                    break
        if r < 0:
            refused[p.WRONG_ROUND if known else p.UNKNOWN_EXPERIMENT] += 1
        elif kind == 1:
            if a >= shapes[r, p.MODELS]:
                refused[p.UNKNOWN_MODEL] += 1
            elif b >= shapes[r, p.BINS]:
                refused[p.BIN_OUT_OF_RANGE] += 1
            else:
                start = shapes[r, p.PLUS] if c == 1 else shapes[r, p.MINUS]
                counts[start + a * shapes[r, p.BINS] + b] += 1
                kinds[r, p.TRAIN] += 1
        elif kind == 2:
            if max(a, b) >= shapes[r, p.LABELS] or shapes[r, p.REGRESSION] != 0:
                refused[p.UNKNOWN_CLASS] += 1
            else:
                counts[shapes[r, p.CELLS] + a * shapes[r, p.LABELS] + b] += 1
                kinds[r, p.TEST] += 1
        elif kind == 3:
            if a >= shapes[r, p.LABELS]:
                refused[p.UNKNOWN_CLASS] += 1
            elif c == 1:
                counts[shapes[r, p.PARTICIPANTS] + a] += 1
                kinds[r, p.TRAIN_PARTICIPANT] += 1
            else:
                kinds[r, p.TEST_PARTICIPANT] += 1
        else:
            kinds[r, p.NULL] += 1


def tally(words: NDArray[np.uint64], fresh: NDArray[np.bool_], plan: Plan) -> None:
    """Count the packages of the fresh records into the plan."""
    _tally(words, fresh, plan.ids, plan.shapes, plan.counts, plan.kinds, plan.refused)
