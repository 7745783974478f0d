"""Who trains and who tests, and the file in which others find the same."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.paper.offline.splits import Split, Splits


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
