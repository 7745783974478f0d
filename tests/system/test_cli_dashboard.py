"""``secvm dashboard``: what is typed goes before what is written, what is wrong is one sentence, audits are short."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.cli.services import dashboard
from secvm.dashboard.settings import DashboardSettings, read_listen
from secvm.errors import BadInputError
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer
from secvm.testing.clock import ManualClock
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.conftest import ROOT


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
    assert (typed.audit.every_s, typed.listen.host, typed.listen.port) == (0, "127.0.0.1", 8440)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say whom to look at: --coordinator URL, or --config FILE"),
        (["--coordinator", "coordinator.example"], "a coordinator's address is a URL such as"),
        (["--coordinator", "ftp://coordinator.example"], "a coordinator's address is a URL such as"),
        (["--coordinator", "http://a:b@c.example"], "a coordinator's address is a URL such as"),
        (["--coordinator", "http://c.example:x"], "a coordinator's address is a URL such as"),
        (["--coordinator", "http://c.example", "--listen", "8440"], "--listen must be a host and a port"),
        (["--coordinator", "http://c.example", "--listen", "a:99999"], "--listen must be a host and a port"),
        (["--coordinator", "http://c.example", "--public-host", "a b"], "page.public_hosts.0 is not written as it"),
        (["--coordinator", "http://c.example", "--time-zone", "Middle/Earth"], "the time zone is none that is known"),
        (["--coordinator", "http://c.example", "--audit-every", "-1"], "audit.every_s should be greater"),
        (["--config", "missing.toml"], "cannot read the settings missing.toml"),
        (["--config", "bad.toml"], "the settings bad.toml are no TOML"),
        (["--config", "strange.toml"], "the settings strange.toml: coordinator.key is not a setting"),
        (["--coordinator", "http://c.example", "--config", "flat.toml"], "the settings flat.toml: coordinator"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[listen\nsecret")
    Path("strange.toml").write_text('[coordinator]\nurl = "http://c.example"\nkey = "secret"\n')
    Path("flat.toml").write_text("coordinator = 3\n")
    assert run(["dashboard", "serve", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err.splitlines()[0]
    assert "secret" not in said.err


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    async def check() -> None:
        port = await server.start("127.0.0.1", 0)
        code = await asyncio.to_thread(
            subprocess.run,
            [*PROGRAM, "--coordinator", "http://127.0.0.1:9", "--listen", f"127.0.0.1:{port}"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert code.returncode == 2
        assert code.stderr.startswith(f"secvm: cannot listen on 127.0.0.1:{port}: ")
        await server.drain()

    server = HttpServer(lambda _request: HttpResponse(404))
    asyncio.run(check())


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:b", "a:-1", "a:123456", "a:8\u00b2", "127.0.0.1"])
def test_an_address_to_listen_on_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(BadInputError):
        read_listen(text)


PROGRAM = [sys.executable, "-P", "-m", "secvm.cli.main", "dashboard", "serve"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_its_address_answers_and_ends_at_once_when_told(how: signal.Signals) -> None:
    # Where a shell runs the suite in the background SIGINT is ignored here, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [*PROGRAM, "--coordinator", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        address = said.removeprefix("the page is at ").strip()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{address}api/now", timeout=30) as answer:
            assert json.loads(answer.read())["coordinator"]["reachable"] is False
        process.send_signal(how)
        out, rest = process.communicate(timeout=30)
    # One line in all, and nothing about who asked.
    assert (process.returncode, out, rest) == (0, "", "")


def served(history: PublicHistory, check: Callable[[str], None]) -> None:
    """Let something look at the files of a history, over HTTP."""

    def answer(request: HttpRequest) -> HttpResponse:
        data = history.files.get(request.path)
        return HttpResponse(404) if data is None else HttpResponse(200, data, "application/octet-stream")

    async def serve() -> None:
        server = HttpServer(answer)
        port = await server.start("127.0.0.1", 0)
        await asyncio.to_thread(check, f"http://127.0.0.1:{port}")
        await server.drain()

    asyncio.run(serve())


def test_an_audit_is_told_in_a_few_words() -> None:
    history = PublicHistory.drawn(random.Random(7), witnesses=3)
    history.play(3)

    def check(url: str) -> None:
        found = dashboard.audited(url, ManualClock(history.now))
        assert found["ok"] is True
        assert found["steps_replayed"] <= 3
        assert (found["faults"], found["problem"]) == ([], None)

    served(history, check)


def test_an_audit_of_nothing_says_why_there_is_none() -> None:
    found = dashboard.audited("http://127.0.0.1:9", ManualClock(0))
    assert found["ok"] is None
    assert found["problem"]
