"""Rounds with a log: nothing is seen before witnesses have seen it, proofs lead to it, an old copy makes no fork."""

import asyncio
import json
from copy import deepcopy
from pathlib import Path

import pytest

from secvm.coordinator.log_files import first_path, log_path, proof_path
from secvm.coordinator.logbook import DIRECTORY, Logbook, OneLog
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.merkle import Tree, inclusion_proof, leaf_hash, root
from secvm.errors import StaleCheckpointError
from secvm.protocol.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.ending import accept_ending
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.log import check_logged, ending_entry, experiment_entry, manifest_entry
from secvm.protocol.log_proofs import LogProof
from secvm.protocol.manifest import accept_all
from secvm.protocol.round_state import RoundState
from secvm.protocol.tiles import Tile, TileReader, read_bundle
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import add, experiment
from tests.unit.coordinator.witnesses import KEYS, TERMS, Logged, TinyWitness, away, logged
from tests.unit.protocol.helpers import START


def world(store: CoordinatorStore | None = None, folder: Path | None = None) -> tuple[Logged, list[TinyWitness]]:
    clock = ManualClock(START - 100_000)
    witnesses = [TinyWitness(i, clock) for i in range(3)]
    made = Logged(store or MemoryStore(), clock, witnesses, folder)
    # It runs already when the first experiment comes.
    made.driver.prepare()
    return made, witnesses


def public(coordinator: Logged, path: str) -> bytes:
    found = coordinator.publisher.public(path)
    assert found is not None, path
    return found[0]


def manifest_digests(coordinator: Logged, of: ExperimentDocument, count: int) -> list[str]:
    served = [public(coordinator, f"/v1/experiment/{of.digest}/manifest/{t}") for t in range(1, count + 1)]
    return [accept_all(served[: t + 1], document=of).manifest.digest for t in range(count)]


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_entry_is_logged_and_proofs_and_tiles_verify_by_the_pure_functions(tmp_path: Path) -> None:
    of = logged()
    coordinator, _ = world(folder=tmp_path)
    add(coordinator.store, of)
    asyncio.run(coordinator.go())
    now = coordinator.clock.now()
    served = [public(coordinator, f"/v1/experiment/{of.digest}/manifest/{t}") for t in (1, 2, 3)]
    last = accept_all(served, document=of)
    end = accept_ending(public(coordinator, f"/v1/experiment/{of.digest}/ending"), document=of, last=last)
    entries = [
        experiment_entry(of.digest),
        *map(manifest_entry, manifest_digests(coordinator, of, 3)),
        ending_entry(end.digest),
    ]
    for index, entry in enumerate(entries):
        proof = LogProof.from_bytes(public(coordinator, proof_path(of.digest, index)))
        signed = proof.check(entry.to_bytes(), index=index, log=TERMS.log_key(of.digest))
        assert signed.checkpoint.size == max(2, index + 1)
    check_logged(
        public(coordinator, proof_path(of.digest, 4)), entries[4], index=4, experiment=of.digest, terms=TERMS, now=now
    )
    newest = read_checkpoint(public(coordinator, log_path(of.digest, "checkpoint")), log=TERMS.log_key(of.digest))
    assert newest.checkpoint.size == 5
    reader = TileReader(5, lambda tile: public(coordinator, log_path(of.digest, tile.path)))
    assert root(reader.node, 5) == newest.checkpoint.root
    assert inclusion_proof(reader.node, 2, 5) == Tree(leaf_hash(e.to_bytes()) for e in entries).inclusion_proof(2)
    bundle = public(coordinator, log_path(of.digest, Tile(None, 0, 5).path))
    assert read_bundle(bundle, width=5) == [entry.to_bytes() for entry in entries]
    assert coordinator.publisher.public(log_path(of.digest, Tile(None, 0, 6).path)) is None
    # What is answered lies in the folder too.
    assert (tmp_path / f"secvm/v1/{of.digest}/tile/entries/000.p/5").read_bytes() == bundle
    assert (tmp_path / f"secvm/v1/{of.digest}/checkpoint").read_bytes() == newest.data
    media = coordinator.publisher.public(log_path(of.digest, "checkpoint"))
    assert media is not None
    assert media[1] == "text/plain; charset=utf-8"


def test_nothing_is_shown_before_a_quorum_has_cosigned_it_and_all_of_it_afterwards() -> None:
    of = logged()
    coordinator, (one, two, three) = world()
    add(coordinator.store, of)
    one.instead = two.instead = away

    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_round_whose_manifest_is_cosigned_too_late_is_abandoned_like_any_other() -> None:
    of = logged()
    coordinator, witnesses = world()
    add(coordinator.store, of)

    async def scenario() -> None:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        for witness in witnesses:
            witness.instead = away
        await coordinator.go(until=lambda: len(coordinator.store.rounds(of.digest)) == 3)
        # How round 1 ended is told by a manifest that nobody has seen yet.
        assert coordinator.publisher.public(f"/v1/experiment/{of.digest}/manifest/2") is None
        rounds = coordinator.store.rounds(of.digest)
        assert [held.state for held in rounds] == [RoundState.TALLIED, RoundState.ABANDONED, RoundState.ANNOUNCED]
        assert coordinator.publisher.public(f"/v1/blob/{rounds[0].tally}") is None
        told = json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))
        assert [row["state"] for row in told["rounds"]] == ["closing"]
        for witness in witnesses:
            witness.instead = None
        await coordinator.go()

    asyncio.run(scenario())
    assert [held.state for held in coordinator.store.rounds(of.digest)] == [
        RoundState.PUBLISHED,
        RoundState.ABANDONED,
        RoundState.PUBLISHED,
    ]
    assert len(manifest_digests(coordinator, of, 3)) == 3
    # Entries 2 and 3 came under one checkpoint.
    for index in (2, 3):
        proof = LogProof.from_bytes(public(coordinator, proof_path(of.digest, index)))
        assert Checkpoint.from_text(proof.checkpoint.decode().partition("\n\n")[0] + "\n").size == 4


def test_an_ending_waits_for_its_quorum_and_then_costs_nothing() -> None:
    of = logged(rounds=1)
    coordinator, witnesses = world()
    add(coordinator.store, of)

    async def scenario() -> None:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        for witness in witnesses:
            witness.instead = away
        await coordinator.go(until=lambda: coordinator.store.experiments()[0].standing is Standing.FINISHED)
        assert coordinator.publisher.public(f"/v1/experiment/{of.digest}/ending") is None
        told = json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))
        assert (told["standing"], told["notes"]) == ("running", [])
        for witness in witnesses:
            witness.instead = None
        await coordinator.go()
        # Long after, only the directory is renewed.
        coordinator.clock.advance(10 * 1000 * TERMS.freshness_s)
        before = [witness.asked for witness in witnesses]
        await coordinator.cosigner.ask_all()
        assert [witness.asked - old for witness, old in zip(witnesses, before, strict=True)] == [1, 1, 1]

    asyncio.run(scenario())
    assert json.loads(public(coordinator, f"/v1/experiment/{of.digest}/status"))["standing"] == "finished"


def test_an_experiment_without_a_log_is_shown_at_once_beside_one_that_has_one() -> None:
    plain, of = experiment(title="plain"), logged()
    coordinator, witnesses = world()
    for made in (plain, of):
        add(coordinator.store, made)
    for witness in witnesses:
        witness.instead = away
    asyncio.run(coordinator.step())
    assert public(coordinator, f"/v1/experiment/{plain.digest}/manifest/1")
    assert coordinator.publisher.public(f"/v1/experiment/{of.digest}") is None
    assert coordinator.publisher.public(proof_path(plain.digest, 0)) is None


def test_the_directory_lists_all_experiments_in_their_order() -> None:
    coordinator, _ = world()
    made = [logged(title=f"number {i}") for i in range(3)]

    async def scenario() -> None:
        for of in made[:2]:
            add(coordinator.store, of)
        await coordinator.step()
        add(coordinator.store, made[2])
        await coordinator.step()

    asyncio.run(scenario())
    bundle = public(coordinator, log_path(DIRECTORY, Tile(None, 0, 3).path))
    assert read_bundle(bundle, width=3) == [experiment_entry(of.digest).to_bytes() for of in made]
    signed = read_checkpoint(public(coordinator, log_path(DIRECTORY, "checkpoint")), log=TERMS.directory_key)
    reader = TileReader(3, lambda tile: public(coordinator, log_path(DIRECTORY, tile.path)))
    assert (signed.checkpoint.size, signed.checkpoint.root) == (3, root(reader.node, 3))


def test_a_halted_log_grows_no_further_not_even_after_a_restart() -> None:
    of = logged()
    coordinator, witnesses = world()
    add(coordinator.store, of)

    async def scenario() -> None:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        origin = TERMS.log_key(of.digest).name
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

    asyncio.run(scenario())


def restarted(coordinator: Logged, witnesses: list[TinyWitness], store: CoordinatorStore | None = None) -> Logged:
    made = Logged(store or coordinator.store, coordinator.clock, witnesses, sent=coordinator.sent)
    made.driver.prepare()
    return made


def copied(store: CoordinatorStore) -> MemoryStore:
    copy = MemoryStore()
    vars(copy).update(deepcopy({name: held for name, held in vars(store).items() if name != "_lock"}))
    return copy


@pytest.mark.parametrize("later", ["a round", "an ending", "another experiment"])
def test_an_old_copy_of_the_store_is_found_out_before_it_signs_anything_else(later: str) -> None:
    of = logged()
    coordinator, witnesses = world()
    add(coordinator.store, of)

    async def scenario() -> None:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        old = copied(coordinator.store)
        add(coordinator.store, logged(title="forgotten"))
        await coordinator.go(until=lambda: len(coordinator.sent) == 3)
        for witness in witnesses:
            witness.instead = away
        second = restarted(coordinator, witnesses, old)
        if later == "an ending":
            old.set_standing(of.digest, Standing.STOPPED)
        if later == "another experiment":
            add(old, logged(title="other"))
        coordinator.clock.advance(10_000_000)
        await second.step()
        for witness in witnesses[1:]:
            witness.instead = None
        for _ in range(5):
            at = await second.step()
            coordinator.clock.advance(0 if at is None else at - coordinator.clock.now())
        # What is signed is of the size of the log: nothing came to what was there.
        for place, size in ((of.digest, 2), (DIRECTORY, 1)):
            log = second.logbook.log(place)
            assert log is not None
            assert (log.halted, log.size) == (True, size)
        # Nothing was stored either that a further start would sign.
        assert len(old.rounds(of.digest)) == 1

    asyncio.run(scenario())


def test_after_a_start_a_log_grows_when_a_quorum_has_said_that_nothing_is_missing() -> None:
    of = logged()
    coordinator, witnesses = world()
    add(coordinator.store, of)

    async def scenario() -> None:
        await coordinator.go(until=lambda: len(coordinator.sent) == 1)
        for witness in witnesses[1:]:
            witness.instead = away
        second = restarted(coordinator, witnesses)
        assert second.logbook.health()["waiting"] == 2
        coordinator.clock.advance(10_000_000)
        await second.step()
        # Its round is concluded, which is no entry. One witness is no quorum: it could be the one that missed a round.
        assert [held.state for held in coordinator.store.rounds(of.digest)] == [RoundState.TALLIED]
        witnesses[2].instead = None
        await second.step()
        assert len(coordinator.store.rounds(of.digest)) == 2
        assert second.logbook.health()["waiting"] == 0
        await second.go()

    asyncio.run(scenario())
    assert [held.state for held in coordinator.store.rounds(of.digest)] == 3 * [RoundState.PUBLISHED]


# ── cosignatures grow old ────────────────────────────────────────────────────────────────────────────────────────────


def test_cosignatures_are_renewed_before_a_third_of_their_time_and_the_first_checkpoint_stays() -> None:
    of = logged()
    coordinator, witnesses = world()
    add(coordinator.store, of)
    asyncio.run(coordinator.step())
    coordinator.store.set_standing(of.digest, Standing.PAUSED)
    first, proof = public(coordinator, first_path(of.digest)), public(coordinator, proof_path(of.digest, 1))
    asked = [witness.asked for witness in witnesses]
    coordinator.clock.advance(1000)
    asyncio.run(coordinator.cosigner.ask_all())
    assert [witness.asked for witness in witnesses] == asked
    coordinator.clock.advance(1000 * TERMS.freshness_s // 3 - 2000)
    asyncio.run(coordinator.cosigner.ask_all())
    # The experiment's log and the directory.
    assert [witness.asked for witness in witnesses] == [count + 2 for count in asked]
    now = coordinator.clock.now()
    renewed = read_checkpoint(public(coordinator, log_path(of.digest, "checkpoint")), log=TERMS.log_key(of.digest))
    assert set(renewed.times(KEYS).values()) == {now // 1000}
    assert len(renewed.note.signatures) == 4
    assert public(coordinator, first_path(of.digest)) == first
    assert public(coordinator, proof_path(of.digest, 1)) != proof


def test_after_a_restart_all_is_there_again_and_old_cosignatures_are_renewed(tmp_path: Path) -> None:
    of, store = logged(), SQLiteStore(tmp_path / "store")
    coordinator, witnesses = world(store, tmp_path / "public")
    add(store, of)
    asyncio.run(coordinator.go(until=lambda: len(coordinator.sent) == 2))
    shown = coordinator.shown()
    partial = log_path(of.digest, Tile(0, 0, 2).path)
    assert public(coordinator, partial)
    store.close()
    again = SQLiteStore(tmp_path / "store")
    second = Logged(again, coordinator.clock, witnesses, tmp_path / "public", sent=coordinator.sent)
    second.driver.prepare()
    for path, data in shown.items():
        if "/proof/" not in path and path != "/v1/keys":
            assert public(second, path) == data, path
    assert public(second, partial) == public(coordinator, partial)
    newest = proof_path(of.digest, 2)
    assert public(second, newest) == shown[newest]
    # After a start all are asked once about the log and the directory; then nobody, and much later everybody.
    before = [witness.asked for witness in witnesses]
    for _ in range(2):
        asyncio.run(second.cosigner.ask_all())
        assert [witness.asked for witness in witnesses] == [count + 2 for count in before]
    second.clock.advance(1000 * TERMS.freshness_s + 61_000)
    now = second.clock.now()
    proof, entry = public(second, newest), manifest_entry(manifest_digests(second, of, 2)[1])
    with pytest.raises(StaleCheckpointError):
        check_logged(proof, entry, index=2, experiment=of.digest, terms=TERMS, now=now)
    asyncio.run(second.cosigner.ask_all())
    check_logged(public(second, newest), entry, index=2, experiment=of.digest, terms=TERMS, now=now)
    assert public(second, first_path(of.digest)) == shown[first_path(of.digest)]
    again.close()


def test_files_lie_in_the_folder_in_the_order_in_which_they_are_needed(tmp_path: Path) -> None:
    of = logged(rounds=1)
    coordinator, _ = world(folder=tmp_path)
    add(coordinator.store, of)
    written: list[str] = []
    write = coordinator.publisher._write

    async def noted(path: str, data: bytes | None) -> None:
        written.append(path)
        await write(path, data)

    coordinator.publisher._write = noted  # type: ignore[method-assign]
    asyncio.run(coordinator.step())
    at = {path: position for position, path in enumerate(written)}
    base = f"/v1/experiment/{of.digest}"
    assert at[log_path(of.digest, Tile(0, 0, 2).path)] < at[log_path(of.digest, "checkpoint")] < at[base]
    assert at[proof_path(of.digest, 0)] < at[base]
    assert at[proof_path(of.digest, 1)] < at[f"{base}/manifest/1"]
    assert at[first_path(of.digest)] < at[base]


def test_repro_health_is_told_while_a_log_begins_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    logbook = Logbook(MemoryStore(), None, TERMS)

    def size(log: OneLog) -> int:
        # As if the other thread had its turn just now.
        begun = f"{len(logbook._logs):064x}"
        logbook._logs[begun] = OneLog(begun, TERMS.log_key(begun), TERMS, None)
        return log.tree.size

    monkeypatch.setattr(OneLog, "size", property(size))
    assert logbook.health()["waiting"] == 0
