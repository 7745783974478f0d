"""Three books in a device's state: what it keeps so that it can check the server (``TrustBook``), its ledger
(``LedgerBook``; what that is for is told in ``consent.ledger``), and what it keeps of experiments with two relays
(``RelayedBook``).

- ``trusted``: what it believes of an experiment that has a log. On the disk before anything is done with it: a device
  that forgot what it had believed could be told something else.
- ``checks``: how often each check was made. Only numbers.
- ``unseen``: the last rounds, one after the other, in which nobody answered a fresh look at the log.
- ``distrust``: why this device takes no part for now, until its person has seen it.

Of experiments with two relays:

- ``label``: the one label of each round that it joined, and ``bound``: what must not come again in another round. Both
  for ever: a device that forgot them could be made to send twice.
- ``request``: a sealed request, from before its first byte leaves until its receipt, or until nobody takes it any more.
  A request sealed a second time would be other bytes for the same round.
- ``canary``: of each round with a receipt, until the canary was seen or is known to be missing. Its secrets tie this
  device to one null, and to nothing that it said.
- ``unopened``: rounds that had a receipt and no complete opening.

What is deleted is overwritten with zeros; ``DeviceState.empty_log`` then cuts the log that held the pages as they were.

- ``token_seed``: from which a round's anonymous token follows, until its packages are sealed.

A device writes the seed down, durably, before it asks the issuer. After a crash it asks again with the same bytes, and
is given the same tokens: so it never has two sets for a round, and the issuer counts one. The commit that stores a
round's capsules, each with its token inside, forgets the seed: no token is used twice.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from secvm.errors import BadInputError, MalformedMessageError, StoreError
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.session import RequestRow
from secvm.protocol.relays.submission import Canary
from secvm.protocol.trust.relayed_chain import RelayedTrust
from secvm.protocol.trust.trusted_log import SeenLog


class Book:
    """Some tables of one device's state. Whoever writes does so inside ``DeviceState.writing``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def _run(self, query: str, *values: object) -> int:
        """Carry out one statement; returns how many rows it changed."""
        return self._db.execute(query, values).rowcount

    def _row(self, query: str, *values: object) -> Any:
        """The first row; None: there is none."""
        return self._db.execute(query, values).fetchone()

    def _rows(self, query: str, *values: object) -> list[Any]:
        """All of them."""
        return self._db.execute(query, values).fetchall()

    def _numbers(self, table: str, experiment: str) -> set[int]:
        """The rounds that a table of rounds has of this experiment."""
        return {row[0] for row in self._rows(f"SELECT round FROM {table} WHERE experiment = ?", experiment)}  # noqa: S608  (our own names)

    def _delete(self, experiment: str, *tables: str) -> None:
        """Everything of this experiment in these tables."""
        for table in tables:
            self._run(f"DELETE FROM {table} WHERE experiment = ?", experiment)  # noqa: S608  (our own names)


#: Of all books.
TABLES = """
-- What is believed of an experiment with a log, and the descent state of that. Goes with forget.
CREATE TABLE trusted (experiment TEXT PRIMARY KEY, header BLOB NOT NULL, state BLOB NOT NULL);
-- How often was checked what. Stays.
CREATE TABLE checks (
    experiment TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (experiment, name)
) WITHOUT ROWID;
-- Why this device takes no part for now. Goes when its person resumes.
CREATE TABLE distrust (experiment TEXT PRIMARY KEY, sentence TEXT NOT NULL) WITHOUT ROWID;
-- Rounds in which no fresh look at the log was answered, since the last answer. Go with the next answer, when the
-- person resumes, with forget.
CREATE TABLE unseen (experiment TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, round)) WITHOUT ROWID;
-- A round that this device has joined, written before its packages are made. Stays, with forget too.
CREATE TABLE ledger (experiment TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, round)) WITHOUT ROWID;
-- What the person has agreed to for one experiment, beyond the settings. Stays.
CREATE TABLE accepted (experiment TEXT PRIMARY KEY, auc REAL, epsilon REAL) WITHOUT ROWID;
-- What is believed of an experiment with two relays, and of its coordinator's log. Goes with forget.
CREATE TABLE relayed_trust (
    experiment TEXT PRIMARY KEY, manifest BLOB, opening BLOB, state BLOB NOT NULL, log BLOB
);
-- Keys and commitments of rounds that were believed: none of them may come again. Stays.
CREATE TABLE bound (
    experiment TEXT NOT NULL, value BLOB NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, value)
) WITHOUT ROWID;
-- The one label of a round that was joined. Stays.
CREATE TABLE label (
    experiment TEXT NOT NULL, round INTEGER NOT NULL, label BLOB NOT NULL, PRIMARY KEY (experiment, round)
) WITHOUT ROWID;
-- A sealed request without a receipt. Goes with the receipt, at accept_until, with forget.
CREATE TABLE request (experiment TEXT PRIMARY KEY, body BLOB NOT NULL, canary BLOB NOT NULL);
-- The canary of a round with a receipt. Goes when it was seen or is missing, or when it is too late, with forget.
CREATE TABLE canary (
    experiment TEXT NOT NULL, round INTEGER NOT NULL, canary BLOB NOT NULL, manifest BLOB NOT NULL, opening BLOB,
    tries INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (experiment, round)
) WITHOUT ROWID;
-- Rounds with a receipt and no complete opening. Go when the person resumes, with forget.
CREATE TABLE unopened (experiment TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, round)) WITHOUT ROWID;
-- From which the tokens of a round follow. Goes when they are sealed in capsules, with the next round, or with forget.
CREATE TABLE token_seed (experiment TEXT PRIMARY KEY, round INTEGER NOT NULL, seed BLOB NOT NULL) WITHOUT ROWID;
"""

#: Another process may have forgotten the experiment meanwhile; then nothing of it comes back.
TAKES_PART = "EXISTS (SELECT 1 FROM experiment WHERE digest = ? AND status IN ('joined', 'paused'))"
#: What is counted, by name.
STEPS, REFETCHED, UNANSWERED = "steps", "refetched", "unanswered"
#: … of canaries and their shards, in experiments with two relays.
SEEN, MISSING, UNCHECKED, RECOUNTED = "seen", "missing", "unchecked", "recounted"
CHECKS = (STEPS, REFETCHED, UNANSWERED, SEEN, MISSING, UNCHECKED, RECOUNTED)


class TrustBook(Book):
    """What a device keeps to check the server."""

    # ── what is believed ─────────────────────────────────────────────────────────────────────────────────────────────

    def trusted(self, experiment: str) -> tuple[bytes, bytes] | None:
        """Header and state, as ``Trusted.from_parts`` takes them."""
        row = self._row("SELECT header, state FROM trusted WHERE experiment = ?", experiment)
        return None if row is None else (row[0], row[1])

    def put_trusted(self, experiment: str, header: bytes, state: bytes) -> None:
        """From now on this is believed."""
        query = f"INSERT OR REPLACE INTO trusted SELECT ?, ?, ? WHERE {TAKES_PART}"
        self._run(query, experiment, header, state, experiment)

    # ── counts, and distrust ─────────────────────────────────────────────────────────────────────────────────────────

    def count(self, experiment: str, name: str, more: int = 1) -> None:
        """So many more of one of ``CHECKS``."""
        self._run(
            "INSERT INTO checks VALUES (?, ?, ?)"
            " ON CONFLICT (experiment, name) DO UPDATE SET count = count + excluded.count",
            *(experiment, name, more),
        )

    def checks(self, experiment: str) -> dict[str, int]:
        """All counts."""
        rows = self._rows("SELECT name, count FROM checks WHERE experiment = ?", experiment)
        return {**dict.fromkeys(CHECKS, 0), **dict(rows)}

    def distrust(self, experiment: str) -> str | None:
        """Why this device takes no part for now."""
        row = self._row("SELECT sentence FROM distrust WHERE experiment = ?", experiment)
        return None if row is None else str(row[0])

    def put_distrust(self, experiment: str, sentence: str) -> None:
        """Take no part from now on."""
        self._run("INSERT OR REPLACE INTO distrust VALUES (?, ?)", experiment, sentence)

    def clear_distrust(self, experiment: str) -> None:
        """The person has seen it, and goes on."""
        self._delete(experiment, "distrust", "unseen")

    def unseen(self, experiment: str) -> set[int]:
        """Rounds in which no fresh look was answered, since one was."""
        return self._numbers("unseen", experiment)

    def put_unseen(self, experiment: str, round_number: int) -> None:
        """A fresh look of this round was not answered, and none was before."""
        self._run("INSERT OR IGNORE INTO unseen VALUES (?, ?)", experiment, round_number)

    def clear_unseen(self, experiment: str) -> None:
        """A fresh look was answered."""
        self._delete(experiment, "unseen")

    def forget(self, experiment: str) -> None:
        """All that is about this device's part; counts stay."""
        self._delete(experiment, "trusted", "unseen")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the person has agreed to for one experiment, beyond what its device agrees to by itself."""

    auc: float | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.auc is not None and not 0.5 <= self.auc <= 1:
            raise BadInputError("an AUC to be accepted lies from 0.5 to 1")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise BadInputError("an ε to be accepted is above 0")


#: The person has put nothing aside.
NOTHING = Accepted()


class LedgerBook(Book):
    """A device's ledger."""

    def rounds(self) -> dict[str, int]:
        """How many rounds of each experiment were joined."""
        return dict(self._rows("SELECT experiment, count(*) FROM ledger GROUP BY experiment"))

    def joined(self, experiment: str, round_number: int) -> bool:
        """Whether this round is counted already."""
        query = "SELECT 1 FROM ledger WHERE experiment = ? AND round = ?"
        return self._row(query, experiment, round_number) is not None

    def put(self, experiment: str, round_number: int) -> None:
        """Count a round; a second time it changes nothing."""
        self._run("INSERT OR IGNORE INTO ledger VALUES (?, ?)", experiment, round_number)

    def accepted(self, experiment: str) -> Accepted:
        """What the person has agreed to for this experiment."""
        row = self._row("SELECT auc, epsilon FROM accepted WHERE experiment = ?", experiment)
        return Accepted() if row is None else Accepted(*row)

    def put_accepted(self, experiment: str, accepted: Accepted) -> None:
        """The person agrees to so much."""
        self._run("INSERT OR REPLACE INTO accepted VALUES (?, ?, ?)", experiment, accepted.auc, accepted.epsilon)


@dataclass(frozen=True, slots=True)
class KeptCanary:
    """A canary whose receipt is held."""

    round_number: int
    canary: Canary = field(repr=False)
    #: Payload of its manifest, and of the opening where the round is opened.
    manifest: bytes = field(repr=False)
    opening: bytes | None = field(repr=False)
    #: So often nothing that verifies came.
    tries: int


class RelayedBook(Book):
    """What a device keeps of experiments with two relays."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__(db)
        #: How many canaries an experiment had after so many changes.
        self._counted: dict[str, tuple[int, int]] = {}

    # ── what is believed ─────────────────────────────────────────────────────────────────────────────────────────────

    def trust(self, experiment: str) -> RelayedTrust | None:
        """What is believed; None: nothing yet."""
        row = self._row("SELECT manifest, opening, state FROM relayed_trust WHERE experiment = ?", experiment)
        return None if row is None else RelayedTrust(manifest=row[0], opening=row[1], state=row[2])

    def log(self, experiment: str) -> SeenLog | None:
        """What was seen of the coordinator's log; None: nothing yet, or the experiment has none."""
        row = self._row("SELECT log FROM relayed_trust WHERE experiment = ?", experiment)
        try:
            return None if row is None or row[0] is None else SeenLog.from_bytes(row[0])
        except (MalformedMessageError, TypeError):
            raise StoreError("what the state keeps of the coordinator's log is not whole") from None

    def put_trust(
        self, experiment: str, trust: RelayedTrust, manifests: Iterable[RelayedManifest], log: SeenLog | None
    ) -> None:
        """From now on this is believed; ``manifests`` are those that were not before."""
        self._db.execute(
            f"INSERT OR REPLACE INTO relayed_trust SELECT ?, ?, ?, ?, ? WHERE {TAKES_PART}",
            (experiment, trust.manifest, trust.opening, trust.state, log and log.to_bytes(), experiment),
        )
        rows = [
            (experiment, value, manifest.round_number) for manifest in manifests for value in sorted(manifest.bound)
        ]
        self._db.executemany("INSERT OR IGNORE INTO bound VALUES (?, ?, ?)", rows)

    def bound(self, experiment: str) -> dict[bytes, int]:
        """What was seen in rounds that were believed, and in which."""
        return dict(self._rows("SELECT value, round FROM bound WHERE experiment = ?", experiment))

    # ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self, experiment: str, round_number: int, label: bytes) -> bool:
        """Take this label for the round, for ever; False: the round has another one."""
        self._run("INSERT OR IGNORE INTO label VALUES (?, ?, ?)", experiment, round_number, label)
        return self.label(experiment, round_number) == label

    def label(self, experiment: str, round_number: int) -> bytes | None:
        """The label of a round that was joined."""
        row = self._row("SELECT label FROM label WHERE experiment = ? AND round = ?", experiment, round_number)
        return None if row is None else bytes(row[0])

    def request(self, experiment: str) -> RequestRow | None:
        """The request that is on its way."""
        row = self._row("SELECT body, canary FROM request WHERE experiment = ?", experiment)
        return None if row is None else RequestRow(*row)

    def put_request(self, experiment: str, body: bytes, canary: bytes) -> None:
        """Keep a sealed request."""
        self._run(f"INSERT INTO request SELECT ?, ?, ? WHERE {TAKES_PART}", experiment, body, canary, experiment)

    def drop_request(self, experiment: str) -> None:
        """It was taken, or nobody takes it any more."""
        self._delete(experiment, "request")

    # ── after a round ────────────────────────────────────────────────────────────────────────────────────────────────

    def put_canary(self, experiment: str, canary: Canary, manifest: bytes) -> None:
        """A receipt has come."""
        query = f"INSERT OR IGNORE INTO canary SELECT ?, ?, ?, ?, NULL, 0 WHERE {TAKES_PART}"
        self._run(query, experiment, canary.round_number, canary.to_bytes(), manifest, experiment)

    def canaries(self, experiment: str) -> list[KeptCanary]:
        """All that are kept, the oldest round first."""
        query = "SELECT round, canary, manifest, opening, tries FROM canary WHERE experiment = ? ORDER BY round"
        rows = self._rows(query, experiment)
        try:
            return [KeptCanary(row[0], Canary.from_bytes(row[1]), row[2], row[3], row[4]) for row in rows]
        except (MalformedMessageError, TypeError):
            raise StoreError("what the state keeps of a round's canary is not whole") from None

    def count_canaries(self, experiment: str) -> int:
        """How many are kept; none of them is read, and they are counted again only after something was written."""
        changes = self._db.total_changes
        if self._counted.get(experiment, (-1, 0))[0] != changes:
            row = self._row("SELECT count(*) FROM canary WHERE experiment = ?", experiment)
            self._counted[experiment] = changes, int(row[0])
        return self._counted[experiment][1]

    def put_opening(self, experiment: str, round_number: int, opening: bytes) -> None:
        """The round is opened: its canary can be looked for."""
        query = "UPDATE canary SET opening = ? WHERE experiment = ? AND round = ?"
        self._run(query, opening, experiment, round_number)

    def put_tries(self, experiment: str, round_number: int, tries: int) -> None:
        """So often nothing that verifies came by now."""
        self._run("UPDATE canary SET tries = ? WHERE experiment = ? AND round = ?", tries, experiment, round_number)

    def drop_canary(self, experiment: str, round_number: int) -> None:
        """It was seen, is missing, or cannot be looked for any more."""
        self._run("DELETE FROM canary WHERE experiment = ? AND round = ?", experiment, round_number)

    def unopened(self, experiment: str) -> set[int]:
        """Rounds that had a receipt and stayed unopened."""
        return self._numbers("unopened", experiment)

    def put_unopened(self, experiment: str, round_number: int) -> None:
        """A round with a receipt stayed unopened; its canary cannot be looked for."""
        self._run("INSERT OR IGNORE INTO unopened VALUES (?, ?)", experiment, round_number)
        self.drop_canary(experiment, round_number)

    def clear_unopened(self, experiment: str) -> None:
        """The person has seen it, and goes on."""
        self._delete(experiment, "unopened")

    def forget(self, experiment: str) -> None:
        """All that is about this device's part; labels and what is bound stay."""
        self._delete(experiment, "relayed_trust", "request", "canary", "unopened", "token_seed")

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def token_seed(self, experiment: str, round_number: int) -> bytes | None:
        """The seed of this round, if it asked for tokens before."""
        row = self._row("SELECT seed FROM token_seed WHERE experiment = ? AND round = ?", experiment, round_number)
        return None if row is None else bytes(row[0])

    def put_token_seed(self, experiment: str, round_number: int, seed: bytes) -> None:
        """Keep it, in place of another round's."""
        self._run("INSERT OR REPLACE INTO token_seed VALUES (?, ?, ?)", experiment, round_number, seed)

    def drop_token_seed(self, experiment: str) -> None:
        """The token is sealed in the round's request."""
        self._delete(experiment, "token_seed")
