"""The schema goes up, down and up again; old and new nodes share it during a deploy; who does not fit is refused."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_migrations import Migration, check_schema, migrate, migrate_down, read_migrations
from secvm.coordinator.store.postgres_pool import Pool
from secvm.errors import BadInputError, LocalProtocolError, StoreError
from secvm_lab.rigs.postgres import find_postgres
from tests.postgres_server import cluster

OURS = read_migrations()
N = len(OURS)
#: The newest without which a node does not start.
LAST_BEFORE = max(migration.number for migration in OURS if migration.phase == "before")
#: What a later version would bring: it adds a column before, and removes another one after its deploy.
LATER = [
    *OURS,
    Migration(N + 1, "before", "more", "CREATE TABLE more (a text);", "DROP TABLE more;"),
    Migration(N + 2, "after", "less", "ALTER TABLE notes DROP COLUMN root;", "ALTER TABLE notes ADD root bytea;"),
]
NEWEST = [*LATER, Migration(N + 3, "before", "most", "CREATE TABLE most (a text);", "DROP TABLE most;")]


@pytest.fixture
def url() -> str:
    return cluster().create_database(migrated=False)


@pytest.fixture
def pool(url: str) -> Iterator[Pool]:
    with closing(Pool(url)) as made:
        yield made


def schema(url: str) -> str:
    """All of it, as PostgreSQL's own program tells it."""
    told = subprocess.run(
        [find_postgres() / "pg_dump", "--schema-only", "--schema=secvm", url],
        capture_output=True,
        text=True,
        check=True,
    )
    # Newer ones begin and end with a random word.
    return re.sub(r"^\\(un)?restrict .*$", "", told.stdout, flags=re.MULTILINE)


def test_every_migration_goes_up_down_and_up_again(url: str) -> None:
    assert migrate(url, migrations=OURS[:0]) == []
    seen = [schema(url)]
    for i in range(N):
        assert migrate(url, migrations=OURS[: i + 1]) == [OURS[i]]
        seen.append(schema(url))
    assert len(set(seen)) == N + 1
    for i in reversed(range(N)):
        assert migrate_down(url, i) == [OURS[i]]
        assert schema(url) == seen[i]
    assert migrate(url) == OURS
    assert schema(url) == seen[N]
    assert migrate_down(url, 0) == OURS[::-1]
    assert schema(url) == seen[0]


def test_database_that_was_used_goes_down_and_up_too(url: str) -> None:
    migrate(url)
    before = schema(url)
    with closing(PostgresStore(url)) as store:
        store.append_sealed(7, [b"a"])
    assert schema(url) != before
    migrate_down(url, 0)
    migrate(url)
    assert schema(url) == before


def test_migrating_twice_changes_nothing(url: str) -> None:
    migrate(url)
    before = schema(url)
    assert migrate(url) == []
    assert schema(url) == before


def test_migrators_at_the_same_time_wait_for_each_other(url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        applied = list(threads.map(lambda _: migrate(url), range(4)))
    assert sorted(applied, key=len) == [[], [], [], OURS]


def test_migration_that_fails_leaves_everything_as_it_was(url: str) -> None:
    migrate(url)
    before = schema(url)
    broken = [*LATER[:-1], replace(LATER[-1], up="CREATE TABLE half (a text); SELECT nonsense;")]
    with pytest.raises(StoreError):
        migrate(url, migrations=broken)
    assert schema(url) == before


def test_empty_database_is_too_old(url: str, pool: Pool) -> None:
    for _ in range(2):
        with pytest.raises(BadInputError, match="older than this version") as caught:
            PostgresStore(url)
        assert "\n" not in str(caught.value)
        assert "migrate" in (caught.value.next_step or "")
        migrate(url, migrations=OURS[: LAST_BEFORE - 1])
    migrate(url)
    check_schema(pool)
    PostgresStore(url).close()


def test_old_and_new_nodes_share_the_database_during_a_deploy(url: str, pool: Pool) -> None:
    migrate(url)
    with pytest.raises(BadInputError, match="older than this version"):
        check_schema(pool, LATER)
    assert migrate(url, "before", migrations=LATER) == [LATER[N]]
    for version in (OURS, LATER):
        check_schema(pool, version)
    PostgresStore(url).close()
    assert migrate(url, "after", migrations=LATER) == [LATER[N + 1]]
    check_schema(pool, LATER)
    with pytest.raises(BadInputError, match="newer version of SecVM") as caught:
        PostgresStore(url)
    assert "\n" not in str(caught.value)


def test_next_deploy_does_not_begin_before_the_last_one_is_finished(url: str) -> None:
    migrate(url)
    migrate(url, "before", migrations=LATER)
    with pytest.raises(BadInputError, match="pending"):
        migrate(url, "before", migrations=NEWEST)
    migrate(url, "after", migrations=NEWEST)
    assert migrate(url, "before", migrations=NEWEST) == NEWEST[-1:]


def test_old_version_does_not_migrate_what_it_does_not_know(url: str) -> None:
    migrate(url, migrations=LATER)
    for act in (lambda: migrate(url), lambda: migrate_down(url, 0)):
        with pytest.raises(BadInputError, match="does not know"):
            act()


def test_files_are_numbered_without_gaps_and_have_their_way_back(tmp_path: Path) -> None:
    assert [migration.number for migration in OURS] == list(range(1, N + 1))
    assert str(OURS[0]) == "0001_before_rounds"
    (tmp_path / "0002_after_two.up.sql").write_text("")
    (tmp_path / "0002_after_two.down.sql").write_text("")
    with pytest.raises(LocalProtocolError, match="numbered"):
        read_migrations(tmp_path)


def test_database_of_version_1_of_the_protocol_is_refused_by_everybody(url: str, pool: Pool) -> None:
    first = [*OURS[:3], replace(OURS[3], name="receipts")]
    migrate(url, migrations=first)
    for refused in (lambda: check_schema(pool), lambda: migrate(url), lambda: migrate_down(url, 0)):
        with pytest.raises(BadInputError, match="another migration 4 than this version of SecVM has: receipts"):
            refused()
