"""Longer cases of ``tests/unit/participant/test_shared_checks.py``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import RemoteProtocolError
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.protocol.trust.trusted_rounds import TrustedRounds
from tests.unit.participant.test_shared_checks import _changed, believe_all, history_of


@settings(max_examples=60)
@given(
    seed=st.integers(0, 5), part=st.sampled_from(["manifest", "checkpoint", "line", "tally"]), at=st.integers(0, 10**6)
)
def test_changed_byte_is_refused_however_much_is_known_already(seed: int, part: str, at: int) -> None:
    shared, history = SharedChecks(), history_of(seed)
    believe_all(history, shared)
    trusted = TrustedRounds(history.document, history.envelope, checking=shared)
    served = history.served(trusted)
    changed = _changed(served, part, at)
    if changed is None:
        return
    with pytest.raises(RemoteProtocolError):
        trusted.check(changed, now=history.now)
    # And whoever is served the truth afterwards believes it.
    trusted.believe(trusted.check(served, now=history.now))
