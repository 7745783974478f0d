"""A coordinator at the other end of a URL, as the command line asks it: public files, and the operator's API.

An experiment is checked by its digest and its keys, and a model is believed when an audit finds nothing wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.auditor.files import MOST_JSON_BYTES
from secvm.errors import BadInputError, RemoteProtocolError, UnreachableError
from secvm.learning.weights import Weights
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http.client import HttpAnswer, ask_blocking, checked_url, goes_in_clear

_PATIENCE_S = 60
#: The operator's API: every coordinator has something here.
_OPERATOR = "/admin/experiments"
#: What the list tells of each experiment.
_LISTED = ("digest", "standing", "title")


class AwayError(BadInputError):
    """Nobody answers at the coordinator's URL. That may be over in a moment."""


@dataclass(frozen=True, slots=True)
class TrustedModel:
    """A model that follows from all that is public of its experiment, with what it belongs to."""

    document: ExperimentDocument
    weights: Weights
    #: Rounds that it was trained for.
    rounds: int
    #: Why the experiment is over; None while it goes on.
    ended: str | None


class Remote:
    """One coordinator."""

    def __init__(self, url: str, admin_key_file: Path | None = None) -> None:
        if admin_key_file is not None and goes_in_clear(url):
            raise BadInputError(
                f"the admin key would travel to {url} in clear: http:// is for this machine alone",
                next_step="Give an https:// address, or go through a tunnel: ssh -L 8750:127.0.0.1:8750 HOST",
            )
        self._url = checked_url(url, "--coordinator")
        self._key = None if admin_key_file is None else _read_key(admin_key_file)

    # ── public files ─────────────────────────────────────────────────────────────────────────────────────────────────

    def fetch(self, path: str, *, most: int = MOST_JSON_BYTES) -> bytes | None:
        """A public file of at most so many bytes; None where there is none."""
        return self._ask("GET", path, most=most, missing=True)

    def experiments(self) -> list[dict[str, Any]]:
        """All experiments, as the coordinator lists them."""
        listed = self.fetch("/v1/experiments")
        if listed is None:
            raise no_coordinator()
        content = _json(listed).get("experiments")
        if not isinstance(content, list) or not all(_has_texts(experiment, _LISTED) for experiment in content):
            raise BadInputError(
                "the answer is no list of experiments; check that --coordinator points at a coordinator"
            )
        return content

    def find(self, name: str) -> str:
        """The digest that begins so."""
        all_digests: list[str] = [experiment["digest"] for experiment in self.experiments()]
        digests = [digest for digest in all_digests if digest.startswith(name.lower())]
        if len(digests) != 1 or not name:
            what = "no experiment" if not digests else "more than one experiment"
            raise BadInputError(f"{what} of this coordinator has a digest that begins with '{name[:64]}'")
        return digests[0]

    def status(self, digest: str) -> dict[str, Any]:
        """What is public of an experiment's rounds."""
        return _json(self._needed(f"/v1/experiment/{digest}/status"))

    def experiment(self, name: str) -> ExperimentDocument:
        """The experiment whose digest begins so, checked."""
        digest = self.find(name)
        try:
            return read_published(self._needed(f"/v1/experiment/{digest}"), digest=digest)
        except RemoteProtocolError as fault:
            raise BadInputError(f"the coordinator serves what cannot be trusted: {fault}") from None

    def model(self, digest: str, *, now: Callable[[], int]) -> TrustedModel:
        """The newest model, computed from zero out of what is public, as an audit does. ``now``: milliseconds.

        Every document must be signed and follow from the one before, every step from its tally, and the log must hold
        them all. Capsules are not counted again: ``secvm audit`` does that.
        """
        from secvm.auditor.audit import audit_files
        from secvm.auditor.files import WebFiles
        from secvm.estimator.model import MAX_MODEL_BYTES

        document = self.experiment(digest)
        files = WebFiles(self._url, SteadyClock())
        report = audit_files(
            files, now=now, experiment=digest, models=False, capsules=False, most_tally_bytes=MAX_MODEL_BYTES
        )
        if not report.ok:
            raise BadInputError(
                f"the coordinator serves what cannot be trusted: {report.faults[0].sentence}",
                next_step=f"See all of it: secvm audit {self._url} --experiment {digest[:16]}",
            )
        (audited,) = report.experiments
        if audited.model is None:
            raise BadInputError("the experiment has no round yet")
        ended = audited.standing if audited.ended else None
        return TrustedModel(document, audited.model.evaluation, audited.rounds_trained, ended)

    def _needed(self, path: str) -> bytes:
        data = self.fetch(path)
        if data is None:
            raise BadInputError("the coordinator does not serve what it should: " + path)
        return data

    def is_cosigned(self, digest: str) -> bool:
        """Whether a quorum of witnesses has cosigned an experiment of a log: then, and not before, it is shown."""
        return self.fetch(f"/v1/experiment/{digest}") is not None

    def silent_witnesses(self) -> list[str] | None:
        """Those that have not cosigned the newest checkpoint, by name; None: it does not say."""
        log = self.health().get("log")
        silent = log.get("silent") if isinstance(log, dict) else None
        return silent if isinstance(silent, list) else None

    def health(self) -> dict[str, Any]:
        """What it says of itself; nothing where a proxy keeps that to itself."""
        health = self.fetch("/health")
        return {} if health is None else _json(health)

    # ── the operator's ───────────────────────────────────────────────────────────────────────────────────────────────

    def order(self, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the operator's API for something; its answer."""
        answer = self._ask("POST", _OPERATOR + path, json.dumps(content or {}, default=str).encode())
        assert answer is not None
        return _json(answer)

    def kept(self, path: str = "") -> dict[str, Any]:
        """What the operator's API says of one experiment, or of all; refuses a key that is not the coordinator's."""
        answer = self._ask("GET", _OPERATOR + path)
        assert answer is not None
        return _json(answer)

    def draft(self, specification: dict[str, Any]) -> tuple[ExperimentDocument, list[str]]:
        """What a specification would become here, and the coordinator's remarks; nothing is published."""
        answer = self.order("/draft", specification)
        document, remarks = answer.get("document"), answer.get("remarks")
        if not isinstance(document, str) or not isinstance(remarks, list):
            raise other_answer()
        try:
            return ExperimentDocument.from_bytes(document.encode()), [str(remark) for remark in remarks]
        except RemoteProtocolError as fault:
            raise BadInputError(f"the coordinator's draft is no experiment: {fault}") from None

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        most: int = MOST_JSON_BYTES,
        missing: bool = False,
    ) -> bytes | None:
        headers: dict[str, str] = {}
        if self._key is not None and path.startswith("/admin/"):
            headers["authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            answer = ask_blocking(
                self._url + path, answer_s=_PATIENCE_S, most=most, method=method, headers=headers, body=body
            )
        except UnreachableError as fault:
            raise AwayError(f"cannot reach the coordinator at {self._url}: {fault}") from None
        if answer.status == 404 and missing:
            return None
        if 300 <= answer.status < 400:
            raise BadInputError(
                f"the coordinator sends us elsewhere (status {answer.status}), and no redirect is followed",
                next_step="Give the address that answers itself as --coordinator.",
            )
        if not 200 <= answer.status < 300:
            reason = _reason(answer)
            if answer.status == 404 and (reason is None or path == _OPERATOR):
                raise no_coordinator()
            raise BadInputError(f"the coordinator refuses: {reason or f'status {answer.status}'}")
        if len(answer.content) > most:
            raise BadInputError(f"the coordinator answers more than the {most} bytes that {path} may have")
        return answer.content


def no_coordinator() -> BadInputError:
    """The complaint that somebody else answers."""
    return BadInputError(
        "there is no coordinator at this URL", next_step="Is this a relay's URL, or is a path missing?"
    )


def other_answer() -> BadInputError:
    """The complaint that an answer is not what it should be."""
    return BadInputError(
        "the coordinator's answer is not what this version of secvm expects",
        next_step="Is --coordinator its own URL, and does it run the same version?",
    )


def _reason(answer: HttpAnswer) -> str | None:
    try:
        return str(json.loads(answer.content)["detail"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _has_texts(content: object, names: Iterable[str]) -> bool:
    return isinstance(content, dict) and all(isinstance(content.get(name), str) for name in names)


def _json(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInputError("the server's answer is not JSON; check that --coordinator points at a coordinator")
    return content


def _read_key(path: Path) -> str:
    from secvm.cli.parties import passphrase_of
    from secvm.runtime.disk.secret_files import read_secret

    if not path.exists():
        raise BadInputError(
            f"there is no file {path} with the admin key",
            next_step="'federation init' writes it as admin.key, and 'coordinator init' shows it once: put it into a"
            " file with mode 0600.",
        )
    key = read_secret(path, passphrase=passphrase_of(None, None)).strip()
    # What cannot stand in a header would read as a coordinator that does not answer.
    if not re.fullmatch(rb"[!-~]+", key):
        raise BadInputError(f"{path} holds no admin key: one line, without spaces")
    return key.decode("ascii")
