"""A folder of finished work: who is killed goes on where the last finished models are.

A result lies under a digest of all that decides it, so a folder may serve many runs, and nothing in it is ever stale.
Each file appears whole or not at all, and ends with a digest of its own content: what was cut off, changed or put there
by somebody else is worked out anew, and said so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from secvm.errors import BadInputError
from secvm.files import write_atomically
from secvm_lab.paper.offline.models import Trained, digest


class Stored:
    """Results under their keys."""

    def __init__(self, folder: Path | None, note: Callable[[str], None] = lambda _: None) -> None:
        """None: nothing is kept beyond this run."""
        self._folder = None if folder is None else folder / "results"
        self._note = note
        self._known: dict[str, Any] = {}
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInputError(f"cannot write into {folder}: {error.strerror or 'input/output error'}") from None

    def get(self, key: str) -> Any | None:
        """The value under a key; None where there is none to be trusted."""
        if key not in self._known and (value := self._read(key)) is not None:
            self._known[key] = value
        return self._known.get(key)

    def take(self, key: str) -> dict[str, Any]:
        """The value under a key that is known to be there."""
        found: dict[str, Any] = self._known[key]
        return found

    def put(self, key: str, value: Any) -> None:
        """Keep a value that JSON can carry."""
        self._known[key] = value
        if self._folder is not None:
            content = {"key": key, "value": value, "digest": digest([key, value])}
            write_atomically(self._folder / f"{key}.json", orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))

    def _read(self, key: str) -> Any | None:
        if self._folder is None:
            return None
        path = self._folder / f"{key}.json"
        try:
            content = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, orjson.JSONDecodeError):
            content = None
        if isinstance(content, dict) and content.get("key") == key:
            value = content.get("value")
            if value is not None and content.get("digest") == digest([key, value]):
                return value
        self._note(f"{path} is not what was written there; it is worked out anew")
        return None


def as_json(trained: Trained) -> dict[str, Any]:
    """A trained model as a value that JSON can carry."""
    return {"cells": trained.cells.reshape(-1, 4).tolist(), "spells": [list(spell) for spell in trained.spells]}


def from_json(value: dict[str, Any]) -> Trained:
    """The same back; its digest was right, so its shape is what was written."""
    cells = np.array(value["cells"], np.int64).reshape(-1, 2, 2)
    return Trained(cells, tuple((int(first), int(last)) for first, last in value["spells"]))
