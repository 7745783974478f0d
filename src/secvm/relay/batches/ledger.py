"""The relay's ledger on the disk: what it has promised and said, once and for ever (docs/protocol.md §27, §30, §31).

For each experiment its document; for an (experiment, round) one commitment and one label; for a label its marks and its
papers. A *mark* names the batch, and later the count or reveal, that the round's secret was used for; a *paper* is a
signed envelope: the two counts, the two reveals. Whatever stands here stays as it is: a second, different one is
refused by the tables themselves. Nothing of a client, a seed or a capsule is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from secvm.protocol.relays.counts import NAMES
from secvm.relay.database import FETCH_KEYS, RelayDatabase

ENTRY_COUNT, MIX_COUNT, ENTRY_REVEAL, MIX_REVEAL = NAMES

_VERSION = 2
_SCHEMA = """
CREATE TABLE experiments (digest TEXT PRIMARY KEY, coordinator TEXT NOT NULL, envelope BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE commitments (
    experiment TEXT NOT NULL,
    round      INTEGER NOT NULL,
    envelope   BLOB NOT NULL UNIQUE,
    PRIMARY KEY (experiment, round)
) WITHOUT ROWID;
-- One label an (experiment, round).
CREATE TABLE labels (
    label      BLOB PRIMARY KEY,
    experiment TEXT NOT NULL,
    round      INTEGER NOT NULL,
    manifest   BLOB NOT NULL,
    UNIQUE (experiment, round)
) WITHOUT ROWID;
CREATE TABLE marks (
    label BLOB NOT NULL, kind TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (label, kind)
) WITHOUT ROWID;
CREATE TABLE papers (
    label BLOB NOT NULL, name TEXT NOT NULL, envelope BLOB NOT NULL, PRIMARY KEY (label, name)
) WITHOUT ROWID;
-- What must not come again in another round (RelayedManifest.bound).
CREATE TABLE bound (value BLOB PRIMARY KEY, label BLOB NOT NULL) WITHOUT ROWID;
-- What is behind a label: "handed-on", "forgotten".
CREATE TABLE done (label BLOB NOT NULL, step TEXT NOT NULL, PRIMARY KEY (label, step)) WITHOUT ROWID;
"""


class RoundLedger(RelayDatabase):
    """What a relay has promised and said of its rounds, so that a restart never says anything else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA + FETCH_KEYS, _VERSION)

    # ── experiments, commitments, labels ─────────────────────────────────────────────────────────────────────────────

    def keep_experiment(self, digest: str, coordinator: str, envelope: bytes) -> None:
        """Of this coordinator; the first one that brings it stays."""
        self.write("INSERT OR IGNORE INTO experiments VALUES (?, ?, ?)", (digest, coordinator, envelope))

    def experiments(self) -> list[tuple[str, str, bytes]]:
        """Digest, coordinator and envelope of each."""
        return self.rows("SELECT digest, coordinator, envelope FROM experiments")

    def keep_commitment(self, experiment: str, round_number: int, envelope: bytes) -> bytes:
        """The commitment that stands: this one, if there was none."""
        self.write("INSERT OR IGNORE INTO commitments VALUES (?, ?, ?)", (experiment, round_number, envelope))
        return self.commitment(experiment, round_number) or envelope

    def commitment(self, experiment: str, round_number: int) -> bytes | None:
        """The one commitment for this round."""
        question = "SELECT envelope FROM commitments WHERE experiment = ? AND round = ?"
        return self._bytes(question, (experiment, round_number))

    def keep_label(
        self, label: bytes, experiment: str, round_number: int, bound: Iterable[bytes], manifest: bytes
    ) -> bool:
        """Whether this is the label of its round, the first one that came, and nothing in it is of another round."""
        with self.transaction() as db:
            known = self.value(
                "SELECT label FROM labels WHERE experiment = ? AND round = ?", (experiment, round_number)
            )
            if known is not None:
                return bool(known == label)
            values = sorted(bound)
            marks = ",".join("?" * len(values))
            if db.execute(f"SELECT 1 FROM bound WHERE value IN ({marks})", values).fetchone():  # noqa: S608  (marks alone)
                return False
            db.execute("INSERT INTO labels VALUES (?, ?, ?, ?)", (label, experiment, round_number, manifest))
            db.executemany("INSERT INTO bound VALUES (?, ?)", [(value, label) for value in values])
        return True

    def unnamed(self) -> list[tuple[str, int]]:
        """Experiment and round of every commitment that has no label yet."""
        question = """
            SELECT experiment, round FROM commitments
            EXCEPT SELECT experiment, round FROM labels ORDER BY experiment, round
        """
        return self.rows(question)

    def labels(self) -> list[tuple[bytes, str, int, bytes]]:
        """Label, experiment, round and manifest of all."""
        return self.rows("SELECT label, experiment, round, manifest FROM labels")

    # ── marks, papers, steps ─────────────────────────────────────────────────────────────────────────────────────────

    def mark(self, label: bytes, kind: str, value: bytes) -> bool:
        """Whether this value is the one that stands here; the first one stands, for ever."""
        self.write("INSERT OR IGNORE INTO marks VALUES (?, ?, ?)", (label, kind, value))
        return self.marked(label, kind) == value

    def marked(self, label: bytes, kind: str) -> bytes | None:
        """The value that stands here."""
        return self._bytes("SELECT value FROM marks WHERE label = ? AND kind = ?", (label, kind))

    def keep_paper(self, label: bytes, name: str, envelope: bytes) -> bytes:
        """The paper of this name that stands: this one, if there was none."""
        self.write("INSERT OR IGNORE INTO papers VALUES (?, ?, ?)", (label, name, envelope))
        return self.paper(label, name) or envelope

    def paper(self, label: bytes, name: str) -> bytes | None:
        """The paper of this name."""
        return self._bytes("SELECT envelope FROM papers WHERE label = ? AND name = ?", (label, name))

    def note(self, label: bytes, step: str) -> None:
        """Say that a step is behind it."""
        self.write("INSERT OR IGNORE INTO done VALUES (?, ?)", (label, step))

    def is_done(self, label: bytes, step: str) -> bool:
        """Whether this step is behind it."""
        return self.value("SELECT 1 FROM done WHERE label = ? AND step = ?", (label, step)) is not None

    def _bytes(self, question: str, values: tuple[object, ...]) -> bytes | None:
        stored: bytes | None = self.value(question, values)
        return stored
