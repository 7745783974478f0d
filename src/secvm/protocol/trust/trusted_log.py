"""The log as one device believes it, for one experiment of it (docs/protocol.md §22, steps 2 to 5 and 8).

A log holds the entries of all experiments of its coordinator. A device keeps the right edge of the whole tree. For each
look it fetches every line that was appended since, appends them itself, and comes to the signed root or believes
nothing. So it knows, without a proof for any of them, that the log has grown out of what it believed, and which entries
of its own experiment there are: each once, in their order, of exactly the documents that it was served. Lines of other
experiments are read and passed over; a line that is none spoils the log.

Lines are not signed; only the root is. So lines that do not lead to it convict nobody. What does is a line *under* the
root that contradicts a document the coordinator signed, or another line: ``Appended.proof`` shows it to anybody.

``Checking`` has the pure functions by which served bytes are judged. Each is a function of its arguments alone, and
says of which. So a host that carries hundreds of devices may hand all of them one that remembers what it has judged
before (``participant.trust.shared_checks``): whoever asks the same gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar

from secvm.crypto.merkle import Frontier, inclusion_proof, leaf_hash
from secvm.crypto.notes import NoteKey
from secvm.errors import (
    BadInputError,
    BadProofError,
    CheatingError,
    LocalProtocolError,
    MalformedMessageError,
    StaleCheckpointError,
    StaleRoundError,
)
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import Fields, base64_text, digest_of
from secvm.protocol.documents.blobs import decode_state, decode_tally, tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, accept
from secvm.protocol.documents.recomputation import After, Model, after_opened, first_model, model_of, next_model
from secvm.protocol.evidence.plain import Evidence, Kind, LoggedEntry
from secvm.protocol.log.checkpoints import SignedCheckpoint, check_enough, read_checkpoint
from secvm.protocol.log.entries import (
    MAX_LOG_ENTRIES,
    Document,
    Entry,
    Placed,
    contradict,
    experiment_entry,
    follows,
)
from secvm.protocol.log.policy import LogPolicy, quorum_of
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.records import FieldKind, Hash, TypedRecord, listed, long_bytes
from secvm.protocol.version import SEEN_LOG_TYPE

Value = TypeVar("Value")


class Checking:
    """Judges. Each question goes through ``once``, which remembers nothing here."""

    def once(self, kind: str, asked: Callable[[], tuple[object, ...]], judge: Callable[[], Value]) -> Value:  # noqa: ARG002
        """What ``judge`` comes to, a question of this kind. ``asked`` is **everything** that its answer follows from,
        bytes by their digests; an answer never changes.
        """
        return judge()

    def accept(
        self, data: bytes, *, document: ExperimentDocument, last: AcceptedManifest | None = None
    ) -> AcceptedManifest:
        """``manifest.accept``."""
        if last is not None and data == last.envelope:
            return last
        before = None if last is None else last.envelope
        accepted = self.once(
            "accepted",
            lambda: (document.digest, None if before is None else digest_of(before), digest_of(data)),
            lambda: accept(data, document=document, last=last),
        )
        # The same manifest under other signatures: whoever asks looks whether it is their own.
        return last if last is not None and accepted.manifest.digest == last.manifest.digest else accepted

    def checkpoint(self, data: bytes, *, log: NoteKey) -> SignedCheckpoint:
        """``checkpoints.read_checkpoint``."""
        return self.once("checkpoint", lambda: (log.to_text(), digest_of(data)), lambda: read_checkpoint(data, log=log))

    def times(self, signed: SignedCheckpoint, witnesses: Sequence[NoteKey]) -> dict[NoteKey, int]:
        """When each of these witnesses cosigned, in seconds; wrong cosignatures are refused."""
        names = tuple(witness.to_text() for witness in witnesses)
        return dict(self.once("times", lambda: (digest_of(signed.data), *names), lambda: signed.times(witnesses)))

    def tally(self, data: bytes, *, digest: str, document: ExperimentDocument) -> Tally:
        """The tally of this digest."""
        # The digest that is asked for goes in as well: bytes that do not have it are refused below, every time.
        tally = self.once(
            "tally",
            lambda: (document.digest, digest, digest_of(data)),
            lambda: decode_tally(data, digest=digest, experiment=document.experiment),
        )
        # Its digest was looked at here. While it is remembered nothing else has its number.
        self.once("digest", lambda: (id(tally),), lambda: (tally, digest))
        return tally

    def _digest(self, tally: Tally) -> str:
        known, digest = self.once("digest", lambda: (id(tally),), lambda: (tally, tally_digest(tally)))
        assert known is tally
        return digest

    def first(self, document: ExperimentDocument) -> Model:
        """What round 1 starts from."""
        return self.once("model", lambda: (document.digest,), lambda: first_model(document))

    def model(self, state: bytes, *, digest: str, document: ExperimentDocument) -> Model:
        """The model of the state of this digest."""
        return self.once(
            "model",
            lambda: (document.digest, digest, digest_of(state)),
            lambda: model_of(document, decode_state(state, digest=digest, experiment=document.experiment)),
        )

    def following(self, document: ExperimentDocument, model: Model, tally: Tally | None) -> Model:
        """``recomputation.next_model``."""
        if tally is None:
            return next_model(document, model.state, None)
        return self.once(
            "model",
            lambda: (document.digest, "after", model.names[0], self._digest(tally)),
            lambda: next_model(document, model.state, tally),
        )

    def after_opened(self, document: ExperimentDocument, model: Model, net: Tally, *, clients: int) -> After:
        """``recomputation.after_opened``."""
        return self.once(
            "after",
            lambda: (document.digest, model.names[0], self._digest(net), clients),
            lambda: after_opened(document, model.state, net, clients=clients),
        )


_MAX_NOTE_BYTES = 2**21


_HASHES = listed(Hash, longest=64)
_ENTRY = FieldKind(
    lambda taken, field: Entry.from_bytes(taken.base64(field, longest=256)), lambda entry: base64_text(entry.to_bytes())
)


@dataclass(frozen=True)
class SeenLog(TypedRecord):
    """What a device keeps of the log."""

    purpose: ClassVar[str] = SEEN_LOG_TYPE
    title: ClassVar[str] = "what is seen of the log"
    #: With a note in base64, and the edge.
    longest: ClassVar[int] = 2**22

    #: The checkpoint under which it believed something, as it was served; None before the first.
    checkpoint: Annotated[bytes, long_bytes(_MAX_NOTE_BYTES)] | None = None
    #: The whole tree of it, which was read entry by entry.
    frontier: Frontier = field(default_factory=Frontier)
    #: The newest entry of the device's experiment.
    entry: Annotated[Entry, _ENTRY] | None = None

    def to_content(self) -> dict[str, Any]:
        edge = {"hashes": [node.hex() for node in self.frontier.hashes], "size": self.frontier.size}
        return {**super().to_content(), **edge}

    @classmethod
    def take(cls, fields: Fields, **others: object) -> Self:
        hashes = _HASHES.read(fields, "hashes")
        try:
            frontier = Frontier(fields.integer("size", 0), hashes)
        except LocalProtocolError:
            raise fields.refuse("hashes", "one hash for each bit of the size") from None
        return super().take(fields, frontier=frontier, **others)


class Appended:
    """Lines that lead from one edge of the log to the root of a checkpoint."""

    def __init__(self, before: Frontier, lines: Sequence[bytes], signed: SignedCheckpoint) -> None:
        """Raises ``MalformedMessageError`` for what is no line, ``BadProofError`` where they do not lead there."""
        if before.size + len(lines) != signed.checkpoint.size:
            raise MalformedMessageError("the lines are more or fewer than the log has appended")
        self.entries = [Placed(before.size + index, entry) for index, entry in enumerate(map(Entry.from_bytes, lines))]
        self._before, self._signed = before, signed
        self._leaves = [leaf_hash(line) for line in lines]
        self.frontier = before
        for leaf in self._leaves:
            self.frontier = self.frontier.append(leaf)
        if self.frontier.root != signed.checkpoint.root:
            raise BadProofError("the lines of the log do not lead to the root that was signed")

    def of(self, experiment: str) -> list[Placed]:
        """The entries of one experiment."""
        return [placed for placed in self.entries if placed.entry.experiment == experiment]

    def proof(self, placed: Placed) -> LoggedEntry:
        """That one of these entries stands in the log, for others."""
        size = self._signed.checkpoint.size
        path = inclusion_proof(self._before.reader(self._leaves), placed.index, size)
        return LoggedEntry(placed.entry.to_bytes(), LogProof(placed.index, path, self._signed.data).to_bytes())


class TrustedLog:
    """The log as a device believes it, for one experiment, and the rules by which it does.

    ``seen`` is what was seen of it: whoever has stored what ``grow`` came to puts it there.
    """

    def __init__(
        self,
        document: ExperimentDocument,
        envelope: bytes,
        *,
        policy: LogPolicy | None,
        checking: Checking,
        seen: SeenLog,
        believed: Callable[[], Sequence[Document]],
    ) -> None:
        """That of an experiment, as a device with this policy believes it; ``envelope`` is for evidence. ``believed``:
        the documents of the newest round that is believed.

        Raises
        ------
        BadInputError
            The experiment has no log, or none whose witnesses can be enough for this device.
        """
        if document.log is None:
            raise BadInputError("this experiment has no log: nobody can tell whether all are told the same")
        self._terms, self._experiment, self._envelope = document.log, document.digest, envelope
        self._checking, self._believed = checking, believed
        self.seen = seen
        #: Every round of an experiment with relays' cover has an opening.
        self._openings = document.experiment.cover is not None
        self._quorum = quorum_of(document.log, policy)
        # What is written in the name of others spoils nothing.
        self._witnesses = tuple(key for key in document.log.witness_keys if key.key in self._quorum.keys)

    @property
    def seen_size(self) -> int:
        """So many lines were read."""
        return self.seen.frontier.size

    def missing_lines(self, checkpoint: bytes) -> int:
        """How many lines this checkpoint's log has after what was seen; below zero: it is an older one.

        Raises
        ------
        CheatingError
            The log has signed another tree of the size that was seen.
        RemoteProtocolError
            It is no checkpoint of this log, or of one that is longer than a log can be.
        """
        return self._read(checkpoint).checkpoint.size - self.seen_size

    def check_quorum(self, checkpoint: bytes, *, now: int, over: bool = False) -> None:
        """Steps 2 and 3: enough of the witnesses that count here, lately; ``over``: what is shown is an ending."""
        check_enough(
            self._checking.times(self._read(checkpoint), self._witnesses),
            self._quorum,
            now=now,
            freshness_s=None if over else self._terms.freshness_s,
        )

    def grow(self, checkpoint: bytes, lines: Sequence[bytes], served: Sequence[Document]) -> SeenLog:
        """Steps 4 and 5: what is seen of the log then. ``served``: the documents that it must have added, in order.

        Raises
        ------
        CheatingError
            An entry contradicts a document, or another entry; with evidence.
        StaleRoundError
            The log has more of this experiment than was served: ask again.
        RemoteProtocolError
            The lines are not the log's, or it does not hold yet what was served.
        """
        signed, appended = self._append(checkpoint, lines)
        own = self._own(appended, [*served, *self._believed()])
        expected = [placed.entry for placed in served]
        if self.seen.entry is None:
            expected.insert(0, experiment_entry(self._experiment))
        entries = [placed.entry for placed in own]
        if entries[: len(expected)] == expected and len(entries) > len(expected):
            raise StaleRoundError("the log has grown meanwhile")
        if entries != expected:
            raise BadProofError("the log does not hold what was served, or not yet")
        return SeenLog(signed.data, appended.frontier, entries[-1] if entries else self.seen.entry)

    def compare(self, checkpoint: bytes, lines: Sequence[bytes]) -> None:
        """Step 8: a log that was fetched again while the window is open has grown by other experiments' entries alone.

        Raises
        ------
        CheatingError
            The log was forked, or has a second entry for what is believed.
        StaleCheckpointError, BadProofError
            It is older; something of this experiment was appended; or the lines do not lead to the root.
        RemoteProtocolError
            It is no checkpoint of this log.
        """
        if self.missing_lines(checkpoint) < 0:
            raise StaleCheckpointError("a fresh look at the log shows an older one than this device was shown")
        _, appended = self._append(checkpoint, lines)
        if self._own(appended, self._believed()):
            raise BadProofError("the log has gone on with this experiment while the window is still open")

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, checkpoint: bytes) -> SignedCheckpoint:
        """A checkpoint of this log; of one size there is one tree, whoever cosigned it."""
        seen = self.seen
        signed = self._checking.checkpoint(checkpoint, log=self._terms.log_key)
        read = signed.checkpoint
        if seen.checkpoint is not None and read.size == seen.frontier.size and read.root != seen.frontier.root:
            sentence = "the log was forked: it signed two trees of one size"
            self._convict(sentence, Kind.FORKED_LOG, checkpoints=(seen.checkpoint, signed.data))
        if read.size > MAX_LOG_ENTRIES:
            raise MalformedMessageError(
                f"the log is said to have {read.size} entries, and no log has more than {MAX_LOG_ENTRIES}"
            )
        return signed

    def _append(self, checkpoint: bytes, lines: Sequence[bytes]) -> tuple[SignedCheckpoint, Appended]:
        signed = self._read(checkpoint)
        if signed.checkpoint.size < self.seen_size:
            raise BadProofError("the checkpoint is older than what was believed")
        return signed, Appended(self.seen.frontier, lines, signed)

    def _own(self, appended: Appended, signed: Sequence[Document]) -> list[Placed]:
        """The new entries of this experiment: none against a document that was signed, all in their order."""
        own = appended.of(self._experiment)
        for document in signed:
            for placed in own:
                if placed.entry.key == document.entry.key and placed.entry != document.entry:
                    self._convict(
                        "the log holds another document than the one that was served",
                        Kind.NOT_IN_LOG,
                        documents=(document.envelope,),
                        entries=(appended.proof(placed),),
                    )
        for placed, following in pairwise(own):
            if contradict(placed, following):
                self._convict(
                    "the log holds two entries of this experiment that cannot both stand there",
                    Kind.TWO_ENTRIES,
                    entries=(appended.proof(placed), appended.proof(following)),
                )
        before = self.seen.entry
        for placed in own:
            if not follows(before, placed.entry, openings=self._openings):
                raise BadProofError("the log holds an entry of this experiment that cannot come next")
            before = placed.entry
        return own

    def _convict(
        self,
        sentence: str,
        kind: Kind,
        *,
        documents: tuple[bytes, ...] = (),
        checkpoints: tuple[bytes, ...] = (),
        entries: tuple[LoggedEntry, ...] = (),
    ) -> NoReturn:
        evidence = Evidence(
            kind=kind, experiment=self._envelope, documents=documents, checkpoints=checkpoints, entries=entries
        )
        raise CheatingError(sentence, evidence=evidence.to_bytes())
