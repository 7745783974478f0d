"""Features to bins: a salted hash into few bins, or a public vocabulary as the bins.

The rules, in the order they apply (docs/protocol.md §2):

 1. A feature is text, taken as its UTF-8 bytes and never normalised; an index of an svmlight file is its decimal
    string. Its value is an integer; zero means absent.
 2. Hash r of a feature is SipHash-2-4 under key r; its upper 32 bits, scaled, are the bin. Key r is BLAKE2b of the
    salt, the number of bins and r: another number of bins is another hash, so nobody learns more by changing it.
 3. Values that land in one bin add; a bin whose values cancel is absent. In an experiment with cover a bin is there or
    not: 1 for whatever lands in it.
 4. One more bin, the bias, is always there with value 1, is not hashed, and has the last index.
 5. With a vocabulary the bins are its words, in its order; other features are dropped. Its digest names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from secvm.errors import ArithmeticRangeError, BadExperimentError, BadInputError
from secvm.learning._kernels import reference
from secvm.learning.declared import BINS, HASHES
from secvm.learning.rows import MAX_UNITS

#: BLAKE2b personalisation; the protocol's version is inside the hash.
_KEY_TAG = b"secvm-v1-binning"
_VOCABULARY_TAG = b"secvm-v1-vocab\0\0"


@dataclass(frozen=True, slots=True)
class BinnedVector:
    """One person's integer counts per bin, without the bias. Secret: it does not print itself."""

    #: Bin to value, ascending, no zeros.
    values: dict[int, int]
    n_bins: int

    def __repr__(self) -> str:
        return "BinnedVector(...)"

    def with_bias(self) -> dict[int, int]:
        """All bins of the person, the bias bin last."""
        return {**self.values, self.n_bins: 1}


@dataclass(frozen=True)
class HashBinning:
    """Bins by salted hash."""

    n_bins: int
    #: Public randomness nobody chose.
    salt: bytes
    n_hashes: int = 1

    def __post_init__(self) -> None:
        BINS.read(self.n_bins)
        HASHES.read(self.n_hashes)

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """The 16-byte SipHash key of each hash."""
        return tuple(
            hashlib.blake2b(
                self.salt + self.n_bins.to_bytes(8, "little") + r.to_bytes(4, "little"),
                digest_size=16,
                person=_KEY_TAG,
            ).digest()
            for r in range(self.n_hashes)
        )

    def bins_of(self, feature: str) -> list[int]:
        """The bin of each hash of a feature; one bin may come twice."""
        data = utf8(feature)
        return [reference.reduce_to_bin(reference.siphash24(key, data), self.n_bins) for key in self.keys]


@dataclass(frozen=True, repr=False)
class VocabularyBinning:
    """A public list of words as the bins. One found among people is not public, so it does not print itself."""

    words: tuple[str, ...]
    #: Word to bin.
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {word: i for i, word in enumerate(self.words)}
        if not self.words:
            raise BadExperimentError("the vocabulary has no words")
        if len(index) != len(self.words):
            raise BadExperimentError("the vocabulary has a word twice")
        if any("\n" in word for word in self.words):
            raise BadExperimentError("a word of the vocabulary has a line break in it")
        object.__setattr__(self, "index", index)

    def __repr__(self) -> str:
        return f"VocabularyBinning(<{len(self.words)} words>, digest={self.digest!r})"

    @property
    def n_bins(self) -> int:
        return len(self.words)

    @cached_property
    def digest(self) -> str:
        """BLAKE2b-256 of the words, one a line, in hexadecimal: the name of this vocabulary."""
        hasher = hashlib.blake2b(digest_size=32, person=_VOCABULARY_TAG)
        for word in self.words:
            hasher.update(utf8(word) + b"\n")
        return hasher.hexdigest()

    def bins_of(self, feature: str) -> list[int]:
        """The bin of a word, or none."""
        place = self.index.get(feature)
        return [] if place is None else [place]


def utf8(text: str) -> bytes:
    """The bytes of a feature. Half a surrogate pair has none; Python's own message would show the feature."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInputError("a feature is no valid Unicode text") from None


Binning = HashBinning | VocabularyBinning


def bin_features(
    features: Mapping[str, int], binning: Binning, *, presence: bool = False, one_per_bin: bool = False
) -> BinnedVector:
    """One person's features, as values per bin.

    With ``presence`` every feature of positive value counts 1; a negative value has no presence and is refused.
    ``one_per_bin`` is presence after hashing, too: two features of one person in one bin are one unit. Experiments with
    cover need it, because their guarantee is about one unit.
    """
    presence = presence or one_per_bin
    totals: dict[int, int] = {}
    for feature, value in features.items():
        if presence and value < 0:
            raise BadInputError("a feature has a negative value, which has no meaning as presence")
        if value == 0:
            continue
        for bin_index in binning.bins_of(feature):
            totals[bin_index] = 1 if one_per_bin else totals.get(bin_index, 0) + (1 if presence else value)
    if sum(map(abs, totals.values())) >= MAX_UNITS:
        raise ArithmeticRangeError(f"a person has {MAX_UNITS} units or more; sums would no longer be exact everywhere")
    return BinnedVector(values={b: totals[b] for b in sorted(totals) if totals[b]}, n_bins=binning.n_bins)
