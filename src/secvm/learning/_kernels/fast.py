"""The quick kernels: equal to ``reference`` bit for bit, for any rows, coefficients and number of threads.

``prepare`` lays the rows out once (see ``layout``); ``scores`` and ``tally`` then pass over them many times. One model
has loops of its own; several models share one pass, 8 or 16 at a time. Threads take pieces of work one by one, count
into arrays of their own, and add them up as integers, so the bytes are the same whatever their number.

Under thinning a person's dice say which of its units are kept: compiled loops of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels import blocked
from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.layout import (
    MAX_REPEAT,
    PEOPLE,
    PIECES_PER_THREAD,
    PreparedRows,
    cut_range,
    prepare,
    share_out,
)
from secvm.learning._kernels.reference import Tally, Thinned, dice_counter
from secvm.learning._kernels.siphash import siphash24_word
from secvm.learning.rows import BinnedRows

#: Units whose dice are thrown at once: enough for the CPU's vectors, few enough for its first cache.
_CHUNK = 512
_DROPPED_BITS = np.uint64(11)


@compiled
def _entry_of(unit, ends, j):
    """First entry from ``j`` on that ends after ``unit``: near when many units are kept, far when few are."""
    if ends[j] > unit:
        return j
    low, step = j, 1
    while low + step < len(ends) and ends[low + step] <= unit:
        low += step
        step *= 2
    high = min(low + step, len(ends) - 1)  # ends[low] <= unit < ends[high]
    while high - low > 1:
        middle = (low + high) >> 1
        if ends[middle] <= unit:
            low = middle
        else:
            high = middle
    return high


@compiled
def count_kept(indptr, bins, values, n_bins, signs, keys, keep53, counter, low, high, plus, minus, sent):
    """Add the kept units of people ``low`` to ``high`` to one model's tally, and their number to each person's.

    ``counter`` is the dice counter of unit 0: round and model in its upper bits.
    """
    longest = 0
    for i in range(low, high):
        longest = max(longest, indptr[i + 1] - indptr[i])
    all_ends = np.empty(longest + 1, np.int64)
    kept = np.empty(_CHUNK, np.bool_)
    for i in range(low, high):
        keep = keep53[i]
        if signs[i] == 0 or keep <= 0:
            continue
        # Entry j has the units from the end of the entry before it up to ends[j]; the bias unit comes last.
        start, n_entries = indptr[i], indptr[i + 1] - indptr[i]
        ends = all_ends[: n_entries + 1]
        n_units = 0
        for j in range(n_entries):
            n_units += abs(np.int64(values[start + j]))
            ends[j] = n_units
        n_units += 1
        ends[n_entries] = n_units
        k0, k1 = keys[i, 0], keys[i, 1]
        j = n_sent = 0
        for done in range(0, n_units, _CHUNK):
            n = min(_CHUNK, n_units - done)
            first = counter + np.uint64(done)
            # A loop of its own, without branches, so that LLVM throws several dice at once.
            for t in range(n):
                word = siphash24_word(k0, k1, first + np.uint64(t)) >> _DROPPED_BITS
                kept[t] = np.int64(word) < keep
            for t in range(n):
                if kept[t]:
                    j = _entry_of(done + t, ends, j)
                    bias = j == n_entries
                    bin_index = n_bins if bias else np.int64(bins[start + j])
                    if (signs[i] > 0) == (bias or values[start + j] > 0):
                        plus[bin_index] += 1
                    else:
                        minus[bin_index] += 1
                    n_sent += 1
        sent[i] += n_sent


__all__ = ["PreparedRows", "prepare", "scores", "tally", "thinned_tally"]

#: Models handled at once: sixteen int32 weights are one cache line.
_LANES = (1, 4, 8, 16)
#: Blocks of people whose units surely fit the 16 bits of a packed count.
_PEOPLE_BLOCKS_PER_COUNT = (2**16 - 1) // (MAX_REPEAT * PEOPLE)


def _model_groups(n_models: int) -> list[tuple[int, int, int]]:
    """(first model, one past the last, lanes) for every pass."""
    groups, first = [], 0
    while first < n_models:
        left = n_models - first
        lanes = next((lanes for lanes in _LANES if lanes >= left), _LANES[-1])
        groups.append((first, min(n_models, first + lanes), lanes))
        first += lanes
    return groups


def scores(prepared: PreparedRows, mantissas: NDArray[np.int32], *, threads: int = 1) -> NDArray[np.int64]:
    """Integer score of every person under every model: people x models, from mantissas of models x (bins + 1)."""
    mantissas = np.ascontiguousarray(mantissas, np.int32)
    layout = (prepared.groups, prepared.group_counts, prepared.starts, prepared.first_slots)
    cold = (prepared.cold_indptr, prepared.cold_slots, prepared.cold_values)
    pieces = cut_range(len(prepared.starts), threads * PIECES_PER_THREAD)
    out = np.empty((prepared.n_people, len(mantissas)), np.int64)
    for first, last, lanes in _model_groups(len(mantissas)):
        weights = np.zeros(prepared.n_slots * lanes, np.int32)
        blocked.interleave(mantissas[first:last], prepared.slots, lanes, weights)
        bias = np.zeros(lanes, np.int32)
        bias[: last - first] = mantissas[first:last, prepared.n_bins]
        whole = np.empty((prepared.n_people, lanes), np.int64)

        def work(ranges: Iterable[tuple[int, int]], w: Any = weights, b: Any = bias, s: Any = whole) -> None:
            for low, high in ranges:
                if len(b) == 1:
                    blocked.score_one(*layout, *cold, w, b[0], s.reshape(-1), low, high)
                else:
                    blocked.score_lanes(*layout, *cold, w, b, s, low, high, (0,) * len(b))

        share_out(pieces, work, threads)
        if whole.shape == out.shape:
            return whole
        out[:, first:last] = whole[:, : last - first]
    return out


def tally(prepared: PreparedRows, coefficients: NDArray[np.integer[Any]], *, threads: int = 1) -> Tally:
    """Positive and negative unit counts, models x (bins + 1) each.

    ``coefficients`` is people x models, of any signed integer type: the sign of a person's update (zero: no violator)
    times how often it counts. Those of -1, 0 and 1 only are much quicker than others.
    """
    n_models = coefficients.shape[1]
    plus, minus = (np.zeros((n_models, prepared.n_bins + 1), np.int64) for _ in range(2))
    if coefficients.size == 0:
        return plus, minus
    if coefficients.min() >= -1 and coefficients.max() <= 1:
        for first, last, lanes in _model_groups(n_models):
            _tally_signs(prepared, coefficients[:, first:last], lanes, plus[first:last], minus[first:last], threads)
    else:
        for model in range(n_models):
            amounts = coefficients[:, model].astype(np.int64)
            for side, sign in ((plus[model], 1), (minus[model], -1)):
                _tally_amounts(prepared, np.maximum(sign * amounts, 0), side, threads)
    if len(prepared.cold_slots):
        _tally_cold(prepared, coefficients, plus, minus, threads)
    plus[:, -1] = np.maximum(coefficients, 0).sum(axis=0, dtype=np.int64)
    minus[:, -1] = plus[:, -1] - coefficients.sum(axis=0, dtype=np.int64)
    return plus, minus


def _pairs(prepared: PreparedRows, threads: int) -> list[tuple[int, int, int]]:
    """(block of bins, first and one past the last block of people): the pieces of a tally, the longest first.

    Blocks of bins are work for different threads already; only those with a large share of the entries are cut by
    people too, because each piece must add its counts to the tally.
    """
    n = len(prepared.starts)
    sizes = np.diff(prepared.starts.ravel(), append=len(prepared.groups)).reshape(prepared.starts.shape).sum(axis=0)
    enough = -(-n // _PEOPLE_BLOCKS_PER_COUNT)
    pieces = []
    for block, size in enumerate(sizes.tolist()):
        share = 1 if threads <= 1 else -(-2 * threads * size // max(1, len(prepared.groups)))
        ranges = cut_range(n, max(enough, share))
        pieces += [(size // len(ranges), (block, low, high)) for low, high in ranges]
    return [piece for _, piece in sorted(pieces, key=lambda sized: -sized[0])]


def _tally_signs(
    prepared: PreparedRows,
    coefficients: NDArray[np.integer[Any]],
    lanes: int,
    plus: NDArray[np.int64],
    minus: NDArray[np.int64],
    threads: int,
) -> None:
    """Blocked entries under coefficients of -1, 0, 1; both counts of a bin are in one uint32 until a piece is done."""
    active = np.flatnonzero(coefficients.any(axis=1))
    signs = coefficients[active]
    units = np.zeros((len(active), lanes), np.uint32)
    units[:, : signs.shape[1]] = (signs > 0) + (signs < 0) * np.uint32(2**16)

    def add(counts: NDArray[Any], bins: NDArray[np.int32]) -> None:
        blocked.unpack(counts, lanes, bins, plus, minus)

    def count(*piece: Any) -> None:
        blocked.count_one(*piece) if lanes == 1 else blocked.count_lanes(*piece, (0,) * lanes)

    _count_blocks(prepared, active, units, count, add, threads)


def _tally_amounts(prepared: PreparedRows, amounts: NDArray[np.int64], total: NDArray[np.int64], threads: int) -> None:
    """Blocked entries of the people with a positive amount, for one model and one sign."""
    active = np.flatnonzero(amounts)

    def add(counts: NDArray[Any], bins: NDArray[np.int32]) -> None:
        blocked.add_side(counts, bins, total)

    _count_blocks(prepared, active, amounts[active, None], blocked.count_any, add, threads)


def _count_blocks(
    prepared: PreparedRows,
    active: NDArray[np.int64],
    units: NDArray[Any],
    count: Callable[..., None],
    add: Callable[[NDArray[Any], NDArray[np.int32]], None],
    threads: int,
) -> None:
    """``count`` active people's units, people x lanes, piece by piece, and ``add`` each piece's counts of its bins."""
    lanes, flat_units = units.shape[1], units.reshape(-1)
    layout = (prepared.groups, prepared.group_counts, prepared.starts)
    firsts = np.searchsorted(active, np.arange(len(prepared.starts) + 1) * PEOPLE).astype(np.int64)
    # One for each block of bins: only pieces of one block add to the same counts.
    locks = [threading.Lock() for _ in prepared.first_slots]
    widest = int(np.diff(prepared.first_slots).max(initial=0))

    def work(pieces: Iterable[tuple[int, int, int]]) -> None:
        scratch = np.empty(widest * lanes, units.dtype)
        for block, low, high in pieces:
            start, end = prepared.first_slots[block], prepared.first_slots[block + 1] - 1
            counts = scratch[: (end + 1 - start) * lanes]
            counts[:] = 0
            count(*layout, block, low, high, active, firsts, flat_units, counts)
            with locks[block]:
                add(counts, prepared.bin_of_slot[start:end])

    share_out(_pairs(prepared, threads), work, threads)


def _tally_cold(
    prepared: PreparedRows,
    coefficients: NDArray[np.integer[Any]],
    plus: NDArray[np.int64],
    minus: NDArray[np.int64],
    threads: int,
) -> None:
    """The cold entries, model by model."""
    cold = (prepared.cold_indptr, prepared.cold_slots, prepared.cold_values, prepared.bin_of_slot)
    for model in range(coefficients.shape[1]):
        column = np.ascontiguousarray(coefficients[:, model], np.int64)

        def count(low: int, high: int, up: Any, down: Any, column: Any = column) -> None:
            blocked.count_cold(*cold, column, low, high, up, down)

        _over_people(prepared.n_people, count, plus[model], minus[model], threads)


def _over_people(
    n_people: int,
    count: Callable[[int, int, Any, Any], None],
    plus: NDArray[np.int64],
    minus: NDArray[np.int64],
    threads: int,
) -> None:
    """Count ranges of people into one model's tally, each further thread into a tally of its own first."""
    if threads <= 1:
        count(0, n_people, plus, minus)
        return
    lock = threading.Lock()

    def work(ranges: Iterable[tuple[int, int]]) -> None:
        up, down = np.zeros_like(plus), np.zeros_like(minus)
        for low, high in ranges:
            count(low, high, up, down)
        with lock:
            np.add(plus, up, out=plus)
            np.add(minus, down, out=minus)

    share_out(cut_range(n_people, threads * PIECES_PER_THREAD), work, threads)


def thinned_tally(
    rows: BinnedRows,
    signs: NDArray[np.int8],
    keys: NDArray[np.uint64],
    keep53: NDArray[np.int64],
    round_number: int,
    *,
    threads: int = 1,
) -> Thinned:
    """As ``tally``, but person i's unit u is kept only if its dice word, of 53 bits, is below ``keep53[i]``.

    ``signs`` is people x models; ``keys`` is people x 2, the little-endian halves of each person's dice key.
    A person's units are numbered through its bins in ascending order, the bias unit last.
    """
    n_models = signs.shape[1]
    plus, minus = (np.zeros((n_models, rows.n_bins + 1), np.int64) for _ in range(2))
    sent = np.zeros(len(rows), np.int64)
    people = (rows.indptr, rows.bins, rows.values, rows.n_bins)
    dice = (np.ascontiguousarray(keys, np.uint64), np.ascontiguousarray(keep53, np.int64))
    for model in range(n_models):
        column = np.ascontiguousarray(signs[:, model], np.int8)
        counter = np.uint64(dice_counter(round_number, model))

        def count(low: int, high: int, up: Any, down: Any, column: Any = column, counter: Any = counter) -> None:
            count_kept(*people, column, *dice, counter, low, high, up, down, sent)

        _over_people(len(rows), count, plus[model], minus[model], threads)
    return plus, minus, sent
