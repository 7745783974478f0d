"""Targets: files that people and operators bring, and files that programs of ours have left on a disk."""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from secvm.auditor.collisions import read_public_vocabulary
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.errors import BadInputError, BadModelFileError, BadPeopleFileError, SecVMError, StoreError
from secvm.estimator.frames.plan import Column, FramePlan
from secvm.estimator.model import ModelFile
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Swift
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector, HashBinning
from secvm.learning.thinning import Thinning, parse_thinning
from secvm.participant.settings import ParticipantSettings
from secvm.participant.sources.own_files import Lines, PeopleFile, Table
from secvm.participant.sources.port import Options
from secvm.participant.storage.state import _read_vector, _write_vector
from secvm.people.columns import read_columns
from secvm.people.person import People, Person, person_from_json, person_from_svmlight
from secvm.people.reader import read_people, read_split, read_vocabulary
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.disk.secret_files import read_secret, read_signing_key
from secvm.runtime.settings import Settings, parse_settings, read_settings
from secvm.witness.settings import WitnessSettings
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Escape, Target, expect, find_checkout
from secvm_lab.fuzz.world import as_text, on_file
from secvm_lab.rigs.slow_reading import read_slowly

_BAD_INPUT = (BadInputError,)
_BAD_PEOPLE = (BadPeopleFileError,)
_JSON = b'{"label": "a", "features": {"word": 2, "other": 1}}\n{"label": 3.0, "features": ["x", "x"]}\n'
_SVMLIGHT = b"+1 1:2 7:1 # somebody\n-1 2:3.0\n"


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _person(read: Callable[..., Person | None], write: Callable[[Person], bytes]) -> Callable[[bytes], object]:
    """One line, read; and what was read in its plainest form, the label left out, read again."""

    def decode(data: bytes) -> object:
        person = read(data, 1, labels_required=False)
        if person is not None:
            again = read(write(person), 1, labels_required=True)
            expect(again is not None and again.features == person.features, "a person is written otherwise than read")
        return person

    return decode


def _write_json(person: Person) -> bytes:
    return b'{"label":0,"features":' + orjson.dumps(person.features) + b"}\n"


def _write_svmlight(person: Person) -> bytes:
    # Indices ascend.
    features = sorted((int(index), value) for index, value in person.features.items())
    return b" ".join([b"0", *(b"%d:%d" % feature for feature in features)]) + b"\n"


def _outcome(read: Callable[[], People]) -> tuple[object, ...]:
    """What a reader gives or says, to be compared with another's."""
    try:
        found = read()
    except BadPeopleFileError as error:
        return (str(error),)
    rows = found.rows
    told = (found.label_codes, rows.indptr, rows.bins, rows.values)
    return (found.label_names, *(numbers.tolist() for numbers in told))


def _people_file(name: str) -> Callable[[bytes], object]:
    binning = HashBinning(n_bins=64, salt=bytes(16), n_hashes=2)

    def both(data: bytes) -> object:
        path = on_file(name, data)
        quick, slow = (_outcome(partial(read, path, binning)) for read in (read_people, read_slowly))
        expect(quick == slow, "the quick reader of people and the readable one differ")
        return quick

    return both


def _source(source: PeopleFile | Table | Lines, name: str, **given: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        return source.read(Options(home=world.folder(), now=0, path=on_file(name, data), given=given))

    return read


def _read_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], object]:
    return lambda data: read(on_file(name, data))


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _models() -> list[bytes]:
    found = []
    for labels in (("a", "b"), ("a", "b", "c")):
        experiment = Experiment(n_bins=3, labels=labels, rule=Swift(), thinning=Thinning(rho=exact("3")))
        start = aggregate.start(experiment)
        model = ModelFile(
            experiment=experiment,
            binning=HashBinning(n_bins=3, salt=bytes(16), n_hashes=1),
            weights=aggregate.evaluation_weights(experiment, start),
            presence=True,
            rounds=1,
            state=start.to_bytes() if len(labels) == 3 else b"",
            seed=bytes(16) if len(labels) == 3 else b"",
            frame=FramePlan((Column("age", "bins", (30.0, 40.0)), Column("city", "words")))
            if len(labels) == 3
            else None,
        )
        found.append(model.to_bytes()[:-32])
    return found


def _model(data: bytes) -> object:
    """With the digest that fits: whoever makes a bad file makes it whole."""
    return ModelFile.from_bytes(data + hashlib.blake2b(data, digest_size=32).digest())


# ── settings and secrets ─────────────────────────────────────────────────────────────────────────────────────────────

SPECIFICATION = """{"title":"a or b?","labels":["a","b"],"floor":100,
"features":{"source":"titles","per_participant":100},"binning":{"bins":1000,"hashes":1},"windows":{"length_s":3000,"grace_s":60},"descent":{"rule":"swift","thinning":"3"},
"relays":[{"url":"https://relay.example/","key":"%s"}]}""" % ("ab" * 32)


def _settings(party: str, kind: type[Settings]) -> Target:
    @functools.cache
    def seeds() -> list[bytes]:
        # What an operator starts from: as it is set, and with every key that is shown.
        example = (find_checkout() / f"deploy/{party}.toml").read_text(encoding="utf-8")
        shown = re.sub(r"^#(?=[a-z0-9_]+ = |\[)", "", example, flags=re.MULTILINE)
        return [re.sub(r" *#.*", "", text).encode() for text in (example, shown)]

    decode = _read_file(f"{party}.toml", lambda path: read_settings(path, kind))
    return Target(f"settings-{party}", decode, seeds, allowed=_BAD_INPUT)


def _secrets(data: bytes) -> None:
    path = on_file("secret", data)
    for read in (read_secret, read_signing_key):
        try:
            read(path)
        except BadInputError as error:
            start = as_text(data.strip())[:24]
            expect(len(start) < 24 or start not in str(error).replace(str(path), ""), "a refusal shows a secret")


# ── what programs of ours left behind ────────────────────────────────────────────────────────────────────────────────


def _vectors() -> list[bytes]:
    return [_write_vector(BinnedVector(values={1: 2, 5: -1}, n_bins=8)), _write_vector(BinnedVector({}, n_bins=1))]


def _numbers(data: bytes) -> object:
    text = as_text(data)
    try:
        parse_thinning(text, Thinning())
    except BadInputError:
        pass
    except SecVMError as error:
        raise Escape("thinning is refused otherwise than it is said") from error
    return exact(text)


TARGETS = (
    Target("person-json", _person(person_from_json, _write_json), _JSON.splitlines, allowed=_BAD_PEOPLE),
    Target(
        "person-svmlight", _person(person_from_svmlight, _write_svmlight), _SVMLIGHT.splitlines, allowed=_BAD_PEOPLE
    ),
    Target("people-json", _people_file("people.jsonl"), lambda: [_JSON], allowed=()),
    Target("people-svmlight", _people_file("people.svm"), lambda: [_SVMLIGHT], allowed=()),
    Target(
        "people-any",
        _people_file("people"),
        lambda: [_JSON, _SVMLIGHT, gzip.compress(_JSON, mtime=0), b"\xef\xbb\xbf" + _JSON],
        allowed=(),
    ),
    Target(
        "people-columns",
        _read_file("people.csv", lambda path: read_columns(path, "a")),
        world.texts("a,b,c\n1,x,2021-03-04\n0,,true\n", '\ufeffb;a\n"1;2";"no"\n'),
        allowed=_BAD_PEOPLE,
    ),
    Target("vocabulary", _read_file("words", read_vocabulary), world.texts("one\ntwo\n\nthree"), allowed=_BAD_PEOPLE),
    Target(
        "vocabulary-public",
        _read_file("counts", read_public_vocabulary),
        world.texts("one\t5\ntwo\t3\n", "one\ntwo\n"),
        allowed=_BAD_INPUT,
    ),
    Target(
        "split", _read_file("split", lambda path: read_split(path, 2)), world.texts("train\ntest\n"), allowed=_BAD_INPUT
    ),
    Target(
        "source-people", _source(PeopleFile(), "own.jsonl"), lambda: [_JSON.splitlines()[0], _JSON], allowed=_BAD_INPUT
    ),
    Target(
        "source-csv",
        _source(Table(), "own.csv", column="word", count="n", split="yes"),
        world.texts('word,n\n"a b",3\nc,-1\n'),
        allowed=_BAD_INPUT,
    ),
    Target(
        "source-jsonl", _source(Lines(), "lines.jsonl"), world.texts('"a"\n["b","c"]\n{"d":3}\n'), allowed=_BAD_INPUT
    ),
    Target("model", _model, _models, allowed=(BadModelFileError,)),
    _settings("coordinator", CoordinatorProgramSettings),
    _settings("relay", RelayServiceSettings),
    _settings("witness", WitnessSettings),
    _settings("participant", ParticipantSettings),
    Target(
        "specification",
        lambda data: parse_settings(data, Specification, "the specification"),
        world.texts(SPECIFICATION),
        allowed=_BAD_INPUT,
    ),
    Target("secrets", _secrets, world.texts("ab" * 32 + "\n", "short"), allowed=()),
    Target("number", _numbers, world.texts("7/10", "1e-4", "q=0.5", "none", "-3.25E+2"), allowed=_BAD_INPUT),
    Target("vector", _read_vector, _vectors, allowed=(StoreError,)),
)
