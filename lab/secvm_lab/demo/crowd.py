"""The people of a demonstration: those who take part, and further ones on whom the model is measured.

They come from the seeded generator of page titles, or from a file of people, part of which is held out. Everybody here
is made up or volunteered by whoever started the demonstration; a real federation has no such list.

With a guarantee the bins are a public *vocabulary*: the hosts that most of some other people visit, as anybody can rank
them, or the most frequent features of people who are held out. All else stays out of the demonstration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.individual.binning import Binning, VocabularyBinning
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort, sample_features
from secvm.learning.package import Cohort
from secvm.learning.rows import BinnedRows
from secvm.people.person import in_order
from secvm.people.source import iter_people
from secvm_lab.population import TitlePeople

#: So many further people measure the model; of a file, at most so many and at most this share are held out.
FURTHER = 5_000
HELD_OUT = 0.2
#: So many other people, or this share of those held out, rank what stands in a vocabulary.
RANKING = 1_000
RANKING_SHARE = 0.2
#: Further people of the generator begin here, and those who rank there: nobody takes part under a number so high.
_FIRST_FURTHER = 1_000_000
_FIRST_RANKING = 2_000_000
#: How a feature begins that is a host.
_HOST = "host:"


@dataclass(frozen=True, eq=False, repr=False)
class Crowd:
    """People as features and labels. Secret as people are: it does not print itself."""

    labels: tuple[str, ...]
    features: list[dict[str, int]]
    #: Index of each participant's label.
    codes: NDArray[np.int64]
    further_features: list[dict[str, int]]
    further_codes: NDArray[np.int64]
    #: Where they come from, in a sentence.
    words: str
    #: That the bins are, and public; None: bins are hashed.
    vocabulary: VocabularyBinning | None = None

    def __len__(self) -> int:
        return len(self.features)

    def write(self, path: Path) -> None:
        """The participants as a file of people."""
        people = zip(self.codes, self.features, strict=True)
        lines = [orjson.dumps({"label": self.labels[code], "features": list(features)}) for code, features in people]
        path.write_bytes(b"\n".join(lines) + b"\n")

    def write_vocabulary(self, path: Path) -> Path | None:
        """The vocabulary, a name a line; None: there is none."""
        if self.vocabulary is None:
            return None
        path.write_text("".join(f"{name}\n" for name in self.vocabulary.words), encoding="utf-8")
        return path


def made_up(participants: int, *, seed: int, further: int = FURTHER, vocabulary_size: int = 0) -> Crowd:
    """People of the generator; ``vocabulary_size``: so many hosts are the vocabulary, and nothing else counts."""
    generator = TitlePeople(seed=seed)
    place = {label: i for i, label in enumerate(generator.labels)}
    here = list(generator.people(participants))
    others = list(generator.people(further, first=_FIRST_FURTHER))
    crowd = Crowd(
        labels=generator.labels,
        features=[person.features() for person in here],
        codes=np.array([place[person.label] for person in here], dtype=np.int64),
        further_features=[person.features() for person in others],
        further_codes=np.array([place[person.label] for person in others], dtype=np.int64),
        words=(
            f"The people are made up, from seed {seed}: each has visited a few pages, and their titles’ words and"
            f" their hosts"
            " lean a little towards one label or the other."
        ),
    )
    if not vocabulary_size:
        return crowd
    ranking = (person.features() for person in generator.people(RANKING, first=_FIRST_RANKING))
    return _only_words_of(crowd, _most_frequent((_hosts(features) for features in ranking), vocabulary_size))


def from_file(path: Path, participants: int, *, seed: int, vocabulary_size: int = 0) -> Crowd:
    """People of a file, in an order drawn from the seed; the first ones are held out.

    ``vocabulary_size``: so many features, by the first of those held out, are the vocabulary; nothing else counts.
    """
    everybody = list(iter_people(path))
    held_out = min(FURTHER, int(HELD_OUT * len(everybody)))
    order = np.random.default_rng(seed).permutation(len(everybody))
    here = [everybody[i] for i in order[held_out:][:participants]]
    others = [everybody[i] for i in order[:held_out]]
    labels = tuple(in_order({str(person.label) for person in here}))
    if len(labels) < 2 or not others:
        raise BadInputError(f"{path}: a demonstration needs more people, and of at least two labels")
    place = {label: i for i, label in enumerate(labels)}
    ranking = others[: int(RANKING_SHARE * len(others))] if vocabulary_size else []
    if vocabulary_size and not ranking:
        raise BadInputError(f"{path}: {len(others)} people are held out, too few to rank a vocabulary by; try --plain")
    others = others[len(ranking) :]
    # Of a label that nobody who trains has, nothing can be learned: those people are not asked.
    others = [person for person in others if person.label in place]
    crowd = Crowd(
        labels=labels,
        features=[_presence(person.features) for person in here],
        codes=np.array([place[str(person.label)] for person in here], dtype=np.int64),
        further_features=[_presence(person.features) for person in others],
        further_codes=np.array([place[str(person.label)] for person in others], dtype=np.int64),
        words=f"The people come from a file: {len(here):,} of them took part, {len(others):,} others were held out.",
    )
    if not vocabulary_size:
        return crowd
    return _only_words_of(crowd, _most_frequent((_presence(person.features) for person in ranking), vocabulary_size))


def _most_frequent(people: Iterable[dict[str, int]], count: int) -> VocabularyBinning:
    """What most of these people have; of as many the first by name."""
    frequent = Counter(name for features in people for name in features)
    return VocabularyBinning(tuple(sorted(frequent, key=lambda name: (-frequent[name], name))[:count]))


def _only_words_of(crowd: Crowd, vocabulary: VocabularyBinning) -> Crowd:
    """The same people with what is in the vocabulary; who has nothing of it keeps all, so that no vault is empty."""

    def kept(features: dict[str, int]) -> dict[str, int]:
        return {name: value for name, value in features.items() if name in vocabulary.index} or features

    return replace(
        crowd,
        features=[kept(person) for person in crowd.features],
        further_features=[kept(person) for person in crowd.further_features],
        words=f"{crowd.words} What counts is which of the {vocabulary.n_bins} names of a public vocabulary each has.",
        vocabulary=vocabulary,
    )


def _hosts(features: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in features.items() if name.startswith(_HOST)}


def _presence(features: dict[str, int]) -> dict[str, int]:
    return {name: 1 for name, value in features.items() if value > 0}


def sampled(features: list[dict[str, int]], limit: int | None, *, dice_seed: bytes) -> list[dict[str, int]]:
    """What devices take of each person's features when it joins, by its own dice."""
    return [
        sample_features(person, limit, UnsafeSeededDice(dice_seed, number)) for number, person in enumerate(features)
    ]


def binned(features: list[dict[str, int]], binning: Binning, *, one_per_bin: bool = False) -> BinnedRows:
    """Features as rows of bins, by presence; with ``one_per_bin`` bins have one unit or none, as cover needs it."""
    # Every word is hashed once, however many people use it.
    bins_of = {word: binning.bins_of(word) for word in {word for person in features for word in person}}
    found = [[b for word in person for b in bins_of[word]] for person in features]
    if one_per_bin:
        found = [sorted(set(person)) for person in found]
    offsets = np.cumsum([0, *map(len, found)]).astype(np.int64)
    bins = np.array([b for person in found for b in person], dtype=np.int32)
    return kernels().bin_rows(offsets, bins, np.ones(len(bins), dtype=np.int64), binning.n_bins)


def who_trains(count: int, *, share: Fraction, dice_seed: bytes) -> NDArray[np.bool_]:
    """Everybody's cohort, as their own dice draw it."""
    drawn = [draw_cohort(share, UnsafeSeededDice(dice_seed, number)) is Cohort.TRAIN for number in range(count)]
    return np.array(drawn, dtype=np.bool_)


def central_accuracy(crowd: Crowd, train: NDArray[np.bool_]) -> float:
    """scikit-learn's LinearSVC, as it comes, on the words of the same training people in one place."""
    # Slow to import, and only here.
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    words = DictVectorizer(dtype=np.float64)
    inside = words.fit_transform([features for features, there in zip(crowd.features, train, strict=True) if there])
    # Some versions of scikit-learn count in 64 bits and refuse to.
    inside.indices, inside.indptr = inside.indices.astype(np.int32), inside.indptr.astype(np.int32)
    model = LinearSVC(random_state=0).fit(inside, crowd.codes[train])
    predicted = model.predict(words.transform(crowd.further_features))
    return float((predicted == crowd.further_codes).mean())
