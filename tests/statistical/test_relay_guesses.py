"""What a relay sees of a client says nothing about the person: counts, sizes, times. With churn and restarts.

A relay knows its clients. It sees when each asks and sends, how often, how many bytes, on how many connections, and
what comes again. From that it shall not learn whether somebody is in the train or the test cohort, nor whether a train
participant violates the margin (which, with a model at hand, is a guess at the label).

The unit is one client in one round. For each feature the AUC, the chance that the relay ranks one of the one sort above
one of the other, lies in [.48, .52]; so does that of a classifier that learns from all features together and is tried
on people it has not seen. Standard errors are .0046 (train or test) and .0052 (violates or not), so that the interval
is 3.8 of them or more to each side: the false-alarm rate is at most 1.2e-4 for each feature, less where there are ties,
and below 3e-3 for all features, classifiers and both questions together. Seeds are fixed. Devices with a fault must
show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from secvm.learning.package import Cohort
from secvm.participant.sealing import CAPSULE_BYTES
from tests.statistical import faults
from tests.statistical.bounds import auc, auc_error
from tests.statistical.crowd import Fault, Stay, crowd
from tests.statistical.test_unlinkability import DEVICES, FEW_DEVICES, FEW_ROUNDS, ROUNDS

pytestmark = pytest.mark.slow

LOW, HIGH = 0.48, 0.52
#: A connection that nobody uses for so long is closed (``transport.http_session``).
KEPT_ALIVE_MS = 15_000


def connections(stay: Stay) -> int:
    """How many a relay sees, of all relays together: idle ones are closed."""
    found = 0
    for relay in {relay for _, _, relay in stay.sends}:
        times = sorted(at for at, _, one in stay.sends if one == relay)
        found += 1 + sum(b - a > KEPT_ALIVE_MS for a, b in pairwise(times))
    return found


def features(stay: Stay) -> dict[str, float]:
    """What a relay can note of a client in a round. Whoever sent nothing has times of -1."""
    times = np.array([at for at, _, _ in stay.sends] or [-1], dtype=float)
    sizes = [size for _, size, _ in stay.sends] or [0]
    gaps = np.diff(np.sort(times)) if len(times) > 2 else np.array([-1.0])
    asked = stay.fetches or [-1]
    return {
        "capsules": len(stay.tried),
        "requests": len(stay.sends),
        "re-sends": len(stay.sends) - len(stay.tried),
        "bytes": sum(sizes),
        "smallest size": min(sizes),
        "largest size": max(sizes),
        "first time": float(times.min()),
        "last time": float(times.max()),
        "mean time": float(times.mean()),
        "second time": float(np.sort(times)[min(1, len(times) - 1)]),
        "spread of gaps": float(gaps.var()),
        "smallest gap": float(gaps.min()),
        "largest gap": float(gaps.max()),
        "fetches": len(stay.fetches),
        "first fetch": min(asked),
        "last fetch": max(asked),
        "connections": connections(stay),
        "relays": len({relay for _, _, relay in stay.sends}),
    }


def questions(stays: Sequence[Stay]) -> dict[str, list[tuple[Stay, bool]]]:
    """What a relay wants to know of everybody who computed a round's packages, whatever became of them."""
    joined = [stay for stay in stays if stay.violates is not None]
    return {
        "train or test": [(stay, stay.cohort is Cohort.TRAIN) for stay in joined],
        "violates or not": [(stay, bool(stay.violates)) for stay in joined if stay.cohort is Cohort.TRAIN],
    }


def table(asked: Sequence[tuple[Stay, bool]]) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """Features by client and round, answers, names."""
    rows = [features(stay) for stay, _ in asked]
    return np.array([list(row.values()) for row in rows]), np.array([answer for _, answer in asked]), list(rows[0])


def guessed(asked: Sequence[tuple[Stay, bool]]) -> float:
    """The AUC of a classifier on all features: fitted on two thirds of the people, tried on the others, three times.

    Each third is judged by itself: between thirds the shares of answers differ, and with them the classifiers' offsets.
    """
    columns, answers, _ = table(asked)
    people = [stay.person for stay, _ in asked]
    found = []
    for fit, other in GroupKFold(3).split(columns, answers, people):
        model = make_pipeline(QuantileTransformer(n_quantiles=100, random_state=0), LogisticRegression(C=0.1))
        sure = model.fit(columns[fit], answers[fit]).decision_function(columns[other])
        found.append(auc(sure[answers[other]], sure[~answers[other]]))
    return float(np.mean(found))


def aucs(asked: Sequence[tuple[Stay, bool]]) -> dict[str, float]:
    """One for each feature."""
    columns, answers, names = table(asked)
    return {name: auc(columns[answers, i], columns[~answers, i]) for i, name in enumerate(names)}


@pytest.mark.parametrize("question", ["train or test", "violates or not"])
def test_no_feature_that_a_relay_sees_tells_people_apart(question: str) -> None:
    """False-alarm rate at most 1.2e-4 for each feature, see above."""
    asked = questions(crowd(DEVICES, ROUNDS))[question]
    positive = sum(answer for _, answer in asked)
    assert auc_error(positive, len(asked) - positive) < 0.0053
    found = aucs(asked)
    assert {name: value for name, value in found.items() if not LOW <= value <= HIGH} == {}
    # What does not vary cannot tell anything.
    assert {size for stay, _ in asked for _, size, _ in stay.sends} == {CAPSULE_BYTES}


@pytest.mark.parametrize("question", ["train or test", "violates or not"])
def test_no_classifier_on_all_features_tells_people_apart(question: str) -> None:
    """False-alarm rate at most 1.2e-4 for each question."""
    assert LOW <= guessed(questions(crowd(DEVICES, ROUNDS))[question]) <= HIGH


#: Fault, question, and a feature that gives it away.
GIVEN_AWAY = (
    (faults.silence, "violates or not", "capsules"),
    (faults.silence, "violates or not", "bytes"),
    (faults.sizes_by_kind, "violates or not", "largest size"),
    (faults.sizes_by_kind, "train or test", "smallest size"),
    (faults.updates_at_once, "violates or not", "first time"),
    (faults.updates_at_once, "violates or not", "mean time"),
)


@pytest.mark.parametrize(("fault", "question", "feature"), GIVEN_AWAY)
def test_devices_with_a_fault_tell_people_apart(fault: Fault, question: str, feature: str) -> None:
    """Power: a twentieth of the crowd is enough, for the feature and for the classifier."""
    asked = questions(crowd(FEW_DEVICES, FEW_ROUNDS, fault))[question]
    assert abs(aucs(asked)[feature] - 0.5) > 0.1
    assert guessed(asked) > 0.6
