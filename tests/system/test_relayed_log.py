"""A real coordinator between two real relays, with witnesses: manifests and openings in its one log, and no fork.

It is killed when its witnesses have been asked about an opening and have not answered, and between rounds. A plain
experiment runs beside the one with two relays, and stands in the same log.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from secvm.coordinator.experiments.history import first_blobs
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.main import LOG_KEY_FILE
from secvm.coordinator.store.port import Standing, StoredExperiment
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.notes import Note
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.evidence.logged_documents import entry_of
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.entries import Entry, follows
from secvm.protocol.log.proofs import CosigningRequest
from secvm.protocol.log.tiles import Tile, read_bundle
from secvm.protocol.relays.judgement import is_opened
from secvm.protocol.relays.opening import read_opening
from secvm.runtime.disk.secret_files import make_secret
from secvm.testing.clock import ManualClock
from secvm_lab.rigs.histories.relayed_rounds import START
from tests.system.test_relayed_coordinator import CLIENTS, Whole
from tests.system.test_two_relays import PATIENCE_S
from tests.unit.coordinator.rounds import experiment
from tests.unit.coordinator.witnesses import TERMS, Answer, TinyWitness, serving

LOG_SEED = b"log".ljust(32, b"\0")


@dataclass
class Witnessed(Whole):
    """With a log, three witnesses, and a plain experiment."""

    #: What the steered clock shows, to witnesses of the test.
    time: ManualClock = field(default_factory=lambda: ManualClock(START - 10_000))
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        key = self.coordinator / "state" / LOG_KEY_FILE
        key.unlink()
        make_secret(key, LOG_SEED)
        store = SQLiteStore(self.coordinator / "state" / "coordinator.sqlite")
        stored = StoredExperiment(
            self.plain.digest,
            publish(self.plain, keys=(self.key,)),
            OwnSettings(early_stopping=None).model_dump_json().encode(),
            Standing.RUNNING,
        )
        store.add_experiment(stored, first_blobs(self.plain))
        store.close()

    @property
    def document(self) -> ExperimentDocument:
        return replace(super().document, log=TERMS)

    @property
    def plain(self) -> ExperimentDocument:
        return experiment(log=TERMS, coordinator_keys=(self.key.public,), test=True, rounds=30)

    def go_to(self, instant: int) -> None:
        super().go_to(instant)
        self.time.advance(max(0, instant - self.time.now()))

    def name_witnesses(self) -> None:
        named = "".join(
            f'[[witnesses]]\nname = "{witness.name}"\nurl = "{url}"\nkey = "{witness.key.data.hex()}"\n'
            for witness, url in zip(TERMS.witnesses, self.urls, strict=True)
        )
        path = self.coordinator / "coordinator.toml"
        log = f'[log]\nname = "{TERMS.name}"\n'
        path.write_text(path.read_text(encoding="utf-8") + log + named, encoding="utf-8")

    async def lines(self) -> list[bytes]:
        """The whole log, under the checkpoint that is public."""
        data = await self.public("checkpoint", below="/secvm/v2")
        signed = read_checkpoint(data, log=TERMS.log_key)
        TERMS.check_quorum(signed, now=self.time.now())
        size = signed.checkpoint.size
        lines = read_bundle(await self.public(Tile(None, 0, size).path, below="/secvm/v2"), width=size)
        assert Tree(map(leaf_hash, lines)).root() == signed.checkpoint.root
        return lines


class Asked:
    """A witness that is asked about a longer log than this, and says nothing."""

    def __init__(self, known: int) -> None:
        self.known, self.about_more = known, asyncio.Event()

    def __call__(self, body: bytes) -> Answer:
        note = Note.from_bytes(CosigningRequest.from_bytes(body).checkpoint)
        if Checkpoint.from_text(note.text).size > self.known:
            self.about_more.set()
        return 503, b""


def test_manifests_and_openings_are_witnessed_and_no_kill_makes_a_fork(tmp_path: Path) -> None:
    async def main() -> None:
        made = Witnessed(tmp_path)
        witnesses = [TinyWitness(i, made.time) for i in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(end, made)
            made.urls = tuple([await stack.enter_async_context(serving(one.add_checkpoint)) for one in witnesses])
            made.name_witnesses()
            await made.start_coordinator()
            for role in ("entry", "mix"):
                await made.start(role)
            first = await made.announced(1)
            before = await made.lines()
            made.go_to(first.instants.opens_at)
            for client in range(CLIENTS):
                assert (await made.submit(client)).status == 200
            # The opening is stored and its line too; witnesses are asked, and do not answer; the process is gone.
            for instant in (first.instants.accept_until, first.instants.batch_by):
                made.go_to(instant)
            asked = Asked(max(one.size for witness in witnesses for one in witness.cosigned))
            for witness in witnesses:
                witness.instead = asked
            made.go_to(first.instants.mix_by)
            await made.hear("coordinator", "round-opened", round=1)
            async with asyncio.timeout(PATIENCE_S):
                await asked.about_more.wait()
            await made.kill("coordinator")
            for witness in witnesses:
                witness.instead = None
            await made.start_coordinator()
            opening = read_opening(await made.of_experiment("opening/1"), made.document)
            assert is_opened(opening, first, made.document)
            second = await made.announced(2)
            await made.kill("coordinator")
            await made.start_coordinator()
            lines = await made.lines()
            check_lines(made, lines, before)
            own = [entry for entry in map(Entry.from_bytes, lines) if entry.experiment == made.digest]
            assert own[1:4] == [entry_of(first), entry_of(opening), entry_of(second)]
            tree = Tree(map(leaf_hash, lines))
            for one in (found for witness in witnesses for found in witness.cosigned):
                assert one.size > len(lines) or tree.root(one.size) == one.root
            assert b"log-halted" not in bytes(made.said["coordinator"])

    asyncio.run(main())


async def end(made: Witnessed) -> None:
    for name in list(made.lives):
        await made.kill(name)
    # Shown where the test fails.
    print(*(said.decode() for said in made.said.values()), sep="\n")


def check_lines(made: Witnessed, lines: list[bytes], before: list[bytes]) -> None:
    """The log has grown out of what it was, and lines of each experiment follow each other."""
    assert lines[: len(before)] == before
    for of, openings in ((made.document, True), (made.plain, False)):
        last: Entry | None = None
        for entry in (entry for entry in map(Entry.from_bytes, lines) if entry.experiment == of.digest):
            assert follows(last, entry, openings=openings)
            last = entry
        assert last is not None
