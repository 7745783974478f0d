"""Asked: an experiment and its people as somebody gives them in Python, for a federation on this machine.

The experiment is a specification as ``secvm experiment new`` takes it: a TOML or JSON file, or a dict of the same keys.
What belongs to a deployment is replaced, because there is none: relays, windows, and beacons that are still to speak;
the salt follows from the seed. What is left out has a default: title, labels (those of the people), floor and source.
``Federation`` and ``secvm_lab.simulate`` read their arguments here, so that both ask the same of the same people.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import SALT_BYTES, make_document
from secvm.coordinator.experiments.specification import PLAIN, EarlyStopping, Specification
from secvm.crypto.signing import SEED_BYTES, SigningKey
from secvm.errors import BadInputError, BadPeopleFileError
from secvm.files import or_bad_input
from secvm.learning.individual.binning import VocabularyBinning
from secvm.learning.losses import Loss
from secvm.people.person import Person, in_order, person_from_json
from secvm.people.reader import read_vocabulary
from secvm.people.source import iter_people
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.runtime.settings import parse_settings, read_toml
from secvm.testing.federation_settings import BEGIN_MS, ORIGIN_MS, RELAY, ROLES, HostOf, Pace

#: A path, or what would stand in such a file.
Experiment = str | PathLike[str] | Mapping[str, Any]
#: A file of people, or (words, label) of each, where words may be a mapping of word to count; or people as read.
People = str | PathLike[str] | Iterable[tuple[Any, Any] | Person]
#: A file of words, or the words.
Vocabulary = str | PathLike[str] | Iterable[str]
#: Fewest train people of a step where nobody says a number: a federation in a notebook is small.
_FLOOR = 2
#: So few devices are carried by one process, which keeps up with a quicker clock.
FEW = 200
_TAG = b"secvm-test-asked"


@dataclass(frozen=True, repr=False)
class Asked:
    """What is asked, and of whom. Secret as people are: it does not print itself."""

    #: The specification, without what the federation adds: windows and relays.
    content: dict[str, Any]
    people: tuple[Person, ...]
    vocabulary: VocabularyBinning | None
    seed: str

    @classmethod
    def of(
        cls, experiment: Experiment, people: People, *, vocabulary: Vocabulary | None = None, seed: str | int = 0
    ) -> Asked:
        """Read both.

        Raises
        ------
        BadInputError
            One sentence about what does not fit.
        """
        everybody, words, content = _people(people), _vocabulary(vocabulary), dict(_specification(experiment))
        labels = in_order({person.label for person in everybody if person.label is not None})
        for name in ("relays", "windows", "test"):
            content.pop(name, None)
        usual: dict[str, Any] = {
            "title": "A federation in Python",
            "labels": labels,
            "people": len(everybody),
            "floor": max(_FLOOR, len(labels)),
        }
        content = {**usual, **content}
        for table in ("binning", "features"):
            if not isinstance(content.setdefault(table, {}), Mapping):
                raise BadInputError(f"the experiment's {table} is a table: a dict, or [{table}] in a file")
        content["features"] = {"source": "people-file", **content["features"]}
        content["binning"] = _binning(content["binning"], words, str(seed))
        return cls(content, everybody, words, str(seed))

    @property
    def covered(self) -> bool:
        """Whether two relays add cover for a guarantee."""
        return self.content.get("privacy") != PLAIN

    def specification(self, relays: Iterable[Mapping[str, str]], windows: Mapping[str, int]) -> Specification:
        """All of it, with the relays and windows of somebody."""
        whole = {**self.content, "relays": list(relays), "windows": windows, "test": True}
        specification = parse_settings(json.dumps(whole, default=str), Specification, "the experiment")
        self._check_labels(specification)
        return specification

    def document(self, pace: Pace) -> tuple[ExperimentDocument, EarlyStopping | None]:
        """The document as a coordinator would make it, with stand-ins for keys and relays: its learning is the same.
        And when the coordinator would stop early.
        """
        key = self._stand_in("coordinator").public
        names = ROLES if self.covered else (RELAY,)
        relays = [
            {
                "url": f"https://{name}.example/relay",
                "key": self._stand_in(name).public.data.hex(),
                **({"role": name, "operator": f"Operator of the {name} relay"} if self.covered else {}),
            }
            for name in names
        ]
        grid = Grid(period_s=pace.period_s, lead_s=pace.lead_s, origin_ms=ORIGIN_MS)
        specification = self.specification(relays, pace.specified())
        # No dice are thrown: the salt is there.
        document, own = make_document(specification, key=key, grid=grid, dice=bytes, now=BEGIN_MS)
        return document, own.early_stopping

    def carried(self, folder: Path) -> list[HostOf]:
        """The people and the words as files in this folder, and who carries which of them."""
        file, words, count = folder / "people.jsonl", None, len(self.people)
        lines = [orjson.dumps({"label": person.label, "features": person.features}) for person in self.people]
        file.write_bytes(b"\n".join(lines) + b"\n")
        if self.vocabulary is not None:
            words = folder / "words.txt"
            words.write_text("".join(f"{word}\n" for word in self.vocabulary.words), encoding="utf-8")
        half = count if count <= FEW else count // 2
        cuts = [(0, half), (half, count - half)]
        return [HostOf(file, first, size, words) for first, size in cuts if size]

    def _check_labels(self, specification: Specification) -> None:
        if Loss(specification.loss).regression:
            raise BadInputError("a federation in Python tells labels apart: a loss for numbers has no place in it")
        known = set(specification.labels)
        for number, person in enumerate(self.people, start=1):
            if person.label not in known:
                raise BadInputError(f"person {number} has a label that is none of the experiment's {len(known)} labels")

    def _stand_in(self, name: str) -> SigningKey:
        return SigningKey(hashlib.blake2b(name.encode(), digest_size=SEED_BYTES, person=_TAG).digest())


def _specification(given: Experiment) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, str | PathLike):
        raise BadInputError("the experiment is a specification: the path of a TOML or JSON file, or a dict of its keys")
    path = Path(given)
    if path.suffix != ".json":
        return read_toml(path)
    with or_bad_input(f"cannot read {path}"):
        data = path.read_bytes()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInputError(f"{path} is not a specification in JSON")
    return content


def _people(given: People) -> tuple[Person, ...]:
    if isinstance(given, str | PathLike):
        return tuple(iter_people(given))
    if isinstance(given, Mapping) or not hasattr(given, "__iter__"):
        raise BadInputError("the people are a file of people, or a pair of words and label for each of them")
    everybody = tuple(_person(person, number) for number, person in enumerate(given, start=1))
    if not everybody:
        raise BadInputError("there are no people")
    return everybody


def _person(given: Any, number: int) -> Person:
    """A person by the rules of a line in a file of people. The reason of a refusal never quotes what a person has."""
    if isinstance(given, Person):
        return given
    try:
        words, label = given
    except (TypeError, ValueError):
        raise BadInputError(f"person {number} is not a pair of words and label") from None
    if isinstance(words, str):
        raise BadInputError(f"person {number}: words are a list, or a dict of counts, and not one text")
    why = "words must be text, counts whole numbers, and the label text or a number"
    try:
        features = dict(words) if isinstance(words, Mapping) else list(words)
        line = orjson.dumps({"label": label, "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)
        person = person_from_json(line, number, True)
    except BadPeopleFileError as fault:
        person, why = None, str(fault).removeprefix(f"line {number}: ")
    except (TypeError, ValueError):
        person = None
    if person is None:
        raise BadInputError(f"person {number}: {why}")
    return person


def _vocabulary(given: Vocabulary | None) -> VocabularyBinning | None:
    if given is None:
        return None
    return read_vocabulary(given) if isinstance(given, str | PathLike) else VocabularyBinning(tuple(given))


def _binning(given: Mapping[str, Any], words: VocabularyBinning | None, seed: str) -> dict[str, Any]:
    """Bins with a salt that follows from the seed, or those of the words."""
    content = {name: value for name, value in given.items() if name not in ("beacons", "beacon_delay_s")}
    if words is not None:
        named = {"bins": words.n_bins, "vocabulary": words.digest}
        if any(content.get(name, value) != value for name, value in named.items()):
            raise BadInputError("the vocabulary is not the one that the experiment's binning names")
        return {**content, **named}
    if "vocabulary" in content:
        raise BadInputError("the experiment's bins are the words of a public list: give it as vocabulary")
    salt = hashlib.blake2b(seed.encode(), digest_size=SALT_BYTES, person=_TAG).hexdigest()
    return {"salt": salt, **content}
