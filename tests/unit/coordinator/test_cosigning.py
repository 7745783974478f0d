"""Witnesses over real sockets: those that answer, those that do not, and those that answer something else."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from secvm.coordinator.experiments.history import PlainHistories
from secvm.coordinator.log.cosigning import MAX_ANSWER_BYTES, Cosigner, WitnessAddress
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.notes import Note, SignatureKind, cosign_note
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import CosigningRequest, write_cosignatures, write_size
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import stop_listening
from secvm.testing.clock import ManualClock
from secvm_lab.rigs.conversations import Conversations
from tests.unit.coordinator.rounds import add, at_work, until
from tests.unit.coordinator.witnesses import KEYS, TERMS, Answer, TinyWitness, all_answer, logged, serving
from tests.unit.protocol.helpers import LOG, START, STRANGER, WITNESSES


class Scene:
    """A logbook with one experiment, and three witnesses behind sockets."""

    def __init__(self, store: CoordinatorStore | None = None) -> None:
        self.clock = ManualClock(START)
        self.witnesses = [TinyWitness(i, self.clock) for i in range(3)]
        self.store = store or MemoryStore()
        self.of = logged()
        self.woken = 0
        self.lines = io.StringIO()
        self.begin()

    def begin(self) -> None:
        """As after a restart."""
        add(self.store, self.of)
        self.books = PlainHistories(self.store)
        self.logbook = Logbook(self.store, LOG, TERMS)
        self.logbook.follow(self.books.read())

    def wake(self) -> None:
        self.woken += 1

    def count(self, name: str) -> float:
        lines = self.metrics.page()[0].decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"secvm_coordinator_{name} ")).split(" ")[1])

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.lines.getvalue().splitlines()]

    def play(self, act: Callable[[Cosigner], Awaitable[None]], *, timeout_s: float = 5.0) -> None:
        self.metrics = Metrics("coordinator")

        async def main() -> None:
            async with AsyncExitStack() as stack:
                urls = [await stack.enter_async_context(serving(one.add_checkpoint)) for one in self.witnesses]
                addresses = [WitnessAddress(key, url) for key, url in zip(KEYS, urls, strict=True)]
                cosigner = Cosigner(
                    self.logbook,
                    addresses,
                    self.clock,
                    wake=self.wake,
                    log=Log(self.lines, self.clock, "coordinator"),
                    metrics=self.metrics,
                    timeout_s=timeout_s,
                    first_pause_s=0.001,
                )
                await act(cosigner)

        asyncio.run(main())


async def once(cosigner: Cosigner) -> None:
    await cosigner.ask_all()


def checkpoint_of(body: bytes) -> Checkpoint:
    return Checkpoint.from_text(Note.from_bytes(CosigningRequest.from_bytes(body).checkpoint).text)


def test_three_witnesses_cosign_and_the_driver_is_woken() -> None:
    scene = Scene()
    scene.play(once)
    assert scene.logbook.cosigned() == scene.logbook.log.size == 1
    assert set(scene.logbook.lines) == set(KEYS)
    assert scene.woken > 0
    assert scene.count('cosignatures_total{witness="w0.example"}') == 1
    assert scene.count("log_entries_cosigned") == 1
    assert scene.count("log_waiting") == 0
    # The experiment's first checkpoint, and the newest.
    assert [(held.name.split(" ")[0], held.size) for held in scene.store.notes()] == [("first", 1), ("newest", 1)]


def test_witnesses_that_did_not_cosign_the_newest_checkpoint_are_named() -> None:
    scene = Scene()
    assert scene.logbook.health()["silent"] == ["w0.example", "w1.example", "w2.example"]
    for witness in scene.witnesses[1:]:
        witness.instead = says(500)
    scene.play(once)
    assert (scene.logbook.waiting(), scene.logbook.health()["silent"]) == (True, ["w1.example", "w2.example"])
    scene.witnesses[1].instead = None
    scene.play(once)
    assert (scene.logbook.waiting(), scene.logbook.health()["silent"]) == (False, ["w2.example"])
    # After a restart each must speak again, whatever is stored.
    scene.witnesses[2].instead = None
    scene.begin()
    assert scene.logbook.health()["silent"] == ["w0.example", "w1.example", "w2.example"]
    scene.play(once)
    assert scene.logbook.health()["silent"] == []


def test_many_experiments_are_cosigned_together() -> None:
    scene = Scene()
    for number in range(20):
        add(scene.store, logged(title=f"number {number}"))
    scene.logbook.follow(scene.books.read())
    scene.play(once)
    # The log had one entry when it was asked about, and twenty-one when a quorum had that.
    scene.play(once)
    assert scene.logbook.cosigned() == 21
    assert [witness.asked for witness in scene.witnesses] == [2, 2, 2]
    assert all(scene.logbook.first(one.digest) is not None for one in scene.store.experiments())


def cosigned(
    of: Checkpoint | None = None, *, key: SigningKey = WITNESSES[0], name: str = KEYS[0].name, days: int = 0
) -> Callable[[bytes], Answer]:
    """An answer with a line under the checkpoint that is asked about, or under another one."""

    def answer(body: bytes) -> Answer:
        line = (of or checkpoint_of(body)).cosign(key, name=name, time_s=START // 1000 + 86_400 * days)
        return 200, write_cosignatures([line])

    return answer


def says(status: int, data: bytes = b"") -> Callable[[bytes], Answer]:
    return lambda _body: (status, data)


refused = says(403, b"nobody knows this log\n")
#: Answers that are no cosignature of the first witness.
INSTEAD: dict[str, Callable[[bytes], Answer]] = {
    "garbage": says(200, b"\xff\x00 no lines"),
    "nothing": says(200),
    "too long": says(200, b"x" * (MAX_ANSWER_BYTES + 1)),
    "a redirect": says(307),
    "a refusal": refused,
    "no size": says(409, b"many\n"),
    # With old = 0 and size 1 this is no sign of another log.
    "the same size again": lambda body: (409, write_size(CosigningRequest.from_bytes(body).old)),
    "another checkpoint": cosigned(Checkpoint(TERMS.log_key.name, 1, bytes(32))),
    "another key": cosigned(key=STRANGER),
    "another witness": cosigned(key=WITNESSES[1], name=KEYS[1].name),
    "last year": cosigned(days=-365),
    "next year": cosigned(days=365),
}


@pytest.mark.parametrize("name", INSTEAD)
def test_answer_that_is_no_cosignature_does_not_count_and_the_others_are_enough(name: str) -> None:
    scene = Scene()
    scene.witnesses[0].instead = INSTEAD[name]
    scene.play(once)
    assert KEYS[0] not in scene.logbook.lines
    assert scene.logbook.cosigned() == 1
    assert not scene.logbook.halted
    assert scene.count('witness_failures_total{witness="w0.example"}') >= 1
    assert scene.count('cosignatures_total{witness="w0.example"}') == 0
    assert "not-cosigned" in scene.events()


def test_a_redirect_is_not_followed_even_to_a_good_witness() -> None:
    scene = Scene()

    async def redirecting(cosigner: Cosigner) -> None:
        good = cosigner._witnesses[0].url + "/add-checkpoint"
        async with serving(says(307), elsewhere=good) as url:
            cosigner._witnesses = (WitnessAddress(KEYS[0], url), *cosigner._witnesses[1:])
            await cosigner.ask_all()

    scene.play(redirecting)
    assert scene.witnesses[0].asked == 0
    assert KEYS[0] not in scene.logbook.lines


@pytest.mark.parametrize("name", ["garbage", "another checkpoint", "another witness"])
def test_one_good_witness_of_three_is_no_quorum(name: str) -> None:
    scene = Scene()
    scene.witnesses[0].instead = scene.witnesses[2].instead = INSTEAD[name]
    scene.play(once)
    assert scene.logbook.cosigned() == 0
    assert scene.store.notes() == []
    assert scene.woken == 0


def test_further_lines_of_strangers_in_an_answer_do_not_reach_the_note() -> None:
    scene = Scene()

    def with_more(body: bytes) -> Answer:
        status, data = scene.witnesses[0].honest(body)
        text = checkpoint_of(body).to_text()
        more = cosign_note(text, name="somebody.example", key=STRANGER, time_s=START // 1000)
        return status, data + write_cosignatures([more])

    scene.witnesses[0].instead = with_more
    scene.play(once)
    note = scene.logbook.note()
    assert note is not None
    names = {line.name for line in note.note.signatures}
    assert names == {scene.logbook.key.name, *(key.name for key in KEYS)}
    assert all(key.kind is SignatureKind.COSIGNATURE for key in KEYS)


def test_a_witness_that_has_seen_less_than_believed_is_asked_again_with_a_proof_from_there() -> None:
    scene = Scene()
    scene.play(once)
    # One has lost its memory, and the log has grown twice.
    scene.witnesses[0].newest.clear()
    for title in ("second", "third"):
        add(scene.store, logged(title=title))
    scene.logbook.follow(scene.books.read())
    scene.play(once)
    assert scene.logbook.cosigned() == 3
    assert {witness.newest[scene.logbook.key.name].size for witness in scene.witnesses} == {3}


def test_a_witness_that_cosigned_before_we_died_is_asked_again_and_agrees() -> None:
    scene = Scene()

    def lost(body: bytes) -> Answer:
        scene.witnesses[1].honest(body)
        return 500, b""

    scene.witnesses[1].instead = lost
    scene.witnesses[2].instead = refused
    scene.play(once)
    assert scene.logbook.cosigned() == 0
    scene.begin()
    scene.witnesses[1].instead = None
    scene.play(once)
    assert scene.logbook.cosigned() == 1
    assert len(set(scene.witnesses[1].cosigned)) == 1


@pytest.mark.parametrize("more", [0, 1, 1000])
def test_a_witness_that_has_seen_another_log_halts_it_and_nothing_more_is_signed(more: int) -> None:
    scene = Scene()
    origin = scene.logbook.key.name
    scene.witnesses[0].newest[origin] = Checkpoint(origin, 1 + more, bytes(32))
    scene.play(once)
    assert scene.logbook.halted
    assert "log-halted-witness-has-seen-another" in scene.events()
    assert scene.count("log_halted") == 1
    assert scene.logbook.health()["halted"] == 1
    assert scene.store.experiments()[0].standing is Standing.PAUSED
    assert scene.woken > 0
    with pytest.raises(LocalProtocolError):
        scene.logbook.checkpoint()
    asked = [witness.asked for witness in scene.witnesses]
    scene.clock.advance(1000 * TERMS.freshness_s // 2)
    scene.play(once)
    assert [witness.asked for witness in scene.witnesses] == asked


@pytest.mark.parametrize("answer", [(409, write_size(1)), (409, b""), (422, b"")])
def test_repro_a_fork_is_no_reason_to_try_again_by_the_answer_of_before_or_of_now(answer: Answer) -> None:
    scene = Scene()
    scene.play(once)
    scene.clock.advance(1000 * TERMS.freshness_s // 2)
    scene.witnesses[2].instead = lambda body: answer
    scene.play(once)
    assert scene.logbook.halted


def test_repro_a_log_that_has_grown_out_of_another_past_than_a_witness_saw_is_halted() -> None:
    """An old copy of the store has grown beyond what the witness cosigned: its proof from there does not hold."""
    scene = Scene()
    add(scene.store, logged(title="second"))
    scene.logbook.follow(scene.books.read())
    origin = scene.logbook.key.name
    scene.witnesses[0].newest[origin] = Checkpoint(origin, 1, bytes(32))
    scene.logbook.asked_size = 2
    scene.play(once)
    assert scene.logbook.halted
    assert scene.witnesses[0].newest[origin].size == 1


def test_a_witness_that_refuses_a_first_checkpoint_halts_nothing() -> None:
    scene = Scene()
    scene.witnesses[0].instead = lambda body: (422, b"")
    scene.play(once)
    assert not scene.logbook.halted
    assert scene.logbook.cosigned() == 1


def test_a_witness_that_hangs_is_given_up_and_holds_nobody_up() -> None:
    scene = Scene()

    async def hanging(cosigner: Cosigner) -> None:
        conversations = Conversations()

        async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversations.begin(never(reader, writer), writer)

        server = await asyncio.start_server(taken, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        cosigner._witnesses = (WitnessAddress(KEYS[0], url), *cosigner._witnesses[1:])
        await cosigner.ask_all()
        await stop_listening(server)
        await conversations.end()

    scene.play(hanging, timeout_s=0.05)
    assert scene.logbook.cosigned() == 1
    assert KEYS[0] not in scene.logbook.lines


def test_retries_go_on_while_the_clock_stands_still() -> None:
    scene = Scene()
    all_answer(scene.witnesses, refused)

    async def patiently(cosigner: Cosigner) -> None:
        async with at_work(cosigner):
            await until(lambda: all(witness.asked >= 6 for witness in scene.witnesses))
            all_answer(scene.witnesses, None)
            await until(lambda: scene.logbook.cosigned() == 1 and len(scene.logbook.lines) == 3)

    scene.play(patiently)


def test_the_task_asks_when_it_is_poked_and_renews_by_the_partys_clock() -> None:
    scene = Scene()

    async def living(cosigner: Cosigner) -> None:
        async with at_work(cosigner):
            await until(lambda: scene.clock.next_waking() is not None and len(scene.logbook.lines) == 3)
            add(scene.store, logged(title="another"))
            scene.logbook.follow(scene.books.read())
            await until(lambda: scene.logbook.cosigned() == 2 and len(scene.logbook.lines) == 3)
            scene.clock.advance(1000 * TERMS.freshness_s // 3)
            await until(lambda: {made.at for made in scene.logbook.lines.values()} == {scene.clock.now()})

    scene.play(living)


def test_what_is_cosigned_already_is_not_asked_for_again() -> None:
    scene = Scene()
    scene.play(once)
    asked = [witness.asked for witness in scene.witnesses]
    scene.play(once)
    assert [witness.asked for witness in scene.witnesses] == asked
    scene.begin()
    # After a start they are asked once.
    for _ in range(2):
        scene.play(once)
        assert [witness.asked for witness in scene.witnesses] == [count + 1 for count in asked]


def test_a_failure_of_the_store_ends_the_task() -> None:
    scene = Scene()

    def broken(*_: object, **__: object) -> None:
        raise LocalProtocolError("a checkpoint that does not follow")

    scene.store.keep_note = broken  # type: ignore[method-assign]

    async def dying(cosigner: Cosigner) -> None:
        with pytest.raises(LocalProtocolError, match="does not follow"):
            await cosigner.run(asyncio.Event())

    scene.play(dying)
