"""What manifests name by digest: tallies, states, weights. Large, public, without signatures of their own.

A tally's bytes: the line ``secvm-tally-v1``, one line of JSON (``bins`` with the bias, ``labels``, ``models``), then as
8 little-endian bytes an entry: plus and minus, models x bins each; train participants per label; test cells, labels x
labels. States and weights are written by ``secvm.learning``. Each is read strictly: one content, one encoding.
"""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights
from secvm.protocol.documents import check_digest
from secvm.protocol.version import TALLY_MAGIC, WEIGHTS_MAGIC

#: Counts stay exact in every language's numbers.
MAX_COUNT = 2**53 - 1


def encode_tally(tally: Tally) -> bytes:
    """The canonical bytes of a tally."""
    parts = (tally.plus, tally.minus, tally.participants, tally.cells)
    if any(part.size and (int(part.min()) < 0 or int(part.max()) > MAX_COUNT) for part in parts):
        raise LocalProtocolError("a count is below zero, or too large to publish")
    return _header(TALLY_MAGIC, _tally_shape(tally)) + b"".join(part.astype("<i8").tobytes() for part in parts)


def decode_tally(data: bytes, *, digest: str, experiment: Experiment) -> Tally:
    """The tally of this digest, if it is one of this experiment."""
    check_digest(data, digest)
    empty = experiment.empty_tally()
    head = _header(TALLY_MAGIC, _tally_shape(empty))
    shapes = [empty.plus.shape, empty.minus.shape, empty.participants.shape, empty.cells.shape]
    sizes = [int(np.prod(shape)) for shape in shapes]
    if not data.startswith(head) or len(data) != len(head) + 8 * sum(sizes):
        raise MalformedMessageError("these bytes are no tally of this experiment")
    entries = np.frombuffer(data, dtype="<i8", offset=len(head)).astype(np.int64)
    if int(entries.min()) < 0 or int(entries.max()) > MAX_COUNT:
        raise MalformedMessageError("a count of the tally is out of range")
    cut = np.split(entries, np.cumsum(sizes)[:-1])
    plus, minus, participants, cells = (part.reshape(shape) for part, shape in zip(cut, shapes, strict=True))
    return Tally(plus=plus, minus=minus, participants=participants, cells=cells)


def decode_state(data: bytes, *, digest: str, experiment: Experiment) -> State:
    """The state of this digest, if it is one of this experiment."""
    check_digest(data, digest)
    try:
        state = State.from_bytes(data)
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    start = experiment.start()
    kinds = {name: (v.dtype, v.shape) for name, v in state.vectors.items()}
    if state.rule != start.rule or kinds != {name: (v.dtype, v.shape) for name, v in start.vectors.items()}:
        raise MalformedMessageError("the state belongs to another experiment")
    return state


def decode_weights(data: bytes, *, digest: str, experiment: Experiment) -> Weights:
    """The weights of this digest, if they are of this experiment."""
    check_digest(data, digest)
    refused = MalformedMessageError("these bytes are no weights of this experiment")
    shape = (experiment.models.n_models, experiment.n_bins + 1)
    magic, newline, rest = data.partition(b"\n")
    line, second, body = rest.partition(b"\n")
    if magic + newline != WEIGHTS_MAGIC or not second or len(line) > 4096 or len(body) != 4 * shape[0] * shape[1]:
        raise refused
    try:
        header = json.loads(line)
        weights = Weights(
            mantissas=_little(body, "<i4").astype(np.int32).reshape(shape),
            unit=Fraction(int(header["unit"].partition("/")[0]), int(header["unit"].partition("/")[2])),
            normalised=header["normalised"] is True,
            first=header["first"] is True,
        )
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise refused from None
    if weights.to_bytes() != data or weights.unit <= 0 or weights.normalised != experiment.rule.normalised:
        raise refused
    return weights


def _little(data: bytes, kind: str) -> NDArray[np.int32]:
    return np.frombuffer(data, dtype=kind)


def _tally_shape(tally: Tally) -> dict[str, int]:
    return {"bins": tally.plus.shape[1], "labels": len(tally.participants), "models": tally.plus.shape[0]}


def _header(magic: bytes, content: dict[str, int]) -> bytes:
    return magic + json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"
