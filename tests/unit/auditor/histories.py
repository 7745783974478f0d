"""Public histories for audits: honest ones, and what an audit says of files."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.auditor.report import Report
from secvm.protocol.documents.ending import Why
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.histories.random_experiments import START, HonestWitness


def history(seed: int = 1, *, rounds: int = 3, end: bool = False, **changes: Any) -> PublicHistory:
    """An honest history of so many rounds, and the next one announced, or the ending."""
    made = PublicHistory.drawn(random.Random(seed), **{"witnesses": 3, **changes})
    made.play(rounds)
    if end:
        made.end(Why.FINISHED)
    else:
        made.announce()
    return made


def rewritten(made: PublicHistory, *, now: int = START, **changes: Any) -> PublicHistory:
    """The same people's next experiment, before its first round; their witnesses remember nothing."""
    fresh = tuple(HonestWitness(one.name, one.key) for one in made.parties.witnesses)
    parties = replace(made.parties, witnesses=fresh)
    return PublicHistory(made.dice, replace(made.document, **changes), parties, now=now)


def audited(of: PublicHistory, files: Mapping[str, bytes] | None = None, **options: Any) -> Report:
    """What an audit says of a history, or of these files at its time."""
    given = GivenFiles(of.files if files is None else files)
    return audit_files(given, **{"now": of.now, **options})


def told(report: Report) -> list[tuple[str, int | None]]:
    """Which checks found something, and of which round."""
    return [(fault.check, fault.round_number) for fault in report.faults]


def sentences(report: Report) -> str:
    """All that was found wrong."""
    return "\n".join(fault.sentence for fault in report.faults)


def listing(*histories: PublicHistory) -> bytes:
    """The list of a coordinator that runs them all."""
    listed = [{"digest": one.document.digest, "standing": "running", "title": one.document.title} for one in histories]
    return json.dumps({"experiments": listed}).encode()


# ── elsewhere than in memory ─────────────────────────────────────────────────────────────────────────────────────────


def lay_out(files: Mapping[str, bytes], folder: Path) -> Path:
    """Public files as a coordinator's folder has them."""
    for path, data in files.items():
        parts = path.strip("/").split("/")
        place = folder.joinpath(*parts, "index") if parts[:-1] == ["v1", "experiment"] else folder.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder
