"""One device among liars: hidden by one honest relay, and by its own share of devices' cover not at all.

``above`` is in standard errors, and ALLOWED of them are exceeded by chance with probability at most 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest

from secvm_lab.attacks.attack import Measurement
from secvm_lab.attacks.relayed.isolation import SMALL, Honest, device_cover, relay_cover
from secvm_lab.attacks.statistics import auc
from tests.effort import scaled
from tests.seeds import seed_for
from tests.system.attacks.test_counting_attacks import ALLOWED, above

PLAYS = scaled(300, 10_000)


@pytest.mark.parametrize("honest", ["entry", "mix"])
def test_with_one_honest_relay_a_device_among_liars_is_told_no_better_than_is_allowed(honest: Honest) -> None:
    scores = relay_cover(np.random.default_rng(seed_for(f"alone, {honest}")), PLAYS, honest)
    assert 0.5 < SMALL.auc_bound() < 0.75
    assert above(Measurement(*auc(*scores), PLAYS), SMALL.auc_bound()) < ALLOWED


def test_its_own_share_of_devices_cover_does_not_hide_a_device() -> None:
    found = Measurement(*auc(*device_cover(np.random.default_rng(seed_for("alone, own share")), PLAYS)), PLAYS)
    assert found.value > 0.95
    assert above(found, SMALL.auc_bound()) > ALLOWED
