"""The capsules of a round in public: both opened parts among them, and every one counted again with the published seed.

Three files of each shard are read (docs/protocol.md §31), one shard after another. Its digests are under the mixing
relay's root and ascend from shard to shard; both opened parts lie among them, byte for byte; its capsules give its
sub-tally, and all sub-tallies net tally and parts. A round is forgotten by its coordinator after a while: what is gone
is told as not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secvm.auditor.files import blob_path, experiment_path
from secvm.auditor.findings import FaultKind
from secvm.auditor.relayed.recounter import JudgedShard, OpenedRound, Recounter, ServedShard, ShardVerdict, bulk_sealer
from secvm.auditor.relayed.statements import RelayDoors
from secvm.auditor.subject import PublishedRound, Subject
from secvm.crypto.sealing.layers import BulkSealer
from secvm.errors import BadProofError, MalformedMessageError, RemoteProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.evidence.relayed import PartProof, RelayedEvidence, RelayedKind
from secvm.protocol.relays.batches import capsule_digest
from secvm.protocol.relays.counting import Cells
from secvm.protocol.relays.counts import EntryCount, MixCount
from secvm.protocol.relays.cover_parts import OpenedPart, parts_of
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import MAX_CAPSULES_BYTES, MAX_SHARD_TALLY_BYTES, RawCount, ShardTally, entry_bytes
from secvm.protocol.relays.shards import (
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

_FAULTS = {
    ShardVerdict.RUN: FaultKind.RUNS,
    ShardVerdict.CAPSULES: FaultKind.CAPSULES,
    ShardVerdict.TALLY: FaultKind.SHARDS,
    ShardVerdict.COUNT: FaultKind.COUNT,
    ShardVerdict.NOT_SERVED: FaultKind.WITHHELD,
}
#: Enough shards of a round to be told by name.
_MOST_NAMED = 8


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
        subject, number, opening = self._subject, published.number, published.opening
        if not subject.capsules or opening is None:
            subject.findings.leave_out("capsules and opened parts: they were not looked at")
            return
        if _shard_file(subject, number, "shard", 0) is not None:
            current = RoundCapsules(subject, self._doors, published, opening)
            if current.check(net, recounting):
                self.recounted[number] = current.recounted
                return
        # Nothing of the round is there: forgotten when its time was over, not copied, or withheld.
        self.gone.append(number)
        if not subject.snapshot and subject.now < published.manifest.instants.open_by + LEAST_DAYS * DAY_MS:
            subject.fault(FaultKind.WITHHELD, number)
        else:
            subject.findings.leave_out("capsules of some rounds: they are not public, or not any more")


def _shard_file(subject: Subject, number: int, kind: str, shard: int) -> bytes | None:
    """One of a shard's files; what is longer than it can be is none of them, and is told as such."""
    most = {"shard": MAX_RUN_BYTES, "capsules": MAX_CAPSULES_BYTES, "tally": MAX_SHARD_TALLY_BYTES}[kind]
    try:
        return subject.files.get(experiment_path(subject.document.digest, kind, number, shard), most=most)
    except RemoteProtocolError:
        return b""


class RoundCapsules:
    """The capsules of one opened round, whose statements were all judged; and what was found of them so far."""

    def __init__(self, subject: Subject, doors: RelayDoors, published: PublishedRound, opening: Opening) -> None:
        assert opening.entry_count is not None
        assert opening.mix_count is not None
        self._subject, self._doors, self._published, self._opening = subject, doors, published, opening
        self._number = published.number
        self._entry_count = EntryCount.enclosed(opening.entry_count)
        self._mix_count = MixCount.enclosed(opening.mix_count)
        self._shards = shard_count(self._mix_count.capsules)
        self._parts = parts_of(subject.document, published.manifest, opening)
        self._raw = RawCount(Cells.of(subject.document.experiment), capsules=self._mix_count.capsules)
        self._searches = tuple(PartSearch(part, bulk_sealer()) for part in self._parts)
        self._left_out: list[OpenedPart] = []
        #: The last digest of the shard before.
        self._last = b""
        #: Packages that were counted again.
        self.recounted = 0
        self._faults = 0
        #: Whether the shards' sub-tallies are all there, so that their sum can be held to the net tally.
        self._summed = True
        self._gone = False

    def check(self, net: Tally | None, recounting: Recounter) -> bool:
        """Whether they were there to be looked at; ``net``: the round's net tally, where it is there."""
        opened = OpenedRound(self._subject.envelope, self._published.manifest.data, self._opening.data)
        for files, judged in recounting.judge(opened, self._shards, self._files()):
            self._take(files, judged)
        if self._gone:
            return False
        for search in self._searches:
            if not search.ended:
                self._missing(search, self._shards - 1)
        self._subject.findings.passed(self._number, "parts")
        if self._summed and not self._left_out and net is not None and not self._raw.gives(net, self._parts):
            self._subject.fault(FaultKind.RAW, self._number, evidence=self._wrong_tally())
        self._subject.findings.passed(self._number, "capsules")
        return True

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _file(self, kind: str, shard: int) -> bytes | None:
        return _shard_file(self._subject, self._number, kind, shard)

    def _files(self) -> Iterator[ServedShard]:
        for shard in range(self._shards):
            run, capsules, tally = (self._file(kind, shard) for kind in ("shard", "capsules", "tally"))
            if (run is None or capsules is None or tally is None) and self._file("shard", 0) is None:
                # Forgotten while it was read: its time was over.
                self._gone = True
                return
            yield ServedShard(shard, run, capsules, tally)

    def _run(self, data: bytes | None, shard: int) -> ShardRun:
        return read_run(data or b"", shard=shard, capsules=self._mix_count.capsules)

    # ── a shard ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, files: ServedShard, judged: JudgedShard) -> None:
        self.recounted += judged.recounted
        if files.run is None or judged.verdict is ShardVerdict.RUN:
            # Whatever follows from the digests is not looked at.
            self._searches, self._summed = (), False
            self._tell(FaultKind.WITHHELD if files.run is None else FaultKind.RUNS, files)
            return
        run = self._run(files.run, files.shard)
        if run.digests[0] <= self._last:
            self._tell(FaultKind.RUNS, files)
        self._last = run.digests[-1]
        for search in self._searches:
            if search.misses(run):
                self._missing(search, files.shard)
        if judged.verdict is not ShardVerdict.TRUE:
            evidence = self._wrong_count(run, files) if judged.verdict is ShardVerdict.COUNT else None
            self._tell(_FAULTS[judged.verdict], files, evidence)
        try:
            self._raw.add(judged.digests_hash, judged.sub_tally or b"")
        except MalformedMessageError:
            self._summed = False
        self._summed &= judged.sub_tally is not None

    def _tell(self, kind: FaultKind, files: ServedShard, evidence: RelayedEvidence | None = None) -> None:
        self._faults += 1
        detail = f"shard {files.shard}" if self._faults <= _MOST_NAMED else "and more shards"
        self._subject.fault(kind, self._number, detail, evidence=evidence)

    def _wrong_count(self, run: ShardRun, files: ServedShard) -> RelayedEvidence | None:
        if files.capsules is None or files.tally is None or self._faults >= _MOST_NAMED:
            return None
        signed = ShardTally.from_bytes(files.tally)
        proof = ShardProof(label=self._opening.label, shard=files.shard, path=signed.path, mix_path=run.path)
        return self._subject.relayed_evidence(
            RelayedKind.WRONG_COUNT,
            documents=self._published.envelopes,
            blobs=(files.capsules, signed.sub_tally),
            proof=proof,
        )

    def _wrong_tally(self) -> RelayedEvidence | None:
        """All sub-tallies, read again: they were not kept."""
        most, entries = 2 * self._subject.document.tally_bytes + 4096, []
        net = self._subject.files.get(blob_path(self._opening.tally or ""), most=most)
        for shard in range(self._shards):
            try:
                run = self._run(self._file("shard", shard), shard)
                tally = ShardTally.from_bytes(self._file("tally", shard) or b"")
            except RemoteProtocolError:
                return None
            entries.append(entry_bytes(run, tally.sub_tally))
        return self._subject.relayed_evidence(
            RelayedKind.WRONG_TALLY, documents=self._published.envelopes, blobs=(net or b"", b"".join(entries))
        )

    # ── a part ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _missing(self, search: PartSearch, shard: int) -> None:
        """A capsule of an opened part is not where it would stand, in or beside this shard."""
        part, package, digest = search.part, search.package, search.digest
        self._searches = tuple(other for other in self._searches if other is not search)
        self._left_out.append(part)
        opening, kind = self._opening, FaultKind.PART_OF_MIX
        absence = absence_in(digest, self._runs_around(shard, digest))
        if absence is None:
            self._subject.fault(FaultKind.RUNS, self._number, f"shard {shard}")
            return
        proof = PartProof(package=package, absence=absence)
        outer = part.capsules(package)[1]
        if outer is not None:
            kind = FaultKind.PART_OF_ENTRY
            leaves = self._doors.leaves(self._published, self._entry_count)
            if leaves is not None:
                place = leaves.find(capsule_digest(outer))
                absent = leaves.absence(capsule_digest(outer)) if place is None else None
                stands = None if place is None else leaves.place(place)
                proof = PartProof(package=package, absence=absence, batch_place=stands, batch_absence=absent)
                kind = FaultKind.PART_DROPPED_BY_ENTRY if place is None else FaultKind.PART_DROPPED_BY_MIX
        statements = (opening.entry_count, opening.mix_count, opening.entry_reveal, opening.mix_reveal)
        evidence = self._subject.relayed_evidence(
            RelayedKind.PART_NOT_IN_BATCH,
            documents=(self._published.manifest_envelope,),
            statements=statements if outer is None else statements[:3],
            proof=proof,
        )
        self._subject.fault(kind, self._number, f"package {package}", evidence=evidence)

    def _runs_around(self, shard: int, digest: bytes) -> list[ShardRun]:
        """The shard in which the digest would stand, and the one beside it where that is needed; under the root."""
        runs: list[ShardRun] = []
        wanted: int | None = shard
        while wanted is not None and len(runs) < 2:
            try:
                run = self._run(self._file("shard", wanted), wanted)
                run.check(self._mix_count.root)
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
