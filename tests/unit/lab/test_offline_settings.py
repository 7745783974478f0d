"""What is asked for: numbers of bins, of splits and of hashes that follow from the crowd."""

from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm_lab.paper.offline.crowd import Crowd, FileCrowd, MadeUpCrowd
from secvm_lab.paper.offline.model_figures import FIGURES, LAMBDA_SPLITS
from secvm_lab.paper.offline.settings import Sample, Settings
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.twitter.people import TwitterPeople

PEOPLE = Path(__file__).resolve().parents[3] / "examples" / "people.jsonl"
PAPER = MadeUpCrowd(TwitterPeople(), seed=1)
SMALL = FileCrowd.open(PEOPLE)


def settings(crowd: Crowd, n_splits: int = 20, figures: tuple[str, ...] = ("1b",), **more: object) -> Settings:
    test = np.arange(crowd.n_people // 10)
    splits = Splits(crowd.n_people, None, (test,) * n_splits, None)
    return Settings(crowd=crowd, splits=splits, figures=figures, **more)  # type: ignore[arg-type]  # any of its fields


def test_bins_are_shares_of_the_words() -> None:
    assert settings(PAPER).bins == (None, 9_588_000, 958_800, 95_880)
    assert settings(PAPER).few_bins == (958_800, 95_880)
    assert settings(SMALL).bins == (None, 9, 1)
    # One bin has nothing to say about λ.
    assert settings(SMALL).few_bins == (9,)
    assert settings(SMALL, asked_bins=(None, 7)).bins == (None, 7)


def test_large_crowds_have_few_splits_where_bins_are_many_and_nobody_asked() -> None:
    large = settings(PAPER, 141)
    assert [large.splits_with(bins) for bins in large.bins] == [16, 16, 141, 141]
    assert settings(PAPER, 141, asked_bins=(None,)).splits_with(None) == 141
    assert settings(SMALL, 141).splits_with(None) == 141


def test_hashes_of_small_crowds_differ_between_splits() -> None:
    small, large = settings(SMALL), settings(PAPER)
    middle = settings(PAPER.first(20_000))
    assert [len(set(each.salts)) for each in (small, middle, large)] == [20, 5, 1]
    assert small.model(3, 9).salt == small.salts[3]
    assert middle.model(3, 9).salt == middle.model(0, 9).salt != middle.model(4, 9).salt
    assert small.model(3, None).salt == ""


def test_figures_share_the_models_that_they_have_in_common() -> None:
    asked = settings(SMALL, asked_bins=(9,))
    one, two, three = ({model for _, some in points(asked) for model in some} for _, points in FIGURES.values())
    assert len(one & two) == LAMBDA_SPLITS
    assert len(one & three) == 16


def test_some_people_are_a_sample_of_a_file_and_the_first_of_made_up_ones() -> None:
    some = Sample(settings(SMALL), 100, 1, None).people
    assert len(set(some.tolist())) == 100
    assert some.max() > 300
    assert (np.diff(some) > 0).all()
    assert Sample(settings(PAPER), 100, 1, None).people.tolist() == list(range(100))


def test_rules_of_few_words_are_unhashed() -> None:
    assert settings(SMALL).rule_bins is None
    assert settings(PAPER).rule_bins == 95_880
    assert settings(PAPER.first(1_000)).rule_bins == 10_000


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [((), "a figure is one of"), (("2",), "a figure is one of"), (("1a",), "no halves A and B")],
)
def test_what_cannot_be_made_is_refused(figures: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        settings(SMALL, figures=figures)
