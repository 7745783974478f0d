"""Merkle trees: known answers of RFC 6962, its recursive definition for all small trees, proofs that show nothing."""

import hashlib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto import merkle
from secvm.crypto.merkle import (
    EMPTY_ROOT,
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

#: The inputs and answers that implementations of Certificate Transparency have tested themselves with from the start.
INPUTS = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
#: Index, size, proof.
INCLUSIONS = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
#: First size, second size, proof.
CONSISTENCIES = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
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


# ── known answers ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_known_roots() -> None:
    tree = Tree()
    assert tree.root().hex() == ROOTS[0] == EMPTY_ROOT.hex()
    for entry, root in zip(INPUTS, ROOTS[1:], strict=True):
        tree.append(leaf_hash(entry))
        assert tree.root().hex() == root
    assert [tree.root(size).hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize(("index", "size", "proof"), INCLUSIONS)
def test_known_inclusion_proofs(index: int, size: int, proof: list[str]) -> None:
    tree = Tree(map(leaf_hash, INPUTS))
    assert [node.hex() for node in tree.inclusion_proof(index, size)] == proof
    hashes = [bytes.fromhex(node) for node in proof]
    check_inclusion(leaf_hash(INPUTS[index]), index=index, size=size, proof=hashes, root=bytes.fromhex(ROOTS[size]))


@pytest.mark.parametrize(("first", "second", "proof"), CONSISTENCIES)
def test_known_consistency_proofs(first: int, second: int, proof: list[str]) -> None:
    tree = Tree(map(leaf_hash, INPUTS))
    assert [node.hex() for node in tree.consistency_proof(first, second)] == proof
    consistent(first, second, [bytes.fromhex(node) for node in proof], tree)


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

NUMBERS = st.integers(-3, 70) | st.integers() | st.sampled_from([MAX_SIZE, MAX_SIZE + 1, 2**64, 2**62])
HASHES = st.binary(min_size=32, max_size=32) | st.binary(max_size=40) | st.sampled_from([EMPTY_ROOT, bytes(32)])
PROOFS = st.lists(HASHES, max_size=70)


@given(leaf=HASHES, index=NUMBERS, size=NUMBERS, proof=PROOFS, root=HASHES)
def test_anything_at_all_is_a_good_inclusion_proof_or_one_error(
    leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes
) -> None:
    if (leaf, index, size, proof) == (root, 0, 1, []) and len(root) == 32:
        return check_inclusion(leaf, index=index, size=size, proof=proof, root=root)
    with pytest.raises(BadProofError):
        check_inclusion(leaf, index=index, size=size, proof=proof, root=root)
    return None


@given(first=NUMBERS, second=NUMBERS, first_root=HASHES, second_root=HASHES, proof=PROOFS)
def test_anything_at_all_is_a_good_consistency_proof_or_one_error(
    first: int, second: int, first_root: bytes, second_root: bytes, proof: list[bytes]
) -> None:
    try:
        check_consistency(first=first, second=second, first_root=first_root, second_root=second_root, proof=proof)
    except BadProofError:
        return
    assert not proof
    assert first_root == (EMPTY_ROOT if first == 0 else second_root)


@given(data=st.data(), count=st.integers(2, 300))
def test_one_changed_hash_spoils_a_proof(data: st.DataObject, count: int) -> None:
    tree = Tree(leaves(count))
    index = data.draw(st.integers(0, count - 1))
    proof = list(tree.inclusion_proof(index))
    place = data.draw(st.integers(0, len(proof) - 1))
    for spoiled in (
        [*proof[:place], bytes(32), *proof[place + 1 :]],
        proof[:place] + proof[place + 1 :],
        [*proof, bytes(32)],
        [bytes(32), *proof],
    ):
        with pytest.raises(BadProofError):
            check_inclusion(tree.node(0, index), index=index, size=count, proof=spoiled, root=tree.root())
    first = data.draw(st.integers(1, count - 1))
    proof = list(tree.consistency_proof(first))
    place = data.draw(st.integers(0, len(proof) - 1))
    for spoiled in (
        [*proof[:place], bytes(32), *proof[place + 1 :]],
        proof[:place] + proof[place + 1 :],
        [*proof, bytes(32)],
        [bytes(32), *proof],
    ):
        with pytest.raises(BadProofError):
            consistent(first, count, spoiled, tree)


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
