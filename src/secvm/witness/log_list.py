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
_LINE = re.compile(r"(vkey|origin|qpd|contact) (.+)")


def read_log_list(data: bytes) -> list[KnownLog]:
    """The logs of a list that this program can witness.

    Raises
    ------
    BadInputError
        It is no list; in a sentence with the number of the line.
    """
    lines = _lines(data)
    number, header = next(lines, (1, ""))
    if header != HEADER:
        raise BadInputError(f"a list of logs begins with {HEADER} (line {number})")
    logs: list[KnownLog] = []
    origins: set[str] = set()
    for number, line in lines:
        key = _of("vkey", number, line)
        number, line = _next(lines, number)
        origin = key.partition("+")[0]
        if line.startswith("origin "):
            origin = _of("origin", number, line)
            number, line = _next(lines, number)
        qpd = _of("qpd", number, line)
        if not re.fullmatch("[1-9][0-9]{0,9}", qpd) or int(qpd) > MOST_QPD:
            raise BadInputError(f"qpd is a number from 1 to {MOST_QPD} (line {number} of the list of logs)")
        _of("contact", *_next(lines, number))
        if origin in origins:
            raise BadInputError(f"two logs have one origin (line {number} of the list of logs)")
        origins.add(origin)
        try:
            found = NoteKey.from_text(key)
        except MalformedMessageError:
            continue
        if found.kind is SignatureKind.PLAIN:
            logs.append(KnownLog(origin, found))
    return logs


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


def _next(lines: Iterator[tuple[int, str]], number: int) -> tuple[int, str]:
    return next(lines, (number, ""))


def _of(word: str, number: int, line: str) -> str:
    found = _LINE.fullmatch(line)
    if found is None or found[1] != word:
        raise BadInputError(f"of each log there are vkey, origin or not, qpd and contact (line {number})")
    return found[2]
