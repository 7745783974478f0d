"""Concluding a round: counts, reveals and capsules put together into its opening (docs/protocol.md §31).

``opened`` takes a round whose batch is counted and whose statements are all here. It looks at them in this order, and
the first thing that does not hold makes the round *unopened*:

 1. the statements, with the count seed, are true (``opening_faults``);
 2. both relays' opened parts, derived from their seeds, lie in the batch, capsule by capsule;
 3. the raw counts less both parts are the net tally.

What becomes of the model then, ``recomputation.after_opened`` says. ``unopened`` is for a round whose time is up.
Neither accuses anybody: reasons are for whoever runs the coordinator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.relayed.relayed_history import (
    ENTRY_PART,
    MIX_PART,
    ONE_PART,
    RelayedHistory,
    RelayedRound,
    RoundFigures,
    fault_names,
    missing_names,
)
from secvm.coordinator.relayed.run_counting import CountedShard
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import X25519PublicKey
from secvm.crypto.sealing.layers import INNER_BYTES, BulkSealer
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.relays.batches import PIECE_CAPSULES, capsule_digest, cut
from secvm.protocol.relays.counting import Cells, add_sub_tally
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixReveal
from secvm.protocol.relays.cover_parts import CoverPart, derive_part, seal_part
from secvm.protocol.relays.opening import Opening, opening_faults
from secvm.protocol.relays.shards import SHARD, shards_root

#: What an opening names before its tally is known; faults of statements do not depend on it.
_UNKNOWN = "0" * 64


@dataclass(frozen=True)
class Outcome:
    """How a round ended."""

    opening: Opening
    figures: RoundFigures
    #: None where the round is unopened.
    net: Tally | None = None

    def with_figures(self, **changes: Any) -> Outcome:
        """The outcome with some figures changed."""
        return replace(self, figures=replace(self.figures, **changes))


def unopened(
    history: RelayedHistory, known: RelayedRound, statements: Mapping[str, bytes], reasons: Iterable[str] = ()
) -> Outcome:
    """A round that cannot be opened, or not in time. Its seed stays unpublished."""
    signed: dict[str, Any] = dict(statements)
    opening = Opening(
        experiment=history.document.digest, round_number=known.stored.number, label=known.manifest.label, **signed
    )
    why = [
        *reasons,
        *missing_names(opening.missing),
        *fault_names(opening_faults(opening, known.manifest, history.document)),
    ]
    return Outcome(opening, RoundFigures(reasons=tuple(dict.fromkeys(why))))


def opened(
    history: RelayedHistory,
    known: RelayedRound,
    statements: Mapping[str, bytes],
    shards: list[CountedShard],
    store: CoordinatorStore,
    sealer: BulkSealer,
) -> Outcome:
    """A round of which everything is here. Blocks: it derives and seals both opened parts."""
    document, seed = history.document, store.count_seed(*known.place)
    signed: dict[str, Any] = dict(statements)
    candidate = Opening(
        experiment=document.digest,
        round_number=known.stored.number,
        label=known.manifest.label,
        **signed,
        count_seed=seed,
        tally=_UNKNOWN,
        shards=shards_root(shard.entry for shard in shards),
    )
    if seed is None or opening_faults(candidate, known.manifest, document):
        return unopened(history, known, statements)
    count = EntryCount.enclosed(statements["entry_count"])
    reveals = {
        ENTRY_PART: (EntryReveal.enclosed(statements["entry_reveal"]).seed, count.received),
        MIX_PART: (MixReveal.enclosed(statements["mix_reveal"]).seed, count.root),
    }
    counts = _raw(history, shards)
    for reason, (part_seed, root) in reveals.items():
        part = derive_part(
            document.experiment,
            experiment_id=document.experiment_id,
            round_number=known.stored.number,
            label=known.manifest.label,
            root=root,
            seed=part_seed,
        )
        if not _holds(store, known, shards, _inner(part, known, sealer)):
            return unopened(history, known, statements, [reason])
        counts -= np.concatenate(part.counts)
    if counts.min() < 0:
        # Only where one capsule stands in both parts, which two honest relays do not come to.
        return unopened(history, known, statements, [ONE_PART])
    net = Cells.of(document.experiment).tally(counts)
    figures = RoundFigures(
        capsules=sum(shard.capsules for shard in shards),
        packages=sum(shard.capsules - shard.junk for shard in shards),
        junk=sum(shard.junk for shard in shards),
    )
    return Outcome(replace(candidate, tally=tally_digest(net)), figures, net)


def _raw(history: RelayedHistory, shards: Iterable[CountedShard]) -> NDArray[np.int64]:
    """Packages per cell, of all shards together."""
    counts = np.zeros(Cells.of(history.document.experiment).count, np.int64)
    for shard in shards:
        add_sub_tally(counts, shard.sub_tally)
    return counts


def _inner(part: CoverPart, known: RelayedRound, sealer: BulkSealer) -> list[bytes]:
    """The inner capsules of a part, as everybody derives them."""
    blocks = seal_part(part, count_key=X25519PublicKey(known.manifest.count_key), sealer=sealer)
    return [capsule for block in blocks for capsule in cut(block.inner, INNER_BYTES)]


def _holds(store: CoordinatorStore, known: RelayedRound, shards: list[CountedShard], capsules: Iterable[bytes]) -> bool:
    """Whether each of these capsules is in the batch. It is looked up piece by piece: one is in memory at a time."""
    firsts = [shard.first for shard in shards[:: PIECE_CAPSULES // SHARD]]
    by_piece: dict[int, list[bytes]] = {}
    for capsule in capsules:
        by_piece.setdefault(bisect_right(firsts, capsule_digest(capsule)) - 1, []).append(capsule)
    for piece, wanted in by_piece.items():
        data = store.piece(*known.place, piece) if piece >= 0 else None
        if data is None or not set(wanted) <= set(cut(data, INNER_BYTES)):
            return False
    return True
