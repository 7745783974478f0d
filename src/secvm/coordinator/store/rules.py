"""What the kinds of store decide alike: leases, claims, results; and to which shard a record belongs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.store.records import view_records
from secvm.errors import LocalProtocolError

#: Into how many parts records fall by their digest, where several nodes count.
SHARDS = 16


def agreed_name(name: str) -> str:
    """Where something that all nodes have in common stands among the blobs: a name that is no digest of any."""
    return hashlib.sha256(f"secvm-v1-agreed {name}".encode()).hexdigest()


def replaces(numbers: Sequence[int], n_there: int) -> bool:
    """Whether groups are replaced only now; refused if only some of them are there."""
    if len(set(numbers)) != len(numbers):
        raise LocalProtocolError("a group is named twice")
    if n_there not in (0, len(numbers)):
        raise LocalProtocolError("some of these groups are opened already, others are not")
    return n_there > 0


def may_lead(holder: str, lease_s: float) -> None:
    """Refuse a lease without a holder or without an end."""
    if not holder or not 0 < lease_s < 86_400:
        raise LocalProtocolError("a lease has a holder, and lasts less than a day")


def may_keep_shard(shard: int, n_shards: int, *, complete: bool) -> None:
    """Refuse the count of a shard of an epoch that is not complete."""
    if not 0 <= shard < n_shards:
        raise LocalProtocolError("there is no such shard")
    if not complete:
        raise LocalProtocolError("the epoch is open, or something of it is sealed: it cannot be counted yet")


def shard_of(digest: bytes) -> int:
    """The shard of a capsule's digest. Shards are in the order of the digests: sorted ones, shard after shard, are
    sorted.
    """
    return digest[0] * SHARDS // 256


def shards_of(block: bytes) -> NDArray[np.int64]:
    """The shard of each record of a block."""
    return view_records(block)[:, 0].astype(np.int64) * SHARDS // 256


def of_shard(block: bytes, shard: int) -> bytes:
    """Those records of a block that belong to a shard."""
    records: NDArray[np.uint8] = view_records(block)[shards_of(block) == shard]
    return records.tobytes()


def by_shard(block: bytes) -> tuple[bytes, list[int]]:
    """The block's records, shard after shard, and at which byte each shard ends."""
    shards = shards_of(block)
    order = np.argsort(shards, kind="stable")
    records = view_records(block)
    ends = np.cumsum(np.bincount(shards, minlength=SHARDS)) * records.shape[1]
    return records[order].tobytes(), [int(end) for end in ends]
