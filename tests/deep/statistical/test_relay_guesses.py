"""What a relay sees of a client says nothing about the person: counts, sizes, times. With churn and restarts.

A relay knows its clients. It sees when each asks and sends, how often, how many bytes, on how many connections, and
what comes again. From that it shall not learn whether somebody is in the train or the test cohort, nor whether a train
participant violates the margin (which, with a model at hand, is a guess at the label).

The unit is one client in one round. Within a round clients are ranked by a feature, and a client's term is its distance
from the middle rank times that of its answer (1 or 0) from the round's mean. The terms of all rounds of a person are
added: people are independent, and where a feature says nothing about them, their terms are 0 on average. The same is
done with what a classifier makes of all features together, which has learnt from one half of the people and is tried on
the other. Fails by chance with probability at most 1e-6 a test: Efron's bound (``bounds.deviation``), shared by the
features. An AUC of .53 would be noticed. Seeds are the run's. Devices with a fault must show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from secvm.learning.package import Cohort
from secvm.participant.sending.sealing import CAPSULE_BYTES
from tests.deep.statistical import faults
from tests.deep.statistical.bounds import deviation, ranks
from tests.deep.statistical.crowd import Fault, Stay, crowd
from tests.deep.statistical.test_unlinkability import DEVICES, FEW_DEVICES, FEW_ROUNDS, ROUNDS
from tests.seeds import FALSE_ALARM

#: A connection that nobody uses for so long is closed (``runtime.http_client``).
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


def apart(scores: NDArray[np.float64], asked: Sequence[tuple[Stay, bool]], rate: float) -> float:
    """How well scores tell people apart within their rounds, in units of the limit."""
    answers = np.array([answer for _, answer in asked], dtype=float)
    rounds = np.array([stay.round_number for stay, _ in asked])
    terms = np.zeros(len(asked))
    for number in np.unique(rounds):
        here = rounds == number
        places = ranks(scores[here])
        terms[here] = (places - places.mean()) * (answers[here] - answers[here].mean()) / len(places)
    _, person = np.unique([stay.person for stay, _ in asked], return_inverse=True)
    return deviation(np.bincount(person, terms), rate)


def guessed(asked: Sequence[tuple[Stay, bool]]) -> float:
    """What a classifier on all features achieves: fitted on half of the people, tried on the others."""
    columns, answers, _ = table(asked)
    # Every tenth joins late; both halves have some.
    tried = np.array([stay.person % 4 < 2 for stay, _ in asked])
    model = make_pipeline(QuantileTransformer(n_quantiles=100, random_state=0), LogisticRegression(C=0.1))
    sure = model.fit(columns[~tried], answers[~tried]).decision_function(columns[tried])
    return apart(sure, [one for one, other in zip(asked, tried, strict=True) if other], FALSE_ALARM)


def by_feature(asked: Sequence[tuple[Stay, bool]]) -> dict[str, float]:
    """What each feature tells; all of them share the rate."""
    columns, _, names = table(asked)
    return {name: apart(columns[:, i], asked, FALSE_ALARM / len(names)) for i, name in enumerate(names)}


@pytest.mark.parametrize("question", ["train or test", "violates or not"])
def test_no_feature_that_a_relay_sees_tells_people_apart(question: str) -> None:
    asked = questions(crowd(DEVICES, ROUNDS))[question]
    assert {name: value for name, value in by_feature(asked).items() if value > 1} == {}
    # What does not vary cannot tell anything.
    assert {size for stay, _ in asked for _, size, _ in stay.sends} == {CAPSULE_BYTES}


@pytest.mark.parametrize("question", ["train or test", "violates or not"])
def test_no_classifier_on_all_features_tells_people_apart(question: str) -> None:
    assert guessed(questions(crowd(DEVICES, ROUNDS))[question]) < 1


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
    """Power: a twelfth of the crowd is enough, for the feature and for the classifier."""
    asked = questions(crowd(FEW_DEVICES, FEW_ROUNDS, fault))[question]
    assert by_feature(asked)[feature] > 1
    assert guessed(asked) > 1
