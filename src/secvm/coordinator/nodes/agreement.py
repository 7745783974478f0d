"""What all nodes of one database must have in common, and how a node that differs is told so before it does anything.

The first node that comes writes it down; every other one compares. With another grid a number would mean another time;
with another key it would sign what no device believes.
"""

from __future__ import annotations

import json
from pathlib import Path

from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.port import CoordinatorStore, find_blob
from secvm.coordinator.store.rules import agreed_name
from secvm.crypto.signing import PUBLIC_KEY_BYTES, SigningKey, VerifyKey
from secvm.errors import BadInputError, StoreError

_GRID, _SIGNING, _LOG = "grid", "signing key", "log key"
#: In place of a key that nobody has named yet.
_NONE = b""


def agree_on_grid(store: CoordinatorStore, settings: CoordinatorProgramSettings) -> None:
    """Refuse settings whose epochs are not those of the nodes before."""
    wanted = {"origin_ms": settings.epochs.origin_ms, "period_s": settings.epochs.period_s}
    there = store.agree(_GRID, json.dumps(wanted, sort_keys=True).encode())
    if json.loads(there) != wanted:
        raise BadInputError(
            "origin_ms and period_s of the epochs are not those of the other nodes of this database",
            next_step=f"There they are {there.decode()}.",
        )


def agree_on_keys(store: CoordinatorStore, key: SigningKey, log_key: SigningKey) -> None:
    """Refuse keys that are not those of the nodes before."""
    for name, ours in ((_SIGNING, key), (_LOG, log_key)):
        if store.agree(name, ours.public.data) != ours.public.data:
            raise BadInputError(f"the {name} here is not the one of the other nodes; copy it from one of them")


def known_keys(store: CoordinatorStore) -> tuple[VerifyKey, VerifyKey] | None:
    """The public keys that sign and log; None where no node that signs has come yet."""
    stored = [find_blob(store, agreed_name(name)) for name in (_SIGNING, _LOG)]
    if any(data is None or len(data) != PUBLIC_KEY_BYTES for data in stored):
        return None
    signing, log = (VerifyKey(data or _NONE) for data in stored)
    return signing, log


def log_key_of_others(store: CoordinatorStore) -> VerifyKey:
    """For a node that cannot sign: the log's public key."""
    known = known_keys(store)
    if known is None:
        raise StoreError(
            "no node that drives has used this database yet",
            next_step="Start one that has drives = true and the keys that sign and log; this one can wait for it.",
        )
    return known[1]


def must_have(path: Path, store: CoordinatorStore) -> None:
    """Refuse to make a new key where the other nodes have one: nobody would believe it."""
    if not path.exists() and known_keys(store) is not None:
        raise BadInputError(
            f"{path} is missing, and other nodes of this database have such a key",
            next_step="Copy it from one of them, or set drives = false.",
        )
