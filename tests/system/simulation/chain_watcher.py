"""What must hold of the log at any time, whoever was killed: looked at from outside, and recomputed from the entries.

1. All checkpoints that a witness ever cosigned, or that were ever public, are one chain. Its entries are stored, each
   of a document that is stored or public; none changes, and none is forgotten.
2. No witness has a fork on record, and none has forgotten what it cosigned.
3. What is public of an experiment has its quorum, and its first checkpoint never changes.
4. A device that follows is never told that it was cheated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from secvm.auditor.files import FolderFiles
from secvm.coordinator.experiments.public_documents import ending_path
from secvm.coordinator.log.log_files import checkpoint_path, first_path, log_path, proof_path
from secvm.coordinator.publisher import experiment_path, manifest_path
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.crypto.signing import Envelope
from secvm.errors import CheatingError, RemoteProtocolError
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.log.checkpoints import Checkpoint, SignedCheckpoint, read_checkpoint
from secvm.protocol.log.entries import Entry, EntryKind, ending_entry, experiment_entry, manifest_entry
from secvm.protocol.trust.trusted_rounds import TrustedRounds
from secvm_lab.rigs.histories.public_history import served_from
from tests.system.simulation.mortal_parties import MortalCoordinator, MortalWitness
from tests.unit.coordinator.witnesses import KEYS, TERMS


class Public(Mapping[str, bytes]):
    """What somebody finds at public paths."""

    def __init__(self, find: Callable[[str], bytes | None]) -> None:
        self._find = find

    def __getitem__(self, path: str) -> bytes:
        found = self._find(path)
        if found is None:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class Chains:
    """The one chain of entries of each origin, as it is stored, and all that anybody ever claimed about it."""

    def __init__(self) -> None:
        self._trees: dict[str, tuple[list[bytes], Tree]] = {}
        #: Every checkpoint that was ever cosigned or public: its root by origin and size.
        self.claims: dict[tuple[str, int], bytes] = {}
        self._unchecked: set[tuple[str, int]] = set()

    def follow(self, origin: str, entries: list[bytes]) -> None:
        """These are the entries now, or the first of them: what was there before is there as it was."""
        known, tree = self._trees.setdefault(origin, ([], Tree()))
        common = min(len(known), len(entries))
        assert entries[:common] == known[:common], "an entry has changed"
        for entry in entries[common:]:
            known.append(entry)
            tree.append(leaf_hash(entry))

    def claim(self, checkpoint: Checkpoint) -> None:
        place = (checkpoint.origin, checkpoint.size)
        if place not in self.claims:
            self.claims[place] = checkpoint.root
            self._unchecked.add(place)
        assert self.claims[place] == checkpoint.root, "two trees of one size"

    def check(self, *, all_of_them: bool = False) -> None:
        """By recomputation."""
        for origin, size in sorted(self._unchecked):
            known, tree = self._trees.get(origin, ([], Tree()))
            if size <= len(known):
                assert tree.root(size) == self.claims[origin, size], "a checkpoint that does not follow"
                self._unchecked.remove((origin, size))
        assert not all_of_them or not self._unchecked


class Watcher:
    """Looks at everything after every operation."""

    def __init__(self, folder: Path) -> None:
        self.chains = Chains()
        self._folder = folder
        self._firsts: dict[str, bytes] = {}
        self._devices: dict[tuple[str, str], TrustedRounds] = {}
        self._looked: dict[tuple[str, str], bytes] = {}
        self._longest: dict[str, int] = {}
        self._digests: dict[bytes, str] = {}
        #: Where each line of the log stood when it was first seen.
        self._places: dict[bytes, int] = {}
        #: So many rounds and endings were believed by devices.
        self.believed = 0

    def look(
        self,
        coordinator: MortalCoordinator,
        witnesses: Sequence[MortalWitness],
        documents: Mapping[str, ExperimentDocument],
    ) -> None:
        """All that must hold at any time."""
        stored = coordinator.inside.experiments()
        lines = coordinator.inside.entries()
        self._grow(TERMS.log_key.name, lines)
        for index, line in enumerate(lines):
            self._places.setdefault(line, index)
        self._entries(coordinator, [Entry.from_bytes(line) for line in lines])
        for witness in witnesses:
            self._witness(witness)
        folder = FolderFiles(self._folder) if (self._folder / "v1").is_dir() else None
        places = {"answers": Public(lambda path: (coordinator.publisher.public(path) or (None, ""))[0])}
        if folder is not None:
            places["folder"] = Public(lambda path: folder.get(path, most=2**26))
        for one in stored:
            of = documents[one.digest]
            for name, files in places.items():
                self._experiment(files, of)
                self._device(name, files, of, one.envelope, coordinator.clock.now())
        for files in places.values():
            self._checkpoint(files, log_path("checkpoint"))
        self.chains.check()

    def _entries(self, coordinator: MortalCoordinator, entries: list[Entry]) -> None:
        """An entry is of what is stored, each once; how an experiment ended is known from public files alone."""
        assert len({entry.key for entry in entries}) == len(entries), "an entry stands there twice"
        stored = {experiment_entry(one.digest) for one in coordinator.inside.experiments()}
        for one in coordinator.inside.experiments():
            for held in coordinator.inside.rounds(one.digest):
                stored.add(manifest_entry(one.digest, held.number, self._digest(held.envelope)))
        unknown = {entry for entry in entries if entry not in stored}
        assert all(entry.kind is EntryKind.ENDING for entry in unknown), "an entry of what is not stored"

    def _digest(self, envelope: bytes) -> str:
        if envelope not in self._digests:
            self._digests[envelope] = RoundManifest.from_bytes(Envelope.from_bytes(envelope).payload).digest
        return self._digests[envelope]

    def _grow(self, origin: str, entries: list[bytes]) -> None:
        """The store never forgets one."""
        assert len(entries) >= self._longest.get(origin, 0), "an entry is forgotten"
        self._longest[origin] = len(entries)
        self.chains.follow(origin, entries)

    def _witness(self, witness: MortalWitness) -> None:
        for checkpoint in witness.told:
            self.chains.claim(checkpoint)
        if witness.dead:
            return
        assert witness.store.forks() == [], "a fork"
        seen = {checkpoint.origin: checkpoint for checkpoint, _ in witness.store.seen()}
        for checkpoint in seen.values():
            self.chains.claim(checkpoint)
        for checkpoint in witness.told:
            newest = seen.get(checkpoint.origin)
            assert newest is not None, "a witness has forgotten what it cosigned"
            assert newest.size >= checkpoint.size, "a witness has forgotten what it cosigned"
        witness.told = [seen[origin] for origin in {checkpoint.origin for checkpoint in witness.told}]

    def _checkpoint(self, files: Public, path: str) -> SignedCheckpoint | None:
        """What is public of the log has its quorum."""
        data = files.get(path)
        if data is None:
            return None
        signed = read_checkpoint(data, log=TERMS.log_key)
        assert len(signed.times(KEYS)) >= TERMS.quorum
        self.chains.claim(signed.checkpoint)
        return signed

    def _experiment(self, files: Public, of: ExperimentDocument) -> None:
        """Documents are public when a public checkpoint holds them, and the first checkpoint never changes."""
        digest = of.digest
        entries = [experiment_entry(digest)] if experiment_path(digest) in files else []
        for number in range(1, of.rounds + 1):
            manifest = files.get(manifest_path(digest, number))
            if manifest is None:
                break
            entries.append(manifest_entry(digest, number, self._digest(manifest)))
        ending = files.get(ending_path(digest))
        if ending is not None:
            entries.append(ending_entry(digest, Ending.from_bytes(Envelope.from_bytes(ending).payload).digest))
        signed = self._checkpoint(files, checkpoint_path(digest))
        size = 0 if signed is None else signed.checkpoint.size
        assert all(self._places.get(entry.to_bytes(), size) < size for entry in entries), "public without its quorum"
        for entry in entries:
            if entry.round_number is not None:
                assert proof_path(digest, entry.round_number) in files
        first = files.get(first_path(digest))
        assert first is not None or not entries
        if first is not None:
            assert self._firsts.setdefault(digest, first) == first, "the first checkpoint has changed"

    def _device(self, name: str, files: Public, of: ExperimentDocument, envelope: bytes, now: int) -> None:
        """A device that follows never finds that it was cheated."""
        place = (name, of.digest)
        shown = (checkpoint_path(of.digest), manifest_path(of.digest, None), ending_path(of.digest))
        newest = b"".join(files.get(path, b"") for path in shown)
        if not newest or self._looked.get(place) == newest:
            return
        self._looked[place] = newest
        device = self._devices.setdefault(place, TrustedRounds(of, envelope))
        try:
            checked = device.check(served_from(files, of.digest, device), now=now)
        except CheatingError:
            raise
        except RemoteProtocolError:
            return
        device.believe(checked)
        self.believed += 1
