"""What many devices share: the same question has the same answer, and another question never gets it."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secvm.errors import CheatingError, EquivocationError, MalformedMessageError
from secvm.learning import aggregate
from secvm.participant.sending.transport import Fetched
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.documents.recomputation import next_model
from secvm.protocol.trust import trusted_log as checking_module
from secvm.protocol.trust.trusted_log import Checking
from secvm.protocol.trust.trusted_rounds import Served, TrustedRounds
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.unit.participant.logged_world import LoggedWorld
from tests.unit.participant.world import BUDGET


def history_of(seed: int, rounds: int = 3) -> PublicHistory:
    history = PublicHistory.drawn(random.Random(seed))
    history.play(rounds)
    history.announce()
    return history


def believe_all(history: PublicHistory, checking: Checking) -> TrustedRounds:
    trusted = TrustedRounds(history.document, history.envelope, checking=checking)
    trusted.believe(trusted.check(history.served(trusted), now=history.now))
    return trusted


@pytest.mark.parametrize("seed", range(8))
def test_sharing_comes_to_the_same_as_checking_alone(seed: int) -> None:
    shared, history = SharedChecks(), history_of(seed)
    alone = believe_all(history, Checking())
    for _ in range(3):
        trusted = believe_all(history, shared)
        assert trusted.trusted == alone.trusted
        assert trusted.model().names == alone.model().names


def _changed(served: Served, part: str, at: int) -> Served | None:
    """The same with one byte of a part changed; None: there is no such part."""

    def flip(data: bytes) -> bytes:
        i = at % len(data)
        return data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]

    if part == "manifest":
        return replace(served, manifests=(*served.manifests[:-1], flip(served.manifests[-1])))
    if part == "checkpoint":
        # A byte of the checkpoint's text; a line of an unknown witness would be passed over.
        cut = served.checkpoint.index(b"\n\n")
        return replace(served, checkpoint=flip(served.checkpoint[:cut]) + served.checkpoint[cut:])
    if part == "line":
        return replace(served, lines=(*served.lines[:-1], flip(served.lines[-1])))
    name = min(served.tallies, default=None)
    return None if name is None else replace(served, tallies={**served.tallies, name: flip(served.tallies[name])})


def test_wrong_model_is_not_believed_because_another_device_computed_the_right_one() -> None:
    shared, honest = SharedChecks(), history_of(3, rounds=1)
    believe_all(honest, shared)

    class Liar(PublicHistory):
        def step(self, state: Any, tally: Any) -> Any:
            return super().step(super().step(state, tally), tally)

    liar = Liar.drawn(random.Random(3))
    liar.announce()
    liar.conclude(liar.draw_tally())
    liar.announce()
    trusted = TrustedRounds(liar.document, liar.envelope, checking=shared)
    with pytest.raises(CheatingError, match="does not follow"):
        trusted.check(liar.served(trusted), now=liar.now)


def test_second_manifest_is_told_apart_also_when_both_are_known() -> None:
    shared, history = SharedChecks(), history_of(1, rounds=0)
    first = history.files[f"{history.place}/manifest/1"]
    (manifest,) = history.manifests
    changed = replace(manifest, quota=manifest.quota + 1).signed([history.parties.coordinator])
    one = shared.accept(first, document=history.document)
    two = shared.accept(changed, document=history.document)
    assert shared.accept(first, document=history.document, last=one) is one
    for data, last in ((changed, one), (first, two)):
        with pytest.raises(EquivocationError):
            shared.accept(data, document=history.document, last=last)


def test_tally_that_was_not_read_here_is_computed_anew() -> None:
    shared, history = SharedChecks(), history_of(2, rounds=0)
    model = shared.first(history.document)
    tally, other = history.draw_tally(), history.draw_tally()
    for one in (tally, other, tally):
        expected = next_model(history.document, model.state, one)
        found = shared.following(history.document, model, one)
        assert found.names == expected.names
        # The same tally from another state.
        again = next_model(history.document, found.state, one)
        assert shared.following(history.document, found, one).names == again.names


async def test_many_devices_replay_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, shared = LoggedWorld(tmp_path), SharedChecks()
    steps: list[object] = []

    def counted(*told: Any) -> Any:
        steps.append(told)
        return next_model(*told)

    monkeypatch.setattr(checking_module, "next_model", counted)
    devices = world.crowd(5, checks=shared)

    for _ in range(3):
        manifest = world.announce()
        while world.clock.now() < manifest.accept_until:
            for device in devices:
                while jobs := device.wake():
                    for job in jobs:
                        await device.carry_out(job)
            # Not beyond a moment at which one wants to be woken: in the window's last moment all must leave.
            now = world.clock.now()
            world.clock.advance(min(manifest.accept_until, *(max(now + 1, one.wake_at) for one in devices)) - now)
        world.conclude()

    assert len(world.net.arrived) == 3 * 5 * BUDGET
    assert len(steps) == 2
    blobs = [path for path, _ in world.net.fetches if "/v1/blob/" in path]
    assert len(blobs) == 2
    for device in devices:
        assert device.state.trust.checks(world.of.digest)["steps"] == 2
        device.close()


async def test_repro_who_stops_waiting_for_a_tally_does_not_take_it_from_the_others() -> None:
    shared, document = SharedChecks(), history_of(3).document
    tally = aggregate.empty_tally(document.experiment)
    data = encode_tally(tally, document.experiment)

    served = asyncio.Event()

    class Slow(MemoryTransport):
        async def fetch(self, path: str, *, most: int = 2**30, gateway_keys: bytes | None = None) -> Fetched | None:
            await served.wait()
            return Fetched(data)

    net = Slow(lambda: 0)
    first, second, third = (
        asyncio.create_task(shared.fetch_tally(tally_digest(tally), net, document=document)) for _ in range(3)
    )
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    served.set()
    assert await first == data
    assert await third == data
    assert second.cancelled()


def test_bytes_that_are_no_tally_of_the_name_are_not_kept() -> None:
    document = history_of(3).document
    empty, other = aggregate.empty_tally(document.experiment), aggregate.empty_tally(document.experiment)
    other.cells[:] = 1
    shared, net, name = SharedChecks(), MemoryTransport(lambda: 0), tally_digest(empty)
    for served, kept in ((b"no tally", None), (encode_tally(other, document.experiment), None)):
        net.files = {f"/v1/blob/{name}": served}
        assert asyncio.run(shared.fetch_tally(name, net, document=document)) is kept
    net.files = {f"/v1/blob/{name}": encode_tally(empty, document.experiment)}
    assert asyncio.run(shared.fetch_tally(name, net, document=document)) == net.files[f"/v1/blob/{name}"]


def test_bytes_that_were_read_by_their_name_are_refused_by_another() -> None:
    shared, document = SharedChecks(), history_of(3).document
    tally, first = aggregate.empty_tally(document.experiment), shared.first(document)
    data = encode_tally(tally, document.experiment)
    shared.tally(data, digest=tally_digest(tally), document=document)
    shared.model(first.state_bytes, digest=first.names[0], document=document)
    with pytest.raises(MalformedMessageError):
        shared.tally(data, digest="00" * 32, document=document)
    with pytest.raises(MalformedMessageError):
        shared.model(first.state_bytes, digest="00" * 32, document=document)
