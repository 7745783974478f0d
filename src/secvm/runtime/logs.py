"""Logs that cannot tell: one JSON object a line, made of numbers and of names from the code.

    {"time":"2026-03-01T12:00:00Z","party":"relay","event":"batch-sent","count":1000,"attempt":1}

There is no place for free text. Every field is on the list below, with the one kind of value it takes: a number, yes or
no, a short name as code writes them, or a digest. Whatever else is handed over, an address, an exception's message, a
path somebody asked for, is replaced by the word ``refused``. It is not an error: a log line is no reason to stop
serving, and the line says that it was written wrongly.
"""

from __future__ import annotations

import contextlib
import json
import re
from datetime import UTC, datetime
from typing import TextIO

from secvm.errors import LocalProtocolError
from secvm.runtime.clock import Clock

_NAME = re.compile(r"[a-z0-9-]{1,40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Stands where a value was that must not be told.
REFUSED = "refused"
#: What every reader of JSON takes exactly.
_MOST = 2**53

#: Fields that count or measure.
NUMBERS = frozenset(
    {
        "abstained", "accepted", "again", "at_ms", "attempt", "batches", "bytes", "capsules", "closes_at",
        "connections", "count", "deposits", "dropped", "duplicates", "epoch", "experiments", "failed", "key_id",
        "left", "limit", "line", "models", "opens_at", "packages", "participants", "port", "received", "records",
        "rejected", "requests", "round", "scrubbed", "sent", "size", "slot", "status", "term", "took_ms", "version",
        "waited_ms", "waiting", "witness", "workers",
    }
)  # fmt: skip
#: Yes or no.
FLAGS = frozenset({"durable", "final", "ok", "resumed", "test"})
#: One of a few words that stand in the code.
NAMES = frozenset(
    {"action", "cause", "error", "kind", "mode", "module", "problem", "reason", "stage", "state", "store"}
)
#: What is public and named by its SHA-256. Nothing that came from one person has one here.
DIGESTS = frozenset({"blob", "digest", "experiment", "manifest"})
#: All of them: a field that is not here is left out of the line, which then says so.
FIELDS = NUMBERS | FLAGS | NAMES | DIGESTS


class Log:
    """Tells whoever runs a party what happens there, and nothing about anybody."""

    def __init__(self, stream: TextIO, clock: Clock, party: str = "relay") -> None:
        if not _NAME.fullmatch(party):
            raise LocalProtocolError("a party's name is a short name")
        self._stream = stream
        self._clock = clock
        self._party = party

    def tell(self, event: str, **fields: int | bool | str) -> None:
        """Write a line. Never fails: what may not be told is refused, and what cannot be written is lost."""
        line: dict[str, int | bool | str] = {
            "time": self._time(),
            "party": self._party,
            "event": event if _NAME.fullmatch(event) else REFUSED,
        }
        for name, value in fields.items():
            if name in FIELDS:
                line[name] = value if _may_be_told(name, value) else REFUSED
            else:
                # Its name is left out as well: keyword arguments can be made from data.
                line["fields"] = REFUSED
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._stream.flush()

    def _time(self) -> str:
        try:
            return datetime.fromtimestamp(self._clock.now() // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (OSError, OverflowError, ValueError):
            return REFUSED


class SilentLog(Log):
    """A log that writes nothing, for a part that runs without one."""

    def __init__(self) -> None:
        """Nothing is needed."""

    def tell(self, event: str, **fields: int | bool | str) -> None:
        """Write nothing."""


SILENT = SilentLog()


def _may_be_told(name: str, value: object) -> bool:
    if name in NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST
    if name in FLAGS:
        return isinstance(value, bool)
    return isinstance(value, str) and bool((_NAME if name in NAMES else _DIGEST).fullmatch(value))
