"""Experiment documents for two relays."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from secvm.crypto.sealing.kem import MLKEM768_X25519
from secvm.crypto.signing import sign
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import encode_document
from secvm.protocol.documents.experiment import (
    ExperimentDocument,
    HashedBins,
    VocabularyBins,
    publish,
    read_published,
)
from secvm.protocol.version import EXPERIMENT_TYPE, RELAYED_EXPERIMENT_TYPE
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, relayed_document, relayed_experiment
from tests.unit.protocol.helpers import document

DOCUMENT = relayed_document()
CONTENT: dict[str, Any] = json.loads(DOCUMENT.data)


def test_a_document_is_read_again_and_has_its_own_type() -> None:
    again = ExperimentDocument.from_bytes(DOCUMENT.data)
    assert again == DOCUMENT
    assert (again.kind, CONTENT["type"]) == (RELAYED_EXPERIMENT_TYPE,) * 2
    assert (again.entry_relay.operator, again.mix_relay.role) == ("Entry e.V.", "mix")
    assert again.relay_times.reveal_s == 50
    assert again.relay_cover.part_packages == 40
    assert again.budget == 7


def test_it_is_signed_for_its_own_purpose() -> None:
    envelope = publish(DOCUMENT, keys=(COORDINATOR,))
    assert read_published(envelope, digest=DOCUMENT.digest) == DOCUMENT
    with pytest.raises(BadSignatureError):
        read_published(sign(DOCUMENT.data, purpose=EXPERIMENT_TYPE, keys=[COORDINATOR]), digest=DOCUMENT.digest)


def changed(*path: str, value: Any) -> bytes:
    content = json.loads(DOCUMENT.data)
    inner = content
    for name in path[:-1]:
        inner = inner[int(name) if isinstance(inner, list) else name]
    last: Any = int(path[-1]) if isinstance(inner, list) else path[-1]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return encode_document(content)


ENTRY_FIELDS, MIX_FIELDS = CONTENT["relays"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("type", EXPERIMENT_TYPE),
        ("type", "secvm-v3-experiment"),
        ("privacy", {"kind": "plain"}),
        ("privacy kind", "cover"),
        ("privacy epsilon", "0"),
        ("privacy epsilon", "33"),
        ("privacy epsilon", "2/2"),
        ("privacy delta", "1"),
        ("privacy parts", 3),
        ("privacy parts", 65),
        ("privacy packages", 0),
        ("privacy packages", 162),
        ("privacy packages", 2**32),
        ("privacy packages", 4),
        ("privacy test", None),
        ("privacy train odds", "-1"),
        ("privacy train shape", "0"),
        ("privacy train cap", 1),
        ("privacy real_cap", 1),
        ("privacy train", ...),
        ("relays", []),
        ("relays", [ENTRY_FIELDS]),
        ("relays", [MIX_FIELDS, ENTRY_FIELDS]),
        ("relays", [ENTRY_FIELDS, {**ENTRY_FIELDS, "role": "mix"}]),
        ("relays", [ENTRY_FIELDS, MIX_FIELDS, MIX_FIELDS]),
        ("relays 0 role", "exit"),
        ("relays 0 role", ...),
        ("relays 0 operator", ""),
        ("relays 0 operator", "x" * 201),
        ("relays 0 operator", ...),
        ("relays 0 mode", "round"),
        ("relays 1 url", "http://mix.example/"),
        ("windows batch_s", 0),
        ("windows mix_s", 7 * 86_400 + 1),
        ("windows reveal_s", ...),
        ("windows open_s", True),
        ("learning budget", 6),
        ("learning budget", 8),
        ("learning features_per_participant", None),
        ("features presence", False),
        ("kem", MLKEM768_X25519),
    ],
)
def test_another_document_is_refused(path: str, value: object) -> None:
    with pytest.raises(MalformedMessageError):
        ExperimentDocument.from_bytes(changed(*path.split(), value=value))


def test_a_document_of_one_relay_has_neither_roles_nor_relays_times() -> None:
    plain = replace(
        DOCUMENT,
        experiment=replace(DOCUMENT.experiment, cover=None),
        privacy=None,
        relays=tuple(replace(relay, role=None, operator=None) for relay in DOCUMENT.relays),
        windows=replace(DOCUMENT.windows, relays=None),
    )
    assert ExperimentDocument.from_bytes(plain.data).kind == EXPERIMENT_TYPE
    for bad in (replace(plain, relays=DOCUMENT.relays), replace(plain, windows=DOCUMENT.windows)):
        with pytest.raises(LocalProtocolError):
            _ = bad.data
    for ask in ("relay_cover", "relay_times", "entry_relay", "mix_relay"):
        with pytest.raises(LocalProtocolError):
            getattr(plain, ask)


def test_terms_and_cover_belong_together() -> None:
    for bad in (
        replace(DOCUMENT, privacy=None),
        replace(DOCUMENT, experiment=replace(DOCUMENT.experiment, cover=None)),
        replace(DOCUMENT, train_share=Fraction(1, 2)),
    ):
        with pytest.raises(LocalProtocolError):
            _ = bad.data


@pytest.mark.parametrize(
    ("binning", "budget"),
    [
        (HashedBins(bins=10, salt=bytes(16)), 7),
        (HashedBins(bins=10, salt=bytes(16), hashes=2), 11),
        (VocabularyBins(bins=10, digest="0" * 64), 7),
    ],
)
def test_the_budget_holds_all_units_participation_and_canary(binning: HashedBins | VocabularyBins, budget: int) -> None:
    for tried in (7, 11):
        document = relayed_document(binning=binning, experiment=relayed_experiment(budget=tried))
        if tried == budget:
            assert ExperimentDocument.from_bytes(document.data).budget == budget
        else:
            with pytest.raises(LocalProtocolError):
                _ = document.data


def test_two_relays_may_have_tokens_and_one_relay_has_none() -> None:
    made = relayed_document(tokens=True)
    assert ExperimentDocument.from_bytes(made.data).tokens
    assert "tokens" not in json.loads(DOCUMENT.data)
    with pytest.raises(LocalProtocolError):
        _ = document(tokens=True).data


def test_a_test_may_have_relays_without_https() -> None:
    relays = tuple(replace(relay, url="http://127.0.0.1:1/") for relay in DOCUMENT.relays)
    assert ExperimentDocument.from_bytes(relayed_document(relays=relays, test=True).data).test
    with pytest.raises(LocalProtocolError):
        _ = relayed_document(relays=relays).data
    with pytest.raises(LocalProtocolError):
        _ = relayed_document(relays=(), test=True).data


def test_what_was_asked_for_is_kept_exactly() -> None:
    terms = PrivacyTarget(epsilon=Fraction(7, 3), delta=Fraction(1, 10**9))
    assert ExperimentDocument.from_bytes(relayed_document(privacy=terms).data).privacy == terms
