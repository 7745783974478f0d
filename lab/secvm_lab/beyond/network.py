"""A network of one hidden layer: its parameters, their one number each, and what is public about sending them.

    z_u = (Σ_j W_ju x_j) / ‖x‖ + b_u        a_u = max(0, z_u)        s_k = Σ_u V_uk a_u + c_k

x is a person's binned vector, u a hidden unit, k an output. Two labels have one output and the hinge, max(0, 1 - y s).
More labels have an output each and the hinge of the strongest rival, max(0, 1 + s_rival - s_label) (Crammer and Singer
2001). So the error of an output is -1, 0 or +1, the paper's rectifier at both ends, and the largest output wins.

**Parameters are bins.** Between a device and the coordinator nothing is new: a network with D parameters is one model
of D bins, a package names one of them and a sign, and ``learning.aggregate.tally`` counts it. Parameter

    W_ju   j h + u             words, j below the number of bins
    b_u    d h + u             hidden biases
    V_uk   (d + 1) h + u K + k outputs
    c_k    (d + 1) h + h K + k output biases        (d bins, h hidden units, K outputs)

**Weights are served as integers**, in units of 2^-16, between -16 and 16, the same for everybody. All sums of a device
are then sums of integers: any order, any machine, the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError
from secvm.learning.label_models import LabelModels

#: Weights and activations are integers in units of 2^-BITS.
BITS = 16
ONE = 1 << BITS
#: Weights stay within so many units: 16.0. With 2^22 units of a person and 2^10 hidden units sums stay below 2^62.
MOST = 16 * ONE


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a network is. Public."""

    #: Bins, without the bias.
    n_bins: int
    hidden: int
    n_labels: int = 2

    def __post_init__(self) -> None:
        # Hidden units and outputs share the twelve bits by which dice name a model.
        if self.hidden + self.outputs > 1 << 12 or self.n_parameters >= 1 << 31:
            raise BadExperimentError("a network of so many parameters has no dice")

    @property
    def models(self) -> LabelModels:
        """What an output stands for."""
        return LabelModels(n_labels=self.n_labels)

    @property
    def outputs(self) -> int:
        return self.models.n_models

    @property
    def ends(self) -> tuple[int, int, int, int]:
        """One past the last parameter of each block."""
        words = self.n_bins * self.hidden
        hidden = words + self.hidden
        outputs = hidden + self.hidden * self.outputs
        return words, hidden, outputs, outputs + self.outputs

    @property
    def n_parameters(self) -> int:
        return self.ends[3]

    def blocks(self, parameters: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """W (bins x units), b, V (units x outputs), c, as views of all parameters side by side."""
        words, hidden, outputs, end = self.ends
        return (
            parameters[:words].reshape(self.n_bins, self.hidden),
            parameters[words:hidden],
            parameters[hidden:outputs].reshape(self.hidden, self.outputs),
            parameters[outputs:end],
        )

    def touched(self, words: int) -> int:
        """The most parameters that a person with so many different bins can name in a round."""
        return (words + 1) * self.hidden + (self.hidden + 1) * self.outputs


@dataclass(frozen=True, slots=True)
class Bounds:
    """The public bound C of each block: an entry c is sent with probability min(1, |c| / C).

    A bound above all entries cuts nobody; the larger it is, the fewer packages are sent. So it is clip and thinning in
    one, as 1/ρ is for the linear model's rows.
    """

    words: float = 1.0
    #: Slopes and activations pass 1 as a network grows, and hardly ever 4.
    hidden_biases: float = 4.0
    outputs: float = 4.0
    output_biases: float = 1.0

    @property
    def each(self) -> tuple[float, float, float, float]:
        return self.words, self.hidden_biases, self.outputs, self.output_biases

    def per_parameter(self, shape: Shape) -> NDArray[np.float64]:
        """C of each parameter."""
        lengths = np.diff((0, *shape.ends))
        return np.repeat(np.array(self.each), lengths)


@dataclass(frozen=True, slots=True)
class Question:
    """All that a device must know of a network besides its weights. Public, the same for everyone."""

    shape: Shape
    bounds: Bounds = Bounds()


def quantised(parameters: NDArray[np.float64]) -> NDArray[np.int32]:
    """Weights as they are served: rounded half to even, and held within the range."""
    return np.clip(np.rint(parameters * ONE), -MOST, MOST).astype(np.int32)
