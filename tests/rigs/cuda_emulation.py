"""The kernels of ``engine/cuda/kernels.cu`` in numpy: the same arguments, the same integers, one function for each.

``EmulatedDevice`` stands where a GPU would: with it tests hold all but the file itself to the reference, on machines
that have none. The file is held to the CPU's bytes by ``./secvm bench gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from secvm.learning._kernels.vectorised import siphash24_blocks, siphash24_words
from secvm.learning.arithmetic import shift_right_half_even

KERNELS: dict[str, Callable[..., None]] = {}


def _kernel(function: Callable[..., None]) -> Callable[..., None]:
    KERNELS[function.__name__] = function
    return function


class EmulatedDevice:
    """What ``device.Gpu`` does, in the memory of this process."""

    name = "emulated"
    xp: Any = np

    def __init__(self, columns: int = 50, memory: int = 2**40) -> None:
        #: Columns of a block: few, so that a test has several blocks.
        self.columns = columns
        self._memory = memory

    def launch(self, kernel: str, grid: object, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Run one kernel: arrays are addresses, without a shape."""
        KERNELS[kernel](*(value.reshape(-1) if isinstance(value, np.ndarray) else value for value in arguments))

    def to_host(self, array: Any) -> Any:
        return array

    def free(self) -> int:
        return self._memory

    def room(self, n_bytes: int) -> None:
        """A process has room."""


# ── laying people out ────────────────────────────────────────────────────────────────────────────────────────────────


def _spread(indptr: Any, bins: Any, values: Any, n_people: int) -> tuple[Any, Any]:
    """Person and bin of each unit, the bias left out."""
    repeats = np.ones(len(bins), np.int64) if values is None else values
    people = np.repeat(np.arange(n_people), np.diff(indptr))
    return np.repeat(people, repeats), np.repeat(bins, repeats)


@_kernel
def count_groups(indptr: Any, bins: Any, values: Any, n_people: int, width: int, n_blocks: int, groups: Any) -> None:
    people, units = _spread(indptr, bins, values, n_people)
    counts = np.zeros((n_blocks, n_people), np.int64)
    np.add.at(counts, (units // width, people), 1)
    groups[: n_blocks * n_people] = ((counts + 7) // 8).ravel()


@_kernel
def fill_groups(
    indptr: Any,
    bins: Any,
    values: Any,
    n_people: int,
    n_bins: int,
    width: int,
    n_blocks: int,
    starts: Any,
    locals_: Any,
) -> None:
    people, units = _spread(indptr, bins, values, n_people)
    for block in range(n_blocks):
        begin = block * width
        locals_[8 * starts[block * n_people] : 8 * starts[(block + 1) * n_people]] = min(width, n_bins - begin)
        for person in range(n_people):
            mine = units[(people == person) & (units // width == block)] - begin
            at = 8 * starts[block * n_people + person]
            locals_[at : at + len(mine)] = mine


def _segments(locals_: Any, starts: Any, n_people: int, n_bins: int, width: int, n_blocks: int) -> tuple[Any, Any]:
    """Person and bin of each unit of a layout, dummies left out."""
    lengths = 8 * np.diff(starts)
    person = np.repeat(np.tile(np.arange(n_people), n_blocks), lengths)
    block = np.repeat(np.repeat(np.arange(n_blocks), n_people), lengths)
    columns = np.minimum(width, n_bins - block * width)
    real = locals_ < columns
    return person[real], (block * width + locals_)[real].astype(np.int64)


@_kernel
def class_squares(
    locals_: Any,
    starts: Any,
    n_people: int,
    n_bins: int,
    width: int,
    n_blocks: int,
    classes: Any,
    n_classes: int,
    squares: Any,
) -> None:
    people, bins = _segments(locals_, starts, n_people, n_bins, width, n_blocks)
    cells, counts = np.unique(people * n_bins + bins, return_counts=True)
    out = squares.reshape(n_classes, n_people)
    np.add.at(out, (classes[cells % n_bins], cells // n_bins), (counts**2).astype(np.uint64))


# ── passes over people ───────────────────────────────────────────────────────────────────────────────────────────────


def _locals(groups: Any) -> Any:
    return groups.view(np.uint16)


@_kernel
def score(
    groups: Any,
    starts: Any,
    n_people: int,
    n_bins: int,
    width: int,
    n_blocks: int,
    weights: Any,
    jobs: Any,
    lists: Any,
    out_at: Any,
    team: int,
    direct: int,
    out: Any,
) -> None:
    people, bins = _segments(_locals(groups), starts, n_people, n_bins, width, n_blocks)
    table = weights.reshape(-1, n_bins + 1).astype(np.int64)
    for model, first, last, begin in jobs.reshape(-1, 4).tolist():
        sums = np.full(n_people, table[model, n_bins])
        np.add.at(sums, people, table[model, bins])
        chosen = np.arange(first, last) if begin < 0 else lists[begin + first : begin + last]
        out[out_at[model] + first : out_at[model] + last] = sums[chosen]


@_kernel
def count(
    groups: Any,
    starts: Any,
    n_people: int,
    n_bins: int,
    width: int,
    n_blocks: int,
    jobs: Any,
    lists: Any,
    team: int,
    counts: Any,
) -> None:
    people, bins = _segments(_locals(groups), starts, n_people, n_bins, width, n_blocks)
    table = counts.reshape(-1, n_bins + 1)
    for slot, first, last, begin in jobs.reshape(-1, 4).tolist():
        entries = lists[begin + first : begin + last]
        signs = np.zeros(n_people, np.int32)
        signs[entries >> 1] = 1 - 2 * (entries & 1)
        np.add.at(table[slot], bins, signs[people])
        table[slot, n_bins] += signs.sum()


@_kernel
def count_amounts(
    groups: Any,
    starts: Any,
    n_people: int,
    n_bins: int,
    width: int,
    n_blocks: int,
    amounts: Any,
    plus: Any,
    minus: Any,
) -> None:
    people, bins = _segments(_locals(groups), starts, n_people, n_bins, width, n_blocks)
    for side, some in ((plus, np.maximum(amounts, 0)), (minus, np.maximum(-amounts, 0))):
        np.add.at(side, bins, some[people].astype(np.uint64))
        side[n_bins] += np.uint64(some.sum())


@_kernel
def count_kept(
    indptr: Any,
    bins: Any,
    units: Any,
    n_people: int,
    n_bins: int,
    signs: Any,
    keys: Any,
    keep53: Any,
    counter: int,
    plus: Any,
    minus: Any,
    sent: Any,
) -> None:
    halves = keys.reshape(n_people, 2)
    for i in np.flatnonzero(signs).tolist():
        row = slice(indptr[i], indptr[i + 1])
        mine = np.append(np.repeat(bins[row], np.diff(units[indptr[i] : indptr[i + 1] + 1])), n_bins)
        words = np.uint64(counter) + np.arange(len(mine), dtype=np.uint64)
        dice = siphash24_words(np.broadcast_to(halves[i], (len(mine), 2)), words) >> np.uint64(11)
        kept = dice < np.uint64(max(0, int(keep53[i])))
        np.add.at(plus if signs[i] > 0 else minus, mine[kept], np.uint64(1))
        sent[i] += kept.sum()


# ── weights and states ───────────────────────────────────────────────────────────────────────────────────────────────


@_kernel
def absolute_most(values: Any, n: int, most: Any) -> None:
    np.maximum(most, np.abs(values.reshape(-1, n)).max(axis=1).astype(np.uint64), out=most)


@_kernel
def mantissas(values: Any, n: int, bits: Any, out: Any) -> None:
    for row, b, target in zip(values.reshape(-1, n), bits.tolist(), out.reshape(-1, n), strict=True):
        target[:] = shift_right_half_even(row, b)


def _divided_half_even(values: Any, divisor: int, bits: int) -> Any:
    whole = values // divisor
    shifted = (values - whole * divisor) << bits
    quotient = shifted // divisor
    rest = shifted - quotient * divisor
    return (whole << bits) + quotient + ((2 * rest > divisor) | ((2 * rest == divisor) & (quotient & 1 == 1)))


@_kernel
def step(counts: Any, n: int, factors: Any, older: Any, newer: Any) -> None:
    sides = counts.reshape(-1, 2, n).astype(np.int64)
    for k, (up, down, p, q) in enumerate(factors.reshape(-1, 4).tolist()):
        moved = _divided_half_even((up * sides[k, 0] - down * sides[k, 1]) * p, q, 32)
        newer.reshape(-1, n)[k] = older.reshape(-1, n)[k] + moved


@_kernel
def add_divided(values: Any, n: int, divisor: int, bits: int, total: Any) -> None:
    total += _divided_half_even(values, divisor, bits).reshape(total.shape)


# ── who is in doubt ──────────────────────────────────────────────────────────────────────────────────────────────────


@_kernel
def products(target: Any, references: Any, n_models: int, n: int, stride: int, out: Any) -> None:
    known = references.reshape(4, n_models, n)[:, :, ::stride].astype(np.float64)
    both = np.concatenate([known, target.reshape(1, n_models, n)[:, :, ::stride].astype(np.float64)])
    out[:] = np.einsum("kmj,lmj->mkl", known, both).ravel()


@_kernel
def remainders(
    target: Any, references: Any, n_models: int, n: int, coefficients: Any, classes: Any, squares: Any
) -> None:
    known = references.reshape(4, n_models, n).astype(np.float64)
    rest = target.reshape(n_models, n) - np.einsum("mk,kmj->mj", coefficients.reshape(n_models, 4), known)
    for k in range(8):
        squares.reshape(n_models, 8)[:, k] += np.square(rest[:, classes == k]).sum(axis=1)


@_kernel
def guess(
    known: Any,
    n_models: int,
    n_people: int,
    coefficients: Any,
    norms: Any,
    squares: Any,
    limits: Any,
    units: Any,
    signs: Any,
    roles: Any,
    role: int,
    below: Any,
    lists: Any,
    lengths: Any,
) -> None:
    scores = known.reshape(4, n_models, n_people).astype(np.float64)
    middle = np.einsum("mk,kmi->mi", coefficients.reshape(n_models, 4), scores)
    limit = limits.reshape(n_models, 3)
    bound = np.sqrt(squares.reshape(n_models, 8)) @ norms.reshape(8, n_people).astype(np.float64) * (1 + 2.0**-24)
    bound += limit[:, 1:2] + units * limit[:, 2:3]
    apart = (1 if signs is None else signs) * middle - limit[:, :1]
    meant = (roles.reshape(n_models, n_people) & role) != 0
    below.reshape(n_models, n_people)[:] = meant & (apart < 0)
    for model, doubtful in enumerate(meant & (np.abs(apart) <= bound)):
        chosen = np.flatnonzero(doubtful)
        lists[model * n_people : model * n_people + len(chosen)] = chosen
        lengths[model] += len(chosen)


@_kernel
def settle(
    scores: Any,
    out_at: Any,
    n_people: int,
    lowers: Any,
    signs: Any,
    roles: Any,
    role: int,
    lists: Any,
    lengths: Any,
    below: Any,
) -> None:
    for model, length in enumerate(lengths.tolist()):
        begin = model * n_people
        people = np.arange(n_people) if length < 0 else lists[begin : begin + length]
        people_at = np.arange(len(people))
        found = scores[out_at[model] + people_at] * (1 if signs is None else signs[people].astype(np.int64))
        meant = (roles[begin + people] & role) != 0
        below[begin + people[meant]] = found[meant] < lowers[model]


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@_kernel
def compare(now: Any, same: Any, other: Any, labels: Any, n_people: int, found: Any) -> None:
    a, b, c = (table.reshape(-1, n_people) for table in (now, same, other))
    sums = [(a != b).sum(axis=1), (a != c).sum(axis=1), a[:, labels == 0].sum(axis=1), a[:, labels == 1].sum(axis=1)]
    found[:] = np.stack(sums, axis=1).ravel()


@_kernel
def changes(
    now: Any, same: Any, other: Any, starts_from: Any, labels: Any, n_people: int, lists: Any, lengths: Any
) -> None:
    for model, start in enumerate(starts_from.tolist()):
        here = slice(model * n_people, (model + 1) * n_people)
        was = (same[here], other[here], np.zeros(n_people, np.uint8))[start]
        for side in (0, 1):
            chosen = np.flatnonzero((now[here] != was) & (labels == 1 - side))
            begin = (2 * model + side) * n_people
            lists[begin : begin + len(chosen)] = 2 * chosen + was[chosen]
            lengths[2 * model + side] += len(chosen)


@_kernel
def confusion(negative: Any, roles: Any, role: int, labels: Any, n_people: int, cells: Any) -> None:
    meant = (roles.reshape(-1, n_people) & role) != 0
    cell = 2 * labels + (1 - negative.reshape(-1, n_people))
    cells[:] = np.stack([(meant & (cell == k)).sum(axis=1) for k in range(4)], axis=1).ravel()


# ── made-up people ───────────────────────────────────────────────────────────────────────────────────────────────────


@_kernel
def draw_words(
    edges: Any,
    leans: Any,
    keys: Any,
    first_person: int,
    sides: Any,
    strengths: Any,
    indptr: Any,
    n_people: int,
    table_bits: int,
    tables: Any,
    words: Any,
    stuck: Any,
) -> None:
    word_key, lean_key = keys.reshape(2, 2)
    for i in range(n_people):
        begin, wanted = int(indptr[i]), int(indptr[i + 1] - indptr[i])
        found: dict[int, None] = {}
        thrown = 0
        while len(found) < wanted:
            counters = np.uint64(((first_person + i) << 24) + thrown) + np.arange(1024, dtype=np.uint64)
            dice = siphash24_words(np.broadcast_to(word_key, (1024, 2)), counters)
            cell = (dice >> np.uint64(52)).astype(np.int64)
            place = ((dice >> np.uint64(21)) & np.uint64(2**31 - 1)) * (edges[cell + 1] - edges[cell]) >> np.uint64(31)
            pairs = (edges[cell] + place) >> np.uint64(10)
            lean = leans[
                (siphash24_words(np.broadcast_to(lean_key, (1024, 2)), pairs) >> np.uint64(52)).astype(np.int64)
            ]
            heads = (dice & np.uint64(2**21 - 1)).astype(np.int64) < 2**20 + ((lean * int(strengths[i])) >> 16)
            drawn = (pairs << np.uint64(1)) | (heads ^ bool(sides[i])).astype(np.uint64)
            found |= dict.fromkeys(drawn.tolist())
            thrown += 1024
        words[begin : begin + wanted] = list(found)[:wanted]


@_kernel
def hash_numbers(numbers: Any, n: int, k0: int, k1: int, n_bins: int, place: int, stride: int, bins: Any) -> None:
    for j, number in enumerate(numbers[:n].tolist()):
        text = str(number).encode()
        padded = text + bytes(7 - len(text) % 8) + bytes([len(text)])
        blocks = [
            np.array([int.from_bytes(padded[at : at + 8], "little")], np.uint64) for at in range(0, len(padded), 8)
        ]
        one = np.ones(1, np.uint64)
        hashed = int(siphash24_blocks(one * np.uint64(k0), one * np.uint64(k1), blocks)[0])
        bins[j * stride + place] = ((hashed >> 32) * n_bins) >> 32
