"""A round with two relays whose capsules are sealed indeed, for tests of devices and of auditors.

Relays are honest unless told what to leave out; whatever they leave out they replace, so that their counts still add
up, as a liar's would. Their cover is made up, bytes that nobody opens; or, of a ``covered`` round, drawn and sealed, so
that everything can be counted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, open_inner, open_outer
from secvm.errors import OpeningError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage
from secvm.protocol.codec import decode
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.evidence.missing_canary import MissingCanary, missing_canary
from secvm.protocol.relays.batches import CapsuleTree, capsule_digest, capsule_root, cut
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.cover_parts import OpenedPart, Role, seal_part
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import (
    SHARD,
    ShardRun,
    absence_in,
    beside,
    read_sub_tally,
    shard_of,
    write_index,
)
from secvm.protocol.relays.submission import (
    SECRETS_BYTES,
    Submission,
    draw_order,
    read_request,
    receipt_for,
    seal_submission,
    token_bytes,
)
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, RelayedRound, known_bytes
from secvm_lab.rigs.histories.shard_tree import ShardTree

ROLES: tuple[Role, Role] = ("entry", "mix")


def known_words(name: str) -> list[int]:
    """Dice that everybody knows, more of them than one submission needs."""
    data = known_bytes(name, 8 * 4096)
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def outers_in(body: bytes, document: ExperimentDocument) -> tuple[bytes, ...]:
    """The outer capsules of a request, behind its token where it has one."""
    return read_request(body, budget=document.budget, token=token_bytes(document))


@dataclass(frozen=True, kw_only=True)
class SealedRound(RelayedRound):
    """Devices 0, 1, … each send a participation package, what ``told`` says, and nulls."""

    #: Packages of a device beside its participation, by its number.
    told: tuple[tuple[Package, ...], ...] = ()
    #: The requests that came, where they are not made here.
    bodies: tuple[bytes, ...] | None = None
    #: Whether relays' cover is drawn and sealed, and not made up.
    covered: bool = False
    #: Outer digests that the entry relay leaves out, and inner ones that the mixing relay does.
    entry_leaves_out: frozenset[bytes] = frozenset()
    mix_leaves_out: frozenset[bytes] = frozenset()

    @property
    def published(self) -> bytes:
        """The experiment's envelope."""
        return publish(self.document, keys=(COORDINATOR,))

    # ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def packages(self, device: int) -> list[Package]:
        """Exactly B of them."""
        told: Sequence[Package] = self.told[device] if device < len(self.told) else ()
        packages: list[Package] = [ParticipationPackage(cohort=Cohort.TRAIN, class_index=device % 2), *told]
        return packages + [NullPackage()] * (self.document.budget - len(packages))

    @cached_property
    def submissions(self) -> tuple[Submission, ...]:
        """What every device sends."""
        return tuple(
            seal_submission(
                self.document,
                self.manifest,
                self.packages(device),
                order=draw_order(self.document.budget, iter(known_words(f"order of {device}"))),
                ephemerals=known_bytes(f"secrets of {device}", SECRETS_BYTES * self.document.budget),
            )
            for device in range(self.clients)
        )

    @cached_property
    def sent(self) -> dict[bytes, bytes]:
        """Outer capsules of all devices, by digest."""
        bodies = [one.body for one in self.submissions] if self.bodies is None else self.bodies
        return {capsule_digest(outer): outer for body in bodies for outer in outers_in(body, self.document)}

    def _submitted(self, device: int) -> list[bytes]:
        return [capsule_digest(outer) for outer in outers_in(self.submissions[device].body, self.document)]

    @cached_property
    def received(self) -> list[bytes]:
        return sorted(self.sent)

    @cached_property
    def inner_of(self) -> dict[bytes, bytes]:
        """Of every device's outer capsules, by digest, the inner digest."""
        return {digest: capsule_digest(inner) for digest, inner in self._opened(self.sent).items()}

    @cached_property
    def packages_of(self) -> dict[bytes, Package]:
        """What every device's capsule says, by inner digest."""
        return {
            capsule_digest(inner): decode(open_inner(self.count_key, self.label, inner)).package
            for inner in self._opened(self.sent).values()
        }

    # ── relays ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def part(self, role: Role, number: int) -> OpenedPart:
        """A part of a relay's cover, as it draws it."""
        root = capsule_root(self.received if role == "entry" else self.batch)
        return OpenedPart.over(role, self.document, self.manifest, root, self.secret(role).part_seed(number))

    def _cover(self, role: Role) -> dict[bytes, bytes]:
        """All parts of a relay, sealed: outer capsules of the entry relay, inner ones of the mixing relay."""
        count_key, mix_key = self.count_key.public_key, self.secret("mix").mix_key.public_key
        sealed: list[bytes] = []
        for number in range(self.parts):
            part = self.part(role, number).part
            for block in seal_part(part, count_key=count_key, mix_key=mix_key if role == "entry" else None):
                sealed += cut(block.outer, OUTER_BYTES) if role == "entry" else cut(block.inner, INNER_BYTES)
        return {capsule_digest(capsule): capsule for capsule in sealed}

    @cached_property
    def _outers(self) -> dict[bytes, bytes]:
        """What the entry relay hands on, by digest."""
        own = self._cover("entry") if self.covered else self._capsules("cover", self._drawn, OUTER_BYTES)
        return self._without(self.sent | own, self.entry_leaves_out, len(self.sent) + len(own), OUTER_BYTES)

    @property
    def _drawn(self) -> int:
        """Packages of a relay's cover."""
        return self.document.relay_cover.packages

    @cached_property
    def batch(self) -> list[bytes]:
        return sorted(self._outers)

    @cached_property
    def inners(self) -> dict[bytes, bytes]:
        """What the mixing relay hands on, by digest. Cover that is made up opens to as much that is made up."""
        known = self._outers if self.covered else self._outers.keys() & self.sent.keys()
        opened = self._opened({digest: self._outers[digest] for digest in known}).values()
        inners = {capsule_digest(capsule): capsule for capsule in opened}
        if self.covered:
            inners |= self._cover("mix")
        count = len(inners) if self.covered else len(self._outers) + self._drawn
        return self._without(inners, self.mix_leaves_out, count, INNER_BYTES)

    def _opened(self, outers: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """The inner capsules of those that open, by the outer digest."""
        key, opened = self.secret("mix").mix_key, {}
        for digest, outer in outers.items():
            with suppress(OpeningError):
                opened[digest] = open_outer(key, self.label, outer)
        return opened

    def _without(
        self, capsules: dict[bytes, bytes], left_out: frozenset[bytes], count: int, size: int
    ) -> dict[bytes, bytes]:
        """These but those that are left out, and as many made up that there are so many."""
        kept = {digest: capsule for digest, capsule in capsules.items() if digest not in left_out}
        return kept | self._capsules(f"{self.name} filled in", count - len(kept), size)

    @cached_property
    def mixed(self) -> list[bytes]:
        return sorted(self.inners)

    # ── what the coordinator counts and shows ────────────────────────────────────────────────────────────────────────

    @cached_property
    def counted(self) -> list[bytes]:
        """What every shard's capsules give."""
        reader = CapsuleReader.of(self.document, self.manifest, self.count_seed)
        shards = (self.mixed[at : at + SHARD] for at in range(0, len(self.mixed), SHARD))
        return [reader.sub_tally(self.inners[digest] for digest in shard) for shard in shards]

    @cached_property
    def sub_tallies(self) -> list[bytes]:
        """Of every shard, as the coordinator signs them."""
        return self._said("sub_tallies", self.counted)

    @cached_property
    def shards(self) -> ShardTree:
        tree = ShardTree(self.label)
        for shard, sub_tally in enumerate(self.sub_tallies):
            tree.append(self.mixed[shard * SHARD : (shard + 1) * SHARD], sub_tally)
        return tree

    @cached_property
    def net(self) -> Tally:
        return self._said("net", self._counted_net()) if self.covered else super().net

    @property
    def net_digest(self) -> str:
        return tally_digest(self.net) if self.covered else super().net_digest

    def _counted_net(self) -> Tally:
        cells = Cells.of(self.document.experiment)
        counts = np.zeros(cells.count, np.int64)
        for sub_tally in self.counted:
            for cell, count in read_sub_tally(sub_tally, cells=cells.count, capsules=SHARD).items():
                counts[cell] += count
        for role in ROLES:
            counts -= np.concatenate(self.part(role, self.entry_reveal.part).part.counts)
        return cells.tally(np.maximum(counts, 0))

    @property
    def index(self) -> bytes:
        """Where each shard begins."""
        return write_index(self.mixed[::SHARD])

    def run(self, shard: int) -> ShardRun:
        """One shard's digests."""
        digests = tuple(self.mixed[shard * SHARD : (shard + 1) * SHARD])
        return ShardRun(shard, len(self.mixed), self.shards.proof(shard).mix_path, digests)

    def public(self) -> dict[str, bytes]:
        """Runs of digests, the capsules and sub-tallies, as files below the experiment."""
        public = {}
        for shard, sub_tally in enumerate(self.sub_tallies):
            run, place = self.run(shard), f"{self.round_number}/{shard}"
            public[f"shard/{place}"] = run.to_bytes()
            public[f"capsules/{place}"] = b"".join(self.inners[digest] for digest in run.digests)
            public[f"tally/{place}"] = ShardTally(self.shards.proof(shard).path, sub_tally).to_bytes()
        return public

    # ── what a device makes of it ────────────────────────────────────────────────────────────────────────────────────

    def receipt_for(self, device: int) -> bytes:
        """The entry relay's, in its envelope."""
        return receipt_for(self.label, self._submitted(device)).signed(ENTRY)

    def evidence(self, device: int = 0, *, narrowed: bool = False) -> MissingCanary | None:
        """The file of a device whose canary is not there; None: it is there."""
        canary = self.submissions[device].canary.with_receipt(self.receipt_for(device))
        prefixes = [digest[:8] for digest in self.mixed[::SHARD]]
        run = self.run(shard_of(prefixes, canary.inner_digest))
        also = beside(run, canary.inner_digest)
        absence = absence_in(canary.inner_digest, [run, *([] if also is None else [self.run(also)])])
        if absence is None:
            return None
        evidence = missing_canary(
            canary,
            absence,
            experiment=self.published,
            manifest=self.manifest,
            mix_count=self.mix_count.signed(MIX),
        )
        if not narrowed:
            return evidence
        return evidence.narrowed(self.entry_count.signed(ENTRY), CapsuleTree(b"".join(self.batch)))
