"""Recount: a published shard is the mixing relay's, and its sub-tally is what its capsules give (docs/protocol.md §31).

Three public files of a shard belong together: the run of its digests (``shards``), its capsules, and

    sub-tally of a shard    1 byte: number of hashes ‖ the path of the shard's entry to the opening's root of the shards
                            ‖ the sub-tally

``Recount.check`` takes all three, in this order:

 1. the run is the shard of its number under the mixing relay's root;
 2. the capsules are those of its digests, one for each;
 3. the sub-tally is under the root of the shards, with this run;
 4. the capsules, opened with the published seed, give that sub-tally.

All shards' sub-tallies together are the raw tally, which is the net tally and both opened parts (``RawCount``).

What fails at 1 to 3 are files that nobody signed: it accuses nobody. What fails at 4 the coordinator has signed
(``WrongCountError``), and these bytes show it to anybody. Which cells capsules count for is the rule of ``counting``,
in its quick form (``CapsuleReader.cells``). It is total, so no capsule of anybody's makes a shard that cannot be
counted.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.crypto import merkle
from secvm.crypto.sealing.layers import INNER_BYTES, BulkSealer
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches import capsule_digest, cut
from secvm.protocol.relays.counting import JUNK, NULL, CapsuleReader, Cells, add_sub_tally, sub_tally_of
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.cover_parts import OpenedPart
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.shards import (
    SHARD,
    ShardRun,
    read_below,
    read_sub_tally,
    shard_count,
    shard_entry,
    shard_size,
    write_below,
)

_LENGTH = struct.Struct("<I")
#: Capsules of a full shard.
MAX_CAPSULES_BYTES = SHARD * INNER_BYTES
#: A line for each capsule of a full shard; what is longer counts what is not there.
MAX_SUB_TALLY_BYTES = 16 * SHARD
#: A count of hashes, a path, and the longest sub-tally.
MAX_SHARD_TALLY_BYTES = 1 + merkle.MAX_PROOF_HASHES * merkle.HASH_BYTES + MAX_SUB_TALLY_BYTES


class WrongCountError(BadProofError):
    """A shard's sub-tally, which the opening is bound to, is not what its capsules give."""


@dataclass(frozen=True, slots=True)
class ShardTally:
    """What a shard is said to count, and the way from there to the root of the shards. **Checked by** ``Recount``."""

    path: tuple[bytes, ...]
    sub_tally: bytes

    def to_bytes(self) -> bytes:
        """As it is served."""
        return write_below(self.path, self.sub_tally)

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardTally:
        """A path and any bytes after it, which only a recount can judge. Raises ``MalformedMessageError``."""
        path, sub_tally = read_below(data)
        if len(sub_tally) > MAX_SUB_TALLY_BYTES:
            raise MalformedMessageError(f"{len(data)} bytes are no path and sub-tally of a shard")
        return cls(path, sub_tally)


@dataclass(frozen=True, slots=True)
class Counted:
    """What capsules came to."""

    capsules: int
    junk: int
    #: Packages in no cell.
    nulls: int
    sub_tally: bytes


class Recount:
    """Counts the published shards of one opened round again. Does not show its key when printed."""

    def __init__(self, reader: CapsuleReader, *, capsules: int, mix_root: bytes, shards: bytes) -> None:
        """``capsules`` and ``mix_root`` are those of the mixing relay's count, ``shards`` is the opening's."""
        self._reader = reader
        self.capsules = capsules
        self._mix_root, self._shards = mix_root, shards

    @classmethod
    def of(
        cls,
        document: ExperimentDocument,
        manifest: RelayedManifest,
        opening: Opening,
        sealer: BulkSealer | None = None,
    ) -> Recount:
        """Of a round that was opened; ``opening_faults`` has compared the opening with the manifest."""
        if opening.mix_count is None or opening.count_seed is None or opening.shards is None:
            raise LocalProtocolError(f"round {manifest.round_number} is unopened: there is nothing to count again")
        count = MixCount.enclosed(opening.mix_count)
        reader = CapsuleReader.of(document, manifest, opening.count_seed, sealer)
        return cls(reader, capsules=count.capsules, mix_root=count.root, shards=opening.shards)

    @property
    def shards(self) -> int:
        """How many there are."""
        return shard_count(self.capsules)

    def count(self, capsules: bytes) -> Counted:
        """Open capsules that lie side by side, and count them; nothing is checked."""
        cells = self._reader.cells(capsules)
        junk, nulls = (int(np.count_nonzero(cells == kind)) for kind in (JUNK, NULL))
        return Counted(len(cells), junk, nulls, sub_tally_of(cells))

    def check(self, run: ShardRun, capsules: bytes, tally: ShardTally) -> Counted:
        """What the shard came to.

        Raises
        ------
        WrongCountError
            Its sub-tally is another one, and the opening is bound to that.
        BadProofError
            The files are not this round's, or do not belong together.
        """
        self.check_run(run)  # (1)
        self.check_capsules(run, capsules)  # (2)
        self.check_tally(run, tally)  # (3)
        counted = self.count(capsules)
        if counted.sub_tally != tally.sub_tally:  # (4)
            raise WrongCountError(f"the sub-tally of shard {run.shard} is not what its capsules give")
        return counted

    def check_run(self, run: ShardRun) -> None:
        """Step 1. Raises ``BadProofError``."""
        if run.capsules != self.capsules or len(run.digests) != shard_size(run.shard, self.capsules):
            raise BadProofError(f"shard {run.shard} is not one of a round with {self.capsules} capsules")
        run.check(self._mix_root)

    @staticmethod
    def check_capsules(run: ShardRun, capsules: bytes) -> None:
        """Step 2. Raises ``BadProofError``."""
        digests = tuple(map(capsule_digest, cut(capsules, INNER_BYTES)))
        if len(capsules) != INNER_BYTES * len(run.digests) or digests != run.digests:
            raise BadProofError(f"the capsules of shard {run.shard} are not those of its digests")

    def check_tally(self, run: ShardRun, tally: ShardTally) -> None:
        """Step 3. Raises ``BadProofError``."""
        entry = merkle.leaf_hash(shard_entry(run.digests, tally.sub_tally))
        merkle.check_inclusion(entry, index=run.shard, size=self.shards, proof=tally.path, root=self._shards)

    def __repr__(self) -> str:
        return f"Recount({self.capsules} capsules)"


class RawCount:
    """The raw tally of a round, shard by shard, as it was signed: what the net tally is held to."""

    def __init__(self, cells: Cells, *, capsules: int) -> None:
        self._cells, self._capsules = cells, capsules
        self._counts: NDArray[np.int64] = np.zeros(cells.count, np.int64)
        self._shards = merkle.Frontier()
        self.added = 0

    def add(self, digests_hash: bytes, sub_tally: bytes) -> None:
        """The next shard: SHA-256 of its digests side by side, and what it counts.

        Raises
        ------
        MalformedMessageError
            It is no sub-tally; nothing is added.
        """
        capsules = shard_size(self.added, self._capsules)
        read_sub_tally(sub_tally, cells=self._cells.count, capsules=capsules)
        add_sub_tally(self._counts, sub_tally)
        entry = digests_hash + hashlib.sha256(sub_tally).digest()
        self._shards = self._shards.append(merkle.leaf_hash(entry))
        self.added += 1

    @property
    def shards(self) -> bytes:
        """The root of the shards so far."""
        return self._shards.root

    def gives(self, net: Tally, parts: Iterable[OpenedPart]) -> bool:
        """Whether net tally and opened parts are exactly this."""
        for part in parts:
            net = net.merge(part.part.tally)
        return self._cells.tally(self._counts) == net

    @classmethod
    def of(cls, entries: bytes, cells: Cells, *, capsules: int) -> RawCount:
        """From ``entry_bytes`` of all shards side by side. Raises ``MalformedMessageError``: they are none."""
        raw, at, shards = cls(cells, capsules=capsules), 0, shard_count(capsules)
        while at < len(entries) and raw.added < shards:
            first = at + DIGEST_BYTES + _LENGTH.size
            if first > len(entries):
                break
            (length,) = _LENGTH.unpack_from(entries, first - _LENGTH.size)
            raw.add(entries[at : at + DIGEST_BYTES], entries[first : first + length])
            at = first + length
        if at != len(entries) or raw.added != shards:
            raise MalformedMessageError(f"these are not the sub-tallies of {shards} shards")
        return raw


def entry_bytes(run: ShardRun, sub_tally: bytes) -> bytes:
    """A shard in evidence: SHA-256 of its digests side by side ‖ length of the sub-tally, 4 bytes LE ‖ sub-tally."""
    return hashlib.sha256(b"".join(run.digests)).digest() + _LENGTH.pack(len(sub_tally)) + sub_tally
