"""Whether a device joins an experiment with two relays: who runs them, what they signed, what their noise is worth."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from secvm.errors import BadInputError, ConsentRefusedError
from secvm.learning.aggregate.descent import Swift
from secvm.participant.consent.ledger import spending
from secvm.participant.consent.policies import Consent, check_kept, needed_for
from secvm.participant.device import Device
from secvm.participant.person.disclosure import figures, what_leaves
from secvm.participant.person.inspection import as_text, inspect
from secvm.participant.relayed.preparation import term_against
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.settings import ParticipantSettings
from secvm.participant.storage.books import Accepted
from secvm.participant.trust.trust_policy import TrustedRelay
from secvm.privacy.accounting.accountant import Mechanism
from secvm.privacy.accounting.guarantee import delta_at
from secvm.privacy.planning.relay_plan import plan_relays, question_for
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm_lab.rigs.histories.relayed_history import terms_of_relays
from secvm_lab.rigs.histories.relayed_rounds import relayed_document, relayed_experiment
from tests.there import there
from tests.unit.participant.relayed.relayed_world import RelayedWorld, trusting
from tests.unit.participant.world import ANYTHING

#: In which the tests here live.
WORLD = RelayedWorld

DOCUMENT = relayed_document()


def relays(**changes: Any) -> tuple[TrustedRelay, ...]:
    both = there(trusting(DOCUMENT).relays)
    return tuple(replace(one, **changes) for one in both)


def test_both_relays_must_be_named_with_operator_and_key() -> None:
    trusting(DOCUMENT).check(DOCUMENT)
    entry, mix = relays()
    for named in ((entry,), (mix,), (entry, replace(mix, key=None)), (entry, replace(mix, operator=None))):
        with pytest.raises(BadInputError):
            trusting(DOCUMENT, relays=named).check(DOCUMENT)
    with pytest.raises(BadInputError, match="another"):
        trusting(DOCUMENT, relays=(entry, replace(mix, key=entry.key))).check(DOCUMENT)


def test_one_hand_is_refused_whoever_names_it() -> None:
    with pytest.raises(BadInputError, match="both relays are run by"):
        trusting(DOCUMENT, relays=relays(operator="The same")).check(DOCUMENT)
    both = tuple(replace(one, operator="The same") for one in DOCUMENT.relays)
    of = replace(DOCUMENT, relays=both)
    with pytest.raises(BadInputError, match="both relays are run by The same"):
        trusting(DOCUMENT).check(of)


def test_the_coordinators_operator_may_run_a_relay_only_where_the_person_says_so() -> None:
    for operator in ("Mix Ltd.", " mix ltd. ", "Entry e.V."):
        with pytest.raises(BadInputError, match="one relay"):
            trusting(DOCUMENT, coordinator=operator).check(DOCUMENT)
        trusting(DOCUMENT, coordinator=operator, one_relay=True).check(DOCUMENT)


def test_who_asks_runs_the_coordinator_whether_or_not_the_person_has_said_so() -> None:
    of = replace(DOCUMENT, operator="mix LTD. ")
    for coordinator in (None, "Uni"):
        with pytest.raises(BadInputError, match=r"Mix Ltd\. runs the coordinator and the mixing relay"):
            trusting(of, coordinator=coordinator).check(of)
        trusting(of, coordinator=coordinator, one_relay=True).check(of)
        with pytest.raises(ConsentRefusedError, match=r"Mix Ltd\. runs the coordinator"):
            Consent(coordinator=coordinator).check(replace(PLANNED, operator="Mix Ltd."))
    with pytest.raises(BadInputError, match="both run the coordinator"):
        trusting(of, coordinator="Entry e.V.", one_relay=True).check(of)


def test_settings_say_who_runs_what() -> None:
    entry, mix = DOCUMENT.entry_relay, DOCUMENT.mix_relay
    named = [{"operator": one.operator, "url": one.url, "key": one.key.data.hex()} for one in (entry, mix)]
    told: dict[str, Any] = {
        "device": {"folder": Path("x")},
        "relay": {"urls": (entry.url,)},
        "trust": {"relays": tuple(named), "coordinator": "Mix Ltd.", "profile": "one relay", "without_log": True},
    }
    settings = ParticipantSettings.model_validate(told)
    settings.policy().check(DOCUMENT)
    assert settings.agreed().one_relay
    assert settings.agreed().coordinator == "Mix Ltd."
    told["trust"]["profile"] = "two relays"
    with pytest.raises(BadInputError, match="one relay"):
        ParticipantSettings.model_validate(told).policy().check(DOCUMENT)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cells": 29}, "cells"),
        ({"packages": 159}, "packages of cover"),
        ({"capsules": 194}, "capsules"),
        ({"seconds_per_million": 10**6}, "seconds"),
        ({"url": "https://elsewhere.example/"}, "elsewhere"),
        ({"operator": "Somebody else"}, "Somebody else"),
    ],
)
def test_terms_must_be_large_enough_and_of_this_relay(changes: dict[str, Any], said: str) -> None:
    for relay in DOCUMENT.relays:
        assert term_against(DOCUMENT, relay, terms_of_relays(DOCUMENT)[relay.url]) is None
        (other,) = {one for one in terms_of_relays(DOCUMENT, **changes).values() if one.role == relay.role}
        assert said in (term_against(DOCUMENT, relay, other) or "")
        assert "has not signed" in (term_against(DOCUMENT, relay, None) or "")


def test_without_both_terms_no_round_is_joined(world: RelayedWorld) -> None:
    world.net.both_terms.popitem()
    device = world.joined()
    world.play_round(device)
    assert world.net.requests == []
    assert device.state.ledger.rounds() == {}, "nothing is charged"
    ((_, reason, sentence),) = device.state.abstentions(world.of.digest)
    assert (reason, "has not signed" in sentence) == ("DECLINED", True)


def test_a_test_experiment_is_refused_without_testing(tmp_path: Path) -> None:
    world = RelayedWorld(tmp_path, relayed_document(test=True))
    world.fill()
    device = world.start(only_tests=False)
    with pytest.raises(BadInputError, match="marked as a test"):
        world.join(device)
    world.join(world.start(only_tests=True))


# ── what the noise is worth ──────────────────────────────────────────────────────────────────────────────────────────


def planned(epsilon: Fraction = Fraction(2)) -> ExperimentDocument:
    target = PrivacyTarget(epsilon, Fraction(1, 10**6))
    question, _ = question_for(target=target, people=400, bins=10, features=4, rounds=2)
    plan = plan_relays(question)
    experiment = relayed_experiment(cover=plan.cover, thinning=question.thinning, rule=Swift())
    return relayed_document(
        experiment=experiment,
        rounds=2,
        floor=50,
        privacy=target.published,
    )


PLANNED = planned()


def planned_for(claimed: Fraction) -> ExperimentDocument:
    """The same noise, of which the document claims another ε."""
    return replace(PLANNED, privacy=PrivacyTarget(epsilon=claimed, delta=Fraction(1, 10**6)))


def test_a_document_that_claims_more_than_its_noise_gives_is_refused() -> None:
    consent = Consent(coordinator="Uni")
    check_kept(consent.relayed_statement(PLANNED))
    with pytest.raises(ConsentRefusedError, match="worth less"):
        check_kept(consent.relayed_statement(planned_for(Fraction(1, 2))))
    # As does what the small world of these tests claims of itself.
    with pytest.raises(ConsentRefusedError, match="worth less"):
        consent.check(DOCUMENT)


def test_repro_what_noise_is_worth_is_computed_once_for_all_devices_and_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took a host 130 ms for each device in each round."""
    asked: list[float] = []
    compute = Mechanism.delta

    def delta(self: Mechanism, epsilon: float, **more: Any) -> float:
        asked.append(epsilon)
        return compute(self, epsilon, **more)

    delta_at.cache_clear()
    monkeypatch.setattr(Mechanism, "delta", delta)
    for _ in range(3):
        Consent(coordinator="Uni").check(PLANNED)
    assert asked == [2.0]
    # Another claim of the same noise is another question.
    with pytest.raises(ConsentRefusedError, match="worth less"):
        Consent(coordinator="Uni").check(planned_for(Fraction(1)))
    assert asked == [2.0, 1.0]


def test_the_ledger_is_charged_with_the_labels_figure() -> None:
    consent = Consent(coordinator="Uni")
    statement = consent.relayed_statement(PLANNED)
    assert statement.own is not None
    charged = spending(PLANNED, PLANNED.rounds, consent, Accepted()).charged
    assert charged == pytest.approx(statement.own.charged)
    assert charged is not None
    assert charged > statement.own.epsilon
    one = there(spending(PLANNED, 1, consent, Accepted()).charged)
    assert 0 < one < charged
    needed = there(needed_for(statement))
    assert needed.epsilon is not None
    assert charged <= needed.epsilon < charged + 0.011
    # Nobody honest is left: nothing is small enough.
    assert spending(PLANNED, 1, Consent(coordinator="Mix Ltd."), Accepted()).charged == math.inf


def test_who_breaks_it_and_what_it_costs_is_said() -> None:
    told = " ".join(what_leaves(PLANNED, Consent(coordinator="Uni").statement(PLANNED), trusting(PLANNED)))
    assert "Entry e.V. (the entry relay) and Mix Ltd. (the mixing relay) together" in told
    assert f"exactly {PLANNED.budget} sealed packages" in told
    assert "run by Entry e.V." in told
    assert any("claims a formal guarantee" in sentence for sentence in figures(PLANNED))
    assert bytes_of_a_round(PLANNED) == 128 * PLANNED.budget + 400


def test_repro_a_person_is_told_that_the_mixing_relay_sees_an_address() -> None:
    told = " ".join(what_leaves(PLANNED, Consent(coordinator="Uni").statement(PLANNED), trusting(PLANNED)))
    assert "asks both relays for their terms, so the second sees its address" in told


def test_inspect_tells_of_rounds_and_canaries(world: RelayedWorld, device: Device) -> None:
    world.play_round(device)
    manifest = world.history.announce()
    world.drive(device, until=manifest.instants.opens_at - 1)
    policy = trusting(world.of)
    found = inspect(device.state, now=world.clock.now(), consent=ANYTHING, policy=policy)
    assert found[world.of.digest]["waiting"] == world.of.budget
    assert found[world.of.digest]["trust"]["checks"]["seen"] == 1
    told = as_text(found)
    assert "Its canaries among what was handed on: 1 found" in told
    assert "The newest round it knows is 2" in told


def test_inspect_names_the_rounds_that_were_unopened(world: RelayedWorld, device: Device) -> None:
    world.play_round(device, unopened=True)
    world.play_round(device)
    found = inspect(device.state, now=world.clock.now(), consent=ANYTHING, policy=trusting(world.of))
    assert [one["unopened"] for one in found[world.of.digest]["rounds"]] == [True, False]
    assert "Rounds of it that were not opened: 1." in as_text(found)
