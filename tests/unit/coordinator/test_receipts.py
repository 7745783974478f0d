"""Receipts of driven rounds: there when the root is public, never before, and gone when they should be."""

import asyncio
import hashlib
import http.client
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secvm.coordinator.driver import Driver
from secvm.coordinator.gateway import Gateway
from secvm.coordinator.present import OpenRound
from secvm.coordinator.receipt_shelf import FolderShelf, MemoryShelf, Shelf
from secvm.coordinator.receipts import received_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.oblivious import decode_key_configurations, seal_request
from secvm.crypto.signing import Envelope
from secvm.learning.package import Package
from secvm.protocol.ending import accept_ending
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.receipts import decode_bits, decode_receipt
from secvm.protocol.received import bucket_of, check_receipt, received_tree
from secvm.protocol.sealed_requests import fetch_request, read_answer
from secvm.runtime.http_server import HttpServer
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import GRID, Coordinator, add, capsules, crowd, experiment, few
from tests.unit.protocol.helpers import START

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.fixture(params=["memory", "files"])
def coordinator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Coordinator]:
    files = request.param == "files"
    store: CoordinatorStore = SQLiteStore(tmp_path / "store") if files else MemoryStore()
    shelf: Shelf = FolderShelf(tmp_path / "received") if files else MemoryShelf()
    yield Coordinator(store, ManualClock(START - 100_000), shelf=shelf)
    store.close()
    shelf.close()


def restarted(before: Coordinator, shelf: Shelf | None = None) -> Coordinator:
    return Coordinator(before.store, before.clock, sent=before.sent, shelf=before.shelf if shelf is None else shelf)


def get(coordinator: Coordinator, path: str) -> bytes | None:
    found = coordinator.publisher.public(path)
    return None if found is None else found[0]


def digests_of(of: ExperimentDocument, number: int, who: Callable[[OpenRound], list[Package]] = crowd) -> list[bytes]:
    one = OpenRound(of, number, 0, 0, 0, 0)
    return [hashlib.sha256(capsule).digest() for capsule, _ in capsules(one, who(one))]


def has_receipts(coordinator: Coordinator, of: ExperimentDocument, number: int) -> bool:
    told = get(coordinator, received_path(of.digest, number))
    assert (told is None) == (get(coordinator, received_path(of.digest, number, 0)) is None)
    return told is not None


def check_all(coordinator: Coordinator, of: ExperimentDocument, number: int, root: str | None) -> None:
    """As every device of the round does."""
    assert root is not None
    told = get(coordinator, received_path(of.digest, number))
    assert told is not None
    bits = decode_bits(told)
    for digest in digests_of(of, number):
        data = get(coordinator, received_path(of.digest, number, bucket_of(digest, bits)))
        assert data is not None
        receipt = decode_receipt(data)
        check_receipt(bytes.fromhex(root), digest, receipt.bucket, receipt.path)


def announced(coordinator: Coordinator, count: int) -> Callable[[], bool]:
    def holds() -> bool:
        return all(len(coordinator.store.rounds(one.digest)) >= count for one in coordinator.store.experiments())

    return holds


def manifest(coordinator: Coordinator, of: ExperimentDocument, number: int) -> RoundManifest:
    stored = coordinator.store.rounds(of.digest)[number - 1].envelope
    assert get(coordinator, f"/v1/experiment/{of.digest}/manifest/{number}") == stored
    return RoundManifest.from_bytes(Envelope.from_bytes(stored).payload)


def test_every_capsule_of_a_tallied_round_has_a_receipt_under_the_published_root(coordinator: Coordinator) -> None:
    of = experiment(rounds=2)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    last = manifest(coordinator, of, 2).last
    assert last is not None
    check_all(coordinator, of, 1, last.received_root)
    asyncio.run(coordinator.go())
    served = get(coordinator, f"/v1/experiment/{of.digest}/ending")
    assert served is not None
    end = accept_ending(served, document=of).last
    assert end is not None
    check_all(coordinator, of, 2, end.received_root)


def test_two_experiments_of_one_epoch_have_the_same_receipts(coordinator: Coordinator) -> None:
    first, second = experiment(title="one", rounds=2), experiment(title="two", rounds=2)
    for of in (first, second):
        add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    for of in (first, second):
        last = manifest(coordinator, of, 2).last
        assert last is not None
        check_all(coordinator, of, 1, last.received_root)
    bits = get(coordinator, received_path(first.digest, 1))
    assert bits == get(coordinator, received_path(second.digest, 1)) == b'{"bits":1}'


def test_nothing_is_seen_before_a_public_document_names_the_root(coordinator: Coordinator) -> None:
    of = experiment(rounds=2)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=lambda: len(coordinator.sent) == 1))
    coordinator.store.set_standing(of.digest, Standing.PAUSED)

    async def conclude() -> None:
        for _ in range(3):
            coordinator.clock.advance(300_000)
            await coordinator.step()

    asyncio.run(conclude())
    # Concluded, kept, and not told: a paused experiment has no next manifest.
    assert coordinator.store.rounds(of.digest)[0].tally is not None
    assert coordinator.shelf.epochs() == [coordinator.store.rounds(of.digest)[0].epoch]
    assert not has_receipts(coordinator, of, 1)
    coordinator.store.set_standing(of.digest, Standing.STOPPED)
    asyncio.run(coordinator.go(steps=1))
    assert has_receipts(coordinator, of, 1)


def test_nothing_is_seen_while_the_next_manifest_is_stored_and_not_shown(coordinator: Coordinator) -> None:
    of = experiment(rounds=3)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    assert has_receipts(coordinator, of, 1)
    # A publisher that was shown nothing yet, over the same store and shelf.
    assert not has_receipts(restarted(coordinator), of, 1)


@pytest.mark.parametrize(
    "path",
    [
        *("received", "received/", "received/0", "received/2", "received/3", "received/01", "received/+1"),
        *("received/1/", "received/1/1", "received/1/-1", "received/1/00", "received/1/x", "received/1/0/0"),
        *("received/²", "received/1/99999999999999999999", "received/99999999999"),
    ],
)
def test_nothing_is_at_other_paths(path: str) -> None:
    coordinator, of = Coordinator(MemoryStore(), ManualClock(START - 100_000)), experiment(rounds=2)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    assert get(coordinator, f"/v1/experiment/{of.digest}/received/1/0") is not None
    assert get(coordinator, f"/v1/experiment/{of.digest}/{path}") is None
    assert get(coordinator, f"/v1/experiment/{'ab' * 32}/received/1") is None


def test_an_abandoned_round_has_no_receipts_and_nothing_is_kept_of_it(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, kept = experiment(rounds=3), []
    add(coordinator.store, of)
    monkeypatch.setattr(coordinator.shelf, "keep", lambda epoch, *_: kept.append(epoch))
    asyncio.run(coordinator.go(few, until=announced(coordinator, 2)))
    assert kept == []
    assert coordinator.shelf.epochs() == []
    assert not has_receipts(coordinator, of, 1)
    last = manifest(coordinator, of, 2).last
    assert last is not None
    assert last.received_root is not None


def test_an_abandoned_round_beside_a_tallied_one_has_no_receipts(coordinator: Coordinator) -> None:
    small, large = experiment(title="small", rounds=2), experiment(title="large", rounds=2)
    for of in (small, large):
        add(coordinator.store, of)

    def who(one: OpenRound) -> list[Package]:
        return few(one) if one.document.title == "small" else crowd(one)

    asyncio.run(coordinator.go(who, until=announced(coordinator, 2)))
    assert has_receipts(coordinator, large, 1)
    assert not has_receipts(coordinator, small, 1)


# ── until when ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_receipts_are_kept_until_the_round_after_the_next_is_concluded(coordinator: Coordinator) -> None:
    of = experiment(rounds=4)
    add(coordinator.store, of)
    seen = []
    for count in (2, 3, 4):
        asyncio.run(coordinator.go(until=announced(coordinator, count)))
        seen.append([has_receipts(coordinator, of, number) for number in (1, 2, 3, 4)])
    # With manifest t, round t - 1 is told, and round t - 3 is forgotten.
    assert seen == [[True, False, False, False], [True, True, False, False], [False, True, True, False]]
    assert coordinator.shelf.epochs() == [one.epoch for one in coordinator.store.rounds(of.digest)[1:3]]


def test_an_epoch_is_kept_as_long_as_one_of_its_experiments_needs_it(coordinator: Coordinator) -> None:
    quick, slow = experiment(title="quick", rounds=5), experiment(title="slow", rounds=5)
    for of in (quick, slow):
        add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    coordinator.store.set_standing(slow.digest, Standing.PAUSED)
    asyncio.run(coordinator.go(until=lambda: len(coordinator.store.rounds(quick.digest)) == 5))
    # Alone, the quick one's rounds 1 and 2 would be forgotten by now; the slow one had no round after those.
    assert coordinator.shelf.epochs() == [one.epoch for one in coordinator.store.rounds(quick.digest)[:4]]
    assert has_receipts(coordinator, slow, 1)
    coordinator.store.set_standing(slow.digest, Standing.STOPPED)
    asyncio.run(coordinator.step())
    coordinator.clock.advance(2 * 1000 * GRID.period_s)
    asyncio.run(coordinator.step())
    assert not has_receipts(coordinator, slow, 1)


def test_after_the_end_receipts_are_kept_for_two_periods_also_over_restarts(coordinator: Coordinator) -> None:
    of = experiment(rounds=1)
    add(coordinator.store, of)
    asyncio.run(coordinator.go())
    over = coordinator.clock.now()
    kept = []
    for _ in range(8):
        coordinator = restarted(coordinator)
        asyncio.run(coordinator.step())
        kept.append((coordinator.clock.now() - over, has_receipts(coordinator, of, 1)))
        coordinator.clock.advance(300_000)
    period = 1000 * GRID.period_s
    assert kept == [(since, since < 2 * period) for since, _ in kept]
    assert {one for _, one in kept} == {True, False}
    assert coordinator.shelf.epochs() == []


def test_receipts_of_a_stop_after_a_long_pause_are_there_for_two_periods_too(coordinator: Coordinator) -> None:
    of = experiment(rounds=3)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=lambda: len(coordinator.sent) == 1))
    coordinator.store.set_standing(of.digest, Standing.PAUSED)
    coordinator.clock.advance(30 * 86_400_000)
    asyncio.run(coordinator.step())
    coordinator.store.set_standing(of.digest, Standing.STOPPED)
    asyncio.run(coordinator.step())
    assert has_receipts(coordinator, of, 1)
    coordinator.clock.advance(2 * 1000 * GRID.period_s)
    asyncio.run(coordinator.step())
    assert not has_receipts(coordinator, of, 1)


def test_epochs_that_nobody_knows_are_removed_at_the_start(coordinator: Coordinator) -> None:
    of = experiment(rounds=3)
    add(coordinator.store, of)
    asyncio.run(coordinator.go(until=announced(coordinator, 2)))
    own = coordinator.shelf.epochs()
    coordinator.shelf.keep(1, b"", received_tree(b""))
    asyncio.run(restarted(coordinator).step())
    assert coordinator.shelf.epochs() == own


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class DiedError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_around_the_writing_leaves_nothing_missing(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    of = experiment(rounds=2)
    add(coordinator.store, of)
    keep = Driver._keep_receipts

    def dies(*arguments: object) -> str:
        if when == "after":
            keep(*arguments)  # type: ignore[arg-type]
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_keep_receipts", dies)
        with pytest.raises(DiedError):
            asyncio.run(coordinator.go())
    assert coordinator.store.rounds(of.digest)[0].tally is None
    assert len(coordinator.shelf.epochs()) == (when == "after")
    again = restarted(coordinator)
    asyncio.run(again.go(until=announced(again, 2)))
    last = manifest(again, of, 2).last
    assert last is not None
    check_all(again, of, 1, last.received_root)


def test_a_round_is_not_concluded_where_its_receipts_cannot_be_kept(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = experiment(rounds=2)
    add(coordinator.store, of)

    def full(*_: object) -> None:
        raise DiedError

    monkeypatch.setattr(coordinator.shelf, "keep", full)
    with pytest.raises(DiedError):
        asyncio.run(coordinator.go())
    assert coordinator.store.rounds(of.digest)[0].tally is None
    assert get(coordinator, f"/v1/experiment/{of.digest}/manifest/2") is None


# ── over the network ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_receipts_come_over_sockets_and_under_a_seal(coordinator: Coordinator) -> None:
    of = experiment(rounds=2)
    add(coordinator.store, of)
    paths = [received_path(of.digest, 1), received_path(of.digest, 1, 0), received_path(of.digest, 1, 1)]

    def ask(port: int) -> list[tuple[int, str | None, str | None, bytes]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        answers = []
        for path in paths:
            connection.request("GET", path)
            got = connection.getresponse()
            answers.append((got.status, got.getheader("content-type"), got.getheader("cache-control"), got.read()))
        connection.close()
        return answers

    async def served() -> list[tuple[int, str | None, str | None, bytes]]:
        await coordinator.go(until=announced(coordinator, 2))
        server = HttpServer(coordinator.publisher.handle)
        port = await server.start("127.0.0.1", 0)
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await server.drain()

    bits, receipt, missing = asyncio.run(served())
    assert bits == (200, "application/json", "public, max-age=5", b'{"bits":0}')
    assert receipt[:3] == (200, "application/octet-stream", "public, max-age=5")
    assert receipt[3] == get(coordinator, paths[1])
    assert missing[0] == 404

    gateway = Gateway(dice=os.urandom, public=coordinator.publisher.public, date=lambda: DATE)
    gateway.update(coordinator.ingest.present)
    keys = get(coordinator, "/v1/keys")
    assert keys is not None
    answers = []
    for path in paths:
        sealed = seal_request(decode_key_configurations(keys)[0], fetch_request(path), os.urandom)
        answers.append(read_answer(sealed.open_response(gateway.fetch(sealed.capsule) or b"")))
    assert [(one.status, one.content) for one in answers] == [(200, bits[3]), (200, receipt[3]), (404, b"")]
