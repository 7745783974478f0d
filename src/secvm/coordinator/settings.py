"""A coordinator's settings, from one TOML file. Folders are relative to the file.

    [listen]
    host = "127.0.0.1"              # a reverse proxy with TLS stands before it
    port = 8750                     # 0: any that is free; the log says which

    [state]
    folder = "state"                # the store, the signing key, the hash of the admin key

    [public]
    folder = "public"               # what everybody may see, as static files

    [epochs]                        # the grid (docs/protocol.md §19.1); fixed once the first experiment is made
    period_s = 3600
    lead_s = 300
    origin_ms = 0

    [[relays]]                      # who may hand batches on
    name = "relay.example"
    token_sha256 = "…"              # SHA-256 of the relay's token, in hexadecimal

    [gateway]
    anybody = false                 # true: single capsules (/v1/gateway) also from relays without a token, as RFC 9458
                                    # allows; nobody's quota and no floor on clients holds for what comes that way

    [limits]
    connections = 10000
    batch_bytes = 4194304           # of a relay's batch
    deposit_bytes = 67108864        # of a relay's whole epoch: 500,000 packages

    [testing]
    clock = "clock"                 # a steered clock; then only experiments marked as a test may run

A key that is not here is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

import pydantic

from secvm.coordinator.epochs import Grid
from secvm.runtime.settings import Settings


def _check_sha256(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("should be a SHA-256: 64 hexadecimal digits in lower case")
    return text


Sha256 = Annotated[str, pydantic.AfterValidator(_check_sha256)]
Positive = Annotated[int, pydantic.Field(ge=1)]


class ListenPart(Settings):
    """Where requests arrive."""

    host: str = "127.0.0.1"
    port: Annotated[int, pydantic.Field(ge=0, le=65_535)] = 8750


class FolderPart(Settings):
    """A folder."""

    folder: Path


class EpochsPart(Settings):
    """The grid."""

    period_s: Positive
    lead_s: Annotated[int, pydantic.Field(ge=0)]
    origin_ms: Annotated[int, pydantic.Field(ge=0)] = 0

    @pydantic.model_validator(mode="after")
    def _leaves_time_for_a_window(self) -> Self:
        if self.lead_s >= self.period_s:
            raise ValueError("lead_s leaves no time for a window: it must be less than period_s")
        return self

    @property
    def grid(self) -> Grid:
        """As the driver takes it."""
        return Grid(period_s=self.period_s, lead_s=self.lead_s, origin_ms=self.origin_ms)


class RelayPart(Settings):
    """A relay that may hand batches on."""

    name: str
    token_sha256: Sha256


class GatewayPart(Settings):
    """Who may bring single capsules."""

    #: Not only relays with a token.
    anybody: bool = False


class LimitsPart(Settings):
    """What it puts up with."""

    #: Open connections.
    connections: Positive = 10_000
    #: Of a relay's whole epoch: 2^26 bytes are 500,000 packages.
    deposit_bytes: Positive = 2**26
    #: Of a relay's batch.
    batch_bytes: Positive = 2**22


class TestingPart(Settings):
    """For tests alone."""

    #: The file of a steered clock.
    clock: Path


class CoordinatorSettings(Settings):
    """All of them."""

    state: FolderPart
    epochs: EpochsPart
    listen: ListenPart = ListenPart()
    public: FolderPart | None = None
    relays: tuple[RelayPart, ...] = ()
    gateway: GatewayPart = GatewayPart()
    limits: LimitsPart = LimitsPart()
    testing: TestingPart | None = None


#: What ``secvm coordinator init`` writes.
EXAMPLE = """\
# Settings of a SecVM coordinator. Folders are relative to this file.

[listen]
host = "127.0.0.1"      # a reverse proxy with TLS stands before it
port = 8750

[state]
folder = "state"        # store, signing key, hash of the admin key: for nobody else; back up signing.key alone

[public]
folder = "public"       # what everybody may see, as static files

[epochs]                # the grid on which windows open; fixed once the first experiment is made
period_s = 3600         # a window may open every so many seconds
lead_s = 300            # the time in which devices fetch the next manifest

# Relays that may hand batches on: SHA-256 of each one's token, in hexadecimal.
# [[relays]]
# name = "relay.example"
# token_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""
