"""Stepping: the model after an opened round, by the net tally and the number of submissions (docs/protocol.md §31).

One function, so that coordinator, devices and auditors cannot disagree about which rounds change the model.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import Model, model_of


class Stayed(enum.Enum):
    """Why an opened round does not change the model."""

    FLOOR = "it had fewer submissions than the floor"
    UNEXPLAINED = "a cell has more than its submissions and cover explain"
    NOBODY = "after cover is taken off nobody is left who trained"
    RANGE = "the step leaves the range of exact numbers"


@dataclass(frozen=True, slots=True)
class After:
    """What a round made of a state."""

    model: Model
    #: None: the round was stepped.
    stayed: Stayed | None


def after_opened(document: ExperimentDocument, state: State, net: Tally, *, clients: int) -> After:
    """The model after a round that was opened with this net tally; ``clients`` is M of the entry relay's count."""
    stayed: Stayed | None = None
    if clients < document.floor:
        stayed = Stayed.FLOOR
    elif not aggregate.explains(document.relay_cover, net, clients):
        stayed = Stayed.UNEXPLAINED
    else:
        try:
            return After(model_of(document, aggregate.step(document.experiment, state, net)), None)
        except ArithmeticRangeError:
            stayed = Stayed.RANGE
        except BadInputError:
            # Noise alone may do this to an honest round of few people.
            stayed = Stayed.NOBODY
    return After(model_of(document, state), stayed)
