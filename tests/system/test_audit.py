"""``secvm audit`` as a process: a real coordinator while it runs, its folder afterwards, a liar over HTTP."""

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from tests.system import test_coordinator as real
from tests.unit.auditor.histories import history, serving

running = real.running


def audit(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    told = subprocess.run(
        [sys.executable, "-P", "-m", "secvm.cli.main", "audit", *arguments, "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(real.ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout, told.stderr
    report: dict[str, Any] = json.loads(told.stdout)
    return told.returncode, report


def at(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat()


def test_real_coordinator_is_audited_while_it_runs_and_its_folder_afterwards(
    running: real.Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    specification = tmp_path / "north.toml"
    specification.write_text(real.SPECIFICATION)
    digest = running.command(capfd, "new", str(specification), key=True)["digest"]
    of = read_published(running.wait_for(f"/v1/experiment/{digest}"), digest=digest)
    last: AcceptedManifest | None = None
    for number in (1, 2):
        last = accept(running.wait_for(f"/v1/experiment/{digest}/manifest/{number}"), document=of, last=last)
        code, report = audit(running.url, "--at", at(last.manifest.opens_at))
        assert (code, report["audit"], report["steps_replayed"]) == (0, "ok", number - 1)
        real.set_time(running, last.manifest.opens_at)
        asyncio.run(real.send(running.url, real.everybody(running, of, last.manifest)))
        real.set_time(running, last.manifest.accept_until)
    running.wait_for(f"/v1/experiment/{digest}/ending")
    assert last is not None
    over = at(last.manifest.accept_until)
    code, report = audit(running.url, "--experiment", digest[:8], "--at", over)
    assert (code, report["experiment"], report["steps_replayed"]) == (0, digest, 2)
    assert [one["verdict"] for one in report["rounds"]] == ["step follows from the published tally"] * 2
    running.process.terminate()
    running.process.communicate(timeout=30)
    public = running.folder / "public"
    copied = audit(str(public), "--at", over)[1]
    assert copied["rounds"] == report["rounds"]
    (public / f"v1/blob/{last.manifest.last.tally}").write_bytes(b"another tally")  # type: ignore[union-attr]
    code, report = audit(str(public), "--at", over)
    assert (code, report["faults"][0]["round"]) == (1, 1)


def test_liar_with_a_log_is_found_over_http_and_its_evidence_convicts(tmp_path: Path) -> None:
    made = history(rounds=1)
    made.conclude(made.draw_tally())
    made.announce(training_weights=digest_of(b"other weights"))
    evidence = tmp_path / "found.json"
    with serving(made.files) as server:
        code, report = audit(server.url, "--at", at(made.now), "--evidence-to", str(evidence))
    assert (code, report["audit"], report["evidence_written"]) == (1, "failed", str(evidence))
    code, explained = audit("--evidence", str(evidence))
    assert (code, explained["kind"], explained["experiment"]) == (0, "wrong-step", made.document.digest)
