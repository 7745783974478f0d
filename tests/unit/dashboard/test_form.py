"""Forms become wishes: what the planner reads of a specification is what the coordinator would make of it."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import make_document
from secvm.coordinator.experiments.new_experiment import private_plan as coordinators_plan
from secvm.coordinator.experiments.specification import Specification
from secvm.dashboard.plan import DECLARED_MODULE, UnfinishedError, accuracy_table, declared_module, read_request
from secvm.dashboard.view import BYTES_PER_PACKAGE
from secvm.errors import BadInputError
from secvm.participant.sending.sealing import CAPSULE_BYTES
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.privacy.planning.planner import private_plan, quick
from secvm.privacy.statements.plain import PrivacyStatement, state, words
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import terms_of
from secvm.runtime.settings import parse_settings
from secvm_lab.node import node
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX
from tests.unit.protocol.helpers import COORDINATOR, RELAY, START, log_terms

STATIC = Path(__file__).resolve().parents[3] / "src/secvm/dashboard/static"
#: Small, so that its cover is planned in a second or two.
SMALL: dict[str, Any] = {
    "title": "Which words tell a from b?",
    **(ASKER := {"operator": "Uni", "contact": "study@uni.example", "purpose": "To see whether words tell."}),
    "labels": ["a", "b"],
    "people": 5_000,
    "floor": 100,
    "privacy": "none",
    "rounds": 3,
    "features": {"source": "history-titles", "per_participant": 10},
    "binning": {"bins": 100},
    "windows": {"length_s": 3000, "grace_s": 60},
    "descent": {"rule": "pegasos"},
    "relays": [{"url": "https://relay.example/", "key": RELAY.public.data.hex()}],
}
PRIVATE: dict[str, Any] = SMALL | {
    "privacy": {"epsilon": 4},
    "descent": {"rule": "swift"},
    "relays": [
        {"role": role, "url": f"https://{role}.example/", "key": key.public.data.hex(), "operator": f"{role} Ltd."}
        for role, key in (("mix", MIX), ("entry", ENTRY))
    ],
}


def form(specification: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"specification": specification, **more}).encode()


def asked(specification: dict[str, Any], **more: Any) -> ExperimentDocument:
    told = parse_settings(json.dumps(specification), Specification, "the specification")
    document, _ = make_document(
        told,
        key=COORDINATOR.public,
        grid=Grid(period_s=3600, lead_s=300),
        dice=lambda n: bytes(range(n)),
        now=START,
        log=log_terms(),
        **more,
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
    assert isinstance(found.statement, PrivacyStatement)
    # The form does not know how many witnesses the coordinator has.
    published = state(replace(terms_of(document), quorum=None), bytes_per_package=BYTES_PER_PACKAGE)
    assert words(found.statement) == words(published)


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
        ("privacy.epsilon", {"privacy": {"epsilon": "one"}}),
        ("privacy.delta", {"privacy": {"delta": "0.1.2"}}),
        ("people", {"people": "many"}),
        ("relays.role", {"relays": [{"role": "leap"}]}),
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


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"rounds": None, "descent": {"rule": "swift", "decay": "1/10"}, "people": 50_000},
        {"labels": ["a", "b", "c"], "privacy": {"epsilon": 6, "delta": 1e-7, "parts": 4}},
        {"descent": {"rule": "swift", "thinning": 2, "floor": 3, "step_size": 7}},
        {"descent": {"rule": "pegasos", "thinning": "q=1/4"}},
    ],
    ids=str,
)
def test_a_private_plan_is_what_the_coordinator_publishes(change: dict[str, Any]) -> None:
    told = {name: value for name, value in (PRIVATE | change).items() if value is not None}
    wish, _ = read_request(form(told, part="guarantee"))
    ours = private_plan(wish)
    theirs = coordinators_plan(parse_settings(json.dumps(told), Specification, "the specification"))
    assert theirs is not None
    assert (ours.plan, ours.times, ours.rounds) == (theirs.plan, theirs.times, theirs.rounds)
    assert ours.experiment.thinning == theirs.experiment.thinning
    document = asked(told, plan=theirs)
    assert document.budget == quick(wish, accuracy_table()).budget


# ── the form itself ──────────────────────────────────────────────────────────────────────────────────────────────────


def in_node(script: str) -> Any:
    with TemporaryDirectory() as folder:
        module = Path(folder, "new_specification.js")
        module.write_bytes((STATIC / module.name).read_bytes())
        Path(folder, DECLARED_MODULE).write_bytes(declared_module())
        whole = f"import * as form from {json.dumps(module.as_uri())};\nconsole.log(JSON.stringify({script}));"
        run = [str(node()), "--no-warnings", "--input-type=module", "-e", whole]
        told = subprocess.run(run, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


PLAIN_FORM = {
    "title": "Night owls",
    **ASKER,
    "privacy": "none",
    "relays.url": "https://relay.example/",
    "relays.key": RELAY.public.data.hex(),
}
PRIVATE_FORM = {
    "title": "Night owls",
    **ASKER,
    **{f"relays.{role}.url": f"https://{role}.example/" for role in ("entry", "mix")},
    **{f"relays.{role}.operator": f"{role} Ltd." for role in ("entry", "mix")},
    "relays.entry.key": ENTRY.public.data.hex(),
    "relays.mix.key": MIX.public.data.hex(),
}


def filled(fields: dict[str, str]) -> str:
    return f"{{...form.DEFAULTS, ...{json.dumps(fields)}}}"


def test_the_form_makes_a_specification_that_the_coordinator_takes() -> None:
    document = asked(in_node(f"form.specification({filled(PLAIN_FORM | {'hours_from': '7', 'hours_to': '22'})})"))
    assert document.title == "Night owls"
    assert {name: getattr(document, name) for name in ASKER} == ASKER
    assert document.windows.hours == ((7, 22),)
    assert document.windows.length_s == 3000
    assert document.train_share.as_integer_ratio() == (7, 10)


def test_the_form_as_it_opens_is_private_and_only_lacks_a_title_who_asks_and_relays() -> None:
    told = in_node('form.planRequest(form.DEFAULTS, "quick", true)')
    wish, _ = read_request(json.dumps(told).encode())
    found = quick(wish, accuracy_table())
    assert found.refused == ()
    assert wish.guarantee is not None
    lacking = [field for field, _ in in_node("form.missing(form.DEFAULTS)")]
    relays = [f"relays.{role}.{name}" for role in ("entry", "mix") for name in ("url", "operator", "key")]
    assert lacking == ["title", *ASKER, *relays]
    assert not {*ASKER} & {field for field, _ in in_node(f"form.missing({filled({'test': 'yes'})})")}
    for fields in (PLAIN_FORM, PRIVATE_FORM):
        assert in_node(f"form.missing({filled(fields)})") == []


@pytest.mark.parametrize("fields", [PLAIN_FORM, PRIVATE_FORM], ids=["plain", "private"])
def test_the_planner_and_the_coordinator_are_sent_the_same_specification(fields: dict[str, str]) -> None:
    state_of = filled(fields)
    both = in_node(f'[form.specification({state_of}), form.planRequest({state_of}, "quick", true).specification]')
    assert both[0] == both[1]
    told = parse_settings(json.dumps(both[0]), Specification, "the specification")
    assert (told.privacy is None) == ("privacy" in fields)


def test_the_state_of_the_form_comes_back_from_its_address() -> None:
    changed = json.dumps({"title": "a & b", "binning.bins": "77", "test": "yes", "features.per_participant": ""})
    told = in_node(
        f"(() => {{ const state = {{...form.DEFAULTS, ...{changed}}};"
        " const query = new URLSearchParams(Object.entries(form.toQuery(state)).filter(([, v]) => v !== null));"
        " return [state, form.fromQuery(query), [...query.keys()]]; })()"
    )
    assert told[0] == told[1]
    assert sorted(told[2]) == ["binning.bins", "features.per_participant", "test", "title"]
