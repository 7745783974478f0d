"""Blocks of opened records in a coordinator's store, without capsules that had to be opened."""

from secvm.coordinator.store.port import CoordinatorStore


def put_opened(store: CoordinatorStore, epoch: int, block: bytes) -> bool:
    """Store a block in the place of a group of capsules. False: the epoch is closed, nothing is stored."""
    if not store.append_sealed(epoch, [b"a group"]):
        return False
    number = max(number for number, packed in store.sealed(epoch, 2**20) if packed == b"a group")
    store.replace_sealed(epoch, [number], block)
    return True
