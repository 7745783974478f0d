"""Which manifest a device believes. The names of the tests are attacks."""

import json
from dataclasses import replace
from typing import Any

import pytest

from secvm.crypto.sealing import kem
from secvm.crypto.sealing.kem import HybridPrivateKey, X25519PrivateKey
from secvm.crypto.sealing.oblivious import OUR_ALGORITHMS, GatewayKey, encode_key_configurations
from secvm.errors import (
    BadSignatureError,
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
    StaleRoundError,
)
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import (
    LastRound,
    RelayCount,
    RoundManifest,
    accept,
    last_round,
    make_manifest,
    read_relay_count,
)
from tests.unit.protocol.helpers import (
    COORDINATOR,
    GATEWAY_KEYS,
    RELAY,
    SECOND,
    START,
    STRANGER,
    changed,
    document,
    manifests,
    names_of_model,
    opening,
    paths,
    served,
    tally,
)

OF = document()
ROUNDS = manifests(3, OF)


def test_same_manifest_again_is_the_same_also_with_another_signature() -> None:
    of = document(coordinator_keys=(COORDINATOR.public, SECOND.public))
    (first,) = manifests(1, of)
    last = accept(served(first), document=of)
    assert accept(served(first), document=of, last=last) is last
    assert accept(served(first, COORDINATOR, SECOND), document=of, last=last) is last


def test_device_that_missed_rounds_goes_on_with_a_newer_one() -> None:
    last = accept(served(ROUNDS[0]), document=OF)
    assert accept(served(ROUNDS[2]), document=OF, last=last).manifest == ROUNDS[2]


def test_accept_refuses_second_manifest_for_same_round_and_keeps_both() -> None:
    last = accept(served(ROUNDS[0]), document=OF)
    other = served(replace(ROUNDS[0], state="00" * 32))
    with pytest.raises(EquivocationError) as caught:
        accept(other, document=OF, last=last)
    assert caught.value.evidence == (served(ROUNDS[0]), other)
    # Also one that would be refused for another reason is an equivocation: it was signed.
    with pytest.raises(EquivocationError):
        accept(served(replace(ROUNDS[0], closes_at=ROUNDS[0].closes_at - 1)), document=OF, last=last)


def test_accept_refuses_going_back() -> None:
    last = accept(served(ROUNDS[2]), document=OF)
    with pytest.raises(StaleRoundError):
        accept(served(ROUNDS[1]), document=OF, last=last)


def test_accept_refuses_too_few_signatures() -> None:
    of = document(coordinator_keys=(COORDINATOR.public, SECOND.public), threshold=2)
    (first,) = manifests(1, of)
    with pytest.raises(BadSignatureError):
        accept(served(first), document=of)
    assert accept(served(first, COORDINATOR, SECOND), document=of).manifest == first


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"opens_at": ROUNDS[1].opens_at + 60_000}, "another length"),
        ({"last": last_round(tally(1, 1))}, "floor"),
        ({"last": LastRound(tally="00" * 32, participants=(5,), cells=((0,),))}, "labels"),
    ],
)
def test_signed_manifest_that_breaks_the_experiments_word_is_refused_with_evidence(
    changes: dict[str, Any], fault: str
) -> None:
    last = accept(served(ROUNDS[0]), document=OF)
    wrong = served(replace(ROUNDS[1], **changes))
    with pytest.raises(InconsistentManifestError, match=fault) as caught:
        accept(wrong, document=OF, last=last)
    assert caught.value.evidence == (served(ROUNDS[0]), wrong)
    assert caught.value.next_step


def moved(manifest: RoundManifest, opens_at: int) -> RoundManifest:
    by = opens_at - manifest.opens_at
    return replace(
        manifest,
        opens_at=opens_at,
        closes_at=manifest.closes_at + by,
        accept_until=manifest.accept_until + by,
    )


def test_short_deadlines_early_starts_and_overlapping_windows_are_refused() -> None:
    with pytest.raises(InconsistentManifestError, match="starts"):
        accept(served(moved(ROUNDS[0], START - 1)), document=OF)
    last = accept(served(ROUNDS[0]), document=OF)
    with pytest.raises(InconsistentManifestError, match="closed"):
        accept(served(moved(ROUNDS[1], ROUNDS[0].accept_until - 1)), document=OF, last=last)
    accept(served(moved(ROUNDS[1], ROUNDS[0].accept_until)), document=OF, last=last)


def test_abandoned_round_keeps_the_model_and_tells_nothing() -> None:
    told = last_round(None)
    assert told == LastRound(tally=None)
    same = replace(
        ROUNDS[1],
        last=told,
        state=ROUNDS[0].state,
        training_weights=ROUNDS[0].training_weights,
        evaluation_weights=ROUNDS[0].evaluation_weights,
    )
    last = accept(served(ROUNDS[0]), document=OF)
    assert accept(served(same), document=OF, last=last).manifest == same


def test_relays_count_must_be_signed_by_a_relay_of_the_experiment() -> None:
    count = RelayCount(opens_at=1, clients=4, capsules=20)
    good = replace(ROUNDS[1], last=last_round(tally(2, 2), relay_count=count.signed(RELAY)))
    accepted = accept(served(good), document=OF).manifest
    assert accepted.last is not None
    assert accepted.last.relay_count is not None
    assert read_relay_count(accepted.last.relay_count, OF) == count
    for key in (STRANGER, COORDINATOR):
        forged = replace(ROUNDS[1], last=last_round(tally(2, 2), relay_count=count.signed(key)))
        with pytest.raises(BadSignatureError):
            accept(served(forged), document=OF)


def test_repro_counted_round_without_the_count_of_the_relay_that_makes_one_is_refused() -> None:
    # Whoever kept it back switched off all that is compared with it.
    (first,) = manifests(1, OF)
    last = accept(served(first), document=OF)
    count = RelayCount(first.opens_at, clients=4, capsules=20).signed(RELAY)
    (_, told) = manifests(2, OF, last=last_round(tally(2, 2), relay_count=count))
    assert accept(served(told), document=OF, last=last).manifest == told
    withheld = replace(told, last=last_round(tally(2, 2)))
    with pytest.raises(InconsistentManifestError, match="no relay's count") as caught:
        accept(served(withheld), document=OF, last=last)
    assert caught.value.evidence == (served(first), served(withheld))
    # Also over a gap, by the next manifest alone.
    with pytest.raises(InconsistentManifestError, match="no relay's count"):
        accept(served(withheld), document=OF)
    with pytest.raises(LocalProtocolError, match="no relay's count"):
        manifests(2, OF, last=last_round(tally(2, 2)))


def test_count_may_be_missing_where_a_round_is_abandoned_or_no_relay_makes_one_of_all() -> None:
    (one,) = OF.relays
    other = replace(one, url="https://two.example/")
    for relays in ((), (one, other)):
        manifests(2, document(relays=relays, test=True), last=last_round(tally(2, 2)))
    manifests(2, OF, last=last_round(None), model=names_of_model(1))


def test_repro_gateway_keys_that_leave_a_choice_are_refused_and_every_machine_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = accept(served(ROUNDS[0]), document=OF)
    hybrid = GatewayKey(7, HybridPrivateKey(bytes(32)))
    classical = GatewayKey(7, X25519PrivateKey(bytes(32)))
    two_pairs = replace(classical, algorithms=((1, 3), OUR_ALGORITHMS))
    wrong = [
        encode_key_configurations([hybrid.configuration, classical.configuration]),
        encode_key_configurations([classical.configuration, hybrid.configuration]),
        encode_key_configurations([hybrid.configuration]),
        encode_key_configurations([two_pairs.configuration]),
        encode_key_configurations([replace(classical, algorithms=((1, 3),)).configuration]),
        b"\0\7\7\xff\xffABCD" + GATEWAY_KEYS,
        GATEWAY_KEYS + GATEWAY_KEYS,
        GATEWAY_KEYS[:-1],
        GATEWAY_KEYS + b"\0",
    ]
    for here in (True, False):
        monkeypatch.setattr(kem, "hybrid_is_here", lambda here=here: here)
        for data in wrong:
            with pytest.raises(InconsistentManifestError, match="gateway keys"):
                accept(served(replace(ROUNDS[1], gateway_keys=data)), document=OF, last=last)
        # The experiment says of which kind the one key is; a machine that lacks the kind sees no fault in it.
        of = document(kem=kem.MLKEM768_X25519)
        assert ExperimentDocument.from_bytes(of.data) == of
        (first,) = manifests(1, of, gateway_keys=wrong[2])
        assert accept(served(first), document=of).manifest == first
        with pytest.raises(LocalProtocolError, match="gateway keys"):
            manifests(1, of)


@pytest.mark.parametrize("path", paths(json.loads(ROUNDS[1].data)))
def test_every_field_of_a_manifest_is_needed_and_has_its_type(path: str) -> None:
    for value in (KeyError, {}, {"x": 1}, [None], "x", -1, 0, False, 2**53 - 1):
        try:
            RoundManifest.from_bytes(changed(ROUNDS[1].data, path, value))
        except MalformedMessageError:
            continue
        # Far in the future, or long ago, is no fault in itself.
        assert (path, str(value)) in {("accept_until", str(2**53 - 1)), ("opens_at", "0")}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("last.x", None),
        ("round", 1),
        ("last", None),
        ("accept_until", ROUNDS[1].closes_at - 1),
        ("last.tally", None),
        ("last.participants", []),
        ("last.participants", [1, -1]),
        ("last.cells", [[0, 0]]),
        ("last.cells", [[0, 0], [0]]),
    ],
)
def test_manifest_that_is_not_complete_in_itself_is_refused(path: str, value: object) -> None:
    with pytest.raises(MalformedMessageError):
        RoundManifest.from_bytes(changed(ROUNDS[1].data, path, value))


@pytest.mark.parametrize(
    "changes",
    [
        {"opens_at": START - 1},
        {"quota": 4},
        {"gateway_keys": bytes(2**13 + 1)},
        {"last": last_round(tally(2, 2))},
    ],
)
def test_coordinator_cannot_make_a_manifest_that_nobody_would_accept(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        manifests(1, OF, **changes)


def test_experiment_of_t_rounds_has_no_round_after_them() -> None:
    of = document(rounds=2)
    first, second = manifests(2, of)
    with pytest.raises(LocalProtocolError, match="fewer rounds"):
        make_manifest(
            of,
            before=second,
            last=last_round(tally(2, 2)),
            opens_at=opening(3),
            model=names_of_model(3),
            gateway_keys=b"",
        )
    assert first.round_number == 1
