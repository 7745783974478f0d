"""Longer cases of ``tests/system/attacks/test_counting_attacks.py``."""

import numpy as np

from secvm_lab.attacks.counting import common_weights
from secvm_lab.attacks.counting.covered import Setting, scores
from secvm_lab.attacks.relayed import isolation as lone_device
from tests.deep.statistical.bounds import two_samples
from tests.seeds import FALSE_ALARM, seed_for
from tests.system.attacks.test_counting_attacks import ALLOWED, above


def test_one_person_is_isolated_by_weights_that_all_have_in_common() -> None:
    setting, seed = Setting(people=500, bins=150, features=24, rounds=2), seed_for("common weights")
    plain = common_weights.play_in(setting, 300, seed, defended=False, advance=lambda _: None)
    assert (plain.value, plain.detail["label_success"]) == (1.0, 1.0)
    assert float(plain.detail["vector_recovery"] or 0) >= 0.8
    covered = common_weights.play_in(setting, 1_000, seed, defended=True, advance=lambda _: None)
    assert above(covered, setting.auc_bound()) < ALLOWED
    assert covered.detail["vector_recovery"] == 0


def test_parts_drawn_from_seeds_give_what_cover_drawn_at_once_gives() -> None:
    """Massart's inequality for two samples; a quarter of the cover is far past the limit."""
    setting, dice = lone_device.SMALL, np.random.default_rng(seed_for("every part"))
    drawn, _ = lone_device.relay_cover(dice, 2_000, "entry")
    at_once, quarter = (scores(setting, 1, 5_000, dice, share=share)[:, -1] for share in (1.0, 0.25))
    assert two_samples(drawn, at_once, FALSE_ALARM) < 1
    assert two_samples(drawn, quarter, FALSE_ALARM) > 1
