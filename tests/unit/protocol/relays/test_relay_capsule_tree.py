"""The tree over a round's capsules: roots, places and absences."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secvm.crypto import merkle
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields
from secvm.protocol.relays.batches import RUN, Absence, CapsuleTree, Place, capsule_root, label_from_text, run_root
from tests.unit.protocol.helpers import digests

COUNTS = st.integers(0, 70)


def reference(entries: list[bytes]) -> bytes:
    return merkle.Tree(merkle.leaf_hash(entry) for entry in entries).root()


@given(COUNTS)
def test_a_root_is_that_of_the_tree_of_rfc_6962(count: int) -> None:
    assert capsule_root(digests(count)) == run_root(digests(count)) == reference(digests(count))


@pytest.mark.parametrize("count", [RUN - 1, RUN, RUN + 1, 2 * RUN + 3, 3 * RUN])
def test_runs_change_nothing_of_a_root(count: int) -> None:
    assert capsule_root(iter(digests(count))) == reference(digests(count))


@pytest.mark.parametrize("count", [2, RUN + 1])
def test_digests_that_do_not_ascend_have_no_root(count: int) -> None:
    good = digests(count)
    for bad in ([*good[:-2], good[-1], good[-2]], [*good, good[-1]], [*good[:-1], good[-1][:31]]):
        with pytest.raises(LocalProtocolError):
            capsule_root(bad)


def test_a_root_takes_the_memory_of_one_run() -> None:
    taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for digest in digests(RUN + 2):
            taken += 1
            yield digest

    waiting = counted()
    with pytest.raises(LocalProtocolError):
        # The first run ends in a fault: nothing behind it was asked for.
        capsule_root(next(waiting) if i != 5 else b"" for i in range(2 * RUN))
    assert taken < RUN


@given(st.integers(1, 70), st.data())
def test_every_digest_has_a_place(count: int, data: st.DataObject) -> None:
    tree = CapsuleTree(b"".join(digests(count)))
    index = data.draw(st.integers(0, count - 1))
    place = tree.place(index)
    assert tree.find(place.digest) == index
    place.check(size=count, root=tree.root)
    with pytest.raises(BadProofError):
        replace(place, digest=bytes(32)).check(size=count, root=tree.root)
    with pytest.raises(BadProofError):
        place.check(size=count, root=bytes(32))


@given(COUNTS, st.binary(min_size=32, max_size=32))
def test_what_is_not_there_can_be_shown_and_what_is_there_cannot(count: int, other: bytes) -> None:
    tree = CapsuleTree(b"".join(digests(count)))
    assume(tree.find(other) is None)
    absence = tree.absence(other)
    absence.check(other, size=count, root=tree.root)
    assert Absence.from_fields(Fields(absence.to_content(), "it")) == absence
    for place in (absence.left, absence.right):
        if place is not None:
            with pytest.raises(BadProofError):
                absence.check(place.digest, size=count, root=tree.root)
            with pytest.raises(LocalProtocolError):
                tree.absence(place.digest)


@given(st.integers(3, 40), st.data())
def test_two_that_are_no_neighbours_show_nothing(count: int, data: st.DataObject) -> None:
    tree = CapsuleTree(b"".join(digests(count)))
    hidden = data.draw(st.integers(0, count - 1))
    left = tree.place(hidden - 1) if hidden else None
    right = tree.place(hidden + 1) if hidden < count - 1 else None
    with pytest.raises(BadProofError):
        Absence(left, right).check(tree[hidden], size=count, root=tree.root)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_ends_of_a_tree_cannot_be_made_up(size: int) -> None:
    tree = CapsuleTree(b"".join(digests(3)))
    with pytest.raises(BadProofError):
        Absence(None, None).check(bytes(32), size=size, root=tree.root)


def test_neither_text_nor_content_of_another_kind_is_taken() -> None:
    place = CapsuleTree(b"".join(digests(3))).place(1).to_content()
    for changes in ({"index": -1}, {"digest": "00"}, {"path": ["00"]}, {"path": ["00" * 32] * 65}, {"more": 1}):
        with pytest.raises(MalformedMessageError):
            Place.from_fields(Fields({**place, **changes}, "it"))
    for text in ("", "00", "AB" * 32, "0" * 63 + " ", "é" * 64, "００" * 32):
        with pytest.raises(MalformedMessageError):
            label_from_text(text)
    assert label_from_text("ab" * 32) == b"\xab" * 32
