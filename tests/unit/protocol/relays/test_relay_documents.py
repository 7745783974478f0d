"""Experiment documents for two relays."""

import json
from dataclasses import replace

import pytest

from secvm.crypto.sealing.kem import MLKEM768_X25519
from secvm.crypto.signing import sign
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.experiment import (
    ExperimentDocument,
    HashedBins,
    VocabularyBins,
    publish,
    read_published,
)
from secvm.protocol.version import EXPERIMENT_TYPE
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, relayed_document, relayed_experiment
from tests.unit.protocol.helpers import changed, document

DOCUMENT = relayed_document()


def test_it_is_signed_for_its_own_purpose() -> None:
    envelope = publish(DOCUMENT, keys=(COORDINATOR,))
    assert read_published(envelope, digest=DOCUMENT.digest) == DOCUMENT
    with pytest.raises(BadSignatureError):
        read_published(sign(DOCUMENT.data, purpose=EXPERIMENT_TYPE, keys=[COORDINATOR]), digest=DOCUMENT.digest)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("privacy.epsilon", "0"),
        ("privacy.epsilon", "2/2"),
        ("privacy.packages", 0),
        ("privacy.packages", 4),
        ("relays", [{**json.loads(DOCUMENT.data)["relays"][0], "role": role} for role in ("entry", "mix")]),
        ("relays.0.role", "exit"),
        ("relays.0.operator", "x" * 201),
        ("windows.mix_s", 7 * 86_400 + 1),
        ("learning.budget", 8),
        ("kem", MLKEM768_X25519),
    ],
)
def test_another_document_is_refused(path: str, value: object) -> None:
    with pytest.raises(MalformedMessageError):
        ExperimentDocument.from_bytes(changed(DOCUMENT.data, path, value))


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
    with pytest.raises(LocalProtocolError):
        _ = document(tokens=True).data


def test_a_test_may_have_relays_without_https() -> None:
    relays = tuple(replace(relay, url="http://127.0.0.1:1/") for relay in DOCUMENT.relays)
    assert ExperimentDocument.from_bytes(relayed_document(relays=relays, test=True).data).test
    with pytest.raises(LocalProtocolError):
        _ = relayed_document(relays=relays).data
    with pytest.raises(LocalProtocolError):
        _ = relayed_document(relays=(), test=True).data
