"""Deployed and offline are the same to the bit under two relays' cover, whatever is asked and whoever dies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from secvm.learning.individual.binning import VocabularyBinning
from secvm.testing.federation import COORDINATOR, Federation
from secvm.testing.federation_settings import ENTRY, MIX
from secvm_lab.chaos.passage import Passage
from secvm_lab.rigs.postgres import PostgresCluster
from tests.seeds import seed_for
from tests.system.covered_federation import SWIFT, Case, a_case, check, play


def hashed_with_class_weights(dice: random.Random) -> Case:
    return a_case(dice, ("a", "b"), further={**SWIFT, "class_weights": {"b": "5/2"}})


def vocabulary_by_pegasos(dice: random.Random) -> Case:
    words = VocabularyBinning(tuple(f"word-{number}" for number in range(0, 12, 2)))
    pegasos = {"descent": {"rule": "pegasos", "lambda": "1/3", "thinning": "q=1/2"}}
    return a_case(dice, ("a", "b"), vocabulary=words, further=pegasos)


def one_against_the_rest(dice: random.Random) -> Case:
    return a_case(dice, ("a", "b", "c"), bins=4, further={**SWIFT, "multiclass": "ovr"})


def one_against_one(dice: random.Random) -> Case:
    weights = {"a": "2", "c": "1/2"}
    return a_case(dice, ("a", "b", "c"), bins=4, further={**SWIFT, "multiclass": "ovo", "class_weights": weights})


def a_number_as_the_label(dice: random.Random) -> Case:
    made = a_case(dice, ("a", "b"))
    people = tuple((repr(round(dice.gauss(1.0 if label == "a" else -1.0, 0.5), 3)), has) for label, has in made.people)
    loss = {"loss": "epsilon-insensitive", "loss_parameter": "1/10"}
    return Case(people=people, labels=("y",), seed=made.seed, further={**SWIFT, **loss})


CASES = [
    hashed_with_class_weights,
    vocabulary_by_pegasos,
    one_against_the_rest,
    one_against_one,
    a_number_as_the_label,
]


@pytest.mark.takes(minutes=2)
@pytest.mark.parametrize("make", CASES)
def test_under_two_relays_cover_deployed_and_offline_have_the_same_bytes(
    tmp_path: Path, make: Callable[[random.Random], Case]
) -> None:
    case = make(random.Random(seed_for(f"covered federation {make.__name__}")))
    check(case, *play(tmp_path, case))


def balanced(name: str, places: Sequence[tuple[str, int]], port: int) -> Passage | None:
    """The door before a coordinator's nodes; others need none."""
    return Passage(places, port=port) if name == COORDINATOR else None


@pytest.mark.takes(minutes=2)
def test_nodes_on_one_database_open_rounds_to_the_same_bytes(tmp_path: Path) -> None:
    case = hashed_with_class_weights(random.Random(seed_for("covered nodes")))
    with PostgresCluster() as cluster:
        check(case, *play(tmp_path, case, nodes=2, database=cluster.create_database(), doors=balanced))


class KilledBetween:
    """Everybody is killed and comes back, one after the other or all together, at every step of every round."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def __call__(self, federation: Federation, step: str) -> None:
        self.steps.append(step)
        everybody = [COORDINATOR, ENTRY, MIX, *federation.host_names]
        together = len(self.steps) % 2
        for group in [everybody] if together else [[name] for name in everybody]:
            for name in group:
                federation.kill(name)
            for name in group:
                federation.restart(name)
            for name in group:
                federation.patiently(lambda name=name: federation.answer(name, "/health"), name)  # type: ignore[misc]


@pytest.mark.takes(minutes=3)
def test_relays_coordinator_and_hosts_killed_between_all_steps_change_no_byte(tmp_path: Path) -> None:
    case, killed = hashed_with_class_weights(random.Random(seed_for("covered kills"))), KilledBetween()
    check(case, *play(tmp_path, case, hosts=2, between=killed))
    assert killed.steps == ["joined", "sent", "closed", "batched", "mixed", "over"] * 2
