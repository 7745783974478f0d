"""TrustBook: what a device keeps so that it can check the server, beside everything else in its state.

- ``trusted``: what it believes of an experiment that has a log. On the disk before anything is done with it: a device
  that forgot what it had believed could be told something else.
- ``checks``: how often each check was made. Only numbers.
- ``unseen``: the last rounds, one after the other, in which nobody answered a fresh look at the log.
- ``distrust``: why this device takes no part for now, until its person has seen it.
"""

from __future__ import annotations

import sqlite3

TABLES = """
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


class TrustBook:
    """The tables above, in one device's state. Whoever writes does so inside ``DeviceState.writing``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    # ── what is believed ─────────────────────────────────────────────────────────────────────────────────────────────

    def trusted(self, experiment: str) -> tuple[bytes, bytes] | None:
        """Header and state, as ``Trusted.from_parts`` takes them."""
        row = self._db.execute("SELECT header, state FROM trusted WHERE experiment = ?", (experiment,)).fetchone()
        return None if row is None else (row[0], row[1])

    def put_trusted(self, experiment: str, header: bytes, state: bytes) -> None:
        """From now on this is believed."""
        self._db.execute(
            f"INSERT OR REPLACE INTO trusted SELECT ?, ?, ? WHERE {TAKES_PART}",
            (experiment, header, state, experiment),
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
        rows = self._db.execute("SELECT name, count FROM checks WHERE experiment = ?", (experiment,)).fetchall()
        return {**dict.fromkeys(CHECKS, 0), **dict(rows)}

    def distrust(self, experiment: str) -> str | None:
        """Why this device takes no part for now."""
        row = self._db.execute("SELECT sentence FROM distrust WHERE experiment = ?", (experiment,)).fetchone()
        return None if row is None else str(row[0])

    def put_distrust(self, experiment: str, sentence: str) -> None:
        """Take no part from now on."""
        self._db.execute("INSERT OR REPLACE INTO distrust VALUES (?, ?)", (experiment, sentence))

    def clear_distrust(self, experiment: str) -> None:
        """The person has seen it, and goes on."""
        self._db.execute("DELETE FROM distrust WHERE experiment = ?", (experiment,))
        self.clear_unseen(experiment)

    def unseen(self, experiment: str) -> set[int]:
        """Rounds in which no fresh look was answered, since one was."""
        rows = self._db.execute("SELECT round FROM unseen WHERE experiment = ?", (experiment,)).fetchall()
        return {row[0] for row in rows}

    def put_unseen(self, experiment: str, round_number: int) -> None:
        """A fresh look of this round was not answered, and none was before."""
        self._db.execute("INSERT OR IGNORE INTO unseen VALUES (?, ?)", (experiment, round_number))

    def clear_unseen(self, experiment: str) -> None:
        """A fresh look was answered."""
        self._db.execute("DELETE FROM unseen WHERE experiment = ?", (experiment,))

    def forget(self, experiment: str) -> None:
        """All that is about this device's part; counts stay."""
        for table in ("trusted", "unseen"):
            self._db.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))  # noqa: S608  (our own names)
