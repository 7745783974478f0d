"""Somebody else's Merkle trees (pymerkle): the same roots and proofs for random trees, in both directions.

Its inclusion proofs are RFC 6962's with the leaf in front. Its consistency proofs take the same hashes apart
differently: where the first tree ends at the border of a subtree, they go on down to the first leaf beyond it, and they
tell what the reader knows. ``rfc_shape`` puts that right, with pymerkle's own hashing.
"""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree
from pymerkle.proof import ConsistencyProof, InclusionProof, InvalidProof

from secvm.crypto.merkle import EMPTY_ROOT, Tree, check_consistency, check_inclusion, leaf_hash
from secvm.errors import BadProofError

ENTRIES = st.lists(st.binary(max_size=40), min_size=1, max_size=200)


def both(entries: list[bytes]) -> tuple[Tree, InmemoryTree]:
    theirs = InmemoryTree(algorithm="sha256")
    for entry in entries:
        theirs.append_entry(entry)
    return Tree(map(leaf_hash, entries)), theirs


def rfc_shape(proof: ConsistencyProof) -> list[bytes]:
    """Its hashes as RFC 6962, 2.1.2 lists them."""
    path, masks = list(proof.path), list(proof.subset)
    if not masks[0]:
        # All that is beyond the border, up to the subtree that ends there.
        border = masks.index(1)
        beyond = path[0]
        for bit, found in zip(proof.rule[: border - 1], path[1:border], strict=True):
            beyond = proof.hasher.hash_pair(found, beyond) if bit else proof.hasher.hash_pair(beyond, found)
        path = [path[border], beyond, *path[border + 1 :]]
    # One subtree alone is the whole first tree, whose root the reader has.
    return path[1:] if sum(masks) == 1 else path


@given(entries=ENTRIES, data=st.data())
def test_roots_of_all_sizes_are_the_same(entries: list[bytes], data: st.DataObject) -> None:
    ours, theirs = both(entries)
    assert theirs.get_root(0) == EMPTY_ROOT
    for size in {len(entries), data.draw(st.integers(1, len(entries)))}:
        assert ours.root(size) == theirs.get_root(size)


@given(entries=ENTRIES, data=st.data())
def test_inclusion_proofs_are_the_same_and_each_believes_the_others(entries: list[bytes], data: st.DataObject) -> None:
    ours, theirs = both(entries)
    size = data.draw(st.integers(1, len(entries)))
    index = data.draw(st.integers(0, size - 1))
    leaf = hashlib.sha256(b"\0" + entries[index]).digest()
    proof, made = ours.inclusion_proof(index, size), theirs.prove_inclusion(index + 1, size)
    assert [leaf, *proof] == made.path
    check_inclusion(leaf, index=index, size=size, proof=made.path[1:], root=theirs.get_root(size))
    mine = InclusionProof("sha256", security=True, size=size, index=index + 1, rule=made.rule, path=[leaf, *proof])
    mine.verify(leaf, ours.root(size), index=index + 1, size=size)


@given(entries=ENTRIES, data=st.data())
def test_consistency_proofs_are_the_same(entries: list[bytes], data: st.DataObject) -> None:
    ours, theirs = both(entries)
    second = data.draw(st.integers(1, len(entries)))
    first = data.draw(st.integers(1, second))
    made = theirs.prove_consistency(first, second)
    made.verify(ours.root(first), ours.root(second), prior_size=first, later_size=second)
    assert list(ours.consistency_proof(first, second)) == rfc_shape(made)
    check_consistency(
        first=first,
        second=second,
        first_root=theirs.get_root(first),
        second_root=theirs.get_root(second),
        proof=rfc_shape(made),
    )


@given(entries=ENTRIES.filter(lambda found: len(found) > 1), data=st.data())
def test_both_refuse_a_log_that_was_rewritten(entries: list[bytes], data: st.DataObject) -> None:
    _, honest = both(entries)
    first = data.draw(st.integers(1, len(entries)))
    changed = data.draw(st.integers(0, first - 1))
    forged, theirs = both([b"forged" if i == changed else entry for i, entry in enumerate(entries)])
    if entries[changed] == b"forged":
        return
    made = theirs.prove_consistency(first, len(entries))
    with pytest.raises(InvalidProof):
        made.verify(honest.get_root(first), theirs.get_root(len(entries)))
    with pytest.raises(BadProofError):
        check_consistency(
            first=first,
            second=len(entries),
            first_root=honest.get_root(first),
            second_root=forged.root(),
            proof=forged.consistency_proof(first),
        )
