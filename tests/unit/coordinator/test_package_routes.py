"""What is sent over a real socket is stored, opened and answered, or refused by name; and then nothing has changed."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from secvm.coordinator.ingest import Limits
from secvm.coordinator.present import Present
from secvm.coordinator.store.port import Deposit, StoredKey
from secvm.crypto import binary_http
from secvm.crypto import capsules as packing
from secvm.crypto.oblivious import SealedRequest
from secvm.crypto.signing import SigningKey
from secvm.learning.package import TestPackage
from secvm.protocol.manifest import RelayCount
from secvm.protocol.problems import read_problem
from secvm.protocol.sealed_requests import fetch_request, package_request, read_answer
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
from tests.unit.protocol.helpers import RELAY, START, STRANGER, document

#: Both rounds are of the same slot; this key is of the slot before.
OLD_KEY = StoredKey(EPOCH - 1, (EPOCH - 1) % 256, bytes(range(1, 33)))
UNKNOWN_KEY = StoredKey(EPOCH + 9, (EPOCH + 9) % 256, bytes(range(2, 34)))


def problem(told: Told) -> str:
    assert told.headers["content-type"] == "application/problem+json"
    return read_problem(told.body).name


# ── one at a time, answered under the seal ───────────────────────────────────────────────────────────────────────────


def test_a_package_is_stored_before_it_is_answered_and_a_resend_is_answered_alike() -> None:
    async def check() -> None:
        async with running() as path:
            sealed = sealed_package(train(7))
            first = await path.forward(sealed)
            assert (first.status, first.content, first.date) == (202, b"", None)
            record = hashlib.sha256(sealed.capsule).digest() + plaintext(train(7))
            assert path.opened() == [record]
            assert await path.forward(sealed) == first
            # Both are there, under one digest: the count knows them for one.
            assert set(path.opened()) == {record}

    asyncio.run(check())


REFUSED: dict[str, tuple[str, SealedRequest]] = {
    "no request at all": ("garbage", seal(b"garbage")),
    "a fetch": ("garbage", seal(fetch_request("/v1/keys"))),
    "another path": (
        "garbage",
        seal(package_request(plaintext()).replace(b"/v1/packages", b"/v1/package5")),
    ),
    "no package": ("garbage", seal(package_request(b"\xff" * 32))),
    "a package of 31 bytes": (
        "wrong-size",
        seal(
            binary_http.encode_request(
                binary_http.Request(
                    method=b"POST", scheme=b"https", authority=b"x", path=b"/v1/packages", content=plaintext()[:31]
                )
            )
        ),
    ),
    "another experiment": ("unknown-experiment", sealed_package(of=document(title="Another"))),
    "a round before this one": ("stale", sealed_package(number=ROUND - 1)),
    "a round after this one": ("wrong-round", sealed_package(number=ROUND + 1)),
    "a bin out of range": ("bin-out-of-range", sealed_package(train(11))),
    "an unknown model": ("unknown-model", sealed_package(train(0, model=1))),
    "an unknown class": ("unknown-class", sealed_package(TestPackage(true_class=0, predicted_class=2))),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_wrong_with_a_package_is_told_under_its_seal(why: str) -> None:
    name, sealed = REFUSED[why]

    async def check() -> None:
        async with running() as path:
            told = await path.forward(sealed)
            found = read_problem(told.content)
            assert (found.name, found.status) == (name, told.status)
            assert path.nothing_stored()

    asyncio.run(check())


def test_every_answer_to_a_capsule_that_opens_has_one_length() -> None:
    async def check() -> None:
        async with running() as path:
            sent = [sealed_package(), sealed_package(train(3)), *(sealed for _, sealed in REFUSED.values())]
            told = [await path.post("/v1/gateway", sealed.capsule) for sealed in sent]
            assert {len(one.body) for one in told} == {16 + 512 + 16}
            assert len({tuple(one.headers.items()) for one in told}) == 1
            # Each has its own nonce: nothing tells answers apart or links them.
            assert len({one.body[:16] for one in told}) == len(told)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("body", "name", "status"),
    [
        (b"", "garbage", 400),
        (b"\x09" * 6, "unknown-key", 400),
        (bytes([KEY.key_id]) * 6, "garbage", 400),
        (sealed_package().capsule[:40], "garbage", 400),
        (sealed_package().capsule[:-1] + b"\0", "garbage", 400),
        (sealed_package(key=UNKNOWN_KEY).capsule, "unknown-key", 400),
        # The key is known, the algorithm is not.
        (sealed_package().capsule[:6] + b"\3" + sealed_package().capsule[7:], "unknown-key", 400),
        (bytes(10_000_000), "too-large", 413),
    ],
)
@pytest.mark.parametrize("where", ["/v1/gateway", "/v1/fetch"])
def test_a_capsule_that_does_not_open_is_told_so_in_clear(where: str, body: bytes, name: str, status: int) -> None:
    async def check() -> None:
        async with running() as path:
            told = await path.post(where, body)
            assert (told.status, problem(told)) == (status, name)
            assert path.nothing_stored()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("now", "name"), [(START - 1, "wrong-round"), (ACCEPT_UNTIL, "stale"), (ACCEPT_UNTIL + 10**9, "stale")]
)
@pytest.mark.parametrize("where", ["/v1/gateway", "/v1/capsule", "/v1/batch"])
def test_before_and_after_the_window_nothing_is_taken(where: str, now: int, name: str) -> None:
    async def check() -> None:
        async with running(now=now) as path:
            capsule = sealed_package().capsule
            told = await (path.batch([capsule]) if where == "/v1/batch" else path.post(where, capsule))
            assert problem(told) == name
            assert path.nothing_stored()

    asyncio.run(check())


def test_in_the_last_moment_it_is_still_taken() -> None:
    async def check() -> None:
        async with running(now=ACCEPT_UNTIL - 1) as path:
            assert (await path.forward(sealed_package())).status == 202
            assert (await path.post("/v1/capsule", sealed_package().capsule)).status == 202

    asyncio.run(check())


def test_a_package_under_another_epochs_key_is_of_another_round() -> None:
    before = replace(OPEN_ROUND, number=ROUND - 1, epoch=EPOCH - 1)
    present = Present((before, OPEN_ROUND), (OLD_KEY, KEY))

    async def check() -> None:
        async with running(present=present) as path:
            told = await path.forward(sealed_package(number=ROUND, key=OLD_KEY))
            assert read_problem(told.content).name == "wrong-round"
            assert (await path.forward(sealed_package(number=ROUND - 1, key=OLD_KEY))).status == 202
            assert path.nothing_stored(EPOCH)

    asyncio.run(check())


def test_of_two_rounds_in_one_epoch_each_has_its_own_end() -> None:
    other = document(title="Another", experiment=replace(OPEN_ROUND.document.experiment, n_bins=20))
    longer = replace(OPEN_ROUND, document=other, number=1, accept_until=ACCEPT_UNTIL + 1000)

    async def check() -> None:
        async with running(present=Present((OPEN_ROUND, longer), (KEY,)), now=ACCEPT_UNTIL) as path:
            assert read_problem((await path.forward(sealed_package())).content).name == "stale"
            assert (await path.forward(sealed_package(train(20), number=1, of=other))).status == 202

    asyncio.run(check())


# ── sealed fetches ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sealed_fetch_is_answered_from_the_public_files() -> None:
    async def fetch(path: Running, request: bytes) -> tuple[int, bytes, str | None]:
        sealed = seal(request)
        told = await path.post("/v1/fetch", sealed.capsule)
        assert (told.status, told.headers["content-type"]) == (200, "message/ohttp-res")
        assert (len(told.body) - 32) % 1024 == 0
        answer = read_answer(sealed.open_response(told.body))
        return answer.status, answer.content, answer.date

    async def check() -> None:
        # A fetch is answered at any time.
        async with running(now=ACCEPT_UNTIL + 1) as path:
            assert await fetch(path, fetch_request("/v1/keys")) == (200, b"the keys of now", DATE)
            assert await fetch(path, fetch_request("/v1/secrets")) == (404, b"", DATE)
            assert path.fetched == ["/v1/keys", "/v1/secrets"]
            status, content, _ = await fetch(path, package_request(plaintext()))
            assert (status, read_problem(content).name) == (400, "garbage")
            assert (await fetch(path, b"garbage"))[0] == 400
            assert path.nothing_stored()

    asyncio.run(check())


# ── stored sealed ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_single_capsules_are_stored_sealed_and_opened_when_the_epoch_is_over() -> None:
    async def check() -> None:
        async with running() as path:
            sent = [sealed_package(train(i % 11)).capsule for i in range(30)]
            told = await asyncio.gather(*(path.post("/v1/capsule", capsule) for capsule in sent))
            assert {(one.status, one.body) for one in told} == {(202, b"")}
            assert path.opened() == []
            path.store.close_epoch(EPOCH)
            await path.ingest.finish(EPOCH)
            assert path.opened() == records(sent, [plaintext(train(i % 11)) for i in range(30)])
            assert path.store.sealed(EPOCH, 1) == []

    asyncio.run(check())


@pytest.mark.parametrize(
    ("body", "name", "status"),
    [
        (b"", "wrong-size", 400),
        (b"\x09garbage", "unknown-key", 400),
        (bytes([KEY.key_id]) + bytes(2**14), "too-large", 413),
        (bytes(10_000_000), "too-large", 413),
    ],
)
def test_what_is_no_capsule_of_now_is_not_stored(body: bytes, name: str, status: int) -> None:
    async def check() -> None:
        async with running() as path:
            told = await path.post("/v1/capsule", body)
            assert (told.status, problem(told)) == (status, name)
            assert path.nothing_stored()

    asyncio.run(check())


def test_a_batch_is_stored_as_it_is_and_opened_behind_the_scenes() -> None:
    async def check() -> None:
        async with running() as path:
            sent = [sealed_package(train(i % 11)).capsule for i in range(200)]
            garbage = sent[0][:-1] + b"\0"
            assert (await path.batch([*sent, garbage])).status == 202
            assert [group for _, group in path.store.sealed(EPOCH, 9)] == [packing.pack([*sent, garbage])]
            await path.ingest.finish(EPOCH)
            assert path.opened() == records(sent, [plaintext(train(i % 11)) for i in range(200)])

    asyncio.run(check())


def test_repro_a_batch_is_stored_as_a_whole_or_refused_as_a_whole() -> None:
    # What one epoch had taken and another had not was answered 202: acknowledged, and some of it lost.
    async def check() -> None:
        before = replace(OPEN_ROUND, number=ROUND - 1, epoch=EPOCH - 1)
        present = Present((before, OPEN_ROUND), (OLD_KEY, KEY))
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

    asyncio.run(check())


def test_a_large_batch_is_stored_in_groups() -> None:
    async def check() -> None:
        async with running() as path:
            sent = [bytes([KEY.key_id]) + b"%d" % i for i in range(2500)]
            assert (await path.batch(sent)).status == 202
            groups = [packing.unpack(group) for _, group in path.store.sealed(EPOCH, 9)]
            assert groups == [sent[:1000], sent[1000:2000], sent[2000:]]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("body", "name"), [(b"", "garbage"), (b"garbage", "garbage"), (packing.pack([b"1", b"22"])[:-1], "garbage")]
)
def test_a_batch_that_is_none_is_refused(body: bytes, name: str) -> None:
    async def check() -> None:
        async with running() as path:
            assert problem(await path.post("/v1/batch", body, packing.MEDIA_TYPE, TOKEN)) == name
            assert path.nothing_stored()

    asyncio.run(check())


# ── deposits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def deposit(
    capsules: list[bytes], *, key: SigningKey = RELAY, opens_at: int = START, counted: int | None = None
) -> bytes:
    number = len(capsules) if counted is None else counted
    count = RelayCount(opens_at=opens_at, clients=3, capsules=number).to_signed_bytes(key)
    return len(count).to_bytes(4, "little") + count + packing.pack(capsules)


def test_a_deposit_is_one_whole_epoch_and_the_second_changes_nothing() -> None:
    async def check() -> None:
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

    asyncio.run(check())


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"", "garbage"),
        (b"\0\0\0\0", "garbage"),
        (b"\xff\xff\xff\xff", "garbage"),
        (deposit([sealed_package().capsule])[:-1], "garbage"),
        (deposit([sealed_package().capsule], counted=2), "garbage"),
        (deposit([sealed_package().capsule], key=STRANGER), "garbage"),
        (deposit([sealed_package().capsule], opens_at=START - 1), "stale"),
    ],
)
def test_a_deposit_that_does_not_add_up_is_refused(body: bytes, name: str) -> None:
    async def check() -> None:
        async with running() as path:
            assert problem(await path.post("/v1/deposit", body, packing.MEDIA_TYPE, TOKEN)) == name
            assert path.nothing_stored()
            assert path.store.deposits(EPOCH) == []

    asyncio.run(check())


@pytest.mark.parametrize("token", ["", "another token", TOKEN + "x", TOKEN.upper()])
@pytest.mark.parametrize("where", ["/v1/batch", "/v1/deposit"])
def test_only_a_relay_with_its_token_hands_over_many(where: str, token: str) -> None:
    async def check() -> None:
        async with running() as path:
            told = await path.post(where, packing.pack([sealed_package().capsule]), packing.MEDIA_TYPE, token)
            assert told.status == 401
            assert path.nothing_stored()

    asyncio.run(check())


@pytest.mark.parametrize("token", ["", "another token"])
def test_a_gateway_that_is_not_open_to_anybody_takes_single_capsules_from_relays_alone(token: str) -> None:
    async def check() -> None:
        async with running(anybody=False, tests=False) as path:
            capsule = sealed_package().capsule
            assert (await path.post("/v1/gateway", capsule, "message/ohttp-req", token)).status == 401
            assert (await path.post("/v1/capsule", capsule, "message/ohttp-req", TOKEN)).status == 404
            assert (await path.batch([capsule])).status == 404
            assert path.nothing_stored()
            assert (await path.post("/v1/gateway", capsule, "message/ohttp-req", TOKEN)).status == 200
            assert not path.nothing_stored()

    asyncio.run(check())


# ── what all routes have in common ───────────────────────────────────────────────────────────────────────────────────

ROUTES = ["/v1/gateway", "/v1/fetch", "/v1/capsule", "/v1/batch", "/v1/deposit"]


@pytest.mark.parametrize("where", ROUTES)
def test_another_media_type_or_method_is_refused(where: str) -> None:
    async def check() -> None:
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

    asyncio.run(check())


@pytest.mark.parametrize("where", ["/v1/gateway", "/v1/capsule", "/v1/batch", "/v1/deposit"])
def test_where_too_much_waits_one_is_asked_to_come_again(where: str) -> None:
    def send(path: Running) -> Awaitable[Told]:
        capsule = sealed_package().capsule
        ways: dict[str, Callable[[], Awaitable[Told]]] = {
            "/v1/batch": lambda: path.batch([capsule]),
            "/v1/deposit": lambda: path.post(where, deposit([capsule]), packing.MEDIA_TYPE, TOKEN),
        }
        return ways.get(where, lambda: path.post(where, capsule))()

    async def check() -> None:
        for limits in (Limits(requests=0), Limits(content_bytes=20)):
            async with running(limits=limits) as path:
                told = await send(path)
                assert (told.status, problem(told)) == (503, "try-later")
                assert int(told.headers["retry-after"]) > 0
                assert path.nothing_stored()

    asyncio.run(check())


def test_an_epoch_that_the_store_has_closed_takes_nothing_more() -> None:
    async def check() -> None:
        async with running(present=PRESENT) as path:
            path.store.close_epoch(EPOCH)
            told = await path.post("/v1/capsule", sealed_package().capsule)
            assert (told.status, problem(told)) == (410, "stale")
            assert problem(await path.batch([sealed_package().capsule])) == "stale"
            body = deposit([sealed_package().capsule])
            assert problem(await path.post("/v1/deposit", body, packing.MEDIA_TYPE, TOKEN)) == "stale"
            assert path.nothing_stored()

    asyncio.run(check())


def test_repro_a_forwarded_package_that_a_closed_epoch_refused_looked_acknowledged() -> None:
    """Its refusal was under the seal of an answer with 200, which devices do not open and take for yes."""

    async def check() -> None:
        async with running(present=PRESENT) as path:
            path.store.close_epoch(EPOCH)
            told = await path.post("/v1/gateway", sealed_package().capsule)
            assert (told.status, problem(told)) == (410, "stale")
            assert path.nothing_stored()

    asyncio.run(check())


def test_repro_one_capsule_sent_again_and_again_does_not_fill_the_disk() -> None:
    async def check() -> None:
        async with running(limits=Limits(remembered=2)) as path:
            sealed = [sealed_package(train(i)) for i in range(3)]
            for _ in range(5):
                assert (await path.forward(sealed[0])).status == 202
            assert len(path.opened()) == 1
            # Memory is bounded: what is long ago is stored again, and counts once all the same.
            for one in (*sealed[1:], sealed[0]):
                assert (await path.forward(one)).status == 202
            assert (len(path.opened()), len(set(path.opened()))) == (4, 3)

    asyncio.run(check())


def test_repro_the_relay_could_read_in_the_metrics_what_it_was_told_under_the_seal() -> None:
    async def check() -> None:
        metrics = Metrics("coordinator")
        async with running(metrics=metrics) as path:
            before = metrics.page()[0]
            for wrong in (sealed_package(train(5), number=ROUND + 1), sealed_package(train(2**20))):
                assert (await path.forward(wrong)).status != 202
                changed = {*metrics.page()[0].splitlines()} - {*before.splitlines()}
                assert [line for line in changed if b"refused_total" in line and b"under-seal" not in line] == []

    asyncio.run(check())


def test_packages_and_refusals_are_counted_in_sums_and_commits_are_timed() -> None:
    async def check() -> None:
        metrics = Metrics("coordinator")
        async with running(metrics=metrics) as path:
            capsules = [sealed_package(train(bin_index)).capsule for bin_index in range(4)]
            assert (await path.batch(capsules[:3])).status == 202
            assert (await path.post("/v1/capsule", capsules[3])).status == 202
            await path.forward(sealed_package(train(9)))
            assert problem(await path.post("/v1/capsule", b"")) == "wrong-size"
            # One that is told under its seal what is wrong.
            assert (await path.forward(sealed_package(train(5), number=ROUND + 1))).status != 202
        page = metrics.page()[0].decode()
        assert 'secvm_coordinator_packages_total{how="sealed"} 4.0' in page
        assert 'secvm_coordinator_packages_total{how="opened"} 1.0' in page
        assert 'secvm_coordinator_refused_total{problem="wrong-size"} 1.0' in page
        assert 'secvm_coordinator_refused_total{problem="under-seal"} 1.0' in page
        commits = next(line for line in page.splitlines() if line.startswith("secvm_coordinator_commits_total"))
        assert float(commits.split()[1]) >= 1
        assert "secvm_coordinator_commit_milliseconds_total" in page

    asyncio.run(check())
