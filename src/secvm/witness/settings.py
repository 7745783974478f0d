"""The witness's settings, as its TOML file has them. docs/how-to/run-a-witness.md shows a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from secvm.crypto.signing import VerifyKey
from secvm.errors import ProtocolError
from secvm.runtime.http_limits import HttpLimits
from secvm.runtime.settings import Settings

Count = Annotated[int, Field(ge=1)]


class Listen(Settings):
    """``[listen]``: where logs, and those who compare, come."""

    #: A name or an address of this machine. TLS is the work of a proxy in front.
    host: str = "127.0.0.1"
    #: 0: any free one; the log's first line says which.
    port: int = Field(default=8490, ge=0, le=65535)


class Identity(Settings):
    """``[witness]``: who cosigns."""

    #: As it stands under checkpoints and in experiments (docs/protocol.md §20.4): a host and a path, say.
    name: str = Field(pattern=r"^[!-*,-~]{1,200}$")
    #: Made by ``secvm witness key``.
    key_file: Path


class Store(Settings):
    """``[store]``: what was cosigned."""

    #: A SQLite database of the witness's own, made by ``secvm witness key``. Never an older copy of it.
    path: Path


class KnownLog(Settings):
    """``[[logs]]``: whose checkpoints are looked at."""

    #: Host and path: the log's origin is ``name/secvm/v2``.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*$", max_length=200)
    #: The log's Ed25519 key in hexadecimal.
    key: str = Field(pattern=r"^[0-9a-f]{64}$")

    @field_validator("key")
    @classmethod
    def _binds_its_owner(cls, key: str) -> str:
        try:
            VerifyKey(bytes.fromhex(key))
        except ProtocolError:
            raise ValueError("should be a key that only the log can sign for: ask its owner for it again") from None
        return key


class Limits(HttpLimits):
    """``[limits]``: what the witness puts up with."""

    #: Open connections: few have a reason to come.
    connections: Count = 1000
    #: Bytes of one request; a larger one is answered 413.
    request_bytes: int = Field(default=2**16, ge=2**12, le=2**18)
    #: Requests that wait for the disk; further ones: 503.
    waiting: Count = 1000
    #: What ``retry-after`` says in a 503, seconds.
    retry_after_s: Count = 5


class Testing(Settings):
    """``[testing]``: not for people's packages."""

    #: A file that steers the clock (``runtime.clock.SteeredClock``).
    clock: Path | None = None


class WitnessSettings(Settings):
    """All of it."""

    listen: Listen = Listen()
    witness: Identity
    store: Store
    logs: tuple[KnownLog, ...] = Field(min_length=1)
    limits: Limits = Limits()
    testing: Testing = Testing()

    @model_validator(mode="after")
    def _each_once(self) -> WitnessSettings:
        if len({log.name for log in self.logs}) != len(self.logs):
            raise ValueError("a log stands there twice")
        return self
