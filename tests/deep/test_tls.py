"""Certificates are looked at: by an operator's command, a relay, a device, and a coordinator before its database.

Without the right authority, or with a certificate for another name, not one request gets through. Whole rounds over
https are behind nginx (``tests/deep/deploy/test_nginx.py``).
"""

import os
from pathlib import Path

import pytest

from secvm.coordinator.store.postgres_pool import Pool
from secvm.errors import StoreError
from secvm_lab.rigs.postgres import PostgresCluster
from tests.deep.tls import Authority
from tests.serving import Answer, serving
from tests.system.parties import Place, get, party, relay_url, secvm


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
    with place.coordinator(), serving(tls=good) as true, serving(tls=bad) as false:
        plain = place.url

        def hand_on(path: str) -> Answer:
            kind = {"content-type": "application/ohttp-keys"} if path.endswith("keys") else {}
            return 200, kind, get(plain + path) or b""

        true.answer = false.answer = hand_on
        # 1. An operator's command, which works where all is well.
        assert secvm("experiment", "list", "--coordinator", true.url).returncode == 0
        listed = secvm("experiment", "list", "--coordinator", false.url)
        assert listed.returncode == 2
        assert listed.stderr.startswith(
            f"secvm: cannot reach the coordinator at {false.url}: its certificate is not to be trusted"
        )

        # 2. The relay to its gateway: it answers that nobody is behind it.
        for server in (true, false):
            place.url = server.url
            with party("relay", "serve", "--config", str(place.relay_settings())) as relay:
                assert (get(relay_url(relay) + "/keys") is not None) is (server is true)

        # 3. A device to its relay.
        settings = tmp_path / "device.toml"
        settings.write_text(
            f'[device]\nfolder = "{tmp_path}/device"\n[relay]\nurls = ["{false.url}/relay"]\n', encoding="utf-8"
        )
        joined = secvm("participant", "join", "0" * 64, "--config", settings, "--yes")
        assert joined.returncode == 2
        assert "nobody answers" in joined.stderr
        # No handshake with a false one was ever finished, so nothing was said.
        assert false.asked == []
        assert len(true.asked) >= 2


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
