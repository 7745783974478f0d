"""A person who was given one line: they make a device, read the page, bring words in, answer, join, and are counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from secvm.participant.sources.browsers import firefox_profiles
from secvm.testing.federation import Federation
from tests.system.parties import party, secvm
from tests.system.test_person_page import ask
from tests.unit.participant.histories import Visited, make

BUDGET = 8
SPECIFICATION: dict[str, Any] = {
    "title": "Owls or birds?",
    "question": "Which are you?",
    "operator": "Institute of Sleep",
    "contact": "owls@sleep.example",
    "purpose": "A study of who sleeps when.",
    "labels": ["bird", "owl"],
    "floor": 1,
    "rounds": 2,
    "budget": BUDGET,
    "train_share": "1",
    "features": {"source": "history-titles", "description": "Words of page titles."},
    "binning": {"bins": 30},
}


def told(*arguments: object) -> dict[str, Any]:
    """What a command of the person answers; nothing is typed but this."""
    answered = secvm(*arguments, "--format", "json")
    assert answered.returncode == 0, answered.stderr
    content: dict[str, Any] = json.loads(answered.stdout)
    return content


def test_invited_person_is_counted_after_two_commands_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, servers = tmp_path / "home", tmp_path / "servers"
    profile = home / ".mozilla/firefox/p.default"
    profile.mkdir(parents=True)
    servers.mkdir()
    (profile.parent / "profiles.ini").write_text("[Profile0]\nName=p\nIsRelative=1\nPath=p.default\n")
    make("firefox", profile, [Visited("https://night.example/", "midnight snacks")])
    assert len(firefox_profiles(home)) == 1
    monkeypatch.setenv("HOME", str(home))
    with Federation(servers, hosts=[], seed="invited", witnesses=1) as federation:
        federation.start_servers()
        digest = federation.begin(SPECIFICATION)
        line = told("experiment", "invite", digest[:8], "--coordinator", federation.coordinator_url)["invite"]
        assert line == f"secvm:{federation.relay_url}#{digest}"

        refused = secvm("participant", "init", line)
        assert refused.returncode == 2
        assert "the relay wants a credential" in refused.stderr
        assert "Unclosed" not in refused.stderr
        credential = tmp_path / "credential"
        credential.write_text("somebody-whom-the-relay-knows\n")
        credential.chmod(0o600)
        shown = secvm("participant", "init", line, "--credential-file", credential)
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.splitlines()[:2] == [
            "Owls or birds?", "Asked by Institute of Sleep. Contact: owls@sleep.example",
        ]  # fmt: skip
        assert "Next: secvm participant ui --open" in shown.stdout
        device = home / ".local/share/secvm"
        settings = device / "participant.toml"
        assert (device.stat().st_mode & 0o777, settings.stat().st_mode & 0o777) == (0o700, 0o600)
        # The one thing that only a test has: everybody's clock is steered.
        clock = f"[testing]\nclock = {json.dumps(str(servers / 'clock'))}"
        settings.write_text(settings.read_text().replace("[testing]", clock))

        with party("participant", "ui", "--format", "json") as page:
            address = page.shows('"page": ?"([^"]+)"')[1]
            state: dict[str, Any] = {}

            def look() -> bool:
                state.update(ask(address, "api/state"))
                return True

            federation.patiently(lambda: (look() and state["offers"]["list"]) or None, "the invitation")
            (offer,) = state["offers"]["list"]
            assert (offer["digest"], offer["invited"], offer["features_here"]) == (digest, True, 0)
            assert offer["asks"][0]["text"] == "Asked by Institute of Sleep. Contact: owls@sleep.example"
            assert "Whoever invited you chose" in offer["short"][-1]["text"]
            assert ask(address, "api/import", {"digest": digest, "profile": "firefox/p"})["features"] == 2
            ask(address, "api/join", {"digest": digest, "answer": "owl", "accept": offer["accept"]})

            wanted = {"waiting": BUDGET}

            def is_so() -> bool:
                look()
                return all(state["experiments"][0][name] == number for name, number in wanted.items())

            round_ = federation.round_parts(1, attending=0, budget=BUDGET, spent=is_so)
            round_.join()
            wanted = {"waiting": 0, "acknowledged": BUDGET}
            round_.send()
            round_.close()
            round_.open()
            assert state["runs"] is True
            page.stop()
        published = json.loads(federation.public(f"/v1/experiment/{digest}/status") or b"")
        assert published["rounds"][0]["people"] == {"bird": 0, "owl": 1}
