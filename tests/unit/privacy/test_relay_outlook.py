"""How long a round of two relays takes, and whether its noise leaves a model."""

from dataclasses import replace
from fractions import Fraction

import pytest

from secvm.errors import BadExperimentError
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.private_plan import Outlook, usefulness
from secvm.privacy.planning.relay_plan import LEAST_S, RelayPlan, RelayQuestion, round_times
from secvm.privacy.target import PrivacyTarget
from tests.unit.learning.helpers import relay_cover


def plan(people: int, bins: int = 1000, packages: int = 394_749) -> RelayPlan:
    """The usual plan, as ``plan_relays`` finds it for 1,000 bins."""
    question = RelayQuestion(
        target=PrivacyTarget(Fraction(1)),
        people=people,
        bins=bins,
        features=min(100, bins),
        rounds=2,
        thinning=Thinning(rho=Fraction("5.9")),
    )
    cover = relay_cover(bins=bins, train="675/64", here="13", tested="3", parts=9, room=packages // 9)
    return RelayPlan(question=question, cover=cover, achieved=1.0)


def test_times_follow_from_packages_and_paces() -> None:
    times = round_times(plan(10_000))
    first = 103 * 10_000 + 394_749
    assert times.batch_s == pytest.approx(3 * (394_749 * 125e-6 + first * 128 / 1e7), abs=1)
    assert times.mix_s == pytest.approx(3 * ((first + 394_749) * 65e-6 + (first + 394_749) * 80 / 1e7), abs=1)
    assert times.open_s == times.mix_s
    assert times.reveal_s == LEAST_S


def test_a_quick_relay_still_has_time_to_begin_again() -> None:
    times = round_times(plan(10, bins=10, packages=9_000), entry=1e-3, mix=1e-3)
    assert {times.batch_s, times.mix_s, times.reveal_s, times.open_s} == {LEAST_S}


def test_a_step_of_more_than_a_week_is_refused_by_its_name() -> None:
    with pytest.raises(BadExperimentError, match=r"batch_s would be .* quicker relays"):
        round_times(plan(100), entry=1e7)
    with pytest.raises(BadExperimentError, match="a pace of 0 for the mixing relay"):
        round_times(plan(100), mix=0)


def test_a_hundred_people_in_a_thousand_bins_are_private_and_no_model() -> None:
    found = usefulness(plan(100))
    assert found.outlook is Outlook.NONE
    assert found.people_per_cell == pytest.approx(70 * 59.3 / 2002, rel=0.01)
    assert found.noise_per_cell == pytest.approx(60.4, rel=0.01)
    assert "no usable model" in found.sentence
    assert f"{found.people_needed:,} people or more" in found.sentence


def test_a_thousand_people_and_forty_words_are_usable() -> None:
    found = usefulness(plan(1000, bins=40, packages=24_507))
    assert found.outlook is Outlook.USABLE
    assert "Private, and usable" in found.sentence


def test_what_is_asked_for_would_do() -> None:
    found = usefulness(plan(4000))
    assert found.outlook is Outlook.POOR
    assert usefulness(plan(found.people_needed)).outlook is Outlook.USABLE
    assert usefulness(plan(found.people_needed - 10)).outlook is not Outlook.USABLE
    fewer = replace(plan(4000, bins=found.bins_possible))
    assert usefulness(fewer).outlook is Outlook.USABLE
