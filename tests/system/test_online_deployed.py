"""A simulated population beside a deployed one: the same people and dice, the same bytes after every round."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from secvm.learning.aggregate.descent import Swift
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget
from secvm_lab.online.population.day import Rhythm
from secvm_lab.online.population.plan import Learning, Plan
from secvm_lab.online.population.words import TitleWords
from secvm_lab.published import origins_of
from tests.rigs.deployed_population import Deployment, attendance, simulated, small_crowd


def held_to_the_deployment(
    folder: Path, plan: Plan, rounds: int, target: PrivacyTarget | None = None, lonely: int | None = None
) -> tuple[int, set[int]]:
    """Every round's state and counts; how many devices there were, and the different numbers of them in a round.

    In the round ``lonely`` one device trains and one tests: enough for the relay, too few for the coordinator. With two
    relays' cover such a round is counted, and nothing is learnt from it.
    """
    people = small_crowd(plan)
    present = attendance(people.plan, people, rounds)
    if lonely is not None:
        alone = np.zeros(len(people), dtype=np.bool_)
        here = present[lonely - 1].here
        alone[[np.flatnonzero(here & cohort)[0] for cohort in (people.train, ~people.train)]] = True
        present[lonely - 1] = replace(present[lonely - 1], here=alone)
    deployment = Deployment(folder, people, rounds=rounds, hosts=1, target=target)
    deployed = deployment.run(present)
    expected = simulated(people, deployment.experiment, present, origins_of(deployed))
    assert len(deployed) == rounds
    assert deployment.faults == []
    for number, (ours, theirs) in enumerate(zip(expected, deployed, strict=True), start=1):
        assert (theirs.tally is None) == (number == lonely and target is None), number
        assert ours.tally == theirs.tally, number
        assert ours.state == theirs.state, number
    # There was something to be compared: units of both signs, and test people.
    tallies = [one.tally for one in deployed if one.tally is not None]
    assert all(sum(int(getattr(one, name).sum()) for one in tallies) for name in ("plus", "minus", "cells"))
    # Of few people noise may leave nobody, and then nothing is learnt.
    assert target is not None or len({one.state for one in deployed}) == rounds - (lonely is not None)
    return len(people), {int(one.here.sum()) for one in present}


def test_with_two_relays_cover_a_few_devices_have_the_bytes_of_the_deployment(tmp_path: Path) -> None:
    plan = Plan(
        people=24,
        words=TitleWords(per_person=4, vocabulary=2**8),
        rhythm=Rhythm(peak=1.0),
        bins=6,
        days=1,
        begin=12,
        floor=2,
        learning=Learning(rule=Swift(step_size=Fraction(5)), thinning=Thinning(rho=Fraction(1))),
    )
    held_to_the_deployment(tmp_path, plan, 2, PrivacyTarget(Fraction(8), Fraction(1, 1000)))
