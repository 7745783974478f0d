"""``secvm dashboard``: what is typed goes before what is written, what is wrong is one sentence, audits are short."""

import json
import random
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from secvm.cli import dashboard
from secvm.dashboard.main import DashboardSettings, read_listen
from secvm.errors import BadInputError
from secvm.testing.clock import ManualClock
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.serving import serving
from tests.system.conftest import Program
from tests.system.parties import get, party


def told(**changes: Any) -> DashboardSettings:
    typed: dict[str, Any] = {
        "coordinator": None,
        "listen": None,
        "public_host": None,
        "audit_every": None,
        "time_zone": None,
        "config": None,
    }
    return dashboard._settings(**{**typed, **changes})


def test_what_is_typed_goes_before_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "page.toml"
    file.write_text(
        '[coordinator]\nurl = "http://127.0.0.1:1"\npoll_s = 2.0\n'
        '[listen]\nport = 5\n[page]\ntime_zone = "Europe/Berlin"\n'
    )
    alone = told(config=file)
    assert (alone.coordinator.url, alone.coordinator.poll_s, alone.listen.port) == ("http://127.0.0.1:1", 2.0, 5)
    both = told(config=file, coordinator="https://c.example", listen="[::1]:7", public_host=["look.example"])
    assert (both.coordinator.url, both.coordinator.poll_s) == ("https://c.example", 2.0)
    assert (both.listen.host, both.listen.port, both.page.time_zone) == ("::1", 7, "Europe/Berlin")
    assert both.page.public_hosts == ("look.example",)
    typed = told(coordinator="https://c.example", audit_every=0.0, time_zone="UTC")
    assert (typed.audit.every_s, typed.listen.host, typed.listen.port) == (0, "127.0.0.1", 8760)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "say whom to look at: --coordinator URL, or --config FILE"),
        ("--coordinator coordinator.example", "a coordinator's address is a URL such as"),
        ("--coordinator ftp://coordinator.example", "a coordinator's address is a URL such as"),
        ("--coordinator http://a:b@c.example", "a coordinator's address is a URL such as"),
        ("--coordinator http://c.example:x", "a coordinator's address is a URL such as"),
        ("--coordinator http://c.example --listen 8760", "--listen must be a host and a port"),
        ("--coordinator http://c.example --listen a:99999", "--listen must be a host and a port"),
        ("--coordinator http://c.example --public-host 'a b'", "page.public_hosts.0 is not written as it"),
        ("--coordinator http://c.example --time-zone Middle/Earth", "the time zone is none that is known"),
        ("--coordinator http://c.example --audit-every -1", "audit.every_s should be greater"),
        ("--config missing.toml", "cannot read the settings missing.toml"),
        ("--config bad.toml", "the settings bad.toml cannot be read as TOML"),
        ("--config strange.toml", "the settings strange.toml: coordinator.key is not a setting"),
        ("--coordinator http://c.example --config flat.toml", "the settings flat.toml: coordinator"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secvm: Program
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[listen\nsecret")
    Path("strange.toml").write_text('[coordinator]\nurl = "http://c.example"\nkey = "secret"\n')
    Path("flat.toml").write_text("coordinator = 3\n")
    secvm.secrets = ("secret",)
    assert sentence in secvm.refused("dashboard serve", arguments).splitlines()[0]


def test_a_port_that_is_taken_is_one_sentence(secvm: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        said = secvm.refused("dashboard serve --coordinator http://127.0.0.1:9 --listen", place)
    assert said.startswith(f"secvm: cannot listen on {place}: ")


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:b", "a:-1", "a:123456", "a:8\u00b2", "127.0.0.1"])
def test_an_address_to_listen_on_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(BadInputError):
        read_listen(text)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_its_address_answers_and_ends_at_once_when_told(how: signal.Signals) -> None:
    # Where a shell runs the suite in the background SIGINT is ignored here, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with party("dashboard", "serve", "--coordinator", "http://127.0.0.1:9", "--listen", "127.0.0.1:0") as page:
        address = page.shows("the page is at (.*)\n")[1]
        assert json.loads(get(f"{address}api/now") or b"")["coordinator"]["reachable"] is False
        page.stop(how)
    # Two lines in all, and nothing about who asked.
    told, stopping = page.said.splitlines()
    assert told == f"the page is at {address}"
    assert json.loads(stopping)["event"] == "stopping"


def test_an_audit_is_told_in_a_few_words() -> None:
    history = PublicHistory.drawn(random.Random(7), witnesses=3)
    history.play(3)
    with serving(history.files) as server:
        found = dashboard.audited(server.url, ManualClock(history.now))
    assert found["ok"] is True
    assert found["steps_replayed"] <= 3
    assert (found["faults"], found["problem"]) == ([], None)


def test_an_audit_of_nothing_says_why_there_is_none() -> None:
    found = dashboard.audited("http://127.0.0.1:9", ManualClock(0))
    assert found["ok"] is None
    assert found["problem"]
