"""Rounds with two relays, driven from instant to instant: manifests, openings, steps, lies, silence, and kills."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from secvm.coordinator.alarms import Alarms
from secvm.coordinator.relayed.batch_routes import RefusedBatchError
from secvm.coordinator.relayed.relayed_history import RelayedRound
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.layers import INNER_BYTES, open_inner, open_outer, seal_both
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, RequestSealer
from secvm.errors import ArithmeticRangeError, BadInputError, OpeningError
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import RelayCover
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counts import EntryReveal, MixReveal
from secvm.protocol.relays.cover_parts import derive_part
from secvm.protocol.relays.manifest import RelayedManifest, read_manifest
from secvm.protocol.relays.opening import Opening, RelayedEnding, following_faults, is_opened
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, START, known_bytes
from tests.effort import scaled
from tests.unit.coordinator import two_relays
from tests.unit.coordinator.two_relays import (
    KEPT_DAYS,
    Federation,
    Lie,
    Said,
    TwoRelays,
    add,
    document,
    packages_of,
    recount,
    submission,
    throws,
)


@pytest.fixture
def store() -> CoordinatorStore:
    return MemoryStore()


def start(store: CoordinatorStore, lie: Lie | None = None, *, clients: int = 5, **changes: Any) -> Federation:
    of = document(**changes)
    add(store, of)
    return Federation(store, TwoRelays(of, clients=clients, lie=lie))


def manifest(federation: Federation, number: int) -> RelayedManifest:
    of = federation.relays.document
    before = None if number == 1 else manifest(federation, number - 1)
    return read_manifest(federation.public(f"manifest/{number}"), of, before)


def opening(federation: Federation, number: int) -> Opening:
    return federation.relays.document.read(Opening, federation.public(f"opening/{number}"))


def net_tally(federation: Federation, number: int) -> Tally:
    digest = opening(federation, number).tally
    assert digest is not None
    found = federation.publisher.public(f"/v1/blob/{digest}")
    assert found is not None
    return decode_tally(found[0], digest=digest, experiment=federation.relays.document.experiment)


def expected_net(federation: Federation, number: int) -> Tally:
    """By hand: everybody's packages, and all parts of both relays but the opened ones."""
    relays, told = federation.relays, manifest(federation, number)
    of, said = relays.document, relays.said[told.label]
    opened = relays.statements(said)
    part = EntryReveal.read(opened["entry_reveal"], ENTRY.public).part
    assert MixReveal.read(opened["mix_reveal"], MIX.public).part == part
    tally = aggregate.empty_tally(of.experiment)
    for client in range(relays.clients):
        tally = tally.count(packages_of(client, of.budget))
    for role, root in (("entry", said.entry_count.received), ("mix", said.entry_count.root)):
        for j in range(of.relay_cover.parts):
            if j != part:
                tally = tally.merge(_part_tally(relays, role, told, root, j))
    return tally


def _part_tally(relays: TwoRelays, role: str, told: RelayedManifest, root: bytes, part: int) -> Tally:
    of = relays.document
    seed = relays.secret(role, told.round_number).part_seed(part)
    named: dict[str, Any] = {"experiment_id": of.experiment_id, "round_number": told.round_number}
    return derive_part(of.experiment, label=told.label, root=root, seed=seed, **named).tally


def equal(one: Tally, other: Tally) -> bool:
    return all(
        bool((getattr(one, name) == getattr(other, name)).all()) for name in ("plus", "minus", "participants", "cells")
    )


def test_all_rounds_are_opened_and_everybody_believes_them(store: CoordinatorStore) -> None:
    federation = start(store)
    asyncio.run(federation.go())
    of = federation.relays.document
    state = aggregate.start(of.experiment)
    for number in (1, 2):
        told, found = manifest(federation, number), opening(federation, number)
        assert is_opened(found, told, of)
        assert told.state == hashlib.sha256(state.to_bytes()).hexdigest()
        assert equal(net_tally(federation, number), expected_net(federation, number))
        state = aggregate.step(of.experiment, state, net_tally(federation, number))
    assert following_faults(manifest(federation, 2), manifest(federation, 1), opening(federation, 1), of) == ()
    end = of.read(RelayedEnding, federation.public("ending"))
    assert (end.round_number, end.why, end.opening) == (2, "finished", opening(federation, 2).digest)
    assert end.state == hashlib.sha256(state.to_bytes()).hexdigest()
    assert {"round-announced", "round-opened"} <= set(federation.told)
    assert not [line for line in federation.told if line.startswith("why")]


def test_status_of_an_opened_round_counts_packages_and_junk(
    store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capsule that opens to no package stands in a device's: it is counted, as junk."""

    def with_junk(of: ExperimentDocument, told: RelayedManifest, client: int) -> list[bytes]:
        pk_c, pk_x = X25519PublicKey(told.count_key), told.mix_commitment.public_key
        made = seal_both(pk_c, pk_x, told.label, known_bytes(f"junk {client}", 64), b"no package".ljust(32))[1]
        return [*submission(of, told, client)[:-1], made]

    monkeypatch.setattr(two_relays, "submission", with_junk)
    federation = start(store)
    asyncio.run(federation.go())
    of = federation.relays.document
    told = json.loads(federation.public("status"))
    assert told["privacy"]["kind"] == "relays"
    first = told["rounds"][0]
    capsules = 5 * of.budget + 2 * of.relay_cover.packages
    expected = {"state": "opened", "clients": 5, "capsules": capsules, "packages": capsules - 5, "junk": 5}
    assert {name: first[name] for name in expected} == expected
    assert (first["refused"], first["stepped"], first["reasons"]) == (0, True, [])


def test_repro_a_round_whose_instants_passed_while_a_driver_was_showing_is_attended_to(
    store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept just then waited for ever: no instant of the round was still to come."""
    federation = start(store)
    asyncio.run(federation.driver.step())
    last = manifest(federation, 1).instants.open_by
    after = federation.driver._after

    async def slept() -> None:
        await after()
        federation.clock.advance(last - federation.clock.now())

    monkeypatch.setattr(federation.driver, "_after", slept)
    at = asyncio.run(federation.driver.step())
    assert at is not None
    assert at <= federation.clock.now()


def unexplained(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RelayCover, "most_in_a_cell", lambda _self, _devices: (1, 1, 1))


def repro_noise_that_left_nobody_ended_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object) -> None:
        raise BadInputError("nobody took part in this round")

    patch.setattr(aggregate, "step", nobody)


@pytest.mark.parametrize(
    ("clients", "spoil", "reason", "end"),
    [
        (2, lambda _patch: None, "too-few-sent", "too-few-sent"),
        (5, unexplained, "beyond-cover", "beyond-cover"),
        (5, repro_noise_that_left_nobody_ended_the_coordinator, "nobody-left", "nobody-left"),
    ],
    ids=["too-few-sent", "unexplained", "test_repro_noise_that_left_nobody_ended_the_coordinator"],
)
def test_what_cannot_be_stepped_is_opened_all_the_same(
    store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch, clients: int, spoil: Any, reason: str, end: str
) -> None:
    spoil(monkeypatch)
    federation = start(store, clients=clients)
    asyncio.run(federation.go())
    assert opening(federation, 1).is_opened
    assert manifest(federation, 2).model == manifest(federation, 1).model
    assert f"why-not-stepped {reason}" in federation.told
    assert json.loads(federation.public("status"))["rounds"][0]["end"] == end


def test_a_step_out_of_range_ends_its_experiment(store: CoordinatorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_range(*_: object) -> None:
        raise ArithmeticRangeError("too large")

    federation = start(store)
    monkeypatch.setattr(aggregate, "step", out_of_range)
    asyncio.run(federation.go())
    end = federation.relays.document.read(RelayedEnding, federation.public("ending"))
    assert (end.round_number, end.why, end.state) == (1, "stopped", manifest(federation, 1).state)
    assert "why-not-stepped out-of-range" in federation.told


# ── what a round waits for ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["entry", "mix"])
async def test_without_both_commitments_the_round_waits_and_the_operator_is_told_once(
    store: CoordinatorStore, role: str
) -> None:
    federation = start(store)
    federation.relays.away = {role}
    for _ in range(3):
        assert await federation.driver.step() is None
        assert federation.driver.asks_again
    assert store.batches() == []
    assert store.rounds(federation.relays.document.digest) == []
    assert federation.told == [f"round-waits {role}-relay-silent"]
    federation.relays.away = set()
    await federation.driver.step()
    assert manifest(federation, 1).round_number == 1


class Fetching(TwoRelays):
    """Relays that fetch the document when they are asked, as real ones do; and look at what else is public then."""

    def __init__(self, of: ExperimentDocument, seen: list[set[str]]) -> None:
        super().__init__(of)
        self.seen = seen
        self.shown_by: Callable[[], dict[str, bytes]] = dict

    async def commitment(self, relay: Relay, experiment: str, number: int) -> bytes | None:
        path = f"/v1/experiment/{experiment}"
        self.seen.append({name.removeprefix(path) for name in self.shown_by() if name.startswith(path)})
        return await super().commitment(relay, experiment, number) if "" in self.seen[-1] else None


def test_repro_whoever_is_asked_for_a_commitment_finds_the_experiment_public(store: CoordinatorStore) -> None:
    relays = Fetching(document(), [])
    add(store, relays.document)
    federation = Federation(store, relays)
    relays.shown_by = federation.shown
    asyncio.run(federation.go())
    assert [told for told in federation.told if told.startswith("round-waits")] == []
    # Both relays in both rounds; and before they are asked for the second, what came of the first is there.
    assert len(relays.seen) == 4
    assert all("/opening/1" in seen for seen in relays.seen[2:])


@pytest.mark.parametrize("role", ["entry", "mix"])
def test_commitment_of_another_round_is_refused(store: CoordinatorStore, role: str) -> None:
    federation = start(store)
    federation.relays.foreign = {role}
    asyncio.run(federation.driver.step())
    assert federation.told == [f"round-waits {role}-commitment-refused"]
    assert store.batches() == []


def test_paused_experiment_asks_nobody(store: CoordinatorStore) -> None:
    federation = start(store)
    store.set_standing(federation.relays.document.digest, Standing.PAUSED)
    asyncio.run(federation.driver.step())
    assert federation.relays.asked == []


async def test_stopped_experiment_ends_with_the_round_that_runs(store: CoordinatorStore) -> None:
    federation = start(store)
    await federation.driver.step()
    store.set_standing(federation.relays.document.digest, Standing.STOPPED)
    await federation.go()
    end = federation.relays.document.read(RelayedEnding, federation.public("ending"))
    assert (end.round_number, end.why) == (1, "stopped")


# ── relays that lie, break or are silent ─────────────────────────────────────────────────────────────────────────────


def wrong_entry_equation(said: Said) -> None:
    said.entry_count = replace(said.entry_count, clients=said.entry_count.clients + 1)
    said.mix_count = replace(said.mix_count, entry_count=said.entry_count.digest)


def wrong_mix_equation(said: Said) -> None:
    said.mix_count = replace(said.mix_count, refused=said.mix_count.refused + 1)


def capsule_more(said: Said) -> None:
    said.batch = sorted([*said.batch, b"z" * INNER_BYTES], key=capsule_digest)
    recount(said)


def other_entry_count(said: Said) -> None:
    said.mix_count = replace(said.mix_count, entry_count="ab" * 32)


def part_dropped(role: str) -> Lie:
    """Everything that a relay added is replaced by the mixing relay, by capsules that nobody can open."""

    def lie(said: Said) -> None:
        relays, manifest, parts = TwoRelays(document()), said.manifest, range(4)
        if role == "mix":
            added = {one for j in parts for one in relays.part("mix", manifest, said.entry_count.root, j, outer=False)}
        else:
            key = relays.secret("mix", manifest.round_number).mix_key
            outers = (relays.part("entry", manifest, said.entry_count.received, j, outer=True) for j in parts)
            added = {open_outer(key, manifest.label, outer) for part in outers for outer in part}
        made = [known_bytes(f"made up {i}", INNER_BYTES) for i in range(len(added))]
        said.batch = sorted([*(one for one in said.batch if one not in added), *made], key=capsule_digest)
        recount(said)

    return lie


def two_counts(said: Said) -> None:
    said.answered = replace(said.mix_count, refused=said.mix_count.refused + 1)


def silent_about(*names: str, hands_on: bool = True) -> Lie:
    def lie(said: Said) -> None:
        said.hands_on = hands_on
        said.silent.update(names)

    return lie


STATEMENTS = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
#: What relays do, and why the round is unopened then.
LIES: dict[str, tuple[Lie, set[str]]] = {
    "wrong-n1": (wrong_entry_equation, {"false-entry-equation"}),
    "wrong-n2": (wrong_mix_equation, {"false-mix-equation"}),
    "capsule-more": (capsule_more, {"false-mix-equation"}),
    "other-entry-count": (other_entry_count, {"missing-entry-count"}),
    "other-count-in-reveal": (two_counts, {"false-other-mix-count", "false-part"}),
    "no-reveals": (silent_about("entry_reveal", "mix_reveal"), {"missing-entry-reveal", "missing-mix-reveal"}),
    "no-mix-reveal": (silent_about("mix_reveal"), {"missing-mix-reveal"}),
    "no-entry-count": (silent_about("entry_count"), {"missing-entry-count"}),
    "no-entry-part": (part_dropped("entry"), {"entry-part-not-in-batch"}),
    "no-mix-part": (part_dropped("mix"), {"mix-part-not-in-batch"}),
    "no-batch": (silent_about(hands_on=False), {"missing-batch"}),
    "nothing": (
        silent_about(*STATEMENTS, hands_on=False),
        {"missing-batch", *(f"missing-{name.replace('_', '-')}" for name in STATEMENTS)},
    ),
}


def ended(federation: Federation) -> RelayedRound:
    """Round 1, driven to its end."""
    asyncio.run(federation.go(until=lambda: len(federation.round()[0].rounds) == 2))
    return federation.round(1)[1]


@pytest.mark.parametrize("name", LIES)
def test_what_is_false_or_missing_leaves_the_round_unopened(store: CoordinatorStore, name: str) -> None:
    lie, reasons = LIES[name]
    federation = start(store, lie)
    one = ended(federation)
    assert one.opening is not None
    assert one.figures is not None
    assert not one.opening.is_opened
    # Which part two counts lead to is chance: three times in four it is another one.
    assert set(one.figures.reasons) - {"false-part"} == reasons - {"false-part"}
    assert [f"why-unopened {reason}" for reason in one.figures.reasons] == [
        line for line in federation.told if line.startswith("why")
    ]
    told = json.loads(federation.public("status"))["rounds"][0]["end"]
    assert told == {"nothing": "nothing-came", "no-batch": "relay-silent"}.get(
        name, "relay-silent" if all(reason.startswith("missing-") for reason in reasons) else "false-statement"
    )
    # What relays signed stands in the opening all the same.
    kept = {statement for statement in STATEMENTS if getattr(one.opening, statement) is not None}
    assert kept == {known for known in STATEMENTS if f"missing-{known.replace('_', '-')}" not in reasons}
    assert one.opening.count_seed is None
    assert manifest(federation, 2).model == manifest(federation, 1).model
    assert manifest(federation, 2).opening == one.opening.digest
    assert store.count_seed(*one.place) is None
    of, both = federation.relays.document, (manifest(federation, 2), manifest(federation, 1))
    assert following_faults(*both, one.opening, of) == ()


def test_a_coordinator_that_was_started_again_while_the_round_ran_says_so_and_accuses_no_relay(
    store: CoordinatorStore,
) -> None:
    for name, began, end in (
        ("nothing", 1, "restarted"),
        ("nothing", 0, "nothing-came"),
        ("no-entry-part", 1, "false-statement"),
    ):
        federation = start(type(store)(), LIES[name][0])
        federation.driver.rounds.alarms = Alarms(began_at=START + began)
        figures = ended(federation).figures
        assert figures is not None
        assert figures.end.word == end


def test_nothing_can_be_brought_when_the_round_is_over(store: CoordinatorStore) -> None:
    federation = start(store)
    one = ended(federation)
    book = federation.round()[0]
    said = federation.relays.said[one.manifest.label]
    with pytest.raises(RefusedBatchError, match="over") as refused:
        federation.arrivals.count(book, one, said.mix_count.signed(MIX), federation.clock.now())
    assert refused.value.status == 410


# ── public shards, and forgetting ────────────────────────────────────────────────────────────────────────────────────


def test_shards_are_kept_for_the_days_that_the_status_tells(store: CoordinatorStore) -> None:
    federation = start(store)
    digest = federation.relays.document.digest
    asyncio.run(federation.go())
    ends = [manifest(federation, number).instants.open_by + KEPT_DAYS * 86_400_000 for number in (1, 2)]
    told = json.loads(federation.public("status"))["rounds"]
    assert [one["kept_until"] for one in told] == ends
    files = [f"/v1/experiment/{digest}/{path}" for path in ("shards/{}", "shard/{}/0", "capsules/{}/0", "tally/{}/0")]

    def public() -> list[list[int]]:
        """Of each kind of file the rounds that it is there of."""
        return [[n for n in (1, 2) if federation.publisher.public(path.format(n)) is not None] for path in files]

    # The driver comes again by itself when something is to be forgotten, and not before.
    for number, kept in ((1, [1, 2]), (2, [2])):
        assert asyncio.run(federation.driver.step()) == ends[number - 1]
        federation.clock.advance(ends[number - 1] - 1 - federation.clock.now())
        asyncio.run(federation.driver.step())
        assert ([of_round for _, of_round in store.batches()], public()) == (kept, [kept] * 4)
        federation.clock.advance(1)
    asyncio.run(federation.driver.step())
    assert (store.batches(), public()) == ([], [[]] * 4)
    assert federation.told.count("batch-forgotten") == 2


def test_a_published_seed_opens_nothing_but_its_own_round(store: CoordinatorStore) -> None:
    federation = start(store)
    asyncio.run(federation.go())
    slot = GatewayKey(1, X25519PrivateKey(throws("a slot")(32)))
    fetch = RequestSealer(slot.configuration).seal(b"GET /v1/experiment", throws("a device")).capsule
    batches = {number: federation.relays.said[manifest(federation, number).label].batch for number in (1, 2)}
    for number, other in ((1, 2), (2, 1)):
        seed = opening(federation, number).count_seed
        assert seed is not None
        key, label = X25519PrivateKey.derive(seed), manifest(federation, number).label
        assert open_inner(key, label, batches[number][0])
        for capsule in batches[other]:
            with pytest.raises(OpeningError):
                open_inner(key, manifest(federation, other).label, capsule)
        with pytest.raises(OpeningError):
            GatewayKeys([GatewayKey(1, key)]).open(fetch)


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CHANGES = (
    "begin_batch", "announce", "set_state", "conclude", "set_standing", "keep_blobs", "agree", "put_piece",
    "finish_batch", "keep_run", "forget_batch", "claim_run",
)  # fmt: skip


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A store whose process dies before or after its n-th change."""

    def __init__(self, store: CoordinatorStore, dies_at: int | None, changes: tuple[str, ...] = CHANGES) -> None:
        self._store, self._changes = store, changes
        self.moment, self.dies_at = 0, dies_at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in self._changes:
            return found

        def mortal(*arguments: Any, **named: Any) -> Any:
            self._pass_by()
            result = found(*arguments, **named)
            self._pass_by()
            return result

        return mortal

    def _pass_by(self) -> None:
        self.moment += 1
        if self.moment == self.dies_at:
            raise Killed


def life(dies_at: int | None, of: ExperimentDocument) -> tuple[dict[str, bytes], int, MemoryStore]:
    """A run to the end, with a kill at this moment; what is public, and how many moments there were."""
    store = MemoryStore()
    add(store, of)
    relays = TwoRelays(of)
    mortal: Any = Mortal(store, dies_at)
    first = Federation(mortal, relays, dice=throws("the first"))
    try:
        asyncio.run(first.go())
        last = first
    except Killed:
        last = Federation(store, relays, first.clock, dice=throws("the second"))
        asyncio.run(last.go())
    return last.shown(), mortal.moment, store


def test_killed_at_any_change_a_round_has_one_seed_one_manifest_and_one_opening() -> None:
    of = document(rounds=1)
    place = f"/v1/experiment/{of.digest}"
    whole, moments, _ = life(None, of)
    seen: dict[bytes | None, int] = {}
    for dies_at in range(1, moments + 1, scaled(5, 1)):
        shown, _, store = life(dies_at, of)
        told = read_manifest(shown[f"{place}/manifest/1"], of)
        found = of.read(Opening, shown[f"{place}/opening/1"])
        assert is_opened(found, told, of)
        assert found.count_seed is not None
        assert hashlib.sha256(found.count_seed).digest() == told.count_seed_hash
        assert len(store.rounds(of.digest)) == 1
        seen[found.count_seed] = seen.get(found.count_seed, 0) + 1
        if shown[f"{place}/manifest/1"] == whole[f"{place}/manifest/1"]:
            # From the first durable seed on, everything comes out in the same bytes.
            assert shown == whole
    # Only who died before the seed was durable left it to the next to throw one.
    assert len(seen) <= 2
    assert min(seen.values()) == 1
