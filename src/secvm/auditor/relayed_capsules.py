"""The capsules of a round in public: both opened parts among them, and counted again with the published seed.

Digests come in runs of 4,096 and capsules beside them, where the coordinator serves them (docs/protocol.md §34). With
the digests alone an auditor sees that they are those that the mixing relay signed and that both opened parts lie among
them, byte for byte; with the capsules, that they give the net tally and the parts, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.auditor.files import experiment_path
from secvm.auditor.relayed_doors import Doors
from secvm.auditor.relayed_findings import Found
from secvm.auditor.relayed_subject import RelayedSubject, ShownRound
from secvm.crypto.layers import INNER_BYTES
from secvm.crypto.merkle import HASH_BYTES, MAX_PROOF_HASHES
from secvm.errors import LocalProtocolError, RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.evidence_relays import PartProof, RelayedKind
from secvm.protocol.relays.capsule_tree import CapsuleTree
from secvm.protocol.relays.cells import Cells
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.junk import CapsuleReader
from secvm.protocol.relays.label import DIGEST_BYTES, capsule_digest
from secvm.protocol.relays.opened_parts import OpenedPart, Role
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.reveals import EntryReveal, MixReveal
from secvm.protocol.relays.shards import SHARD, read_sub_tally, shard_count, shard_entry, shard_size, shards_root

_MOST_RUN = 1 + MAX_PROOF_HASHES * HASH_BYTES + SHARD * DIGEST_BYTES
_ROLES: tuple[Role, Role] = ("entry", "mix")


@dataclass(frozen=True, slots=True)
class _Round:
    """What an opened round's statements say; all of it was judged."""

    shown: ShownRound
    opening: Opening
    entry_count: EntryCount
    mix_count: MixCount
    parts: tuple[OpenedPart, OpenedPart]


class CapsuleCheck:
    """The capsules of an experiment's opened rounds."""

    def __init__(self, subject: RelayedSubject, doors: Doors) -> None:
        self._subject, self._doors = subject, doors

    def check(self, shown: ShownRound, net: Tally | None) -> None:
        """Of a round that was opened; ``net``: its net tally, where it is there."""
        found = self._subject.subject.findings
        if not self._subject.capsules or shown.opening is None:
            found.leave_out("capsules and opened parts: they were not looked at")
            return
        first = self._file(shown.number, "shard", 0, _MOST_RUN)
        if first is None:
            found.leave_out("capsules and opened parts: their digests are not public")
            return
        told = self._told(shown, shown.opening)
        tree = self._digests(told, first)
        if tree is None:
            return
        # Both are looked at, whatever the first shows.
        found_whole = {part.role: self._check_part(told, part, tree) for part in told.parts}
        found.passed(shown.number, "parts")
        self._check_capsules(told, tree, net if all(found_whole.values()) else None)

    def _told(self, shown: ShownRound, opening: Opening) -> _Round:
        assert opening.entry_count is not None
        assert opening.mix_count is not None
        assert opening.entry_reveal is not None
        assert opening.mix_reveal is not None
        count = EntryCount.enclosed(opening.entry_count)
        seeds = (EntryReveal.enclosed(opening.entry_reveal).seed, MixReveal.enclosed(opening.mix_reveal).seed)
        first, second = (
            OpenedPart.of(role, self._subject.document, shown.manifest, count, seed)
            for role, seed in zip(_ROLES, seeds, strict=True)
        )
        return _Round(shown, opening, count, MixCount.enclosed(opening.mix_count), (first, second))

    def _file(self, number: int, what: str, shard: int, most: int) -> bytes | None:
        path = experiment_path(self._subject.document.digest, what, number, shard)
        try:
            return self._subject.subject.files.get(path, most=most)
        except RemoteProtocolError:
            return b""

    def _digests(self, told: _Round, first: bytes) -> CapsuleTree | None:
        """All digests, if they are those under the mixing relay's root."""
        number, capsules = told.shown.number, told.mix_count.capsules
        runs = []
        for shard in range(shard_count(capsules)):
            data = first if shard == 0 else self._file(number, "shard", shard, _MOST_RUN)
            run = None if data is None else _run(data, shard_size(shard, capsules))
            if run is None:
                self._subject.found(Found.RUNS, number, f"shard {shard} is not served, or is none")
                return None
            runs.append(run)
        try:
            tree = CapsuleTree(b"".join(runs))
        except LocalProtocolError:
            self._subject.found(Found.RUNS, number, "they do not ascend")
            return None
        if tree.root != told.mix_count.root:
            self._subject.found(Found.RUNS, number, "they have another root")
            return None
        return tree

    def _check_part(self, told: _Round, part: OpenedPart, tree: CapsuleTree) -> bool:
        """Whether all capsules of an opened part are there."""
        for package, digest in enumerate(part.inner_digests()):
            if tree.find(digest) is None:
                self._accuse(told, part, tree, package, digest)
                return False
        return True

    def _accuse(self, told: _Round, part: OpenedPart, tree: CapsuleTree, package: int, digest: bytes) -> None:
        opening, what = told.opening, Found.PART_OF_MIX
        proof = PartProof(package=package, absence=tree.absence(digest))
        outer = part.capsules(package)[1]
        if outer is not None:
            what = Found.PART_OF_ENTRY
            leaves = self._doors.leaves(told.shown, told.entry_count)
            if leaves is not None:
                place = leaves.find(capsule_digest(outer))
                absent = leaves.absence(capsule_digest(outer)) if place is None else None
                stands = None if place is None else leaves.place(place)
                proof = PartProof(package=package, absence=proof.absence, batch_place=stands, batch_absence=absent)
                what = Found.PART_DROPPED_BY_ENTRY if place is None else Found.PART_DROPPED_BY_MIX
        statements = (opening.entry_count, opening.mix_count, opening.entry_reveal, opening.mix_reveal)
        evidence = self._subject.evidence(
            RelayedKind.PART_NOT_IN_BATCH,
            documents=(told.shown.manifest_envelope,),
            statements=statements if outer is None else statements[:3],
            proof=proof,
        )
        self._subject.found(what, told.shown.number, f"package {package}", evidence=evidence)

    def _check_capsules(self, told: _Round, tree: CapsuleTree, net: Tally | None) -> None:
        """Count again; nothing is said of the tally where a part is missing, which was told already."""
        number, document, seed = told.shown.number, self._subject.document, told.opening.count_seed
        assert seed is not None
        reader = CapsuleReader.of(document, told.shown.manifest, seed)
        cells = Cells.of(document.experiment)
        raw: NDArray[np.int64] = np.zeros(cells.count, np.int64)
        entries = []
        for shard in range(shard_count(tree.size)):
            digests = [tree[i] for i in range(shard * SHARD, shard * SHARD + shard_size(shard, tree.size))]
            data = self._file(number, "capsules", shard, INNER_BYTES * SHARD)
            if data is None:
                self._subject.subject.findings.leave_out("capsules counted again: they are not all public")
                return
            capsules = [data[at : at + INNER_BYTES] for at in range(0, len(data), INNER_BYTES)]
            if [capsule_digest(capsule) for capsule in capsules] != digests:
                self._subject.found(Found.CAPSULES, number, f"shard {shard}")
                return
            sub_tally = reader.sub_tally(capsules)
            entries.append(shard_entry(digests, sub_tally))
            for cell, count in read_sub_tally(sub_tally, cells=cells.count, capsules=len(digests)).items():
                raw[cell] += count
        if shards_root(entries) != told.opening.shards:
            self._subject.found(Found.SHARDS, number)
        if net is not None:
            entry, mix = told.parts
            if cells.tally(raw) != net.merge(entry.part.tally).merge(mix.part.tally):
                self._subject.found(Found.RAW, number)
        self._subject.subject.findings.passed(number, "capsules")


def _run(data: bytes, size: int) -> bytes | None:
    """The digests of a run: a byte, the number of hashes; so many hashes; the digests."""
    first = 1 + HASH_BYTES * data[0] if data else 1
    return data[first:] if len(data) == first + size * DIGEST_BYTES and size else None
