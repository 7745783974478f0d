"""The verifier of ``verifier/`` as a process: node, public files laid out for it, and what it says of them."""

import base64
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from secvm_lab.node import node

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "verifier/verify.js"
HARNESSES = Path(__file__).resolve().parent / "verifier"
PATIENCE_S = 300


def run_node(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(node()), str(script), *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def verify(place: Path | str, *wanted: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the program."""
    ran = run_node(PROGRAM, str(place), *wanted)
    assert ran.stdout, ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    assert report["code"] == ran.returncode
    return ran.returncode, report


def judge_all(
    folder: Path, cases: Iterable[Mapping[str, bytes | None]], scratch: Path, *, now: int
) -> list[dict[str, Any]]:
    """What the program says at this instant of a folder's files with each of these changes, all in one process."""
    written = [
        {
            "folder": str(folder),
            "now": now,
            "changes": {path: None if data is None else base64.b64encode(data).decode() for path, data in one.items()},
        }
        for one in cases
    ]
    scratch.write_text(json.dumps(written))
    ran = run_node(HARNESSES / "cases.js", str(scratch))
    assert ran.returncode == 0, ran.stderr
    said: list[dict[str, Any]] = json.loads(ran.stdout)
    return said
