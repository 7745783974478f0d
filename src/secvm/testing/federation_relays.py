"""The two relays of a federation with cover: their settings files, and how experiments and devices are told of them.

Each has a folder of its own, a token that only the coordinator shares, and dice that follow from a seed: the cover of
every round can be drawn again from what is published (``estimator.round_cover``). So they serve test experiments alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.relay.main import make_key
from secvm.runtime.disk.secret_files import make_secret

#: Names of their processes, which are their roles.
ENTRY, MIX = "entry", "mix"
ROLES = (ENTRY, MIX)
#: Seconds of the machine: for a manifest, and after something that could not be handed on.
_POLL_S, _RETRY_MS = 0.1, 50


def cover_seeds(seed: str) -> tuple[str, str]:
    """What the dice of the entry relay and of the mixing relay are seeded with."""
    return f"{seed}, {ENTRY} relay", f"{seed}, {MIX} relay"


@dataclass(frozen=True, slots=True)
class RoleRelay:
    """One of them, as everybody else knows it."""

    role: str
    url: str
    #: That signs its statements, in hexadecimal.
    key: str
    token: str

    @property
    def operator(self) -> str:
        """Who runs it."""
        return f"Operator of the {self.role} relay"

    def specified(self) -> dict[str, str]:
        """As an operator names it in a specification."""
        return {"role": self.role, "url": self.url, "key": self.key, "operator": self.operator}

    def trusted(self) -> dict[str, str]:
        """As a person names it in the device's settings."""
        return {"operator": self.operator, "url": self.url, "key": self.key}


def make_relay(folder: Path, role: str, url: str) -> RoleRelay:
    """A relay with a new key and a new token, each in a file of its own."""
    relay = RoleRelay(role, url, make_key(folder / f"{role}.key").data.hex(), os.urandom(24).hex())
    make_secret(folder / f"{role}.token", relay.token.encode())
    return relay


def memory_of(folder: Path, role: str) -> Path:
    """Where a relay keeps what shall not outlive its machine."""
    return folder / role / "memory"


def relay_tables(folder: Path, state: Path, relay: RoleRelay, *, seed: str, coordinator: str) -> dict[str, Any]:
    """Tables of a relay's settings; where it listens, and the grid, are the federation's. ``state``: its own folder."""
    token = str(folder / f"{relay.role}.token")
    return {
        "gateway": {"url": coordinator, "token_file": token, "retry_ms": _RETRY_MS},
        "clients": {"known_by": "credential", "fetches": 1_000_000},
        "signing": {"key_file": str(folder / f"{relay.role}.key")},
        "rounds": {
            "role": relay.role,
            "operator": relay.operator,
            "folder": str(state / "rounds"),
            "secrets": str(memory_of(folder, relay.role)),
            "network_quota": 1_000_000,
            "poll_s": _POLL_S,
            "retry_ms": _RETRY_MS,
        },
        "coordinators": [{"url": coordinator, "token_file": token}],
        "testing": {
            "clock": str(folder / "clock"),
            "any_credential": True,
            "seed": dict(zip(ROLES, cover_seeds(seed), strict=True))[relay.role],
        },
    }
