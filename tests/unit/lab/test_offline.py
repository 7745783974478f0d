"""The offline evaluation: crowds that give the same rows again, here and elsewhere; who trains and who tests, and the
file in which others find the same; numbers of bins, splits and hashes that follow from the crowd; and a folder of
finished work, taken where it is whole and worked out anew where it is not.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.individual.binning import HashBinning
from secvm.people.reader import read_people
from secvm_lab.engine import Swept
from secvm_lab.engine.collapsed import CollapsedRows
from secvm_lab.paper.offline.crowd import PAPER_WORDS, Crowd, FileCrowd, MadeUpCrowd, Recipe
from secvm_lab.paper.offline.model_figures import FIGURES, LAMBDA_SPLITS
from secvm_lab.paper.offline.models import Model, Stored, Trained, as_json, from_json
from secvm_lab.paper.offline.settings import Sample, Settings
from secvm_lab.paper.offline.splits import Split, Splits
from secvm_lab.paper.offline.training import LocalSweeper, Trainer
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


@given(n_people=st.integers(4, 200), seed=st.integers(0, 1000))
def test_a_tenth_tests_and_everybody_else_trains(n_people: int, seed: int) -> None:
    splits = Splits.draw(n_people, 3, seed)
    for k in range(3):
        train, test = splits.masks(k)
        assert (train ^ test).all()
        assert test.sum() == max(1, n_people // 10)


@given(n_people=st.integers(4, 200), seed=st.integers(0, 1000))
def test_halves_share_nobody_and_leave_nobody_out(n_people: int, seed: int) -> None:
    splits = Splits.draw(n_people, 1, seed)
    (train_a, test_a), (train_b, test_b) = splits.masks("A"), splits.masks("B")
    counts = np.sum([train_a, test_a, train_b, test_b], axis=0)
    assert (counts == 1).all()
    assert abs(int((train_a | test_a).sum()) - int((train_b | test_b).sum())) <= 1


def test_ten_splits_are_the_first_ten_of_a_hundred() -> None:
    few, many = Splits.draw(50, 10, 7), Splits.draw(50, 100, 7)
    assert [few.digest(k) for k in range(10)] == [many.digest(k) for k in range(10)]
    assert len({many.digest(k) for k in range(100)}) == 100
    assert few.digest("A") == many.digest("A") != few.digest("B")
    assert Splits.draw(50, 1, 8).digest(0) != few.digest(0)


def test_file_gives_the_same_splits_back(tmp_path: Path) -> None:
    drawn = Splits.draw(30, 4, 1)
    drawn.write(tmp_path / "splits.json")
    read = Splits.read(tmp_path / "splits.json", 30)
    assert read.seed == 1
    every: tuple[Split, ...] = (0, 1, 2, 3, "A", "B")
    for split in every:
        np.testing.assert_array_equal(read.masks(split), drawn.masks(split))


HALVES = {"A": {"people": [0, 1, 2], "test": [0]}, "B": {"people": [3, 4], "test": [4]}}
GOOD: dict[str, Any] = {"people": 6, "splits": [[0], [5, 1]], "halves": HALVES}


def test_file_of_a_stranger_needs_neither_order_nor_seed_nor_halves(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_bytes(orjson.dumps({"people": 6, "splits": [[5, 1]]}))
    read = Splits.read(path, 6)
    assert read.tests[0].tolist() == [1, 5]
    assert read.seed is None
    with pytest.raises(BadInputError, match="no halves A and B"):
        read.masks("A")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"people": 7}, "splits 7 people, and there are 6"),
        ({"splits": []}, "has no splits"),
        ({"splits": None}, "no list named splits"),
        ({"splits": [[0, 6]]}, "outside 0 to 5"),
        ({"splits": [[-1]]}, "outside 0 to 5"),
        ({"splits": [[2**63]]}, "outside 0 to 5"),
        ({"splits": [[0], [3, 3]]}, "split 1 names a person twice"),
        ({"splits": [[0.5]]}, "whole numbers"),
        ({"splits": [[True]]}, "whole numbers"),
        ({"splits": [[]]}, "whole numbers"),
        ({"splits": [[0, 1, 2, 3, 4, 5]]}, "nobody to train on"),
        ({"halves": {"A": HALVES["A"]}}, "an object with A and B"),
        ({"halves": {**HALVES, "B": {"people": [3, 4], "test": [0]}}}, "must be some of it"),
        ({"halves": {**HALVES, "B": {"people": [3, 4], "test": [3, 4]}}}, "and not all"),
        ({"halves": {**HALVES, "B": {"people": [2, 4], "test": [4]}}}, "in both halves"),
        ({"halves": {**HALVES, "B": {"people": [4, 9], "test": [4]}}}, "half B names a person outside"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "splits.json"
    path.write_bytes(orjson.dumps(GOOD))
    Splits.read(path, 6)
    path.write_bytes(orjson.dumps({**GOOD, **change}))
    with pytest.raises(BadInputError, match=sentence):
        Splits.read(path, 6)


@pytest.mark.parametrize("content", [b"", b"[1]", b"train\ntest\n"])
def test_other_files_are_no_splits(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "splits.json"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match="is no file of splits"):
        Splits.read(path, 6)


PAPERS = MadeUpCrowd(TwitterPeople(), seed=1)
SMALL = FileCrowd.open(PEOPLE)


def settings(crowd: Crowd, n_splits: int = 20, figures: tuple[str, ...] = ("1b",), **more: object) -> Settings:
    test = np.arange(crowd.n_people // 10)
    splits = Splits(crowd.n_people, None, (test,) * n_splits, None)
    return Settings(crowd=crowd, splits=splits, figures=figures, **more)  # type: ignore[arg-type]  # any of its fields


def test_bins_are_shares_of_the_words() -> None:
    assert settings(PAPERS).bins == (None, 9_588_000, 958_800, 95_880)
    assert settings(PAPERS).few_bins == (958_800, 95_880)
    assert settings(SMALL).bins == (None, 9, 1)
    # One bin has nothing to say about λ.
    assert settings(SMALL).few_bins == (9,)
    assert settings(SMALL, asked_bins=(None, 7)).bins == (None, 7)


def test_large_crowds_have_few_splits_where_bins_are_many_and_nobody_asked() -> None:
    large = settings(PAPERS, 141)
    assert [large.splits_with(bins) for bins in large.bins] == [16, 16, 141, 141]
    assert settings(PAPERS, 141, asked_bins=(None,)).splits_with(None) == 141
    assert settings(SMALL, 141).splits_with(None) == 141


def test_hashes_of_small_crowds_differ_between_splits() -> None:
    small, large = settings(SMALL), settings(PAPERS)
    middle = settings(PAPERS.first(20_000))
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
    assert Sample(settings(PAPERS), 100, 1, None).people.tolist() == list(range(100))


def test_rules_of_few_words_are_unhashed() -> None:
    assert settings(SMALL).rule_bins is None
    assert settings(PAPERS).rule_bins == 95_880
    assert settings(PAPERS.first(1_000)).rule_bins == 10_000


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [((), "a figure is one of"), (("2",), "a figure is one of"), (("1a",), "no halves A and B")],
)
def test_what_cannot_be_made_is_refused(figures: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        settings(SMALL, figures=figures)


VALUE = {"cells": [[1, 2, 3, 4], [4, 3, 2, 1]], "spells": [[2, 9]]}


def test_second_run_takes_what_is_there(tmp_path: Path) -> None:
    Stored(tmp_path).put("abc", VALUE)
    notes: list[str] = []
    later = Stored(tmp_path, notes.append)
    assert later.get("abc") == VALUE
    assert later.get("abd") is None
    assert notes == []


def test_without_a_folder_nothing_is_kept_beyond_the_run() -> None:
    stored = Stored(None)
    stored.put("abc", VALUE)
    assert stored.get("abc") == VALUE


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "renamed", "folder"])
def test_what_is_not_as_it_was_written_is_worked_out_anew(tmp_path: Path, damage: str) -> None:
    Stored(tmp_path).put("abc", VALUE)
    path = tmp_path / "results" / "abc.json"
    whole = path.read_bytes()
    if damage == "renamed":
        Stored(tmp_path).put("abd", {"cells": [[0, 0, 0, 1]], "spells": []})
        (tmp_path / "results" / "abd.json").replace(path)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {"cut": whole[:-20], "flipped": whole.replace(b"9", b"8"), "empty": b"", "foreign": b"[]"}[damage]
        )
    notes: list[str] = []
    assert Stored(tmp_path, notes.append).get("abc") is None
    assert len(notes) == 1
    assert "abc.json" in notes[0]


def test_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BadInputError, match="cannot write into"):
        Stored(tmp_path / "file")


def test_trained_models_come_back_as_they_were() -> None:
    trained = Trained(np.arange(12).reshape(3, 2, 2), ((1, 2),))
    back = from_json(as_json(trained))
    np.testing.assert_array_equal(back.cells, trained.cells)
    assert back.spells == trained.spells


def test_repro_models_that_begin_anew_do_not_count_twice() -> None:
    """Where lanes were full, models that parted were trained another time, and progress went past its end."""

    def more_often(*given: Any, progress: Any, **settings: Any) -> Iterator[Swept]:
        for number in range(1, 4):
            progress(0, 3, number)
        yield from LocalSweeper()(*given, progress=progress, **settings)

    crowd = MadeUpCrowd(TwitterPeople(n_people=40, words_per_person=20), 1)
    splits = Splits.draw(40, 3, 1)
    told: list[int] = []
    models = [Model(split, 30, 1, "5a17", "1e-4", 2, 4) for split in range(3)]
    assert len(Trainer(crowd, splits, Stored(None), more_often).train(models, told.append)) == 3
    assert sum(told) == 3 * 4
