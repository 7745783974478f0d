"""A person who joins, at random: what is pinned of them, and what a model says of them."""

from __future__ import annotations

import random
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from secvm.learning.weights import Weights
from secvm.participant.dice import safe_dice
from secvm.participant.person.pinning import _answer, pin_person
from secvm.participant.storage.vault import Vault
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from tests.contract.parity.channel import JSON
from tests.contract.parity.rounds import STREAM, WORDS, draw_document, repeating


def draw_question(dice: random.Random) -> JSON:
    """A question for both languages."""
    document, _ = draw_document(dice)
    while not isinstance(document.binning, HashedBins):
        document, _ = draw_document(dice)
    experiment = document.experiment
    labels = ["1.5", "-2e3", "7", ".25", "x"] if experiment.loss.regression else [*experiment.labels, "x"]
    shape = experiment.models.n_models, experiment.n_bins + 1
    mantissas = np.random.default_rng(dice.getrandbits(63)).integers(-(2**31), 2**31, shape)
    return {
        "document": document.data.decode(),
        "source": dice.choice(("words", "words", "words", "words", "other")),
        "features": [[word, dice.choice((1, 1, 7))] for word in dice.sample(WORDS[:10], dice.randint(1, 10))],
        "answer": None if dice.random() < 0.1 else dice.choice(labels),
        "stream": dice.randbytes(STREAM).hex(),
        "mantissas": mantissas.tolist(),
        "unit": str(Fraction(dice.randint(1, 999), dice.randint(1, 10**12))),
        "normalised": dice.random() < 0.5,
    }


def answer_pinning(question: JSON) -> JSON:
    """What Python's device pins, and says."""
    document = ExperimentDocument.from_bytes(question["document"].encode())
    with tempfile.TemporaryDirectory() as folder, Vault(Path(folder)) as vault:
        vault.put(question["source"], dict(question["features"]))
        if question["answer"] is not None:
            vault.set_label(document.digest, question["answer"])
        dice = safe_dice(repeating(bytes.fromhex(question["stream"])))(document)
        person = pin_person(document, vault, dice)
    weights = Weights(
        mantissas=np.array(question["mantissas"], np.int32),
        unit=Fraction(question["unit"]),
        normalised=question["normalised"],
    )
    label, margin = _answer(document.experiment, weights, person.vector)
    return {
        "vector": list(person.vector.values.items()),
        "bins": person.vector.n_bins,
        "label": person.label,
        "target": person.target,
        "cohort": person.cohort.value,
        "answer": {"label": label, "margin": margin},
    }
