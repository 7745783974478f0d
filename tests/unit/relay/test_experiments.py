"""Which experiments a relay serves, its one commitment a round, and the one manifest it takes for a round."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.sealing.kem import RandomBytes, X25519PrivateKey
from secvm.crypto.sealing.layers import INNER_BYTES, BulkSealer, open_inner, open_outer
from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.crypto.signing import Envelope, SigningKey
from secvm.crypto.tokens import TokenKey
from secvm.errors import BadSignatureError, MalformedMessageError, RemoteProtocolError
from secvm.learning.cover_law import Noise, RelayCover
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment, RoundSecret, entry_commitment
from secvm.protocol.relays.manifest import Instants
from secvm.protocol.relays.statements import RelayedTerms
from secvm.relay.batches.experiments import Experiments, OwnRelay, check_worth, plan_of
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import RoundCustody, RoundSecrets
from secvm.relay.refusals import RelayRefusalError
from secvm.relay.role import drawing
from secvm_lab.rigs.histories.relayed_rounds import (
    COORDINATOR,
    ENTRY,
    MIX,
    STRANGER,
    RelayedRound,
    known_bytes,
    relayed_document,
    relayed_experiment,
)
from secvm_lab.rigs.histories.witnessed_log import KnownLog, WitnessedLog, known_log_terms

C = "https://coordinator.example"
DOCUMENT = relayed_document()


def own(role: str = "entry", *, seed: str | None = None, key: SigningKey | None = None, **changes: Any) -> OwnRelay:
    relay = DOCUMENT.entry_relay if role == "entry" else DOCUMENT.mix_relay
    told: dict[str, Any] = {
        "url": relay.url,
        "operator": relay.operator,
        "role": role,
        "quota": 1,
        "cells": 100,
        "packages": 200,
        "capsules": 1000,
        "seconds_per_million": 1000,
    }
    return OwnRelay(RelayedTerms(**{**told, **changes}), key or (ENTRY if role == "entry" else MIX), seed)


@dataclass
class Place:
    """A disk and a memory, and the process that holds them: a new one begins when the one before has ended."""

    folder: Path
    keeping: Any = None

    def start(
        self,
        who: OwnRelay,
        dice: RandomBytes = os.urandom,
        worth: Callable[[ExperimentDocument], None] = lambda _: None,
    ) -> Experiments:
        self.stop()
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        self.keeping = RoundCustody(RoundLedger(disk / "ledger.db"), RoundSecrets(self.folder / "memory"), disk)
        return Experiments(self.keeping, who, worth, dice)

    def stop(self) -> None:
        if self.keeping is not None:
            self.keeping.ledger.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.stop()


def serve(experiments: Experiments, document: ExperimentDocument = DOCUMENT) -> ExperimentDocument:
    return experiments.add(document.digest, C, publish(document, keys=(COORDINATOR,)))


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_document_that_names_this_relay_is_served_also_after_a_restart(place: Place) -> None:
    experiments = place.start(own())
    assert experiments.document(DOCUMENT.digest) is None
    serve(experiments)
    experiments = place.start(own())
    assert experiments.document(DOCUMENT.digest) == DOCUMENT
    assert experiments.coordinator(DOCUMENT.digest) == C


def test_a_document_that_is_not_signed_or_not_the_one_asked_for_is_refused(place: Place) -> None:
    experiments = place.start(own())
    envelope = publish(DOCUMENT, keys=(COORDINATOR,))
    with pytest.raises(BadSignatureError):
        experiments.add(DOCUMENT.digest, C, envelope.replace(envelope[40:90], bytes(50)))
    with pytest.raises(MalformedMessageError):
        experiments.add("0" * 64, C, envelope)


@pytest.mark.parametrize(
    ("who", "document", "why"),
    [
        (own(url="https://other.example/"), DOCUMENT, "another one"),
        (own(operator="Somebody else"), DOCUMENT, "another one"),
        (own(key=STRANGER), DOCUMENT, "another one"),
        (own("mix", url=DOCUMENT.entry_relay.url), DOCUMENT, "another one"),
        (own(cells=29), DOCUMENT, "30 cells"),
        (own(packages=159), DOCUMENT, "160 cover packages"),
        (own(capsules=166), DOCUMENT, "167 capsules"),
        (own(seconds_per_million=200_000), DOCUMENT, "30 seconds are too few"),
        (own("mix", seconds_per_million=130_000), DOCUMENT, "40 seconds are too few"),
        (own(seed="a seed"), DOCUMENT, "marked as a test"),
    ],
)
def test_a_document_beyond_the_terms_or_of_another_relay_is_refused(
    place: Place, who: OwnRelay, document: ExperimentDocument, why: str
) -> None:
    with pytest.raises(RelayRefusalError, match=why):
        serve(place.start(who), document)


def test_with_tokens_the_entry_relay_commits_to_a_key_and_the_mixing_relay_to_none(tmp_path: Path) -> None:
    document = relayed_document(tokens=True)
    secret = known_bytes("secret")
    for role, key in (("entry", TokenKey.of_round(RoundSecret(secret).token_seed).public), ("mix", None)):
        (tmp_path / role).mkdir()
        place = Place(tmp_path / role)
        experiments = place.start(own(role), lambda _count: secret)
        serve(experiments, document)
        told = json.loads(Envelope.from_bytes(experiments.commit(document.digest, 1)).payload)
        assert told.get("tokens") == (None if key is None else key.hex())


def test_a_document_whose_cover_is_worth_less_than_it_says_is_refused(place: Place) -> None:
    kinds = {
        name: Noise(cells=cells, shape=Fraction(15), odds=Fraction(1))
        for name, cells in (("train", 22), ("participation", 4), ("test", 4))
    }
    cover = RelayCover(**kinds, parts=4, packages=1200, train_share=Fraction(7, 10))
    experiment = relayed_experiment(cover=cover)

    def claims(epsilon: Fraction) -> ExperimentDocument:
        privacy = PrivacyTarget(epsilon=epsilon, delta=Fraction(1, 100))
        return relayed_document(experiment=experiment, privacy=privacy, rounds=2)

    experiments = place.start(own(packages=2000, capsules=9000), worth=check_worth)
    serve(experiments, claims(Fraction(2)))
    with pytest.raises(RelayRefusalError, match=r"ε = 1\.7"):
        serve(experiments, claims(Fraction(3, 2)))


# ── commitments ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["entry", "mix"])
def test_one_commitment_a_round_the_same_bytes_for_ever(place: Place, role: str) -> None:
    experiments = place.start(own(role))
    serve(experiments)
    first = experiments.commit(DOCUMENT.digest, 1)
    assert experiments.commit(DOCUMENT.digest, 1) == first
    assert experiments.commit(DOCUMENT.digest, 2) != first
    key = (ENTRY if role == "entry" else MIX).public
    read: EntryCommitment | MixCommitment = (EntryCommitment if role == "entry" else MixCommitment).read(first, key)
    assert (read.experiment, read.round_number) == (DOCUMENT.digest, 1)
    place.stop()
    # The machine restarts: what was said stays said, the secret is not made anew.
    shutil.rmtree(place.folder / "memory")
    experiments = place.start(own(role))
    assert experiments.commit(DOCUMENT.digest, 1) == first
    assert place.keeping.secrets.find(DOCUMENT.digest, 1) is None


def test_a_disk_restored_alone_commits_to_the_same_secret(place: Place) -> None:
    experiments = place.start(own())
    serve(experiments)
    first = experiments.commit(DOCUMENT.digest, 1)
    place.stop()
    shutil.rmtree(place.folder / "disk")
    experiments = place.start(own())
    serve(experiments)
    assert experiments.commit(DOCUMENT.digest, 1) == first
    # A round that was handed on has no secret of this kind any more.
    place.keeping.secrets.narrow(DOCUMENT.digest, 1, bytes(128))
    place.stop()
    shutil.rmtree(place.folder / "disk")
    experiments = place.start(own())
    serve(experiments)
    with pytest.raises(RelayRefusalError, match="served before"):
        experiments.commit(DOCUMENT.digest, 1)


def test_no_commitment_for_rounds_or_experiments_that_there_are_not(place: Place) -> None:
    experiments = place.start(own())
    serve(experiments)
    for digest, number in ((DOCUMENT.digest, 0), (DOCUMENT.digest, DOCUMENT.rounds + 1), ("0" * 64, 1)):
        with pytest.raises(RelayRefusalError):
            experiments.commit(digest, number)


def test_a_relay_throws_seeded_dice_only_where_it_was_started_with_a_seed(place: Place) -> None:
    marked = relayed_document(test=True)
    thrown = known_bytes("dice")
    experiments = place.start(own(), dice=lambda _count: thrown)
    serve(experiments, marked)
    experiments.commit(marked.digest, 1)
    # The document is marked, and the dice are still the relay's own.
    assert place.keeping.secrets.find(marked.digest, 1) == thrown
    place.stop()
    shutil.rmtree(place.folder / "disk")
    shutil.rmtree(place.folder / "memory")
    experiments = place.start(own(seed="a seed"), dice=lambda _count: thrown)
    serve(experiments, marked)
    experiments.commit(marked.digest, 1)
    assert place.keeping.secrets.find(marked.digest, 1) == seeded_round_secret("a seed", "entry", 1)
    place.stop()
    assert len({seeded_round_secret("a seed", role, number) for role in ("entry", "mix") for number in (1, 2)}) == 4


# ── manifests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_there_is_a_log_a_manifest_that_is_not_in_it_is_refused(place: Place) -> None:
    of = relayed_document(log=known_log_terms())
    one = RelayedRound(document=of)
    experiments = place.start(own(), dice=lambda _count: known_bytes("entry 1"))
    experiments.add(of.digest, C, publish(of, keys=(COORDINATOR,)))
    experiments.commit(of.digest, 1)
    envelope, entry = one.manifest.signed([COORDINATOR]), one.manifest.log_entry
    log = KnownLog([experiment_entry("a" * 64).to_bytes(), entry.to_bytes()])
    # Witnesses are not asked for: devices ask for those.
    signed = log.note(witnesses=0)
    other = KnownLog([experiment_entry("a" * 64).to_bytes(), replace(entry, digest="c" * 64).to_bytes()])
    strangers = WitnessedLog(log.origin, STRANGER, log.entries)
    bad = (None, b"", log.proof(0, signed), other.proof(1, other.note()), strangers.proof(1, strangers.checkpoint()))
    for proof in bad:
        with pytest.raises(RemoteProtocolError):
            experiments.name(of.digest, envelope, proof)
    assert experiments.name(of.digest, envelope, log.proof(1, signed)).label == one.label


def committed(place: Place, role: str = "entry", rounds: int = 1) -> Experiments:
    """A relay whose commitments are those of ``RelayedRound``."""
    left = [known_bytes(f"{role} {number}") for number in range(1, rounds + 1)]
    experiments = place.start(own(role), dice=lambda _count: left.pop(0))
    serve(experiments)
    for number in range(1, rounds + 1):
        experiments.commit(DOCUMENT.digest, number)
    return experiments


@pytest.mark.parametrize("role", ["entry", "mix"])
def test_the_manifest_of_a_round_names_it_and_survives_a_restart(place: Place, role: str) -> None:
    one = RelayedRound(document=DOCUMENT)
    experiments = committed(place, role)
    plan = experiments.name(DOCUMENT.digest, one.manifest.signed([COORDINATOR]))
    assert plan == experiments.name(DOCUMENT.digest, one.manifest.signed([COORDINATOR]))
    assert (plan.label, plan.packages, plan.parts, plan.budget) == (one.label, 160, 4, 7)
    assert place.start(own(role)).plans() == [plan]


def refused(experiments: Experiments, manifest: Any, key: SigningKey = COORDINATOR) -> bool:
    try:
        experiments.name(DOCUMENT.digest, manifest.signed([key]))
    except RemoteProtocolError:
        return True
    return False


def test_manifests_that_bind_a_relay_to_what_it_never_said_are_refused(place: Place) -> None:
    one = RelayedRound(document=DOCUMENT)
    experiments = committed(place)
    good = one.manifest
    assert refused(experiments, good, STRANGER)
    named: dict[str, Any] = {"experiment": DOCUMENT.digest, "round_number": 1, "parts": 4}
    commitment = good.mix_commitment
    for changes in (
        # pk_X that the mixing relay has not signed: a key of somebody else's, in the hands of coordinator and entry.
        {"mix": commitment.signed(COORDINATOR)},
        {"mix": MixCommitment(**{**vars_of(commitment), "round_number": 2}).signed(MIX)},
        {"mix": MixCommitment(**{**vars_of(commitment), "experiment": "0" * 64}).signed(MIX)},
        # Signed by us, and not what we gave.
        {"entry": entry_commitment(RoundSecret(known_bytes("other")), **named).signed(ENTRY)},
        {"round_number": DOCUMENT.rounds + 1, "previous": "0" * 64, "opening": "0" * 64},
        {"instants": replace(good.instants, batch_by=good.instants.batch_by + 1)},
        {"experiment": "0" * 64},
    ):
        assert refused(experiments, replace(good, **changes)), changes
    assert not refused(experiments, good)


def vars_of(commitment: MixCommitment) -> dict[str, Any]:
    return {name: getattr(commitment, name) for name in ("experiment", "round_number", "key", "parts")}


def test_a_second_manifest_of_a_round_is_refused_and_so_are_keys_of_another_round(place: Place) -> None:
    one = RelayedRound(document=DOCUMENT)
    two = one.following()
    experiments = committed(place, rounds=2)
    assert not refused(experiments, one.manifest)
    assert refused(experiments, replace(one.manifest, state="f" * 64))
    assert not refused(experiments, one.manifest)
    again: dict[str, Any] = {"count_key": one.manifest.count_key, "count_seed_hash": one.manifest.count_seed_hash}
    assert refused(experiments, replace(two.manifest, **again))
    same_key = MixCommitment(**{**vars_of(two.manifest.mix_commitment), "key": one.manifest.mix_commitment.key})
    assert refused(experiments, replace(two.manifest, mix=same_key.signed(MIX)))
    # It names another manifest as the one before, or opens before the mixing relay has handed on.
    assert refused(experiments, replace(two.manifest, previous="e" * 64))
    early = Instants.planned(DOCUMENT, one.manifest.instants.mix_by - 1)
    assert refused(experiments, replace(two.manifest, instants=early))
    assert not refused(experiments, two.manifest)


# ── cover ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cover_is_sealed_for_the_keys_of_the_rounds_own_manifest() -> None:
    one = RelayedRound(document=DOCUMENT)
    plan, root, seed = plan_of(DOCUMENT, one.manifest), known_bytes("root"), known_bytes("seed")
    outers = list(drawing(DOCUMENT, plan, "entry", BulkSealer())(seed, root))
    inners = list(drawing(DOCUMENT, plan, "mix", BulkSealer())(seed, root))
    assert len(outers) == len(inners) == 160 // 4
    mix_key: X25519PrivateKey = one.secret("mix").mix_key
    assert [open_outer(mix_key, one.label, outer) for outer in outers] == inners
    assert {len(inner) for inner in inners} == {INNER_BYTES}
    assert all(open_inner(one.count_key, one.label, inner) for inner in inners)
    other = set(drawing(DOCUMENT, plan, "mix", BulkSealer())(seed, known_bytes("another root")))
    assert not other & set(inners)
