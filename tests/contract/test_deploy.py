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
from secvm.coordinator.experiments.new_experiment import make_document, private_plan
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.log.log_files import log_path
from secvm.coordinator.publisher import manifest_path
from secvm.coordinator.relayed.batch_routes import PREFIX
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES
from secvm.crypto.signing import SigningKey
from secvm.crypto.tokens import TOKEN_BYTES
from secvm.dashboard.app import MOST_BODY_BYTES
from secvm.dashboard.main import DashboardSettings
from secvm.participant.settings import ParticipantSettings
from secvm.privacy.planning.private_plan import Outlook
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.relays.batches import PIECE_CAPSULES
from secvm.protocol.relays.counts import NAMES as PAPERS
from secvm.protocol.relays.statements import RelayedTerms
from secvm.relay.batches.doors import MOST_ASKED_BYTES, MOST_PAPER_BYTES
from secvm.relay.batches.experiments import OwnRelay, check_document
from secvm.relay.gateway import FetchKeys
from secvm.relay.server import FetchDoors
from secvm.relay.settings import RelayServiceSettings, RoundsPart
from secvm.runtime.disk.secret_files import CREDENTIAL, make_secret
from secvm.runtime.http.guard import HttpLimits
from secvm.runtime.metrics import Metrics
from secvm.runtime.settings import Settings, read_settings
from secvm.witness.server import SEEN_PATH, SUBMIT_PATH
from secvm.witness.settings import WitnessSettings
from tests.rigs.shown_settings import table_kind

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KINDS: dict[str, type[Settings]] = {
    "coordinator": CoordinatorProgramSettings,
    "relay": RelayServiceSettings,
    "participant": ParticipantSettings,
    "witness": WitnessSettings,
    "dashboard": DashboardSettings,
}
#: For tests, and not shown to people who run it for real: a device's direct way to a coordinator is one of them.
UNSAFE = {"testing", "coordinator"}
#: Tables of a relay with a role in experiments with two relays.
ROLE = {"rounds", "coordinators"}
PARTIES = pytest.mark.parametrize("party", KINDS)


def text_of(party: str) -> str:
    return (DEPLOY / f"{party}.toml").read_text(encoding="utf-8")


def proxy_of(party: str) -> str:
    return (DEPLOY / f"nginx-{party}.conf").read_text(encoding="utf-8")


COORDINATOR = read_settings(DEPLOY / "coordinator.toml", CoordinatorProgramSettings)
RELAY = read_settings(DEPLOY / "relay.toml", RelayServiceSettings)
ROLE_RELAY = read_settings(DEPLOY / "relay-role.toml", RelayServiceSettings)
DEVICE = read_settings(DEPLOY / "participant.toml", ParticipantSettings)
EXAMPLE = read_settings(ROOT / "examples/experiment.toml", Specification)
#: What the relay's proxy hands on, in the file's order: doors of every relay, of both roles, of the one, of the other.
RELAY_LOCATIONS = re.findall(r"location ~ (\S+) \{", proxy_of("relay"))


def uncommented(text: str) -> str:
    """Every key that is shown, whether it is set or not."""
    return re.sub(r"^#(?=[a-z0-9_]+ = |\[)", "", text, flags=re.MULTILINE)


def tables(party: str) -> dict[str, type[Settings]]:
    fields = KINDS[party].model_fields
    unsafe = {"testing"} if party == "dashboard" else UNSAFE
    if party == "relay":
        # A relay with a role in rounds has another mode than this one: relay-role.toml.
        unsafe = unsafe | ROLE
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


def test_a_relays_role_is_read_and_shows_every_key_with_its_default(tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text(uncommented(text_of("relay-role")), encoding="utf-8")
    assert read_settings(tmp_path / "all.toml", RelayServiceSettings) == ROLE_RELAY
    for name in ROLE:
        kind = table_kind(RelayServiceSettings.model_fields[name].annotation)
        assert set(shown("relay-role")[name]) == set(kind.model_fields)


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
            begins = (f"#{key} = ", f"#[[{name}.{key}]]")
            line = next(line for line in text_of(party).splitlines() if line.startswith(begins))
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
    proxy = proxy_of(party)
    assert isinstance(settings, CoordinatorProgramSettings | RelayServiceSettings)
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    assert "access_log off;" in proxy
    if isinstance(settings, RelayServiceSettings):
        assert settings.clients.address_header == "x-real-ip"
        assert "proxy_set_header X-Real-IP $remote_addr;" in proxy
    else:
        assert f"client_max_body_size {settings.limits.deposit_bytes // 2**20}m;" in proxy
        assert "$remote_addr" not in proxy
        # The relay of the example deposits: nobody goes round it.
        assert RELAY.role == "plain"


@pytest.mark.parametrize("name", ["nginx-coordinator.conf", "nginx-nodes.conf"])
def test_repro_the_coordinators_proxies_hand_on_batches_and_the_log_and_nothing_of_the_operator(name: str) -> None:
    proxy = (DEPLOY / name).read_text(encoding="utf-8")
    (pattern,) = re.findall(r"location ~ (\S+) \{", proxy)
    for path in (log_path("checkpoint"), manifest_path("a" * 64, 1), f"{PREFIX}batch/{'a' * 64}/0"):
        assert re.match(pattern, path), path
    assert not any(re.match(pattern, path) for path in ("/", "/health", "/metrics", "/admin/v1/experiments"))


def test_repro_the_shipped_limits_could_not_carry_ten_thousand_devices_with_cover() -> None:
    """ε = 1 in 2 rounds, 1,000 bins and 100 features: what a device sends, a relay adds and each of them hands on."""
    devices, each, cover, cells = 10_000, 104, 394_749, 2 * 1001 + 4 + 4
    assert ROLE_RELAY.rounds is not None
    assert ROLE_RELAY.rounds.submission_bytes >= each * OUTER_BYTES + TOKEN_BYTES
    assert ROLE_RELAY.rounds.cells >= cells
    assert ROLE_RELAY.rounds.packages >= cover
    assert ROLE_RELAY.rounds.capsules >= devices * each + cover
    # Everybody fetches, over either relay.
    assert ROLE_RELAY.limits.clients >= devices
    assert COORDINATOR.limits.deposit_bytes >= (devices * each + 2 * cover) * INNER_BYTES


def test_repro_the_relay_proxy_hands_on_every_door_below_the_relays_url_and_no_other() -> None:
    root = RELAY.relay.path
    nothing: Any = None
    doors = FetchDoors(
        root,
        *(nothing, nothing, FetchKeys(nothing, nothing, nothing, Metrics("relay"))),
        **dict.fromkeys(
            ("admission", "identify", "clock", "package_bytes", "capsule_bytes", "retry_after_s", "role"), nothing
        ),
        metrics=Metrics("relay"),
    )
    below = {path for path in doors.paths if path == root or path.startswith(f"{root}/")}
    assert len(below) >= 3
    assert {path for path in doors.paths if re.search("|".join(RELAY_LOCATIONS[:2]), path)} == below
    assert not any(re.search(one, path) for one in RELAY_LOCATIONS[2:] for path in doors.paths)


#: Doors of relays with a role, each with the place of its location in the proxy's file.
ROLE_DOORS = [
    ("/relay/commitment", 2),
    ("/relay/terms", 2),
    (f"/relay/counts/{'0a' * 32}", 2),
    *((f"/relay/counts/{'0a' * 32}/{name}", 2) for name in PAPERS),
    (f"/relay/leaves/{'0a' * 32}/21", 2),
    (f"/relay/submit/{'0a' * 32}", 3),
    (f"/relay/tokens/{'0a' * 32}", 3),
    (f"/relay/batch/{'0a' * 32}/count", 4),
    (f"/relay/batch/{'0a' * 32}/21", 4),
]


@pytest.mark.parametrize(("path", "place"), ROLE_DOORS)
def test_the_relay_proxy_hands_on_doors_of_both_roles(path: str, place: int) -> None:
    assert [at for at, one in enumerate(RELAY_LOCATIONS) if re.search(one, path)] == [place]
    assert not any(re.search(one, f"{path}/") or re.search(one, path[6:]) for one in RELAY_LOCATIONS)


def test_the_relay_proxy_keeps_no_connection_after_a_fetch_or_a_submission() -> None:
    whole = re.findall(r"location ~ (\S+) \{(.*?)\}", proxy_of("relay"), re.DOTALL)
    closing = [pattern for pattern, inside in whole if "keepalive_timeout 0;" in inside]
    label = "0a" * 32
    for path in ("/relay/fetch", f"/relay/submit/{label}", f"/relay/tokens/{label}"):
        assert any(re.search(pattern, path) for pattern in closing)
    # The key for a fetch comes over the same connection.
    assert not any(re.search(pattern, "/relay/keys") for pattern in closing)


def test_the_relay_proxy_takes_the_largest_that_doors_of_both_roles_take() -> None:
    proxy = proxy_of("relay")
    submission = RoundsPart.model_fields["submission_bytes"].default
    sizes = [f"{MOST_PAPER_BYTES // 2**10}k", f"{submission // 2**10}k", f"{PIECE_CAPSULES * OUTER_BYTES // 2**20}m"]
    assert re.findall(r"client_max_body_size (\w+);", proxy)[2:] == sizes
    # What is not handed through as it comes is held in memory: it fits there.
    assert re.findall(r"client_body_buffer_size (\w+);", proxy)[2:] == sizes[:2]
    assert MOST_ASKED_BYTES <= MOST_PAPER_BYTES


def test_the_witness_proxy_leads_to_its_port_and_public_paths() -> None:
    settings = read_settings(DEPLOY / "witness.toml", WitnessSettings)
    proxy = proxy_of("witness")
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    location = re.search(r'location ~ "(\^.*\$)" {', proxy)
    assert location is not None
    for path in (SUBMIT_PATH, SEEN_PATH, f"/{'0a' * 32}/checkpoint"):
        assert re.fullmatch(location[1], path)
    for path in ("/health", "/metrics", f"/{'0A' * 32}/checkpoint", "/v1/seen/x"):
        assert not re.fullmatch(location[1], path)
    assert f"client_max_body_size {settings.limits.request_bytes // 2**10}k;" in proxy


def test_the_page_behind_its_proxy_knows_its_name_and_leads_to_the_coordinators_own_port() -> None:
    settings = read_settings(DEPLOY / "dashboard.toml", DashboardSettings)
    proxy = proxy_of("dashboard")
    assert f"proxy_pass http://{settings.listen.host}:{settings.listen.port};" in proxy
    assert settings.coordinator.url == f"http://{COORDINATOR.listen.host}:{COORDINATOR.listen.port}"
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


def test_the_how_to_shows_the_example_experiment() -> None:
    shown = (ROOT / "docs/how-to/run-an-experiment.md").read_text(encoding="utf-8")
    content, *parts = [tomllib.loads(part.partition("```")[0]) for part in shown.split("```toml\n")[1:]]
    example = tomllib.loads((ROOT / "examples/experiment.toml").read_text(encoding="utf-8"))
    for relay in (*content["relays"], *example["relays"]):
        del relay["key"]
    assert content == example
    # Its parts belong to the same experiment, which default devices join (``test_docs``).
    parts = [part for part in parts if part.keys() <= set(Specification.model_fields)]
    assert PrivacyTarget.read(parts[0]["privacy"]) == PrivacyTarget()
    assert [part["binning"]["bins"] for part in parts[1:]] == [content["binning"]["bins"]]


def test_the_example_experiment_fits_the_example_coordinator_and_relays() -> None:
    keys = [SigningKey(bytes([number]) * 32) for number in range(3)]
    named = [
        one.model_copy(update={"key": key.public.data.hex()}) for one, key in zip(EXAMPLE.relays, keys, strict=False)
    ]
    with_keys = EXAMPLE.model_copy(update={"relays": tuple(named)})
    plan = private_plan(with_keys)
    assert plan is not None
    document, own = make_document(
        with_keys, key=keys[2].public, grid=COORDINATOR.epochs.grid, dice=os.urandom, now=0, plan=plan
    )
    assert not document.test
    assert own.early_stopping is not None
    assert plan.useful.outlook is Outlook.USABLE
    # A relay with the limits and the pace that relays have by default takes it, in either role.
    role = ROLE_RELAY.rounds
    assert role is not None
    entry, mix = document.relays
    assert (role.role, role.operator, ROLE_RELAY.relay.url) == ("entry", entry.operator, entry.url)
    for relay, key in zip((entry, mix), keys, strict=False):
        assert relay.operator is not None
        assert relay.role is not None
        limits = {name: getattr(role, name) for name in ("quota", "cells", "packages", "capsules")}
        pace = role.seconds_per_million
        terms = RelayedTerms(
            url=relay.url, operator=relay.operator, role=relay.role, seconds_per_million=pace, **limits
        )
        check_document(document, OwnRelay(terms, key), lambda _: None)
        assert document.budget * 20_000 + document.relay_cover.packages <= role.capsules
    batch = (document.budget * 20_000 + 2 * document.relay_cover.packages) * INNER_BYTES
    assert batch <= COORDINATOR.limits.deposit_bytes
    assert DEVICE.relay is not None
    assert entry.url in DEVICE.relay.urls


def test_the_example_relay_of_plain_experiments_is_on_the_coordinators_grid() -> None:
    grid, epochs, windows = COORDINATOR.epochs.grid, RELAY.epochs, EXAMPLE.windows
    assert (epochs.origin_ms, epochs.period_s) == (grid.origin_ms, grid.period_s)
    assert epochs.deposit_after_s is not None
    assert windows.length_s <= epochs.deposit_after_s < windows.length_s + windows.grace_s
    assert DEVICE.relay is not None
    assert DEVICE.relay.urls[0].endswith(RELAY.relay.path)


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


def test_repro_whatever_the_how_to_installs_was_pinned_by_hash() -> None:
    """What builds the package runs as whoever installs, too."""
    text = (ROOT / "docs/how-to/run-for-real.md").read_text(encoding="utf-8")
    blocks = [
        block for block in re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if "pip install" in block
    ]
    assert len(blocks) == 3
    for block in blocks:
        pinned, package = (shlex.split(line) for line in block.splitlines() if "pip install" in line)
        assert "--require-hashes" in pinned
        locks = [Path(word).name for word in pinned if word.endswith(".txt")]
        assert locks == ["run.txt", "build.txt"]
        assert {"--no-deps", "--no-build-isolation"} <= set(package)


def test_the_how_to_names_only_metrics_that_exist() -> None:
    text = "".join((ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"secvm_(?:coordinator|relay|witness)_([a-z_]+)_total", text))
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/secvm").rglob("*.py"))
    assert named
    assert {name for name in named if not re.search(rf"metrics\.counter\(\s*\"{name}\"", source)} == set()


# ── security ─────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Whatever lies in deploy/: a new file is held to this by being there.
PROXIES = pytest.mark.parametrize("proxy", sorted(DEPLOY.glob("nginx-*.conf")), ids=lambda path: path.name)
#: A device's is a user's service, which systemd can shut in less.
SERVERS = pytest.mark.parametrize(
    "unit",
    sorted(path for path in DEPLOY.glob("*.service") if path.name != "secvm-participant.service"),
    ids=lambda path: path.name,
)


def lines_of(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]


@PROXIES
def test_repro_every_proxy_speaks_tls_1_3_alone_and_resumes_nothing_that_ties_connections_together(
    proxy: Path,
) -> None:
    lines = lines_of(proxy)
    assert [line for line in lines if line.startswith("ssl_protocols")] == ["ssl_protocols TLSv1.3;"]
    assert "ssl_early_data off;" in lines
    assert "ssl_session_tickets off;" in lines
    assert ("ssl_session_cache off;" in lines) == (proxy.name == "nginx-relay.conf")
    assert 'add_header Strict-Transport-Security "max-age=63072000" always;' in lines
    assert "server_tokens off;" in lines
    # Nobody is served without TLS.
    assert all("ssl" in line for line in lines if line.startswith("listen "))


@PROXIES
def test_repro_every_proxy_lets_go_of_clients_that_are_slow_on_purpose(proxy: Path) -> None:
    """Sooner than the server behind it, whose limits strangers do not reach."""
    lines, limits = lines_of(proxy), HttpLimits()
    for name, most in (("client_header", limits.head_s), ("client_body", limits.request_s), ("send", limits.idle_s)):
        (told,) = [line for line in lines if line.startswith(f"{name}_timeout ")]
        assert 1 <= int(told.removeprefix(f"{name}_timeout ").removesuffix("s;")) <= most


def test_repro_nginx_has_room_for_a_crowd() -> None:
    told = dict(
        line.removesuffix(";").split() for line in lines_of(DEPLOY / "nginx.conf") if line.startswith("worker_")
    )
    # A connection that is handed on takes two places, and a place takes a descriptor.
    assert int(told["worker_connections"]) >= HttpLimits().connections
    assert int(told["worker_rlimit_nofile"]) >= 2 * int(told["worker_connections"])


@SERVERS
def test_repro_every_unit_shuts_the_service_in(unit: Path) -> None:
    lines = lines_of(unit)
    for line in (
        *("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes"),
        *("PrivateUsers=yes", "PrivateIPC=yes", "ProtectProc=invisible", "ProtectHostname=yes", "KeyringMode=private"),
        *("RestrictNamespaces=yes", "RestrictRealtime=yes", "CapabilityBoundingSet=", "AmbientCapabilities="),
        *(
            "SystemCallFilter=@system-service",
            "UMask=0077",
            "StateDirectoryMode=0700",
            "MemorySwapMax=0",
            "LimitCORE=0",
        ),
    ):
        assert line in lines, line
    # numba compiles in the coordinator, and where audits are made; nobody else needs memory that is written and run.
    compiles = unit.name in ("secvm-coordinator.service", "secvm-node@.service", "secvm-dashboard.service")
    assert ("MemoryDenyWriteExecute=yes" in lines) != compiles


def test_a_node_is_shut_in_exactly_as_a_coordinator_is() -> None:
    """It holds the same gateway keys."""
    single, node = (
        (DEPLOY / f"secvm-{name}.service").read_text(encoding="utf-8").partition("# It needs the network")[2]
        for name in ("coordinator", "node@")
    )
    assert single
    assert node == single


@SERVERS
def test_repro_no_service_that_goes_by_the_clock_starts_before_it_is_set(unit: Path) -> None:
    waits = {"After=network-online.target time-sync.target", "Wants=network-online.target time-sync.target"}
    # The operator's page signs nothing and opens no window.
    assert (waits <= set(lines_of(unit))) == (unit.name != "secvm-dashboard.service")


@pytest.mark.parametrize("party", [party for party in KINDS if party != "dashboard"])
def test_the_unit_shows_how_a_passphrase_comes(party: str) -> None:
    (shown,) = [line for line in lines_of(DEPLOY / f"secvm-{party}.service") if "LoadCredential=" in line]
    name, source = shown.removeprefix("#LoadCredential=").split(":", 1)
    assert name == CREDENTIAL
    assert source.endswith("passphrase")


#: As the kernel does for ``MemoryDenyWriteExecute=``: PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN.
SHUT_IN = (
    "import ctypes, sys; told = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); sys.argv[0] = 'secvm';"
    " print('shut in' if told == 0 else 'an older kernel', flush=True);"
    " from secvm.cli.main import main; main()"
)


@pytest.mark.parametrize("party", ["relay", "witness"])
def test_the_service_runs_without_memory_that_is_written_and_run(party: str, tmp_path: Path) -> None:
    """On a kernel before 6.3, which cannot be asked for it, it is only seen that the service runs."""
    settings = tmp_path / "settings.toml"
    if party == "relay":
        make_secret(tmp_path / "token", b"a-token-of-the-relay")
        settings.write_text(
            f'[listen]\nport = 0\n[gateway]\nurl = "http://127.0.0.1:9"\ntoken_file = "{tmp_path}/token"\n'
            "[epochs]\nperiod_s = 9\n"
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
