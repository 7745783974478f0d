"""Migrations of the PostgreSQL schema: numbered, up and down, before and after a deploy.

A file is named ``0007_before_more_columns.up.sql``, with a ``.down.sql`` beside it. One that says **before** adds, and
runs before the first node of the new version starts: nodes of the old version go on beside it. One that says **after**
removes what only old nodes needed, and runs when the last of them is gone.

    migrate(url, "before")      # then start the new nodes, stop the old ones
    migrate(url, "after")

So a node refuses a database that lacks a *before* which it knows, and one that has had an *after* which it does not
know. All that is pending happens in one transaction; who migrates at the same time waits. A migration that was released
is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Literal

from secvm.coordinator.store.postgres_pool import Connection, Pool, run
from secvm.coordinator.store.queries import FOLDER, NoTableError, queries
from secvm.errors import BadInputError, LocalProtocolError

Phase = Literal["before", "after"]

_FILE = re.compile(r"^(\d{4})_(before|after)_([a-z0-9_]+)\.up\.sql$")
#: "SecV": so that others who take advisory locks in the same database do not meet ours.
_LOCK = 0x53656356
_SQL = queries("migrations")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    phase: Phase
    name: str
    up: str
    down: str

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.phase}_{self.name}"


def read_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Those of a folder, by number; of this package without one."""
    folder = folder or FOLDER / "migrations"
    migrations = []
    for file in folder.iterdir():
        match = _FILE.match(file.name)
        if match is not None:
            down = folder / file.name.replace(".up.sql", ".down.sql")
            phase: Phase = "before" if match[2] == "before" else "after"
            up_text, down_text = (part.read_text(encoding="utf-8") for part in (file, down))
            migrations.append(Migration(int(match[1]), phase, match[3], up_text, down_text))
    migrations.sort(key=lambda migration: migration.number)
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise LocalProtocolError("migrations are numbered 1, 2, 3, …, each once")
    return migrations


def migrate(
    url: str, phase: Phase | Literal["all"] = "all", *, migrations: Sequence[Migration] | None = None
) -> list[Migration]:
    """Bring a database up: what is pending of this phase, in order. ``all`` is for when no node runs.

    Raises ``BadInputError`` when a *before* would have to run while an earlier *after* is pending.
    """
    known = read_migrations() if migrations is None else list(migrations)
    with _migrating(url, known) as (connection, there):
        pending = [migration for migration in known if migration.number not in there]
        wanted = [migration for migration in pending if phase in ("all", migration.phase)]
        skipped = [migration for migration in pending if migration not in wanted]
        if wanted and skipped and skipped[0].number < wanted[-1].number:
            raise BadInputError(
                f"the migration {skipped[0]} comes before {wanted[-1]}, and is pending",
                next_step="Finish the deploy before this one first, or stop all nodes and migrate everything.",
            )
        for migration in wanted:
            connection.execute(migration.up.encode())
            run(connection, _SQL["done"], number=migration.number, phase=migration.phase, name=migration.name)
        return wanted


def migrate_down(url: str, to: int, *, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Take a database back to what it was after migration ``to``, newest first. What later ones added is lost."""
    known = read_migrations() if migrations is None else list(migrations)
    if to not in {0, *(migration.number for migration in known)}:
        raise BadInputError(f"there is no migration {to} to go back to", next_step="0: nothing stays.")
    with _migrating(url, known) as (connection, there):
        undone = [migration for migration in reversed(known) if to < migration.number and migration.number in there]
        for migration in undone:
            connection.execute(migration.down.encode())
            run(connection, _SQL["undone"], number=migration.number)
        return undone


def migrated(url: str) -> list[tuple[Migration, bool]]:
    """All migrations that this version knows, and whether a database has had them. Changes nothing."""
    known = read_migrations()
    with closing(Pool(url, most=1)) as pool:
        there = _looked_up(pool, known)
    return [(migration, migration.number in there) for migration in known]


def check_schema(pool: Pool, migrations: Sequence[Migration] | None = None) -> None:
    """Refuse a database that is too old or too new for this version. Raises ``BadInputError``."""
    known = read_migrations() if migrations is None else list(migrations)
    there = _looked_up(pool, known)
    numbers = {migration.number for migration in known}
    if any(phase == "after" and number not in numbers for number, phase in there.items()):
        raise BadInputError(
            "the database has been migrated for a newer version of SecVM", next_step="Install that version."
        )
    missing = [migration for migration in known if migration.phase == "before" and migration.number not in there]
    if missing:
        raise BadInputError(
            f"the database is older than this version of SecVM: it lacks the migration {missing[0]}",
            next_step="Run: ./secvm coordinator migrate up --before.",
        )


@contextmanager
def _migrating(url: str, known: Sequence[Migration]) -> Iterator[tuple[Connection, dict[int, str]]]:
    """A transaction, and what the database has had. One migrator at a time; none that knows less than the database."""
    with closing(Pool(url, most=1)) as pool, pool.changing(bulk=True) as connection:
        run(connection, _SQL["lock"], lock=_LOCK)
        if run(connection, _SQL["table"]) == [(False,)]:
            run(connection, _SQL["begin"])
        there = _phases(run(connection, _SQL["applied"]), known)
        if not there.keys() <= {migration.number for migration in known}:
            raise BadInputError(
                "the database has had migrations that this version of SecVM does not know",
                next_step="Migrate with the newest version that has used it.",
            )
        yield connection, there


def _looked_up(pool: Pool, known: Sequence[Migration]) -> dict[int, str]:
    """The same without a change; nothing where nobody has migrated."""
    with suppress(NoTableError):
        return _phases(pool.once(_SQL["applied"]), known)
    return {}


def _phases(rows: Iterable[tuple[int, str, str]], known: Sequence[Migration]) -> dict[int, str]:
    """Phases of the migrations that a database has had. Raises ``BadInputError`` where they are not ours."""
    names = {migration.number: migration.name for migration in known}
    there: dict[int, str] = {}
    for number, phase, name in rows:
        if names.get(number, name) != name:
            raise BadInputError(
                f"the database has had another migration {number} than this version of SecVM has: {name}. It is of"
                " version 1 of the protocol, whose experiments do not run here",
                next_step="Take a new database; experiments of version 1 end with the program that began them.",
            )
        there[number] = phase
    return there
