"""Devices of a host take part in rounds of two relays: every party is a process of its own."""

from __future__ import annotations

import json
import random
from pathlib import Path

from secvm.cli.experiment.preview import why_refused
from secvm.participant.consent.ledger import read_ledger
from secvm.participant.consent.policies import Consent
from secvm.participant.settings import ParticipantSettings
from secvm.participant.storage.state import DeviceState
from secvm.runtime.settings import read_settings
from secvm.testing.federation import Federation
from tests.seeds import seed_for
from tests.system.covered_federation import a_case, check, play
from tests.there import there

#: What a person must allow who wants to take part in something so weak.
CONSENT = {
    "policy": "default",
    "most_epsilon": 8.0,
    "total_epsilon": 32.0,
    "delta": 1e-3,
    "total_delta": 0.1,
}


def test_devices_send_find_their_canaries_and_are_charged_and_offline_has_the_same_bytes(tmp_path: Path) -> None:
    case = a_case(random.Random(seed_for("a covered federation")), ("a", "b"), people=16)
    deployed, experiment = play(tmp_path, case, consent=CONSENT, between=check_terms)
    check(case, deployed, experiment, learns=False)
    assert experiment.cover is not None
    consent = read_settings(tmp_path / "host-0.toml", ParticipantSettings).agreed()
    check_ledger(tmp_path / "devices" / "000000", consent)
    # Nobody is told who came, nor what a device sent.
    for name in ("entry", "mix", "coordinator"):
        lines = [json.loads(line) for line in (tmp_path / f"{name}.log").read_text().splitlines()]
        assert not any("test-person" in json.dumps(line) for line in lines)
        # Nor is the operator told of relays that were asked too early.
        assert not any(line["event"] == "round-waits" for line in lines)


def check_terms(federation: Federation, *_: object) -> None:
    """Who makes an experiment hears from its relays themselves what they take on."""
    document = there(federation.document)
    few, many = (why_refused(document, people=people, ask_relays=True) for people in (16, 10**8))
    (said,) = set(many) - set(few)
    assert "of 100,000,000 devices and cover at most, and a round of this experiment needs" in said


def check_ledger(folder: Path, consent: Consent) -> None:
    """The label's ε is charged, which is more than that of sending nothing."""
    state = DeviceState(folder)
    try:
        ledger = read_ledger(state, consent)
    finally:
        state.close()
    assert 0 < ledger.epsilon <= 8.0
    assert ledger.epsilon < ledger.charged <= 16.0
