"""What stands in deploy/ and examples/ is true of the real programs: settings, units, the proxy's ports and paths."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.coordinator.epochs import Grid
from secvm.coordinator.questions import Specification, ask
from secvm.coordinator.settings import CoordinatorSettings
from secvm.crypto.signing import SigningKey
from secvm.dashboard.guard import MOST_BODY_BYTES
from secvm.dashboard.settings import DashboardSettings
from secvm.participant.settings import ParticipantSettings
from secvm.relay.settings import RelaySettings
from secvm.runtime.passphrases import CREDENTIAL
from secvm.runtime.settings import Settings, read_settings
from secvm.witness.server import SEEN_PATH, SUBMIT_PATH
from secvm.witness.settings import WitnessSettings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
KINDS: dict[str, type[Settings]] = {
    "coordinator": CoordinatorSettings,
    "relay": RelaySettings,
    "participant": ParticipantSettings,
    "witness": WitnessSettings,
    "dashboard": DashboardSettings,
}
#: For tests, and not shown to people who run it for real: a device's direct way to a coordinator is one of them.
UNSAFE = {"testing", "coordinator"}
PARTIES = pytest.mark.parametrize("party", KINDS)


def text_of(party: str) -> str:
    return (DEPLOY / f"{party}.toml").read_text(encoding="utf-8")


def uncommented(text: str) -> str:
    """Every key that is shown, whether it is set or not."""
    return re.sub(r"^#(?=[a-z0-9_]+ = |\[)", "", text, flags=re.MULTILINE)


def table_kind(annotation: Any) -> type[Settings]:
    kinds = [annotation, *getattr(annotation, "__args__", ())]
    return next(one for one in kinds if isinstance(one, type) and issubclass(one, Settings))


def tables(party: str) -> dict[str, type[Settings]]:
    fields = KINDS[party].model_fields
    unsafe = {"testing"} if party == "dashboard" else UNSAFE
    return {name: table_kind(field.annotation) for name, field in fields.items() if name not in unsafe}


def shown(party: str) -> dict[str, Any]:
    content = tomllib.loads(uncommented(text_of(party)))
    return {name: table[0] if isinstance(table, list) else table for name, table in content.items()}


@PARTIES
def test_the_example_settings_are_read_with_and_without_what_is_commented(party: str, tmp_path: Path) -> None:
    read_settings(DEPLOY / f"{party}.toml", KINDS[party])
    (tmp_path / "all.toml").write_text(uncommented(text_of(party)), encoding="utf-8")
    read_settings(tmp_path / "all.toml", KINDS[party])


@PARTIES
def test_the_example_settings_show_every_key(party: str) -> None:
    expected = {name: set(kind.model_fields) for name, kind in tables(party).items()}
    assert {name: set(table) for name, table in shown(party).items()} == expected


@PARTIES
def test_every_key_has_a_comment_and_numbers_have_their_unit(party: str) -> None:
    for line in uncommented(text_of(party)).splitlines():
        if not re.match(r"[a-z0-9_]+ = ", line):
            continue
        key, _, rest = line.partition(" = ")
        comment = rest.rpartition("#")[2]
        assert len(comment) > 3, line
        for ending, unit in (("_ms", "milliseconds"), ("_s", "seconds"), ("_bytes", "bytes")):
            if key.endswith(ending):
                assert unit in comment, line
                break


@PARTIES
def test_what_is_commented_is_the_default(party: str) -> None:
    set_here = tomllib.loads(text_of(party))
    for name, kind in tables(party).items():
        for key, field in kind.model_fields.items():
            given = set_here.get(name, {})
            if key in (given[0] if isinstance(given, list) else given):
                continue
            value = shown(party)[name][key]
            line = next(line for line in text_of(party).splitlines() if line.startswith(f"#{key} = "))
            if field.is_required():
                # The whole table is optional.
                assert not KINDS[party].model_fields[name].is_required()
            elif field.default is None:
                assert "default none" in line, line
            else:
                assert (tuple(value) if isinstance(value, list) else value) == field.default, line


@pytest.mark.parametrize("party", ["coordinator", "relay"])
def test_the_proxy_leads_to_the_port_and_the_paths_of_the_settings(party: str) -> None:
    settings = read_settings(DEPLOY / f"{party}.toml", KINDS[party])
    proxy = (DEPLOY / f"nginx-{party}.conf").read_text(encoding="utf-8")
    assert isinstance(settings, CoordinatorSettings | RelaySettings)
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    assert "access_log off;" in proxy
    if isinstance(settings, RelaySettings):
        assert f"location ~ ^{settings.relay.path}(/fetch|/keys|/tokens)?$" in proxy
        assert settings.clients.address_header == "x-real-ip"
        assert "proxy_set_header X-Real-IP $remote_addr;" in proxy
    else:
        assert f"client_max_body_size {settings.limits.deposit_bytes // 2**20}m;" in proxy
        assert "$remote_addr" not in proxy
        # The relay of the example deposits: nobody goes round it.
        assert read_settings(DEPLOY / "relay.toml", RelaySettings).relay.mode == "round"
        assert not settings.gateway.anybody


def test_the_witness_proxy_leads_to_its_port_and_public_paths() -> None:
    settings = read_settings(DEPLOY / "witness.toml", WitnessSettings)
    proxy = (DEPLOY / "nginx-witness.conf").read_text(encoding="utf-8")
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    assert f"location ~ ^({SUBMIT_PATH}|{SEEN_PATH})$" in proxy
    assert f"client_max_body_size {settings.limits.request_bytes // 2**10}k;" in proxy


def test_the_page_behind_its_proxy_knows_its_name_and_leads_to_the_coordinators_own_port() -> None:
    settings = read_settings(DEPLOY / "dashboard.toml", DashboardSettings)
    coordinator = read_settings(DEPLOY / "coordinator.toml", CoordinatorSettings)
    proxy = (DEPLOY / "nginx-dashboard.conf").read_text(encoding="utf-8")
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    assert settings.coordinator.url == f"http://{coordinator.listen.host}:{coordinator.listen.port}"
    assert f"server_name {settings.page.public_hosts[0]};" in proxy
    assert f"client_max_body_size {MOST_BODY_BYTES // 2**10}k;" in proxy
    for line in ("access_log off;", "proxy_buffering off;", "proxy_set_header Host $host;", "\n    deny  all;"):
        assert line in proxy


@PARTIES
def test_the_unit_runs_a_command_that_exists_and_leaves_no_core(party: str, capsys: pytest.CaptureFixture[str]) -> None:
    unit = (DEPLOY / f"secvm-{party}.service").read_text(encoding="utf-8")
    started = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert started is not None
    program, group, verb, option, config = shlex.split(started[1])
    assert program.endswith("/bin/secvm")
    assert run([group, verb, "--help"]) == 0
    assert option in capsys.readouterr().out
    assert config.endswith(f"{party}.toml")
    assert config in text_of(party).replace("~", "%h")
    assert "\nLimitCORE=0\n" in unit


def test_the_example_experiment_fits_the_example_coordinator() -> None:
    settings = read_settings(DEPLOY / "coordinator.toml", CoordinatorSettings)
    relay = read_settings(DEPLOY / "relay.toml", RelaySettings)
    told = read_settings(ROOT / "examples/experiment.toml", Specification)
    key = SigningKey(bytes(32)).public
    grid: Grid = settings.epochs.grid
    with_key = told.model_copy(
        update={"relays": tuple(one.model_copy(update={"key": key.data.hex()}) for one in told.relays)}
    )
    document, own = ask(with_key, key=key, grid=grid, dice=os.urandom, now=0)
    assert not document.test
    assert own.early_stopping is not None
    # The three of them agree with each other.
    assert (relay.epochs.origin_ms, relay.epochs.period_s) == (grid.origin_ms, grid.period_s)
    assert relay.epochs.deposit_after_s is not None
    assert told.windows.length_s <= relay.epochs.deposit_after_s < told.windows.length_s + told.windows.grace_s
    assert document.experiment.budget is not None
    assert relay.clients.quota >= document.experiment.budget
    device = read_settings(DEPLOY / "participant.toml", ParticipantSettings)
    assert device.relay is not None
    assert [one.url for one in told.relays] == list(device.relay.urls)
    assert device.relay.urls[0].endswith(relay.relay.path)


#: The language in which a page's commands are marked.
PAGES = {"run-for-real": "", "run-a-witness": "text", "rotate-keys": "text", "look": "text"}


def commands() -> list[list[str]]:
    """Our own commands in the how-tos, as words after ``secvm``."""
    blocks = []
    for page, language in PAGES.items():
        text = (ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8")
        blocks += re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line.removesuffix("&")) for line in "".join(blocks).splitlines()]
    found = []
    for words in lines:
        places = [at for at, word in enumerate(words) if word in ("secvm", "./secvm") or word.endswith("/bin/secvm")]
        found += [words[at + 1 :] for at in places]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_of_the_how_to_exist(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    group, verb, *rest = words
    assert run([group, verb, "--help"]) == 0
    shown_options = capsys.readouterr().out
    for word in rest:
        if word.startswith("--"):
            assert word in shown_options, word


def test_the_how_to_names_only_metrics_that_exist() -> None:
    text = "".join((ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"secvm_(?:coordinator|relay|witness)_([a-z_]+)_total", text))
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/secvm").glob("*/*.py"))
    assert named
    assert {name for name in named if not re.search(rf"metrics\.counter\(\s*\"{name}\"", source)} == set()


# ── security ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SERVERS = pytest.mark.parametrize("party", ["coordinator", "relay", "witness", "dashboard"])


def unit_of(party: str) -> list[str]:
    return (DEPLOY / f"secvm-{party}.service").read_text(encoding="utf-8").splitlines()


@SERVERS
def test_the_proxy_speaks_tls_1_3_alone_and_resumes_nothing_that_ties_connections_together(party: str) -> None:
    proxy = (DEPLOY / f"nginx-{party}.conf").read_text(encoding="utf-8")
    lines = [line.strip() for line in proxy.splitlines()]
    assert [line for line in lines if line.startswith("ssl_protocols")] == ["ssl_protocols TLSv1.3;"]
    assert "ssl_early_data off;" in lines
    assert "ssl_session_tickets off;" in lines
    assert ("ssl_session_cache off;" in lines) == (party == "relay")
    assert 'add_header Strict-Transport-Security "max-age=63072000" always;' in lines
    # Nobody is served without TLS.
    assert all("ssl" in line for line in lines if line.startswith("listen "))


@SERVERS
def test_the_unit_shuts_the_service_in(party: str) -> None:
    lines = unit_of(party)
    for line in (
        *("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes"),
        *("PrivateUsers=yes", "ProtectProc=invisible", "RestrictNamespaces=yes", "CapabilityBoundingSet="),
        *("AmbientCapabilities=", "SystemCallFilter=@system-service", "UMask=0077", "StateDirectoryMode=0700"),
        *("MemorySwapMax=0", "LimitCORE=0"),
    ):
        assert line in lines, line
    # numba compiles in the coordinator, and where audits are made; nobody else needs memory that is written and run.
    assert ("MemoryDenyWriteExecute=yes" in lines) == (party not in ("coordinator", "dashboard"))


@pytest.mark.parametrize("party", [party for party in KINDS if party != "dashboard"])
def test_the_unit_shows_how_a_passphrase_comes(party: str) -> None:
    (shown,) = [line for line in unit_of(party) if "LoadCredential=" in line]
    name, source = shown.removeprefix("#LoadCredential=").split(":", 1)
    assert name == CREDENTIAL
    assert source.endswith("passphrase")


#: As the kernel does for ``MemoryDenyWriteExecute=``: PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN.
SHUT_IN = (
    "import ctypes, sys; told = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); sys.argv[0] = 'secvm';"
    " print('shut in' if told == 0 else 'an older kernel', flush=True);"
    " from secvm.cli.main import main; main()"
)


@pytest.mark.slow
@pytest.mark.parametrize("party", ["relay", "witness"])
def test_the_service_runs_without_memory_that_is_written_and_run(party: str, tmp_path: Path) -> None:
    """On a kernel before 6.3, which cannot be asked for it, it is only seen that the service runs."""
    settings = tmp_path / "settings.toml"
    if party == "relay":
        settings.write_text(
            '[listen]\nport = 0\n[gateway]\nurl = "http://127.0.0.1:9"\n'
            '[relay]\nmode = "forward"\n[epochs]\nperiod_s = 9\n'
        )
    else:
        log = f'[[logs]]\nname = "log.example"\nkey = "{SigningKey(bytes(32)).public.data.hex()}"\n'
        settings.write_text(
            f'[listen]\nport = 0\n[witness]\nname = "w.example"\nkey_file = "{tmp_path}/key"\n'
            f'[store]\npath = "{tmp_path}/db"\n{log}'
        )
        assert run(["witness", "key", "--config", str(settings)]) == 0
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SHUT_IN, party, "serve", "--config", str(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        process.terminate()
        assert process.wait(30) == 0, said
    assert said[0] in ("shut in\n", "an older kernel\n")
    assert '"event":"listening"' in said[1]
