"""How well bins hide words: a public vocabulary, put into bins with an experiment's salt.

That a thousand words of a dictionary share a bin says little if one of them is half of its traffic. So beside the
numbers of words stands the **posterior**: seeing a bin in a package, and knowing how often words occur, with which
probability is it the bin's most popular word? Weighted by traffic, over all bins:

    sum over bins of the most popular word's traffic  /  all traffic

which is also how often somebody is right who always guesses the most popular word. With several hashes a word stands in
several bins, and each of its packages names one of them.

A vocabulary has a word a line, and after a tab, if it is known, how often it occurs. Without counts, traffic is what
Zipf's law says of the line's number: the word on line r occurs as often as r to the power of minus the exponent. Words
are kept as flat bytes: millions of them are hashed in a second or two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.auditor.files import (
    MOST_DOCUMENT_BYTES,
    MOST_LOG_BYTES,
    PublicFiles,
    choose_experiments,
    experiment_path,
    listed_experiments,
)
from secvm.auditor.findings import Findings
from secvm.errors import BadInputError, BadPeopleFileError, RemoteProtocolError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import HashBinning
from secvm.people.source import open_people
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published
from secvm.protocol.trust.salt import salt_of

#: Bars of the histogram: traffic by the posterior of the bin that it is in.
HISTOGRAM = 20


@dataclass(frozen=True, slots=True, eq=False)
class Collisions:
    """How the words of a vocabulary share the bins of an experiment."""

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
    bins = kernels().hash_flat(vocabulary.data, vocabulary.offsets, binning.keys, binning.n_bins)
    n_words = len(vocabulary)
    if binning.n_hashes == 1:
        return np.arange(n_words), bins[:, 0].astype(np.int64), np.ones(n_words, np.int64)
    pairs = (np.arange(n_words, dtype=np.int64)[:, None] * binning.n_bins + bins).ravel()
    distinct, times = np.unique(pairs, return_counts=True)
    word, where = np.divmod(distinct, binning.n_bins)
    return word, where, times


@dataclass(frozen=True, slots=True, eq=False)
class PublicVocabulary:
    """Words side by side, and how much of the traffic each is."""

    data: NDArray[np.uint8]
    #: Word i is data[offsets[i]:offsets[i + 1]].
    offsets: NDArray[np.int64]
    #: Not normalised.
    traffic: NDArray[np.float64]
    #: Whether the file told it.
    counted: bool

    def __len__(self) -> int:
        return len(self.traffic)

    def word(self, index: int) -> str:
        """One of them."""
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]]).decode()


def read_public_vocabulary(path: str | os.PathLike[str], *, exponent: float = 1.0) -> PublicVocabulary:
    """The words of a file, plain or gzipped, with their counts or by Zipf's law.

    Raises
    ------
    BadInputError
        No words, a word twice, bytes that are no UTF-8, a count that is none; with the line.
    """
    if not 0 <= exponent <= 10:
        raise BadInputError("the exponent of Zipf's law must lie between 0 and 10")
    counts: dict[bytes, int | None] = {}
    with open_people(path) as source:
        for number, line in enumerate(source.lines(), start=1):
            word, tab, count = line.removesuffix(b"\r").rpartition(b"\t")
            if not tab:
                word, count = count, b""
            if not word and not tab:
                continue
            if word in counts:
                raise BadPeopleFileError("the vocabulary has this word twice", line=number)
            if tab and not (count.isdigit() and len(count) <= 18):
                raise BadPeopleFileError("after the tab there is no count", line=number)
            counts[word] = int(count) if tab else None
        if not counts:
            raise BadInputError(f"{source.path}: the vocabulary has no words")
    return _flat(counts, exponent)


def _flat(counts: dict[bytes, int | None], exponent: float) -> PublicVocabulary:
    joined = b"".join(counts)
    try:
        # Whole, because that is quick; words cut a letter in two only where a line does.
        b"\n".join(counts).decode()
    except UnicodeDecodeError:
        raise BadInputError("the vocabulary is not valid UTF-8") from None
    counted = next(iter(counts.values())) is not None
    if any((count is not None) != counted for count in counts.values()):
        raise BadInputError("some words of the vocabulary have a count, and some have none")
    if counted:
        traffic = np.fromiter((count or 0 for count in counts.values()), np.float64, len(counts))
        if not traffic.any():
            raise BadInputError("all counts of the vocabulary are zero")
    else:
        traffic = np.arange(1, len(counts) + 1, dtype=np.float64) ** -exponent
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, counts), np.int64, len(counts)), out=offsets[1:])
    return PublicVocabulary(np.frombuffer(joined, np.uint8), offsets, traffic, counted)


def published_bins(files: PublicFiles, name: str) -> HashBinning:
    """The hashed bins of the experiment whose digest begins so.

    Raises
    ------
    BadInputError
        There is no such experiment, it has a vocabulary, or its salt cannot be told.
    """
    (digest,) = choose_experiments(listed_experiments(files, Findings()) or {}, name)
    envelope = files.get(experiment_path(digest), most=MOST_DOCUMENT_BYTES)
    if envelope is None:
        raise BadInputError("there is no such experiment at this coordinator")
    try:
        document = read_published(envelope, digest=digest)
    except RemoteProtocolError as fault:
        raise BadInputError(f"the experiment cannot be believed: {fault}") from None
    if not isinstance(document.binning, HashedBins):
        raise BadInputError("the experiment's bins are the words of a vocabulary: nothing collides there")
    salt = _salt(files, document, document.binning)
    return HashBinning(n_bins=document.binning.bins, salt=salt, n_hashes=document.binning.hashes)


def _salt(files: PublicFiles, document: ExperimentDocument, binning: HashedBins) -> bytes:
    try:
        first = files.get(experiment_path(document.digest, "first"), most=MOST_LOG_BYTES)
        served = (
            files.get(experiment_path(document.digest, "beacon", index), most=MOST_LOG_BYTES)
            for index in range(len(binning.beacons))
        )
        records = [record for record in served if record is not None]
        return salt_of(document, first=first, records=records, allow_unsafe=document.test)
    except RemoteProtocolError as fault:
        raise BadInputError(f"the experiment's salt cannot be told: {fault}") from None
