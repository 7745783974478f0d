"""A round with two relays whose devices' capsules are sealed indeed, for tests of what a device sends and looks for.

Cover is made up: bytes that nobody opens. Relays are honest unless told what to leave out; whatever they leave out they
replace, so that their counts still add up, as a liar's would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, open_outer
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage
from secvm.protocol.documents.experiment import publish
from secvm.protocol.evidence.missing_canary import MissingCanary, missing_canary
from secvm.protocol.relays.batches import RUN, CapsuleTree, capsule_digest
from secvm.protocol.relays.shards import ShardRun, absence_in, beside, shard_of, write_index
from secvm.protocol.relays.submission import (
    SECRETS_BYTES,
    Submission,
    draw_order,
    read_request,
    receipt_for,
    seal_submission,
)
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, RelayedRound, known_bytes


def known_words(name: str) -> list[int]:
    """Dice that everybody knows, more of them than one submission needs."""
    data = known_bytes(name, 8 * 4096)
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


@dataclass(frozen=True, kw_only=True)
class SealedRound(RelayedRound):
    """Devices 0, 1, … each send a participation package, what ``told`` says, and nulls."""

    #: Packages of a device beside its participation, by its number.
    told: tuple[tuple[Package, ...], ...] = ()
    #: Outer digests that the entry relay leaves out, and inner ones that the mixing relay does.
    entry_leaves_out: frozenset[bytes] = frozenset()
    mix_leaves_out: frozenset[bytes] = frozenset()
    refused: int = 0

    @property
    def published(self) -> bytes:
        """The experiment's envelope."""
        return publish(self.document, keys=(COORDINATOR,))

    def packages(self, device: int) -> list[Package]:
        """Exactly B of them."""
        told: Sequence[Package] = self.told[device] if device < len(self.told) else ()
        packages: list[Package] = [ParticipationPackage(cohort=Cohort.TRAIN, class_index=0), *told]
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
    def submission(self) -> list[bytes]:
        """Outer digests of device 0."""
        return [capsule_digest(one) for one in read_request(self.submissions[0].body, budget=self.document.budget)]

    @cached_property
    def inner_of(self) -> dict[bytes, bytes]:
        """Of every device's outer capsules, by digest, the inner digest."""
        key = self.secret("mix").mix_key
        outers = [o for one in self.submissions for o in read_request(one.body, budget=self.document.budget)]
        return {capsule_digest(outer): capsule_digest(open_outer(key, self.label, outer)) for outer in outers}

    @cached_property
    def received(self) -> list[bytes]:
        return sorted(self.inner_of)

    @cached_property
    def batch(self) -> list[bytes]:
        made = self._digests("cover", self.document.relay_cover.packages, OUTER_BYTES)
        kept = [digest for digest in self.received if digest not in self.entry_leaves_out]
        return sorted([*kept, *made, *self._digests("filled in", len(self.received) - len(kept), OUTER_BYTES)])

    @cached_property
    def mixed(self) -> list[bytes]:
        came = [self.inner_of[digest] for digest in self.batch if digest in self.inner_of]
        kept = [digest for digest in came if digest not in self.mix_leaves_out]
        count = len(self.batch) + self.document.relay_cover.packages - len(kept)
        return sorted([*kept, *self._digests("inner", count, INNER_BYTES)])

    # ── what a device fetches, and what it makes of it ───────────────────────────────────────────────────────────────

    @property
    def index(self) -> bytes:
        """Where each shard begins."""
        return write_index(self.mixed[::RUN])

    def run(self, shard: int) -> ShardRun:
        """One shard's digests."""
        digests = tuple(self.mixed[shard * RUN : (shard + 1) * RUN])
        return ShardRun(shard, len(self.mixed), self.shards.proof(shard).mix_path, digests)

    def receipt_for(self, device: int) -> bytes:
        """The entry relay's, in its envelope."""
        body = self.submissions[device].body
        digests = [capsule_digest(one) for one in read_request(body, budget=self.document.budget)]
        return receipt_for(self.label, digests).signed(ENTRY)

    def evidence(self, device: int = 0, *, narrowed: bool = False) -> MissingCanary | None:
        """The file of a device whose canary is not there; None: it is there."""
        canary = self.submissions[device].canary.with_receipt(self.receipt_for(device))
        prefixes = [digest[:8] for digest in self.mixed[::RUN]]
        run = self.run(shard_of(prefixes, canary.inner_digest))
        also = beside(run, canary.inner_digest)
        absence = absence_in(canary.inner_digest, [run, *([] if also is None else [self.run(also)])])
        if absence is None:
            return None
        told = missing_canary(
            canary,
            absence,
            experiment=self.published,
            manifest=self.manifest,
            mix_count=self.mix_count.signed(MIX),
        )
        if not narrowed:
            return told
        return told.narrowed(self.entry_count.signed(ENTRY), CapsuleTree(b"".join(self.batch)))
