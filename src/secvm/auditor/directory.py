"""The directory: every experiment that a coordinator has logged, whether it was ever run or not.

An author could write many experiments, look at the salts that fall to them, and run the one that pleases. All of them
stand in the directory log, so an auditor counts those that were logged and never run. And an experiment that is shown
and does not stand there was kept from those who count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from secvm.auditor.files import DIRECTORY, EXPERIMENTS, MOST_JSON_BYTES, MOST_LOG_BYTES, PublicFiles
from secvm.auditor.findings import Findings
from secvm.auditor.log_check import check_tiles, check_witnesses, fetch_tile
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.protocol.checkpoints import SignedCheckpoint, read_checkpoint
from secvm.protocol.log import EntryKind, LogEntry, LogTerms
from secvm.protocol.tiles import TILE_WIDTH, Tile, read_bundle

#: No coordinator has more; one that says so is not followed.
MOST_EXPERIMENTS = 2**14
_DIGEST_LETTERS = 64


@dataclass(frozen=True, slots=True)
class Listed:
    """What the coordinator's list says of an experiment. For people, and unsigned."""

    title: str
    standing: str


def listed_experiments(files: PublicFiles, findings: Findings) -> dict[str, Listed] | None:
    """Experiments by digest, as the coordinator lists them; None where it has no list."""
    try:
        data = files.get(EXPERIMENTS, most=MOST_JSON_BYTES)
    except RemoteProtocolError as fault:
        findings.fault("list", f"the list of experiments cannot be read: {fault}")
        return {}
    if data is None:
        return None
    try:
        found = {
            one["digest"]: Listed(str(one["title"]), str(one["standing"])) for one in json.loads(data)["experiments"]
        }
    except (ValueError, LookupError, TypeError, RecursionError):
        findings.fault("list", "the list of experiments is none")
        return {}
    if not all(map(is_digest, found)):
        findings.fault("list", "the list of experiments names what is none")
        return {}
    if len(found) > MOST_EXPERIMENTS:
        raise BadInputError(f"the coordinator lists more than {MOST_EXPERIMENTS} experiments")
    return found


def is_digest(text: object) -> bool:
    """Whether this is the name of an experiment."""
    return isinstance(text, str) and len(text) == _DIGEST_LETTERS and not text.strip("0123456789abcdef")


class DirectoryCheck:
    """The directory of one log's owner."""

    def __init__(self, terms: LogTerms, files: PublicFiles, findings: Findings, *, now: int, snapshot: bool) -> None:
        self._terms, self._files, self._findings = terms, files, findings
        self._now, self._snapshot = now, snapshot

    def digests(self) -> list[str] | None:
        """All experiments that stand in it, in their order; None where it cannot be believed."""
        signed = self._checkpoint()
        if signed is None:
            return None
        check_witnesses(self._findings, signed, self._terms, now=self._now, snapshot=self._snapshot, what="directory")
        size = signed.checkpoint.size
        if size > MOST_EXPERIMENTS:
            raise BadInputError(f"the directory has more than {MOST_EXPERIMENTS} experiments")
        entries = self._entries(size)
        if entries is None:
            return None
        tree = Tree(leaf_hash(entry.to_bytes()) for entry in entries)
        if tree.root() != signed.checkpoint.root:
            self._findings.fault("directory", "the directory's entries are not those that were signed")
            return None
        check_tiles(self._files, self._findings, DIRECTORY, size, tree, entries)
        digests = [entry.digest for entry in entries]
        if any(entry.kind is not EntryKind.EXPERIMENT for entry in entries) or len(set(digests)) != size:
            self._findings.fault("directory", "the directory holds what is no experiment, or one twice")
        return digests

    def _checkpoint(self) -> SignedCheckpoint | None:
        try:
            data = self._files.get(f"{DIRECTORY}/checkpoint", most=MOST_LOG_BYTES)
            if data is not None:
                return read_checkpoint(data, log=self._terms.directory_key)
            self._findings.fault("directory", "there are experiments with a log, and no directory of them is served")
        except RemoteProtocolError as fault:
            self._findings.fault("directory", f"the directory's checkpoint cannot be believed: {fault}")
        return None

    def _entries(self, size: int) -> list[LogEntry] | None:
        entries: list[LogEntry] = []
        try:
            for number in range(-(-size // TILE_WIDTH)):
                tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
                data = fetch_tile(self._files, DIRECTORY, tile)
                if data is None:
                    self._findings.fault("directory", f"{tile.path} of the directory is not served")
                    return None
                entries += [LogEntry.from_bytes(entry) for entry in read_bundle(data, width=tile.width)]
        except RemoteProtocolError as fault:
            self._findings.fault("directory", f"the directory's entries cannot be read: {fault}")
            return None
        return entries
