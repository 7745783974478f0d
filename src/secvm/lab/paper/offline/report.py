"""The results as files: results.json, and a page with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from secvm.files import write_atomically


def write(folder: Path, found: dict[str, Any]) -> None:
    """Write all of them into the folder."""
    write_atomically(folder / "results.json", orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE))
