"""Tallies, states and weights as bytes: named by digest, of one experiment, in one spelling."""

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import (
    decode_state,
    decode_tally,
    decode_weights,
    encode_tally,
    pack,
    read_tally_bytes,
    tally_digest,
    unpack,
)

PEGASOS = Experiment(n_bins=3, labels=("a", "b", "c"), rule=Pegasos(), budget=5)
SWIFT = Experiment(n_bins=3, labels=("a", "b"), rule=Swift(), thinning=Thinning(rho=3), budget=5)  # type: ignore[arg-type]  # any number will do
COUNTS = st.integers(0, 2**53 - 1)


@given(st.lists(COUNTS, min_size=36, max_size=36))
def test_tally_comes_back_whole(counts: list[int]) -> None:
    entries = np.array(counts, dtype=np.int64)
    tally = Tally(
        plus=entries[:12].reshape(3, 4),
        minus=entries[12:24].reshape(3, 4),
        participants=entries[24:27],
        cells=entries[27:].reshape(3, 3),
    )
    data, digest = encode_tally(tally, PEGASOS), tally_digest(tally)
    assert decode_tally(data, digest=digest, experiment=PEGASOS) == tally
    assert len(data) < 8 * 36 + 64
    # Whatever way it was deflated.
    assert decode_tally(zlib.compress(zlib.decompress(data), 1), digest=digest, experiment=PEGASOS) == tally


def refused(data: bytes, digest: str) -> None:
    with pytest.raises(MalformedMessageError):
        decode_tally(data, digest=digest, experiment=PEGASOS)


def test_bytes_that_are_no_tally_of_the_experiment_are_refused() -> None:
    good = encode_tally(aggregate.empty_tally(PEGASOS), PEGASOS)
    refused(encode_tally(aggregate.empty_tally(SWIFT), SWIFT), tally_digest(aggregate.empty_tally(SWIFT)))
    refused(good, "00" * 32)
    for planes in (b"\1" + bytes(35), bytes(6 * 36) + b"\x40" + bytes(35)):  # -1; 2^53
        with pytest.raises(MalformedMessageError, match="out of range"):
            read_tally_bytes(zlib.compress(planes), PEGASOS)


def test_a_tally_of_another_experiment_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="another experiment"):
        encode_tally(aggregate.empty_tally(SWIFT), PEGASOS)


def test_counts_out_of_range_are_not_written() -> None:
    for count in (-1, 2**53):
        tally = aggregate.empty_tally(PEGASOS)
        tally.cells[0, 0] = count
        for write in (tally_digest, lambda tally: encode_tally(tally, PEGASOS)):
            with pytest.raises(LocalProtocolError):
                write(tally)


@pytest.mark.parametrize("experiment", [PEGASOS, SWIFT])
def test_states_and_weights_are_read_back_exactly_and_only_for_their_experiment(experiment: Experiment) -> None:
    tally = aggregate.empty_tally(experiment)
    tally.participants[:] = 5
    tally.plus[:, 1] = 3
    tally.minus[:, 2] = 4
    other = SWIFT if experiment is PEGASOS else PEGASOS
    state = aggregate.start(experiment)
    for _ in range(3):
        data = state.to_bytes()
        assert decode_state(data, digest=digest_of(data), experiment=experiment).to_bytes() == data
        with pytest.raises(MalformedMessageError):
            decode_state(data, digest=digest_of(data), experiment=other)
        with pytest.raises(MalformedMessageError):
            decode_state(data[:-1], digest=digest_of(data[:-1]), experiment=experiment)
        for weights in (aggregate.training_weights(experiment, state), aggregate.evaluation_weights(experiment, state)):
            data = weights.to_bytes()
            again = decode_weights(data, digest=digest_of(data), experiment=experiment)
            assert again.to_bytes() == data
            assert (again.unit, again.first, again.normalised) == (weights.unit, weights.first, weights.normalised)
            with pytest.raises(MalformedMessageError):
                decode_weights(data, digest=digest_of(data), experiment=other)
        state = aggregate.step(experiment, state, tally)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"v1", b"v2"),
        (b'"unit":"1/1"', b'"unit":"2/2"'),
        (b'"unit":"1/1"', b'"unit":"1"'),
        (b'"unit":"1/1"', b'"unit":"1/0"'),
        (b'"unit":"1/1"', b'"unit":"-1/1"'),
        (b'"unit":"1/1"', b'"unit":1'),
        (b'"first":true', b'"first":1'),
        (b'"first":true', b'"first": true'),
        (b'"first":true,', b""),
        (b'"models":3', b'"models":1'),
        (b'"normalised":false', b'"normalised":true'),
        (b"{", b"["),
    ],
)
def test_bytes_that_are_no_weights_are_refused(old: bytes, new: bytes) -> None:
    good = aggregate.training_weights(PEGASOS, aggregate.start(PEGASOS)).to_bytes()
    bad = good.replace(old, new, 1)
    assert bad != good
    for data in (bad, good[:-1], good + b"\0"):
        with pytest.raises(MalformedMessageError):
            decode_weights(data, digest=digest_of(data), experiment=PEGASOS)


# ── byte planes ──────────────────────────────────────────────────────────────────────────────────────────────────────

MOST = 2**55
NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-MOST, MOST - 1))


@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_numbers_come_back(numbers: list[int]) -> None:
    data = pack(np.array(numbers, dtype=np.int64))
    assert unpack(data, len(numbers)).tolist() == numbers


@pytest.mark.parametrize("number", [MOST, -MOST - 1, 2**63 - 1, -(2**63)])
def test_numbers_beyond_seven_bytes_are_not_written(number: int) -> None:
    with pytest.raises(LocalProtocolError):
        pack(np.array([0, number], dtype=np.int64))


def test_a_bomb_is_left_where_it_is_known_to_be_too_long() -> None:
    bomb = zlib.compress(bytes(2**26), 9)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError):
            unpack(bomb, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**18
