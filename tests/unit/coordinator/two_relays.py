"""Two relays without a network: they commit, add cover, mix, count and reveal as real ones do; and some lie.

``Federation`` has a coordinator's driver for experiments with two relays around a store, a clock that goes from one
instant to the next, and the relays. People's packages are sealed as devices seal them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.specification import EarlyStopping
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed import conclusion, run_counting, shard_files
from secvm.coordinator.relayed.batch_routes import Arrivals
from secvm.coordinator.relayed.relay_statements import RelayClient
from secvm.coordinator.relayed.relayed_documents import RelayedPublisher
from secvm.coordinator.relayed.relayed_driver import RelayedDriver
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.relayed_history import RelayedHistories, RelayedHistory, RelayedRound
from secvm.coordinator.relayed.relayed_rounds import RoundAttendant
from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.relayed.shard_files import ShardFiles, ShardFolder
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, BulkSealer, open_outer, seal_both
from secvm.errors import OpeningError
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument, Relay, Windows, publish
from secvm.protocol.documents.recomputation import first_model
from secvm.protocol.documents.terms import RelayTimes
from secvm.protocol.relays import batches as batch_pieces
from secvm.protocol.relays.batches import capsule_digest, capsule_root, cut
from secvm.protocol.relays.commitments import RoundSecret, entry_commitment, mix_commitment
from secvm.protocol.relays.counts import EntryCount, MixCount, entry_reveal, mix_reveal
from secvm.protocol.relays.cover_parts import derive_part, seal_part
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.testing.clock import ManualClock
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, START, known_bytes, relayed_document

GRID = Grid(period_s=1200, lead_s=60)
KEPT_DAYS = 9


def document(**changes: Any) -> ExperimentDocument:
    """An experiment of two rounds."""
    windows = Windows(
        length_s=600, grace_s=60, first_opening=START, relays=RelayTimes(batch_s=30, mix_s=40, reveal_s=50, open_s=70)
    )
    return relayed_document(**{"windows": windows, "rounds": 2, "test": True, **changes})


def add(store: CoordinatorStore, of: ExperimentDocument, early: EarlyStopping | None = None) -> str:
    settings = OwnSettings(early_stopping=early).model_dump_json().encode()
    envelope = publish(of, keys=(COORDINATOR,))
    store.add_experiment(StoredExperiment(of.digest, envelope, settings, Standing.RUNNING), first_model(of).by_name)
    return of.digest


def packages_of(client: int, budget: int) -> list[Package]:
    """Exactly B: one who trains, with some units, and nulls."""
    label = client % 2
    own: list[Package] = [
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=label),
        TrainPackage(model=0, bin_index=client % 10, sign=1 if label else -1),
        TrainPackage(model=0, bin_index=10, sign=1 if label else -1),
    ]
    return own + [NullPackage()] * (budget - len(own))


def submission(of: ExperimentDocument, manifest: RelayedManifest, client: int) -> list[bytes]:
    """The outer capsules of one device."""
    pk_c, pk_x = X25519PublicKey(manifest.count_key), manifest.mix_commitment.public_key
    found = []
    for number, package in enumerate(packages_of(client, of.budget)):
        content = encode(AddressedPackage(of.experiment_id, manifest.round_number, package))
        ephemerals = known_bytes(f"device {client} {number} of {manifest.digest}", 64)
        found.append(seal_both(pk_c, pk_x, manifest.label, ephemerals, content)[1])
    return found


@dataclass
class Said:
    """What came of one round at both relays: batch and statements. Lies change it before anybody sees it."""

    manifest: RelayedManifest
    batch: list[bytes]
    entry_count: EntryCount
    mix_count: MixCount
    #: What the entry relay answers, if not the count above.
    answered: MixCount | None = None
    #: Statements that are never shown.
    silent: set[str] = field(default_factory=set)
    #: Statements in the place of others.
    instead: dict[str, bytes] = field(default_factory=dict)
    hands_on: bool = True


Lie = Callable[[Said], None]
#: What honest relays came to, by label: the same round is played in many tests.
_MIXED: dict[object, Said] = {}


class TwoRelays(RelayClient):
    """Both of them. ``away``: roles that do not answer at all."""

    def __init__(self, of: ExperimentDocument, *, clients: int = 5, lie: Lie | None = None) -> None:
        super().__init__({})
        self.document = of
        self.clients = clients
        self.lie = lie
        self.away: set[str] = set()
        self.foreign: set[str] = set()
        self.asked: list[tuple[str, int]] = []
        self.said: dict[bytes, Said] = {}

    def role(self, relay: Relay) -> str:
        assert relay.role is not None
        return relay.role

    def secret(self, role: str, number: int) -> RoundSecret:
        return RoundSecret(known_bytes(f"{role} {number} of {self.document.digest}"))

    async def commitment(self, relay: Relay, experiment: str, number: int) -> bytes | None:
        role = self.role(relay)
        self.asked.append((role, number))
        await asyncio.sleep(0)
        if role in self.away:
            return None
        make = entry_commitment if role == "entry" else mix_commitment
        number = number + 1 if role in self.foreign else number
        parts = self.document.relay_cover.parts
        made = make(self.secret(role, number), experiment=experiment, round_number=number, parts=parts)
        return made.signed(ENTRY if role == "entry" else MIX)

    async def shown(self, relay: Relay, label: bytes) -> dict[str, bytes]:
        await asyncio.sleep(0)
        if self.role(relay) in self.away or label not in self.said:
            return {}
        return self.statements(self.said[label])

    def statements(self, said: Said) -> dict[str, bytes]:
        """All four, as signed."""
        number, parts = said.manifest.round_number, self.document.relay_cover.parts
        count = said.mix_count.signed(MIX)
        answered = count if said.answered is None else said.answered.signed(MIX)
        first = entry_reveal(self.secret("entry", number), answered, parts=parts)
        second = mix_reveal(self.secret("mix", number), first, answered, parts=parts)
        found = {
            "entry_count": said.entry_count.signed(ENTRY),
            "mix_count": count,
            "entry_reveal": first.signed(ENTRY),
            "mix_reveal": second.signed(MIX),
        }
        return {name: data for name, data in {**found, **said.instead}.items() if name not in said.silent}

    def part(self, role: str, manifest: RelayedManifest, root: bytes, part: int, *, outer: bool) -> list[bytes]:
        of = self.document
        drawn = derive_part(
            of.experiment,
            experiment_id=of.experiment_id,
            round_number=manifest.round_number,
            label=manifest.label,
            root=root,
            seed=self.secret(role, manifest.round_number).part_seed(part),
        )
        keys: dict[str, Any] = {"count_key": X25519PublicKey(manifest.count_key)}
        if outer:
            keys["mix_key"] = manifest.mix_commitment.public_key
        blocks = list(seal_part(drawn, **keys))
        size = OUTER_BYTES if outer else INNER_BYTES
        return [one for block in blocks for one in cut(block.outer if outer else block.inner, size)]

    def mix(self, manifest: RelayedManifest) -> Said:
        """The round from submissions to the mixing relay's batch."""
        name = (manifest.label, self.clients, submission)
        if name not in _MIXED:
            _MIXED[name] = self._mixed(manifest)
        said = replace(_MIXED[name], silent=set(), instead={})
        if self.lie is not None:
            self.lie(said)
        self.said[manifest.label] = said
        return said

    def _mixed(self, manifest: RelayedManifest) -> Said:
        of, parts, label = self.document, self.document.relay_cover.parts, manifest.label
        received = [one for client in range(self.clients) for one in submission(of, manifest, client)]
        received_root = capsule_root(sorted(map(capsule_digest, received)))
        covered = [one for j in range(parts) for one in self.part("entry", manifest, received_root, j, outer=True)]
        outers = sorted([*received, *covered], key=capsule_digest)
        entry_count = EntryCount(
            label=label,
            clients=self.clients,
            received=received_root,
            capsules=len(outers),
            root=capsule_root(map(capsule_digest, outers)),
        )
        key = self.secret("mix", manifest.round_number).mix_key
        opened = set()
        for outer in outers:
            try:
                opened.add(open_outer(key, label, outer))
            except OpeningError:
                continue
        refused = len(outers) - len(opened)
        own = [one for j in range(parts) for one in self.part("mix", manifest, entry_count.root, j, outer=False)]
        batch = sorted([*opened, *own], key=capsule_digest)
        mix_count = MixCount(
            label=label,
            entry_count=entry_count.digest,
            refused=refused,
            capsules=len(batch),
            root=capsule_root(map(capsule_digest, batch)),
        )
        return Said(manifest, batch, entry_count, mix_count)


def recount(said: Said, **changes: Any) -> None:
    """The mixing relay's count over the batch as it is now."""
    said.mix_count = replace(
        said.mix_count,
        capsules=len(said.batch),
        root=capsule_root(map(capsule_digest, said.batch)),
        **changes,
    )


class Federation:
    """A coordinator around a store that may have been another's before, and the relays of one experiment."""

    def __init__(
        self,
        store: CoordinatorStore,
        relays: TwoRelays,
        clock: ManualClock | None = None,
        *,
        dice: Callable[[int], bytes] | None = None,
        log: EntryLog | None = None,
        told: list[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.store, self.relays = store, relays
        self.clock = ManualClock(START - 100_000) if clock is None else clock
        self.told: list[str] = [] if told is None else told
        entry_log = EntryLog() if log is None else log
        self.shards = ShardFiles(store)
        self.publisher = Publisher(store, folder, further=self.shards.find)
        self.books = RelayedHistories(store)
        self.arrivals = Arrivals(store, most_bytes=2**24)
        telling = RelayedEvents(self)  # type: ignore[arg-type]  # it tells as a log does
        showing = RelayedPublisher(
            self.publisher,
            entry_log,
            COORDINATOR,
            store=store,
            folder=ShardFolder(folder, self.shards),
            kept_days=KEPT_DAYS,
        )
        rounds = RoundAttendant(
            store=store,
            now=self.clock.now,
            key=COORDINATOR,
            grid=GRID,
            dice=dice or throws("the coordinator"),
            relays=relays,
            may_grow=entry_log.may_grow,
            counting=RunCounting(store, nap_s=0.001),
            sealer=BulkSealer(),
            events=telling,
        )
        self.driver = RelayedDriver(
            store=store,
            rounds=rounds,
            publisher=showing,
            key=COORDINATOR,
            kept_days=KEPT_DAYS,
            clock=self.clock,
            events=telling,
        )

    def tell(self, event: str, **fields: object) -> None:
        self.told.append(f"{event} {fields['reason']}" if "reason" in fields else event)

    def public(self, path: str) -> bytes:
        found = self.publisher.public(f"/v1/experiment/{self.relays.document.digest}/{path}")
        assert found is not None, path
        return found[0]

    def round(self, number: int | None = None) -> tuple[RelayedHistory, RelayedRound]:
        book = next(book for book in self.books.read() if book.stored.digest == self.relays.document.digest)
        return book, book.rounds[-1 if number is None else number - 1]

    def hand_on(self) -> None:
        """The mixing relay does, when its time has come and it has not."""
        book, one = self.round()
        times = one.manifest.instants
        if not one.is_live or not times.mix_by <= self.clock.now() < times.open_by:
            return
        said = self.relays.said.get(one.manifest.label) or self.relays.mix(one.manifest)
        state = self.store.batch(*one.place)
        if not said.hands_on or state is None or state.whole:
            return
        count, now = said.mix_count.signed(MIX), self.clock.now()
        have = self.arrivals.count(book, one, count, now)
        if have is not None:
            size = batch_pieces.PIECE_CAPSULES
            for index in range(batch_pieces.piece_count(len(said.batch))):
                if index not in have:
                    piece = b"".join(said.batch[index * size : (index + 1) * size])
                    self.arrivals.piece(book, one, index, piece, now)
            assert self.arrivals.count(book, one, count, now) is None

    async def step(self) -> int | None:
        at = await self.driver.step()
        if self.store.rounds(self.relays.document.digest):
            self.hand_on()
        return at

    async def go(self, *, until: Callable[[], bool] | None = None, steps: int = 100) -> None:
        """From instant to instant, until all is over."""
        for _ in range(steps):
            await self.step()
            # What the relays handed on just now is looked at.
            at = await self.driver.step()
            if self.over() if until is None else until():
                return
            assert at is not None
            self.clock.advance(at - self.clock.now())
        raise AssertionError("this goes on for ever")

    def over(self) -> bool:
        paths = [f"/v1/experiment/{one.digest}/ending" for one in self.store.experiments()]
        return all(self.publisher.public(path) is not None for path in paths)

    def shown(self) -> dict[str, bytes]:
        """Everything public."""
        shown = {path: one.data for path, one in self.publisher._shown.items()}
        return {**shown, **{f"/v1/blob/{digest}": self.store.blob(digest) for digest in self.publisher._blobs}}


def throws(name: str) -> Callable[[int], bytes]:
    """Dice of a process of this name: every throw is another one."""
    numbers = iter(range(10**6))
    return lambda count: known_bytes(f"throw {next(numbers)} of {name}", count)


def begun(store: CoordinatorStore, folder: Path | None = None, relays: TwoRelays | None = None) -> Federation:
    """A federation whose experiment has one round."""
    relays = TwoRelays(document(rounds=1)) if relays is None else relays
    add(store, relays.document)
    return Federation(store, relays, folder=folder)


def make_small(patch: pytest.MonkeyPatch, *, shard: int, piece: int) -> None:
    """Pieces and shards of so many capsules, so that a small batch has many."""
    for module in (run_counting, conclusion, shard_files):
        patch.setattr(module, "SHARD", shard)
    for module in (batch_pieces, conclusion):
        patch.setattr(module, "PIECE_CAPSULES", piece)
    patch.setattr(shard_files, "_SHARDS_OF_PIECE", piece // shard)
