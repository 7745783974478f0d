"""Crowds: the same rows again, here and elsewhere."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.learning.individual.binning import HashBinning
from secvm.people.reader import read_people
from secvm_lab.engine.collapsed import CollapsedRows
from secvm_lab.paper.offline.crowd import PAPER_WORDS, FileCrowd, MadeUpCrowd, Recipe
from secvm_lab.paper.twitter.people import TwitterPeople

PEOPLE = Path(__file__).resolve().parents[3] / "examples" / "people.jsonl"
SALT = b"a salt"


def made_up(n: int = 40) -> MadeUpCrowd:
    return MadeUpCrowd(TwitterPeople(n_people=n, words_per_person=30, vocabulary=2**20), seed=3)


@pytest.mark.parametrize("hashes", [1, 2])
def test_words_hashed_from_the_table_are_those_of_the_reader(hashes: int) -> None:
    crowd = FileCrowd.open(PEOPLE)
    read = read_people(PEOPLE, HashBinning(50, SALT, hashes))
    rows = crowd.rows(50, hashes, SALT, threads=1)
    for part in ("indptr", "bins", "values"):
        np.testing.assert_array_equal(getattr(rows, part), getattr(read.rows, part))
    np.testing.assert_array_equal(crowd.labels(), read.label_codes)
    assert crowd.n_words == 96


def test_made_up_labels_do_not_need_the_words() -> None:
    crowd = made_up()
    labels = np.concatenate([labels for *_, labels in crowd.people.chunks(3)])
    np.testing.assert_array_equal(crowd.labels(), labels)


def test_paper_has_a_thousand_words_for_each_of_its_bins() -> None:
    crowd = MadeUpCrowd(TwitterPeople(), seed=1)
    assert crowd.n_words == PAPER_WORDS
    assert crowd.n_words // 1000 == 95_880
    assert crowd.first(5_000).n_words < crowd.n_words / 10


def test_made_up_words_are_everybodys_own() -> None:
    crowd = made_up()
    rows = crowd.rows(None, 1, b"", threads=1)
    _, indptr, words, _ = next(crowd.people.chunks(3))
    for i in range(len(rows)):
        assert rows.bins[rows.indptr[i] : rows.indptr[i + 1]].tolist() == sorted(words[indptr[i] : indptr[i + 1]])


@pytest.mark.parametrize("bins", [None, 64])
def test_recipe_makes_the_same_rows_elsewhere(bins: int | None) -> None:
    recipe = Recipe(made_up(), bins, 1, SALT)
    again = pickle.loads(pickle.dumps(recipe))
    assert again == recipe
    assert len(pickle.dumps(recipe)) < 50_000  # tables that were looked up travel along
    here, there = recipe.prepared(), again.prepared(threads=2)
    assert here.n_bins == recipe.n_bins
    ours, theirs = (rows.prepared if isinstance(rows, CollapsedRows) else rows for rows in (here, there))
    np.testing.assert_array_equal(ours.groups, theirs.groups)
    np.testing.assert_array_equal(ours.cold_slots, theirs.cold_slots)


def test_recipe_of_a_half_has_its_people() -> None:
    take = np.arange(40) % 3 == 0
    recipe = Recipe(made_up(), None, 1, b"", np.packbits(take).tobytes())
    np.testing.assert_array_equal(recipe.take, take)
    assert recipe.prepared().n_people == take.sum()


def test_file_that_is_another_one_now_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(PEOPLE.read_bytes())
    crowd = FileCrowd.open(path)
    path.write_bytes(path.read_bytes().replace(b"north", b"south", 1))
    FileCrowd.open(PEOPLE)  # so that it is read again
    with pytest.raises(BadInputError, match="not the file that was read first"):
        crowd.labels()


@pytest.mark.parametrize(
    ("labels", "sentence"), [(("a", "a"), "everybody has the same"), (("a", "b", "c"), "there are 3")]
)
def test_other_than_two_labels_are_one_sentence(tmp_path: Path, labels: tuple[str, ...], sentence: str) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text("".join(f'{{"label": "{label}", "features": ["x"]}}\n' for label in labels), encoding="utf-8")
    with pytest.raises(BadInputError, match=f"two labels apart, and {sentence}"):
        FileCrowd.open(path)
