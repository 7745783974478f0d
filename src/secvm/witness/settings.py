"""The witness's settings, as its TOML file has them. docs/how-to/run-a-witness.md shows a whole file.

Lists of logs are those that networks of public witnesses hand round (c2sp.org/tlog-list, ``logs/v0``):

    logs/v0
    vkey coordinator.example/secvm/v2+2a6a1f0e+AV…         the log's key
    origin coordinator.example/secvm/v2                    only where it is not the key's name
    qpd 1440                                               requests a day that the log may need
    contact operator@coordinator.example

Blank lines and lines that begin with # say nothing. A log whose key is no Ed25519 key of type 01 is passed over: others
on the list can be witnessed all the same. Of ``qpd`` only the form is checked: what a stranger may use up is limited by
address (``[limits]``), whichever log they ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError, MalformedMessageError, ProtocolError
from secvm.files import read_beginning_with
from secvm.runtime.http.guard import HttpLimits
from secvm.runtime.settings import Count, Listen, Settings, SteeringPart, StorePart, usual_port
from secvm.witness.decision import KnownLog

#: Where it listens unless its settings say otherwise.
PORT = 8490


class IdentityPart(Settings):
    """``[witness]``: who cosigns."""

    #: As it stands under checkpoints and in experiments (docs/protocol.md §20.4): a host and a path, say.
    name: str = Field(pattern=r"^[!-*,-~]{1,200}$")
    #: Made by ``secvm witness key``.
    key_file: Path
    #: A file of further logs, as networks of public witnesses hand it round (see above).
    log_list: Path | None = None


class WitnessedLogPart(Settings):
    """``[[logs]]``: whose checkpoints are looked at."""

    #: Of a coordinator, host and path: its log's origin is ``name/secvm/v2``. None: the origin is the key's name.
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*$", max_length=200)
    #: The log's Ed25519 key: with a name in hexadecimal, without as C2SP writes keys, origin+id+key.
    key: str

    @model_validator(mode="after")
    def _binds_its_owner(self) -> WitnessedLogPart:
        try:
            self.known()
        except ProtocolError:
            raise ValueError(
                "should have a name and a key in hexadecimal, or a key written origin+id+key alone, and one that only"
                " the log can sign for: ask its owner for it again"
            ) from None
        return self

    def known(self) -> KnownLog:
        """As the witness knows it."""
        if self.name is not None:
            if not re.fullmatch("[0-9a-f]{64}", self.key):
                raise MalformedMessageError("this is no key in hexadecimal")
            return KnownLog.of_coordinator(self.name, VerifyKey(bytes.fromhex(self.key)))
        key = NoteKey.from_text(self.key)
        if key.kind is not SignatureKind.PLAIN:
            raise MalformedMessageError("this is no log's key")
        return KnownLog(key.name, key)


class WitnessLimits(HttpLimits):
    """``[limits]``: what the witness puts up with."""

    #: Open connections: few have a reason to come.
    connections: Count = 1000
    #: Bytes of one request; a larger one is answered 413.
    request_bytes: int = Field(default=2**16, ge=2**12, le=2**18)
    #: Requests that wait for the disk; further ones: 503.
    waiting: Count = 1000
    #: What ``retry-after`` says in a 503, seconds.
    retry_after_s: Count = 5


class WitnessSettings(Settings):
    """All settings of a witness."""

    listen: Annotated[Listen, usual_port(PORT)] = Listen(port=PORT)
    witness: IdentityPart
    #: What was cosigned; made by ``secvm witness key``. Never an older copy of it.
    store: StorePart
    logs: tuple[WitnessedLogPart, ...] = ()
    limits: WitnessLimits = WitnessLimits()
    testing: SteeringPart = SteeringPart()

    @model_validator(mode="after")
    def _each_once(self) -> WitnessSettings:
        if len({log.known().origin for log in self.logs}) != len(self.logs):
            raise ValueError("a log stands there twice")
        if not self.logs and self.witness.log_list is None:
            raise ValueError("logs is missing: name one under [[logs]], or a file of them as witness.log_list")
        return self

    def known_logs(self) -> dict[str, KnownLog]:
        """All logs whose checkpoints are looked at, by origin; those of the list are read from their file."""
        logs = {log.origin: log for log in (part.known() for part in self.logs)}
        if self.witness.log_list is not None:
            for log in read_log_list(read_beginning_with(b"", self.witness.log_list, most=MOST_BYTES)):
                if logs.setdefault(log.origin, log) != log:
                    raise BadInputError(f"the log {log.origin} has one key in the settings and another in the list")
        return logs


HEADER = "logs/v0"
#: Of a file; a log takes about 200.
MOST_BYTES = 2**22
MOST_QPD = 2**31 - 1
_WORDS = ("vkey", "origin", "qpd", "contact")


def read_log_list(data: bytes) -> list[KnownLog]:
    """The logs of a list that this program can witness.

    Raises
    ------
    BadInputError
        It is no list; in a sentence with the number of the line.
    """
    lines = [(number, line.partition(" ")) for number, line in _lines(data)]
    if not lines or lines[0][1] != (HEADER, "", ""):
        raise BadInputError(f"a list of logs begins with {HEADER}")
    logs: dict[str, KnownLog | None] = {}
    at = 1
    while at < len(lines):
        own = [(word, value) for _, (word, _, value) in lines[at : at + len(_WORDS)]]
        if own[1:2] and own[1][0] != "origin":
            own = own[:3]
        number, values = lines[at][0], dict(own)
        words = [word for word in _WORDS if word in values or word != "origin"]
        if [word for word, _ in own] != words or not all(values.values()):
            raise BadInputError(f"a log of the list has vkey, origin or not, qpd and contact (from line {number})")
        if not re.fullmatch("[1-9][0-9]{0,9}", values["qpd"]) or int(values["qpd"]) > MOST_QPD:
            raise BadInputError(f"qpd is a number from 1 to {MOST_QPD} (of the log from line {number})")
        origin = values.get("origin", values["vkey"].partition("+")[0])
        if origin in logs:
            raise BadInputError(f"two logs of the list have one origin (from line {number})")
        logs[origin] = _known(origin, values["vkey"])
        at += len(own)
    return [log for log in logs.values() if log is not None]


def _known(origin: str, text: str) -> KnownLog | None:
    """None: of a kind of key that is not known here."""
    try:
        key = NoteKey.from_text(text)
    except MalformedMessageError:
        return None
    return KnownLog(origin, key) if key.kind is SignatureKind.PLAIN else None


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    if len(data) > MOST_BYTES:
        raise BadInputError(f"a list of logs has at most {MOST_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadInputError("a list of logs is UTF-8") from None
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.strip(" \t")
        if words and not words.startswith("#"):
            yield number, words
