"""The relay as a process: here real dice, a real clock, keys and the store are picked, and put together.

On SIGTERM: no new connections; what is under way is answered. Every package that was answered is on the disk, and a
deposit that was not acknowledged is sent again after the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError
from secvm.files import or_bad_input
from secvm.relay.admission import Admission, Allowance, Epochs, Identify, by_address, by_credential
from secvm.relay.batches.doors import RoleDoors
from secvm.relay.deposits import MOST_BESIDE, Depositor
from secvm.relay.gateway import FetchKeys, GatewayClient, Turnstile
from secvm.relay.refusals import problem, try_later
from secvm.relay.role import Role, make_own_folder
from secvm.relay.server import FetchDoors
from secvm.relay.settings import RelayServiceSettings
from secvm.relay.store import Holding, RoundStore
from secvm.runtime.clock import Clock, SteadyClock, SteeredClock, SystemClock
from secvm.runtime.disk.process_lock import FILE, only_one
from secvm.runtime.disk.secret_files import Passphrase, read_secret, read_signing_key
from secvm.runtime.http.server import Handler, HttpRequest, HttpResponse, HttpServer
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import run_service
from secvm.runtime.settings import read_settings

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{16,512}")


def secret_files(settings: RelayServiceSettings) -> list[Path]:
    """What a passphrase can be put on."""
    keys = [] if settings.signing is None else [settings.signing.key_file]
    return [*keys, settings.gateway.token_file, *(coordinator.token_file for coordinator in settings.coordinators)]


def serve(path: Path, passphrase: Passphrase | None = None) -> None:
    """Run the relay that these settings describe, until somebody says stop."""
    settings = read_settings(path, RelayServiceSettings)
    clock: Clock = SystemClock()
    steady: Clock = SteadyClock()
    if settings.testing.clock is not None:
        clock = steady = SteeredClock(settings.testing.clock)
    with contextlib.ExitStack() as held:
        if settings.store is not None:
            store = settings.store.path
            held.enter_context(only_one(store.with_name(f"{store.name}.lock"), "relay"))
        if settings.rounds is not None:
            # Both: neither two processes with one disk nor two with one memory may hold a label.
            for folder in (settings.rounds.folder, settings.rounds.secrets):
                make_own_folder(folder)
                held.enter_context(only_one(folder / FILE, "relay"))
        relay = RelayService(
            settings, clock=clock, steady=steady, dice=os.urandom, log_to=sys.stderr, passphrase=passphrase
        )
        run_service(relay.run, log=relay.log)


class RelayService:
    """One relay, put together from its settings; files that are missing or wrong are told of here."""

    def __init__(
        self,
        settings: RelayServiceSettings,
        *,
        clock: Clock,
        steady: Clock,
        dice: RandomBytes,
        log_to: TextIO,
        passphrase: Passphrase | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._dice = dice
        self.log = Log(log_to, clock, "relay")
        self._metrics = Metrics("relay")
        self._epochs = Epochs.of(settings.epochs)
        clients, limits = settings.clients, settings.limits
        # All of it is handed on at once.
        room = limits.deposit_bytes - MOST_BESIDE
        allowance = Allowance(
            clients.quota, clients.fetches, limits.clients, limits.capsules, room, clients.network_quota
        )
        self._identify = _identify(settings)
        self._token = _read_token(settings.gateway.token_file, passphrase)
        self._key: SigningKey | None = None
        self._store: RoundStore | None = None
        if settings.store is not None:
            assert settings.signing is not None
            self._key = read_signing_key(settings.signing.key_file, passphrase)
            self._store = RoundStore(settings.store.path, dice)
            if not self._store.keep_grid(self._epochs.origin, self._epochs.period):
                self._store.close()
                # What was sealed under other numbers would shut out epochs to come, or open some that are over.
                raise BadInputError(
                    "epochs.origin_ms and epochs.period_s are others than this store began with",
                    next_step="Set them back, or name another file as store.path.",
                )
        self._role: Role | None = None
        if settings.rounds is not None:
            assert settings.signing is not None
            self._role = Role(
                settings,
                read_signing_key(settings.signing.key_file, passphrase),
                tokens={part.url: _read_token(part.token_file, passphrase) for part in settings.coordinators},
                identify=self._identify,
                clock=clock,
                steady=steady,
                dice=dice,
                log=self.log,
                metrics=self._metrics,
            )
        # Quotas and clients of the epoch that a restart fell into are as they were.
        begun = (lambda _epoch: None) if self._store is None else self._store.read
        self._admission = Admission(self._epochs, allowance, dice, begun)
        self._admission.lowest = 0 if self._store is None else self._store.sealed() + 1

    async def run(self, stop: asyncio.Event, listening: Callable[[int], None] | None = None) -> None:
        """Serve until ``stop`` is set, then drain. ``listening`` is told the port."""
        gateway = GatewayClient(
            self._settings.gateway.url,
            token=self._token,
            timeout_s=self._settings.gateway.timeout_s,
            answer_bytes=self._settings.limits.answer_bytes,
        )
        try:
            async with gateway:
                await self._serve(gateway, stop, listening or (lambda _port: None))
        finally:
            if self._store is not None:
                self._store.close()
            if self._role is not None:
                self._role.close()
        self.log.tell("stopped")

    async def _serve(self, gateway: GatewayClient, stop: asyncio.Event, listening: Callable[[int], None]) -> None:
        settings, limits = self._settings, self._settings.limits
        later_s = limits.retry_after_s
        holding = None
        if self._store is not None:
            holding = Holding(self._store, self._admission, waiting=limits.waiting, retry_after_s=later_s)
        doors = FetchDoors(
            settings.relay.path,
            holding,
            Turnstile(gateway, limits.forwards, lambda: try_later(later_s)),
            FetchKeys(
                gateway,
                self._epochs,
                self._clock,
                self._metrics,
                self._store if self._role is None else self._role.keys,
            ),
            admission=self._admission,
            identify=self._identify,
            clock=self._clock,
            metrics=self._metrics,
            package_bytes=limits.package_bytes,
            capsule_bytes=limits.capsule_bytes,
            retry_after_s=later_s,
            role=settings.role,
        )
        body_limits = {settings.relay.path: limits.package_bytes}
        async with contextlib.AsyncExitStack() as held:
            handle: Handler = doors.handle
            body_bytes = limits.capsule_bytes
            if self._role is not None:
                handle = _first_by(
                    await held.enter_async_context(self._role.serving(settings.relay.path)), doors.handle
                )
                body_bytes = self._role.body_bytes
                body_limits |= {f"{settings.relay.path}/fetch": limits.capsule_bytes}
            server = HttpServer(
                handle,
                body_limits=body_limits,
                # A proxy of ours is one address for everybody behind it.
                limits=limits.server_limits(body_bytes=body_bytes, also_exempt=settings.clients.proxies),
                refusals={413: problem("too-large")},
                # A browser cannot ask for a connection of its own, and keeps those that it may keep.
                closed_after=tuple(f"{settings.relay.path}/{door}" for door in ("fetch", "submit/", "tokens/")),
            )
            if holding is not None:
                await held.enter_async_context(self._depositing(gateway, holding, stop))
            # Before anybody waits: an epoch that had begun is read from the disk.
            self._admission.table(self._clock.now())
            port = await server.start(settings.listen.host, settings.listen.port)
            self.log.tell("listening", port=port, kind=settings.role)
            listening(port)
            await stop.wait()
            self.log.tell("draining", connections=len(server.connections))
            doors.draining = True
            await asyncio.gather(server.drain(), *([] if holding is None else [holding.flush()]))
            if holding is not None:
                await holding.close()

    @contextlib.asynccontextmanager
    async def _depositing(self, gateway: GatewayClient, holding: Holding, stop: asyncio.Event) -> AsyncIterator[None]:
        """Deposit on time, while the block runs. Should that fail, nothing more is taken either."""
        assert self._key is not None
        depositor = Depositor(
            holding,
            self._epochs,
            gateway,
            clock=self._clock,
            steady=self._steady,
            key=self._key,
            log=self.log,
            metrics=self._metrics,
            first_pause_s=self._settings.gateway.retry_ms / 1000,
            timeout_s=self._settings.gateway.deposit_timeout_s,
        )
        task = asyncio.get_running_loop().create_task(depositor.run())
        task.add_done_callback(lambda _task: stop.set())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _first_by(role: RoleDoors[Any], others: Handler) -> Handler:
    """The doors of a role, and behind them all others."""

    def handle(request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return role.handle(request) or others(request)

    return handle


def _identify(settings: RelayServiceSettings) -> Identify:
    clients = settings.clients
    if clients.known_by == "credential":
        if clients.credentials_file is None:
            return by_credential(None)
        return by_credential(_read_credentials(clients.credentials_file))
    try:
        return by_address(
            header=clients.address_header, proxies=clients.proxies, first_64=clients.known_by == "address-64"
        )
    except ValueError:
        raise BadInputError("clients.proxies are addresses") from None


def _read_credentials(path: Path) -> frozenset[bytes]:
    with or_bad_input(f"cannot read {path}"):
        lines = path.read_bytes().split()
    if not all(re.fullmatch(rb"[0-9a-f]{64}", line) for line in lines):
        raise BadInputError(f"{path} has a line that is no SHA-256 in hex")
    return frozenset(bytes.fromhex(line.decode()) for line in lines)


def _read_token(path: Path, passphrase: Passphrase | None) -> str:
    token = read_secret(path, passphrase=passphrase).strip()
    if not _TOKEN.fullmatch(token):
        raise BadInputError(f"{path} is no token: 16 to 512 letters, digits and ._~+/=-")
    return token.decode()
