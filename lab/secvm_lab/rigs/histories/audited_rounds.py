"""Rounds with two relays as the public sees them, for tests of auditors: light, or sealed to the last capsule.

A light round has all documents and a net tally that was drawn; its capsules are bytes that nobody opens and nobody is
shown. A sealed round is whole: devices' packages, both relays' cover, derived and sealed, runs of digests and capsules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, open_outer, seal_both
from secvm.errors import OpeningError
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage
from secvm.protocol.canonical import base64_text
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.documents.recomputation import ModelNames
from secvm.protocol.relays.batches import capsule_digest, capsule_root
from secvm.protocol.relays.commitments import RoundSecret
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.cover_parts import OpenedPart, Role, seal_part
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import SHARD, ShardRun, ShardTree, read_sub_tally
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX, RelayedRound, known_bytes

T = TypeVar("T")

ROLES: tuple[Role, Role] = ("entry", "mix")
#: What each relay's door serves of a round, by the name of the statement.
STATEMENTS = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")


@dataclass(frozen=True, kw_only=True)
class LightRound(RelayedRound):
    """All documents of a round, with a model and a net tally."""

    #: Whose secrets: rounds of different histories share none.
    name: str = ""
    model: ModelNames = ("0" * 64,) * 3
    opens_at: int | None = None
    #: The net tally, where it is drawn.
    drawn: Tally | None = None
    #: What a liar makes of the manifest, a statement or the net tally, by its name. What follows from it follows.
    lies: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def secret(self, role: str) -> RoundSecret:
        return RoundSecret(known_bytes(f"{self.name} {role} {self.round_number}"))

    @property
    def count_seed(self) -> bytes:
        return known_bytes(f"{self.name} count seed {self.round_number}")

    @cached_property
    def manifest(self) -> RelayedManifest:
        made = super().manifest
        opens_at = made.instants.opens_at if self.opens_at is None else self.opens_at
        state, training, evaluation = self.model
        made = replace(
            made,
            instants=Instants.planned(self.document, opens_at),
            state=state,
            training_weights=training,
            evaluation_weights=evaluation,
        )
        return self._told("manifest", made)

    def _told(self, name: str, made: T) -> T:
        lie = self.lies.get(name)
        told: T = made if lie is None else lie(made)
        return told

    @cached_property
    def received(self) -> list[bytes]:
        return super().received if self.clients else []

    @cached_property
    def entry_count(self) -> EntryCount:
        return self._told("entry_count", super().entry_count)

    @cached_property
    def mix_count(self) -> MixCount:
        return self._told("mix_count", self._mix_count())

    def _mix_count(self) -> MixCount:
        return super().mix_count

    @cached_property
    def entry_reveal(self) -> EntryReveal:
        return self._told("entry_reveal", super().entry_reveal)

    @cached_property
    def mix_reveal(self) -> MixReveal:
        return self._told("mix_reveal", super().mix_reveal)

    @cached_property
    def net(self) -> Tally:
        """What devices step from."""
        return self._told("net", self._net())

    def _net(self) -> Tally:
        return aggregate.empty_tally(self.document.experiment) if self.drawn is None else self.drawn

    @cached_property
    def opening(self) -> Opening:
        made = replace(super().opening, tally=tally_digest(self.net))
        return self._told("opening", made)

    def statements(self) -> dict[str, bytes]:
        """All four, as their relays signed them."""
        keys = {"entry": ENTRY, "mix": MIX}
        return {name: getattr(self, name).signed(keys[name.split("_")[0]]) for name in STATEMENTS}

    def public(self) -> dict[str, bytes]:
        """What is public of its capsules, as files below the experiment: nothing."""
        return {}

    def door(self, *, without: tuple[str, ...] = ()) -> dict[str, bytes]:
        """What a relay's door serves of the round."""
        told = {name: None if name in without else base64_text(data) for name, data in self.statements().items()}
        label = self.label.hex()
        return {f"/counts/{label}": json.dumps(told).encode(), f"/leaves/{label}/0": b"".join(self.batch)}


@dataclass(frozen=True, kw_only=True)
class SealedRound(LightRound):
    """A round whose capsules are sealed indeed, and public."""

    #: Packages of each device beside its participation; devices without an entry send nulls.
    told: tuple[tuple[Package, ...], ...] = ()
    refused: int = 0
    #: Digests that a relay leaves out and replaces by bytes that nobody opens, so that its count still adds up.
    entry_leaves_out: frozenset[bytes] = field(default_factory=frozenset)
    mix_leaves_out: frozenset[bytes] = field(default_factory=frozenset)

    def _sent(self, device: int) -> Iterator[bytes]:
        packages: list[Package] = [ParticipationPackage(cohort=Cohort.TRAIN, class_index=device % 2)]
        packages += self.told[device] if device < len(self.told) else ()
        packages += [NullPackage()] * (self.document.budget - len(packages))
        count_key, mix_key = self.count_key.public_key, self.secret("mix").mix_key.public_key
        for i, package in enumerate(packages):
            data = encode(AddressedPackage(self.document.experiment_id, self.round_number, package))
            secrets = known_bytes(f"{self.name} {self.round_number} device {device} {i}", 64)
            yield seal_both(count_key, mix_key, self.label, secrets, data)[1]

    @cached_property
    def submission(self) -> list[bytes]:
        return sorted(capsule_digest(outer) for outer in self._sent(0))

    @cached_property
    def _submitted(self) -> dict[bytes, bytes]:
        """Outer capsules of all devices, by digest."""
        return {capsule_digest(outer): outer for device in range(self.clients) for outer in self._sent(device)}

    @cached_property
    def received(self) -> list[bytes]:
        return sorted(self._submitted)

    def part(self, role: Role, number: int) -> OpenedPart:
        """A part of a relay's cover, as it draws it."""
        root = capsule_root(self.received if role == "entry" else self.batch)
        return OpenedPart.over(role, self.document, self.manifest, root, self.secret(role).part_seed(number))

    def _cover(self, role: Role) -> list[bytes]:
        """All parts of a relay, sealed: outer capsules of the entry relay, inner ones of the mixing relay."""
        count_key, mix_key = self.count_key.public_key, self.secret("mix").mix_key.public_key
        found: list[bytes] = []
        for number in range(self.parts):
            part = self.part(role, number).part
            for block in seal_part(part, count_key=count_key, mix_key=mix_key if role == "entry" else None):
                found += _cut(block.outer, OUTER_BYTES) if role == "entry" else _cut(block.inner, INNER_BYTES)
        return found

    @cached_property
    def _outers(self) -> dict[bytes, bytes]:
        """The entry relay's batch, by digest."""
        made = {**self._submitted, **{capsule_digest(one): one for one in self._cover("entry")}}
        return self._replaced(made, self.entry_leaves_out, OUTER_BYTES)

    @cached_property
    def batch(self) -> list[bytes]:
        return sorted(self._outers)

    @cached_property
    def inners(self) -> dict[bytes, bytes]:
        """What the mixing relay hands on, by digest."""
        key, opened = self.secret("mix").mix_key, []
        for outer in self._outers.values():
            with suppress(OpeningError):
                opened.append(open_outer(key, self.label, outer))
        found = {capsule_digest(one): one for one in (*opened, *self._cover("mix"))}
        return self._replaced(found, self.mix_leaves_out, INNER_BYTES)

    def _replaced(self, made: dict[bytes, bytes], left_out: frozenset[bytes], size: int) -> dict[bytes, bytes]:
        kept = {digest: capsule for digest, capsule in made.items() if digest not in left_out}
        instead = [known_bytes(f"{self.name} instead {i}", size) for i in range(len(made) - len(kept))]
        return {**kept, **{capsule_digest(one): one for one in instead}}

    @cached_property
    def mixed(self) -> list[bytes]:
        return sorted(self.inners)

    def _mix_count(self) -> MixCount:
        # What the entry relay put in that does not open is refused, and told.
        refused = len(self.batch) + self.document.relay_cover.packages - len(self.mixed)
        return replace(super()._mix_count(), refused=refused)

    # ── what the coordinator counts and shows ────────────────────────────────────────────────────────────────────────

    @cached_property
    def sub_tallies(self) -> list[bytes]:
        """Of every shard, as the coordinator signs them."""
        return self._told("sub_tallies", self.counted)

    @cached_property
    def counted(self) -> list[bytes]:
        """What every shard's capsules give."""
        reader = CapsuleReader.of(self.document, self.manifest, self.count_seed)
        shards = (self.mixed[at : at + SHARD] for at in range(0, len(self.mixed), SHARD))
        return [reader.sub_tally(self.inners[digest] for digest in shard) for shard in shards]

    @cached_property
    def shards(self) -> ShardTree:
        tree = ShardTree(self.label)
        for k, sub_tally in enumerate(self.sub_tallies):
            tree.append(self.mixed[k * SHARD : (k + 1) * SHARD], sub_tally)
        return tree

    def _net(self) -> Tally:
        cells = Cells.of(self.document.experiment)
        counts = np.zeros(cells.count, np.int64)
        for sub_tally in self.counted:
            for cell, count in read_sub_tally(sub_tally, cells=cells.count, capsules=SHARD).items():
                counts[cell] += count
        for role in ROLES:
            counts -= np.concatenate(self.part(role, self.entry_reveal.part).part.counts)
        return cells.tally(np.maximum(counts, 0))

    def public(self) -> dict[str, bytes]:
        """Runs of digests, the capsules and sub-tallies, as files below the experiment."""
        found = {}
        for k in range(len(self.sub_tallies)):
            digests = self.mixed[k * SHARD : (k + 1) * SHARD]
            proof = self.shards.proof(k)
            run = ShardRun(k, len(self.mixed), proof.mix_path, tuple(digests))
            found[f"shard/{self.round_number}/{k}"] = run.to_bytes()
            found[f"capsules/{self.round_number}/{k}"] = b"".join(self.inners[digest] for digest in digests)
            found[f"tally/{self.round_number}/{k}"] = ShardTally(proof.path, self.sub_tallies[k]).to_bytes()
        return found


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
