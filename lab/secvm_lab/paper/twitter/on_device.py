"""DeviceWords: the words of people at Twitter's shape, drawn on a device, and hashed there into any number of bins.

The people of ``paper.twitter.people``, word for word, in a part of a second instead of a minute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from secvm.errors import BadInputError
from secvm.learning._kernels.hashing_plain import bin_rows
from secvm.learning.individual.binning import HashBinning
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels.twitter_numbers import THROW_BITS
from secvm_lab.engine.cuda.device import Device
from secvm_lab.engine.cuda.people import THREADS, DevicePeople
from secvm_lab.paper.twitter import law
from secvm_lab.paper.twitter.people import TwitterPeople

#: Blocks of threads that draw; each warp has a table of a person's words.
_DRAWING = 512


class DeviceWords:
    """All words of some people. Secret: it does not print itself."""

    def __init__(self, device: Device, people: TwitterPeople, seed: int) -> None:
        xp, some = device.xp, people.facts(seed, 0, people.n_people)
        bits, n_words = (2 * int(people.lengths.max())).bit_length(), int(some.indptr[-1])
        warps = _DRAWING * THREADS // 32
        device.room(4 * n_words + (8 * warps << bits))
        self._device = device
        #: int8, 0 or 1 for each person.
        self.labels = some.labels
        self._indptr, keys, sides, strengths = (
            xp.asarray(a)
            for a in (
                some.indptr,
                np.concatenate(some.keys),
                some.sides.astype(np.uint8),
                some.strengths.astype(np.int32),
            )
        )
        self._words, stuck = xp.empty(n_words, np.int32), xp.zeros(1, np.int32)
        tables = xp.zeros(warps << bits, np.uint64)
        edges, leans = xp.asarray(people.edges), xp.asarray(law.leans(people.signal))
        device.launch(
            "draw_words", _DRAWING, THREADS, edges, leans, keys, 0, sides, strengths, self._indptr, people.n_people,
            bits, tables, self._words, stuck,
        )  # fmt: skip
        if int(stuck[0]):
            raise BadInputError(f"a person did not find so many different words in {2**THROW_BITS} draws")

    def __repr__(self) -> str:
        return f"DeviceWords(<{len(self.labels)} people>)"

    def binned(self, binning: HashBinning) -> DevicePeople:
        """Everybody in blocks of columns, words hashed as decimal strings."""
        return DevicePeople(self._device, *self.entries(binning), None, binning.n_bins)

    def entries(self, binning: HashBinning) -> tuple[Any, Any]:
        """On the device: where each person begins, and the bins of its words, as they come."""
        device, xp, keys = self._device, self._device.xp, binning.keys
        device.room(4 * len(self._words) * len(keys))
        bins = xp.empty(len(self._words) * len(keys), np.int32)
        for place, key in enumerate(keys):
            halves = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
            given = (self._words, len(self._words), *halves, binning.n_bins, place, len(keys), bins)
            device.launch("hash_numbers", 4096, THREADS, *given)
        return self._indptr * len(keys), bins

    def rows(self, binning: HashBinning) -> BinnedRows:
        """Everybody's rows, in this process."""
        indptr, bins = (self._device.to_host(array) for array in self.entries(binning))
        return bin_rows(indptr, bins.reshape(-1, 1), None, binning.n_bins)
