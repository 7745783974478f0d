"""Python as a process of its own, for what tests must see from outside."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def python(
    *arguments: object, folders: Sequence[str] = ("src",), variables: dict[str, str] | None = None, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """Run to its end with these folders of the checkout on its path. ``how``: as ``subprocess.run`` takes it."""
    path = os.pathsep.join(str(ROOT / folder) for folder in folders)
    how = {"capture_output": True, "text": True, "check": False, **how}
    environment = {**os.environ, "PYTHONPATH": path, **(variables or {})}
    return subprocess.run([sys.executable, "-P", *map(str, arguments)], env=environment, **how)  # noqa: PLW1510
