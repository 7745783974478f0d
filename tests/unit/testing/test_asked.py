"""An experiment and its people, as somebody gives them in Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.learning.individual.binning import VocabularyBinning
from secvm.people.person import Person
from secvm.testing import Federation
from secvm.testing.asked import Asked
from secvm.testing.federation_settings import Pace
from tests.programs import ROOT, python

EXPERIMENT: dict[str, Any] = {"binning": {"bins": 8}, "budget": 8, "privacy": "none", "rounds": 2, "floor": 1}
PEOPLE = [(["tea", "rain"], "north"), (["sea", "sea"], "south")]


def test_people_are_the_same_as_pairs_as_persons_and_as_a_file(tmp_path: Path) -> None:
    lines = [json.dumps({"features": words, "label": label}) for words, label in PEOPLE]
    (tmp_path / "people.jsonl").write_text("\n".join(lines))
    wanted = (Person("north", {"tea": 1, "rain": 1}), Person("south", {"sea": 2}))
    counted = [({"tea": np.int64(1), "rain": 1}, "north"), (np.array(["sea", "sea"]), np.str_("south"))]
    for given in (PEOPLE, wanted, counted, tmp_path / "people.jsonl", str(tmp_path / "people.jsonl")):
        assert Asked.of(EXPERIMENT, given).people == wanted


def test_what_is_left_out_has_a_default_and_what_is_said_stays() -> None:
    usual = Asked.of({name: EXPERIMENT[name] for name in EXPERIMENT if name != "floor"}, PEOPLE).content
    assert (usual["labels"], usual["floor"], usual["features"]) == (["north", "south"], 2, {"source": "people-file"})
    said = {"labels": ["south", "north"], "floor": 7, "title": "Mine"}
    assert Asked.of({**EXPERIMENT, **said}, PEOPLE).content.items() >= said.items()


def test_document_is_the_one_of_the_seed() -> None:
    first, second, other = (Asked.of(EXPERIMENT, PEOPLE, seed=seed).document(Pace())[0] for seed in (1, "1", 2))
    assert first.digest == second.digest != other.digest


def test_operators_example_is_taken_with_relays_windows_and_beacons_replaced() -> None:
    content = Asked.of(ROOT / "examples/experiment.toml", [([], "bird"), ([], "owl")]).content
    assert {"relays", "windows"}.isdisjoint(content)
    assert set(content["binning"]) == {"bins", "salt"}


def test_words_given_are_the_bins() -> None:
    words = VocabularyBinning(("tea", "sea"))
    asked = Asked.of({**EXPERIMENT, "binning": {}}, PEOPLE, vocabulary=["tea", "sea"])
    assert asked.content["binning"] == {"bins": 2, "vocabulary": words.digest}


@pytest.mark.parametrize(
    ("changes", "people", "sentence"),
    [
        ({}, [], "there are no people"),
        ({}, [("tea", "north")], "person 1: words are a list"),
        ({}, [*PEOPLE, (["tea"], None)], "person 3: the label must be a string or a number"),
        ({}, [(["tea", object()], "north")], "person 1: words must be text"),
        ({}, [7], "person 1 is not a pair of words and label"),
        ({"labels": ["a", "b"]}, PEOPLE, "person 1 has a label that is none of the experiment's 2 labels"),
        ({"binning": 5}, PEOPLE, "the experiment's binning is a table"),
        ({"binning": {"vocabulary": "ab"}}, PEOPLE, "give it as vocabulary"),
        ({"budgte": 3}, PEOPLE, "the experiment: budgte is not a setting"),
        ({"loss": "epsilon-insensitive"}, PEOPLE, "a loss for numbers has no place"),
        ({"budget": None}, PEOPLE, "give a budget, or features.per_participant"),
    ],
)
def test_what_does_not_fit_is_one_sentence_without_what_people_have(changes: Any, people: Any, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence) as refused:
        Asked.of({**EXPERIMENT, **changes}, people).document(Pace())
    assert "tea" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_federation_refuses_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="needs an experiment and its people"):
        Federation(experiment=EXPERIMENT)
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match=r"cannot keep a federation in .*/file/folder: Not a directory"):
        Federation(tmp_path / "file" / "folder", experiment=EXPERIMENT, people=PEOPLE)
    refused = Federation(tmp_path, experiment={**EXPERIMENT, "rounds": 0}, people=PEOPLE)
    with pytest.raises(BadInputError, match="rounds of the experiment must be an integer from 1"), refused:
        pass
    assert refused.children.names() == []
    with pytest.raises(BadInputError, match="inside of its with block"):
        refused.run()


def test_a_party_that_is_not_installed_is_named_with_how_to_install_it() -> None:
    program = "import sys; sys.modules['httptools'] = None; from secvm.testing import Federation"
    said = python("-c", program, folders=("src",)).stderr.splitlines()[-1]
    assert said.endswith("Federation needs httptools, which is not installed: in a clone, pip install . ./lab")
