"""Proofs that travel with the checkpoint they lead to: proof files, and what a witness is asked and answers.

A **proof file** (c2sp.org/tlog-proof) convinces whoever holds the entry, offline:

    c2sp.org/tlog-proof@v1
    index N
    hashes of the inclusion proof, a line each
                                                an empty line
    the checkpoint, with all signatures

C2SP allows a line of extra data. Nobody signs it, so here it is refused.

A witness is asked (``add-checkpoint`` of c2sp.org/tlog-witness) with ``old N``, the hashes of a consistency proof from
size N, an empty line and the checkpoint; it answers with cosignature lines, or with the size that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from secvm.crypto.merkle import MAX_PROOF_HASHES, check_inclusion, leaf_hash
from secvm.crypto.notes import Note, NoteKey, NoteSignature, read_signature_lines
from secvm.errors import MalformedMessageError
from secvm.protocol.log.checkpoints import (
    Checkpoint,
    SignedCheckpoint,
    check_written,
    hash_line,
    read_checkpoint,
    read_hash,
    read_number,
    text_of,
)

PROOF_HEADER = "c2sp.org/tlog-proof@v1"
#: C2SP's limit for what a witness is asked.
MAX_WITNESS_HASHES = 63
#: Media type of the answer to an ``old`` that is not what the witness has seen last.
SIZE_TYPE = "text/x.tlog.size"
_NOT_READ_AGAIN = "this is no proof that could be read again"


@dataclass(frozen=True, slots=True)
class LogProof:
    """A proof file. **Nothing in it is checked**: ``check`` does that."""

    index: int
    path: tuple[bytes, ...]
    #: The checkpoint's note as it was served.
    checkpoint: bytes

    def to_bytes(self) -> bytes:
        """The one encoding."""
        data = f"{PROOF_HEADER}\nindex {self.index}\n{_hashes(self.path)}\n".encode() + self.checkpoint
        return check_written(data, LogProof.from_bytes, self, _NOT_READ_AGAIN)

    @classmethod
    def from_bytes(cls, data: bytes) -> LogProof:
        """Take a proof file apart; anything but a whole encoding is refused."""
        header, newline, rest = text_of(data).partition("\n")
        if header != PROOF_HEADER or not newline:
            raise MalformedMessageError("this is no proof of a log")
        return cls(*_take_apart(rest, "index ", MAX_PROOF_HASHES, Checkpoint.from_text))

    def check(self, entry: bytes, *, log: NoteKey) -> SignedCheckpoint:
        """That this log holds the entry at ``index``, by a checkpoint that it signed; that comes back.

        Raises
        ------
        MalformedMessageError
            The proof is of another log.
        BadSignatureError
            The log did not sign the checkpoint.
        BadProofError
            The entry is not there.
        """
        signed = read_checkpoint(self.checkpoint, log=log)
        checkpoint = signed.checkpoint
        check_inclusion(leaf_hash(entry), index=self.index, size=checkpoint.size, proof=self.path, root=checkpoint.root)
        return signed


@dataclass(frozen=True, slots=True)
class CosigningRequest:
    """What a witness is asked. **Nothing in it is checked.**"""

    #: The size that the witness is believed to have seen last.
    old: int
    path: tuple[bytes, ...]
    #: The checkpoint's note, signed by its log.
    checkpoint: bytes

    def to_bytes(self) -> bytes:
        """The one encoding."""
        data = f"old {self.old}\n{_hashes(self.path)}\n".encode() + self.checkpoint
        return check_written(data, CosigningRequest.from_bytes, self, _NOT_READ_AGAIN)

    @classmethod
    def from_bytes(cls, data: bytes) -> CosigningRequest:
        """Take it apart; anything but a whole encoding is refused."""
        return cls(*_take_apart(text_of(data), "old ", MAX_WITNESS_HASHES, Checkpoint.of_any_log))


def write_cosignatures(lines: Iterable[NoteSignature]) -> bytes:
    """A witness's answer."""
    return "".join(line.to_line() for line in lines).encode()


def read_cosignatures(data: bytes) -> tuple[NoteSignature, ...]:
    """A witness's answer: lines to be put under the checkpoint, unchecked."""
    text = text_of(data)
    if any(letter < " " and letter != "\n" for letter in text):
        raise MalformedMessageError("a witness's answer holds control characters")
    return read_signature_lines(text)


def write_size(size: int) -> bytes:
    """A witness's answer when ``old`` is not what it has seen last."""
    return b"%d\n" % size


def read_size(data: bytes) -> int:
    """The size that a witness has seen last."""
    text = text_of(data)
    if not text.endswith("\n"):
        raise MalformedMessageError("a witness's answer is no size")
    return read_number(text[:-1])


def _hashes(path: Sequence[bytes]) -> str:
    return "".join(map(hash_line, path))


def _take_apart(
    text: str, word: str, most: int, read: Callable[[str], Checkpoint]
) -> tuple[int, tuple[bytes, ...], bytes]:
    """A number after a word, hashes, an empty line, a checkpoint."""
    before, border, below = text.partition("\n\n")
    first, *hashes = before.split("\n")
    if not border or not first.startswith(word) or len(hashes) > most:
        raise MalformedMessageError("a proof has not the lines that it should have")
    number, path = read_number(first.removeprefix(word)), tuple(map(read_hash, hashes))
    # Its form, so that a proof is whole or none; what it is worth is checked with the log's key.
    checkpoint = below.encode()
    read(Note.from_bytes(checkpoint).text)
    return number, path, checkpoint
