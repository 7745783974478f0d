"""Specifications with a guarantee, which every one has that does not say otherwise: two relays, a plan, refusals."""

import asyncio
import json
import threading
import tomllib
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from secvm.cli.experiment import app
from secvm.coordinator.experiments import operator_routes
from secvm.coordinator.experiments.new_experiment import private_plan
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.experiments.status_document import privacy_told
from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover_law import relay_budget
from secvm.privacy.accounting.guarantee import guarantee
from secvm.privacy.planning.private_plan import PrivatePlan
from secvm.privacy.planning.relay_plan import SECONDS_PER_MILLION
from secvm.privacy.sentences import say
from secvm.privacy.statements.relayed_text import PLAIN
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from secvm.protocol.documents.terms import RelayTimes
from secvm.relay.batches.experiments import check_worth
from secvm.relay.settings import RoundsPart
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.settings import parse_settings
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX
from tests.unit.coordinator.test_new_experiment import asked_in
from tests.unit.coordinator.test_operator_routes import KEY, Office, told

#: Planned in a fifth of a second.
PRIVATE = f"""
title = "Which words tell a from b?"
operator = "Uni"
contact = "study@uni.example"
purpose = "To see whether words tell."
labels = ["a", "b"]
people = 400
floor = 10
rounds = 4

[features]
source = "words"
per_participant = 8

[binning]
bins = 32

[windows]
length_s = 3000
grace_s = 60

[privacy]
epsilon = 4
delta = "1e-5"

[[relays]]
role = "entry"
url = "https://entry.example/relay"
key = "{ENTRY.public.data.hex()}"
operator = "Entry e.V."

[[relays]]
role = "mix"
url = "https://mix.example/relay"
key = "{MIX.public.data.hex()}"
operator = "Mix Ltd."
"""


def content(**changes: Any) -> dict[str, Any]:
    """The small question; ``a__b`` changes b of a, ``relays__0__url`` one of the entry relay; None leaves it out."""
    made: dict[str, Any] = tomllib.loads(PRIVATE)
    for path, value in changes.items():
        inner: Any = made
        *outer, name = path.split("__")
        for step in outer:
            inner = inner[int(step)] if step.isdigit() else inner.setdefault(step, {})
        if value is None:
            del inner[name]
        else:
            inner[name] = value
    return made


def planned(**changes: Any) -> PrivatePlan:
    found = _planned(json.dumps(content(**changes)))
    assert found is not None
    return found


@cache
def _planned(text: str) -> PrivatePlan | None:
    return private_plan(parse_settings(text, Specification, "the specification"))


def document(**changes: Any) -> ExperimentDocument:
    return asked_in(content(**changes), plan=planned(**changes))[0]


def test_a_document_of_version_2_carries_what_was_planned() -> None:
    of, plan = document(), planned()
    assert of.kind == "secvm-v2-experiment"
    assert of.experiment.cover == plan.plan.cover
    assert of.budget == plan.plan.budget == relay_budget(violable=1, features=8)
    assert of.privacy == PrivacyTarget(epsilon=Fraction(4), delta=Fraction(1, 10**5))
    assert (of.rounds, of.floor, of.relay_cover.parts) == (4, 10, 9)
    assert of.relay_times == RelayTimes(batch_s=60, mix_s=60, reveal_s=60, open_s=60)
    assert [(relay.role, relay.operator) for relay in of.relays] == [
        ("entry", "Entry e.V."),
        ("mix", "Mix Ltd."),
    ]
    assert ExperimentDocument.from_bytes(of.data) == of


def test_a_relay_and_a_device_find_that_the_document_keeps_what_it_claims() -> None:
    of = document()
    check_worth(of)
    mechanism = relayed_terms_of(of).mechanism
    assert mechanism is not None
    assert guarantee(mechanism, 1e-5).epsilon <= 4


def test_private_is_what_nobody_has_to_ask_for() -> None:
    told_nothing = parse_settings(json.dumps(content(privacy=None)), Specification, "the specification")
    assert told_nothing.privacy is not None
    assert told_nothing.privacy == PrivacyTarget(Fraction(1), Fraction(1, 10**6))


def test_what_nobody_gives_is_chosen_by_public_numbers() -> None:
    given = planned(descent={"thinning": 2, "step_size": 5, "floor": 3, "decay": "1/2"}).experiment
    assert given.thinning.rho == 2
    assert given.rule == Swift(step_size=Fraction(5), floor=Fraction(3), decay=Fraction(1, 2))
    chosen = planned()
    assert chosen.experiment.thinning == chosen.plan.question.thinning
    assert chosen.experiment.rule != Swift()
    assert planned(rounds=None).rounds > 1


def test_pegasos_has_its_own_thinning() -> None:
    plan = planned(descent={"rule": "pegasos", "lambda": "1/100", "thinning": "q=1/2"})
    assert plan.experiment.rule == Pegasos(lambda_=Fraction(1, 100))
    assert plan.experiment.thinning.q == Fraction(1, 2)
    assert plan.plan.question.thinning == plan.experiment.thinning


def test_operators_may_choose_parts_limit_and_times() -> None:
    of = document(privacy__parts=4, windows__batch_s=7, windows__open_s=8)
    assert of.relay_cover.parts == 4
    assert of.relay_times == RelayTimes(batch_s=7, mix_s=60, reveal_s=60, open_s=8)


def test_times_follow_the_relays_own_pace() -> None:
    assert RoundsPart.model_fields["seconds_per_million"].default == SECONDS_PER_MILLION
    slow = planned(relays__0__seconds_per_million=50_000, relays__1__seconds_per_million=20_000)
    cover = slow.plan.cover.packages
    # What a relay refuses below (§30): D packages at the entry relay, 2 D at the mixing relay.
    assert slow.times.batch_s * 10**6 >= 50_000 * cover
    assert slow.times.mix_s * 10**6 >= 2 * 20_000 * cover


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"relays": []}, "rests on two relays, and the specification has none"),
        ({"relays__1__role": "entry"}, "has entry, entry: give"),
        ({"relays__1__role": None}, "has entry, no role"),
        ({"relays__1__operator": " entry E.V. "}, "both relays are run by Entry e.V., who alone"),
        ({"relays__1__operator": None}, "the mixing relay has no operator"),
        ({"relays__0__operator": ""}, "the entry relay has no operator"),
        ({"relays__1__key": ENTRY.public.data.hex()}, "both relays have the key"),
        ({"relays__1__url": "https://entry.example/relay"}, "both relays have the url"),
        ({"relays__1__role": "shuffle"}, "relays.1.role should be 'entry' or 'mix'"),
        ({"people": None}, "give people"),
        ({"people": 0}, "people should be greater than or equal to 1"),
        ({"features__per_participant": None}, "give features.per_participant"),
        ({"features__presence": False}, "by presence"),
        ({"budget": 12}, "a budget of 12 was given, and with a guarantee it is 11"),
        ({"privacy__epsilon": 0}, "privacy epsilon must be a number, greater than 0 and at most 32, not 0"),
        ({"privacy__delta": 1}, "privacy delta must be a number, greater than 0 and less than 1, not 1"),
        ({"privacy__most_packages": 1000}, "1,000 are the limit: fewer bins"),
        ({"privacy__parts": 3}, "privacy parts must be a whole number, at least 4"),
        ({"privacy__gamma": "1/2"}, "privacy.gamma is not a setting"),
        ({"privacy": "plain"}, 'privacy should be a table, or "none"'),
        ({"privacy": 1}, "privacy should be a table"),
        ({"windows__mix_s": 0}, "windows.mix_s should be greater than or equal to 1"),
        ({"privacy": "none"}, "neither role nor operator"),
        ({"tokens": True, "privacy": "none", "relays": [], "test": True}, 'with privacy = "none" there are none'),
        ({"tokens": {"issuer": "https://mix.example/relay"}}, "tokens should be"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence) as caught:
        asked_in(content(**changes))
    assert "\n" not in str(caught.value)


def test_null_is_no_way_to_ask_for_none() -> None:
    with pytest.raises(BadInputError, match='should be a table, or "none"'):
        asked_in({**content(), "privacy": None})


def test_tokens_are_for_two_relays() -> None:
    assert asked_in(content(tokens=True), plan=planned())[0].tokens


# ── the operator's API ───────────────────────────────────────────────────────────────────────────────────────────────


def post(office: Office, body: dict[str, Any]) -> HttpResponse:
    headers = {"authorization": f"Bearer {KEY}"}
    request = HttpRequest("POST", "/admin/experiments", "", headers, json.dumps(body).encode(), "somebody")
    return asyncio.run(office.admin.answer(request))


def test_the_operator_gets_an_experiment_and_hears_what_to_expect_of_it() -> None:
    made = told(post(Office(), content(people=50)))
    assert made["privacy"] == {
        "kind": "relays",
        "epsilon": 4.0,
        "delta": 1e-5,
        "parts": 9,
        "cover_packages": planned(people=50).plan.cover.packages,
        "relays": ["Entry e.V.", "Mix Ltd."],
        "note": (
            "a guarantee as long as one of Entry e.V. (the entry relay) and Mix Ltd. (the mixing relay) is honest in"
            " each round, whatever all others do"
        ),
    }
    useless, waits = made["remarks"]
    assert useless.startswith("Private, and no usable model")
    assert "a token for https://entry.example/relay and https://mix.example/relay" in waits


def test_planning_is_off_the_event_loop_and_its_refusals_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    office, threads = Office(), set[threading.Thread]()

    def planning(spec: Specification) -> PrivatePlan | None:
        threads.add(threading.current_thread())
        return private_plan(spec)

    monkeypatch.setattr(operator_routes, "private_plan", planning)
    refused = post(office, content(people=None))
    assert (refused.status, office.store.experiments()) == (422, [])
    assert "give people" in told(refused)["detail"]
    assert threads
    assert threading.main_thread() not in threads


def test_a_plain_experiment_says_what_that_means() -> None:
    made = told(post(Office(), content(privacy="none", relays=[], test=True)))
    assert made["privacy"] == {"kind": "plain", "note": PLAIN}
    assert "for certain" in made["privacy"]["note"]
    assert made["remarks"] == []


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────────────


def run(tmp_path: Path, specification: dict[str, Any], *more: str) -> Result:
    file = tmp_path / "question.json"
    file.write_text(json.dumps(specification))
    (tmp_path / "key").write_text("k")
    where = ("--coordinator", "http://127.0.0.1:1", "--admin-key-file", str(tmp_path / "key"))
    return CliRunner().invoke(app, ["new", str(file), *where, *more])


def test_plan_only_tells_what_it_takes_and_publishes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, content(), "--plan-only", "--format", "json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)["plan"]
    cover = planned().plan.cover.packages
    assert (plan["budget"], plan["packages"], plan["parts"], plan["rounds"]) == (11, cover, 9, 4)
    assert plan["statement"]["planned"]["epsilon"] <= 4 < plan["statement"]["planned"]["epsilon_flip"]
    assert plan["terms"]["packages"] == cover
    assert plan["terms"]["capsules"] == 400 * 11 + cover
    assert plan["statement"]["caught"]["false_cover"] == pytest.approx(1 / 9)
    said = run(tmp_path, content(), "--plan-only").stdout
    for words in (
        "B = 11 packages",
        f"D = {cover:,} cover packages",
        "S = 9 parts",
        "of another label",
        "1 in 9 at least",
    ):
        assert words in said
    assert say("none.noise") in run(tmp_path, content(privacy="none", relays=[], test=True), "--plan-only").stdout


def test_repro_a_plan_needs_no_coordinator_and_an_experiment_does(tmp_path: Path) -> None:
    file = tmp_path / "question.json"
    file.write_text(json.dumps(content(privacy="none", relays=[], test=True)))
    assert say("none.noise") in CliRunner().invoke(app, ["new", str(file), "--plan-only"]).stdout
    done = CliRunner().invoke(app, ["new", str(file), "--coordinator", "http://127.0.0.1:1"])
    assert isinstance(done.exception, BadInputError)
    assert "with its admin key" in str(done.exception)


def test_a_status_of_a_private_experiment_rests_on_its_relays() -> None:
    assert privacy_told(document())["relays"] == ["Entry e.V.", "Mix Ltd."]
