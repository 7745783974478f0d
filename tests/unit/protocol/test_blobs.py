"""Tallies, states and weights as bytes: named by digest, of one experiment, in one spelling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.blobs import decode_state, decode_tally, decode_weights, encode_tally
from secvm.protocol.documents import digest_of

PEGASOS = Experiment(n_bins=3, labels=("a", "b", "c"), budget=5)
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
    data = encode_tally(tally)
    again = decode_tally(data, digest=digest_of(data), experiment=PEGASOS)
    assert again == tally
    assert encode_tally(again) == data


def refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_tally(data, digest=digest_of(data), experiment=PEGASOS)


def test_bytes_that_are_no_tally_of_the_experiment_are_refused() -> None:
    good = encode_tally(PEGASOS.empty_tally())
    for size in range(0, len(good), 7):
        refused(good[:size])
    refused(good + bytes(8))
    refused(good.replace(b"v1", b"v2"))
    refused(good.replace(b'"labels":3', b'"labels":2'))
    refused(good[:-1] + b"\x80")  # below zero
    refused(good[:-2] + b"\x40\0")  # beyond 2^53
    refused(encode_tally(SWIFT.empty_tally()))
    with pytest.raises(MalformedMessageError):
        decode_tally(good, digest="00" * 32, experiment=PEGASOS)


def test_counts_out_of_range_are_not_written() -> None:
    for count in (-1, 2**53):
        tally = PEGASOS.empty_tally()
        tally.cells[0, 0] = count
        with pytest.raises(LocalProtocolError):
            encode_tally(tally)


@pytest.mark.parametrize("experiment", [PEGASOS, SWIFT])
def test_states_and_weights_are_read_back_exactly_and_only_for_their_experiment(experiment: Experiment) -> None:
    tally = experiment.empty_tally()
    tally.participants[:] = 5
    tally.plus[:, 1] = 3
    tally.minus[:, 2] = 4
    other = SWIFT if experiment is PEGASOS else PEGASOS
    state = experiment.start()
    for _ in range(3):
        data = state.to_bytes()
        assert decode_state(data, digest=digest_of(data), experiment=experiment).to_bytes() == data
        with pytest.raises(MalformedMessageError):
            decode_state(data, digest=digest_of(data), experiment=other)
        with pytest.raises(MalformedMessageError):
            decode_state(data[:-1], digest=digest_of(data[:-1]), experiment=experiment)
        for weights in (experiment.rule.training_weights(state), experiment.rule.evaluation_weights(state)):
            data = weights.to_bytes()
            again = decode_weights(data, digest=digest_of(data), experiment=experiment)
            assert again.to_bytes() == data
            assert (again.unit, again.first, again.normalised) == (weights.unit, weights.first, weights.normalised)
            with pytest.raises(MalformedMessageError):
                decode_weights(data, digest=digest_of(data), experiment=other)
        state = experiment.step(state, tally)


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
    good = PEGASOS.rule.training_weights(PEGASOS.start()).to_bytes()
    bad = good.replace(old, new, 1)
    assert bad != good
    for data in (bad, good[:-1], good + b"\0"):
        with pytest.raises(MalformedMessageError):
            decode_weights(data, digest=digest_of(data), experiment=PEGASOS)
