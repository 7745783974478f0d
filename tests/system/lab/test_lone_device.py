"""One device among liars: hidden by one honest relay, and by its own share of devices' cover not at all.

``above`` is in standard errors, and ALLOWED of them are exceeded by chance with probability at most 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest

from secvm_lab.attacks.attack import Measurement
from secvm_lab.attacks.relayed import isolation as lone_device
from secvm_lab.attacks.relayed.isolation import LoneDevice
from tests.deep.statistical.bounds import standard_errors
from tests.effort import scaled
from tests.seeds import FALSE_ALARM, seed_for

PLAYS = scaled(300, 10_000)
#: Half the width of a 95 % interval in standard errors, and how many are allowed.
HALF, ALLOWED = 1.96, standard_errors(FALSE_ALARM, sides=1)


def above(found: LoneDevice) -> float:
    """By how many standard errors the attackers do better than the accountant allows."""
    measured = Measurement(found.auc, found.interval, found.plays)
    return (measured.value - found.allowed) / ((measured.ci95[1] - measured.ci95[0]) / 2 / HALF)


@pytest.mark.parametrize("honest", ["entry", "mix"])
def test_with_one_honest_relay_a_device_among_liars_is_told_no_better_than_is_allowed(
    honest: lone_device.Honest,
) -> None:
    found = lone_device.relay_cover(np.random.default_rng(seed_for(f"alone, {honest}")), PLAYS, honest)
    assert 0.5 < found.allowed < 0.75
    assert above(found) < ALLOWED


def test_its_own_share_of_devices_cover_does_not_hide_a_device() -> None:
    found = lone_device.device_cover(np.random.default_rng(seed_for("alone, own share")), PLAYS)
    assert found.auc > 0.95
    assert above(found) > ALLOWED
