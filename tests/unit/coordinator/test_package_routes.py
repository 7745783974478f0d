"""What is sent over a real socket is stored, opened and answered, or refused by name; and then nothing has changed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from secvm.coordinator.intake.ingest import IngestLimits
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.store.port import Deposit, StoredKey
from secvm.crypto.sealing import capsules as packing
from secvm.crypto.sealing.oblivious import REQUEST_MEDIA_TYPE
from secvm.crypto.signing import SigningKey
from secvm.protocol.documents.manifest import RelayCount
from secvm.protocol.plain.sealed_requests import fetch_request, package_request, read_answer
from secvm.protocol.problems import PROBLEMS, read_problem
from secvm.runtime.metrics import Metrics
from tests.unit.coordinator.package_path import (
    ACCEPT_UNTIL,
    DATE,
    EPOCH,
    KEY,
    OPEN_ROUND,
    PRESENT,
    ROUND,
    TOKEN,
    Running,
    Told,
    plaintext,
    records,
    running,
    seal,
    sealed_package,
    train,
)
from tests.unit.protocol.helpers import RELAY, START, STRANGER

#: Both rounds are of the same slot; this key is of the slot before.
OLD_KEY = StoredKey(EPOCH - 1, (EPOCH - 1) % 256, bytes(range(1, 33)))
UNKNOWN_KEY = StoredKey(EPOCH + 9, (EPOCH + 9) % 256, bytes(range(2, 34)))


def problem(told: Told) -> str:
    assert told.headers["content-type"] == "application/problem+json"
    return read_problem(told.body).name


# ── sealed fetches ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sealed_fetch_is_answered_from_the_public_files() -> None:
    async def fetch(path: Running, request: bytes) -> tuple[int, bytes, str | None]:
        sealed = seal(request)
        told = await path.post("/v1/fetch", sealed.capsule)
        assert (told.status, told.headers["content-type"]) == (200, "message/ohttp-res")
        assert len(told.body) % 4096 == 0
        answer = read_answer(sealed.open_response(told.body))
        return answer.status, answer.content, answer.date

    # A fetch is answered at any time.
    async with running(now=ACCEPT_UNTIL + 1) as path:
        assert await fetch(path, fetch_request("/v1/keys")) == (200, b"the keys of now", DATE)
        assert await fetch(path, fetch_request("/v1/secrets")) == (404, b"", DATE)
        assert path.fetched == ["/v1/keys", "/v1/secrets"]
        status, content, _ = await fetch(path, package_request(plaintext()))
        assert (status, read_problem(content).name) == (400, "garbage")
        assert (await fetch(path, b"garbage"))[0] == 400
        assert path.nothing_stored()


# ── stored sealed ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_single_capsules_are_stored_sealed_and_opened_when_the_epoch_is_over() -> None:
    async with running() as path:
        sent = [sealed_package(train(i % 11)).capsule for i in range(30)]
        told = await asyncio.gather(*(path.post("/v1/capsule", capsule) for capsule in sent))
        assert {(one.status, one.body) for one in told} == {(202, b"")}
        assert path.opened() == []
        path.store.close_epoch(EPOCH)
        await path.ingest.finish(EPOCH)
        assert path.opened() == records(sent, [plaintext(train(i % 11)) for i in range(30)])
        assert path.store.sealed(EPOCH, 1) == []


@pytest.mark.parametrize(
    ("now", "name"), [(START - 1, "wrong-round"), (ACCEPT_UNTIL, "stale"), (ACCEPT_UNTIL + 10**9, "stale")]
)
@pytest.mark.parametrize("where", ["/v1/capsule", "/v1/batch"])
async def test_before_and_after_the_window_nothing_is_taken(where: str, now: int, name: str) -> None:
    async with running(now=now) as path:
        capsule = sealed_package().capsule
        told = await (path.batch([capsule]) if where == "/v1/batch" else path.post(where, capsule))
        assert problem(told) == name
        assert path.nothing_stored()


async def test_in_the_last_moment_it_is_still_taken() -> None:
    async with running(now=ACCEPT_UNTIL - 1) as path:
        assert (await path.post("/v1/capsule", sealed_package().capsule)).status == 202


async def test_a_batch_is_stored_as_it_is_and_opened_behind_the_scenes() -> None:
    async with running() as path:
        sent = [sealed_package(train(i % 11)).capsule for i in range(200)]
        garbage = sent[0][:-1] + b"\0"
        assert (await path.batch([*sent, garbage])).status == 202
        assert [group for _, group in path.store.sealed(EPOCH, 9)] == [packing.pack([*sent, garbage])]
        await path.ingest.finish(EPOCH)
        assert path.opened() == records(sent, [plaintext(train(i % 11)) for i in range(200)])


async def test_repro_a_batch_is_stored_as_a_whole_or_refused_as_a_whole() -> None:
    # What one epoch had taken and another had not was answered 202: acknowledged, and some of it lost.
    before = replace(OPEN_ROUND, number=ROUND - 1, epoch=EPOCH - 1)
    present = CurrentRounds((before, OPEN_ROUND), (OLD_KEY, KEY))
    async with running(present=present) as path:
        now, old = sealed_package().capsule, sealed_package(number=ROUND - 1, key=OLD_KEY).capsule
        unknown = sealed_package(key=UNKNOWN_KEY).capsule
        for mixed in ([old, now], [now, unknown]):
            assert problem(await path.batch(mixed)) == "garbage"
        assert not path.store.left_sealed(EPOCH)
        assert not path.store.left_sealed(EPOCH - 1)
        assert (await path.batch([now, now])).status == (await path.batch([old])).status == 202
        assert [group for _, group in path.store.sealed(EPOCH, 9)] == [packing.pack([now, now])]
        assert [group for _, group in path.store.sealed(EPOCH - 1, 9)] == [packing.pack([old])]
        assert problem(await path.batch([unknown])) == "unknown-key"
        assert problem(await path.batch([])) == "garbage"


async def test_a_large_batch_is_stored_in_groups() -> None:
    async with running() as path:
        sent = [bytes([KEY.key_id]) + b"%d" % i for i in range(2500)]
        assert (await path.batch(sent)).status == 202
        groups = [packing.unpack(group) for _, group in path.store.sealed(EPOCH, 9)]
        assert groups == [sent[:1000], sent[1000:2000], sent[2000:]]


# ── deposits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def deposit(
    capsules: list[bytes], *, key: SigningKey = RELAY, opens_at: int = START, counted: int | None = None
) -> bytes:
    number = len(capsules) if counted is None else counted
    count = RelayCount(opens_at=opens_at, clients=3, capsules=number).signed(key)
    return len(count).to_bytes(4, "little") + count + packing.pack(capsules)


async def test_a_deposit_is_one_whole_epoch_and_the_second_changes_nothing() -> None:
    async with running() as path:
        sent = [sealed_package(train(i % 11)).capsule for i in range(2100)]
        body = deposit(sent)
        for _ in range(2):
            told = await path.post("/v1/deposit", body, packing.MEDIA_TYPE, TOKEN)
            assert told.status == 202
        groups = [packing.unpack(group) for _, group in path.store.sealed(EPOCH, 100)]
        assert [capsule for group in groups for capsule in group] == sent
        assert max(len(group) for group in groups) <= 1000
        (kept,) = path.store.deposits(EPOCH)
        assert isinstance(kept, Deposit)
        assert (kept.epoch, kept.relay) == (EPOCH, RELAY.public.data.hex())
        assert kept.count in body


PACKAGE = sealed_package().capsule
#: By path: content that is refused, and the name of the problem.
REFUSED = {
    "/v1/fetch": [
        (b"", "garbage"),
        (b"\x09" * 6, "unknown-key"),
        (bytes([KEY.key_id]) * 6, "garbage"),
        (PACKAGE[:40], "garbage"),
        (PACKAGE[:-1] + b"\0", "garbage"),
        (sealed_package(key=UNKNOWN_KEY).capsule, "unknown-key"),
        # The key is known, the algorithm is not.
        (PACKAGE[:6] + b"\3" + PACKAGE[7:], "unknown-key"),
        (bytes(10_000_000), "too-large"),
    ],
    "/v1/capsule": [
        (b"", "wrong-size"),
        (b"\x09garbage", "unknown-key"),
        (bytes([KEY.key_id]) + bytes(2**14), "too-large"),
        (bytes(10_000_000), "too-large"),
    ],
    "/v1/batch": [(b"", "garbage"), (b"garbage", "garbage"), (packing.pack([b"1", b"22"])[:-1], "garbage")],
    "/v1/deposit": [
        (b"", "garbage"),
        (b"\0\0\0\0", "garbage"),
        (b"\xff\xff\xff\xff", "garbage"),
        (deposit([PACKAGE])[:-1], "garbage"),
        (deposit([PACKAGE], counted=2), "garbage"),
        (deposit([PACKAGE], key=STRANGER), "garbage"),
        (deposit([PACKAGE], opens_at=START - 1), "stale"),
    ],
}


@pytest.mark.parametrize(("where", "body", "name"), [(where, *row) for where, rows in REFUSED.items() for row in rows])
async def test_what_is_none_or_not_of_now_is_refused_in_clear(where: str, body: bytes, name: str) -> None:
    async with running() as path:
        many = where in ("/v1/batch", "/v1/deposit")
        told = await path.post(where, body, packing.MEDIA_TYPE if many else REQUEST_MEDIA_TYPE)
        assert (told.status, problem(told)) == (PROBLEMS[name].status, name)
        assert path.nothing_stored()
        assert path.store.deposits(EPOCH) == []


@pytest.mark.parametrize("token", ["", "another token", TOKEN + "x", TOKEN.upper()])
@pytest.mark.parametrize("where", ["/v1/batch", "/v1/deposit"])
async def test_only_a_relay_with_its_token_hands_over_many(where: str, token: str) -> None:
    async with running() as path:
        told = await path.post(where, packing.pack([sealed_package().capsule]), packing.MEDIA_TYPE, token)
        assert told.status == 401
        assert path.nothing_stored()


async def test_single_packages_are_taken_only_where_tests_are() -> None:
    async with running(tests=False) as path:
        capsule = sealed_package().capsule
        for where in ("/v1/capsule", "/v1/gateway"):
            assert (await path.post(where, capsule)).status == 404
        assert (await path.batch([capsule])).status == 404
        assert path.nothing_stored()


# ── what all routes have in common ───────────────────────────────────────────────────────────────────────────────────

ROUTES = ["/v1/fetch", "/v1/capsule", "/v1/batch", "/v1/deposit"]


@pytest.mark.parametrize("where", ROUTES)
async def test_another_media_type_or_method_is_refused(where: str) -> None:
    async with running() as path:
        assert (await path.post(where, sealed_package().capsule, "text/plain", TOKEN)).status == 415
        spelled = (
            packing.MEDIA_TYPE if where in {"/v1/batch", "/v1/deposit"} else "message/ohttp-req"
        ).title() + "; v=1"
        assert (await path.post(where, b"", spelled, TOKEN)).status == 400
        told = await path.send(f"GET {where} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        assert told.status == 405
        assert told.headers["content-type"] == "application/problem+json"
        assert path.nothing_stored()


@pytest.mark.parametrize("where", ["/v1/capsule", "/v1/batch", "/v1/deposit"])
async def test_where_too_much_waits_one_is_asked_to_come_again(where: str) -> None:
    def send(path: Running) -> Awaitable[Told]:
        capsule = sealed_package().capsule
        ways: dict[str, Callable[[], Awaitable[Told]]] = {
            "/v1/batch": lambda: path.batch([capsule]),
            "/v1/deposit": lambda: path.post(where, deposit([capsule]), packing.MEDIA_TYPE, TOKEN),
        }
        return ways.get(where, lambda: path.post(where, capsule))()

    for limits in (IngestLimits(requests=0), IngestLimits(content_bytes=20)):
        async with running(limits=limits) as path:
            told = await send(path)
            assert (told.status, problem(told)) == (503, "try-later")
            assert int(told.headers["retry-after"]) > 0
            assert path.nothing_stored()


async def test_an_epoch_that_the_store_has_closed_takes_nothing_more() -> None:
    async with running(present=PRESENT) as path:
        path.store.close_epoch(EPOCH)
        told = await path.post("/v1/capsule", sealed_package().capsule)
        assert (told.status, problem(told)) == (410, "stale")
        assert problem(await path.batch([sealed_package().capsule])) == "stale"
        body = deposit([sealed_package().capsule])
        assert problem(await path.post("/v1/deposit", body, packing.MEDIA_TYPE, TOKEN)) == "stale"
        assert path.nothing_stored()


async def test_packages_and_refusals_are_counted_in_sums_and_commits_are_timed() -> None:
    metrics = Metrics("coordinator")
    async with running(metrics=metrics) as path:
        capsules = [sealed_package(train(bin_index)).capsule for bin_index in range(4)]
        assert (await path.batch(capsules[:3])).status == 202
        assert (await path.post("/v1/capsule", capsules[3])).status == 202
        assert problem(await path.post("/v1/capsule", b"")) == "wrong-size"
    page = metrics.page()[0].decode()
    assert "secvm_coordinator_packages_total 4.0" in page
    assert 'secvm_coordinator_refused_total{problem="wrong-size"} 1.0' in page
    commits = next(line for line in page.splitlines() if line.startswith("secvm_coordinator_commits_total"))
    assert float(commits.split()[1]) >= 1
    assert "secvm_coordinator_commit_milliseconds_total" in page
