"""Blocks of opened records in a coordinator's store, without capsules that had to be opened."""

import hashlib
from collections.abc import Iterable

from secvm.coordinator.store.port import CoordinatorStore


def put_opened(store: CoordinatorStore, epoch: int, block: bytes) -> bool:
    """Store a block in the place of a group of capsules. False: the epoch is closed, nothing is stored."""
    if not store.append_sealed(epoch, [b"a group"]):
        return False
    number = max(number for number, packed in store.sealed(epoch, 2**20) if packed == b"a group")
    store.replace_sealed(epoch, [number], block)
    return True


def make_record(capsule: bytes, package: bytes) -> bytes:
    """The record of a capsule and of the package that was in it."""
    return hashlib.sha256(capsule).digest() + package


def make_block(opened: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A block of many: pairs of a capsule and its package."""
    return b"".join(make_record(capsule, package) for capsule, package in opened)
