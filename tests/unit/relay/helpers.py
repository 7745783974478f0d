"""A relay on real sockets, a clock that stands where it is put, and a client that says what it is told to."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secvm.crypto.sealing.capsules import unpack
from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.signing import SigningKey
from secvm.relay.main import RelayService
from secvm.relay.setting_up import make_key
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.clock import ClockSteering, SteeredClock
from secvm.runtime.disk.secret_files import make_secret, read_signing_key
from secvm.runtime.settings import read_settings, settings_text
from secvm.testing.gateway import FakeGateway, GatewayRequest, Reply
from tests.rigs.clocks import jump
from tests.rigs.services import service_running

TOKEN = "a-token-of-the-relay"
#: What experiments would call it.
URL = "https://relay.example/relay"
CAPSULE_TYPE = {"content-type": "message/ohttp-req"}
#: Slots of a minute, deposited after forty seconds.
PERIOD_MS, DEPOSIT_MS = 60_000, 40_000


def capsule(number: int, size: int = 120, *, epoch: int = 10) -> bytes:
    """Bytes that are long enough to be one, under the key of this epoch; no two have a part in common but this id, and
    none is found in a file by chance.
    """
    return bytes([epoch % 256]) + number.to_bytes(7, "big") + hashlib.shake_256(b"%d" % number).digest(size - 8)


def traces(number: int, data: bytes) -> bool:
    """Whether anything of that capsule is in these bytes; a file may have it in pieces."""
    whole = capsule(number)
    return any(whole[at : at + 16] in data for at in range(8, len(whole) - 15, 16))


@dataclass
class Place:
    """A folder with everything that a relay needs."""

    folder: Path
    now: int = 10 * PERIOD_MS
    steering: ClockSteering = field(init=False)
    key: SigningKey = field(init=False)

    def __post_init__(self) -> None:
        self.steering = ClockSteering(self.folder / "clock", now=self.now, limit=self.now)
        make_secret(self.folder / "token", TOKEN.encode())
        make_key(self.folder / "key")
        self.key = read_signing_key(self.folder / "key")

    def go_to(self, now: int) -> None:
        """Let it be that time."""
        jump(self.steering, now)

    def settings_file(self, url: str, *, holds: bool = True, **changes: Mapping[str, Any]) -> Path:
        """``holds``: packages of plain experiments, and not fetches alone."""
        tables: dict[str, dict[str, Any]] = {
            "listen": {"port": 0},
            "gateway": {"url": url, "token_file": self.folder / "token", "retry_ms": 1},
            "epochs": {"period_s": PERIOD_MS // 1000, "deposit_after_s": DEPOSIT_MS // 1000},
            "clients": {"known_by": "address"},
            "limits": {},
            "testing": {"clock": self.folder / "clock"},
        }
        if holds:
            tables |= {"store": {"path": self.folder / "store.db"}, "signing": {"key_file": self.folder / "key"}}
        for name, table in changes.items():
            tables[name] = {**tables.get(name, {}), **table}
        path = self.folder / "relay.toml"
        path.write_text(settings_text(tables), encoding="utf-8")
        return path

    def files(self) -> bytes:
        """Every byte of every file of the store."""
        return self.files_in(self.folder)

    @staticmethod
    def files_in(folder: Path) -> bytes:
        return b"".join(file.read_bytes() for file in sorted(folder.glob("store.db*")))


class RolePlace(Place):
    """A relay with a role in rounds of two relays."""

    def settings_file(self, url: str, *, holds: bool = False, **changes: Mapping[str, Any]) -> Path:
        rounds = {"role": "entry", "operator": "Us", "folder": self.folder / "r", "secrets": self.folder / "memory"}
        more: dict[str, Any] = {"signing": {"key_file": self.folder / "key"}, "relay": {"url": URL}, "rounds": rounds}
        path = super().settings_file(url, holds=holds, **more, **changes)
        told = f'[[coordinators]]\nurl = "{url}"\ntoken_file = "{self.folder / "token"}"\n'
        path.write_text(path.read_text(encoding="utf-8") + told, encoding="utf-8")
        return path


class Heard(io.StringIO):
    """A log that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def write(self, text: str) -> int:
        self._more.set()
        return super().write(text)

    async def wait_for(self, line: str) -> None:
        """Return when it has been said."""
        while line not in self.getvalue():
            self._more.clear()
            await self._more.wait()


@dataclass
class Running:
    """A relay that serves."""

    port: int
    stop: asyncio.Event
    relay: RelayService
    log: Heard


@asynccontextmanager
async def running(place: Place, url: str, *, dice: RandomBytes = os.urandom, **changes: Any) -> AsyncIterator[Running]:
    """A relay, until the block ends; then it has drained."""
    settings = read_settings(place.settings_file(url, **changes), RelayServiceSettings)
    log = Heard()
    clock = SteeredClock(place.folder / "clock")
    relay = RelayService(settings, clock=clock, steady=clock, dice=dice, log_to=log)
    async with service_running(relay.run) as (port, stop):
        yield Running(port, stop, relay, log)


@asynccontextmanager
async def behind(
    place: Place, answer: Callable[[GatewayRequest], Reply] | Reply | None = None, **changes: Any
) -> AsyncIterator[tuple[FakeGateway, Running]]:
    """A gateway that answers so, and a relay before it."""
    always = (lambda _seen: answer) if isinstance(answer, Reply) else answer
    async with FakeGateway(always) as gateway, running(place, gateway.url, **changes) as relay:
        yield gateway, relay


@dataclass
class Answered:
    status: int
    fields: dict[str, str]
    body: bytes


async def ask(
    port: int,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    source: str = "127.0.0.1",
) -> Answered:
    """One request on a connection of its own, from this address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        fields = {"host": "127.0.0.1", "content-length": str(len(body)), **(headers or {})}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(head.encode("latin-1") + b"\r\n" + body)
        return await read_answer(reader)
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> Answered:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
    content = await reader.readexactly(int(fields.get("content-length", "0")))
    return Answered(int(lines[0].split(" ")[1]), fields, content)


async def send(
    port: int, content: bytes, *, source: str = "127.0.0.1", headers: Mapping[str, str] | None = None, path: str = ""
) -> Answered:
    """A capsule to the relay."""
    return await ask(port, "POST", f"/relay{path}", content, {**CAPSULE_TYPE, **(headers or {})}, source=source)


async def fetch(port: int, content: bytes, **told: Any) -> Answered:
    """A capsule with a fetch to the relay; ``told``: as ``send`` takes it."""
    return await send(port, content, path="/fetch", **told)


def taken_apart(deposit: bytes) -> tuple[bytes, list[bytes]]:
    """The envelope of the count, and the capsules."""
    length = int.from_bytes(deposit[:4], "little")
    return deposit[4 : 4 + length], unpack(deposit[4 + length :])
