"""One log for plain experiments and those with two relays: lines of both, witnesses first, no fork after any death."""

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.experiments.history import PlainHistories
from secvm.coordinator.log.log_files import EntryLog, LogFiles, checkpoint_path, first_path, log_path, proof_path
from secvm.coordinator.log.logbook import FollowedLogbook
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed.relayed_documents import RelayedPublisher
from secvm.coordinator.relayed.relayed_history import RelayedHistories
from secvm.coordinator.relayed.shard_files import ShardFiles, ShardFolder
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.errors import LocalProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.checkpoints import read_checkpoint
from secvm.protocol.log.entries import (
    Entry,
    EntryKind,
    experiment_entry,
    follows,
    manifest_entry,
    opening_entry,
)
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.relays.manifest import read_manifest
from secvm.protocol.relays.opening import Opening
from secvm.testing.clock import ManualClock
from tests.effort import scaled
from tests.unit.coordinator import rounds
from tests.unit.coordinator.test_relayed_rounds import CHANGES, Killed, Mortal
from tests.unit.coordinator.two_relays import Federation, TwoRelays, add, document, throws
from tests.unit.coordinator.witnesses import TERMS, Logged, TinyWitness, all_answer, away, logged
from tests.unit.protocol.helpers import START

EXPERIMENT, MANIFEST, OPENING, ENDING = EntryKind


def relayed_logged(**changes: Any) -> ExperimentDocument:
    return document(**{"log": TERMS, "rounds": 1, **changes})


class Both:
    """A process that drives experiments of both kinds, with one log, around a store that may have been another's."""

    def __init__(
        self,
        store: CoordinatorStore,
        relays: TwoRelays,
        witnesses: Sequence[TinyWitness],
        clock: ManualClock,
        *,
        sent: set[tuple[str, int]] | None = None,
        dice: Callable[[int], bytes] | None = None,
    ) -> None:
        self.store, self.clock = store, clock
        self.plain = Logged(store, clock, witnesses, sent=sent)
        self.logbook = self.plain.logbook
        log = EntryLog(self.plain.files)
        self.relayed = Federation(store, relays, clock, log=log, dice=dice)
        # As a process does before its first step.
        self.relayed.driver.prepare()
        self.plain.driver.prepare()

    async def step(self) -> int | None:
        await self.relayed.step()
        instants = [await self.plain.step(), await self.relayed.driver.step()]
        await self.plain.cosigner.ask_all()
        instants += [await self.plain.driver.step(), await self.relayed.driver.step()]
        return min((at for at in instants if at is not None and at > self.clock.now()), default=None)

    async def go(self, until: Callable[[], bool]) -> None:
        for _ in range(100):
            at = await self.step()
            if until():
                return
            assert at is not None
            self.clock.advance(at - self.clock.now())
        raise AssertionError("this goes on for ever")

    def public(self, path: str) -> bytes | None:
        found = self.plain.publisher.public(path) or self.relayed.publisher.public(path)
        return None if found is None else found[0]

    def over(self) -> bool:
        return all(self.public(f"/v1/experiment/{one.digest}/ending") for one in self.store.experiments())

    def kinds(self, of: ExperimentDocument) -> list[EntryKind]:
        return [one.entry.kind for one in self.logbook.log.of(of.digest)]


def world(*plain: ExperimentDocument, of: ExperimentDocument) -> tuple[Both, list[TinyWitness]]:
    clock, store = ManualClock(START - 100_000), MemoryStore()
    witnesses = [TinyWitness(i, clock) for i in range(3)]
    made = Both(store, TwoRelays(of), witnesses, clock)
    add(store, of)
    for one in plain:
        rounds.add(store, one)
    return made, witnesses


def check_lines(made: Both, experiments: Sequence[ExperimentDocument]) -> None:
    """Each experiment's lines follow each other, and all lines are some experiment's."""
    lines = [Entry.from_bytes(line) for line in made.logbook.log.lines]
    assert {entry.experiment for entry in lines} == {of.digest for of in experiments}
    for of in experiments:
        before = None
        for entry in (entry for entry in lines if entry.experiment == of.digest):
            assert follows(before, entry, openings=of.experiment.cover is not None)
            before = entry


def test_manifests_openings_and_endings_of_both_kinds_stand_in_one_log() -> None:
    of, plain, silent = relayed_logged(rounds=2), logged(rounds=2), rounds.experiment(title="without a log", rounds=1)
    made, _ = world(plain, silent, of=of)
    asyncio.run(made.go(made.over))
    check_lines(made, [of, plain, silent])
    assert made.kinds(of) == [EXPERIMENT, MANIFEST, OPENING, MANIFEST, OPENING, ENDING]
    assert made.kinds(plain) == [EXPERIMENT, MANIFEST, MANIFEST, ENDING]
    assert made.kinds(silent) == [EXPERIMENT]
    entries = [one.entry for one in made.logbook.log.of(of.digest)]
    before = None
    for number in (1, 2):
        base = f"/v1/experiment/{of.digest}"
        told = read_manifest(made.public(f"{base}/manifest/{number}") or b"", of, before)
        found = of.read(Opening, made.public(f"{base}/opening/{number}") or b"")
        assert entries[2 * number - 1] == manifest_entry(of.digest, number, told.digest)
        assert entries[2 * number] == opening_entry(of.digest, number, found.digest)
        proof = LogProof.from_bytes(made.public(proof_path(of.digest, number)) or b"")
        proof.check(entries[2 * number - 1].to_bytes(), log=TERMS.log_key)
        before = told
    first = LogProof.from_bytes(made.public(first_path(of.digest)) or b"")
    first.check(experiment_entry(of.digest).to_bytes(), log=TERMS.log_key)
    for path in (checkpoint_path(of.digest), log_path("checkpoint")):
        signed = read_checkpoint(made.public(path) or b"", log=TERMS.log_key)
        TERMS.check_quorum(signed, now=made.clock.now())
        assert made.logbook.log.holds(signed.checkpoint)


async def test_an_opening_is_shown_when_witnesses_have_seen_it_and_not_before() -> None:
    of = relayed_logged()
    made, witnesses = world(of=of)
    base = f"/v1/experiment/{of.digest}"
    await made.go(lambda: made.public(f"{base}/manifest/1") is not None)
    all_answer(witnesses, away)
    await made.go(lambda: made.kinds(of) == [EXPERIMENT, MANIFEST, OPENING, ENDING])
    assert made.public(f"{base}/opening/1") is None
    assert made.public(f"{base}/ending") is None
    all_answer(witnesses[:2], None)
    await made.step()
    assert made.public(f"{base}/opening/1") is not None
    assert made.public(f"{base}/ending") is not None


def test_nothing_of_a_new_experiment_is_shown_before_witnesses_have_seen_it() -> None:
    of = relayed_logged()
    made, witnesses = world(of=of)
    all_answer(witnesses, away)
    asyncio.run(made.step())
    assert made.kinds(of) == [EXPERIMENT]
    assert not [path for path in made.relayed.shown() if of.digest in path]
    # Nor is a relay asked for anything, which would look for it in vain.
    assert made.relayed.relays.asked == []
    all_answer(witnesses, None)
    asyncio.run(made.step())
    assert made.relayed.relays.asked == [("entry", 1), ("mix", 1)]


def test_a_witness_that_has_seen_another_log_pauses_experiments_of_both_kinds() -> None:
    of, plain = relayed_logged(), logged()
    made, _ = world(plain, of=of)
    asyncio.run(made.step())
    made.logbook.halt()
    assert [one.standing for one in made.store.experiments()] == 2 * [Standing.PAUSED]
    assert not made.logbook.may_grow(of.log)


def test_repro_after_a_restart_an_experiment_told_later_is_shown_at_once() -> None:
    of, plain = relayed_logged(), logged()
    made, witnesses = world(plain, of=of)
    base = [f"/v1/experiment/{one.digest}/manifest/1" for one in (of, plain)]
    asyncio.run(made.go(lambda: all(map(made.public, base))))
    all_answer(witnesses, away)
    again = Both(made.store, made.relayed.relays, witnesses, made.clock)
    assert all(map(again.public, base))
    assert [again.public(first_path(one.digest)) for one in (of, plain)] == [
        made.public(first_path(one.digest)) for one in (of, plain)
    ]


def test_repro_a_new_experiment_leaves_a_renewed_checkpoint_as_new_as_it_is() -> None:
    of = relayed_logged()
    made, witnesses = world(of=of)
    base = f"/v1/experiment/{of.digest}/manifest/1"
    asyncio.run(made.go(lambda: made.public(base) is not None))
    again = Both(made.store, made.relayed.relays, witnesses, made.clock)
    again.clock.advance(1000 * TERMS.freshness_s // 2)
    asyncio.run(again.plain.cosigner.ask_all())
    renewed = again.logbook.note(TERMS)
    assert renewed is not None
    all_answer(witnesses, away)
    rounds.add(again.store, logged())
    again.plain.driver.prepare()
    assert again.logbook.note(TERMS) == renewed


def test_a_node_that_follows_shows_what_witnesses_saw_of_both_kinds(tmp_path: Path) -> None:
    of, plain = relayed_logged(), logged(rounds=1)
    made, _ = world(plain, of=of)
    asyncio.run(made.go(made.over))
    shards = ShardFiles(made.store)
    publisher, folder = Publisher(made.store, further=shards.find), ShardFolder(tmp_path, shards)
    logbook = FollowedLogbook(made.store, TERMS)
    files, books = LogFiles(logbook, publisher), PlainHistories(made.store)
    logbook.read_notes()
    entries = EntryLog(files)
    entries.follow(books.read())
    showing = RelayedPublisher(publisher, entries, None, store=made.store, folder=folder, kept_days=7)
    showing.show(RelayedHistories(made.store).read())
    assert logbook.log.lines == made.logbook.log.lines
    assert not logbook.may_grow(of.log)
    base = f"/v1/experiment/{of.digest}"
    for path in (f"{base}/manifest/1", f"{base}/opening/1", f"{base}/ending", checkpoint_path(of.digest)):
        found = publisher.public(path)
        assert found is not None
        assert found[0] == made.public(path)
    assert asyncio.run(folder.keep_up())
    for path in (f"{base}/shards/1", f"{base}/shard/1/0", f"{base}/capsules/1/0", f"{base}/tally/1/0"):
        assert (tmp_path / path[1:]).read_bytes() == (publisher.public(path) or (b"", ""))[0] != b""
    with pytest.raises(LocalProtocolError):
        logbook.checkpoint()


def test_killed_at_any_change_there_is_one_log_with_all_lines_and_no_witness_has_seen_another() -> None:
    of, plain = relayed_logged(), logged(rounds=1)
    moments = _life(of, plain, None)
    for dies_at in range(1, moments + 1, scaled(23, 1)):
        _life(of, plain, dies_at)


def _life(of: ExperimentDocument, plain: ExperimentDocument, dies_at: int | None) -> int:
    """Both experiments to their end, with a kill at this moment; how many moments there were."""
    clock, store = ManualClock(START - 100_000), MemoryStore()
    witnesses = [TinyWitness(i, clock) for i in range(3)]
    relays, sent = TwoRelays(of), set[tuple[str, int]]()
    add(store, of)
    rounds.add(store, plain)
    mortal: Any = Mortal(store, dies_at, (*CHANGES, "append_entries", "keep_note"))
    shown: list[bytes] = []
    try:
        made = Both(mortal, relays, witnesses, clock, sent=sent, dice=throws("the first"))
        made.plain.ingest.store = store
        asyncio.run(made.go(made.over))
    except Killed:
        shown = deepcopy(store.entries())
        made = Both(store, relays, witnesses, clock, sent=sent, dice=throws("the second"))
        asyncio.run(made.go(made.over))
    assert not made.logbook.halted
    assert made.logbook.log.lines[: len(shown)] == shown
    check_lines(made, [of, plain])
    assert made.kinds(of) == [EXPERIMENT, MANIFEST, OPENING, ENDING]
    assert made.kinds(plain) == [EXPERIMENT, MANIFEST, ENDING]
    for witness in witnesses:
        assert all(made.logbook.log.holds(one) for one in witness.cosigned)
    return int(mortal.moment)
