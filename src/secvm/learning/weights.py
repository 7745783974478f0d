"""Weights: a model as it is published: int32 mantissas and the exact value of one mantissa unit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"secvm-weights-v1\n"


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of all models of an experiment. Public."""

    #: int32, models x (bins + 1); the bias is the last column.
    mantissas: NDArray[np.int32]
    #: What one mantissa unit is worth: weight = mantissa * unit, exactly.
    unit: Fraction
    #: Whether scores are divided by the Euclidean norm of the person's vector before they are compared.
    normalised: bool = False
    #: The weights before the first step: in that round everybody violates.
    first: bool = False

    @property
    def n_models(self) -> int:
        return len(self.mantissas)

    def values(self) -> NDArray[np.float64]:
        """The weights as floats, to look at."""
        return self.mantissas.astype(np.float64) * float(self.unit)

    def to_bytes(self) -> bytes:
        """Magic line, one line of JSON, the mantissas little-endian row by row."""
        header = {
            "bins": self.mantissas.shape[1],
            "first": self.first,
            "models": self.mantissas.shape[0],
            "normalised": self.normalised,
            "unit": f"{self.unit.numerator}/{self.unit.denominator}",
        }
        line = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        return _MAGIC + line + b"\n" + self.mantissas.astype("<i4").tobytes()
