"""Seeds of anonymous tokens, as a device keeps them: in its state, from before it asks until its packages are sealed.

A device writes the seed down, durably, before it asks the issuer. After a crash it asks again with the same bytes, and
is given the same tokens: so it never has two sets for a round, and the issuer counts one. The commit that stores a
round's capsules, each with its token inside, forgets the seed: no token is used twice.
"""

from __future__ import annotations

import sqlite3

TABLES = """
-- From which the tokens of a round follow. Goes when they are sealed in capsules, with the next round, or with forget.
CREATE TABLE token_seed (experiment TEXT PRIMARY KEY, round INTEGER NOT NULL, seed BLOB NOT NULL) WITHOUT ROWID
"""


class TokenSeeds:
    """The table of them. Writes happen inside a transaction of the state."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def get(self, digest: str, round_number: int) -> bytes | None:
        """The seed of this round, if it asked for tokens before."""
        query = "SELECT seed FROM token_seed WHERE experiment = ? AND round = ?"
        found = self._db.execute(query, (digest, round_number)).fetchone()
        return None if found is None else bytes(found[0])

    def put(self, digest: str, round_number: int, seed: bytes) -> None:
        """Keep it, in place of another round's."""
        self._db.execute("INSERT OR REPLACE INTO token_seed VALUES (?, ?, ?)", (digest, round_number, seed))

    def drop(self, digest: str) -> None:
        """Forget it."""
        self._db.execute("DELETE FROM token_seed WHERE experiment = ?", (digest,))
