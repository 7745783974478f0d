"""The kernels, written to be read. This file is the specification; ``fast.py`` must equal it bit for bit.

``threads`` are those of the quick kernels; here they change nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError
from secvm.learning.cover_sampler import CellLaw, draw_clusters
from secvm.learning.rows import BinnedRows

#: Counts of + and of -, models x (bins + 1) each.
Tally = tuple[NDArray[np.int64], NDArray[np.int64]]
#: The same of units that were kept, and how many each person kept in all models together.
Thinned = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
#: The next so many bytes of a stream that does not end.
TakeBytes = Callable[[int], bytes]
#: Cells and sizes, both int64: the i-th cluster names the i-th cell so often.
Clusters = tuple[NDArray[np.int64], NDArray[np.int64]]

_MASK = (1 << 64) - 1
_WORD_BYTES = 8
#: Words of a stream that are asked for at once: a part takes up to hundreds of millions, never all in memory.
_BLOCK = 1 << 14


def _rotl(x: int, b: int) -> int:
    return ((x << b) | (x >> (64 - b))) & _MASK


def _sip_round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _MASK
    v[1] = _rotl(v[1], 13) ^ v[0]
    v[0] = _rotl(v[0], 32)
    v[2] = (v[2] + v[3]) & _MASK
    v[3] = _rotl(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _MASK
    v[3] = _rotl(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _MASK
    v[1] = _rotl(v[1], 17) ^ v[2]
    v[2] = _rotl(v[2], 32)


def siphash24(key: bytes, message: bytes) -> int:
    """SipHash-2-4 with a 16-byte key, as a 64-bit integer (Aumasson and Bernstein 2012)."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = message + b"\0" * (7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for start in range(0, len(padded), 8):
        block = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= block
        _sip_round(v)
        _sip_round(v)
        v[0] ^= block
    v[2] ^= 0xFF
    for _ in range(4):
        _sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def reduce_to_bin(hashed: int, n_bins: int) -> int:
    """The bin of a 64-bit hash: its upper 32 bits, scaled down to ``n_bins`` < 2^31 by multiply and shift."""
    return ((hashed >> 32) * n_bins) >> 32


def prepare(rows: BinnedRows) -> BinnedRows:
    """The rows in the form that ``scores`` and ``tally`` take: as they are."""
    return rows


def scores(rows: BinnedRows, mantissas: NDArray[np.int32], *, threads: int = 1) -> NDArray[np.int64]:
    """Integer score of every person under every model: people x models, from mantissas of models x (bins + 1)."""
    out = np.empty((len(rows), len(mantissas)), dtype=np.int64)
    wide = mantissas.astype(np.int64)
    for i in range(len(rows)):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        out[i] = (wide[:, rows.bins[row]] * rows.values[row]).sum(axis=1) + wide[:, rows.n_bins]
    return out


def tally(rows: BinnedRows, coefficients: NDArray[np.integer[Any]], *, threads: int = 1) -> Tally:
    """Positive and negative unit counts, models x (bins + 1) each.

    ``coefficients`` is people x models: the sign of a person's update (zero: no violator) times how often it counts.
    """
    shape = (coefficients.shape[1], rows.n_bins + 1)
    plus, minus = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for i in range(len(rows)):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        bins = np.append(rows.bins[row], rows.n_bins)
        values = np.append(rows.values[row].astype(np.int64), 1)
        for model in np.flatnonzero(coefficients[i]):
            units = values * np.int64(coefficients[i, model])
            plus[model, bins] += np.maximum(units, 0)
            minus[model, bins] += np.maximum(-units, 0)
    return plus, minus


def dice_word(key: bytes, round_number: int, model: int, index: int) -> int:
    """Word ``index`` of a seeded stream: SipHash in counter mode over (round, model, index)."""
    return siphash24(key, (dice_counter(round_number, model) + index).to_bytes(8, "little"))


def dice_counter(round_number: int, model: int) -> int:
    """Where the words of a round and a model begin: 20 bits of round, 12 of model, 32 of index, and not one more."""
    if not (0 <= round_number < 1 << 20 and 0 <= model < 1 << 12):
        raise ArithmeticRangeError("dice have words for 2^20 rounds and 2^12 models")
    return (round_number << 44) | (model << 32)


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
    shape = (signs.shape[1], rows.n_bins + 1)
    plus, minus = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    kept = np.zeros(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        bins = np.append(rows.bins[row], rows.n_bins)
        values = np.append(rows.values[row], 1)
        key = keys[i].astype("<u8").tobytes()
        for model in np.flatnonzero(signs[i]):
            unit = 0
            for bin_index, value in zip(bins.tolist(), values.tolist(), strict=True):
                side = plus if int(signs[i, model]) * value > 0 else minus
                for _ in range(abs(value)):
                    sent = dice_word(key, round_number, int(model), unit) >> 11 < keep53[i]
                    side[model, bin_index] += sent
                    kept[i] += sent
                    unit += 1
    return plus, minus, kept


class PartWords(Iterator[int]):
    """A stream as words of 64 bits, low byte first: one by one, or all that are there as an array."""

    def __init__(self, take: TakeBytes) -> None:
        self._take = take
        self.block: NDArray[np.uint64] = np.empty(0, np.uint64)
        #: The next word's place in the block.
        self.at = 0

    def more(self) -> None:
        """Another block after the words that are left."""
        fresh = np.frombuffer(self._take(_WORD_BYTES * _BLOCK), "<u8")
        self.block = np.concatenate([self.block[self.at :], fresh])
        self.at = 0

    def __next__(self) -> int:
        if self.at == len(self.block):
            self.more()
        self.at += 1
        return int(self.block[self.at - 1])


def cover_clusters(law: CellLaw, take: TakeBytes, most: int) -> Clusters | None:
    """All clusters of a draw by the sampler itself, in order; None where they are more than ``most`` packages."""
    cells, sizes, total = array("q"), array("q"), 0
    for cell, size in draw_clusters(law, PartWords(take)):
        cells.append(cell)
        sizes.append(size)
        total += size
        if total > most:
            return None
    return np.array(cells, np.int64), np.array(sizes, np.int64)
