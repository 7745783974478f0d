"""The list of experiments that a coordinator shows to people: unsigned, and read like anything else from outside."""

from __future__ import annotations

import json
from dataclasses import dataclass

from secvm.auditor.files import EXPERIMENTS, MOST_JSON_BYTES, PublicFiles
from secvm.auditor.findings import Findings
from secvm.errors import BadInputError, RemoteProtocolError

#: No coordinator has more; one that says so is not followed.
MOST_EXPERIMENTS = 2**14
_DIGEST_LETTERS = 64


@dataclass(frozen=True, slots=True)
class ListEntry:
    """What the coordinator's list says of an experiment. For people, and unsigned."""

    title: str
    standing: str


def listed_experiments(files: PublicFiles, findings: Findings) -> dict[str, ListEntry] | None:
    """Experiments by digest, as the coordinator lists them; None where it has no list."""
    try:
        data = files.get(EXPERIMENTS, most=MOST_JSON_BYTES)
    except RemoteProtocolError as fault:
        findings.fault("list", f"the list of experiments cannot be read: {fault}")
        return {}
    if data is None:
        return None
    try:
        listed = {
            item["digest"]: ListEntry(str(item["title"]), str(item["standing"]))
            for item in json.loads(data)["experiments"]
        }
    except (ValueError, LookupError, TypeError, RecursionError):
        findings.fault("list", "the list of experiments is none")
        return {}
    if not all(map(is_digest, listed)):
        findings.fault("list", "the list of experiments names what is none")
        return {}
    if len(listed) > MOST_EXPERIMENTS:
        raise BadInputError(f"the coordinator lists more than {MOST_EXPERIMENTS} experiments")
    return listed


def is_digest(text: object) -> bool:
    """Whether this is the name of an experiment."""
    return isinstance(text, str) and len(text) == _DIGEST_LETTERS and not text.strip("0123456789abcdef")
