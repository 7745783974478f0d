"""``secvm audit`` as a process: a real coordinator while it runs, its folder afterwards, a liar over HTTP."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.documents.manifest import accept
from tests.serving import serving
from tests.system.parties import SPECIFICATION, Place, secvm
from tests.system.test_coordinator import contribute_everybody
from tests.unit.auditor.histories import history


def audit(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    audited = secvm("audit", *arguments, "--format", "json")
    assert audited.stdout, audited.stderr
    report: dict[str, Any] = json.loads(audited.stdout)
    return audited.returncode, report


def at(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat()


def test_real_coordinator_is_audited_while_it_runs_and_its_folder_afterwards(tmp_path: Path) -> None:
    place, last = Place(tmp_path), None
    with place.coordinator():
        digest = place.new_experiment(SPECIFICATION)
        of = read_published(place.wait_for(f"/v1/experiment/{digest}"), digest=digest)
        for number in (1, 2):
            last = accept(place.wait_for(f"/v1/experiment/{digest}/manifest/{number}"), document=of, last=last)
            code, report = audit(place.url, "--at", at(last.manifest.opens_at))
            assert (code, report["audit"], report["steps_replayed"]) == (0, "ok", number - 1)
            contribute_everybody(place, of, last.manifest)
        place.wait_for(f"/v1/experiment/{digest}/ending")
        assert last is not None
        over = at(last.manifest.accept_until)
        code, report = audit(place.url, "--experiment", digest[:8], "--at", over)
        assert (code, report["experiment"], report["steps_replayed"]) == (0, digest, 2)
        assert [one["verdict"] for one in report["rounds"]] == ["step follows from the published tally"] * 2
    copied = audit(str(place.public), "--at", over)[1]
    assert copied["rounds"] == report["rounds"]
    (place.public / f"v1/blob/{last.manifest.last.tally}").write_bytes(b"another tally")  # type: ignore[union-attr]
    code, report = audit(str(place.public), "--at", over)
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
