"""One device alone among liars: known without a relay's cover, hidden with it."""

from __future__ import annotations

from secvm_lab.attacks.attack import measure
from secvm_lab.attacks.registry import find
from tests.seeds import seed_for


def test_an_isolated_device_is_known_under_its_own_cover_and_hidden_under_a_relays() -> None:
    row = measure(find("isolated-device"), trials=120, seed=seed_for("isolated"))
    assert row.undefended.value > 0.95
    # Allowed is .565; a standard error of 120 plays is .053.
    assert row.defended.value < 0.565 + 5 * 0.053
    assert row.allowed is not None
