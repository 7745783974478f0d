"""A folder of finished work: taken where it is whole, worked out anew where it is not."""

from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm_lab.paper.offline.models import Stored, Trained, as_json, from_json

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
