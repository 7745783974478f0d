"""LedgerBook: the tables of a device's ledger, in its state. What they are for is told in ``ledger``."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass

from secvm.errors import BadInputError

TABLES = """
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


class LedgerBook:
    """The tables above. Whoever writes does so inside ``DeviceState.writing``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def rounds(self) -> dict[str, int]:
        """How many rounds of each experiment were joined."""
        return dict(self._db.execute("SELECT experiment, count(*) FROM ledger GROUP BY experiment").fetchall())

    def joined(self, experiment: str, round_number: int) -> bool:
        """Whether this round is counted already."""
        query = "SELECT 1 FROM ledger WHERE experiment = ? AND round = ?"
        return self._db.execute(query, (experiment, round_number)).fetchone() is not None

    def put(self, experiment: str, round_number: int) -> None:
        """Count a round; a second time it changes nothing."""
        self._db.execute("INSERT OR IGNORE INTO ledger VALUES (?, ?)", (experiment, round_number))

    def accepted(self, experiment: str) -> Accepted:
        """What the person has agreed to for this experiment."""
        row = self._db.execute("SELECT auc, epsilon FROM accepted WHERE experiment = ?", (experiment,)).fetchone()
        return Accepted() if row is None else Accepted(*row)

    def put_accepted(self, experiment: str, accepted: Accepted) -> None:
        """The person agrees to so much."""
        self._db.execute(
            "INSERT OR REPLACE INTO accepted VALUES (?, ?, ?)", (experiment, accepted.auc, accepted.epsilon)
        )
