"""Merkle trees: known answers of RFC 6962, its recursive definition for all small trees, proofs that show nothing."""

import hashlib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto import merkle
from secvm.crypto.merkle import (
    MAX_PROOF_HASHES,
    MAX_SIZE,
    Frontier,
    Tree,
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
)
from secvm.errors import BadProofError, LocalProtocolError

SMALL = 64


def leaves(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % i) for i in range(count)]


# ── the RFC's recursive definitions, of section 2.1, as they stand there ─────────────────────────────────────────────


def split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def mth(d: list[bytes]) -> bytes:
    if not d:
        return hashlib.sha256(b"").digest()
    if len(d) == 1:
        return d[0]
    k = split(len(d))
    return hashlib.sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m: int, d: list[bytes]) -> list[bytes]:
    if len(d) == 1:
        return []
    k = split(len(d))
    return [*path(m, d[:k]), mth(d[k:])] if m < k else [*path(m - k, d[k:]), mth(d[:k])]


def subproof(m: int, d: list[bytes], *, known: bool) -> list[bytes]:
    if m == len(d):
        return [] if known else [mth(d)]
    k = split(len(d))
    if m <= k:
        return [*subproof(m, d[:k], known=known), mth(d[k:])]
    return [*subproof(m - k, d[k:], known=False), mth(d[:k])]


def consistent(first: int, second: int, proof: list[bytes], tree: Tree) -> None:
    check_consistency(
        first=first, second=second, first_root=tree.root(first), second_root=tree.root(second), proof=proof
    )


# ── every tree up to 64 leaves ───────────────────────────────────────────────────────────────────────────────────────


def test_every_small_tree_has_the_roots_and_inclusion_proofs_of_the_definition() -> None:
    all_leaves = leaves(SMALL)
    tree = Tree(all_leaves)
    for size in range(SMALL + 1):
        assert tree.root(size) == Tree(all_leaves[:size]).root() == mth(all_leaves[:size])
        for index in range(size):
            proof = path(index, all_leaves[:size])
            assert list(tree.inclusion_proof(index, size)) == proof
            check_inclusion(all_leaves[index], index=index, size=size, proof=proof, root=tree.root(size))


def test_every_two_small_trees_have_the_consistency_proofs_of_the_definition() -> None:
    tree = Tree(leaves(SMALL))
    for second in range(SMALL + 1):
        for first in range(1, second + 1):
            proof = subproof(first, leaves(second), known=True)
            assert list(tree.consistency_proof(first, second)) == proof
            consistent(first, second, proof, tree)
        assert tree.consistency_proof(0, second) == ()
        consistent(0, second, [], tree)


def test_no_proof_is_good_for_another_index_or_another_leaf() -> None:
    """Another size may do where the way up is the same: size and root belong together by the log's signature."""
    count = 17
    tree = Tree(leaves(count))
    for size, index, other in product(range(1, count + 1), range(count), range(-1, count + 1)):
        if index < size and other != index:
            proof, root = tree.inclusion_proof(index, size), tree.root(size)
            with pytest.raises(BadProofError):
                check_inclusion(tree.node(0, index), index=other, size=size, proof=proof, root=root)
            with pytest.raises(BadProofError):
                check_inclusion(leaf_hash(b"%d" % other), index=index, size=size, proof=proof, root=root)


def test_log_that_was_rewritten_has_no_consistency_proof() -> None:
    count = 20
    honest = Tree(leaves(count))
    for changed, first, second in product(range(count), range(1, count), range(2, count + 1)):
        if not changed < first < second:
            continue
        forged = Tree([bytes(32) if i == changed else leaf for i, leaf in enumerate(leaves(count))])
        for proof in (honest.consistency_proof(first, second), forged.consistency_proof(first, second)):
            with pytest.raises(BadProofError):
                check_consistency(
                    first=first,
                    second=second,
                    first_root=honest.root(first),
                    second_root=forged.root(second),
                    proof=proof,
                )


# ── what is no proof ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(data=st.data(), count=st.integers(2, 300))
def test_one_changed_hash_spoils_a_proof(data: st.DataObject, count: int) -> None:
    tree = Tree(leaves(count))
    index, first = data.draw(st.integers(0, count - 1)), data.draw(st.integers(1, count - 1))

    def included(proof: list[bytes]) -> None:
        check_inclusion(tree.node(0, index), index=index, size=count, proof=proof, root=tree.root())

    for proof, check in (
        ([*tree.inclusion_proof(index)], included),
        ([*tree.consistency_proof(first)], lambda proof: consistent(first, count, proof, tree)),
    ):
        place = data.draw(st.integers(0, len(proof) - 1))
        for spoiled in (
            [*proof[:place], bytes(32), *proof[place + 1 :]],
            proof[:place] + proof[place + 1 :],
            [*proof, bytes(32)],
            [bytes(32), *proof],
        ):
            with pytest.raises(BadProofError):
                check(spoiled)


def test_sizes_at_the_limit_have_proofs_that_verify() -> None:
    """A tree of 2^63 - 1 equal leaves, of which each level has one hash."""
    levels = [leaf_hash(b"")]
    while len(levels) < 63:
        levels.append(node_hash(levels[-1], levels[-1]))

    def read(level: int, index: int) -> bytes:
        assert (index + 1) << level <= MAX_SIZE
        return levels[level]

    def tree_root(size: int) -> bytes:
        if size & (size - 1) == 0:
            return levels[size.bit_length() - 1]
        k = split(size)
        return node_hash(levels[k.bit_length() - 1], tree_root(size - k))

    for index in (0, 1, 2**62 - 1, 2**62, MAX_SIZE - 1):
        proof = inclusion_proof(read, index, MAX_SIZE)
        assert len(proof) <= MAX_PROOF_HASHES
        check_inclusion(levels[0], index=index, size=MAX_SIZE, proof=proof, root=tree_root(MAX_SIZE))
    for first in (1, 2, 3, 2**62 - 1, 2**62, 2**62 + 1, MAX_SIZE - 1):
        proof = consistency_proof(read, first, MAX_SIZE)
        assert len(proof) <= MAX_PROOF_HASHES
        check_consistency(
            first=first,
            second=MAX_SIZE,
            first_root=tree_root(first),
            second_root=tree_root(MAX_SIZE),
            proof=proof,
        )


def test_what_a_tree_does_not_have_cannot_be_asked_of_it() -> None:
    tree = Tree(leaves(5))
    for wrong in (
        lambda: tree.append(b"short"),
        lambda: tree.node(0, 5),
        lambda: tree.node(2, 1),
        lambda: tree.node(-1, 0),
        lambda: tree.node(0, -1),
        lambda: tree.root(6),
        lambda: tree.root(-1),
        lambda: tree.inclusion_proof(5),
        lambda: tree.inclusion_proof(-1),
        lambda: tree.inclusion_proof(0, 6),
        lambda: tree.consistency_proof(6),
        lambda: tree.consistency_proof(3, 2),
    ):
        with pytest.raises(LocalProtocolError):
            wrong()
    assert tree.size == 5
    assert tree.append(bytes(32)) == 5


def test_an_edge_knows_what_came_after_it_and_nothing_below() -> None:
    leaves = [leaf_hash(b"%d" % i) for i in range(23)]
    tree, frontier = Tree(leaves), Frontier()
    for size, leaf in enumerate(leaves):
        read = frontier.reader(leaves[size:])
        assert merkle.root(read, len(leaves)) == tree.root()
        for index in range(size, len(leaves)):
            assert merkle.inclusion_proof(read, index, len(leaves)) == tree.inclusion_proof(index)
        frontier = frontier.append(leaf)
    with pytest.raises(LocalProtocolError, match="below the edge"):
        frontier.reader([])(0, 3)
