"""Connections to PostgreSQL, and the names of its tables.

A node has a few connections, used from any thread and made anew when the server was away. A change is one transaction:
BEGIN to COMMIT, or one statement, which PostgreSQL makes a transaction of its own. It has happened when the server says
so. When the connection breaks before that nobody knows; that is a ``StoreError`` like the others, and whoever asked
asks again. Nothing waits for ever: not for a lock, nor for an answer, nor does a server wait for a node that stopped in
the middle of a transaction. No address, password or content is in any error or ``repr``.

In a query ``{sealed}`` stands for a table of one epoch: such names come from numbers alone (``own_tables``), never from
outside.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from secvm.coordinator.store.queries import NoTableError, Row
from secvm.errors import BadInputError, LocalProtocolError, NotInstalledError, StoreError

#: The tables that each epoch has for itself, and each batch.
_OWN_TABLES = {"epoch": ("sealed", "opened", "shards", "keys"), "batch": ("seeds", "pieces", "runs")}

#: Up to so many groups of a statement are parameters of their own.
_SINGLE_GROUPS = 16


def table_names(kind: str, number: object) -> dict[str, str]:
    """Names of the tables of one epoch or one batch, by what is in them."""
    if not isinstance(number, int) or not 0 <= number < 2**63:
        raise LocalProtocolError(f"the number of a {kind} is not negative, and less than 2^63")
    return {name: f"{kind}_{number:d}_{name}" for name in _OWN_TABLES[kind]}


def own_tables(given: Mapping[str, object]) -> dict[str, str]:
    """What ``{sealed}`` and the like stand for in a query that is given an epoch or a batch, and the number itself."""
    for kind in _OWN_TABLES.keys() & given.keys():
        return {kind: str(given[kind]), **table_names(kind, given[kind])}
    return {}


def given_groups(groups: Sequence[bytes]) -> tuple[str, dict[str, object]]:
    """What stands for ``{groups}``, and its parameters. A few are one parameter each, which spares both sides a copy;
    many are an array, so that there are not too many statements to prepare.
    """
    if len(groups) > _SINGLE_GROUPS or not groups:
        return "unnest(%(groups)b::bytea[])", {"groups": list(groups)}
    names = [f"group_{i}" for i in range(len(groups))]
    values = ", ".join(f"(%({name})b::bytea)" for name in names)
    return f"(VALUES {values})", dict(zip(names, groups, strict=True))


try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg.pq import TransactionStatus
except ImportError:
    raise NotInstalledError("a database of PostgreSQL", "psycopg", "postgres") from None

Connection = psycopg.Connection[Row]

#: Why a server, or the machine that it should be on, refuses a connection: as it says so, and as we do.
_REFUSALS = {
    "password authentication failed": "it does not take this user with this password",
    "no password supplied": "it wants a password",
    "no pg_hba.conf entry": "it does not let this user in from here",
    "Connection refused": "nobody listens there",
    "certificate": "its certificate could not be checked",
    "could not translate host name": "no machine has that name",
    "does not exist": "it has no such user or database",
}
#: All tables lie in a schema of this name.
SCHEMA = "secvm"
_APPLICATION = "secvm coordinator"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    #: For a connection.
    connect_s: int = 5
    #: For a statement; bulk ones have ``bulk_s``.
    statement_s: float = 30.0
    bulk_s: float = 600.0
    #: For a lock that another transaction has. Longer than ``idle_s``, so that one that stopped is ended before.
    lock_s: float = 12.0
    #: How long the server keeps a transaction whose node says nothing.
    idle_s: float = 5.0
    #: How long bytes may stay without an acknowledgement before a connection counts as broken.
    silence_s: float = 15.0


class BusyError(StoreError):
    """Somebody else holds a lock for too long."""


class Pool:
    """At most ``most`` connections. ``changing`` and ``once`` are the doors."""

    def __init__(self, url: str, *, patience: Patience | None = None, most: int = 8) -> None:
        self._patience = patience or Patience()
        self._arguments = _arguments(url, self._patience)
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Pool with {len(self._idle)} idle connections>"

    @property
    def patience(self) -> Patience:
        """The limits on waiting of this pool."""
        return self._patience

    @contextmanager
    def changing(self, *, bulk: bool = False) -> Iterator[Connection]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""
        with self._lending("changed") as connection, connection.transaction():
            if bulk:
                connection.execute(f"SET LOCAL statement_timeout = {int(self._patience.bulk_s * 1000)}".encode())
            yield connection

    def once(self, query: str, given: Mapping[str, object] | None = None) -> list[Row]:
        """One statement, which is one transaction, and its whole answer."""
        with self._lending("used") as connection:
            return run(connection, query, **(given or {}))

    @contextmanager
    def _lending(self, verb: str) -> Iterator[Connection]:
        try:
            connection = self._take()
        except psycopg.Error as error:
            raise StoreError(f"the database does not answer ({_reason(error)})") from None
        try:
            yield connection
        except errors.UndefinedTable as error:
            raise NoTableError from error
        except errors.LockNotAvailable:
            raise BusyError("another session holds what is to be changed in the database") from None
        except psycopg.Error as error:
            raise StoreError(f"the database could not be {verb} ({_reason(error)})") from None
        finally:
            self._give_back(connection)

    def _take(self) -> Connection:
        if not self._room.acquire(timeout=self._patience.statement_s):
            raise StoreError("all connections to the database are in use")
        try:
            while (idle := self._pop()) is not None:
                if _usable(idle):
                    return idle
                idle.close()
            return self.connect()
        except BaseException:
            self._room.release()
            raise

    def _pop(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
        good = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            keep = good and not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._room.release()

    def connect(self) -> Connection:
        """A new connection, with our settings. Raises ``psycopg.Error``."""
        connection: Connection = psycopg.connect(**self._arguments)
        try:
            patience = self._patience
            settings = {
                "search_path": SCHEMA,
                "statement_timeout": f"{int(patience.statement_s * 1000)}",
                "lock_timeout": f"{int(patience.lock_s * 1000)}",
                "idle_in_transaction_session_timeout": f"{int(patience.idle_s * 1000)}",
                "client_min_messages": "error",
            }
            # A session may ask for more than a commit on this server's disk, never for less.
            query = (
                "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
                " WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
            )
            for name in settings:
                query += f", set_config('{name}', %({name})s, false)"
            connection.execute(query.encode(), settings)
        except BaseException:
            connection.close()
            raise
        return connection

    def listen(self, channel: str) -> Connection:
        """A connection beside the others that hears of changes on a channel."""
        try:
            connection = self.connect()
            connection.execute(f"LISTEN {channel}".encode())
        except psycopg.Error as error:
            raise StoreError(f"the database does not answer ({_reason(error)})") from None
        return connection

    def hears(self, connection: Connection, seconds: float) -> bool:
        """Whether something is said within so many seconds."""
        try:
            return any(True for _ in connection.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error as error:
            raise StoreError(f"the database does not answer ({_reason(error)})") from None

    def check(self) -> None:
        """Refuse a server that forgets what it has acknowledged."""
        settings = dict.fromkeys(("fsync", "full_page_writes", "synchronous_commit"), "")
        with self._lending("asked") as connection:
            for name in settings:
                ((settings[name],),) = connection.execute(f"SHOW {name}".encode()).fetchall()
        if (settings["fsync"], settings["full_page_writes"]) != ("on", "on"):
            raise BadInputError(
                "the database loses what it has acknowledged when its machine fails: fsync or full_page_writes is off",
                next_step="Turn both on in the server's settings.",
            )
        if settings["synchronous_commit"] not in ("on", "remote_apply"):
            raise BadInputError("the database does not let us wait for the disk (synchronous_commit)")

    def close(self) -> None:
        """Idle connections are closed now, the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def run(connection: Connection, query: str, **given: object) -> list[Row]:
    """A statement of a transaction, and its whole answer."""
    cursor = connection.execute(query.encode(), given)
    return cursor.fetchall() if cursor.description is not None else []


def check_address(url: str) -> None:
    """Raises ``BadInputError`` for what is no address of a database. Asks nobody."""
    _arguments(url, Patience())


def _arguments(url: str, patience: Patience) -> dict[str, Any]:
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # What psycopg says of it may quote it.
        raise BadInputError(
            "the address of the database cannot be read",
            next_step="It looks like postgresql://user@host:5432/database; a password may be in a file (PGPASSFILE).",
        ) from None
    ours: dict[str, Any] = {
        "connect_timeout": patience.connect_s,
        "keepalives_idle": max(1, int(patience.silence_s / 3)),
        "keepalives_interval": max(1, int(patience.silence_s / 3)),
        "keepalives_count": 2,
        "tcp_user_timeout": int(patience.silence_s * 1000),
        "target_session_attrs": "read-write",
    }
    return {**ours, **given, "application_name": _APPLICATION, "autocommit": True}


def _usable(connection: Connection) -> bool:
    """Whether nothing happened to it while it lay idle: a server that went away has said so, or hung up."""
    if connection.closed:
        return False
    with suppress(OSError, ValueError):
        # Not ``select``, which takes no number above 1023: where thousands are connected a file's number is higher.
        looked = select.poll()
        looked.register(connection.fileno(), select.POLLIN)
        return not looked.poll(0)
    return False


def _reason(error: psycopg.Error) -> str:
    """PostgreSQL's own name of what happened, such as DiskFull: never what was written, nor where."""
    if error.sqlstate:
        return type(error).__name__
    # No code comes with a refusal to connect. What it says has names in it: only what it is about is told.
    said = str(error)
    return next((ours for theirs, ours in _REFUSALS.items() if theirs in said), "the connection failed")
