"""The coordinator as a program: ``serve`` puts the parts together with the real clock, real dice and real files.

Without ``[database]`` in its settings a process is the whole coordinator. With it, it is one node of many
(``coordinator.nodes.node``).

On SIGTERM no more requests are taken, those under way are answered, what they brought is committed, and the driver
stops between two steps. A kill at any other moment costs no more than that: everything durable is in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path

from secvm.coordinator.assembly import Drivers, make_log_keeper
from secvm.coordinator.experiments.new_experiment import NIST_CHAIN, NewestPulse
from secvm.coordinator.frontend import Frontend, ProcessParts, ingest_limits
from secvm.coordinator.log.logbook import check_log
from secvm.coordinator.nodes.node import Node, agree_on_grid, agree_on_keys, log_key_of_others, must_have
from secvm.coordinator.publisher import remove_unfinished
from secvm.coordinator.settings import EXAMPLE, NODE_EXAMPLE, CoordinatorProgramSettings
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.sealing.lanes import Lanes
from secvm.crypto.signing import SEED_BYTES, SigningKey, VerifyKey
from secvm.errors import BadBeaconError, BadInputError, BeaconUnavailableError
from secvm.files import write_atomically
from secvm.runtime.beacons import WebBeacons
from secvm.runtime.clock import Clock, SteadyClock, SteeredClock, SystemClock
from secvm.runtime.disk.new_folder import making_in
from secvm.runtime.disk.process_lock import FILE as LOCK_FILE
from secvm.runtime.disk.process_lock import only_one
from secvm.runtime.disk.secret_files import Passphrase, make_secret, read_secret
from secvm.runtime.lanes import find_lanes
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import run_service
from secvm.runtime.settings import read_settings

STORE_FILE, KEY_FILE, ADMIN_FILE, GRID_FILE = "coordinator.sqlite", "signing.key", "admin.sha256", "grid.json"
LOG_KEY_FILE = "log.key"
DATABASE_FILE = "database.url"
SETTINGS_FILE = "coordinator.toml"
_ADMIN_KEY_BYTES = 32


def serve(settings_path: Path, passphrase: Passphrase | None = None) -> None:
    """Run a coordinator until it is told to stop; ``passphrase`` opens its keys where they are under one."""
    settings = read_settings(settings_path, CoordinatorProgramSettings)
    coordinator = Coordinator(settings, passphrase)
    run_service(coordinator.run, log=coordinator.log)


def initialise(folder: Path, database: str | None = None) -> str:
    """Settings with comments, keys that sign and log, and an admin key, which is returned and kept nowhere; only its
    hash is. With the address of a ``database`` these are the settings of a node.
    """
    if database is not None:
        from secvm.coordinator.store.postgres_pool import check_address  # noqa: PLC0415  # late: needs psycopg

        check_address(database)
    if (folder / SETTINGS_FILE).exists() or (folder / "state" / KEY_FILE).exists():
        raise BadInputError(f"there is a coordinator in {folder} already")
    admin_key = os.urandom(_ADMIN_KEY_BYTES).hex()
    with making_in(folder, private=False) as made:
        state = made / "state"
        state.mkdir(mode=0o700)
        make_secret(state / KEY_FILE, os.urandom(SEED_BYTES))
        make_secret(state / LOG_KEY_FILE, os.urandom(SEED_BYTES))
        write_atomically(state / ADMIN_FILE, hashlib.sha256(admin_key.encode()).hexdigest().encode() + b"\n")
        if database is not None:
            make_secret(state / DATABASE_FILE, database.encode() + b"\n")
        write_atomically(made / SETTINGS_FILE, (EXAMPLE if database is None else EXAMPLE + NODE_EXAMPLE).encode())
    return admin_key


def log_key(state: Path, passphrase: Passphrase | None = None) -> VerifyKey:
    """The public key of the log of a coordinator with this state: witnesses are told it."""
    return _key_in(state / LOG_KEY_FILE, passphrase).public


class Coordinator:
    """One process's parts: a whole coordinator on a file of its own, or one node of many on a database."""

    def __init__(self, settings: CoordinatorProgramSettings, passphrase: Passphrase | None = None) -> None:
        settings = settings.with_policy()
        self._settings = settings
        self._passphrase = passphrase
        state = settings.state.folder
        self._public = None if settings.public is None else settings.public.folder
        _check_folders(state, self._public)
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A folder that somebody else owns stays as it is; what is secret in it has modes of its own.
            with contextlib.suppress(PermissionError):
                state.chmod(0o700)
        except OSError as error:
            raise BadInputError(f"cannot make {state}: {error.strerror or 'input/output error'}") from None
        self._held = contextlib.ExitStack()
        # One coordinator for a folder, as long as its process lives: two would drive the same rounds.
        self._held.enter_context(only_one(state / LOCK_FILE, "coordinator"))
        try:
            self._open(state)
        except BaseException:
            self._held.close()
            raise

    def _open(self, state: Path) -> None:
        settings = self._settings
        remove_unfinished(state)
        self._clock: Clock = SystemClock() if settings.testing is None else SteeredClock(settings.testing.clock)
        self.log = Log(sys.stderr, self._clock, "coordinator")
        self._metrics = Metrics("coordinator")
        self._beacons = _beacons(settings)
        self._relay_tokens = {
            relay.url: _token_in(relay.token_file, self._passphrase)
            for relay in settings.relays
            if relay.url is not None and relay.token_file is not None
        }
        self._webhook = None if settings.webhook is None else settings.webhook.address(self._passphrase)
        self._admin_sha256 = _admin_sha256(state)
        self._key: SigningKey | None = None
        self._log_key: SigningKey | None = None
        if settings.database is None:
            self._read_keys(state)
            _check_grid(state, settings)
            self._store: CoordinatorStore = SQLiteStore(state / STORE_FILE)
        else:
            assert settings.node is not None
            address = settings.database.address(os.environ, self._passphrase)
            self._store = _open_database(address, settings.node.claim_s)
        try:
            self._check(state)
        except BaseException:
            self._store.close()
            raise
        self.ingest_limits = ingest_limits(settings)

    def _read_keys(self, state: Path) -> None:
        self._key = _key_in(state / KEY_FILE, self._passphrase)
        self._log_key = _key_in(state / LOG_KEY_FILE, self._passphrase)
        if self._log_key.public == self._key.public:
            raise BadInputError(f"{KEY_FILE} and {LOG_KEY_FILE} hold one key; a log signs with a key of its own")

    def _check(self, state: Path) -> None:
        """That settings, keys and store belong together."""
        settings = self._settings
        if settings.node is not None:
            agree_on_grid(self._store, settings)
            if settings.node.drives:
                for name in (KEY_FILE, LOG_KEY_FILE):
                    must_have(state / name, self._store)
                self._read_keys(state)
                assert self._key is not None
                assert self._log_key is not None
                agree_on_keys(self._store, self._key, self._log_key)
        if self._key is not None:
            _check_key(self._store, self._key)
        public = log_key_of_others(self._store) if self._log_key is None else self._log_key.public
        check_log(self._store, public, name=None if settings.log is None else settings.log.name)
        self._terms = settings.terms(public)
        if settings.testing is not None:
            _check_only_tests(self._store)

    def close(self) -> None:
        """Close the store and release the lock on the state folder."""
        self._store.close()
        self._held.close()

    def _lanes(self) -> Lanes | None:
        search = find_lanes(self._settings.opening.lanes)
        self.log.tell("opening", mode="one-by-one" if search.lanes is None else "lanes", reason=search.reason)
        return search.lanes

    async def run(self, stop: asyncio.Event) -> None:
        parts = ProcessParts(
            settings=self._settings,
            store=self._store,
            clock=self._clock,
            dice=os.urandom,
            log=self.log,
            metrics=self._metrics,
            public=self._public,
            key=self._key,
            terms=self._terms,
            admin_sha256=self._admin_sha256,
            newest_pulse=self._newest_pulse,
            lanes=self._lanes(),
            steady=SteadyClock(),
            relay_tokens=self._relay_tokens,
            webhook=self._webhook,
        )
        try:
            if self._settings.node is None:
                await self._run_alone(parts, stop)
            else:
                node = Node(parts, log_key=self._log_key, source=self._beacons, steady=SteadyClock())
                await node.run(stop)
        finally:
            self.close()

    async def _run_alone(self, parts: ProcessParts, stop: asyncio.Event) -> None:
        """All of it in this process, which drives as long as it lives."""

        def health() -> dict[str, object]:
            return driving.health()

        frontend = Frontend(parts, health=health)
        keeper = make_log_keeper(parts, parts.store, frontend.publisher, key=self._log_key, source=self._beacons)
        driving = Drivers(parts, frontend, parts.store, ingest=frontend, keeper=keeper, steady=SteadyClock())
        frontend.wake = driving.wake
        frontend.ingest.start()
        # Before the first request: what runs and what is public is known, whatever the driver still has to do.
        driving.prepare()
        await frontend.open()
        try:
            # If it fails, so does the process: whoever runs it starts it again.
            await driving.run(stop)
        finally:
            await frontend.close()

    def _newest_pulse(self) -> NewestPulse | None:
        try:
            return NewestPulse(*self._beacons.newest_pulse(NIST_CHAIN))
        except (BeaconUnavailableError, BadBeaconError):
            return None


def _open_database(url: str, claim_s: float) -> CoordinatorStore:
    # Late: who keeps everything in a file needs no driver for a database.
    from secvm.coordinator.store.postgres import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, claim_s=claim_s)


def _check_folders(state: Path, public: Path | None) -> None:
    """A static server shows all of the public folder: the gateway's keys must not lie in it."""
    if public is None:
        return
    stored, other = state.resolve(), public.resolve()
    if stored.is_relative_to(other) or other.is_relative_to(stored):
        raise BadInputError("the public folder and the state folder must not lie in each other")


def _key_in(path: Path, passphrase: Passphrase | None = None) -> SigningKey:
    """The signing key in this file, which is made on the first start."""
    if not path.exists():
        make_secret(path, os.urandom(SEED_BYTES))
    return SigningKey(read_secret(path, shortest=SEED_BYTES, passphrase=passphrase))


def _token_in(path: Path, passphrase: Passphrase | None) -> str:
    """The relay's token in this file, which has one line."""
    try:
        return read_secret(path, shortest=1, passphrase=passphrase).decode("ascii").strip()
    except UnicodeDecodeError:
        raise BadInputError(f"{path} holds no token: it is a line of letters and digits") from None


def _beacons(settings: CoordinatorProgramSettings) -> WebBeacons:
    section = settings.beacons
    try:
        issuers = b"" if section.issuers is None else section.issuers.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {section.issuers}: {error.strerror or 'input/output error'}") from None
    return WebBeacons(nist_url=section.nist_url, drand_urls=section.drand_urls, issuers=issuers)


def _admin_sha256(state: Path) -> bytes | None:
    try:
        text = (state / ADMIN_FILE).read_text(encoding="ascii").strip()
        digest = bytes.fromhex(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise BadInputError(f"{state / ADMIN_FILE} holds no SHA-256")
    return digest


def _check_grid(state: Path, settings: CoordinatorProgramSettings) -> None:
    """Epochs are numbered by the grid: with another one, a number would mean another time."""
    wanted = {"origin_ms": settings.epochs.origin_ms, "period_s": settings.epochs.period_s}
    path = state / GRID_FILE
    if not path.exists():
        write_atomically(path, json.dumps(wanted).encode() + b"\n")
    try:
        there = json.loads(path.read_bytes())
    except (OSError, ValueError):
        there = None
    if there != wanted:
        raise BadInputError(
            "origin_ms and period_s of the epochs cannot change once a coordinator has run",
            next_step=f"{path} says what they were.",
        )


def _check_key(store: CoordinatorStore, key: SigningKey) -> None:
    """A state folder that was restored without its key gets a new one, which no device believes."""
    for stored in store.experiments():
        if key.public not in stored.document.coordinator_keys:
            raise BadInputError(f"the signing key is not the one of the experiments here; {KEY_FILE} must be restored")


def _check_only_tests(store: CoordinatorStore) -> None:
    for stored in store.experiments():
        if not stored.document.test:
            raise BadInputError("a steered clock is for test experiments alone, and this coordinator has another")
