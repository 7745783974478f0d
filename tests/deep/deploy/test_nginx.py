"""The files of deploy/ in a real nginx: it takes them, parties work behind it, and half heads shut nobody out."""

import contextlib
import random
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.crypto.signing import Envelope
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.manifest import read_relay_count
from secvm.protocol.relays.batches import PIECE_CAPSULES
from secvm.relay.batches.doors import MOST_ASKED_BYTES, MOST_PAPER_BYTES
from secvm.relay.setting_up import make_key
from secvm.relay.settings import RoundsPart
from secvm.runtime.disk.secret_files import make_secret
from secvm.testing.federation import COORDINATOR, Federation
from secvm.testing.federation_settings import ENTRY, MIX
from secvm_lab.demo.crowd import made_up
from secvm_lab.demo.plan import Plan
from tests.deep.deploy.behind_nginx import WITNESS, FederationBehindNginx
from tests.deep.deploy.nginx import SITES, Nginx
from tests.deep.tls import Authority
from tests.seeds import seed_for
from tests.system.covered_federation import a_case, check, play
from tests.system.parties import party

DEVICES = 20
HALVES = 1000


def test_nginx_takes_every_file_and_warns_of_nothing(authority: Authority, tmp_path: Path) -> None:
    assert len(SITES) >= 5
    nginx = Nginx(tmp_path / "nginx", authority)
    for site in SITES:
        nginx.add(site, {})
    said = nginx.check()
    assert "test is successful" in said
    assert "[warn]" not in said


@pytest.mark.takes(minutes=1.5)
def test_repro_behind_nginx_a_round_is_tallied(authority: Authority, tmp_path: Path) -> None:
    """A plain one: devices know no other way to the relay, nor the relay to the coordinator."""
    plan = Plan(participants=DEVICES, rounds=1, hosts=2, bins=8)
    crowd = made_up(DEVICES, seed=0, further=50)
    consent = {"policy": "default", "most_auc": 1.0, "total_auc": 1.0}
    federation = FederationBehindNginx(
        tmp_path,
        authority=authority,
        consent=consent,
        hosts=plan.carried(crowd, tmp_path),
        seed=plan.dice_seed.decode(),
    )
    with federation:
        federation.start_servers()
        federation.begin(plan.specification(crowd))
        document = federation.document
        assert document is not None
        counts, _ = federation.play_round(1, attending=DEVICES, budget=document.budget)
        assert (counts.joined, counts.lost) == (DEVICES, 0)
        assert counts.acknowledged == DEVICES * document.budget
        served = federation.following(1)
        assert served is not None
        last = Ending.from_bytes(Envelope.from_bytes(served).payload).last
        assert last is not None
        assert last.tally is not None
        assert last.relay_count is not None
        told = read_relay_count(last.relay_count, document)
        assert (told.clients, told.capsules) == (DEVICES, DEVICES * document.budget)
        check_what_is_open(federation)


def check_what_is_open(federation: FederationBehindNginx) -> None:
    """What is for the operator's machine stays there."""
    nginx = federation.nginx
    relays = [federation.outside(name) for name in federation.relay_names]
    assert [nginx.status(port, "/relay/keys") for port in relays] == [200] * len(relays)
    for port in (*relays, federation.outside(COORDINATOR), federation.outside(WITNESS)):
        assert [nginx.status(port, path) for path in ("/health", "/metrics", "/admin/experiments")] == [404] * 3


@pytest.mark.takes(minutes=2)
def test_behind_nginx_rounds_with_a_guarantee_are_opened_to_the_bytes_of_the_offline_ones(
    authority: Authority, tmp_path: Path
) -> None:
    """Devices know no other way to the entry relay, the relays to each other and to the coordinator, nor it to them."""
    case, steps = a_case(random.Random(seed_for("two relays behind nginx")), ("a", "b"), people=16), list[str]()

    def between(federation: Federation, step: str) -> None:
        steps.append(step)
        if steps.count("over") == 1 and step == "over":
            assert isinstance(federation, FederationBehindNginx)
            check_what_is_open(federation)
            check_sizes(federation)

    made = partial(FederationBehindNginx, authority=authority)
    check(case, *play(tmp_path, case, made=made, between=between), learns=False)
    assert steps.count("over") == 2


def check_sizes(federation: FederationBehindNginx) -> None:
    """The largest that a door of a role takes reaches it, and is refused there; one byte more does not."""
    entry, mix, unknown = federation.outside(ENTRY), federation.outside(MIX), bytes(32).hex()

    def status(port: int, method: str, path: str, size: int) -> int | None:
        return federation.nginx.status(port, f"/relay/{path}", method=method, body=bytes(size))

    doors = (
        (entry, "POST", f"submit/{unknown}", RoundsPart.model_fields["submission_bytes"].default),
        (mix, "PUT", f"batch/{unknown}/0", PIECE_CAPSULES * OUTER_BYTES),
        (mix, "PUT", f"batch/{unknown}/count", MOST_PAPER_BYTES),
        (entry, "PUT", f"counts/{unknown}/mix_count", MOST_PAPER_BYTES),
        (mix, "PUT", f"counts/{unknown}/entry_reveal", MOST_PAPER_BYTES),
    )
    assert [status(*one) for one in doors] == [421] * len(doors)
    assert {status(*one[:3], one[3] + 1) for one in doors if not one[2].endswith("/count")} == {413}
    assert [status(port, "POST", "commitment", MOST_ASKED_BYTES) for port in (entry, mix)] == [401, 401]


# ── half heads ───────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def descriptors(wanted: int) -> Iterator[None]:
    """Room for so many files in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= wanted, f"this test needs {wanted} file descriptors, and the system gives {hard}: ulimit -Hn"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_a_hello(_nginx: Nginx, port: int) -> socket.socket:
    """A connection that has begun a handshake of TLS."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=2)
    connection.sendall(b"\x16\x03\x01")
    return connection


def half_a_head(nginx: Nginx, port: int) -> socket.socket:
    """A connection that has begun a request."""
    connection = nginx.connect(port, timeout_s=2)
    connection.sendall(b"GET /relay/keys HTTP/1.1\r\nhost: a")
    return connection


def answered_beside(halves: Callable[[Nginx, int], socket.socket], nginx: Nginx, port: int) -> list[int | None]:
    """What ten honest clients hear while one address holds a thousand halves."""
    with descriptors(HALVES + 256), ExitStack() as held:
        for _ in range(HALVES):
            # A connection that is refused is what the attacker wants of everybody.
            with contextlib.suppress(OSError):
                held.enter_context(halves(nginx, port))
        return [nginx.status(port, "/relay", timeout_s=2) for _ in range(10)]


@contextmanager
def before_a_relay(nginx: Nginx, folder: Path, without: Sequence[str] = ()) -> Iterator[int]:
    """The port of nginx before a relay that runs. ``without``: directives that are left out of the shipped file."""
    settings = folder / "relay.toml"
    make_secret(folder / "token", b"a-token-of-the-relay")
    make_key(folder / "relay.key")
    settings.write_text(
        f'[listen]\nport = 0\n[gateway]\nurl = "http://127.0.0.1:9"\ntoken_file = "{folder}/token"\n'
        "[epochs]\nperiod_s = 60\n"
        f'[store]\npath = "{folder}/relay.db"\n[signing]\nkey_file = "{folder}/relay.key"\n',
        encoding="utf-8",
    )
    with party("relay", "serve", "--config", str(settings)) as relay:
        behind = relay.told("listening")["port"]
        changes = {"127.0.0.1:8480": f"127.0.0.1:{behind}", **dict.fromkeys(without, "")}
        port = nginx.add("nginx-relay.conf", changes)
        with nginx.running():
            yield port


@pytest.mark.parametrize("halves", [half_a_head, half_a_hello])
def test_repro_a_thousand_half_heads_from_one_address_leave_room_for_an_honest_client(
    halves: Callable[[Nginx, int], socket.socket], authority: Authority, tmp_path: Path
) -> None:
    nginx = Nginx(tmp_path / "nginx", authority)
    with before_a_relay(nginx, tmp_path) as port:
        # The relay itself answers: its door takes no GET.
        assert answered_beside(halves, nginx, port) == [405] * 10


def test_with_debians_places_and_nginx_s_own_minute_a_thousand_half_heads_shut_everybody_out(
    authority: Authority, tmp_path: Path
) -> None:
    """So that the test above is one: the same, without the repair. One worker, on any machine."""
    nginx = Nginx(tmp_path / "nginx", authority, worker_connections="768", worker_processes="1")
    with before_a_relay(nginx, tmp_path, without=["client_header_timeout 10s;"]) as port:
        assert 405 not in answered_beside(half_a_head, nginx, port)


@pytest.mark.parametrize("halves", [half_a_head, half_a_hello])
def test_repro_halves_are_let_go_after_the_shipped_time(
    halves: Callable[[Nginx, int], socket.socket], authority: Authority, tmp_path: Path
) -> None:
    nginx = Nginx(tmp_path / "nginx", authority)
    with before_a_relay(nginx, tmp_path) as port, halves(nginx, port) as slow:
        # The shipped ten seconds, and as many more for a busy machine; nginx's own would be sixty.
        slow.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while slow.recv(2**12):
                pass
