"""Rounds with a log: nothing is seen before witnesses have seen it, proofs lead to it, an old copy makes no fork."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.coordinator.experiments.history import PlainHistories
from secvm.coordinator.log.log_files import checkpoint_path, first_path, log_path, proof_path
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.errors import StaleCheckpointError
from secvm.protocol.documents.ending import accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.entries import experiment_entry
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.log.tiles import Tile, read_bundle
from secvm.protocol.round_state import RoundState
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import add, experiment
from tests.unit.coordinator.witnesses import KEYS, TERMS, Answer, Logged, TinyWitness, all_answer, away, logged
from tests.unit.protocol.helpers import START


def world(
    *experiments: ExperimentDocument, store: CoordinatorStore | None = None, folder: Path | None = None
) -> tuple[Logged, list[TinyWitness]]:
    clock = ManualClock(START - 100_000)
    witnesses = [TinyWitness(i, clock) for i in range(3)]
    made = Logged(store or MemoryStore(), clock, witnesses, folder)
    # It runs already when the first experiment comes.
    made.driver.prepare()
    for of in experiments:
        add(made.store, of)
    return made, witnesses


def public(coordinator: Logged, path: str) -> bytes:
    found = coordinator.publisher.public(path)
    assert found is not None, path
    return found[0]


def accepted_manifests(coordinator: Logged, of: ExperimentDocument, count: int) -> list[AcceptedManifest]:
    served = [public(coordinator, f"/v1/experiment/{of.digest}/manifest/{t}") for t in range(1, count + 1)]
    accepted: list[AcceptedManifest] = []
    for data in served:
        accepted.append(accept(data, document=of, last=accepted[-1] if accepted else None))
    return accepted


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_entry_is_logged_and_proofs_and_tiles_verify_by_the_pure_functions(tmp_path: Path) -> None:
    of = logged()
    coordinator, _ = world(of, folder=tmp_path)
    asyncio.run(coordinator.go())
    now = coordinator.clock.now()
    accepted = accepted_manifests(coordinator, of, 3)
    end = accept_ending(public(coordinator, f"/v1/experiment/{of.digest}/ending"), document=of, last=accepted[-1])
    entries = [experiment_entry(of.digest), *(one.manifest.log_entry for one in accepted), end.log_entry]
    for index, entry in enumerate(entries[:4]):
        path = proof_path(of.digest, index) if index else first_path(of.digest)
        proof = LogProof.from_bytes(public(coordinator, path))
        signed = proof.check(entry.to_bytes(), log=TERMS.log_key)
        assert (proof.index, signed.checkpoint.size) == (index, max(2, index + 1))
    newest = read_checkpoint(public(coordinator, checkpoint_path(of.digest)), log=TERMS.log_key)
    TERMS.check_quorum(newest, now=now)
    whole = read_checkpoint(public(coordinator, log_path("checkpoint")), log=TERMS.log_key)
    assert whole.checkpoint == newest.checkpoint
    assert newest.checkpoint.size == 5
    leaves = [leaf_hash(entry.to_bytes()) for entry in entries]
    assert public(coordinator, log_path(Tile(0, 0, 5).path)) == b"".join(leaves)
    assert Tree(leaves).root() == newest.checkpoint.root
    bundle = public(coordinator, log_path(Tile(None, 0, 5).path))
    assert read_bundle(bundle, width=5) == [entry.to_bytes() for entry in entries]
    assert coordinator.publisher.public(log_path(Tile(None, 0, 6).path)) is None
    # What is answered lies in the folder too.
    assert (tmp_path / "secvm/v2/tile/entries/000.p/5").read_bytes() == bundle
    assert (tmp_path / f"v1/experiment/{of.digest}/checkpoint").read_bytes() == newest.data
    media = coordinator.publisher.public(checkpoint_path(of.digest))
    assert media is not None
    assert media[1] == "text/plain; charset=utf-8"


async def test_nothing_is_shown_before_a_quorum_has_cosigned_it_and_all_of_it_afterwards() -> None:
    of = logged()
    coordinator, (one, two, three) = world(of)
    one.instead = two.instead = away
    await coordinator.step()
    assert three.asked > 0
    assert coordinator.store.rounds(of.digest)
    paths = [path for path in coordinator.shown() if of.digest in path or path.startswith(("/secvm", "/v1/blob"))]
    assert paths == []
    assert json.loads(public(coordinator, "/v1/experiments")) == {"experiments": []}
    two.instead = None
    await coordinator.step()
    assert public(coordinator, f"/v1/experiment/{of.digest}/manifest/latest")
    assert [held["digest"] for held in json.loads(public(coordinator, "/v1/experiments"))["experiments"]]


async def test_a_round_whose_manifest_is_cosigned_too_late_is_abandoned_like_any_other() -> None:
    of = logged()
    coordinator, witnesses = world(of)
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    all_answer(witnesses, away)
    await coordinator.go(until=lambda: len(coordinator.store.rounds(of.digest)) == 3)
    # How round 1 ended is told by a manifest that nobody has seen yet.
    assert coordinator.publisher.public(f"/v1/experiment/{of.digest}/manifest/2") is None
    rounds = coordinator.store.rounds(of.digest)
    assert [held.state for held in rounds] == [RoundState.TALLIED, RoundState.ABANDONED, RoundState.ANNOUNCED]
    assert coordinator.publisher.public(f"/v1/blob/{rounds[0].tally}") is None
    told = json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))
    assert [row["state"] for row in told["rounds"]] == ["closing"]
    all_answer(witnesses, None)
    await coordinator.go()
    assert [held.state for held in coordinator.store.rounds(of.digest)] == [
        RoundState.PUBLISHED,
        RoundState.ABANDONED,
        RoundState.PUBLISHED,
    ]
    assert len(accepted_manifests(coordinator, of, 3)) == 3
    # Witnesses were asked about entry 2 when entry 3 came, and cosigned it first.
    for index in (2, 3):
        proof = LogProof.from_bytes(public(coordinator, proof_path(of.digest, index)))
        assert Checkpoint.from_text(proof.checkpoint.decode().partition("\n\n")[0] + "\n").size == index + 1


async def test_an_ending_waits_for_its_quorum_and_then_costs_nothing() -> None:
    of = logged(rounds=1)
    coordinator, witnesses = world(of)
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    all_answer(witnesses, away)
    await coordinator.go(until=lambda: coordinator.store.experiments()[0].standing is Standing.FINISHED)
    assert coordinator.publisher.public(f"/v1/experiment/{of.digest}/ending") is None
    told = json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))
    assert (told["standing"], told["notes"]) == ("running", [])
    all_answer(witnesses, None)
    await coordinator.go()
    # Long after, the log is renewed for the coordinator's own terms alone; what shows the ending stays.
    shown = public(coordinator, checkpoint_path(of.digest))
    coordinator.clock.advance(10 * 1000 * TERMS.freshness_s)
    before = [witness.asked for witness in witnesses]
    await coordinator.cosigner.ask_all()
    assert [witness.asked - old for witness, old in zip(witnesses, before, strict=True)] == [1, 1, 1]
    await coordinator.driver.step()
    assert public(coordinator, checkpoint_path(of.digest)) == shown
    assert public(coordinator, log_path("checkpoint")) != shown
    assert json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))["standing"] == "finished"


def test_an_experiment_without_a_log_is_shown_at_once_beside_one_that_has_one() -> None:
    plain, of = experiment(title="plain"), logged()
    coordinator, witnesses = world(plain, of)
    all_answer(witnesses, away)
    asyncio.run(coordinator.step())
    assert public(coordinator, f"/v1/experiment/{plain.digest}/manifest/1")
    assert coordinator.publisher.public(f"/v1/experiment/{of.digest}") is None
    assert coordinator.publisher.public(checkpoint_path(plain.digest)) is None
    assert coordinator.logbook.log.lines[0] == experiment_entry(plain.digest).to_bytes()


# ── several sets of witnesses ────────────────────────────────────────────────────────────────────────────────────────


async def test_no_experiment_waits_for_the_witnesses_of_another() -> None:
    """One names the first witness alone, the other the last two: neither is held up, nor shown too early."""
    first, second = (
        logged(title=f"{count}", log=replace(TERMS, witnesses=TERMS.witnesses[start:end], quorum=count))
        for count, start, end in ((1, 0, 1), (2, 1, 3))
    )
    coordinator, witnesses = world(first, second)
    witnesses[2].instead = away
    await coordinator.go(until=lambda: (first.digest, 2) in _shown_rounds(coordinator, first))
    assert coordinator.publisher.public(f"/v1/experiment/{second.digest}") is None
    witnesses[2].instead = None
    witnesses[0].instead = away
    await coordinator.go(until=lambda: bool(_shown_rounds(coordinator, second)))
    assert (first.digest, 3) not in _shown_rounds(coordinator, first)
    for of in (first, second):
        found = read_checkpoint(public(coordinator, checkpoint_path(of.digest)), log=TERMS.log_key)
        assert of.log is not None
        assert len(found.times(of.log.witness_keys)) >= of.log.quorum


def _shown_rounds(coordinator: Logged, of: ExperimentDocument) -> set[tuple[str, int]]:
    base = f"/v1/experiment/{of.digest}/manifest"
    return {(of.digest, t) for t in range(1, of.rounds + 1) if coordinator.publisher.public(f"{base}/{t}") is not None}


async def test_a_log_that_grows_while_witnesses_are_asked_has_its_quorum_all_the_same() -> None:
    """Between the answers of any two witnesses another experiment is logged."""
    coordinator, witnesses = world()
    add(coordinator.store, logged(title="first"))
    books = PlainHistories(coordinator.store)
    grown = 0

    def growing(witness: TinyWitness) -> Callable[[bytes], Answer]:
        def answer(body: bytes) -> Answer:
            nonlocal grown
            answered = witness.honest(body)
            grown += 1
            add(coordinator.store, logged(title=f"after {grown}"))
            coordinator.logbook.follow(books.read())
            return answered

        return answer

    for witness in witnesses:
        witness.instead = growing(witness)
    coordinator.logbook.follow(books.read())
    sizes = []
    for _ in range(4):
        await coordinator.cosigner.ask_all()
        sizes.append(coordinator.logbook.cosigned())
    # Every time a quorum is there for all that was there when the asking began.
    assert sizes == sorted(set(sizes))
    assert sizes[-1] > 6


async def test_a_halted_log_grows_no_further_not_even_after_a_restart() -> None:
    of = logged()
    coordinator, witnesses = world(of)
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    origin = TERMS.log_key.name
    signed = [found for witness in witnesses for found in witness.cosigned if found.origin == origin]
    # One has seen two entries more: an old copy of the store runs here.
    witnesses[0].newest[origin] = Checkpoint(origin, signed[-1].size + 2, bytes(32))
    coordinator.clock.advance(1000 * TERMS.freshness_s // 3)
    await coordinator.cosigner.ask_all()
    later: Logged = coordinator
    for _ in range(3):
        at = await later.step()
        coordinator.clock.advance(0 if at is None else at - coordinator.clock.now())
        later = Logged(coordinator.store, coordinator.clock, witnesses, sent=coordinator.sent)
        later.driver.prepare()
    assert coordinator.store.experiments()[0].standing is Standing.PAUSED
    assert len(coordinator.store.rounds(of.digest)) == 1
    assert {found for witness in witnesses for found in witness.cosigned if found.origin == origin} == set(signed)


def restarted(coordinator: Logged, witnesses: list[TinyWitness], store: CoordinatorStore | None = None) -> Logged:
    made = Logged(store or coordinator.store, coordinator.clock, witnesses, sent=coordinator.sent)
    made.driver.prepare()
    return made


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    with store._database.reading() as connection, copy._database.reading() as other:
        connection.backup(other)
    return copy


@pytest.mark.parametrize("later", ["a round", "an ending", "another experiment"])
async def test_an_old_copy_of_the_store_is_found_out_before_it_signs_anything_else(later: str) -> None:
    of = logged()
    coordinator, witnesses = world(of)
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    assert isinstance(coordinator.store, MemoryStore)
    old = copied(coordinator.store)
    add(coordinator.store, logged(title="forgotten"))
    await coordinator.go(until=lambda: len(coordinator.sent) == 3)
    all_answer(witnesses, away)
    second = restarted(coordinator, witnesses, old)
    if later == "an ending":
        old.set_standing(of.digest, Standing.STOPPED)
    if later == "another experiment":
        add(old, logged(title="other"))
    coordinator.clock.advance(10_000_000)
    await second.step()
    all_answer(witnesses[1:], None)
    for _ in range(5):
        at = await second.step()
        coordinator.clock.advance(0 if at is None else at - coordinator.clock.now())
    # What is signed is of the size of the log: nothing came to what was there.
    assert (second.logbook.halted, second.logbook.log.size) == (True, 2)
    # Nothing was stored either that a further start would sign.
    assert len(old.rounds(of.digest)) == 1


async def test_after_a_start_a_log_grows_when_a_quorum_has_said_that_nothing_is_missing() -> None:
    of = logged()
    coordinator, witnesses = world(of)
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    all_answer(witnesses[1:], away)
    second = restarted(coordinator, witnesses)
    assert second.logbook.health()["waiting"] == 1
    coordinator.clock.advance(10_000_000)
    await second.step()
    # Its round is concluded, which is no entry. One witness is no quorum: it could be the one that missed a round.
    assert [held.state for held in coordinator.store.rounds(of.digest)] == [RoundState.TALLIED]
    witnesses[2].instead = None
    await second.step()
    assert len(coordinator.store.rounds(of.digest)) == 2
    assert second.logbook.health()["waiting"] == 0
    await second.go()
    assert [held.state for held in coordinator.store.rounds(of.digest)] == 3 * [RoundState.PUBLISHED]


# ── cosignatures grow old ────────────────────────────────────────────────────────────────────────────────────────────


def test_cosignatures_are_renewed_before_a_third_of_their_time_and_the_first_checkpoint_stays() -> None:
    of = logged()
    coordinator, witnesses = world(of)
    asyncio.run(coordinator.step())
    coordinator.store.set_standing(of.digest, Standing.PAUSED)
    first, proof = public(coordinator, first_path(of.digest)), public(coordinator, proof_path(of.digest, 1))
    asked = [witness.asked for witness in witnesses]
    coordinator.clock.advance(1000)
    asyncio.run(coordinator.cosigner.ask_all())
    assert [witness.asked for witness in witnesses] == asked
    coordinator.clock.advance(1000 * TERMS.freshness_s // 3 - 2000)
    asyncio.run(coordinator.cosigner.ask_all())
    assert [witness.asked for witness in witnesses] == [count + 1 for count in asked]
    asyncio.run(coordinator.driver.step())
    now = coordinator.clock.now()
    renewed = read_checkpoint(public(coordinator, checkpoint_path(of.digest)), log=TERMS.log_key)
    assert set(renewed.times(KEYS).values()) == {now // 1000}
    assert len(renewed.note.signatures) == 4
    assert public(coordinator, first_path(of.digest)) == first
    assert public(coordinator, proof_path(of.digest, 1)) == proof


def test_after_a_restart_all_is_there_again_and_old_cosignatures_are_renewed(tmp_path: Path) -> None:
    of, store = logged(), SQLiteStore(tmp_path / "store")
    coordinator, witnesses = world(of, store=store, folder=tmp_path / "public")
    asyncio.run(coordinator.go(until=lambda: len(coordinator.sent) == 2))
    shown = coordinator.shown()
    partial = log_path(Tile(0, 0, 2).path)
    assert public(coordinator, partial)
    store.close()
    again = SQLiteStore(tmp_path / "store")
    second = Logged(again, coordinator.clock, witnesses, tmp_path / "public", sent=coordinator.sent)
    second.driver.prepare()
    for path, data in shown.items():
        if "/proof/" not in path and path != "/v1/keys":
            assert public(second, path) == data, path
    assert public(second, partial) == public(coordinator, partial)
    # After a start all are asked once; then nobody, and much later everybody.
    before = [witness.asked for witness in witnesses]
    for _ in range(2):
        asyncio.run(second.cosigner.ask_all())
        assert [witness.asked for witness in witnesses] == [count + 1 for count in before]
    second.clock.advance(1000 * TERMS.freshness_s + 61_000)
    now = second.clock.now()
    newest = checkpoint_path(of.digest)
    with pytest.raises(StaleCheckpointError):
        TERMS.check_quorum(read_checkpoint(public(second, newest), log=TERMS.log_key), now=now)
    asyncio.run(second.cosigner.ask_all())
    asyncio.run(second.driver.step())
    TERMS.check_quorum(read_checkpoint(public(second, newest), log=TERMS.log_key), now=now)
    proof = LogProof.from_bytes(public(second, proof_path(of.digest, 2)))
    proof.check(accepted_manifests(second, of, 2)[1].manifest.log_entry.to_bytes(), log=TERMS.log_key)
    assert public(second, first_path(of.digest)) == shown[first_path(of.digest)]
    again.close()


def test_files_lie_in_the_folder_in_the_order_in_which_they_are_needed(tmp_path: Path) -> None:
    of = logged(rounds=1)
    coordinator, _ = world(of, folder=tmp_path)
    written: list[str] = []
    write = coordinator.publisher._write

    async def noted(path: str, data: bytes | None) -> None:
        written.append(path)
        await write(path, data)

    coordinator.publisher._write = noted  # type: ignore[method-assign]
    asyncio.run(coordinator.step())
    at = {path: position for position, path in enumerate(written)}
    base = f"/v1/experiment/{of.digest}"
    assert at[log_path(Tile(0, 0, 2).path)] < at[checkpoint_path(of.digest)] < at[base]
    assert at[proof_path(of.digest, 1)] < at[f"{base}/manifest/1"]
    assert at[first_path(of.digest)] < at[base]


def test_repro_health_is_told_while_a_first_note_comes_in_another_thread() -> None:
    logbook = Logbook(MemoryStore(), None, TERMS)

    class Interrupting:
        """A note; as it is looked at, the other thread has its turn."""

        @property
        def checkpoint(self) -> Checkpoint:
            logbook._notes[replace(TERMS, quorum=3)] = logbook._notes[TERMS]
            return Checkpoint(TERMS.log_key.name, 7, bytes(32))

    logbook._notes[TERMS] = Interrupting()  # type: ignore[assignment]
    assert logbook.health()["cosigned"] == 7
