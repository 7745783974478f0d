"""What a descent rule is, and the state that all rules share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.direction import Direction
from secvm.learning.experiment import PublishedRule
from secvm.learning.weights import Weights

_MAGIC = b"secvm-state-v1\n"


@dataclass(frozen=True, eq=False)
class State:
    """All that a rule needs to go on: the number of steps taken and named vectors, models x (bins + 1) each.

    Its bytes are one magic line, one line of JSON (rule, step, names, kinds, shape), then the vectors little-endian
    in the order of their names. Equal states have equal bytes.
    """

    #: Name of the rule that made it.
    rule: str
    #: Steps taken so far; the weights of this state are those of round ``step + 1``.
    step: int
    #: int64 or float64 vectors by name.
    vectors: dict[str, NDArray[Any]]

    def to_bytes(self) -> bytes:
        """The canonical encoding."""
        names = sorted(self.vectors)
        header = {
            "kinds": ["i8" if self.vectors[n].dtype == np.int64 else "f8" for n in names],
            "names": names,
            "rule": self.rule,
            "shape": list(self.vectors[names[0]].shape),
            "step": self.step,
        }
        line = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        body = b"".join(
            np.ascontiguousarray(self.vectors[n]).astype(self.vectors[n].dtype.newbyteorder("<")).tobytes()
            for n in names
        )
        return _MAGIC + line + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The state of an encoding; anything but a whole canonical encoding is refused."""
        refused = BadInputError("these bytes are not a state")
        magic, newline, rest = data.partition(b"\n")
        line, second, body = rest.partition(b"\n")
        if magic + newline != _MAGIC or not second:
            raise refused
        try:
            header = json.loads(line)
            names, kinds = list(header["names"]), list(header["kinds"])
            models, bins = (int(n) for n in header["shape"])
            step, rule = int(header["step"]), str(header["rule"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise refused from None
        size = models * bins * 8
        if min(models, bins) < 1 or step < 0 or len(body) != size * len(names) or len(kinds) != len(names):
            raise refused
        if not names or not all(kind in ("i8", "f8") for kind in kinds):
            raise refused
        vectors = {
            str(name): np.frombuffer(body, dtype=f"<{kind}", count=models * bins, offset=i * size)
            .reshape(models, bins)
            .astype(np.int64 if kind == "i8" else np.float64)
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
        }
        state = cls(rule=rule, step=step, vectors=vectors)
        if state.to_bytes() != data:
            raise refused
        return state


class DescentRule(PublishedRule):
    """A first-order method on public tallies.

    A rule is a frozen dataclass that says ``name`` and declares its constants (``learning.declared``); it has no kernel
    of its own, so that one from outside needs no more than these methods.
    """

    __slots__ = ()

    def start(self, n_models: int, n_bins: int) -> State:
        """The state before round 1; its weights are zero."""
        raise NotImplementedError

    def step(self, state: State, direction: Direction) -> State:
        """The next state. Never changes the one given."""
        raise NotImplementedError

    def training_weights(self, state: State) -> Weights:
        """The weights that decide who violates in the next round."""
        raise NotImplementedError

    def evaluation_weights(self, state: State) -> Weights:
        """The weights that test packages and predictions use."""
        raise NotImplementedError


def first_weights(shape: tuple[int, ...], *, normalised: bool) -> Weights:
    """The weights of round 1: zero; everybody violates."""
    return Weights(mantissas=np.zeros(shape, dtype=np.int32), unit=Fraction(1), normalised=normalised, first=True)
