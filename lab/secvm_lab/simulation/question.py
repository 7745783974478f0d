"""The small experiment that a simulation runs, everybody's keys, and the times of its rounds.

Few bins, a budget of three packages, a floor of two people, one or two rounds of a minute each: all that a fault can
break is there, and a list of operations takes milliseconds. Keys are the same in every simulation; nothing hangs on
them, and to make them costs more than to use them.
"""

from __future__ import annotations

import hashlib
import io
import random
from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.coordinator.epochs import Grid
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Relay, Windows, publish
from secvm.protocol.log.policy import LogTerms
from secvm.runtime.metrics import Metrics
from secvm_lab.rigs.histories.random_experiments import Parties

#: 2026-01-01: where the simulation's time begins.
START = 1_767_225_600_000
LENGTH_S, GRACE_S, LEAD_S = 60, 15, 45
GRID = Grid(period_s=LENGTH_S + GRACE_S + LEAD_S, lead_s=LEAD_S)
#: After its window, and well before nobody takes it any more.
DEPOSIT_AFTER_S = LENGTH_S + 2
BINS, BUDGET, FLOOR = 4, 3, 2
#: Long enough that nothing is renewed while a list is played.
FRESHNESS_S = 86_400
WITNESSES = 3
#: How long a driver leads after its last word.
LEASE_S = 45.0
RELAY_TOKEN, ADMIN_KEY = "relay-token-0123456789", "admin-key"
RELAY_URL, COORDINATOR_URL = "http://relay/r", "http://coordinator"
#: How packages travel: straight to the coordinator, or by a relay that holds them until the window's end.
WAYS = ("direct", "round")


@lru_cache(maxsize=1)
def parties() -> Parties:
    """Everybody's keys."""
    return Parties.drawn(random.Random("simulation"), witnesses=WITNESSES)  # noqa: S311  (everybody may know them)


@lru_cache(maxsize=1)
def log_terms() -> LogTerms:
    """The terms of the coordinator's log."""
    return parties().log_terms(freshness_s=FRESHNESS_S)


@lru_cache(maxsize=64)
def question(way: str, rounds: int, number: int = 0) -> ExperimentDocument:
    """The experiment; ``number``: several have different titles, and nothing else."""
    return ExperimentDocument(
        title=f"Which words tell a from b? ({number})",
        question="",
        experiment=Experiment(
            n_bins=BINS, labels=("a", "b"), rule=Pegasos(lambda_=Fraction(1, 10), averaging=1), budget=BUDGET
        ),
        features=FeaturesWanted(source="words", description="Words that the person has written."),
        binning=HashedBins(bins=BINS, salt=bytes(16)),
        windows=Windows(length_s=LENGTH_S, grace_s=GRACE_S, first_opening=START),
        floor=FLOOR,
        train_share=Fraction(9, 10),
        rounds=rounds,
        coordinator_keys=(parties().coordinator.public,),
        relays=() if way == "direct" else (Relay(url=RELAY_URL, key=parties().relays[0].public),),
        log=log_terms(),
        test=True,
    )


@lru_cache(maxsize=64)
def envelope(document: ExperimentDocument) -> bytes:
    """The experiment as it is served."""
    return publish(document, keys=(parties().coordinator,))


def sha256(text: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(text.encode()).digest()


class Nowhere(io.StringIO):
    """Where logs of simulated parties go."""

    def write(self, text: str, /) -> int:
        return len(text)


class _Unseen:
    """A counter, gauge or histogram."""

    def _ignore(self, *_given: Any, **_named: Any) -> None:
        """Not counted."""

    add = set = observe = _ignore


class NoMetrics(Metrics):
    """Metrics that nobody looks at: to make real ones takes longer than to play a list."""

    def __init__(self) -> None:
        """Nothing to be made."""

    def _unseen(self, *_given: Any, **_named: Any) -> Any:
        return _Unseen()

    counter = gauge = histogram = _unseen
