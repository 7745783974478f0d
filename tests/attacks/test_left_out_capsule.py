"""A coordinator acknowledges a capsule, leaves it out of the received root, and tries to show a receipt for it."""

import hashlib
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import MalformedMessageError
from secvm.protocol.receipts import decode_receipt
from secvm.protocol.received import (
    ReceivedTree,
    bucket_bits,
    bucket_of,
    check_receipt,
    receipt,
    received_tree,
    side_by_side,
)


def path_of(tree: ReceivedTree, index: int) -> list[bytes]:
    path = []
    for level in tree.levels[:-1]:
        path.append(level[32 * (index ^ 1) :][:32])
        index //= 2
    return path


def attempts(kept: list[bytes], left_out: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Every bucket and path of the published tree and of the true one, and what can be put together from them."""
    packed, whole = side_by_side(kept), side_by_side([*kept, left_out])
    published, true = received_tree(packed), received_tree(whole)
    buckets: list[bytes] = [b"", left_out, packed, whole]
    paths: list[list[bytes]] = [[]]
    for digests, tree in ((packed, published), (whole, true)):
        ordered = [digests[at : at + 32] for at in range(0, len(digests), 32)]
        for index in range(2**tree.bits):
            inside = [one for one in ordered if bucket_of(one, tree.bits) == index]
            buckets += [side_by_side(inside), side_by_side([*inside, left_out]), b"".join([*inside, left_out])]
            path = path_of(tree, index)
            paths += [path, path[::-1], path[1:], path[:-1], [*path, published.root], [published.root, *path]]
    # Nodes as if they were digests, and the leaf as if it were a neighbour.
    for level in published.levels:
        buckets += [level, level + left_out]
    paths += [[hashlib.sha256(b"\x00" + bucket).digest()] for bucket in buckets[:8]]
    yield from product(buckets, paths)


@settings(max_examples=25)
@given(st.integers(1, 150), st.integers(0, 10**6))
def test_no_bucket_and_no_path_show_a_capsule_that_is_not_under_the_root(count: int, seed: int) -> None:
    digests = [hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(count + 1)]
    kept, left_out = digests[:-1], digests[-1]
    root = received_tree(side_by_side(kept)).root
    for bucket, path in attempts(kept, left_out):
        with pytest.raises(MalformedMessageError):
            check_receipt(root, left_out, bucket, path)


@given(st.integers(1, 150), st.binary(max_size=32 * 8))
def test_no_bytes_that_are_served_show_it_either(count: int, served: bytes) -> None:
    digests = [hashlib.sha256(b"%d" % i).digest() for i in range(count + 1)]
    root = received_tree(side_by_side(digests[:-1])).root

    def check() -> None:
        made = decode_receipt(served)
        check_receipt(root, digests[-1], made.bucket, made.path)

    with pytest.raises(MalformedMessageError):
        check()


@given(st.integers(1, 150))
def test_the_same_attempts_show_a_capsule_that_is_under_the_root(count: int) -> None:
    """The attack would be seen to succeed, if it did."""
    digests = [hashlib.sha256(b"%d" % i).digest() for i in range(count + 1)]
    root = received_tree(side_by_side(digests)).root
    honest = receipt(side_by_side(digests), digests[-1])
    assert len(honest.path) == bucket_bits(count + 1)
    shown = 0
    for bucket, path in attempts(digests[:-1], digests[-1]):
        try:
            check_receipt(root, digests[-1], bucket, path)
        except MalformedMessageError:
            continue
        assert (bucket, tuple(path)) == (honest.bucket, honest.path)
        shown += 1
    assert shown >= 1
