"""One prediction → one test package."""

from __future__ import annotations

import numpy as np

from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.update import score
from secvm.learning.label_models import LabelModels
from secvm.learning.package import TestPackage
from secvm.learning.weights import Weights


def predict_label(weights: Weights, models: LabelModels, vector: BinnedVector) -> int:
    """The label's index that the evaluation weights give to a person."""
    scores = np.array([[score(weights, model, vector) for model in range(models.n_models)]], dtype=np.int64)
    return int(models.predict(scores)[0])


def evaluate_person(weights: Weights, models: LabelModels, vector: BinnedVector, true_class: int) -> TestPackage:
    """The confusion cell of one test person."""
    return TestPackage(true_class=true_class, predicted_class=predict_label(weights, models, vector))
