"""TrustBook: what a device keeps so that it can check the server, beside everything else in its state.

- ``trusted``: what it believes of an experiment that has a log. On the disk before anything is done with it: a device
  that forgot what it had believed could be told something else.
- ``receipt``: digests of a few capsules that left, until they are seen under the received root. A digest tells nothing
  of a package, but it ties this device to a capsule that the coordinator has opened. So: few, and gone when checked.
- ``checks``: how often each check was made. Only numbers.
- ``distrust``: why this device takes no part for now, until its person has seen it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

#: What version 2 of the state has more than version 1.
TABLES = """
ALTER TABLE experiment ADD COLUMN salt BLOB;
-- What is believed of an experiment with a log, and the descent state of that. Goes with forget.
CREATE TABLE trusted (experiment TEXT PRIMARY KEY, header BLOB NOT NULL, state BLOB NOT NULL);
-- Digests of capsules that are to be seen under the received root. Go when they were, when it is too late, with forget.
CREATE TABLE receipt (
    experiment TEXT NOT NULL, round INTEGER NOT NULL, digest BLOB NOT NULL, acknowledged INTEGER NOT NULL DEFAULT 0,
    root TEXT, capsules INTEGER, tries INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (experiment, round, digest)
) WITHOUT ROWID;
-- How often was checked what. Stays.
CREATE TABLE checks (
    experiment TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (experiment, name)
) WITHOUT ROWID;
-- Why this device takes no part for now. Goes when its person resumes.
CREATE TABLE distrust (experiment TEXT PRIMARY KEY, sentence TEXT NOT NULL) WITHOUT ROWID;
"""

#: Another process may have forgotten the experiment meanwhile; then nothing of it comes back.
TAKES_PART = "EXISTS (SELECT 1 FROM experiment WHERE digest = ? AND status IN ('joined', 'paused'))"
#: What is counted, by name.
STEPS, REFETCHED, UNANSWERED = "steps", "refetched", "unanswered"
RECEIPTS, MISSING, UNCHECKED = "receipts", "missing", "unchecked"
CHECKS = (STEPS, REFETCHED, UNANSWERED, RECEIPTS, MISSING, UNCHECKED)


@dataclass(frozen=True, slots=True)
class Owed:
    """A capsule that should be under a received root."""

    round_number: int
    digest: bytes = field(repr=False)
    #: The root that the believed manifest tells.
    root: str
    #: The relay's count of capsules, where one covers all of them.
    capsules: int | None
    #: So often nothing verified.
    tries: int


class TrustBook:
    """The tables above, in one device's state. Whoever writes does so inside ``DeviceState.writing``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    # ── what is believed ─────────────────────────────────────────────────────────────────────────────────────────────

    def trusted(self, experiment: str) -> tuple[bytes, bytes] | None:
        """Header and state, as ``Trusted.from_parts`` takes them."""
        found = self._db.execute("SELECT header, state FROM trusted WHERE experiment = ?", (experiment,)).fetchone()
        return None if found is None else (found[0], found[1])

    def put_trusted(self, experiment: str, header: bytes, state: bytes) -> None:
        """From now on this is believed."""
        self._db.execute(
            f"INSERT OR REPLACE INTO trusted SELECT ?, ?, ? WHERE {TAKES_PART}",
            (experiment, header, state, experiment),
        )

    # ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_chosen(self, experiment: str, round_number: int, digests: Iterable[bytes]) -> None:
        """These capsules of a round are to be asked for, once they are acknowledged."""
        self._db.executemany(
            f"INSERT OR IGNORE INTO receipt (experiment, round, digest) SELECT ?, ?, ? WHERE {TAKES_PART}",
            [(experiment, round_number, digest, experiment) for digest in digests],
        )

    def chosen(self, experiment: str) -> set[bytes]:
        """Digests of capsules that are to be asked for and were not acknowledged yet."""
        query = "SELECT digest FROM receipt WHERE experiment = ? AND acknowledged = 0"
        return {row[0] for row in self._db.execute(query, (experiment,)).fetchall()}

    def put_acknowledged(self, experiment: str, digests: Iterable[bytes]) -> None:
        """These were acknowledged."""
        self._db.executemany(
            "UPDATE receipt SET acknowledged = 1 WHERE experiment = ? AND digest = ?",
            [(experiment, digest) for digest in digests],
        )

    def settle(self, experiment: str, round_number: int, *, root: str | None, capsules: int | None) -> None:
        """A round is concluded: under this root its capsules must be. None: there is nothing to ask for."""
        self._db.execute(
            "UPDATE receipt SET root = ?, capsules = ? WHERE experiment = ? AND round = ?",
            (root, capsules, experiment, round_number),
        )
        # What was not acknowledged may never have arrived; of an abandoned round no root is told.
        self._db.execute(
            "DELETE FROM receipt WHERE experiment = ? AND round = ? AND (acknowledged = 0 OR root IS NULL)",
            (experiment, round_number),
        )

    def drop_before(self, experiment: str, round_number: int) -> int:
        """Forget those of earlier rounds, which nobody answers for any more; how many were acknowledged."""
        ((count,),) = self._db.execute(
            "SELECT count(*) FROM receipt WHERE experiment = ? AND round < ? AND acknowledged = 1",
            (experiment, round_number),
        ).fetchall()
        self._db.execute("DELETE FROM receipt WHERE experiment = ? AND round < ?", (experiment, round_number))
        return int(count)

    def owed(self, experiment: str) -> list[Owed]:
        """What can be asked for now."""
        query = (
            "SELECT round, digest, root, capsules, tries FROM receipt"
            " WHERE experiment = ? AND acknowledged = 1 AND root IS NOT NULL ORDER BY round, digest"
        )
        return [Owed(*row) for row in self._db.execute(query, (experiment,)).fetchall()]

    def put_tries(self, experiment: str, owed: Owed, tries: int) -> None:
        """So often nothing verified by now."""
        self._db.execute(
            "UPDATE receipt SET tries = ? WHERE experiment = ? AND round = ? AND digest = ?",
            (tries, experiment, owed.round_number, owed.digest),
        )

    def drop(self, experiment: str, owed: Owed) -> None:
        """It was seen, or will not be."""
        self._db.execute(
            "DELETE FROM receipt WHERE experiment = ? AND round = ? AND digest = ?",
            (experiment, owed.round_number, owed.digest),
        )

    # ── counts, and distrust ─────────────────────────────────────────────────────────────────────────────────────────

    def count(self, experiment: str, name: str, more: int = 1) -> None:
        """So many more of one of ``CHECKS``."""
        self._db.execute(
            "INSERT INTO checks VALUES (?, ?, ?)"
            " ON CONFLICT (experiment, name) DO UPDATE SET count = count + excluded.count",
            (experiment, name, more),
        )

    def checks(self, experiment: str) -> dict[str, int]:
        """All counts."""
        found = self._db.execute("SELECT name, count FROM checks WHERE experiment = ?", (experiment,)).fetchall()
        return {**dict.fromkeys(CHECKS, 0), **dict(found)}

    def distrust(self, experiment: str) -> str | None:
        """Why this device takes no part for now."""
        found = self._db.execute("SELECT sentence FROM distrust WHERE experiment = ?", (experiment,)).fetchone()
        return None if found is None else str(found[0])

    def put_distrust(self, experiment: str, sentence: str) -> None:
        """Take no part from now on."""
        self._db.execute("INSERT OR REPLACE INTO distrust VALUES (?, ?)", (experiment, sentence))

    def clear_distrust(self, experiment: str) -> None:
        """The person has seen it, and goes on."""
        self._db.execute("DELETE FROM distrust WHERE experiment = ?", (experiment,))

    def forget(self, experiment: str) -> None:
        """All that is about this device's part; counts stay."""
        for table in ("trusted", "receipt"):
            self._db.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))  # noqa: S608  (our own names)
