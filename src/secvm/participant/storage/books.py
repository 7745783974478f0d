"""Two books in a device's state: what it keeps so that it can check the server (``TrustBook``), and its ledger
(``LedgerBook``; what that is for is told in ``consent.ledger``).

- ``trusted``: what it believes of an experiment that has a log. On the disk before anything is done with it: a device
  that forgot what it had believed could be told something else.
- ``checks``: how often each check was made. Only numbers.
- ``unseen``: the last rounds, one after the other, in which nobody answered a fresh look at the log.
- ``distrust``: why this device takes no part for now, until its person has seen it.
"""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from typing import Any

from secvm.errors import BadInputError


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


TRUST_TABLES = """
ALTER TABLE experiment ADD COLUMN salt BLOB;
-- What is believed of an experiment with a log, and the descent state of that. Goes with forget.
CREATE TABLE trusted (experiment TEXT PRIMARY KEY, header BLOB NOT NULL, state BLOB NOT NULL);
-- How often was checked what. Stays.
CREATE TABLE checks (
    experiment TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (experiment, name)
) WITHOUT ROWID;
-- Why this device takes no part for now. Goes when its person resumes.
CREATE TABLE distrust (experiment TEXT PRIMARY KEY, sentence TEXT NOT NULL) WITHOUT ROWID;
"""

UNSEEN_TABLES = """
-- Rounds in which no fresh look at the log was answered, since the last answer. Go with the next answer, when the
-- person resumes, with forget.
CREATE TABLE unseen (experiment TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, round)) WITHOUT ROWID;
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


LEDGER_TABLES = """
-- A round that this device has joined, written before its packages are made. Stays, with forget too.
CREATE TABLE ledger (experiment TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (experiment, round)) WITHOUT ROWID;
-- What the person has agreed to for one experiment, beyond the settings. Stays.
CREATE TABLE accepted (experiment TEXT PRIMARY KEY, auc REAL, epsilon REAL) WITHOUT ROWID
"""


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
