"""Many capsules at once count as they do one by one: the quick twin of the junk rule says the same of all bytes."""

import hashlib
import struct
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import seal_inner
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.losses import Loss
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.counting import JUNK, NULL, CapsuleReader, Cells, add_sub_tally, sub_tally_of
from secvm.protocol.relays.shards import write_sub_tally
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound, relayed_document, relayed_experiment
from tests.effort import scaled

ROUND = RelayedRound()
DOCUMENT = ROUND.document
READER = CapsuleReader.of(DOCUMENT, ROUND.manifest, ROUND.count_seed)
LAYOUT = struct.Struct("<BB16sIHIB3s")

#: Bytes near packages: each field is right, or next to it, or anything.
NEAR = st.builds(
    LAYOUT.pack,
    st.sampled_from([1, 1, 1, 0, 2]),
    st.integers(0, 5),
    st.sampled_from([DOCUMENT.experiment_id] * 5 + [bytes(16), DOCUMENT.experiment_id[:15] + b"x"]),
    st.sampled_from([1, 1, 1, 0, 2, 2**32 - 1]),
    st.sampled_from([0, 0, 1, 1, 2, 3, 2**16 - 1]),
    st.sampled_from([0, 0, 1, 2, 9, 10, 11, 2**24, 2**24 + 1, 2**32 - 1]),
    st.integers(0, 3),
    st.sampled_from([b"\0\0\0"] * 5 + [b"\0\0\1", b"\1\0\0"]),
)
CONTENTS = st.lists(NEAR | st.binary(min_size=32, max_size=32), max_size=scaled(40, 200))


def by_the_rule(reader: CapsuleReader, contents: list[bytes]) -> list[int]:
    cells = Cells.of(reader.document.experiment)
    packages = [reader.package_of(content) for content in contents]
    named = [(JUNK if package is None else cells.cell_of(package)) for package in packages]
    return [NULL if cell is None else cell for cell in named]


@given(CONTENTS)
def test_contents_count_as_they_do_one_by_one(contents: list[bytes]) -> None:
    assert READER.cells_of(b"".join(contents)).tolist() == by_the_rule(READER, contents)


def test_every_field_next_to_right_is_met_by_both() -> None:
    """A table that no chance of a search leaves out: kind, both numbers and the last field, at their edges."""
    contents = [
        LAYOUT.pack(1, kind, DOCUMENT.experiment_id, 1, a, b, c, b"\0\0\0")
        for kind in range(6)
        for a in (0, 1, 2, 3)
        for b in (*range(12), 2**24, 2**24 + 1)
        for c in range(4)
    ]
    found = READER.cells_of(b"".join(contents)).tolist()
    assert found == by_the_rule(READER, contents)
    # All cells there are, nulls, and junk.
    assert set(found) == {*range(Cells.of(DOCUMENT.experiment).count), NULL, JUNK}


def test_where_the_label_is_a_number_nobody_is_tested() -> None:
    document = regression()
    reader = CapsuleReader(document, bytes(32), 1, X25519PrivateKey.derive(bytes(32)))
    contents = [
        LAYOUT.pack(1, kind, document.experiment_id, 1, a, b, c, b"\0\0\0")
        for kind in range(6)
        for a in (0, 1)
        for b in (0, 1, 10, 11)
        for c in range(4)
    ]
    assert reader.cells_of(b"".join(contents)).tolist() == by_the_rule(reader, contents)


def regression() -> ExperimentDocument:
    noise = {"shape": Fraction(3), "odds": Fraction(1, 2)}
    cover = RelayCover(
        train=Noise(cells=22, **noise), participation=Noise(cells=2, **noise), test=None, parts=4, packages=160,
        train_share=Fraction(7, 10),
    )  # fmt: skip
    return relayed_document(experiment=relayed_experiment(labels=("y",), loss=Loss("epsilon-insensitive"), cover=cover))


def capsules() -> list[bytes]:
    """Sealed packages of all kinds; one that is broken, one of another round, one with a zero exchange."""
    cells = Cells.of(DOCUMENT.experiment)
    packages = [cells.package_of(cell) for cell in (0, 1, 1, 21, 22, 25, 26, 29)]
    made = []
    for number, package in enumerate(packages):
        ephemeral = hashlib.sha256(b"%d" % number).digest()
        content = encode(AddressedPackage(DOCUMENT.experiment_id, 1, package))
        made.append(seal_inner(ROUND.count_key.public_key, ROUND.label, ephemeral, content))
    broken = made[0][:-1] + bytes([made[0][-1] ^ 1])
    other = seal_inner(ROUND.count_key.public_key, bytes(32), bytes([9]) * 32, bytes(32))
    return [*made, broken, other, bytes(80)]


def test_capsules_are_opened_and_counted_as_the_rule_says() -> None:
    given_capsules = capsules()
    found = READER.cells(b"".join(given_capsules))
    assert found.tolist() == [0, 1, 1, 21, 22, 25, 26, 29, JUNK, JUNK, JUNK]
    assert sub_tally_of(found) == READER.sub_tally(given_capsules)


@given(st.lists(st.integers(-2, 29), max_size=60))
def test_sub_tallies_are_written_alike_and_add_up(cells: list[int]) -> None:
    counted = Counter(cell for cell in cells if cell >= 0)
    data = sub_tally_of(np.array(cells, np.int64))
    assert data == write_sub_tally(counted)
    counts = np.zeros(30, np.int64)
    add_sub_tally(counts, data)
    assert {cell: count for cell, count in enumerate(counts.tolist()) if count} == dict(counted)
