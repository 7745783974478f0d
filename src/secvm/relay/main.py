"""The relay as a process: here real dice, a real clock, keys and the store are picked, and put together.

On SIGTERM: no new connections; what is held is handed on at once, what is under way is answered; in mode round
everything that was answered is on the disk, and a deposit that was not acknowledged is sent again after the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TextIO

from secvm.crypto.capsules import MEDIA_TYPE
from secvm.crypto.kem import RandomBytes
from secvm.crypto.signing import SEED_BYTES, SigningKey, VerifyKey
from secvm.crypto.tokens import SEED_BYTES as TOKEN_SEED_BYTES
from secvm.errors import BadInputError
from secvm.relay.admission import Admission, Allowance, Identify, by_address, by_credential
from secvm.relay.deposits import MOST_BESIDE, Depositor
from secvm.relay.epochs import Epochs
from secvm.relay.forwarding import GatewayClient
from secvm.relay.issuing import Issuing
from secvm.relay.modes import DEPOSIT_PATH, Forward, Interval, Mode, Round, Turnstile
from secvm.relay.refusals import too_large, try_later
from secvm.relay.server import Doors
from secvm.relay.settings import RelaySettings
from secvm.relay.store import RoundStore
from secvm.runtime.clock import Clock, SteeredClock, SystemClock
from secvm.runtime.http_server import HttpServer
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.only_one import only_one
from secvm.runtime.passphrases import Passphrase
from secvm.runtime.secret_files import make_secret, read_secret, read_token_seed
from secvm.runtime.service import run_service
from secvm.runtime.settings import read_settings

_HEX_KEY = re.compile(rb"[0-9a-f]{64}\n?")
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{16,512}")


def make_key(path: Path, dice: RandomBytes = os.urandom) -> VerifyKey:
    """A new signing key in a new file, which only its owner can read."""
    key = SigningKey(dice(SEED_BYTES))
    make_secret(path, key.seed.hex().encode() + b"\n")
    return key.public


def read_key(path: Path, passphrase: Passphrase | None = None) -> SigningKey:
    """The key that ``make_key`` wrote."""
    data = read_secret(path, passphrase=passphrase)
    if not _HEX_KEY.fullmatch(data):
        raise BadInputError(f"{path} is no signing key", next_step="'secvm relay key' makes one.")
    return SigningKey(bytes.fromhex(data.decode()))


def make_token_seed(path: Path, dice: RandomBytes = os.urandom) -> None:
    """A new seed of token keys in a new file, which only its owner can read."""
    make_secret(path, dice(TOKEN_SEED_BYTES).hex().encode() + b"\n")


def secret_files(settings: RelaySettings) -> list[Path]:
    """What a passphrase can be put on."""
    key = None if settings.signing is None else settings.signing.key_file
    seed = None if settings.tokens is None else settings.tokens.seed_file
    return [path for path in (key, settings.gateway.token_file, seed) if path is not None]


def serve(path: Path, passphrase: Passphrase | None = None) -> None:
    """Run the relay that these settings describe, until somebody says stop."""
    settings = read_settings(path, RelaySettings)
    clock: Clock = SystemClock()
    if settings.testing.clock is not None:
        try:
            clock = SteeredClock(settings.testing.clock)
        except (OSError, ValueError):
            raise BadInputError("testing.clock names no file that steers a clock") from None
    with contextlib.ExitStack() as held:
        if settings.relay.mode == "round" and settings.store is not None:
            store = settings.store.path
            held.enter_context(only_one(store.with_name(f"{store.name}.lock"), "relay"))
        relay = Relay(settings, clock=clock, dice=os.urandom, log_to=sys.stderr, passphrase=passphrase)
        run_service(relay.run, log=relay.log)


class Relay:
    """One relay, put together from its settings; files that are missing or wrong are told of here."""

    def __init__(
        self,
        settings: RelaySettings,
        *,
        clock: Clock,
        dice: RandomBytes,
        log_to: TextIO,
        passphrase: Passphrase | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._dice = dice
        self.log = Log(log_to, clock, "relay")
        self._metrics = Metrics("relay")
        self._epochs = Epochs.of(settings.epochs)
        clients, limits = settings.clients, settings.limits
        # In mode round all of it is handed on at once.
        room = limits.deposit_bytes - MOST_BESIDE if settings.relay.mode == "round" else 2**62
        allowance = Allowance(clients.quota, clients.fetches, limits.clients, limits.capsules, room)
        self._identify = _identify(settings)
        token_file = settings.gateway.token_file
        self._token = None if token_file is None else _read_token(token_file, passphrase)
        self._issuing: Issuing | None = None
        self._key: SigningKey | None = None
        self._store: RoundStore | None = None
        if settings.relay.mode == "round":
            assert settings.store is not None
            assert settings.signing is not None
            self._key = read_key(settings.signing.key_file, passphrase)
            self._store = RoundStore(settings.store.path, dice)
            if not self._store.keep_grid(self._epochs.origin, self._epochs.period):
                self._store.close()
                # What was sealed under other numbers would shut out epochs to come, or open some that are over.
                raise BadInputError(
                    "epochs.origin_ms and epochs.period_s are others than this store began with",
                    next_step="Set them back, or name another file as store.path.",
                )
            if settings.tokens is not None:
                self._issuing = Issuing(
                    read_token_seed(settings.tokens.seed_file, passphrase=passphrase),
                    quota=settings.tokens.quota,
                    store=self._store,
                    dice=dice,
                    metrics=self._metrics,
                    retry_after_s=limits.retry_after_s,
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
        self.log.tell("stopped")

    async def _serve(self, gateway: GatewayClient, stop: asyncio.Event, listening: Callable[[int], None]) -> None:
        settings, limits = self._settings, self._settings.limits
        mode, turnstile = self._mode(gateway)
        doors = Doors(
            settings.relay.path,
            mode,
            turnstile,
            gateway,
            admission=self._admission,
            identify=self._identify,
            clock=self._clock,
            metrics=self._metrics,
            capsule_bytes=limits.capsule_bytes,
            retry_after_s=limits.retry_after_s,
            kind=settings.relay.mode,
            floor=settings.clients.floor if settings.relay.mode == "round" else None,
            epochs=self._epochs if settings.relay.mode == "round" else None,
            issuing=self._issuing,
        )
        issuing = self._issuing
        server = HttpServer(
            doors.handle,
            body_limits={} if issuing is None else {f"{settings.relay.path}/tokens": issuing.body_bytes},
            # A proxy of ours is one address for everybody behind it.
            limits=limits.server_limits(body_bytes=limits.capsule_bytes, also_exempt=settings.clients.proxies),
            refusals={413: too_large()},
        )
        async with self._depositing(gateway, mode, stop):
            # Before anybody waits: an epoch that had begun is read from the disk.
            self._admission.table(self._clock.now())
            port = await server.start(settings.listen.host, settings.listen.port)
            self.log.tell("listening", port=port, mode=settings.relay.mode)
            listening(port)
            await stop.wait()
            self.log.tell("draining", connections=len(server.connections))
            doors.draining = True
            await asyncio.gather(server.drain(), mode.flush())
            await mode.close()

    def _mode(self, gateway: GatewayClient) -> tuple[Mode, Turnstile]:
        limits, later_s = self._settings.limits, self._settings.limits.retry_after_s
        turnstile = Turnstile(gateway, limits.forwards, lambda: try_later(later_s))
        if self._store is not None:
            return Round(self._store, waiting=limits.waiting, retry_after_s=later_s), turnstile
        if self._settings.relay.mode == "interval":
            interval_ms = self._settings.relay.interval_ms
            held = Interval(
                gateway,
                self._dice,
                interval_ms=interval_ms,
                waiting=limits.waiting,
                batch_bytes=limits.batch_bytes,
                retry_after_s=later_s,
            )
            return held, turnstile
        return Forward(turnstile, retry_after_s=later_s), turnstile

    @contextlib.asynccontextmanager
    async def _depositing(self, gateway: GatewayClient, mode: Mode, stop: asyncio.Event) -> AsyncIterator[None]:
        """Mode round: deposit on time, while the block runs. Should that fail, nothing more is taken either."""
        if self._store is None or self._key is None:
            yield
            return

        async def close(epoch: int) -> None:
            self._admission.lowest = max(self._admission.lowest, epoch)
            await mode.flush()

        async def send(body: bytes) -> int:
            timeout_s = self._settings.gateway.deposit_timeout_s
            return await gateway.hand_on(DEPOSIT_PATH, body, MEDIA_TYPE, timeout_s=timeout_s)

        depositor = Depositor(
            self._store,
            self._epochs,
            clock=self._clock,
            dice=self._dice,
            key=self._key,
            floor=self._settings.clients.floor,
            close=close,
            send=send,
            log=self.log,
            metrics=self._metrics,
            first_pause_s=self._settings.gateway.retry_ms / 1000,
        )
        task = asyncio.get_running_loop().create_task(depositor.run())
        task.add_done_callback(lambda _task: stop.set())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _identify(settings: RelaySettings) -> Identify:
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
    try:
        lines = path.read_bytes().split()
    except OSError as error:
        raise BadInputError(f"cannot read {path}: {error.strerror or 'input/output error'}") from None
    if not all(re.fullmatch(rb"[0-9a-f]{64}", line) for line in lines):
        raise BadInputError(f"{path} has a line that is no SHA-256 in hex")
    return frozenset(bytes.fromhex(line.decode()) for line in lines)


def _read_token(path: Path, passphrase: Passphrase | None) -> str:
    token = read_secret(path, passphrase=passphrase).strip()
    if not _TOKEN.fullmatch(token):
        raise BadInputError(f"{path} is no token: 16 to 512 letters, digits and ._~+/=-")
    return token.decode()
