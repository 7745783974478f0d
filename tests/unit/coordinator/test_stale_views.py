"""A node that has not heard of the newest round or key looks once more before it refuses anything for that."""

import asyncio
from dataclasses import replace

import pytest

from secvm.coordinator.intake.opener import Opener
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.store.memory import CLAIM_S, MemoryStore
from secvm.crypto.sealing import capsules as packing
from secvm.errors import StoreError
from secvm.protocol.plain.sealed_requests import fetch_request, read_answer
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.package_path import (
    EPOCH,
    KEY,
    OPEN_ROUND,
    PRESENT,
    ROUND,
    TOKEN,
    Running,
    plaintext,
    records,
    running,
    seal,
    sealed_package,
    train,
)
from tests.unit.coordinator.rounds import until
from tests.unit.coordinator.test_package_routes import UNKNOWN_KEY, deposit, problem

#: Views of a node that lags: nothing at all, the key without its round, the round before.
STALE = {
    "nothing": CurrentRounds(),
    "a key whose round is not known": CurrentRounds((), (KEY,)),
    "the round before": CurrentRounds((replace(OPEN_ROUND, number=ROUND - 1),), (KEY,)),
}


class View:
    """What a node knows, and how often it looked."""

    def __init__(self, fresh: CurrentRounds = PRESENT) -> None:
        self.fresh, self.looks = fresh, 0
        self.path: Running | None = None
        self.away = False

    async def refresh(self) -> None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.away:
            raise StoreError("the database does not answer")
        assert self.path is not None
        self.path.routes.update(self.fresh)


@pytest.mark.parametrize("stale", ["nothing", "a key whose round is not known"])
async def test_batches_deposits_and_single_capsules_are_taken_whole(stale: str) -> None:
    sent = [sealed_package(train(i)).capsule for i in range(4)]
    for where in ("batch", "capsule", "deposit"):
        view = View()
        async with running(present=STALE[stale], refresh=view.refresh) as path:
            view.path = path
            if where == "batch":
                told = await path.batch(sent)
            elif where == "capsule":
                told = await path.post("/v1/capsule", sent[0])
            else:
                told = await path.post("/v1/deposit", deposit(sent), packing.MEDIA_TYPE, TOKEN)
            assert (told.status, view.looks) == (202, 1)
            held = [one for _, group in path.store.sealed(EPOCH, 9) for one in packing.unpack(group)]
            assert held == (sent[:1] if where == "capsule" else sent)
            # What is known is taken without a look.
            assert (await path.post("/v1/capsule", sealed_package(train(6)).capsule)).status == 202
            assert view.looks == 1


async def test_what_is_refused_after_a_look_is_refused_as_before() -> None:
    view = View()
    async with running(refresh=view.refresh) as path:
        view.path = path
        assert problem(await path.post("/v1/capsule", sealed_package(key=UNKNOWN_KEY).capsule)) == "unknown-key"
        assert problem(await path.batch([sealed_package(key=UNKNOWN_KEY).capsule])) == "unknown-key"
        assert view.looks == 2
        # Garbage is no news; nor is a batch of several epochs.
        assert problem(await path.post("/v1/batch", b"\x00", packing.MEDIA_TYPE, TOKEN)) == "garbage"
        mixed = [sealed_package(train(1)).capsule, sealed_package(key=UNKNOWN_KEY).capsule]
        assert problem(await path.batch(mixed)) == "garbage"
        assert view.looks == 2


async def test_where_the_store_cannot_be_asked_it_may_come_again() -> None:
    view = View()
    view.away = True
    async with running(present=CurrentRounds(), refresh=view.refresh) as path:
        view.path = path
        told = await path.post("/v1/capsule", sealed_package().capsule)
        assert (problem(told), told.headers["retry-after"]) == ("try-later", "2")
        told = await path.post("/v1/deposit", deposit([sealed_package().capsule]), packing.MEDIA_TYPE, TOKEN)
        assert problem(told) == "try-later"
        assert path.nothing_stored()


@pytest.mark.parametrize("stale", ["nothing", "the round before"])
async def test_a_sealed_fetch_is_answered_by_a_view_that_is_not_older(stale: str) -> None:
    view = View()
    async with running(present=STALE[stale], refresh=view.refresh) as path:
        view.path = path
        for name, status in (("/v1/keys", 200), ("/v1/experiments", 404)):
            sealed = seal(fetch_request(name))
            told = await path.post("/v1/fetch", sealed.capsule)
            assert read_answer(sealed.open_response(told.body)).status == status
        assert path.fetched == ["/v1/keys", "/v1/experiments"]
        assert view.looks == 2


async def test_repro_a_manifest_from_memory_while_shards_lie_in_a_database_that_is_away() -> None:
    """Devices would take it for ill will: no shard can be had, although other files are served."""
    view = View()
    async with running(refresh=view.refresh) as path:
        view.path, view.away = path, True
        # This one is at hand, and is not told of either.
        told = await path.post("/v1/fetch", seal(fetch_request("/v1/keys")).capsule)
        assert (problem(told), told.headers["retry-after"]) == ("try-later", "2")
        assert path.fetched == []


# ── opening what others have stored ──────────────────────────────────────────────────────────────────────────────────


async def test_groups_are_opened_by_a_view_that_is_newer_than_they_are() -> None:
    store = MemoryStore()
    store.add_key(KEY)
    sealed = sealed_package(train(3))
    store.append_sealed(EPOCH, [packing.pack([sealed.capsule])])
    opener = Opener(store, metrics=Metrics("coordinator"), fresh=lambda: refresh())  # noqa: PLW0108  (defined below)

    async def refresh() -> None:
        # It has the group by then: what is read now is newer than anything in it.
        assert store.another_node().sealed(EPOCH, 9) == []
        opener.update(PRESENT)

    await opener.finish(EPOCH)
    assert list(store.opened(EPOCH)) == records([sealed.capsule], [plaintext(train(3))])


async def test_the_end_waits_for_what_another_node_is_opening_and_takes_it_when_that_one_is_dead() -> None:
    clock = ManualClock(0)
    store = MemoryStore(clock)
    store.add_key(KEY)
    capsules = [sealed_package(train(i)).capsule for i in range(3)]
    store.append_sealed(EPOCH, [packing.pack([one]) for one in capsules])
    # It claims two of them, and is heard of no more.
    assert len(store.another_node().sealed(EPOCH, 2)) == 2
    opener = Opener(store, metrics=Metrics("coordinator"))
    opener.update(PRESENT)
    ending = asyncio.ensure_future(opener.finish(EPOCH))
    await until(lambda: len(list(store.opened(EPOCH))) == 1)
    assert store.left_sealed(EPOCH)
    assert not ending.done()
    clock.advance(int(1000 * CLAIM_S))
    await ending
    assert not store.left_sealed(EPOCH)
    block = b"".join(store.opened(EPOCH))
    assert sorted(block[i : i + 64] for i in range(0, len(block), 64)) == records(
        capsules, [plaintext(train(i)) for i in range(3)]
    )


async def test_an_idle_opener_finds_what_another_node_has_stored() -> None:
    store = MemoryStore()
    store.add_key(KEY)
    opener = Opener(store.another_node(), metrics=Metrics("coordinator"), gather_s=0.0, look_s=0.001)
    opener.update(PRESENT)
    opener.start()
    await until(lambda: not opener._sealed and not opener._something.is_set())
    store.append_sealed(EPOCH, [packing.pack([sealed_package(train(1)).capsule])])
    await until(lambda: not store.left_sealed(EPOCH))
    await opener.close()
    assert len(list(store.opened(EPOCH))) == 1
