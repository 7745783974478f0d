"""What ``experiment new`` finds out before anything is published: the plan, the relays' terms, and who would join."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import secvm.cli.experiment as command
from secvm.cli.experiment import preview
from secvm.cli.experiment.preview import look_ahead, why_refused
from secvm.cli.experiment.remote import AwayError, Remote
from secvm.cli.experiment.rounds import ended_rounds, round_line, status_lines
from secvm.errors import ConsentRefusedError, UnreachableError
from secvm.participant.consent.policies import Consent
from secvm.privacy.risk import in_words
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.statements import RelayedTerms
from secvm.testing.clock import ManualClock
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.histories.relayed_history import terms_of_relays
from tests.program import Program
from tests.serving import Server, serving
from tests.unit.cli.test_remote import key_file
from tests.unit.coordinator.test_operator_routes import Office, told
from tests.unit.coordinator.test_private_experiment import content, document
from tests.unit.protocol.helpers import log_terms

#: What a device with default consent joins.
JOINED: dict[str, Any] = {"privacy": {"epsilon": 1, "delta": "1e-6"}, "rounds": 2}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (JOINED, None),
        (
            {},
            "nothing at the δ = 1e-06 that this device wants (the experiment plans with 1e-05): the noise of one relay",
        ),
        (
            {"privacy": {"epsilon": 3.9, "delta": "1e-6"}},
            "in its last round the device's budget over all experiments is spent: ε = 4.00 for your answers",
        ),
        ({"privacy": "none", "relays": [], "test": True}, "has no relay to send packages to; and "),
    ],
)
def test_the_verdict_is_the_devices_own_and_names_the_true_cause(changes: dict[str, Any], why: str | None) -> None:
    seen = look_ahead(content(**changes))
    assert seen.content()["devices"] == {"join": why is None, "why_not": list(seen.refusals)}
    assert (why or "") in "; and ".join(seen.refusals)
    expected = "joins, if its settings name both relays" if why is None else "refuses, because "
    device = "for tests" if changes.get("test") else "with default consent"
    assert seen.lines[-1] == f"devices: a device {device} {expected}{'; and '.join(seen.refusals)}"


def test_of_a_test_the_verdict_is_that_of_devices_for_tests() -> None:
    seen = look_ahead(content(**JOINED, test=True))
    assert seen.content()["devices"] == {"join": True, "why_not": []}
    joins = "a device for tests joins, if its settings name both relays"
    assert seen.lines[-1] == f"devices: {joins}; one with somebody's own data refuses every test"


@pytest.mark.parametrize("changes", [JOINED, {"privacy": "none", "relays": [], "test": True}])
def test_the_plan_says_the_one_risk_as_devices_say_it(changes: dict[str, Any]) -> None:
    seen = look_ahead(content(**changes))
    first = seen.lines[[line.startswith("devices will say") for line in seen.lines].index(True) + 1].strip()
    assert first == in_words(seen.risk, seen.document.experiment)
    assert seen.content()["risk"] == Consent().statement(seen.document).risk


def test_a_device_that_refuses_says_how_to_take_part_anyway() -> None:
    with pytest.raises(ConsentRefusedError) as caught:
        Consent(most_epsilon=0.5).check(document(**JOINED))
    assert str(caught.value.next_step).startswith("To take part anyway, join with --accept-epsilon 1.00 (this")
    with pytest.raises(
        ConsentRefusedError, match=r"at the δ = 1e-06 that this device wants; .* with 2e-06\) if one of"
    ):
        Consent(most_epsilon=1.0).check(document(privacy={"epsilon": 1, "delta": "2e-6"}, rounds=2))
    with pytest.raises(ConsentRefusedError) as caught:
        Consent().check(document())
    assert caught.value.next_step == ("Its operator has to plan it with delta = 1e-06; nothing on this device helps.")


def test_what_can_be_learnt_is_told_as_the_operators_page_tells_it() -> None:
    seen = look_ahead(content(**JOINED))
    accuracy = seen.content()["accuracy"]
    (line,) = [line for line in seen.lines if line.startswith("accuracy")]
    # Too small for the table: half of all answers would be no forecast.
    assert line.startswith("accuracy    No forecast: nothing was measured for ")
    assert all(edge in line for edge in accuracy["beyond"])
    assert "fewer than 300 people who train" in line
    assert seen.lines.index(line) < seen.lines.index("")


# ── with a coordinator and its relays ────────────────────────────────────────────────────────────────────────────────


class Silent(MemoryTransport):
    """A network on which no relay answers."""

    async def relayed_terms(self, relay: Relay) -> RelayedTerms | None:
        raise UnreachableError(f"the {relay.role} relay {relay.host} does not answer when it is asked for its terms")


@pytest.mark.parametrize(
    ("changes", "people", "why"),
    [
        ({}, None, None),
        ({"packages": 10}, None, "the entry relay entry.example takes on 10 packages of cover at most"),
        # A device knows the floor alone; whoever plans knows how many will come.
        ({"capsules": 10_000}, None, None),
        ({"capsules": 10_000}, 400, "takes on 10,000 capsules of 400 devices and cover at most"),
        ({"operator": "Somebody"}, None, "has signed terms for https://entry.example/relay as entry relay of Somebody"),
        (None, None, "the entry relay entry.example does not answer"),
    ],
)
def test_relays_are_asked_for_their_terms_as_devices_ask_them(
    changes: dict[str, Any] | None, people: int | None, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = document(**JOINED)
    net = (Silent if changes is None else MemoryTransport)(ManualClock(0).now)
    net.both_terms = terms_of_relays(of, **(changes or {}))
    monkeypatch.setattr(preview, "open_transport", lambda *_, **__: net)
    refusals = why_refused(replace(of, log=log_terms()), people=people, ask_relays=True)
    assert len(refusals) == (why is not None)
    assert (why or "") in "".join(refusals)
    assert "has no log" in why_refused(of, people=people, ask_relays=True)[0]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def coordinator(specification: Mapping[str, Any], files: Mapping[str, bytes] = {}) -> Callable[[str], Any]:
    """What a coordinator answers before it has published anything, and after."""
    office = Office(log=log_terms())
    draft = office.ask("POST", "/draft", specification)
    made = office.ask("POST", "", specification)
    assert (draft.status, made.status) == (200, 201)
    shown = {"/admin/experiments/draft": draft.body, **files}
    first = iter([b'{"experiments":[]}', made.body])

    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        found = next(first) if path == "/admin/experiments" else shown.get(path)
        return (404, {}, b"") if found is None else (200, {}, found)

    return answer


def asked(tmp_path: Path, server: Server, specification: Mapping[str, Any]) -> tuple[object, ...]:
    path = tmp_path / "question.json"
    path.write_text(json.dumps(specification))
    return "experiment new", path, "--coordinator", server.url, "--admin-key-file", key_file(tmp_path)


def test_nothing_is_published_without_a_yes(server: Server, tmp_path: Path, secvm: Program) -> None:
    plain = content(privacy="none", relays=[], test=True)
    server.answer = coordinator(plain)
    assert secvm(*asked(tmp_path, server, plain)) == 2
    assert "devices: a device for tests refuses, because" in secvm.err
    assert secvm.err.endswith("secvm: an experiment is published after a yes\nSay it with --yes.\n")
    assert server.asked == ["/admin/experiments", "/admin/experiments/draft"]


@pytest.mark.parametrize(
    ("health", "said"),
    [
        ({"log": {"silent": ["another", "w1.example", "w2.example"]}}, "1 of 2; not yet w1.example, w2.example"),
        ({"status": "ok"}, "2 must cosign"),
    ],
)
def test_an_experiment_that_witnesses_have_not_cosigned_is_not_told_as_done(
    server: Server, tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch, health: object, said: str
) -> None:
    monkeypatch.setattr(command, "_WITNESSES_MS", 0)
    plain = content(privacy="none", relays=[], test=True)
    server.answer = coordinator(plain, {"/health": json.dumps(health).encode()})
    assert secvm(*asked(tmp_path, server, plain), "--yes") == 0, secvm.err
    assert secvm.out.splitlines()[-1].startswith(f"waiting for witnesses: {said}. Nobody sees the experiment before")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, {}, b""), "there is no coordinator at this URL\nIs this a relay's URL, or is a path missing?"),
        ((401, {}, b'{"detail":"this is not the admin key"}'), "the coordinator refuses: this is not the admin key"),
    ],
)
def test_key_and_url_are_looked_at_before_anything_is_planned(
    server: Server, tmp_path: Path, secvm: Program, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    server.answer = lambda _path: answer
    assert secvm.refused(*asked(tmp_path, server, content())) == f"secvm: {said}\n"
    assert server.asked == ["/admin/experiments"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = 1\n= 2\n", "question.toml cannot be read as TOML (at line 2, column 1)"),
        ('foo = 1\ntitle = "a"\n', "foo is not a setting; labels is missing; floor is missing; features is missing; "),
    ],
)
def test_a_file_that_is_no_specification_says_where_and_what(
    tmp_path: Path, secvm: Program, text: str, said: str
) -> None:
    path = tmp_path / "question.toml"
    path.write_text(text)
    assert said in secvm.refused("experiment new --plan-only", path)


def test_unknown_keys_are_told_with_those_that_are_missing(tmp_path: Path, secvm: Program) -> None:
    path = tmp_path / "question.json"
    wrong = {name: value for name, value in content().items() if name != "floor"} | {"flor": 10}
    path.write_text(json.dumps(wrong))
    said = secvm.refused("experiment new --plan-only", path)
    assert said == "secvm: the specification: flor is not a setting; floor is missing\n"


def test_a_title_that_would_read_backwards_is_refused(tmp_path: Path, secvm: Program) -> None:
    path = tmp_path / "question.json"
    path.write_text(json.dumps(content(title="night\u202eowls")))
    secvm("experiment new --plan-only", path)
    assert "title of the experiment has U+202E as character 6" in secvm.err


# ── what stands in the environment ───────────────────────────────────────────────────────────────────────────────────


def test_the_environment_names_coordinator_and_key_once_for_all(
    server: Server, tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "missing option '--coordinator' (env var: 'SECVM_COORDINATOR')" in secvm.refused("experiment list")
    monkeypatch.setenv("SECVM_COORDINATOR", server.url)
    monkeypatch.setenv("SECVM_ADMIN_KEY_FILE", str(key_file(tmp_path)))
    server.serve({"/v1/experiments": b'{"experiments":[]}'})
    assert secvm("experiment list") == 0
    assert secvm.out == "no experiments\n"
    assert "no experiment of this coordinator" in secvm.refused("experiment pause 3fa9")
    server.serve({})
    assert "there is no coordinator" in secvm.refused("audit")
    assert server.asked[-1].endswith("/v1/experiments")


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def round_(number: int, state: str, **more: Any) -> dict[str, Any]:
    return {"number": number, "state": state, **more}


COUNTED = {"people": {"a": 700, "b": 534}, "accuracy": {"value": 0.842, "low": 0.83, "high": 0.853}, "end": "counted"}
STATUSES = [
    {"standing": "running", "rounds": [round_(1, "open")]},
    {"standing": "running", "rounds": [round_(1, "published", **COUNTED), round_(2, "closing")]},
    {
        "standing": "stopped",
        "rounds": [
            round_(1, "published", **COUNTED),
            round_(2, "abandoned", end="too-few-trained"),
            round_(3, "opened", **COUNTED),
        ],
    },
]


def test_watching_tells_each_round_once_when_it_has_ended_and_ends_with_the_experiment() -> None:
    pauses: list[None] = []
    statuses = iter(STATUSES)
    watched = ended_rounds(lambda: next(statuses), lambda: pauses.append(None))
    assert [round_line(one) for one in watched] == [
        "round   1  published  1,234 trained  accuracy 0.842 (0.830-0.853)",
        "round   2  abandoned   too-few-trained: fewer trained than the floor",
        "round   3  opened     1,234 trained  accuracy 0.842 (0.830-0.853)",
    ]
    assert len(pauses) == 2


def test_repro_a_round_that_was_opened_without_people_is_not_the_first_of_a_model() -> None:
    nobody = {
        "people": {"a": 0, "b": 0},
        "trained": {"value": 87, "low": 0, "high": 301},
        "accuracy": {"value": 1.0, "low": 0.0, "high": 1.0},
        "end": "too-few-sent",
        "clients": 0,
    }
    rounds = [
        round_(1, "opened", **nobody, stepped=False, reasons=["too-few-sent"]),
        round_(2, "opened", **COUNTED, stepped=True, reasons=[]),
    ]
    watched = list(ended_rounds(lambda: {"standing": "running", "rounds": rounds}, lambda: None, 1))
    assert watched == rounds
    # Nobody sent anything: a number of people alone, which is noise, would read as fraud.
    assert round_line(watched[0]) == (
        "round   1  opened     about 87 (0-301) trained  not tested"
        "  too-few-sent: fewer devices sent than the floor (0 did)"
    )


def test_each_round_that_was_not_counted_says_why() -> None:
    status = {"title": "t", "experiment": "3f", "privacy": {"kind": "plain", "note": "n"}, "floor": 20, "notes": []}
    silent = {"end": "relay-silent", "reasons": ["missing-batch"]}
    ends: list[dict[str, Any]] = [silent, {"end": "too-few-trained"}, {}]
    rounds = [round_(number, "abandoned", opens_at=0, **end) for number, end in enumerate(ends, 1)]
    rounds.append(round_(4, "opened", opens_at=0, **COUNTED, reasons=["a count is too large"]))
    rounds.append(round_(5, "closing", opens_at=0))
    assert status_lines({**status, "standing": "running", "rounds": rounds})[-4:] == [
        "round 1 is abandoned: relay-silent: a relay did not hand over everything in time (missing-batch)",
        "round 2 is abandoned: too-few-trained: fewer trained than the floor",
        "round 4 was opened, and no step was taken: a count is too large",
        "abandoned: fewer than 20 trained, so nothing is told of them",
    ]


def test_watching_ends_after_so_many_counted_rounds(server: Server, secvm: Program) -> None:
    digest = "3f" * 32
    listed = {"experiments": [{"digest": digest, "title": "t", "standing": "running"}]}
    status = {**STATUSES[2], "standing": "running"}
    server.serve(
        {
            "/v1/experiments": json.dumps(listed).encode(),
            f"/v1/experiment/{digest}/status": json.dumps(status).encode(),
        }
    )
    told_ = secvm.json("experiment watch 3f --rounds 1 --coordinator", server.url)
    assert told_ == {"experiment": digest, "rounds": status["rounds"][:1]}
    assert secvm("experiment watch 3f --rounds 2 --coordinator", server.url) == 0
    assert len(secvm.out.splitlines()) == 3
    said = secvm.refused("experiment watch 3f --rounds 0 --coordinator", server.url)
    assert said.startswith("secvm: --rounds is 0: watch for one round at least")


def test_watching_names_who_is_lost_and_where_to_look_and_who_is_back(
    server: Server, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 0)
    digest, since = "3f" * 32, 5 * 3_600_000
    relay = {"what": "relay", "parties": ["mix.example"], "since": since, "url": "https://mix.example/r"}
    quorum = {"what": "quorum", "parties": ["w1.example", "w2.example"], "since": since}
    healths = iter([{"lost": [relay]}, {"lost": [relay, quorum]}, {"status": "ok"}])
    statuses = iter([*[STATUSES[0]] * 3, {"standing": "stopped", "rounds": []}])
    listed = {"experiments": [{"digest": digest, "title": "t", "standing": "running"}]}

    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        found = listed if path.endswith("experiments") else next(healths if path == "/health" else statuses)
        return 200, {}, json.dumps(found).encode()

    server.answer = answer
    assert secvm("experiment watch 3f --coordinator", server.url) == 0
    assert secvm.out == ""
    silent = "the relay mix.example does not answer at https://mix.example/r, and no round ends without it"
    step = "its log says why it ended, and 'secvm relay serve' starts it again"
    waiting = "the log waits for a quorum, and these witnesses have not cosigned: w1.example, w2.example"
    assert secvm.err.splitlines() == [
        f"lost since 05:00 UTC: {silent}. Ask its operator whether it runs: on its machine, {step}",
        f"lost since 05:00 UTC: {waiting}. Look at each of them, and at {server.url}/health",
        "the relay mix.example: not lost any more",
        "the witnesses w1.example, w2.example: not lost any more",
        "The experiment is stopped. No round was counted, so there is no model.",
    ]


def test_repro_watching_outlives_a_coordinator_that_is_away_and_says_how_to_take_the_model(
    monkeypatch: pytest.MonkeyPatch, secvm: Program
) -> None:
    monkeypatch.setattr(command, "_LOOK_AGAIN_MS", 0)
    away = AwayError("cannot reach the coordinator at http://c.example: Connection refused")
    finished = {"standing": "finished", "rounds": STATUSES[1]["rounds"][:1]}
    answers: list[dict[str, Any] | AwayError] = [STATUSES[0], away, away, finished]
    told_, digest = iter(answers), "3f" * 32

    def status(_remote: Remote, _digest: str) -> dict[str, Any]:
        answer = next(told_)
        if isinstance(answer, AwayError):
            raise answer
        return answer

    monkeypatch.setattr(Remote, "find", lambda *_: digest)
    monkeypatch.setattr(Remote, "health", lambda _: {})
    monkeypatch.setattr(Remote, "status", status)
    assert secvm("experiment watch 3f --coordinator http://127.0.0.1:1") == 0
    assert len(secvm.out.splitlines()) == 1
    said = secvm.err.splitlines()
    assert said[:2] == [
        f"{away}. It is asked again until it answers; Ctrl-C ends this.",
        "The coordinator answers again.",
    ]
    assert said[2].startswith("The experiment is finished. Take its model home: ")
    assert f"experiment export {digest[:12]} --coordinator http://127.0.0.1:1 --out model.secvm" in said[2]


# ── the draft ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_draft_is_the_document_and_nothing_is_kept() -> None:
    office = Office(log=log_terms())
    answer = office.ask("POST", "/draft", content())
    draft = ExperimentDocument.from_bytes(told(answer)["document"].encode())
    assert (answer.status, office.store.experiments(), office.woken) == (200, [], 0)
    office.ask("POST", "", content())
    # The dice of this office are always zeros.
    assert office.store.experiments()[0].document == draft
    assert office.ask("GET", "/draft").status == 405
    office.admin.key = None
    assert office.ask("POST", "/draft", content()).status == 409
