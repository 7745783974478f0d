"""The intake of one label: submissions, taken whole or not at all (docs/protocol.md §28).

A group of submissions is judged one after the other inside of one transaction, so that each sees those before it, and
each verdict is durable when it is told. A root that is known is somebody's retry, whoever brings it: it costs nothing.
Beside the capsules stand the roots of requests, and how many each client and each network sent, under names that a key
of this file makes; no row joins a client with a capsule, and all of it goes with the file.

Where an experiment has tokens, clients are counted when they are given one, and a submission is counted by its token
alone, whoever brings it: the relay cannot tell to whom it gave that token (docs/protocol.md §24).
"""

from __future__ import annotations

import enum
import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.sealing.kem import RandomBytes, throw
from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.batches import capsule_digest, capsule_root, split_piece
from secvm.relay.admission import Identity
from secvm.relay.batches.capsule_file import CapsuleFile, put_capsules
from secvm.relay.refusals import RelayRefusalError

_KEY_BYTES, _NAME_BYTES = 32, 16
_MORE = """
CREATE TABLE submissions (root BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE clients (name BLOB PRIMARY KEY, submissions INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE client_key (key BLOB NOT NULL);
-- What was answered to a request for a token; and the nonces of tokens that were used. Nothing joins the two.
CREATE TABLE granted (request BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE spent (nonce BLOB PRIMARY KEY) WITHOUT ROWID
"""
_COUNT_CLIENT = """
INSERT INTO clients VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET submissions = submissions + 1
"""


class IntakeVerdict(enum.Enum):
    """What became of a submission; the number is its status over HTTP."""

    TAKEN = 200
    #: It has no token that was given for this round.
    NO_TOKEN = 403
    #: Another request brought one of its capsules, or its token.
    OTHERS = 409
    OVER_QUOTA = 429
    #: The relay's terms have no room for more in a round.
    FULL = 503


@dataclass(frozen=True, slots=True, repr=False)
class IncomingSubmission:
    """One request of one client."""

    #: None where a token stands for it.
    client: Identity | None
    token: bytes
    capsules: tuple[bytes, ...]
    #: Over the capsules.
    root: bytes


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """What one label takes: of a client, of all clients of a network, and at all."""

    quota: int
    network_quota: int
    submissions: int


#: A token → its nonce; None: it was not given for this round.
Redeem = Callable[[bytes], bytes | None]


def read_submission(client: Identity | None, body: bytes, *, budget: int, token_bytes: int) -> IncomingSubmission:
    """The submission in a request's content.

    Raises
    ------
    MalformedMessageError
        It is not a token and ``budget`` capsules in ascending order of digests; a capsule twice is the problem
        ``conflict``, another length ``too-large``.
    """
    expected = token_bytes + budget * OUTER_BYTES
    if len(body) != expected:
        raise MalformedMessageError(
            f"a submission of {len(body)} bytes; the experiment's has {expected}", problem="too-large"
        )
    capsules = split_piece(body[token_bytes:], OUTER_BYTES)
    digests = [capsule_digest(capsule) for capsule in capsules]
    if len(set(digests)) < len(digests):
        raise RelayRefusalError("a submission has one capsule twice", why="conflict")
    if digests != sorted(digests):
        raise MalformedMessageError("the capsules of a submission do not ascend by digest")
    return IncomingSubmission(client, body[:token_bytes], tuple(capsules), capsule_root(digests))


class Intake(CapsuleFile):
    """The file of one label: what was taken, and later the relay's cover among it."""

    def __init__(self, path: Path, dice: RandomBytes) -> None:
        super().__init__(path, _MORE)
        key = self.value("SELECT key FROM client_key")
        if key is None:
            key = throw(dice, _KEY_BYTES)
            self.write("INSERT INTO client_key VALUES (?)", (key,))
        self._key: bytes = key
        self._taken = self._count_submissions()

    def __repr__(self) -> str:
        return "Intake(...)"

    def submissions(self) -> int:
        """M: how many were taken."""
        return self._taken

    def knows(self, root: bytes) -> bool:
        """Whether this request was taken before."""
        return self.value("SELECT 1 FROM submissions WHERE root = ?", (root,)) is not None

    def take(
        self, group: Sequence[IncomingSubmission], limits: IntakeLimits, redeem: Redeem | None = None
    ) -> list[IntakeVerdict]:
        """A verdict on each, all of them durable together. ``redeem``: where the experiment has tokens."""
        try:
            with self.transaction() as db:
                return [self._take(db, submission, limits, redeem) for submission in group]
        except BaseException:
            self._taken = self._count_submissions()
            raise

    def grant(
        self, client: Identity, request: bytes, limits: IntakeLimits, answer: Callable[[bytes], bytes]
    ) -> bytes | IntakeVerdict:
        """What is answered to a request for a token, durable; or why there is none.

        The same request again is given the same answer, whoever brings it, and is counted once. What ``answer`` raises
        goes on, and nothing is counted.
        """
        with self.transaction() as db:
            known = db.execute("SELECT answer FROM granted WHERE request = ?", (request,)).fetchone()
            if known is not None:
                return bytes(known[0])
            names = self._names(client, limits)
            if self._is_over(db, names):
                return IntakeVerdict.OVER_QUOTA
            # More tokens than there is room for submissions would be given for nothing.
            if db.execute("SELECT count(*) FROM granted").fetchone()[0] >= limits.submissions:
                return IntakeVerdict.FULL
            given = answer(request)
            db.execute("INSERT INTO granted VALUES (?, ?)", (request, given))
            db.executemany(_COUNT_CLIENT, [(name,) for name in names])
            return given

    def _take(
        self, db: sqlite3.Connection, submission: IncomingSubmission, limits: IntakeLimits, redeem: Redeem | None
    ) -> IntakeVerdict:
        if db.execute("SELECT 1 FROM submissions WHERE root = ?", (submission.root,)).fetchone():
            return IntakeVerdict.TAKEN
        for capsule in submission.capsules:
            if db.execute("SELECT 1 FROM capsules WHERE digest = ?", (capsule_digest(capsule),)).fetchone():
                return IntakeVerdict.OTHERS
        refused = (
            self._count_client(db, submission, limits)
            if redeem is None
            else self._spend(db, submission, limits, redeem)
        )
        if refused is not None:
            return refused
        db.execute("INSERT INTO submissions VALUES (?)", (submission.root,))
        put_capsules(db, submission.capsules)
        self._taken += 1
        return IntakeVerdict.TAKEN

    def _count_client(
        self, db: sqlite3.Connection, submission: IncomingSubmission, limits: IntakeLimits
    ) -> IntakeVerdict | None:
        if submission.client is None:
            raise LocalProtocolError("a submission of nobody, in a round without tokens")
        names = self._names(submission.client, limits)
        if self._is_over(db, names):
            return IntakeVerdict.OVER_QUOTA
        if self._taken >= limits.submissions:
            return IntakeVerdict.FULL
        db.executemany(_COUNT_CLIENT, [(name,) for name in names])
        return None

    def _spend(
        self, db: sqlite3.Connection, submission: IncomingSubmission, limits: IntakeLimits, redeem: Redeem
    ) -> IntakeVerdict | None:
        nonce = redeem(submission.token)
        if nonce is None:
            return IntakeVerdict.NO_TOKEN
        if db.execute("SELECT 1 FROM spent WHERE nonce = ?", (nonce,)).fetchone():
            return IntakeVerdict.OTHERS
        if self._taken >= limits.submissions:
            return IntakeVerdict.FULL
        db.execute("INSERT INTO spent VALUES (?)", (nonce,))
        return None

    def _names(self, client: Identity, limits: IntakeLimits) -> dict[bytes, int]:
        """What a client is counted under, with the quota of each."""
        names = {self._name(client.client): limits.quota}
        if client.network:
            names[self._name(b"network" + client.network)] = limits.network_quota
        return names

    def _is_over(self, db: sqlite3.Connection, names: dict[bytes, int]) -> bool:
        question = "SELECT submissions FROM clients WHERE name = ?"
        counted = [(db.execute(question, (name,)).fetchone(), quota) for name, quota in names.items()]
        return any(row is not None and row[0] >= quota for row, quota in counted)

    def _count_submissions(self) -> int:
        return int(self.value("SELECT count(*) FROM submissions"))

    def _name(self, part: bytes) -> bytes:
        return hashlib.blake2b(part, key=self._key, digest_size=_NAME_BYTES).digest()
