"""What the page shows is what the state holds, and no more."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from secvm.participant.consent.ledger import read_ledger
from secvm.participant.consent.policies import Consent
from secvm.participant.person.disclosure import figures, in_short, what_leaves
from secvm.participant.person.inspection import inspect
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.evidence import evidence_of
from secvm.participant.ui.offers import read_list
from secvm.participant.ui.view import QUARTER_MS, VaultLook, about, budget, contents, view
from secvm.protocol.relays.session import RelayedHeader
from tests.there import there
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.relayed.test_relayed_consent import PLANNED
from tests.unit.participant.world import ANYTHING, BUDGET, FEATURES, SECRET, World, real_document

LOOK = VaultLook({"words": len(FEATURES)}, 1, 12_288, 1_700_000_000_000, False)


def in_mid_round(world: World) -> None:
    """Some packages are acknowledged, the others wait."""
    device = world.joined()
    manifest = world.publish(1)
    world.drive_into(device, manifest)
    device.close()


def seen(world: World, *, runs: bool = True) -> tuple[dict[str, Any], DeviceState]:
    state = DeviceState(world.folder)
    now = world.clock.now()
    held = evidence_of(state, state.records())
    told = view(state, LOOK, held, now=now, consent=ANYTHING, daily_bytes=50_000_000, runs=runs)
    return told, state


def test_counts_and_words_are_those_of_the_state(world: World) -> None:
    in_mid_round(world)
    told, state = seen(world)
    (one,) = told["experiments"]
    known = inspect(state, now=world.clock.now(), consent=ANYTHING)[world.of.digest]
    for name in ("rounds", "acknowledged", "lost", "waiting", "abstentions", "ended", "status"):
        assert one[name] == known[name]
    assert one["leaves"] == contents(known["leaves"])
    assert one["figures"][:-1] == contents(known["figures"])
    assert one["risk"]["text"] == known["risk_words"]
    assert one["window"] == known["newest"]
    assert one["checked"] == contents(known["trust"]["told"])
    assert 0 < one["acknowledged"] < BUDGET
    assert one["acknowledged"] + one["waiting"] == BUDGET
    assert told["vault"]["sources"] == [{"name": "words", "features": len(FEATURES), "read": None}]
    assert told["budget"]["bytes"]["spent"] == state.traffic(world.clock.now() // 86_400_000)
    state.close()


def test_times_are_those_to_come_by_quarters_and_no_others(world: World) -> None:
    in_mid_round(world)
    told, state = seen(world)
    (one,) = told["experiments"]
    parts = there(state.session_parts(world.of.digest))
    waiting = [row.at for row in parts[1]]
    assert sum(quarter["packages"] for quarter in one["times"]) == len(waiting) == one["waiting"]
    assert {quarter["at"] for quarter in one["times"]} == {at // QUARTER_MS * QUARTER_MS for at in waiting}
    # What has left the device left no time behind, neither in the view nor in the state.
    gone = {seen.at for seen in world.net.seen}
    assert gone
    assert not gone & {row.at for row in parts[1]}
    text = json.dumps(told)
    assert not any(str(at) in text for at in gone)
    state.close()


def test_repro_a_rounds_one_request_to_two_relays_is_told_with_its_quarter(tmp_path: Path) -> None:
    world = RelayedWorld(tmp_path)
    device = world.joined()
    manifest = world.announce_relayed()
    world.drive(device, until=manifest.instants.opens_at)
    header, _ = there(device.state.relayed_session(world.of.digest))
    at = there(RelayedHeader.from_bytes(header).at)
    device.close()
    told, state = seen(world)
    (one,) = told["experiments"]
    assert one["times"] == [{"at": at // QUARTER_MS * QUARTER_MS, "packages": one["waiting"]}]
    assert one["waiting"] == world.of.budget
    state.close()


def test_repro_a_canary_that_a_relay_left_out_leaves_the_way_on_to_the_person(tmp_path: Path) -> None:
    world = RelayedWorld(tmp_path)
    device = world.joined()
    world.leave_canary_out(device)
    device.close()
    told, state = seen(world)
    (one,) = told["experiments"]
    assert len(told["evidence"]) == 1
    assert not one["convicted"], "the page would offer no way to go on, and the command does"
    assert one["distrust"] is not None
    assert "cheating" not in one["means"]["text"]
    state.close()


def test_nothing_of_the_person_is_in_the_view(world: World) -> None:
    in_mid_round(world)
    told, state = seen(world)
    state.close()
    text = json.dumps(told)
    assert SECRET not in text
    assert '"label"' not in text
    assert '"vector"' not in text


@pytest.mark.parametrize(
    ("decide", "runs", "words"),
    [
        ("", True, "You take part."),
        ("", False, "does not run now"),
        ("pause", True, "Paused"),
        ("forget", True, "forgotten"),
    ],
)
def test_standing_is_told_in_plain_words(tmp_path: Path, decide: str, runs: bool, words: str) -> None:
    from secvm.participant.person import decisions
    from secvm.participant.storage.vault import Vault

    world = World(tmp_path)
    world.joined().close()
    state = DeviceState(world.folder)
    if decide == "pause":
        decisions.pause(state, world.of.digest)
    if decide == "forget":
        decisions.forget(state, world.of.digest, lambda: Vault(world.folder))
    state.close()
    told, state = seen(world, runs=runs)
    state.close()
    assert words in told["experiments"][0]["means"]["text"]


def test_budget_is_what_the_ledger_counts(world: World) -> None:
    in_mid_round(world)
    state = DeviceState(world.folder)
    ledger = read_ledger(state, Consent())
    told = budget(ledger, Consent(), today=7, daily_bytes=10)
    state.close()
    assert told["bytes"] == {"spent": 7, "limit": 10, "left": pytest.approx(0.3)}
    assert told["epsilon"] == {"spent": 0.0, "limit": 4.0, "left": 1.0}
    assert told["auc"]["limit"] == 0.55
    assert told["auc"]["spent"] > 0.55
    assert told["auc"]["left"] == 0.0
    free = budget(ledger, ANYTHING, today=0, daily_bytes=10)
    assert free["auc"]["limit"] is free["epsilon"]["limit"] is None
    assert free["unsafe"] is True


def test_statement_comes_in_short_and_in_full_and_its_figures_apart() -> None:
    for document in (real_document(), PLANNED):
        short, full = in_short(document), what_leaves(document)
        assert len(short) == 5
        assert len(full) > len(short)
        assert short[0] == full[0], "the risk comes first"
        assert all(sentence.endswith((".", ")")) for sentence in short + full)
        for word in ("AUC", "ε", "δ", "bin", "package", "cover", "train", "test"):
            assert not any(re.search(rf"\b{word}", sentence) for sentence in short), word
        assert not any("AUC" in sentence or "ε" in sentence for sentence in full)
        assert any("AUC" in sentence for sentence in figures(document))
    assert "Nothing limits the risk" in in_short(real_document())[0]
    assert "times in 10; 5 is a coin toss" in in_short(PLANNED)[0]


def test_who_asks_is_named_from_the_signed_document() -> None:
    assert [one["key"] for one in about(real_document())["asks"]] == ["asks.unknown"]
    told = about(real_document(operator="Uni", contact="study@uni.example", purpose="To see whether words tell."))
    assert [one["text"] for one in told["asks"]][:2] == [
        "Asked by Uni. Contact: study@uni.example",
        "Purpose: To see whether words tell.",
    ]
    assert told["who"]["relays"] == [f"https://relay{i}.example/r" for i in range(3)]
    assert told["who"]["coordinator"]
    assert told["labels"] == ["a", "b"]


def test_list_names_what_goes_on_once() -> None:
    ones = [("a" * 64, "running"), ("b" * 64, "finished"), ("a" * 64, "running"), ("c" * 64, "paused")]
    data = json.dumps({"experiments": [{"digest": digest, "standing": standing} for digest, standing in ones]})
    assert read_list(data.encode()) == ["a" * 64, "c" * 64]
