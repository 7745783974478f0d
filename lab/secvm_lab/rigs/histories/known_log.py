"""A coordinator's log with keys that everybody knows, as public files: for histories that sign with such keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import Entry, EntryKind
from secvm.protocol.log.terms import LogTerms, Witness
from secvm.protocol.version import LOG_ORIGIN
from secvm_lab.rigs.histories.relayed_rounds import START, known_key
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog

LOG = known_key("log")
WITNESSES = tuple(known_key(f"witness {i}") for i in range(3))


def known_log_terms(**changes: Any) -> LogTerms:
    """Two of three witnesses; what they have cosigned stays fresh as long as any test lasts."""
    told: dict[str, Any] = {
        "name": "log.example",
        "key": LOG.public,
        "witnesses": tuple(Witness(f"w{i}.example", key.public) for i, key in enumerate(WITNESSES)),
        "quorum": 2,
        "freshness_s": 7 * 86_400,
    }
    return LogTerms(**{**told, **changes})


class KnownLog(WitnessedLog):
    """The log of all experiments of such a coordinator. Nothing is public before ``show``."""

    def __init__(self, entries: Sequence[bytes] = ()) -> None:
        super().__init__(known_log_terms().log_key.name, LOG, entries)
        #: When witnesses are asked.
        self.time_s = START // 1000 - 3600

    def note(self, size: int | None = None, *, witnesses: int = 2) -> SignedCheckpoint:
        """The log of this size or of now, cosigned by so many."""
        signed = self.checkpoint(size)
        lines = [
            signed.checkpoint.cosign(key, name=f"w{i}.example", time_s=self.time_s)
            for i, key in enumerate(WITNESSES[:witnesses])
        ]
        return signed.cosigned(*lines)

    def show(self, files: dict[str, bytes], experiments: Sequence[str], **how: Any) -> None:
        """Put the log among the public files, and its checkpoint beside these experiments."""
        signed = self.note(**how)
        files |= {f"/{LOG_ORIGIN}/{name}": data for name, data in self.files(signed).items()}
        files |= {f"/v1/experiment/{digest}/checkpoint": signed.data for digest in experiments}

    def enter(self, files: dict[str, bytes], entry: Entry) -> None:
        """One more entry, cosigned and shown."""
        self.append(entry)
        self.show(files, [entry.experiment])
        names = {EntryKind.EXPERIMENT: "first", EntryKind.MANIFEST: f"proof/{entry.round_number}"}
        if entry.kind in names:
            proof = self.proof(self.tree.size - 1, self.note())
            files[f"/v1/experiment/{entry.experiment}/{names[entry.kind]}"] = proof
