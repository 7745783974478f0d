"""What the settings of a coordinator and of a device say of the other parties of their federation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from secvm.crypto.notes import NoteKey
from secvm.relay.setting_up import PLAIN, KnownRelay


def named_witness(key: NoteKey, url: str) -> dict[str, str]:
    """A witness as the coordinator's settings name it."""
    return {"name": key.name, "url": url, "key": key.key.data.hex()}


def coordinator_tables(
    *,
    state: str,
    grid: Mapping[str, int],
    relays: Mapping[str, KnownRelay],
    log_name: str,
    witnesses: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """The coordinator's; ``relays`` by the files with their tokens. Without witnesses there is no log."""
    log: dict[str, Any] = {"log": {"name": log_name}, "witnesses": witnesses} if witnesses else {}
    admitted = [relay.admitted(token_file) for token_file, relay in relays.items()]
    return {"state": {"folder": state}, "epochs": dict(grid), "relays": admitted, **log}


def device_tables(folder: str, relays: Sequence[KnownRelay], *, coordinator: str) -> dict[str, Any]:
    """A device's; ``coordinator`` is who runs it. Only relays with a role are named with their keys."""
    trusted = [relay.trusted for relay in relays if relay.role != PLAIN]
    return {
        "device": {"folder": folder},
        "relay": {"urls": [relay.url for relay in relays]},
        "trust": {"coordinator": coordinator},
        **({"trust.relays": trusted} if trusted else {}),
    }
