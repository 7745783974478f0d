"""The capsules of a round in public: both opened parts among them, and every one counted again with the published seed.

Three files of each shard are read (docs/protocol.md §31), one shard after another. Its digests are under the mixing
relay's root and ascend from shard to shard; both opened parts lie among them, byte for byte; its capsules give its
sub-tally, and all sub-tallies net tally and parts. A round is forgotten by its coordinator after a while: what is gone
is told as not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from secvm.auditor.files import blob_path, experiment_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.relayed.recounter import JudgedShard, OpenedRound, Recounter, ServedShard, ShardVerdict, bulk_sealer
from secvm.auditor.relayed.relay_doors import RelayDoors
from secvm.auditor.subject import PublishedRound, Subject
from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.errors import BadProofError, MalformedMessageError, RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, RelayedKind
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.batches.label import DIGEST_BYTES, capsule_digest
from secvm.protocol.relays.counting.cells import Cells
from secvm.protocol.relays.counting.opened_parts import OpenedPart, parts_of
from secvm.protocol.relays.counting.recount import (
    MAX_CAPSULES_BYTES,
    MAX_SHARD_TALLY_BYTES,
    RawCount,
    ShardTally,
    entry_bytes,
)
from secvm.protocol.relays.counting.shards import (
    DAY_MS,
    LEAST_DAYS,
    MAX_RUN_BYTES,
    ShardProof,
    ShardRun,
    absence_in,
    beside,
    read_run,
    shard_count,
)
from secvm.protocol.relays.opening import Opening

_FAULTS = {
    ShardVerdict.RUN: FaultKind.RUNS,
    ShardVerdict.CAPSULES: FaultKind.CAPSULES,
    ShardVerdict.TALLY: FaultKind.SHARDS,
    ShardVerdict.COUNT: FaultKind.COUNT,
    ShardVerdict.NOT_SERVED: FaultKind.WITHHELD,
}
#: Enough shards of a round to be told by name.
_MOST_NAMED = 8


@dataclass(slots=True)
class _Round:
    """What an opened round's statements say, all of it judged; and what was found of it so far."""

    published: PublishedRound
    opening: Opening
    entry_count: EntryCount
    mix_count: MixCount
    parts: tuple[OpenedPart, OpenedPart]
    raw: RawCount
    last: bytes = b""
    recounted: int = 0
    faults: int = 0
    #: Whether the shards' sub-tallies are all there, so that their sum can be held to the net tally.
    summed: bool = True
    gone: bool = False
    searches: tuple[PartSearch, ...] = ()
    left_out: list[OpenedPart] = field(default_factory=list)


class CapsuleCheck:
    """The capsules of an experiment's opened rounds."""

    def __init__(self, subject: Subject, doors: RelayDoors) -> None:
        self._subject, self._doors = subject, doors
        #: Packages that were counted again, by round.
        self.recounted: dict[int, int] = {}
        #: Opened rounds whose capsules are not there, or not any more.
        self.gone: list[int] = []

    def check(self, published: PublishedRound, net: Tally | None, recounting: Recounter) -> None:
        """Of a round that was opened; ``net``: its net tally, where it is there."""
        found, opening = self._subject.findings, published.opening
        if not self._subject.capsules or opening is None:
            found.leave_out("capsules and opened parts: they were not looked at")
            return
        if self._file(published.number, "shard", 0) is None:
            self._lost(published)
            return
        current = self._begin(published, opening)
        opened = OpenedRound(self._subject.envelope, published.manifest.data, opening.data)
        shards = shard_count(current.mix_count.capsules)
        for files, judged in recounting.judge(opened, shards, self._files(current, shards)):
            self._take(current, files, judged)
        if current.gone:
            self._lost(published)
            return
        for search in current.searches:
            if not search.ended:
                self._missing(current, search, shards - 1)
        self.recounted[published.number] = current.recounted
        found.passed(published.number, "parts")
        if current.summed and not current.left_out and net is not None and not current.raw.gives(net, current.parts):
            self._subject.fault(FaultKind.RAW, published.number, evidence=self._wrong_tally(current, shards))
        found.passed(published.number, "capsules")

    def _begin(self, published: PublishedRound, opening: Opening) -> _Round:
        assert opening.entry_count is not None
        assert opening.mix_count is not None
        document = self._subject.document
        parts = parts_of(document, published.manifest, opening)
        count = MixCount.enclosed(opening.mix_count)
        return _Round(
            published,
            opening,
            EntryCount.enclosed(opening.entry_count),
            count,
            parts,
            RawCount(Cells.of(document.experiment), capsules=count.capsules),
            searches=tuple(PartSearch(part, bulk_sealer()) for part in parts),
        )

    def _lost(self, published: PublishedRound) -> None:
        """Nothing of the round is there: forgotten when its time was over, not copied, or withheld."""
        self.gone.append(published.number)
        subject = self._subject
        if not subject.snapshot and subject.now < published.manifest.instants.open_by + LEAST_DAYS * DAY_MS:
            self._subject.fault(FaultKind.WITHHELD, published.number)
        else:
            subject.findings.leave_out("capsules of some rounds: they are not public, or not any more")

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _file(self, number: int, kind: str, shard: int) -> bytes | None:
        """One of a shard's files; what is longer than it can be is none of them, and is told as such."""
        most = {"shard": MAX_RUN_BYTES, "capsules": MAX_CAPSULES_BYTES, "tally": MAX_SHARD_TALLY_BYTES}[kind]
        path = experiment_path(self._subject.document.digest, kind, number, shard)
        try:
            return self._subject.files.get(path, most=most)
        except RemoteProtocolError:
            return b""

    def _files(self, current: _Round, shards: int) -> Iterator[ServedShard]:
        number = current.published.number
        for shard in range(shards):
            run, capsules, tally = (self._file(number, kind, shard) for kind in ("shard", "capsules", "tally"))
            if (run is None or capsules is None or tally is None) and self._file(number, "shard", 0) is None:
                # Forgotten while it was read: its time was over.
                current.gone = True
                return
            yield ServedShard(shard, run, capsules, tally)

    # ── a shard ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, current: _Round, files: ServedShard, judged: JudgedShard) -> None:
        current.recounted += judged.recounted
        if files.run is None or judged.verdict is ShardVerdict.RUN:
            # Whatever follows from the digests is not looked at.
            current.searches, current.summed = (), False
            self._tell(current, FaultKind.WITHHELD if files.run is None else FaultKind.RUNS, files)
            return
        run = read_run(files.run, shard=files.shard, capsules=current.mix_count.capsules)
        if run.digests[0] <= current.last:
            self._tell(current, FaultKind.RUNS, files)
        current.last = run.digests[-1]
        for search in current.searches:
            if search.misses(run):
                self._missing(current, search, files.shard)
        if judged.verdict is not ShardVerdict.TRUE:
            evidence = self._wrong_count(current, run, files) if judged.verdict is ShardVerdict.COUNT else None
            self._tell(current, _FAULTS[judged.verdict], files, evidence)
        try:
            current.raw.add(judged.digests_hash, judged.sub_tally or b"")
        except MalformedMessageError:
            current.summed = False
        current.summed &= judged.sub_tally is not None

    def _tell(
        self, current: _Round, kind: FaultKind, files: ServedShard, evidence: RelayedEvidence | None = None
    ) -> None:
        current.faults += 1
        detail = f"shard {files.shard}" if current.faults <= _MOST_NAMED else "and more shards"
        self._subject.fault(kind, current.published.number, detail, evidence=evidence)

    def _wrong_count(self, current: _Round, run: ShardRun, files: ServedShard) -> RelayedEvidence | None:
        if files.capsules is None or files.tally is None or current.faults >= _MOST_NAMED:
            return None
        signed = ShardTally.from_bytes(files.tally)
        proof = ShardProof(label=current.opening.label, shard=files.shard, path=signed.path, mix_path=run.path)
        return self._subject.relayed_evidence(
            RelayedKind.WRONG_COUNT,
            documents=current.published.envelopes,
            blobs=(files.capsules, signed.sub_tally),
            proof=proof,
        )

    def _wrong_tally(self, current: _Round, shards: int) -> RelayedEvidence | None:
        """All sub-tallies, read again: they were not kept."""
        subject, entries = self._subject, []
        net = subject.files.get(
            blob_path(current.opening.tally or ""), most=2 * self._subject.document.tally_bytes + 4096
        )
        for shard in range(shards):
            data, tally = (
                self._file(current.published.number, "shard", shard),
                self._file(current.published.number, "tally", shard),
            )
            try:
                run = read_run(data or b"", shard=shard, capsules=current.mix_count.capsules)
                entries.append(entry_bytes(run, ShardTally.from_bytes(tally or b"").sub_tally))
            except RemoteProtocolError:
                return None
        return self._subject.relayed_evidence(
            RelayedKind.WRONG_TALLY, documents=current.published.envelopes, blobs=(net or b"", b"".join(entries))
        )

    # ── a part ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _missing(self, current: _Round, search: PartSearch, shard: int) -> None:
        """A capsule of an opened part is not where it would stand, in or beside this shard."""
        part, package, digest = search.part, search.package, search.digest
        current.searches = tuple(one for one in current.searches if one is not search)
        current.left_out.append(part)
        opening, kind = current.opening, FaultKind.PART_OF_MIX
        absence = absence_in(digest, self._runs_around(current, shard, digest))
        if absence is None:
            self._subject.fault(FaultKind.RUNS, current.published.number, f"shard {shard}")
            return
        proof = PartProof(package=package, absence=absence)
        outer = part.capsules(package)[1]
        if outer is not None:
            kind = FaultKind.PART_OF_ENTRY
            leaves = self._doors.leaves(current.published, current.entry_count)
            if leaves is not None:
                place = leaves.find(capsule_digest(outer))
                absent = leaves.absence(capsule_digest(outer)) if place is None else None
                stands = None if place is None else leaves.place(place)
                proof = PartProof(package=package, absence=absence, batch_place=stands, batch_absence=absent)
                kind = FaultKind.PART_DROPPED_BY_ENTRY if place is None else FaultKind.PART_DROPPED_BY_MIX
        statements = (opening.entry_count, opening.mix_count, opening.entry_reveal, opening.mix_reveal)
        evidence = self._subject.relayed_evidence(
            RelayedKind.PART_NOT_IN_BATCH,
            documents=(current.published.manifest_envelope,),
            statements=statements if outer is None else statements[:3],
            proof=proof,
        )
        self._subject.fault(kind, current.published.number, f"package {package}", evidence=evidence)

    def _runs_around(self, current: _Round, shard: int, digest: bytes) -> list[ShardRun]:
        """The shard in which the digest would stand, and the one beside it where that is needed; under the root."""
        runs: list[ShardRun] = []
        wanted: int | None = shard
        while wanted is not None and len(runs) < 2:
            data = self._file(current.published.number, "shard", wanted)
            try:
                run = read_run(data or b"", shard=wanted, capsules=current.mix_count.capsules)
                run.check(current.mix_count.root)
            except (MalformedMessageError, BadProofError):
                return []
            runs.append(run)
            wanted = beside(run, digest)
        return runs


class PartSearch:
    """Goes through its part's digests as the shards come. It keeps 36 bytes a package, in a fixed order."""

    def __init__(self, part: OpenedPart, sealer: BulkSealer) -> None:
        self.part = part
        digests = b"".join(part.inner_digests(sealer))
        words = np.frombuffer(digests, ">u8").reshape(-1, DIGEST_BYTES // 8)
        #: Numbers of packages, by digest.
        self._order = np.lexsort(words.T[::-1]).astype(np.uint32)
        self._sorted = words[self._order].tobytes()
        self._at = 0

    @property
    def package(self) -> int:
        """The one that is looked for: its number in the part."""
        return int(self._order[self._at])

    @property
    def digest(self) -> bytes:
        """Of its inner capsule."""
        return self._sorted[DIGEST_BYTES * self._at : DIGEST_BYTES * (self._at + 1)]

    def misses(self, run: ShardRun) -> bool:
        """Whether a digest that would stand in this shard, or between it and the one before, is not there."""
        while not self.ended and self.digest <= run.digests[-1]:
            if run.find(self.digest) is None:
                return True
            self._at += 1
        return False

    @property
    def ended(self) -> bool:
        """Whether all were found."""
        return self._at == len(self._order)
