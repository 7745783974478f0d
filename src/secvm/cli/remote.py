"""A coordinator at the other end of a URL, as the command line asks it: public files, and the operator's API.

Whatever a model is made of is checked here as a device would: the experiment by its digest and its keys, the manifest
and the ending by those keys, the weights by the digest that they name.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.auditor.files import MOST_JSON_BYTES
from secvm.errors import BadInputError, MalformedMessageError, RemoteProtocolError, SecVMError, UnreachableError
from secvm.learning.weights import Weights
from secvm.protocol.blobs import decode_weights
from secvm.protocol.ending import accept_ending
from secvm.protocol.experiment_document import ExperimentDocument, read_published
from secvm.protocol.manifest import accept
from secvm.protocol.relays.ending import read_ending
from secvm.protocol.relays.manifest import read_manifest
from secvm.protocol.version import RELAYED_EXPERIMENT_TYPE
from secvm.runtime.clock import SteadyClock
from secvm.runtime.http_client import HttpAnswer, HttpClient
from secvm.runtime.http_messages import is_loopback

_PATIENCE_S = 60
#: What the list tells of each experiment.
_LISTED = ("digest", "standing", "title")


@dataclass(frozen=True, slots=True)
class TrustedModel:
    """A model that the experiment's keys have signed, with what it belongs to."""

    document: ExperimentDocument
    weights: Weights
    #: Rounds that it was trained for.
    rounds: int
    #: Why the experiment is over; None while it goes on.
    ended: str | None


class Remote:
    """One coordinator."""

    def __init__(self, url: str, admin_key_file: Path | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInputError("--coordinator must be a URL such as https://coordinator.example")
        if admin_key_file is not None and parts.scheme != "https" and not is_loopback(parts.hostname):
            raise BadInputError(
                f"the admin key would travel to {parts.hostname} in clear: http:// is for this machine alone",
                next_step="Give an https:// address, or go through a tunnel: ssh -L 8750:127.0.0.1:8750 HOST",
            )
        self._url = url.rstrip("/")
        self._key = None if admin_key_file is None else _read_key(admin_key_file)
        self._client = HttpClient(SteadyClock(), answer_s=_PATIENCE_S)

    # ── public files ─────────────────────────────────────────────────────────────────────────────────────────────────

    def fetch(self, path: str, *, most: int = MOST_JSON_BYTES) -> bytes | None:
        """A public file of at most so many bytes; None where there is none."""
        return self._ask("GET", path, most=most, missing=True)

    def experiments(self) -> list[dict[str, Any]]:
        """All experiments, as the coordinator lists them."""
        listed = self.fetch("/v1/experiments")
        if listed is None:
            raise BadInputError("there is no coordinator at this URL", next_step="Is it a relay's, or lacks it a path?")
        content = _json(listed).get("experiments")
        if not isinstance(content, list) or not all(_has_texts(one, _LISTED) for one in content):
            raise BadInputError("the coordinator answers what is no list of experiments; is the URL its own?")
        return content

    def find(self, name: str) -> str:
        """The digest that begins so."""
        found = [one["digest"] for one in self.experiments() if one["digest"].startswith(name.lower())]
        if len(found) != 1 or not name:
            what = "no experiment" if not found else "more than one experiment"
            raise BadInputError(f"{what} of this coordinator has a digest that begins with '{name[:64]}'")
        return str(found[0])

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

    def model(self, digest: str) -> TrustedModel:
        """The newest model, checked."""
        try:
            document = read_published(self._needed(f"/v1/experiment/{digest}"), digest=digest)
            latest = self.fetch(f"/v1/experiment/{digest}/manifest/latest")
            ended = self.fetch(f"/v1/experiment/{digest}/ending")
            relayed = document.kind == RELAYED_EXPERIMENT_TYPE
            named, rounds, why = (_newest_relayed if relayed else _newest)(document, latest, ended)
            data = self._needed(f"/v1/blob/{named}", most=_weights_bytes(document))
            weights = decode_weights(data, digest=named, experiment=document.experiment)
        except BadInputError:
            raise
        except SecVMError as fault:
            raise BadInputError(f"the coordinator serves what cannot be trusted: {fault}") from None
        return TrustedModel(document, weights, rounds, why)

    def _needed(self, path: str, *, most: int = MOST_JSON_BYTES) -> bytes:
        data = self.fetch(path, most=most)
        if data is None:
            raise BadInputError("the coordinator does not serve what it should: " + path)
        return data

    # ── the operator's ───────────────────────────────────────────────────────────────────────────────────────────────

    def order(self, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the operator's API for something; its answer."""
        if self._key is None:
            raise BadInputError("this needs --admin-key-file")
        answer = self._ask("POST", f"/admin/experiments{path}", json.dumps(content or {}, default=str).encode())
        assert answer is not None
        return _json(answer)

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
            answer = self._client.ask(self._url + path, most=most, method=method, headers=headers, body=body)
        except UnreachableError as fault:
            raise BadInputError(f"cannot reach the coordinator: {fault}") from None
        if answer.status == 404 and missing:
            return None
        if 300 <= answer.status < 400:
            raise BadInputError(
                f"the coordinator sends us elsewhere (status {answer.status}), and no redirect is followed",
                next_step="Give the address that answers itself as --coordinator.",
            )
        if not 200 <= answer.status < 300:
            raise BadInputError(f"the coordinator refuses: {_reason(answer)}")
        if len(answer.content) > most:
            raise BadInputError(f"the coordinator answers more than the {most} bytes that {path} may have")
        return answer.content


def _weights_bytes(document: ExperimentDocument) -> int:
    """The most bytes that weights of this experiment have: 4 an entry, and two lines before them."""
    from secvm.estimator.model import MAX_MODEL_BYTES

    experiment = document.experiment
    return min(4 * experiment.models.n_models * (experiment.n_bins + 1) + 2**13, MAX_MODEL_BYTES)


def _newest(document: ExperimentDocument, latest: bytes | None, ended: bytes | None) -> tuple[str, int, str | None]:
    """Digest of the newest evaluation weights, after how many rounds they are, and why it is over."""
    last = None if latest is None else accept(latest, document=document)
    if ended is not None:
        ending = accept_ending(ended, document=document, last=last)
        return ending.evaluation_weights, ending.round_number, ending.why.value
    if last is not None:
        return last.manifest.evaluation_weights, last.manifest.round_number - 1, None
    raise BadInputError("the experiment has no round yet")


def _newest_relayed(
    document: ExperimentDocument, latest: bytes | None, ended: bytes | None
) -> tuple[str, int, str | None]:
    """The same of an experiment with two relays."""
    if ended is not None:
        ending = read_ending(ended, document)
        if ending.experiment != document.digest:
            raise MalformedMessageError("this is the ending of another experiment")
        return ending.evaluation_weights, ending.round_number, ending.why
    if latest is not None:
        last = read_manifest(latest, document)
        return last.evaluation_weights, last.round_number - 1, None
    raise BadInputError("the experiment has no round yet")


def _reason(answer: HttpAnswer) -> str:
    try:
        detail = json.loads(answer.content)["detail"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"status {answer.status}"
    return str(detail)


def _has_texts(content: object, names: Iterable[str]) -> bool:
    return isinstance(content, dict) and all(isinstance(content.get(name), str) for name in names)


def _json(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInputError("the coordinator answers what is no JSON; is the URL its own?")
    return content


def _read_key(path: Path) -> str:
    from secvm.cli.passphrases import passphrase_of
    from secvm.runtime.secret_files import read_secret

    key = read_secret(path, passphrase=passphrase_of(None, None)).strip()
    # What cannot stand in a header would read as a coordinator that does not answer.
    if not re.fullmatch(rb"[!-~]+", key):
        raise BadInputError(f"{path} holds no admin key: one line, without spaces")
    return key.decode("ascii")
