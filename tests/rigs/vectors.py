"""The vectors of this version, for tests that begin from a known answer."""

from __future__ import annotations

import functools
import json
from typing import Any

from tests.conftest import ROOT


@functools.cache
def vectors(name: str) -> Any:
    """The content of ``vectors/v2/NAME.json``; ``tests/contract/vectors`` holds all of it to the code."""
    return json.loads((ROOT / f"vectors/v2/{name}.json").read_text(encoding="utf-8"))
