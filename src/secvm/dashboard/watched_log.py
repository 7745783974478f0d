"""A coordinator's log as its checkpoints have it, and who of its witnesses cosigned them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from secvm.errors import BadSignatureError, RemoteProtocolError
from secvm.protocol.log.checkpoints import SignedCheckpoint, read_checkpoint
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.version import LOG_ORIGIN

#: The checkpoint that the coordinator's own witnesses cosigned.
CHECKPOINT = f"/{LOG_ORIGIN}/checkpoint"
#: A checkpoint with the cosignatures of many witnesses, and some.
MOST_CHECKPOINT_BYTES = 2**17


def checkpoint_path(digest: str) -> str:
    """Where the newest checkpoint is that an experiment's witnesses cosigned."""
    return f"/v1/experiment/{digest}/checkpoint"


@dataclass(frozen=True, slots=True)
class WatchedLog:
    """The log as a checkpoint has it, and who of these terms' witnesses cosigned that."""

    signed: SignedCheckpoint
    terms: LogTerms
    #: When each witness cosigned it, in milliseconds, by name.
    times: dict[str, int]
    #: Witnesses in whose name something stands under it that they did not sign.
    wrong: tuple[str, ...]

    @classmethod
    def read(cls, data: bytes, *, terms: LogTerms) -> WatchedLog:
        """The log, if it has signed this."""
        signed = read_checkpoint(data, log=terms.log_key)
        times: dict[str, int] = {}
        wrong = []
        for witness in terms.witnesses:
            try:
                cosigned = signed.times([witness.note_key])
            except (BadSignatureError, RemoteProtocolError):
                wrong.append(witness.name)
                continue
            for time_s in cosigned.values():
                times[witness.name] = 1000 * time_s
        return cls(signed, terms, times, tuple(wrong))

    def content(self) -> dict[str, Any]:
        """For the page."""
        return {
            "origin": self.signed.checkpoint.origin,
            "size": self.signed.checkpoint.size,
            "root": base64.b64encode(self.signed.checkpoint.root).decode(),
            "at": max(self.times.values(), default=None),
            "cosigned": sorted(self.times),
            "quorum": self.terms.quorum,
            "quorum_reached": len(self.times) >= self.terms.quorum,
        }


#: Of ``freshness_s``: a coordinator renews cosignatures well before.
_OVERDUE_AFTER = 3


def witnesses(
    logs: Iterable[WatchedLog], *, own: WatchedLog | None = None, silent: Sequence[str] = (), now: int = 0
) -> list[dict[str, Any]]:
    """Every witness that these terms name. ``agrees``: true where it has cosigned all newest checkpoints, null where it
    has not yet cosigned some, false where something stands in its name that it did not sign.

    A checkpoint that a quorum has cosigned says nothing of who answers now. So nobody agrees who is ``silent`` by the
    coordinator's word, or whose cosignature under the coordinator's ``own`` checkpoint should have been renewed.
    """
    rows: dict[str, dict[str, Any]] = {}
    for log in [*logs, *([] if own is None else [own])]:
        for witness in log.terms.witnesses:
            row = rows.setdefault(
                witness.name, {"name": witness.name, "last_seen": None, "agrees": True, "behind": 0, "silent": False}
            )
            seen = log.times.get(witness.name)
            if witness.name in log.wrong:
                row["agrees"] = False
            elif seen is None:
                row["behind"] += 1
                row["agrees"] = None if row["agrees"] else row["agrees"]
            else:
                row["last_seen"] = max(seen, row["last_seen"] or 0)
    overdue: set[str] = set()
    if own is not None:
        oldest = now - 1000 * own.terms.freshness_s // _OVERDUE_AFTER
        overdue = {name for name, at in own.times.items() if at < oldest}
    for name in overdue.union(silent) & rows.keys():
        rows[name] |= {"silent": True, "agrees": None if rows[name]["agrees"] else rows[name]["agrees"]}
    return [rows[name] for name in sorted(rows)]
