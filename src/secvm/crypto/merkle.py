"""Merkle trees as RFC 6962 and RFC 9162 define them, over SHA-256: what a log's root commits to, and proofs of it.

    leaf = SHA-256( 00 ‖ entry )        node = SHA-256( 01 ‖ left ‖ right )        root of nothing = SHA-256( "" )

n > 1 leaves are split at the largest power of two below n. So every tree consists of **complete** subtrees, of 2^level
leaves each, that never change again; ``NodeReader`` is whoever has their hashes: a ``Tree`` in memory, or tiles. Roots
and proofs of any size, also of past ones, come from O(log n) of them.

A proof is a list of hashes. ``check_inclusion`` and ``check_consistency`` follow RFC 9162, 2.1.3.2 and 2.1.4.2, step by
step; whatever they are handed, they return nothing or raise ``BadProofError``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from secvm.errors import BadProofError, LocalProtocolError

HASH_BYTES = 32
#: Most leaves: sizes and indices fit into a signed 64-bit integer everywhere.
MAX_SIZE = 2**63 - 1
#: No proof in a tree of that size is longer.
MAX_PROOF_HASHES = 64
EMPTY_ROOT = hashlib.sha256(b"").digest()

#: (level, index) → hash of the complete subtree over leaves index · 2^level up to (index + 1) · 2^level.
NodeReader = Callable[[int, int], bytes]


def leaf_hash(entry: bytes) -> bytes:
    """The hash of an entry of the log."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees side by side."""
    return hashlib.sha256(b"\x01" + left + right).digest()


# ── roots and proofs, from the hashes of complete subtrees ───────────────────────────────────────────────────────────


def root(read: NodeReader, size: int) -> bytes:
    """The root over the first ``size`` leaves."""
    _check_size(size)
    return _subtree(read, 0, size) if size else EMPTY_ROOT


def inclusion_proof(read: NodeReader, index: int, size: int) -> tuple[bytes, ...]:
    """That a leaf is under the root of this size: its neighbours' hashes from the leaf upwards."""
    _check_size(size)
    if not 0 <= index < size:
        raise LocalProtocolError(f"a tree of {size} leaves has no leaf {index}")
    path, _, _ = _way_down(read, size, lambda start, end: end - start == 1, index)
    return tuple(reversed(path))


def consistency_proof(read: NodeReader, first: int, second: int) -> tuple[bytes, ...]:
    """That the tree of size ``first`` is the beginning of that of size ``second``.

    Empty where nothing needs to be shown: between equal sizes, and from size 0, which every tree begins with.
    """
    _check_size(second)
    if not 0 <= first <= second:
        raise LocalProtocolError(f"a log does not shrink: from {first} to {second} leaves")
    if first in (0, second):
        return ()
    path, start, end = _way_down(read, second, lambda _start, end: end == first, first - 1)
    # What is left ends where the first tree ended. If it is that whole tree, the reader has its hash.
    if start:
        path.append(_subtree(read, start, end))
    return tuple(reversed(path))


def _way_down(
    read: NodeReader, size: int, arrived: Callable[[int, int], bool], leaf: int
) -> tuple[list[bytes], int, int]:
    """From the root towards a leaf until it ``arrived``: the neighbours that were passed, and where the subtree is."""
    start, end, path = 0, size, list[bytes]()
    while not arrived(start, end):
        middle = start + _split(end - start)
        if leaf < middle:
            path.append(_subtree(read, middle, end))
            end = middle
        else:
            path.append(_subtree(read, start, middle))
            start = middle
    return path, start, end


def _split(count: int) -> int:
    """The largest power of two below a count of at least two."""
    return 1 << (count - 1).bit_length() - 1


def _subtree(read: NodeReader, start: int, end: int) -> bytes:
    """The hash over leaves start up to end, where start is a multiple of the power of two not below their number."""
    hashes = []
    while end > start:
        level = (end - start).bit_length() - 1
        hashes.append(read(level, start >> level))
        start += 1 << level
    node = hashes.pop()
    while hashes:
        node = node_hash(hashes.pop(), node)
    return node


def _check_size(size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        raise LocalProtocolError(f"a tree has 0 to {MAX_SIZE} leaves, not {size}")


# ── verification ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_inclusion(leaf: bytes, *, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Whether the leaf of this hash is the one with this index, in the tree of this size and root.

    Raises
    ------
    BadProofError
        The proof does not show it.
    """
    _check_hashes(leaf, root, *proof)
    # RFC 9162, 2.1.3.2: step 1
    if not 0 <= index < size <= MAX_SIZE:
        raise BadProofError(f"a log of {size} entries has no leaf {index}")
    # steps 2 and 3
    fn, sn, node = index, size - 1, leaf
    # step 4
    for neighbour in proof:
        if sn == 0:
            raise BadProofError("the proof is longer than the tree is high")
        if fn & 1 or fn == sn:
            node = node_hash(neighbour, node)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            node = node_hash(node, neighbour)
        fn, sn = fn >> 1, sn >> 1
    # step 5
    if sn or node != root:
        raise BadProofError("the proof does not lead to the root")


def check_consistency(
    *, first: int, second: int, first_root: bytes, second_root: bytes, proof: Sequence[bytes]
) -> None:
    """Whether the tree of size and root ``second`` begins with that of size and root ``first``.

    Raises
    ------
    BadProofError
        The proof does not show it.
    """
    _check_hashes(first_root, second_root, *proof)
    if not 0 <= first <= second <= MAX_SIZE:
        raise BadProofError(f"a log does not shrink: from {first} to {second} entries")
    if first in (0, second):
        expected = EMPTY_ROOT if first == 0 else second_root
        if proof or first_root != expected or (second == 0 and second_root != EMPTY_ROOT):
            raise BadProofError("the log is not the one that it was")
        return
    # RFC 9162, 2.1.4.2: steps 1 and 2
    if not proof:
        raise BadProofError("the proof is empty")
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    # steps 3 to 5
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    # step 6
    for neighbour in path[1:]:
        if sn == 0:
            raise BadProofError("the proof is longer than the tree is high")
        if fn & 1 or fn == sn:
            old, new = node_hash(neighbour, old), node_hash(neighbour, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = node_hash(new, neighbour)
        fn, sn = fn >> 1, sn >> 1
    # step 7
    if sn or old != first_root or new != second_root:
        raise BadProofError("the log is not the one that it was")


def _check_hashes(*hashes: bytes) -> None:
    # Two roots or a leaf and a root stand before the proof.
    if len(hashes) > 2 + MAX_PROOF_HASHES or any(len(node) != HASH_BYTES for node in hashes):
        raise BadProofError("the proof holds what is no hash, or too many")


# ── the right edge of a tree ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Frontier:
    """All that is needed of a tree to add leaves to it and know its root: one hash for each bit of its size.

    Who has checked every leaf so far keeps this, and needs neither inclusion nor consistency proofs afterwards: the
    root that it computes itself is the signed one, or it is not.
    """

    size: int = 0
    #: Roots of the complete subtrees from left to right, the largest first.
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        fits = 0 <= self.size <= MAX_SIZE and len(self.hashes) == self.size.bit_count()
        if not fits or any(len(node) != HASH_BYTES for node in self.hashes):
            raise LocalProtocolError("a frontier has one hash for each bit of its size")

    def append(self, leaf: bytes) -> Frontier:
        """With one more leaf, by its hash."""
        hashes = list(self.hashes)
        at = self.size
        while at & 1:
            leaf = node_hash(hashes.pop(), leaf)
            at >>= 1
        return Frontier(self.size + 1, (*hashes, leaf))

    def reader(self, leaves: Sequence[bytes]) -> NodeReader:
        """Hashes of the complete subtrees of this tree with these leaves after it, except those below its edge.

        So whoever keeps the edge can prove to others what was added since.
        """
        edge, start = {}, 0
        for node, level in zip(self.hashes, _bits(self.size), strict=True):
            edge[level, start >> level] = node
            start += 1 << level

        def read(level: int, index: int) -> bytes:
            if (level, index) in edge:
                return edge[level, index]
            if index << level < self.size and not level:
                raise LocalProtocolError("below the edge of a tree nothing is known")
            if not level:
                return leaves[index - self.size]
            return node_hash(read(level - 1, 2 * index), read(level - 1, 2 * index + 1))

        return read

    @property
    def root(self) -> bytes:
        """The root of the tree."""
        if not self.hashes:
            return EMPTY_ROOT
        *others, node = self.hashes
        for left in reversed(others):
            node = node_hash(left, node)
        return node


def _bits(size: int) -> list[int]:
    """The levels of a tree's complete subtrees, the largest first."""
    return [level for level in reversed(range(size.bit_length())) if size >> level & 1]


# ── a tree in memory ─────────────────────────────────────────────────────────────────────────────────────────────────


class Tree:
    """A tree that only grows. It keeps the hash of every complete subtree: 64 bytes for each leaf, all told."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._levels: list[bytearray] = [bytearray()]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """Leaves so far."""
        return len(self._levels[0]) // HASH_BYTES

    def append(self, leaf: bytes) -> int:
        """Add a leaf by its hash; its index comes back. Computes at most one hash a level."""
        if len(leaf) != HASH_BYTES:
            raise LocalProtocolError(f"a leaf's hash has {HASH_BYTES} bytes")
        index = at = self.size
        self._levels[0] += leaf
        level = 0
        while at & 1:
            leaf = node_hash(self.node(level, at - 1), leaf)
            level, at = level + 1, at >> 1
            if level == len(self._levels):
                self._levels.append(bytearray())
            self._levels[level] += leaf
        return index

    def node(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree (a ``NodeReader``)."""
        node = b""
        if 0 <= level < len(self._levels) and index >= 0:
            node = bytes(self._levels[level][index * HASH_BYTES : (index + 1) * HASH_BYTES])
        if not node:
            raise LocalProtocolError("the tree has no such subtree yet")
        return node

    def root(self, size: int | None = None) -> bytes:
        """The root, now or when the tree had this size."""
        return root(self.node, self.size if size is None else size)

    def inclusion_proof(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """That a leaf is under the root of this size, or of now."""
        return inclusion_proof(self.node, index, self.size if size is None else size)

    def consistency_proof(self, first: int, second: int | None = None) -> tuple[bytes, ...]:
        """That the tree of size ``second``, or of now, began with that of size ``first``."""
        return consistency_proof(self.node, first, self.size if second is None else second)
