"""Counting an epoch: by the book, package by package, and by both kernels, with the same outcome."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.counting import epoch_count as counting
from secvm.coordinator.counting._kernels import fast
from secvm.coordinator.counting.epoch_count import EpochCount, Kinds, Name, RoundToCount, count_epoch
from secvm.errors import LocalProtocolError, RemoteProtocolError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, ExperimentId, check_package, decode, encode
from tests.rigs.opened_blocks import make_block, make_record

TWO = Experiment(n_bins=5, labels=("a", "b"), rule=Pegasos(), budget=5)
THREE = Experiment(n_bins=3, labels=("a", "b", "c"), rule=Pegasos(), multiclass="ovo", budget=5)
NUMBER = Experiment(n_bins=4, labels=("y",), rule=Pegasos(), loss=Loss("epsilon-insensitive"), budget=5)
ROUNDS = [
    RoundToCount(ExperimentId(b"A" * 16), TWO, 3),
    RoundToCount(ExperimentId(b"A" * 15 + b"B"), THREE, 1),
    RoundToCount(ExperimentId(b"C" * 16), NUMBER, 2**20 - 1),
    RoundToCount(ExperimentId(b"B" + b"A" * 15), TWO, 3),
    RoundToCount(ExperimentId(b"A" * 7 + b"B" + b"A" * 8), TWO, 3),
    # Another round of the first experiment.
    RoundToCount(ExperimentId(b"A" * 16), TWO, 4),
]
NAMES: list[Name] = ["reference", "fast"]


def zeros(count: int) -> bytes:
    return bytes(count)


def record(name: object, package: bytes) -> bytes:
    return make_record(repr(name).encode(), package)


def train(round_to: RoundToCount, *, model: int = 0, bin_index: int = 0, number: int | None = None) -> bytes:
    number = round_to.round_number if number is None else number
    package = TrainPackage(model=model, bin_index=bin_index, sign=1)
    return encode(AddressedPackage(round_to.experiment_id, number, package))


def by_the_book(blocks: list[bytes], rounds: list[RoundToCount]) -> EpochCount:
    """One record after the other, with the protocol's own functions."""
    records = [block[at : at + 64] for block in blocks for at in range(0, len(block), 64)]
    first: dict[bytes, bytes] = {}
    for held in records:
        first.setdefault(held[:32], held[32:])
    refused: Counter[str] = Counter()
    packages: list[list[Package]] = [[] for _ in rounds]
    for data in first.values():
        try:
            place, package = placed(data, rounds)
        except RemoteProtocolError as error:
            refused[error.problem] += 1
        else:
            packages[place].append(package)
    return EpochCount(
        tallies=[aggregate.empty_tally(told.experiment).count(packages[i]) for i, told in enumerate(rounds)],
        kinds=[kinds_of(held) for held in packages],
        received=len(records),
        distinct=len(first),
        refused=dict(refused),
    )


def placed(data: bytes, rounds: list[RoundToCount]) -> tuple[int, Package]:
    addressed = decode(data)
    told = [r for r in rounds if r.experiment_id == addressed.experiment_id] or rounds
    told = [r for r in told if r.round_number == addressed.round_number] or told
    return rounds.index(told[0]), check_package(
        addressed,
        experiment_id=told[0].experiment_id,
        experiment=told[0].experiment,
        round_number=told[0].round_number,
    )


def kinds_of(packages: list[Package]) -> Kinds:
    def cohort(wanted: Cohort) -> int:
        return sum(isinstance(p, ParticipationPackage) and p.cohort is wanted for p in packages)

    train, test, null = (
        sum(isinstance(p, kind) for p in packages) for kind in (TrainPackage, TestPackage, NullPackage)
    )
    return train, test, cohort(Cohort.TRAIN), cohort(Cohort.TEST), null


def assert_same(counted: EpochCount, expected: EpochCount) -> None:
    for name in ("tallies", "kinds", "received", "distinct", "refused"):
        assert getattr(counted, name) == getattr(expected, name), name


# Packages that are near the edges of what rounds take: around every limit, with one byte wrong now and then.
SMALL = st.integers(0, 7)
LABELS = st.one_of(SMALL, st.sampled_from([4095]))
PACKAGES: st.SearchStrategy[Package] = st.one_of(
    st.builds(TrainPackage, model=LABELS, bin_index=st.one_of(SMALL, st.just(2**24)), sign=st.sampled_from([-1, 1])),
    st.builds(TestPackage, true_class=LABELS, predicted_class=LABELS),
    st.builds(ParticipationPackage, cohort=st.sampled_from(Cohort), class_index=LABELS),
    st.builds(NullPackage),
)
IDS = st.sampled_from([*(told.experiment_id for told in ROUNDS), ExperimentId(b"D" * 16)])
ENCODED = st.builds(AddressedPackage, IDS, st.sampled_from([1, 2, 3, 4, 2**20 - 1]), PACKAGES).map(encode)
BROKEN = st.builds(
    lambda data, at, value: data[:at] + bytes([value]) + data[at + 1 :],
    ENCODED,
    st.integers(0, 31),
    st.integers(0, 255),
)
RECORDS = st.builds(
    record, st.integers(0, 40), st.one_of(ENCODED, ENCODED, BROKEN, st.binary(min_size=32, max_size=32))
)
BLOCKS = st.lists(st.lists(RECORDS, max_size=12).map(b"".join), max_size=6)


@pytest.mark.parametrize("name", NAMES)
@given(blocks=BLOCKS, key=st.binary(min_size=16, max_size=16))
def test_kernels_count_by_the_book(name: Name, blocks: list[bytes], key: bytes) -> None:
    counted = count_epoch(blocks, ROUNDS, dice=lambda count: key[:count], using=name)
    assert_same(counted, by_the_book(blocks, ROUNDS))


def many(count: int) -> bytes:
    """Records of many capsules, some twice, with random packages near the limits."""
    rng = np.random.default_rng(5)
    packages = np.zeros((count, 32), dtype=np.uint8)
    packages[:, 0] = 1
    packages[:, 1] = rng.integers(1, 5, count)
    packages[:, 2:18] = np.frombuffer(b"A" * 16, dtype=np.uint8)
    packages[:, 18] = 3
    packages[:, 22] = rng.integers(0, 3, count)
    packages[:, 24] = rng.integers(0, 7, count)
    packages[:, 28] = rng.integers(0, 3, count)
    return make_block(
        (b"%d" % i, row.tobytes()) for i, row in zip(rng.integers(0, count, count), packages, strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_any_size_count_the_same(name: Name) -> None:
    data = many(20_000)
    expected = by_the_book([data], ROUNDS)
    for size in (64, 64 * 777, len(data)):
        blocks = (data[at : at + size] for at in range(0, len(data), size))
        assert_same(count_epoch(blocks, ROUNDS, dice=zeros, using=name), expected)


@pytest.mark.parametrize("name", NAMES)
def test_capsules_are_known_again_however_far_apart_they_lie(name: Name, monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks are gathered before they are looked at: without this, small ones lie side by side.
    monkeypatch.setattr(counting, "_GATHERED_BYTES", 64)
    data = many(300)
    counted = count_epoch(
        [data, *(data[at : at + 64] for at in range(0, len(data), 64))], ROUNDS, dice=zeros, using=name
    )
    assert_same(counted, by_the_book([data, data], ROUNDS))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_counts_as_nothing(name: Name) -> None:
    for blocks in ([], [b""], [b"", b""]):
        counted = count_epoch(blocks, ROUNDS, dice=zeros, using=name)
        assert (counted.received, counted.distinct, counted.refused) == (0, 0, {})
        assert counted.tallies == [aggregate.empty_tally(told.experiment) for told in ROUNDS]
    assert count_epoch([record(1, train(ROUNDS[0]))], [], dice=zeros, using=name).refused == {"unknown-experiment": 1}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("differ_at", [0, 7, 8, 15, 16, 23, 24, 31])
def test_digests_that_differ_in_one_byte_are_two(name: Name, differ_at: int) -> None:
    digest = bytearray(32)
    blocks = [bytes(digest) + train(ROUNDS[0])]
    digest[differ_at] = 1
    blocks.append(bytes(digest) + train(ROUNDS[0]))
    assert count_epoch(blocks, ROUNDS, dice=zeros, using=name).distinct == 2


@pytest.mark.parametrize("name", NAMES)
def test_digests_of_one_beginning_are_all_counted(name: Name) -> None:
    """A sender who grinds digests makes none disappear."""
    blocks = [bytes(16) + i.to_bytes(16, "little") + train(ROUNDS[0]) for i in range(500)]
    counted = count_epoch(blocks + blocks, ROUNDS, dice=zeros, using=name)
    assert (counted.received, counted.distinct) == (1000, 500)


def longest_row(table: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    free = np.flatnonzero(table == 0)
    return int(np.diff(free, append=free[0] + len(table)).max()) - 1


def test_chosen_digests_do_not_crowd_the_table() -> None:
    """Digests that agree in their first 30 bits lie scattered, as any others: the key decides, and nobody knows it."""
    count = 40_000
    words = np.zeros((count, 8), dtype=np.uint64)
    words[:, 0] = np.arange(count, dtype=np.uint64) << np.uint64(32)
    words.flags.writeable = False  # as a block of records is
    seen = fast.DigestTable(bytes(range(16)))
    assert seen.first(words).all()
    other = fast.DigestTable(bytes(range(1, 17)))
    other.first(words)
    assert not np.array_equal(seen._table, other._table)
    # Fewer than 5 in 8 slots are taken; by chance alone a row of 300 would come once in very many keys.
    assert longest_row(seen._table) < 300
    assert longest_row(other._table) < 300


def test_round_cannot_be_counted_twice_at_once() -> None:
    with pytest.raises(LocalProtocolError):
        count_epoch([], [ROUNDS[0], ROUNDS[0]], dice=zeros)
    with pytest.raises(LocalProtocolError):
        count_epoch([], [RoundToCount(ExperimentId(b"short"), TWO, 1)], dice=zeros)


def test_half_a_record_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        count_epoch([b"x" * 32, b"x" * 32], ROUNDS, dice=zeros)


def test_counting_needs_no_numba(repository: Path) -> None:
    program = (
        "import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None\n"
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'numba' else found(name, *rest)\n"
        "from secvm.coordinator.counting.epoch_count import count_epoch\n"
        "print(count_epoch([bytes(64)], [], dice=bytes).refused)\n"
    )
    told = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(repository / "src")},
    )
    assert told.stdout == "{'garbage': 1}\n"
