"""What manifests name by digest: tallies, states, weights. Large, public, without signatures of their own.

States and weights are written by ``secvm.learning``, and are named by the digest of their bytes. A tally is named by
the digest of its **canonical** bytes, which nobody sends: the line ``secvm-tally-v1``, one line of JSON (``bins`` with
the bias, ``labels``, ``models``), then as 8 little-endian bytes an entry: plus and minus, models x bins each; train
participants per label; test cells, labels x labels. What is kept, served and read are the same entries, less the known
mean of the relays' cover, packed (docs/protocol.md §13). Each is read strictly: bytes of another content have another
name.

``pack`` writes whole numbers near zero in few bytes. They are folded (0, -1, 1, -2, … become 0, 1, 2, 3, …), written as
the lowest byte of each, then the second byte of each, and so on, in as few such *planes* as the largest needs, and
deflated (RFC 1950). Cover is noise, which no coder makes smaller than its entropy; of it the lowest plane has nearly
all, and the others are nearly empty. Whoever reads knows how many numbers there are, so what is inflated never takes
more than ``MAX_PLANES`` bytes for each. One list of numbers has one list of planes; deflated it has many forms, and
none is signed.
"""

from __future__ import annotations

import json
import zlib
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights
from secvm.protocol.canonical import check_digest, digest_of
from secvm.protocol.version import TALLY_MAGIC, WEIGHTS_MAGIC

#: Numbers lie between -2^55 and 2^55 - 1: a count, which is below 2^53, less a known mean.
MAX_PLANES = 7
#: Nothing repeats in noise, so looking further back than one byte finds nothing; runs of zeros are all there is.
_STRATEGY, _LEVEL, _MEMORY_LEVEL = zlib.Z_RLE, 9, 9


def pack(numbers: NDArray[np.int64]) -> bytes:
    """These numbers, at least one, as bytes."""
    folded = (numbers << 1) ^ (numbers >> 63)
    planes = max(1, -(-int(folded.max()).bit_length() // 8))
    if int(folded.min()) < 0 or planes > MAX_PLANES:
        raise LocalProtocolError(f"a number needs more than {MAX_PLANES} bytes")
    table = folded.astype("<i8").view(np.uint8).reshape(-1, 8)
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, _MEMORY_LEVEL, _STRATEGY)
    deflated = bytearray()
    for plane in range(planes):
        # Planes are not alike: a new block has a code of its own.
        deflated += deflater.compress(table[:, plane].tobytes()) + deflater.flush(zlib.Z_BLOCK)
    return bytes(deflated + deflater.flush())


def unpack(data: bytes, count: int) -> NDArray[np.int64]:
    """The numbers in these bytes, of which there must be ``count``, at least one."""
    refused = MalformedMessageError(f"these bytes are not {count} packed numbers")
    inflater = zlib.decompressobj()
    try:
        # One byte beyond what can be right: where it is there, the rest of a bomb is left alone.
        inflated = inflater.decompress(data, MAX_PLANES * count + 1)
    except zlib.error:
        raise refused from None
    planes, left_over = divmod(len(inflated), count)
    if not inflater.eof or inflater.unused_data or left_over or not 1 <= planes <= MAX_PLANES:
        raise refused
    table = np.zeros((count, 8), dtype=np.uint8)
    table[:, :planes] = np.frombuffer(inflated, np.uint8).reshape(planes, count).T
    if planes > 1 and not table[:, planes - 1].any():
        raise refused
    folded = table.view("<i8").reshape(count).astype(np.int64)
    return (folded >> 1) ^ -(folded & 1)


#: Counts stay exact in every language's numbers.
MAX_COUNT = 2**53 - 1


def tally_digest(tally: Tally) -> str:
    """The name of a tally: what documents sign."""
    return digest_of(_canonical(tally))


def encode_tally(tally: Tally, experiment: Experiment) -> bytes:
    """A tally of this experiment as it is kept and served."""
    entries, means = _entries(tally), _entries(aggregate.known_means(experiment))
    if len(entries) != len(means):
        raise LocalProtocolError("the tally is of another experiment")
    return pack(entries - means)


def read_tally_bytes(data: bytes, experiment: Experiment) -> Tally:
    """A tally of this experiment, whatever its name."""
    means = aggregate.known_means(experiment)
    parts = (means.plus, means.minus, means.participants, means.cells)
    known = _entries(means)
    entries = known + unpack(data, len(known))
    if int(entries.min()) < 0 or int(entries.max()) > MAX_COUNT:
        raise MalformedMessageError("a count of the tally is out of range")
    cut = np.split(entries, np.cumsum([part.size for part in parts])[:-1])
    plus, minus, participants, cells = (counts.reshape(part.shape) for counts, part in zip(cut, parts, strict=True))
    return Tally(plus=plus, minus=minus, participants=participants, cells=cells)


def decode_tally(data: bytes, *, digest: str, experiment: Experiment) -> Tally:
    """The tally of this digest, if it is one of this experiment."""
    tally = read_tally_bytes(data, experiment)
    check_digest(_canonical(tally), digest)
    return tally


def _canonical(tally: Tally) -> bytes:
    shape = {"bins": tally.plus.shape[1], "labels": len(tally.participants), "models": tally.plus.shape[0]}
    header = json.dumps(shape, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    return TALLY_MAGIC + header + _entries(tally).astype("<i8").tobytes()


def _entries(tally: Tally) -> NDArray[np.int64]:
    """All counts in the order in which they are written."""
    entries = np.concatenate([part.ravel() for part in (tally.plus, tally.minus, tally.participants, tally.cells)])
    if int(entries.min()) < 0 or int(entries.max()) > MAX_COUNT:
        raise LocalProtocolError("a count is below zero, or too large to publish")
    return entries


def decode_state(data: bytes, *, digest: str, experiment: Experiment) -> State:
    """The state of this digest, if it is one of this experiment."""
    check_digest(data, digest)
    try:
        state = State.from_bytes(data)
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    start = aggregate.start(experiment)
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
