"""Where an auditor reads: a coordinator's public files, over HTTP, from a copied folder, or from memory.

Whoever serves them is not trusted: every file is asked for with the most bytes that it can have, and what is longer is
refused before it fills anything. ``WebFiles`` blocks, on purpose: it is called from the command line, one file after
another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from secvm.auditor.findings import Findings
from secvm.errors import BadInputError, MalformedMessageError, RemoteProtocolError, UnreachableError
from secvm.files import or_bad_input
from secvm.protocol.version import LOG_ORIGIN
from secvm.runtime.clock import Clock, SystemClock
from secvm.runtime.http.client import ask_blocking, checked_url

#: An envelope around the largest payload.
MOST_DOCUMENT_BYTES = 2**20 + 2**12
#: Checkpoints with all their signatures, proofs, tiles, records of beacons.
MOST_LOG_BYTES = 2**18
#: Lists for people.
MOST_JSON_BYTES = 2**26
#: A tile of entries: 256 lines, each after its length.
MOST_TILE_BYTES = 2**16


class PublicFiles(Protocol):
    """A coordinator's public files (docs/protocol.md §19.2), by their paths."""

    def get(self, path: str, *, most: int) -> bytes | None:
        """The file at this path; None where there is none.

        Raises
        ------
        MalformedMessageError
            It is longer than ``most`` bytes.
        BadInputError
            Whoever serves them cannot be reached, or does not come to an end.
        """
        ...


class GivenFiles:
    """Files in memory: path to content."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def get(self, path: str, *, most: int) -> bytes | None:
        data = self._files.get(path)
        return None if data is None else checked_length(data, most)


class FolderFiles:
    """A coordinator's public folder, or a copy of it."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise BadInputError(
                f"there is no folder {folder}", next_step="A coordinator's URL begins with https:// or http://."
            )
        self._folder = folder
        if not (folder / "v1").is_dir():
            raise BadInputError(
                f"{folder} is no public folder of a coordinator: it has no v1 in it",
                next_step="The coordinator's settings name it under [public].",
            )

    def get(self, path: str, *, most: int) -> bytes | None:
        parts = path.strip("/").split("/")
        # Paths are ours, put together from digests and numbers; this is for whoever changes that one day.
        if any(part in ("", ".", "..") or os.sep in part for part in parts):
            raise MalformedMessageError("this is no path of a public file")
        place = self._folder.joinpath(*parts)
        # An experiment is a file among files that belong to it.
        place = place / "index" if parts[:-1] == ["v1", "experiment"] else place
        with or_bad_input(f"cannot read {place}"):
            if not place.is_file():
                return None
            with place.open("rb") as file:
                return checked_length(file.read(most + 1), most)


def checked_length(data: bytes, most: int) -> bytes:
    """These bytes, if they are no more than they may be."""
    if len(data) > most:
        raise MalformedMessageError("it is longer than such a file can be")
    return data


# ── where what is ────────────────────────────────────────────────────────────────────────────────────────────────────

EXPERIMENTS = "/v1/experiments"


def experiment_path(digest: str, *below: object) -> str:
    """A file of an experiment: its envelope, or what lies below."""
    return "/".join(["/v1/experiment", digest, *map(str, below)])


def log_path(name: str) -> str:
    """A file of the coordinator's log: its checkpoint, or a tile."""
    return f"/{LOG_ORIGIN}/{name}"


def blob_path(digest: str) -> str:
    """Where a blob is."""
    return f"/v1/blob/{digest}"


#: A file that cannot be had at once is asked for again; a server that is restarting is no cheat.
_ATTEMPTS = 3


#: How much one audit may take: for one answer, all of it; for the whole audit; all answers together.
ANSWER_S, AUDIT_S, TOTAL_BYTES = 60.0, 86_400.0, 2**38


class WebFiles:
    """Public files of the coordinator at a URL."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url, self._clock = checked_url(url), clock
        self._until = clock.now() + int(1000 * AUDIT_S)
        self._left = TOTAL_BYTES

    def get(self, path: str, *, most: int) -> bytes | None:
        reason = "no answer"
        for _ in range(_ATTEMPTS):
            if self._clock.now() > self._until:
                raise BadInputError("the audit takes longer than it may: the coordinator answers slowly, or too much")
            try:
                answer = ask_blocking(self._url + path, answer_s=ANSWER_S, most=min(most, self._left))
            except UnreachableError as fault:
                reason = str(fault)
                continue
            if len(answer.content) > self._left:
                raise BadInputError("the coordinator serves more than an audit may read")
            self._left -= len(answer.content)
            if answer.status == 200:
                return checked_length(answer.content, most)
            if answer.status in (404, 410):
                return None
            reason = f"it answers with status {answer.status}"
        raise BadInputError(f"cannot reach the coordinator: {reason}")


def open_files(where: str) -> tuple[PublicFiles, bool]:
    """The public files at a URL or in a folder; and whether they are a copy of some time ago."""
    if "://" in where:
        return WebFiles(where, SystemClock()), False
    return FolderFiles(Path(where)), True


# ── the list of experiments, for people: unsigned, and read like anything else from outside ──────────────────────────

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


def choose_experiments(listed: Mapping[str, ListEntry], name: str | None) -> list[str]:
    """The digests that begin so, of which there must be one; of None all. A whole digest need not be listed.

    Raises
    ------
    BadInputError
        There is none, or more than one.
    """
    if name is None:
        return list(listed)
    wanted = name.lower()
    if is_digest(wanted):
        return [wanted]
    chosen = [digest for digest in listed if digest.startswith(wanted)] if wanted else []
    if len(chosen) != 1:
        what = "no experiment" if not chosen else "more than one experiment"
        raise BadInputError(f"{what} here has a digest that begins with '{wanted[:64]}'")
    return chosen
