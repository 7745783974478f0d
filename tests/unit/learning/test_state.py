"""The bytes of a state: one encoding each, and nothing else is taken."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from tests.unit.learning.helpers import small_tally


def some_state(rule: Pegasos | Swift) -> State:
    thinning = Thinning(rho=Fraction(3)) if rule.normalised else Thinning()
    experiment = Experiment(n_bins=2, labels=("a", "b"), rule=rule, thinning=thinning)
    state = aggregate.step(experiment, aggregate.start(experiment), small_tally([[3, 1, 2]], [[0, 5, 2]], [4, 3]))
    return aggregate.step(experiment, state, small_tally([[3, 0, 2]], [[1, 1, 1]], [2, 3]))


STATES = [Pegasos().start(1, 2), some_state(Pegasos(averaging=3)), some_state(Swift())]
BYTES = [s.to_bytes() for s in STATES]


@pytest.mark.parametrize("state", STATES)
def test_state_comes_back_from_its_bytes(state: State) -> None:
    again = State.from_bytes(state.to_bytes())
    assert (again.rule, again.step) == (state.rule, state.step)
    assert again.vectors.keys() == state.vectors.keys()
    for name, vector in state.vectors.items():
        assert again.vectors[name].dtype == vector.dtype
        assert (again.vectors[name] == vector).all()
    assert again.to_bytes() == state.to_bytes()


@pytest.mark.parametrize("data", BYTES)
def test_every_truncation_and_extension_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(BadInputError):
            State.from_bytes(data[:end])
    for more in (b"\0", b"\n", b"{}", data):
        with pytest.raises(BadInputError):
            State.from_bytes(data + more)


@given(st.sampled_from(BYTES), st.data())
def test_flipped_bit_is_refused_or_says_something_else_in_its_one_encoding(data: bytes, draw: st.DataObject) -> None:
    """A flip inside a number is another state, which its digest tells apart; no state has two encodings."""
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        other = State.from_bytes(bytes(flipped))
    except BadInputError:
        return
    assert other.to_bytes() == bytes(flipped)


def test_every_flip_in_the_magic_line_is_refused() -> None:
    for bit in range(8 * len(b"secvm-state-v1\n")):
        flipped = bytearray(BYTES[1])
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadInputError):
            State.from_bytes(bytes(flipped))


HEADER: dict[str, Any] = {"kinds": ["i8"], "names": ["sum_0"], "rule": "pegasos", "shape": [1, 2], "step": 3}


def encoded(header: object, body: bytes = bytes(16), **how: Any) -> bytes:
    options = {"sort_keys": True, "separators": (",", ":"), **how}
    return b"secvm-state-v1\n" + json.dumps(header, **options).encode() + b"\n" + body


def test_plain_header_is_taken() -> None:
    assert State.from_bytes(encoded(HEADER)).step == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        encoded(HEADER, indent=0),
        encoded(HEADER, separators=(", ", ": ")),
        encoded(dict(reversed(HEADER.items())), sort_keys=False),
        encoded({**HEADER, "more": 1}),
        encoded({k: v for k, v in HEADER.items() if k != "step"}),
        encoded({**HEADER, "step": -1}),
        encoded({**HEADER, "step": 3.0}),
        encoded({**HEADER, "step": "3"}),
        encoded({**HEADER, "step": True}),
        encoded({**HEADER, "step": None}),
        encoded({**HEADER, "shape": [2, 1, 1]}),
        encoded({**HEADER, "shape": [0, 2]}, b""),
        encoded({**HEADER, "shape": [-1, -2]}),
        encoded({**HEADER, "shape": [1, 3]}),
        encoded({**HEADER, "shape": [10**400, 1]}),
        encoded({**HEADER, "names": ["sum_0", "sum_0"], "kinds": ["i8", "i8"]}, bytes(32)),
        encoded({**HEADER, "names": ["b", "a"], "kinds": ["i8", "i8"]}, bytes(32)),
        encoded({**HEADER, "names": [], "kinds": []}, b""),
        encoded({**HEADER, "names": "s"}),
        encoded({**HEADER, "names": [["sum_0"]]}),
        encoded({**HEADER, "kinds": [["i8"]]}),
        encoded({**HEADER, "kinds": ["i4"]}),
        encoded({**HEADER, "kinds": ["i8", "i8"]}),
        encoded([]),
        encoded(None),
        encoded("state"),
        encoded(HEADER).replace(b"[1,2]", b"[1e999,2]"),
        encoded(HEADER).replace(b'"step":3', b'"step":NaN'),
        encoded(HEADER).replace(b'"step":3', b'"step":03'),
        encoded(HEADER).replace(b'"step":3', b'"step":3,"step":3'),
        b"secvm-state-v1\n" + b"[" * 100_000 + b"\n",
        b"secvm-state-v1\n\xff\xfe\n",
        b"secvm-state-v2\n" + encoded(HEADER).partition(b"\n")[2],
    ],
)
def test_anything_but_the_canonical_encoding_is_refused(data: bytes) -> None:
    with pytest.raises(BadInputError):
        State.from_bytes(data)


@given(st.binary(max_size=80))
def test_garbage_after_the_magic_is_refused_and_nothing_worse(rest: bytes) -> None:
    with pytest.raises(BadInputError):
        State.from_bytes(b"secvm-state-v1\n" + rest)


def test_equal_states_have_equal_bytes_whatever_the_order_of_their_vectors() -> None:
    a, b = np.array([[1, 2]], dtype=np.int64), np.array([[3, 4]], dtype=np.int64)
    assert (
        State(rule="r", step=1, vectors={"a": a, "b": b}).to_bytes()
        == State(rule="r", step=1, vectors={"b": b[:, ::-1][:, ::-1], "a": a}).to_bytes()
    )
