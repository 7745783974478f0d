"""Lists of logs, as networks of public witnesses hand them round (c2sp.org/tlog-list, ``logs/v0``).

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

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.errors import BadInputError, MalformedMessageError
from secvm.witness.decision import KnownLog

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
        told = line.strip(" \t")
        if told and not told.startswith("#"):
            yield number, told
