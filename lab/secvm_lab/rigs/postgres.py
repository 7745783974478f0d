"""PostgresCluster: a private PostgreSQL in a temporary folder, from the system's packages, for tests and chaos.

    with PostgresCluster() as cluster:
        store = PostgresStore(cluster.create_database())
        cluster.kill()                  # SIGKILL, all of its processes
        cluster.start()                 # on what is on the disk

It is a real one: ``fsync`` is on. It listens on a socket in its own folder, and on loopback too when it is told to. It
does not run as root: as root it is started as an unprivileged user. Another PostgreSQL on the machine is not touched.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from secvm.coordinator.store.postgres_migrations import migrate
from secvm.coordinator.store.postgres_pool import Patience, Pool
from secvm.errors import BadInputError, StoreError
from secvm.testing.processes import dying_with_parent, free_port

#: How long a server may take to start, or to end.
PATIENCE_S = 60.0
_NAP_S = 0.02
#: Debian keeps the programs of each version out of PATH.
_DEBIAN = Path("/usr/lib/postgresql")
_ROLE = "secvm"
_TEMPLATE = "secvm_migrated"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "full_page_writes": "on",
    # After a kill it makes sure of what is on the disk: in one call, not file by file.
    "recovery_init_sync_method": "syncfs",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "512MB",
    "min_wal_size": "128MB",
    "log_min_messages": "log",
    # What is under seal, and what a failing row held, is not for a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
}


def find_postgres() -> Path:
    """The folder of ``initdb`` and ``postgres``: in PATH, or where Debian has it, the newest first."""
    found = shutil.which("initdb")
    if found is not None and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    places = [place.parent for place in _DEBIAN.glob("*/bin/initdb")]
    if not places:
        raise BadInputError(
            "PostgreSQL is not installed: there is no initdb in PATH, nor below /usr/lib/postgresql",
            next_step="As root: apt-get install postgresql.",
        )
    return max(places, key=lambda place: [int(part) for part in re.findall(r"\d+", place.parent.name)])


class PostgresCluster:
    """One server with its own folder. It ends with the block, or with the process that made it."""

    def __init__(
        self, *, loopback: bool = False, settings: Mapping[str, str] | None = None, parent: Path | None = None
    ) -> None:
        """``loopback``: listens on 127.0.0.1 too. ``parent``: where its folder is made; others must be able to go
        through it. Starts nothing yet.
        """
        self._binaries = find_postgres()
        self._password = secrets.token_hex(16)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._port = 5432
        if loopback:
            self._port = free_port()
            self._settings["listen_addresses"] = "127.0.0.1"
        self._user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="secvm-pg-", dir=parent))
        self._server: subprocess.Popen[bytes] | None = None
        self._made = 0

    def __repr__(self) -> str:
        return f"<PostgresCluster in {self.folder}>"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start it, the first time on an empty cluster, and return when it takes connections."""
        # A server that has ended by itself is not waited for yet.
        self.kill()
        if not self._data.exists():
            self._make()
        with (self.folder / "server.log").open("ab") as log:
            self._server = self._popen([str(self._binaries / "postgres"), "-D", str(self._data)], log)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(StoreError):
                self._admin().close()
                return
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise StoreError("PostgreSQL did not start: " + self._last_words())
            time.sleep(_NAP_S)

    def stop(self) -> None:
        """Stop it in good order; open connections are closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the server and to each of its processes. What was committed is on the disk, and nothing else."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP to all of it: connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it, and remove its folder."""
        if self._server is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """The server's process; None when it does not run."""
        return None if self._server is None else self._server.pid

    # ── databases ────────────────────────────────────────────────────────────────────────────────────────────────────

    def url(self, database: str = "postgres") -> str:
        """Where a database is, with user and password."""
        user = f"{_ROLE}:{self._password}"
        if self._settings["listen_addresses"]:
            return f"postgresql://{user}@127.0.0.1:{self._port}/{database}"
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}&port={self._port}"

    def create_database(self, *, migrated: bool = True) -> str:
        """A new database, and where it is: with our tables, or empty. A copy of a template, so it takes no time."""
        self._made += 1
        name = f"secvm_{self._made}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {self._template if migrated else 'template0'}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Away with it, whoever is connected."""
        name = re.search(r"/(secvm_\d+)(\?|$)", url)
        if name is not None:
            self._run(f"DROP DATABASE IF EXISTS {name[1]} WITH (FORCE)")

    @cached_property
    def _template(self) -> str:
        self._run(f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0")
        migrate(self.url(_TEMPLATE))
        return _TEMPLATE

    def _admin(self) -> Pool:
        # Databases are made and dropped while others keep the disk busy.
        pool = Pool(self.url(), patience=Patience(statement_s=300.0), most=1)
        try:
            pool.once("SELECT 1")
        except BaseException:
            pool.close()
            raise
        return pool

    def _run(self, statement: str) -> None:
        with contextlib.closing(self._admin()) as pool:
            pool.once(statement)

    # ── its processes ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make(self) -> None:
        password = self.folder / "password"
        password.write_text(self._password, encoding="ascii")
        password.chmod(0o600)
        if self._user is not None:
            for path in (self.folder, password):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
        with (self.folder / "initdb.log").open("ab") as log:
            making = self._popen(
                [
                    str(self._binaries / "initdb"), "-D", str(self._data), "-U", _ROLE, "--pwfile", str(password),
                    "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync",
                ],
                log,
            )  # fmt: skip
            if making.wait(PATIENCE_S):
                raise StoreError("no cluster of PostgreSQL could be made: " + self._last_words("initdb.log"))
        password.unlink()
        settings = {**self._settings, "port": str(self._port), "unix_socket_directories": str(self.folder)}
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _popen(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        user = self._user
        return subprocess.Popen(  # noqa: S603  (PostgreSQL's own programs)
            dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )

    def _end(self, how: signal.Signals) -> None:
        if self._server is None:
            return
        # Children first found, then the parent killed, then they: none is started in between.
        others = _children(self._server.pid) if how is signal.SIGKILL else []
        self._server.send_signal(how)
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        self._server.wait(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while any(lives(pid) for pid in others) and time.monotonic() < deadline:
            time.sleep(_NAP_S)
        self._server = None

    def _signal(self, which: signal.Signals) -> None:
        if self._server is not None:
            for pid in (self._server.pid, *_children(self._server.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, which)

    def _last_words(self, name: str = "server.log") -> str:
        lines = (self.folder / name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


def _unprivileged() -> pwd.struct_passwd | None:
    """As whom to run it: ourselves, or as root somebody else, because it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise BadInputError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _children(parent: int) -> list[int]:
    """Ids of a process's children."""
    everybody = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return [pid for pid in everybody if _state(pid)[1] == parent]


def lives(pid: int) -> bool:
    """Whether a process is there, and not only what its parent has not looked at yet."""
    return _state(pid)[0] not in ("", "Z")


def _state(pid: int) -> tuple[str, int]:
    """A process's state and its parent; nothing where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    # The name may hold anything; what follows its last parenthesis does not.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)
