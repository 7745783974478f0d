"""Database: a private PostgreSQL that is killed, one of its backends or all of it, and comes back.

It lies below a folder of the caller's, which may be a small disk. With a network it listens on the hub's address, so
that a node that is cut off is cut off from the database too.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Self

from secvm.coordinator.store.postgres_pool import Patience, Pool
from secvm.coordinator.store.queries import Row
from secvm.errors import StoreError
from secvm_lab.chaos.network import HUB_ADDRESS
from secvm_lab.rigs.postgres import PostgresCluster, lives

#: Small enough for a small disk; and crashes shall not take long to recover from.
_SETTINGS = {"min_wal_size": "32MB", "max_wal_size": "96MB", "shared_buffers": "16MB", "checkpoint_timeout": "30s"}
#: Processes that serve nodes.
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE starts_with(datname, 'secvm_') AND pid <> pg_backend_pid()"
_PROBE = Patience(connect_s=2, statement_s=2.0)


class Database(PostgresCluster):
    """Use it in a ``with``. Every revival is on what is on the disk."""

    def __init__(self, parent: Path | None = None, *, on_hub: bool = False) -> None:
        listening = {"listen_addresses": f"127.0.0.1,{HUB_ADDRESS}"} if on_hub else {}
        super().__init__(parent=parent, settings={**_SETTINGS, **listening})
        self._on_hub = on_hub
        #: Where nodes find it, with user and password; and where we do.
        self.address = self._own_address = ""

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.address = self._own_address = self.create_database()
            if self._on_hub:
                self.address = self._own_address.replace("@127.0.0.1:", f"@{HUB_ADDRESS}:")
                with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
                    rules.write("host all all 10.77.0.0/16 scram-sha-256\n")
                assert self.pid is not None
                os.kill(self.pid, signal.SIGHUP)
        except BaseException:
            self.close()
            raise
        return self

    def kill_backend(self, dice: random.Random) -> bool:
        """SIGKILL to one process that serves a node. The server then ends all others and recovers by itself. False
        where nobody is connected.
        """
        found: list[int] = []
        with contextlib.suppress(StoreError):
            found = [row[0] for row in self._ask(_BACKENDS)]
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
        return True

    def revive(self) -> bool:
        """Whether it answers; one that has ended is started again. It may not come up yet: a disk may be full."""
        with contextlib.suppress(StoreError):
            if self.pid is None or not lives(self.pid):
                self.start()
            self._ask("SELECT 1")
            return True
        return False

    def _ask(self, query: str) -> list[Row]:
        with contextlib.closing(Pool(self._own_address, patience=_PROBE, most=1)) as pool:
            return pool.once(query)
