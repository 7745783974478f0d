"""The label on the device, from the last trusted model: that is what the model is for. Nothing is sent.

All features of the vault's source take part, not the sample that an experiment may see: nobody else learns of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from secvm.errors import BadInputError
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector, VocabularyBinning
from secvm.learning.individual.update import score, squared_norm
from secvm.learning.weights import Weights
from secvm.participant.person.pinning import binned, binning_of
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.model_files import ModelShelf
from secvm.protocol.documents.experiment import read_published


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """What a model says of a person. Secret: it does not print itself."""

    #: The label, or the number as text.
    label: str
    #: How clearly: the winner's score, in units of the margin; None where the label is a number.
    margin: float | None
    #: The round that the model was published with.
    round_number: int

    def __repr__(self) -> str:
        return "Prediction(...)"


def predict_for(
    digest: str,
    state: DeviceState,
    vault: Vault,
    models: Path,
    *,
    source: str | None = None,
    vocabulary: VocabularyBinning | None = None,
) -> Prediction:
    """The label that the last trusted model of an experiment gives to the person of this vault."""
    record, model = state.record(digest), state.model(digest)
    if record is None:
        raise BadInputError("this device does not know that experiment")
    if model is None:
        raise BadInputError("there is no model of that experiment on this device yet")
    document = read_published(record.envelope, digest=digest)
    weights = ModelShelf(models).kept(model.weights, document)
    if weights.first:
        raise BadInputError("the model has learnt nothing yet", next_step="Ask again after the next round.")
    features = vault.features(source or document.features.source).value
    vector = binned(document, features, binning_of(document, vocabulary, salt=record.salt))
    label, margin = _answer(document.experiment, weights, vector)
    return Prediction(label, margin, model.round_number)


def _answer(experiment: Experiment, weights: Weights, vector: BinnedVector) -> tuple[str, float | None]:
    models = experiment.models
    scores = [score(weights, model, vector) for model in range(models.n_models)]
    unit = float(weights.unit) / (sqrt(squared_norm(vector)) if weights.normalised else 1.0)
    if experiment.loss.regression:
        number = scores[0] * unit * float(experiment.target_spread) + float(experiment.target_centre)
        return f"{number:.6g}", None
    winner = int(models.predict(np.array([scores], dtype=np.int64))[0])
    # Of the models in which the winner has a side of its own: one against all, or its pairs; the weakest of them.
    signs = models.signs[winner].tolist()
    own = [sign * score_of for sign, score_of in zip(signs, scores, strict=True) if sign]
    if len(experiment.labels) > 2 and experiment.multiclass == "ovr":
        own = [scores[winner]]
    return experiment.labels[winner], min(own) * unit
