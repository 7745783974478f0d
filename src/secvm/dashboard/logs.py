"""What is known of a coordinator's logs and of those who cosign them: out of checkpoints, each checked first."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from secvm.errors import BadSignatureError, RemoteProtocolError
from secvm.protocol.checkpoints import SignedCheckpoint, read_checkpoint
from secvm.protocol.log import LogTerms
from secvm.protocol.version import LOG_ORIGIN

DIRECTORY = "directory"
#: A checkpoint with the cosignatures of many witnesses, and some.
MOST_BYTES = 2**17


def checkpoint_path(place: str) -> str:
    """Where the checkpoint of an experiment's log is, or the directory's."""
    return f"/{LOG_ORIGIN}/{place}/checkpoint"


@dataclass(frozen=True, slots=True)
class SeenLog:
    """One log as its newest checkpoint has it."""

    signed: SignedCheckpoint
    terms: LogTerms
    #: When each witness cosigned it, in milliseconds, by name.
    times: dict[str, int]
    #: Witnesses in whose name something stands under it that they did not sign.
    wrong: tuple[str, ...]

    @classmethod
    def read(cls, data: bytes, *, place: str, terms: LogTerms) -> SeenLog:
        """The log at this place, if it has signed this."""
        key = terms.directory_key if place == DIRECTORY else terms.log_key(place)
        signed = read_checkpoint(data, log=key)
        times: dict[str, int] = {}
        wrong = []
        for witness in terms.witnesses:
            try:
                found = signed.times([witness.note_key])
            except (BadSignatureError, RemoteProtocolError):
                wrong.append(witness.name)
                continue
            for time_s in found.values():
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


def witnesses(logs: Iterable[SeenLog]) -> list[dict[str, Any]]:
    """Every witness that a log names. ``agrees``: true where it has cosigned all newest checkpoints, null where it has
    not yet cosigned some, false where something stands in its name that it did not sign.
    """
    found: dict[str, dict[str, Any]] = {}
    for log in logs:
        for witness in log.terms.witnesses:
            row = found.setdefault(witness.name, {"name": witness.name, "last_seen": None, "agrees": True, "behind": 0})
            seen = log.times.get(witness.name)
            if witness.name in log.wrong:
                row["agrees"] = False
            elif seen is None:
                row["behind"] += 1
                row["agrees"] = None if row["agrees"] else row["agrees"]
            else:
                row["last_seen"] = max(seen, row["last_seen"] or 0)
    return [found[name] for name in sorted(found)]
