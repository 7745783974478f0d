"""People at Twitter's shape without hashing: what is laid out in two looks is what they are."""

from __future__ import annotations

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm_lab.engine import Engine
from secvm_lab.paper.twitter.people import TwitterPeople
from secvm_lab.paper.twitter.unhashed import unhashed


def test_half_of_a_crowd_has_the_bytes_of_its_own_unhashed_training() -> None:
    people = TwitterPeople(n_people=2_300, words_per_person=25, vocabulary=2**16)
    half = np.random.default_rng(1).random(people.n_people) < 0.5
    rows, labels = unhashed(people, 3, take=half, size=1_000, threads=2, write_own=True)
    assert len(labels) == rows.n_people == half.sum()
    parts = [
        np.sort(words[indptr[i] : indptr[i + 1]])
        for first, indptr, words, known in people.chunks(3)
        for i in np.flatnonzero(half[first : first + len(known)])
    ]
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    words = np.concatenate(parts)
    plain = BinnedRows(indptr, words, np.ones(len(words), np.int32), people.vocabulary)
    assert rows.own.sum() + len(rows.kept) == len(np.unique(words))
    assert len(rows.kept) < len(np.unique(words)) / 2
    experiment = Experiment(n_bins=people.vocabulary, labels=("n", "p"), rule=Pegasos())
    train = np.arange(len(labels)) % 10 != 0
    engine, training = Engine(rows, labels, [experiment], train=train[:, None]), OfflineTraining(experiment)
    for _ in range(5):
        engine.advance()
        training.advance(Population(rows=plain, labels=labels, train=train))
    assert engine.state(0).to_bytes() == training.state.to_bytes()


def test_somebody_must_take_part() -> None:
    people = TwitterPeople(n_people=10, words_per_person=5, vocabulary=2**10)
    with pytest.raises(BadInputError, match="nobody"):
        unhashed(people, 1, take=np.zeros(10, np.bool_))
    with pytest.raises(BadInputError, match="each person"):
        unhashed(people, 1, take=np.ones(9, np.bool_))
