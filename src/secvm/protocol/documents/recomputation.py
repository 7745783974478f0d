"""Is this really the next model? One step played again from the published tally, exactly.

    state t = rule(state t-1, tally t-1)        weights = a pure function of the state        round 1 starts from zero

Whoever has a state that it believes, and the tally that a manifest names, needs no weights from anybody: it computes
all three blobs and compares their digests with those that were signed. A wrong step, another λ, a forged normaliser,
another class weight, weights that are not the state's: each gives another digest.

What this does **not** show is that the tally is true. A coordinator can invent packages, within what budget and relays
allow, and the step then follows all the same: "step follows", never "round correct".

After a round with two relays ``after_opened`` says whether there is a step at all, so that coordinator, devices and
auditors cannot disagree about which rounds change the model (§31).

``Caps`` are a further rule, for whoever wants one: how far weights and bias may go at most. A published model can be
made to single somebody out; a cap bounds how loudly.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from secvm.errors import ArithmeticRangeError, BadInputError, InconsistentManifestError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.log.entries import ModelNames


@dataclass(frozen=True, eq=False)
class Model:
    """A descent state, and the weights that follow from it."""

    state: State
    training: Weights
    evaluation: Weights

    @cached_property
    def state_bytes(self) -> bytes:
        """The state as it is kept."""
        return self.state.to_bytes()

    @property
    def blobs(self) -> tuple[bytes, bytes, bytes]:
        """Its blobs: the state, the training weights, the evaluation weights."""
        return self.state_bytes, self.training.to_bytes(), self.evaluation.to_bytes()

    @cached_property
    def names(self) -> ModelNames:
        """The digests under which a manifest must name it."""
        state, training, evaluation = map(digest_of, self.blobs)
        return state, training, evaluation

    @property
    def by_name(self) -> dict[str, bytes]:
        """Its blobs by their digests, as they are kept and served."""
        return dict(zip(self.names, self.blobs, strict=True))


def model_of(document: ExperimentDocument, state: State) -> Model:
    """The model that a state is."""
    asked = document.experiment
    return Model(state, aggregate.training_weights(asked, state), aggregate.evaluation_weights(asked, state))


def first_model(document: ExperimentDocument) -> Model:
    """What round 1 starts from: zero."""
    return model_of(document, aggregate.start(document.experiment))


def next_model(document: ExperimentDocument, state: State, tally: Tally | None) -> Model:
    """What follows from a state and the tally of its round; an abandoned round, None, leaves it as it is.

    Raises
    ------
    InconsistentManifestError
        From this tally no step can be taken: nobody honest has published it.
    """
    if tally is None:
        return model_of(document, state)
    try:
        return model_of(document, aggregate.step(document.experiment, state, tally))
    except (ArithmeticRangeError, BadInputError):
        raise InconsistentManifestError("from the published tally no step can be taken") from None


def what_differs(naming: RoundManifest | Ending, model: Model) -> str | None:
    """What a document names instead of this model, in words; None where they are the same."""
    words = (
        "another state",
        "training weights that are not the state's",
        "evaluation weights that are not the state's",
    )
    pairs = zip(words, naming.model, model.names, strict=True)
    return next((word for word, named, computed in pairs if named != computed), None)


# ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Caps:
    """How far a model may go before a device takes no part; None: as far as it likes."""

    #: Of the Euclidean norm of each model's weights, without the bias.
    norm: Fraction | None = None
    #: Of each model's bias, in absolute value.
    bias: Fraction | None = None

    def __post_init__(self) -> None:
        if any(cap is not None and cap < 0 for cap in (self.norm, self.bias)):
            raise BadInputError("a cap must not be below zero")

    def refuses(self, weights: Weights) -> str | None:
        """Why these weights go too far, or None. Exact: no rounding decides."""
        # Python's integers: the squares of many mantissas do not fit into 64 bits.
        rows = weights.mantissas.astype(np.int64).tolist()
        for *row, bias in rows:
            if self.bias is not None and abs(bias) * weights.unit > self.bias:
                return "the model's bias is larger than this device allows"
            if self.norm is not None and sum(m * m for m in row) * weights.unit**2 > self.norm**2:
                return "the model's weights are larger than this device allows"
        return None


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
