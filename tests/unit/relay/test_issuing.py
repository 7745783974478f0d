"""The relay as issuer of tokens, over real sockets: exactly so many for each client, also after it was killed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE, REQUEST_MEDIA_TYPE, TokenBatch, TokenKey, redeem
from secvm.errors import BadInputError, LocalProtocolError
from secvm.relay.admission import Allowance, Table, Verdict
from secvm.relay.main import make_token_seed
from secvm.relay.settings import RelaySettings
from secvm.relay.store import RoundStore
from secvm.runtime.secret_files import read_token_seed
from secvm.runtime.settings import read_settings
from secvm.testing.gateway import FakeGateway
from tests.unit.relay.helpers import DEPOSIT_MS, PERIOD_MS, Answered, Place, Running, ask, capsule, running, send

EPOCH, QUOTA = 10, 4
TYPE = {"content-type": REQUEST_MEDIA_TYPE}


def issuer(tmp_path: Path) -> tuple[Place, bytes, dict[str, Any]]:
    """A place, the seed, and the table of its settings."""
    place = Place(tmp_path)
    make_token_seed(tmp_path / "tokens.seed")
    return place, read_token_seed(tmp_path / "tokens.seed"), {"seed_file": tmp_path / "tokens.seed", "quota": QUOTA}


def request_of(seed: bytes, *, name: bytes = b"a", count: int = QUOTA, epoch: int = EPOCH) -> bytes:
    return TokenBatch(name * 32, count).request(TokenKey.of_epoch(seed, epoch).public)


async def ask_tokens(relay: Running, request: bytes, *, source: str = "127.0.0.1") -> Answered:
    return await ask(relay.port, "POST", "/relay/tokens", request, TYPE, source=source)


def test_every_client_has_its_tokens_and_none_has_more(tmp_path: Path) -> None:
    place, seed, tokens = issuer(tmp_path)
    key = TokenKey.of_epoch(seed, EPOCH)

    async def main() -> None:
        async with FakeGateway() as gateway, running(place, gateway.url, "round", tokens=tokens) as relay:
            for source, name in (("127.0.0.1", b"a"), ("127.0.0.2", b"b")):
                answer = await ask_tokens(relay, request_of(seed, name=name), source=source)
                assert (answer.status, answer.fields["content-type"]) == (200, ANSWER_MEDIA_TYPE)
                batch = TokenBatch(name * 32, QUOTA)
                assert all(redeem(key, token) for token in batch.tokens(answer.body, key.public))
            # One more is one too many; the same ones again are not.
            assert (await ask_tokens(relay, request_of(seed, name=b"c", count=1))).status == 429
            assert (await ask_tokens(relay, request_of(seed))).status == 200
            # More at once than anybody may have is not even read.
            assert (await ask_tokens(relay, request_of(seed, count=QUOTA + 1))).status == 413
        assert gateway.seen == []

    asyncio.run(main())


def test_half_of_them_now_and_half_later_is_as_many(tmp_path: Path) -> None:
    place, seed, tokens = issuer(tmp_path)

    async def main() -> None:
        async with FakeGateway() as gateway, running(place, gateway.url, "round", tokens=tokens) as relay:
            found = [
                (await ask_tokens(relay, request_of(seed, name=name, count=2))).status for name in (b"a", b"b", b"c")
            ]
            assert found == [200, 200, 429]

    asyncio.run(main())


def test_what_was_issued_survives_a_restart_and_is_destroyed_with_its_epoch(tmp_path: Path) -> None:
    place, seed, tokens = issuer(tmp_path)

    async def main() -> None:
        async with FakeGateway() as gateway:
            async with running(place, gateway.url, "round", tokens=tokens) as relay:
                assert (await ask_tokens(relay, request_of(seed))).status == 200
            async with running(place, gateway.url, "round", tokens=tokens) as relay:
                assert (await ask_tokens(relay, request_of(seed, name=b"b"))).status == 429
                assert (await ask_tokens(relay, request_of(seed))).status == 200
                place.go_to(EPOCH * PERIOD_MS + DEPOSIT_MS)
                await relay.log.wait_for(f'"epoch":{EPOCH}')
                # Next epoch, next key; the old one is over.
                assert (await ask_tokens(relay, request_of(seed))).status == 410
                assert (await ask_tokens(relay, request_of(seed, epoch=EPOCH + 2))).status == 503
                assert (await ask_tokens(relay, request_of(seed, epoch=EPOCH + 1))).status == 200
        with sqlite3.connect(tmp_path / "store.db") as db:
            assert db.execute("SELECT epoch, tokens FROM issued").fetchall() == [(EPOCH + 1, QUOTA)]
        db.close()

    asyncio.run(main())


def test_what_is_no_request_is_refused_by_name(tmp_path: Path) -> None:
    place, seed, tokens = issuer(tmp_path)
    good = request_of(seed)

    async def main() -> None:
        async with FakeGateway() as gateway, running(place, gateway.url, "round", tokens=tokens) as relay:
            assert (await send(relay.port, good, path="/tokens")).status == 415
            assert (await ask(relay.port, "GET", "/relay/tokens")).status == 405
            assert [(await ask_tokens(relay, bad)).status for bad in (b"", good[:-1])] == [400, 400]
            assert (await ask_tokens(relay, bytes(32) + good[32:])).status == 410
            # Counted, because somebody who sends no elements shall not try for ever.
            assert (await ask_tokens(relay, good[:-32] + b"\xff" * 32)).status == 400
            assert (await ask_tokens(relay, good)).status == 429
            # Capsules go their way as ever.
            assert (await send(relay.port, capsule(1))).status == 202

    asyncio.run(main())


def test_asking_again_is_free_of_tokens_but_not_of_fetches(tmp_path: Path) -> None:
    place, seed, tokens = issuer(tmp_path)

    async def main() -> None:
        few = {"fetches": 2}
        async with FakeGateway() as gateway, running(place, gateway.url, "round", tokens=tokens, clients=few) as relay:
            assert [(await ask_tokens(relay, request_of(seed))).status for _ in range(3)] == [200, 200, 429]

    asyncio.run(main())


def test_a_relay_without_tokens_has_no_such_door(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def main() -> None:
        async with FakeGateway() as gateway, running(place, gateway.url, "round") as relay:
            assert (await ask_tokens(relay, bytes(64))).status == 404

    asyncio.run(main())


def test_a_table_counts_requests_by_digest_and_has_a_size() -> None:
    table = Table(1, bytes(32), Allowance(1, 1, 2, 10))
    found = [table.issue(b"ann", digest, 2, quota=4) for digest in (b"1", b"1", b"2", b"3")]
    assert found == [Verdict.NEW, Verdict.AGAIN, Verdict.NEW, Verdict.OVER_QUOTA]
    assert table.issue(b"ben", b"1", 4, quota=4) is Verdict.NEW
    assert table.issue(b"cem", b"1", 1, quota=4) is Verdict.FULL
    # Who asks for tokens is no client of the floor.
    assert table.clients == 0


def test_nothing_is_issued_for_an_epoch_that_is_sealed(tmp_path: Path) -> None:
    store = RoundStore(tmp_path / "store.db", os.urandom)
    store.note_issued(3, bytes(32), b"name", b"digest", 5)
    assert store.begun() == [3]
    begun = store.read(3)
    assert begun is not None
    assert begun.issued == {b"name": {b"digest": 5}}
    assert not store.seal(3, lambda _clients, _capsules: None)
    with pytest.raises(LocalProtocolError):
        store.note_issued(3, bytes(32), b"name", b"digest", 5)
    store.close()


def test_a_store_of_the_version_before_is_taken_and_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    RoundStore(path, os.urandom).close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE issued")
        db.execute("UPDATE sealed SET epoch = 5")
        db.execute("PRAGMA user_version = 1")
    db.close()
    for _ in range(2):
        store = RoundStore(path, os.urandom)
        assert store.sealed() == 5
        store.note_issued(6, bytes(32), b"name", b"digest", 5)
        store.close()


def test_tokens_need_mode_round_and_a_seed(tmp_path: Path) -> None:
    place, _, tokens = issuer(tmp_path)
    with pytest.raises(BadInputError, match="mode round"):
        read_settings(place.settings_file("http://127.0.0.1:1", "forward", tokens=tokens), RelaySettings)
    (tmp_path / "other.seed").write_text("no seed, but long enough to be one")
    (tmp_path / "other.seed").chmod(0o600)
    with pytest.raises(BadInputError, match="no seed"):
        read_token_seed(tmp_path / "other.seed")


def test_the_command_makes_a_seed_that_nobody_else_can_read_and_never_a_second_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.seed"
    assert run(["relay", "token-seed", "--out", str(path), "--format", "json"]) == 0
    seed = read_token_seed(path)
    assert seed.hex() not in capsys.readouterr().out
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["relay", "token-seed", "--out", str(path)]) == 2
    assert read_token_seed(path) == seed
