"""What a device's session remembers between two events in an experiment with two relays, and how its owner stores it.

A header, which is small, and the request with its canary while it is on its way: rows of their own, stored durably
before the first byte leaves and deleted when they are done with. A canary with its receipt is handed over once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from secvm.crypto.signing import Envelope
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields, base64_text, decode_document, encode_document
from secvm.protocol.documents.experiment import MAX_KEYS, ExperimentDocument
from secvm.protocol.plain.session_memory import AnyMemory, Phase
from secvm.protocol.relays.manifest import MAX_MANIFEST_BYTES, RelayedManifest
from secvm.protocol.relays.submission import Canary, read_request, token_bytes
from secvm.protocol.version import RELAYED_SESSION_TYPE

#: A manifest, and as many signatures as an experiment has keys.
MAX_ENVELOPE_BYTES = MAX_MANIFEST_BYTES + 128 * (MAX_KEYS + 1)
_MAX_HEADER_BYTES = 2**14


@dataclass(frozen=True, slots=True, repr=False)
class PendingRequest:
    """A sealed request on its way, and its canary as bytes."""

    #: When it is to be sent.
    at: int
    attempts: int
    under_way: bool
    body: bytes
    canary: bytes

    @property
    def kept(self) -> Canary:
        """The canary."""
        return Canary.from_bytes(self.canary)

    def __repr__(self) -> str:
        return f"PendingRequest(due at {self.at})"


@dataclass(frozen=True, slots=True, repr=False)
class RelayedChanges:
    """What has changed since the owner last asked."""

    #: None: as before.
    header: bytes | None
    #: Body and canary of a request that is new; it is never another one of the same round.
    sealed: tuple[bytes, bytes] | None = None
    #: The request is done with.
    forget: bool = False
    #: A canary whose receipt has come.
    taken: Canary | None = None

    def __repr__(self) -> str:
        return "RelayedChanges(...)"


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request as it was stored."""

    body: bytes = field(repr=False)
    canary: bytes = field(repr=False)


class RelayedMemory(AnyMemory):
    """The memory of a ``RelayedSession``. It is never ``Phase.STOPPED``: what convicts a server is its owner's."""

    def __init__(self, document: ExperimentDocument) -> None:
        super().__init__(document)
        self._accepted: bytes | None = None
        #: Of the round that was announced last.
        self.manifest: RelayedManifest | None = None
        self._request: PendingRequest | None = None
        self._receipted: Canary | None = None
        self._sealed = self._forget = False

    def __repr__(self) -> str:
        return "RelayedSession(...)"

    @property
    def accepted(self) -> bytes | None:
        """Envelope of the round that was announced last."""
        return self._accepted

    def _put_request(self, request: PendingRequest) -> None:
        if self._request is None:
            self._sealed = True
        elif (self._request.body, self._request.canary) != (request.body, request.canary):
            raise LocalProtocolError("a round has one request, and this is another")
        self._request = request

    def _drop_request(self) -> None:
        self._forget = self._forget or self._request is not None
        self._request = None

    def take_changes(self) -> RelayedChanges:
        """What is to be stored, in one transaction, before any action is carried out."""
        header = self._header()
        request = self._request
        changes = RelayedChanges(
            header=None if header == self._told else header,
            sealed=(request.body, request.canary) if request is not None and self._sealed else None,
            forget=self._forget,
            taken=self._receipted,
        )
        self._told, self._sealed, self._forget, self._receipted = header, False, False, None
        return changes

    def _header(self) -> bytes:
        request = self._request
        content: dict[str, Any] = {
            "accepted": None if self._accepted is None else base64_text(self._accepted),
            "at": None if request is None else request.at,
            "attempts": None if request is None else request.attempts,
            "experiment": self._document.digest,
            "latest": self._latest,
            "paused": self._paused,
            "phase": self._phase.value,
            "type": RELAYED_SESSION_TYPE,
        }
        return encode_document(content)

    @classmethod
    def from_parts(cls, header: bytes, row: RequestRow | None, document: ExperimentDocument) -> Self:
        """The session whose changes were stored as they came. Tell it ``Restarted`` first of all.

        Raises
        ------
        MalformedMessageError
            The parts are none that a session has written, or do not fit together.
        """
        session = cls(document)
        fields = Fields(decode_document(header, max_bytes=_MAX_HEADER_BYTES), "the session")
        fields.constant("type", RELAYED_SESSION_TYPE)
        fields.constant("experiment", document.digest)
        if not fields.is_null("accepted"):
            session._accepted = fields.base64("accepted", longest=MAX_ENVELOPE_BYTES)
            session.manifest = read_accepted(session._accepted, document)
        phases = [phase.value for phase in Phase if phase is not Phase.STOPPED]
        session._phase = Phase(fields.one_of("phase", phases))
        session._paused, session._latest = fields.flag("paused"), fields.integer("latest", 0)
        at = None if fields.is_null("at") else fields.integer("at", 0)
        attempts = None if fields.is_null("attempts") else fields.integer("attempts", 0)
        fields.done()
        if at is not None and attempts is not None and row is not None:
            session._request = PendingRequest(at, attempts, under_way=False, body=row.body, canary=row.canary)
        session._told = header
        session._check_parts(row)
        return session

    def _check_parts(self, row: RequestRow | None) -> None:
        request, manifest, sending = self._request, self.manifest, self._phase is Phase.SENDING
        whole = sending == (request is not None) and (row is None) == (request is None)
        if not whole or (self._phase is not Phase.IDLE and manifest is None):
            raise MalformedMessageError("the session's parts do not fit together")
        if request is not None and manifest is not None:
            read_request(request.body, budget=self._document.budget, token=token_bytes(self._document))
            if request.kept.label != manifest.label:
                raise MalformedMessageError("the session's request is of another round than its manifest")


def read_accepted(envelope: bytes, document: ExperimentDocument) -> RelayedManifest:
    """The manifest in an envelope, whose signatures were checked when it was believed."""
    manifest = RelayedManifest.from_bytes(Envelope.from_bytes(envelope).payload)
    if manifest.experiment != document.digest:
        raise MalformedMessageError("the session's manifest is of another experiment")
    return manifest
