"""How well bins hide words: a public vocabulary, put into bins with an experiment's salt.

That a thousand words of a dictionary share a bin says little if one of them is half of its traffic. So beside the
numbers of words stands the **posterior**: seeing a bin in a package, and knowing how often words occur, with which
probability is it the bin's most popular word? Weighted by traffic, over all bins:

    sum over bins of the most popular word's traffic  /  all traffic

which is also how often somebody is right who always guesses the most popular word. With several hashes a word stands in
several bins, and each of its packages names one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.auditor.bins.vocabulary import PublicVocabulary
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import HashBinning

#: Bars of the histogram: traffic by the posterior of the bin that it is in.
HISTOGRAM = 20


@dataclass(frozen=True, slots=True, eq=False)
class Collisions:
    """What was found."""

    words: int
    bins: int
    hashes: int
    #: Distinct words in a bin.
    smallest: int
    median: float
    largest: int
    #: Bins without a word of this vocabulary.
    empty: int
    #: Words that stand alone in a bin, by index, ascending.
    alone: NDArray[np.int64]
    #: Traffic-weighted posterior of a bin's most popular word.
    posterior: float
    #: Share of the traffic in bins whose most popular word has a posterior above one half, and above nine tenths.
    above_half: float
    above_nine_tenths: float
    #: Share of the traffic by posterior, from 0 to 1.
    histogram: NDArray[np.float64]
    #: Whether the traffic was counted, or is Zipf's law.
    counted: bool

    def to_content(self) -> dict[str, Any]:
        """For programs; keys stay."""
        return {
            "words": self.words,
            "bins": self.bins,
            "hashes": self.hashes,
            "words_per_bin_smallest": self.smallest,
            "words_per_bin_median": self.median,
            "words_per_bin_largest": self.largest,
            "bins_empty": self.empty,
            "words_alone": len(self.alone),
            "traffic": "counted" if self.counted else "zipf",
            "posterior": self.posterior,
            "traffic_above_half": self.above_half,
            "traffic_above_nine_tenths": self.above_nine_tenths,
            "histogram": [float(share) for share in self.histogram],
        }


def find_collisions(vocabulary: PublicVocabulary, binning: HashBinning) -> Collisions:
    """Put every word into its bins, and look who shares them."""
    n_bins, n_words = binning.n_bins, len(vocabulary)
    word, where, times = _places(vocabulary, binning)
    per_bin = np.bincount(where, minlength=n_bins)
    alone = np.unique(word[per_bin[where] == 1])
    # A word that meets itself in a bin sends two units there.
    traffic = vocabulary.traffic[word] * times
    total = np.bincount(where, weights=traffic, minlength=n_bins)
    most = np.zeros(n_bins)
    np.maximum.at(most, where, traffic)
    seen = total > 0
    share = total[seen] / total.sum()
    posterior = most[seen] / total[seen]
    histogram, _ = np.histogram(posterior, bins=HISTOGRAM, range=(0.0, 1.0), weights=share)
    return Collisions(
        words=n_words,
        bins=n_bins,
        hashes=binning.n_hashes,
        smallest=int(per_bin.min()),
        median=float(np.median(per_bin)),
        largest=int(per_bin.max()),
        empty=int((per_bin == 0).sum()),
        alone=alone,
        posterior=float((posterior * share).sum()),
        above_half=float(share[posterior > 0.5].sum()),
        above_nine_tenths=float(share[posterior > 0.9].sum()),
        histogram=histogram,
        counted=vocabulary.counted,
    )


def _places(
    vocabulary: PublicVocabulary, binning: HashBinning
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of word and bin, each once, and how many of the word's hashes lead there."""
    found = kernels().hash_flat(vocabulary.data, vocabulary.offsets, binning.keys, binning.n_bins)
    n_words = len(vocabulary)
    if binning.n_hashes == 1:
        return np.arange(n_words), found[:, 0].astype(np.int64), np.ones(n_words, np.int64)
    pairs = (np.arange(n_words, dtype=np.int64)[:, None] * binning.n_bins + found).ravel()
    distinct, times = np.unique(pairs, return_counts=True)
    word, where = np.divmod(distinct, binning.n_bins)
    return word, where, times
