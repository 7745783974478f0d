"""The salt is the one that public randomness fixed after the experiment was logged, or there is none."""

import random
from dataclasses import replace

import pytest

from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.errors import BadBeaconError, BadProofError, BadSignatureError, MalformedMessageError
from secvm.protocol.documents.experiment import Beacon, HashedBins, VocabularyBins
from secvm.protocol.log.checkpoints import Quorum, SignedCheckpoint
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.log.policy import LogPolicy
from secvm.protocol.trust.salt import committed_at, salt_of
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import START, Parties, draw_document, draw_experiment
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog
from tests.unit.protocol.helpers import document

START_S = START // 1000


def history(seed: int = 0, *, quorum: int = 3, beacons: int = 2) -> PublicHistory:
    dice = random.Random(seed)
    parties = Parties.drawn(dice, witnesses=5)
    terms = parties.log_terms(quorum=quorum)
    return PublicHistory(dice, draw_document(dice, parties, beacons=beacons, log=terms), parties)


def first(made: PublicHistory, *times_s: int, later: int = 0) -> bytes:
    """The experiment's entry under a checkpoint that the witnesses cosigned at these times, one after the other."""
    index = made.log.index_of(experiment_entry(made.document.digest))
    signed: SignedCheckpoint = made.log.checkpoint(index + 1 + later)
    lines = [
        signed.checkpoint.cosign(one.key, name=one.name, time_s=time_s)
        for one, time_s in zip(made.parties.witnesses, times_s, strict=False)
    ]
    return made.log.proof(index, signed.cosigned(*lines))


def earliest(made: PublicHistory) -> int:
    assert isinstance(made.document.binning, HashedBins)
    return min(beacon.round_number for beacon in made.document.binning.beacons)


def test_an_experiment_is_committed_when_its_quorum_was_reached() -> None:
    made = history()
    assert committed_at(made.document, first(made, 50, 10, 40, 20, 30)) == 30_000
    assert committed_at(made.document, first(made, 7, 7, 7)) == 7_000
    with pytest.raises(BadSignatureError, match="too few"):
        committed_at(made.document, first(made, 1, 2))


def test_repro_only_witnesses_that_the_reader_knows_say_when() -> None:
    # A device that counts three of five was dated back by the two that it does not know and one of its own.
    made = history()
    known = LogPolicy.of_witnesses(made.terms.witness_keys[2:])
    dated_back = first(made, 1, 1, 1, 50, 60)
    assert committed_at(made.document, dated_back) == 1_000
    assert committed_at(made.document, dated_back, policy=known) == 60_000
    with pytest.raises(BadSignatureError, match="too few"):
        committed_at(made.document, first(made, 1, 1, 1, 50), policy=known)


def test_a_policy_says_whose_time_must_be_among_them() -> None:
    made = history()
    keys = made.terms.witness_keys
    last = replace(LogPolicy.of_witnesses(keys), quorum=Quorum(1, (keys[4].key,)))
    proof = first(made, 10, 20, 30, 40, 50)
    assert committed_at(made.document, proof) == 30_000
    assert committed_at(made.document, proof, policy=last) == 50_000
    with pytest.raises(BadSignatureError, match="too few"):
        committed_at(made.document, first(made, 10, 20, 30, 40), policy=last)


def test_later_entries_do_not_matter_to_the_first() -> None:
    made = history()
    made.play(2)
    assert committed_at(made.document, first(made, 5, 6, 7, later=2)) == 7_000


def test_a_round_must_lie_after_the_commitment_and_not_at_it() -> None:
    made = history()
    at = earliest(made)
    found = salt_of(made.document, first=first(made, at - 1, at - 1, at - 1), records=made.records, allow_unsafe=True)
    assert len(found) == 32
    with pytest.raises(BadBeaconError, match="already known"):
        salt_of(made.document, first=first(made, at - 1, at - 1, at), records=made.records, allow_unsafe=True)


def test_one_late_beacon_is_enough_to_refuse() -> None:
    made = history(beacons=3)
    assert isinstance(made.document.binning, HashedBins)
    numbers = sorted(beacon.round_number for beacon in made.document.binning.beacons)
    proof = first(made, *[numbers[0]] * 5)
    with pytest.raises(BadBeaconError, match="already known"):
        salt_of(made.document, first=proof, records=made.records, allow_unsafe=True)


@pytest.mark.parametrize("change", ["missing", "too many", "swapped", "another round", "no first"])
def test_records_are_those_of_the_named_rounds_in_their_order(change: str) -> None:
    made = history()
    assert isinstance(made.document.binning, HashedBins)
    beacon = made.document.binning.beacons[0]
    records, proof = made.records, first(made, START_S, START_S, START_S)
    told: dict[str, tuple[bytes | None, list[bytes]]] = {
        "missing": (proof, records[:1]),
        "too many": (proof, [*records, records[0]]),
        "swapped": (proof, records[::-1]),
        "another round": (proof, [LocalUnsafeBeacon().fetch(beacon.chain, beacon.round_number + 1), records[1]]),
        "no first": (None, records),
    }
    with pytest.raises(BadBeaconError):
        salt_of(made.document, first=told[change][0], records=told[change][1], allow_unsafe=True)


def test_the_development_beacon_needs_a_test_and_somebody_who_says_so() -> None:
    made = history()
    proof = first(made, START_S, START_S, START_S)
    with pytest.raises(BadBeaconError, match="development"):
        salt_of(made.document, first=proof, records=made.records)
    real = PublicHistory(made.dice, replace(made.document, test=False), made.parties.anew())
    with pytest.raises(BadBeaconError, match="development"):
        salt_of(real.document, first=real.first, records=real.records, allow_unsafe=True)


def test_a_first_checkpoint_of_another_log_proves_nothing() -> None:
    made, other = history(), history(1)
    with pytest.raises(BadSignatureError):
        committed_at(made.document, other.first)
    elsewhere = WitnessedLog("else.example/secvm/v2", made.parties.log, made.log.entries)
    with pytest.raises(MalformedMessageError):
        committed_at(made.document, elsewhere.proof(0, elsewhere.checkpoint()))
    wrong = WitnessedLog(made.log.origin, made.parties.log, [b"something else\n"])
    signed = wrong.checkpoint()
    with pytest.raises(BadProofError):
        committed_at(made.document, wrong.proof(0, signed))


def test_a_salt_that_stands_in_the_experiment_needs_nobody() -> None:
    made = history(beacons=0)
    assert isinstance(made.document.binning, HashedBins)
    assert salt_of(made.document, first=None, records=[]) == made.document.binning.salt


def test_without_a_log_beacons_fix_nothing_and_words_have_no_salt() -> None:
    experiment = draw_experiment(random.Random(0))
    named = HashedBins(bins=experiment.n_bins, beacons=(Beacon("local-unsafe", START_S + 1),))
    without = document(experiment=experiment, binning=named, test=True)
    record = LocalUnsafeBeacon().fetch("local-unsafe", START_S + 1)
    with pytest.raises(BadBeaconError, match="without a log"):
        salt_of(without, first=b"", records=[record], allow_unsafe=True)
    words = document(experiment=experiment, binning=VocabularyBins(bins=experiment.n_bins, digest="ab" * 32))
    with pytest.raises(BadBeaconError, match="no salt"):
        salt_of(words, first=None, records=[])
