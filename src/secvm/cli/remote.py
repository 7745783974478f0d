"""A coordinator at the other end of a URL, as the command line asks it: public files, and the operator's API.

Whatever a model is made of is checked here as a device would: the experiment by its digest and its keys, the manifest
and the ending by those keys, the weights by the digest that they name.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.errors import BadInputError, RemoteProtocolError, SecVMError
from secvm.learning.weights import Weights
from secvm.protocol.blobs import decode_weights
from secvm.protocol.ending import Ending, accept_ending
from secvm.protocol.experiment_document import ExperimentDocument, read_published
from secvm.protocol.manifest import AcceptedManifest, accept

_PATIENCE_S = 60
_MOST_BYTES = 2**31
_LOOPBACK = ("127.", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class TrustedModel:
    """A model that the experiment's keys have signed, with what it belongs to."""

    document: ExperimentDocument
    weights: Weights
    #: Rounds that it was trained for.
    rounds: int
    #: None while the experiment goes on.
    ending: Ending | None


class Remote:
    """One coordinator."""

    def __init__(self, url: str, admin_key_file: Path | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInputError("--coordinator must be a URL such as https://coordinator.example")
        self._url = url.rstrip("/")
        self._key = None if admin_key_file is None else _read_key(admin_key_file)
        # A proxy of the environment is for the world outside.
        here = parts.netloc.rpartition("@")[2].startswith(_LOOPBACK)
        proxies = [urllib.request.ProxyHandler({})] if here else []
        self._opener = urllib.request.build_opener(*proxies)

    # ── public files ─────────────────────────────────────────────────────────────────────────────────────────────────

    def fetch(self, path: str) -> bytes | None:
        """A public file; None where there is none."""
        return self._ask("GET", path, missing=True)

    def experiments(self) -> list[dict[str, Any]]:
        """All experiments, as the coordinator lists them."""
        listed = self.fetch("/v1/experiments")
        if listed is None:
            raise BadInputError("there is no coordinator at this URL", next_step="Is it a relay's, or lacks it a path?")
        content = _json(listed).get("experiments")
        if not isinstance(content, list):
            raise BadInputError("the coordinator answers what is no list of experiments; is the URL its own?")
        return content

    def find(self, name: str) -> str:
        """The digest that begins so."""
        found = [one["digest"] for one in self.experiments() if str(one["digest"]).startswith(name.lower())]
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
            last: AcceptedManifest | None = None if latest is None else accept(latest, document=document)
            ended = self.fetch(f"/v1/experiment/{digest}/ending")
            ending = None if ended is None else accept_ending(ended, document=document, last=last)
            named, rounds = _newest(last, ending)
            weights = decode_weights(self._needed(f"/v1/blob/{named}"), digest=named, experiment=document.experiment)
        except BadInputError:
            raise
        except SecVMError as fault:
            raise BadInputError(f"the coordinator serves what cannot be trusted: {fault}") from None
        return TrustedModel(document, weights, rounds, ending)

    def _needed(self, path: str) -> bytes:
        data = self.fetch(path)
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

    def _ask(self, method: str, path: str, body: bytes | None = None, *, missing: bool = False) -> bytes | None:
        request = urllib.request.Request(self._url + path, data=body, method=method)  # noqa: S310  (http or https, above)
        if self._key is not None and path.startswith("/admin/"):
            request.add_header("authorization", f"Bearer {self._key}")
        if body is not None:
            request.add_header("content-type", "application/json")
        try:
            with self._opener.open(request, timeout=_PATIENCE_S) as answer:
                data: bytes = answer.read(_MOST_BYTES)
                return data
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and missing:
                    return None
                raise BadInputError(f"the coordinator refuses: {_reason(error)}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            reason = getattr(reason, "strerror", None) or "no answer"
            raise BadInputError(f"cannot reach the coordinator: {reason}") from None


def _newest(last: AcceptedManifest | None, ending: Ending | None) -> tuple[str, int]:
    """Digest of the newest evaluation weights, and after how many rounds they are."""
    if ending is not None:
        return ending.evaluation_weights, ending.round_number
    if last is not None:
        return last.manifest.evaluation_weights, last.manifest.round_number - 1
    raise BadInputError("the experiment has no round yet")


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        detail = json.loads(error.read(2**16))["detail"]
    except (ValueError, LookupError, TypeError, OSError, RecursionError):
        return f"status {error.code}"
    return str(detail)


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
