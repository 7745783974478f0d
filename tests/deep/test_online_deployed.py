"""Longer cases of ``tests/system/test_online_deployed.py``."""

from fractions import Fraction
from pathlib import Path

import pytest

from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.thinning import Thinning
from secvm.privacy.target import PrivacyTarget
from secvm_lab.online.population.day import Rhythm
from secvm_lab.online.population.plan import Learning, Plan
from secvm_lab.online.population.words import TitleWords
from tests.system.test_online_deployed import held_to_the_deployment


@pytest.mark.takes(minutes=3)
def test_two_hundred_participants_and_ten_rounds_have_the_bytes_of_the_deployment(tmp_path: Path) -> None:
    # B is small, so that ten rounds of real sockets take seconds; some are cut by it.
    plan = Plan(
        people=188,
        words=TitleWords(per_person=20, vocabulary=2**12),
        rhythm=Rhythm(peak=1.0),
        bins=50,
        days=2,
        begin=12,
        floor=2,
        budget=4,
        learning=Learning(rule=Pegasos(lambda_=Fraction(1, 3)), thinning=Thinning(q=Fraction(1, 8))),
    )
    devices, there = held_to_the_deployment(tmp_path, plan, 10, lonely=4)
    assert devices >= 200
    # Not everybody is there in every round, and not the same ones.
    assert max(there) < devices
    assert len(there) > 3


@pytest.mark.takes(minutes=2)
def test_under_two_relays_cover_devices_that_come_and_go_have_the_bytes_of_the_deployment(tmp_path: Path) -> None:
    plan = Plan(
        people=40,
        words=TitleWords(per_person=6, vocabulary=2**9),
        rhythm=Rhythm(peak=0.8),
        bins=8,
        days=1,
        begin=12,
        floor=3,
        learning=Learning(rule=Swift(step_size=Fraction(5)), thinning=Thinning(rho=Fraction(1))),
    )
    target = PrivacyTarget(Fraction(8), Fraction(1, 1000))
    devices, there = held_to_the_deployment(tmp_path, plan, 4, target, lonely=3)
    # Whoever was away believes the rounds in between, and goes on.
    assert max(there) < devices
    assert len(there) > 1
