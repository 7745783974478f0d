"""Over https all the way, with certificates that are looked at: participant → relay → coordinator.

The proxies before relay and coordinator are ours (``tests.system.tls``); what is tested is the client's side of
each connection, which is the program's own. Without the right authority, or with a certificate for another name, not
one request gets through.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from secvm.coordinator.store.postgres_pool import Pool
from secvm.errors import StoreError
from secvm_lab.rigs.postgres import PostgresCluster
from tests.system.parties import Party, Place, get, party, relay_url
from tests.system.small_run import BUDGET, PEOPLE, SmallRun, port_of
from tests.system.tls import Authority, TlsProxy


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The one that everybody trusts here."""
    made = Authority(tmp_path, "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


@contextmanager
def proxies(*contexts: ssl.SSLContext) -> Iterator[list[TlsProxy]]:
    with ExitStack() as held:
        yield [held.enter_context(TlsProxy(context).running()) for context in contexts]


class RunOverTls(SmallRun):
    """As a small run, with a proxy before the coordinator and one before the relay."""

    def __init__(self, folder: Path, before_coordinator: TlsProxy, before_relay: TlsProxy) -> None:
        super().__init__(folder, rounds=1)
        self._before_coordinator, self._before_relay = before_coordinator, before_relay
        self._plain = ""

    def begun(self) -> None:
        self._before_coordinator.behind = port_of(self.place.url)
        self._plain, self.place.url = self.place.url, self._before_coordinator.url

    def outside(self, relay: Party) -> str:
        # The relay knows only the proxy; the test itself may go straight.
        self.place.url = self._plain
        self._before_relay.behind = port_of(relay_url(relay))
        return f"{self._before_relay.url}/relay"


def test_a_round_over_https_counts_everybody(authority: Authority, tmp_path: Path) -> None:
    context = authority.server("127.0.0.1")
    with proxies(context, context) as (before_coordinator, before_relay):
        run = RunOverTls(tmp_path, before_coordinator, before_relay)
        run.run()
        assert run.acknowledged == BUDGET * len(PEOPLE)
        assert len(run.participants) == 1
        # Devices to the relay, the relay to the coordinator: all of it, and by TLS 1.3.
        for proxy in (before_coordinator, before_relay):
            assert proxy.versions
            assert set(proxy.versions) == {"TLSv1.3"}


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_nobody_speaks_with_a_server_that_cannot_show_who_it_is(
    wrong: str, authority: Authority, tmp_path: Path
) -> None:
    good = authority.server("127.0.0.1")
    bad = (
        Authority(tmp_path, "stranger").server("127.0.0.1")
        if wrong == "authority"
        else authority.server("relay.example")
    )
    place = Place(tmp_path)
    with place.coordinator(), proxies(good, bad, bad) as (true, false_coordinator, false_relay):
        true.behind = false_coordinator.behind = port_of(place.url)

        def listing(proxy: TlsProxy) -> tuple[int, str]:
            with party("experiment", "list", "--coordinator", proxy.url) as command:
                return command.end(), command.said

        # 1. An operator's command, which works where all is well.
        assert listing(true)[0] == 0
        code, said = listing(false_coordinator)
        assert code == 2
        assert said.startswith("secvm: cannot reach the coordinator: its certificate is not to be trusted"), said

        # 2. The relay to its gateway: it answers that nobody is behind it.
        for proxy, reached in ((true, True), (false_coordinator, False)):
            place.url, plain = proxy.url, place.url
            settings = place.relay_settings()
            place.url = plain
            with party("relay", "serve", "--config", str(settings)) as relay:
                assert (get(relay_url(relay) + "/keys") is not None) is reached
                if reached:
                    false_relay.behind = port_of(relay_url(relay))

        # 3. A device to its relay.
        settings = tmp_path / "device.toml"
        settings.write_text(
            f'[device]\nfolder = "{tmp_path}/device"\n[relay]\nurls = ["{false_relay.url}/relay"]\n', encoding="utf-8"
        )
        with party("participant", "join", "0" * 64, "--config", str(settings), "--yes") as device:
            assert device.end() == 2
        assert "nobody answers" in device.said
        # No handshake with a false one was ever finished, so nothing was said.
        assert false_coordinator.versions == false_relay.versions == []
        assert set(true.versions) == {"TLSv1.3"}


def test_the_database_is_asked_by_tls_and_has_to_show_who_it_is(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    cluster = PostgresCluster(
        loopback=True,
        settings={
            "ssl": "on",
            "ssl_key_file": "../server.key",
            "ssl_cert_file": "../server.crt",
            "ssl_min_protocol_version": "TLSv1.3",
        },
    )
    for name, content in zip(("server.key", "server.crt"), authority.issue("127.0.0.1"), strict=True):
        path = cluster.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        if cluster._user is not None:
            os.chown(path, cluster._user.pw_uid, cluster._user.pw_gid)
    with cluster:
        url = cluster.url()

        def ask(url: str, issuer: Authority) -> list[tuple[object, ...]]:
            pool = Pool(f"{url}?sslmode=verify-full&sslrootcert={issuer.file}", most=1)
            try:
                return pool.once("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            finally:
                pool.close()

        assert ask(url, authority) == [(True, "TLSv1.3")]
        # Another authority; and the right one, but a name that the certificate does not have.
        for wrong, issuer in ((url, stranger), (url.replace("@127.0.0.1:", "@localhost:"), authority)):
            with pytest.raises(StoreError) as caught:
                ask(wrong, issuer)
            assert cluster._password not in str(caught.value)
