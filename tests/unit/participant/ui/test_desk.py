"""What is clicked on the page does to the state what the command does, also while the device runs."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.participant.consent.policies import Consent
from secvm.participant.invitation import keep_invitation
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Provenance, Vault
from tests.there import there
from tests.unit.participant.ui.asking import Page, desk_of, served
from tests.unit.participant.world import FEATURES, RELAY_URLS, SECRET, World, real_document


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A device that has joined one experiment; its coordinator offers another."""
    world = World(tmp_path)
    world.joined().close()
    offered = real_document(title="Another")
    world.serve(offered)
    world.net.files["/v1/experiments"] = (
        f'{{"experiments":[{{"digest":"{world.of.digest}","standing":"running","title":"x"}},'
        f'{{"digest":"{offered.digest}","standing":"running","title":"not believed"}}]}}'
    ).encode()
    (tmp_path / "device.toml").write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = {json.dumps(RELAY_URLS)}\n'
        '[trust]\nwithout_log = true\n[consent]\npolicy = "unsafe-accept-anything"\n'
    )
    monkeypatch.setattr("secvm.participant.main.make_transport", lambda _settings, _passphrase: world.net)
    return world


def tables(folder: Path) -> list[str]:
    with (
        closing(sqlite3.connect(folder / "state.sqlite")) as state,
        closing(sqlite3.connect(folder / "vault.db")) as vault,
    ):
        return [*state.iterdump(), *vault.iterdump()]


def other_of(world: World) -> str:
    (found,) = (
        path.removeprefix("/v1/experiment/")
        for path in world.net.files
        if path.startswith("/v1/experiment/") and not path.endswith(world.of.digest)
    )
    return found


@pytest.mark.parametrize("before", [[], ["pause"]])
@pytest.mark.parametrize("action", ["pause", "resume", "forget"])
def test_page_does_what_the_command_does(world: World, action: str, before: list[str]) -> None:
    digest, config = world.of.digest, str(world.folder.with_name("device.toml"))
    for earlier in before:
        assert run(["participant", earlier, digest, "--config", config]) == 0
    kept = world.folder.with_name("kept")
    shutil.copytree(world.folder, kept)
    yes = ["--yes"] * (action == "forget")
    assert run(["participant", action, digest, "--config", config, *yes]) == 0
    by_command = tables(world.folder)
    shutil.rmtree(world.folder)
    shutil.copytree(kept, world.folder)
    world.folder.chmod(0o700)
    with served(world) as page:
        assert page.act(action, {"digest": digest}).json["done"] is True
    assert tables(world.folder) == by_command


def test_nothing_is_fetched_before_the_person_asks(world: World, page: Page) -> None:
    first = page.state()
    assert not world.net.fetches
    found = page.state(page.act("find"))
    assert first["offers"] == {"possible": True, "asked_at": None, "problem": None, "list": []}
    # What it takes part in is not offered; what is shown is what was signed.
    (offer,) = found["offers"]["list"]
    assert (offer["digest"], offer["title"], offer["refusal"]) == (other_of(world), "Another", None)
    assert found["budget"]["bytes"]["spent"] > first["budget"]["bytes"]["spent"]


def test_invitation_is_there_by_itself_and_what_is_joined_is_no_invitation(world: World, page: Page) -> None:
    for digest in (world.of.digest, other_of(world)):
        keep_invitation(world.folder, digest, world.net.files[f"/v1/experiment/{digest}"])
    page.run(page.desk.take_up_invitations())
    (offer,) = page.state()["offers"]["list"]
    assert (offer["digest"], offer["invited"]) == (other_of(world), True)
    assert "Whoever invited you chose whom your packages go through: relay0.example" in offer["short"][-1]["text"]
    assert not world.net.fetches
    page.act("find")
    assert [one["digest"] for one in page.state()["offers"]["list"]] == [offer["digest"]]


def test_page_reads_histories_of_browsers_and_nothing_else(world: World, page: Page) -> None:
    page.act("find")
    said = page.act("import", {"digest": other_of(world), "profile": "firefox/p"})
    assert (said.status, "histories of browsers" in said.json["detail"]) == (409, True)


def test_join_takes_the_answer_and_joins_as_the_command_does(world: World, page: Page) -> None:
    digest = other_of(world)
    page.act("find")
    missing = page.act("join", {"digest": digest})
    assert missing.status == 409
    assert "no label for this experiment" in missing.json["detail"]
    state = page.state(page.act("join", {"digest": digest, "answer": "a"}))
    assert {one["digest"]: one["status"] for one in state["experiments"]} == {
        world.of.digest: "joined",
        digest: "joined",
    }
    assert state["offers"]["list"] == []
    with closing(DeviceState(world.folder)) as own:
        assert there(there(own.record(digest)).person).label == 0


def test_answer_of_a_refused_join_is_not_kept(world: World, page: Page) -> None:
    digest = other_of(world)
    page.act("find")
    refused = page.act("join", {"digest": digest, "answer": "neither"})
    assert refused.status == 409
    assert "neither" not in refused.body.decode()
    with Vault(world.folder) as vault:
        assert vault.label(digest) is None
        vault.set_label(digest, "b")
    assert page.act("join", {"digest": digest, "answer": "neither"}).status == 409
    with Vault(world.folder) as vault:
        assert there(vault.label(digest)).value == "b"


def test_no_is_remembered_and_can_be_thought_over(world: World, page: Page) -> None:
    digest = other_of(world)
    page.act("find")
    state = page.state(page.act("decline", {"digest": digest}))
    assert [one["digest"] for one in state["declined"]] == [digest]
    assert page.state(page.act("find"))["offers"]["list"] == []
    state = page.state(page.act("reconsider", {"digest": digest}))
    assert [one["digest"] for one in state["offers"]["list"]] == [digest]
    assert page.state(page.act("join", {"digest": digest, "answer": "b"}))["declined"] == []
    with closing(DeviceState(world.folder)) as own:
        assert there(own.record(digest)).status is Status.JOINED


def test_what_tells_too_much_is_joined_only_with_the_number_that_is_shown(world: World) -> None:
    digest = other_of(world)
    with served(world, desk=desk_of(world, consent=Consent())) as page:
        (offer,) = page.state(page.act("find"))["offers"]["list"]
        assert "no formal guarantee" in offer["refusal"]["text"]
        for accept in (None, {"auc": 0.6}):
            refused = page.act("join", {"digest": digest, "answer": "a", "accept": accept})
            assert refused.status == 409
            assert "no formal guarantee" in refused.json["detail"]
        page.state(page.act("join", {"digest": digest, "answer": "a", "accept": offer["accept"]}))
    with closing(DeviceState(world.folder)) as own:
        accepted = own.ledger.accepted(digest)
    assert (accepted.auc, accepted.epsilon) == (offer["accept"]["auc"], None)


def test_what_no_number_helps_is_refused_for_good(world: World) -> None:
    with served(world, desk=desk_of(world, consent=Consent(most_rounds=1))) as page:
        (offer,) = page.state(page.act("find"))["offers"]["list"]
    assert offer["accept"] is None
    assert "this device agrees to 1 at most" in offer["refusal"]["text"]


def test_without_settings_nobody_can_be_asked(world: World) -> None:
    with served(world, desk=desk_of(world, with_way=False)) as page:
        assert page.state()["offers"]["possible"] is False
        answer = page.act("find")
    assert answer.status == 409
    assert "--config" in answer.json["next"]
    assert not world.net.fetches


def test_own_features_are_shown_only_when_asked_for(page: Page) -> None:
    assert SECRET not in page.ask("api/state").body.decode()
    examples = page.act("examples", {"source": "words"})
    assert {one["feature"]: one["value"] for one in examples.json["examples"]} == FEATURES
    assert examples.headers["cache-control"] == "no-store"


def test_whoever_serves_no_list_is_named_in_a_sentence(world: World, page: Page) -> None:
    listed: list[bytes | None] = [b"", b"[]", b"{}", b"[", b"\xff", b'{"experiments":3}', b'{"experiments":[1]}', None]
    listed += [b'{"experiments":[{"digest":%b,"standing":"running"}]}' % digest for digest in (b'"x"', b"1")]
    for data in listed:
        world.net.files.pop("/v1/experiments", None)
        world.net.files |= {} if data is None else {"/v1/experiments": data}
        assert page.state(page.act("find"))["offers"]["problem"]["text"].endswith(".")


def test_document_that_is_not_what_its_name_says_is_not_shown(world: World, page: Page) -> None:
    world.net.files[f"/v1/experiment/{other_of(world)}"] = world.net.files[f"/v1/experiment/{world.of.digest}"]
    offers = page.state(page.act("find"))["offers"]
    assert offers["list"] == []
    assert "not what its name says" in offers["problem"]["text"]


def test_what_was_read_can_be_seen_excluded_and_forgotten(world: World, page: Page) -> None:
    with Vault(world.folder) as vault:
        vault.put("history", {"quokka": 2, "host:a.bank.example:8443": 1}, Provenance("history", 5, 30))
    (source,) = (one for one in page.state()["vault"]["sources"] if one["name"] == "history")
    assert source == {"name": "history", "features": 2, "read": {"at": 5, "days": 30}}
    for feature in ("host:a.bank.example:8443", "quokka"):
        assert page.act("exclude", {"feature": feature}).status == 200
    with Vault(world.folder) as vault:
        assert vault.excluded() == frozenset({"a.bank.example", "quokka"})
        assert vault.features("history").value == {}
        vault.put("history", {"wombat": 1})
        before = set(vault.summary())
    page.act("remove", {"source": "history"})
    with Vault(world.folder) as vault:
        assert set(vault.summary()) == before - {"history"}
