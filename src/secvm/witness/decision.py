"""What a witness has seen, what it is asked, and what follows from the two (c2sp.org/tlog-witness, ``add-checkpoint``).

    read_question      bytes → a checkpoint that a known log has signed, or a refusal         400, 404, 403
    decide             with what was cosigned last of that origin: cosign, or refuse          400, 409, 422

A **fork** is two checkpoints of one origin and size with two roots, both signed by the log. No honest log has it,
however often it crashed, so it is worth more than a refusal: both notes together convince anybody. It is noticed
whatever ``old`` says; the answer is the one that C2SP gives to that ``old``. What is kept of a note is the text and the
log's own signature. Other lines anybody could have added, and as many as they like.

Nothing here touches a clock, a file or a key of ours.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from secvm.crypto.merkle import EMPTY_ROOT
from secvm.crypto.notes import Note, NoteKey
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadProofError, BadSignatureError, MalformedMessageError
from secvm.protocol.log.checkpoints import Checkpoint, check_growth
from secvm.protocol.log.proofs import CosigningRequest
from secvm.protocol.version import LOG_ORIGIN


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A log whose checkpoints are looked at."""

    origin: str
    #: What it signs them with. Mostly its name is the origin; C2SP does not demand it.
    key: NoteKey

    @classmethod
    def of_coordinator(cls, name: str, key: VerifyKey) -> KnownLog:
        """The log of a coordinator of this name (docs/protocol.md §20.2)."""
        origin = f"{name}/{LOG_ORIGIN}"
        return cls(origin, NoteKey(origin, key))


#: The logs that a witness knows, by origin.
Logs = Mapping[str, KnownLog]


@dataclass(frozen=True, slots=True)
class CosigningQuestion:
    """A request whose checkpoint is signed by a log that is known."""

    #: The name of the log's key.
    log: str
    old: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    #: The checkpoint with the log's own signature, and no other line.
    note: bytes

    @property
    def text(self) -> str:
        """What a cosignature is over, further lines of the log's included."""
        return Note.from_bytes(self.note).text


class RefusalReason(enum.Enum):
    """Why something is not cosigned: a word for logs and metrics, C2SP's status, and what is answered."""

    MALFORMED = ("malformed", 400, "This is no request to cosign a checkpoint.")
    UNKNOWN_LOG = ("unknown-log", 404, "No log that is known here has this origin.")
    BAD_SIGNATURE = ("bad-signature", 403, "The log whose origin this is did not sign it.")
    SHRINKS = ("shrinks", 400, "The old size is larger than the checkpoint's.")
    #: ``old`` is not what was cosigned last: the log asks again from there, and is told that size alone.
    OTHER_SIZE = ("other-size", 409, "")
    FORK = ("fork", 422, "The log has signed another root of this size, and that one was cosigned.")
    BAD_PROOF = ("bad-proof", 422, "The proof does not show that the log has grown out of what was cosigned.")

    def __init__(self, word: str, status: int, sentence: str) -> None:
        self.word, self.status, self.sentence = word, status, sentence


class Growth(enum.Enum):
    """Why something is cosigned."""

    #: Nothing of this origin was cosigned before.
    FIRST = "first"
    GROWN = "grown"
    #: The same again: that it is still the newest at a later time.
    RENEWED = "renewed"


@dataclass(frozen=True, slots=True)
class Refuse:
    """It is not to be cosigned."""

    reason: RefusalReason
    #: What was cosigned last, where the answer tells it.
    size: int | None = None
    #: Whether it is one of two roots of a size, and so evidence, whatever the answer is.
    fork: bool = False


#: To be cosigned, once it is remembered; or not.
Decision = Growth | Refuse


def read_question(data: bytes, logs: Logs) -> CosigningQuestion | Refuse:
    """What is asked, if a log that is known has signed it."""
    try:
        request = CosigningRequest.from_bytes(data)
        note = Note.from_bytes(request.checkpoint)
        checkpoint = Checkpoint.of_any_log(note.text)
    except MalformedMessageError:
        return Refuse(RefusalReason.MALFORMED)
    log = logs.get(checkpoint.origin)
    if log is None:
        return Refuse(RefusalReason.UNKNOWN_LOG)
    try:
        log.key.check(note)
    except BadSignatureError:
        return Refuse(RefusalReason.BAD_SIGNATURE)
    # Lines of others are not kept.
    mine = next(made for made in note.signatures if (made.name, made.key_id) == (log.key.name, log.key.key_id))
    own = Note(note.text, (mine,)).to_bytes()
    return CosigningQuestion(log.key.name, request.old, request.path, checkpoint, own)


def decide(seen: Checkpoint | None, asked: CosigningQuestion) -> Decision:
    """Whether to cosign, after what was ``seen`` last of this origin.

    Whoever calls this remembers the checkpoint, durably, before telling anybody.
    Between reading ``seen`` and remembering, nobody else may: else two could be told yes who contradict each other.
    """
    new = asked.checkpoint
    known = seen or Checkpoint(new.origin, 0, EMPTY_ROOT)
    # What ``old`` says does not make two roots of one size less of a fork.
    fork = seen is not None and new.size == known.size and new.root != known.root
    if asked.old > new.size:
        return Refuse(RefusalReason.SHRINKS, fork=fork)
    if asked.old != known.size:
        return Refuse(RefusalReason.OTHER_SIZE, known.size, fork=fork)
    if fork:
        return Refuse(RefusalReason.FORK, fork=True)
    try:
        check_growth(known, new, asked.path)
    except BadProofError:
        return Refuse(RefusalReason.BAD_PROOF)
    if seen is None:
        return Growth.FIRST
    return Growth.RENEWED if new == known else Growth.GROWN
