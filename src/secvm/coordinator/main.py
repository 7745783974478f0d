"""The coordinator as a program: ``serve`` puts the parts together with the real clock, real dice and real files.

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
from dataclasses import replace
from pathlib import Path

from secvm.coordinator.admin import Admin
from secvm.coordinator.answers import too_large
from secvm.coordinator.chosen_beacons import NIST_CHAIN, NewestPulse
from secvm.coordinator.driver import Driver
from secvm.coordinator.gateway import Gateway
from secvm.coordinator.ingest import Ingest
from secvm.coordinator.ingest import Limits as IngestLimits
from secvm.coordinator.log_keeping import LogKeeping
from secvm.coordinator.logbook import check_log
from secvm.coordinator.package_routes import BODY_LIMITS, PackageRoutes
from secvm.coordinator.publisher import Publisher, remove_unfinished
from secvm.coordinator.receipt_shelf import FolderShelf
from secvm.coordinator.receipts import Receipts
from secvm.coordinator.redeeming import Redeemer
from secvm.coordinator.server import Routes
from secvm.coordinator.settings import EXAMPLE, CoordinatorSettings
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.signing import SEED_BYTES, Envelope, SigningKey, VerifyKey
from secvm.errors import BadBeaconError, BadInputError, BeaconUnavailableError
from secvm.files import write_atomically
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.runtime.beacons import WebBeacons
from secvm.runtime.clock import Clock, SteeredClock, SystemClock
from secvm.runtime.http_server import HttpServer, http_date
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.only_one import FILE as LOCK_FILE
from secvm.runtime.only_one import only_one
from secvm.runtime.service import run_service
from secvm.runtime.settings import make_secret, read_secret, read_settings, read_token_seed

STORE_FILE, KEY_FILE, ADMIN_FILE, GRID_FILE = "coordinator.sqlite", "signing.key", "admin.sha256", "grid.json"
LOG_KEY_FILE = "log.key"
SETTINGS_FILE, RECEIVED_FOLDER = "coordinator.toml", "received"
_ADMIN_KEY_BYTES = 32
#: A specification is a page or two.
_ADMIN_BODY_BYTES = 2**18


def serve(settings_path: Path) -> None:
    """Run a coordinator until it is told to stop."""
    settings = read_settings(settings_path, CoordinatorSettings)
    coordinator = Coordinator(settings, settings_path.resolve().parent)
    run_service(coordinator.run, log=coordinator.log)


def initialise(folder: Path) -> str:
    """Settings with comments, keys that sign and log, and an admin key, which is returned and kept nowhere; only its
    hash is.
    """
    try:
        (folder / "state").mkdir(parents=True, exist_ok=True)
        (folder / "state").chmod(0o700)
    except OSError as error:
        raise BadInputError(f"cannot make {folder}: {error.strerror or 'input/output error'}") from None
    if (folder / SETTINGS_FILE).exists() or (folder / "state" / KEY_FILE).exists():
        raise BadInputError(f"there is a coordinator in {folder} already")
    admin_key = os.urandom(_ADMIN_KEY_BYTES).hex()
    make_secret(folder / "state" / KEY_FILE, os.urandom(SEED_BYTES))
    make_secret(folder / "state" / LOG_KEY_FILE, os.urandom(SEED_BYTES))
    write_atomically(folder / "state" / ADMIN_FILE, hashlib.sha256(admin_key.encode()).hexdigest().encode() + b"\n")
    write_atomically(folder / SETTINGS_FILE, EXAMPLE.encode())
    return admin_key


def log_key(folder: Path) -> VerifyKey:
    """The public key of the log of a coordinator that was made here: witnesses are told it."""
    return _key_in(folder / "state" / LOG_KEY_FILE).public


class Coordinator:
    """One process's parts."""

    def __init__(self, settings: CoordinatorSettings, folder: Path) -> None:
        self._settings = settings
        state = folder / settings.state.folder
        self._public = None if settings.public is None else folder / settings.public.folder
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
            self._open(state, folder)
        except BaseException:
            self._held.close()
            raise

    def _open(self, state: Path, folder: Path) -> None:
        settings = self._settings
        remove_unfinished(state)
        self._clock: Clock = (
            SystemClock() if settings.testing is None else SteeredClock(folder / settings.testing.clock)
        )
        self.log = Log(sys.stderr, self._clock, "coordinator")
        self._metrics = Metrics("coordinator")
        self._key = _key_in(state / KEY_FILE)
        self._log_key = _key_in(state / LOG_KEY_FILE)
        if self._log_key.public == self._key.public:
            raise BadInputError(f"{KEY_FILE} and {LOG_KEY_FILE} hold one key; a log signs with a key of its own")
        self._terms = settings.terms(self._log_key.public)
        self._beacons = _beacons(settings, folder, self._clock)
        self._token_seed = None if settings.tokens is None else read_token_seed(folder / settings.tokens.seed_file)
        self._admin_sha256 = _admin_sha256(state)
        _check_grid(state, settings)
        self._store: CoordinatorStore = SQLiteStore(state / STORE_FILE)
        try:
            self._shelf = FolderShelf(state / RECEIVED_FOLDER)
            _check_key(self._store, self._key)
            check_log(self._store, self._log_key, has_log=settings.log is not None)
            if settings.testing is not None:
                _check_only_tests(self._store)
            if settings.tokens is None:
                _check_no_tokens(self._store)
        except BaseException:
            self._store.close()
            raise
        limits = IngestLimits()
        # What a relay may send must find room, or it would be told for ever to come later.
        room = 2 * max(settings.limits.deposit_bytes, settings.limits.batch_bytes)
        self.ingest_limits = replace(limits, content_bytes=max(limits.content_bytes, room))

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()
        self._shelf.close()
        self._held.close()

    async def run(self, stop: asyncio.Event) -> None:
        settings, grid = self._settings, self._settings.epochs.grid
        receipts = Receipts(self._shelf, store=self._store, grid=grid)
        publisher = Publisher(self._store, self._public, further=receipts.find)
        redeemer = Redeemer(self._token_seed)
        ingest = Ingest(
            self._store,
            self._clock,
            metrics=self._metrics,
            log=self.log,
            limits=self.ingest_limits,
            redeemer=redeemer,
        )
        gateway = Gateway(dice=os.urandom, public=publisher.public, date=http_date(self._clock), redeemer=redeemer)
        packages = PackageRoutes(
            gateway,
            ingest,
            self._clock,
            tokens=[bytes.fromhex(relay.token_sha256) for relay in settings.relays],
            anybody=settings.gateway.anybody,
            tests=settings.testing is not None,
        )
        keeping = self._log_keeping(publisher)
        driver = Driver(
            store=self._store,
            ingest=ingest,
            publisher=publisher,
            clock=self._clock,
            key=self._key,
            grid=grid,
            dice=os.urandom,
            log=self.log,
            metrics=self._metrics,
            update=packages.update,
            receipts=receipts,
            veil=None if keeping is None else keeping.files,
            redeemer=redeemer,
        )
        if keeping is not None:
            keeping.woken = driver.wake
        admin = None
        if self._admin_sha256 is not None:
            admin = Admin(
                store=self._store,
                key=self._key,
                admin_sha256=self._admin_sha256,
                grid=grid,
                clock=self._clock,
                dice=os.urandom,
                wake=driver.wake,
                only_tests=settings.testing is not None,
                log=self._terms,
                newest=self._newest_pulse,
                redeems=redeemer.can,
            )
        routes = Routes(
            packages=packages,
            administration=admin,
            publisher=publisher,
            metrics=self._metrics,
            log_health=None if keeping is None else keeping.logbook.health,
        )
        server = HttpServer(
            routes.handle,
            limits=settings.limits.server_limits(
                # A few deposits at a time must find room.
                receiving_bytes=max(settings.limits.receiving_bytes, 4 * settings.limits.deposit_bytes)
            ),
            body_limits={
                **BODY_LIMITS,
                "/v1/batch": settings.limits.batch_bytes,
                "/v1/deposit": settings.limits.deposit_bytes,
                "/admin/experiments": _ADMIN_BODY_BYTES,
            },
            date=http_date(self._clock),
            refusals={413: too_large()},
            before_body=routes.before_body,
        )
        ingest.start()
        # Before the first request: what runs and what is public is known, whatever the driver still has to do.
        driver.prepare()
        port = await server.start(settings.listen.host, settings.listen.port)
        self.log.tell("listening", port=port, test=settings.testing is not None)
        tasks = [asyncio.create_task(driver.run(stop))]
        if keeping is not None:
            tasks.append(asyncio.create_task(keeping.run(stop)))
        try:
            # If one of them fails, so does the process: whoever runs it starts it again.
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.log.tell("stopping")
            await server.drain()
            await ingest.close()
            self.close()

    def _log_keeping(self, publisher: Publisher) -> LogKeeping | None:
        if self._terms is None:
            return None
        return LogKeeping(
            store=self._store,
            publisher=publisher,
            key=self._log_key,
            terms=self._terms,
            witnesses=[witness.address for witness in self._settings.witnesses],
            source=self._beacons,
            clock=self._clock,
            log=self.log,
            metrics=self._metrics,
        )

    def _newest_pulse(self) -> NewestPulse | None:
        try:
            return NewestPulse(*self._beacons.newest_pulse(NIST_CHAIN))
        except (BeaconUnavailableError, BadBeaconError):
            return None


def _check_folders(state: Path, public: Path | None) -> None:
    """A static server shows all of the public folder: the gateway's keys must not lie in it."""
    if public is None:
        return
    one, other = state.resolve(), public.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise BadInputError("the public folder and the state folder must not lie in each other")


def _key_in(path: Path) -> SigningKey:
    """A key that signs; made on first start."""
    if not path.exists():
        make_secret(path, os.urandom(SEED_BYTES))
    return SigningKey(read_secret(path, shortest=SEED_BYTES))


def _beacons(settings: CoordinatorSettings, folder: Path, clock: Clock) -> WebBeacons:
    told = settings.beacons
    try:
        issuers = b"" if told.issuers is None else (folder / told.issuers).read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {told.issuers}: {error.strerror or 'input/output error'}") from None
    return WebBeacons(clock, nist_url=told.nist_url, drand_urls=told.drand_urls, issuers=issuers)


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


def _check_grid(state: Path, settings: CoordinatorSettings) -> None:
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
    for one in store.experiments():
        document = ExperimentDocument.from_bytes(Envelope.from_bytes(one.envelope).payload)
        if key.public not in document.coordinator_keys:
            raise BadInputError(f"the signing key is not the one of the experiments here; {KEY_FILE} must be restored")


def _check_no_tokens(store: CoordinatorStore) -> None:
    for one in store.experiments():
        if one.standing in (Standing.FINISHED, Standing.STOPPED):
            continue
        if ExperimentDocument.from_bytes(Envelope.from_bytes(one.envelope).payload).tokens is not None:
            raise BadInputError("an experiment here has tokens, and [tokens] is not in the settings")


def _check_only_tests(store: CoordinatorStore) -> None:
    for one in store.experiments():
        if not ExperimentDocument.from_bytes(Envelope.from_bytes(one.envelope).payload).test:
            raise BadInputError("a steered clock is for test experiments alone, and this coordinator has another")
