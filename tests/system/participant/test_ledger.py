"""Longer cases of ``tests/unit/participant/test_ledger.py``."""

import os
import subprocess
import sys
from pathlib import Path

from secvm.participant.storage.state import DeviceState
from secvm.protocol.documents.experiment import publish
from tests.unit.participant.test_ledger import _SPENDER, FIRST, room_for
from tests.unit.participant.test_state import PERSON
from tests.unit.protocol.helpers import COORDINATOR


def test_sigkill_at_any_moment_loses_no_entry(tmp_path: Path) -> None:
    state = DeviceState(tmp_path / "device")
    state.join(FIRST.digest, publish(FIRST, keys=(COORDINATOR,)), PERSON)
    state.close()
    auc = repr(room_for(40).budget.auc)
    command = [sys.executable, "-P", "-c", _SPENDER, str(tmp_path / "device"), auc]
    told: set[int] = set()
    for after in (9, None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert process.stdout is not None
        for count, line in enumerate(process.stdout, 1):
            told.add(int(line))
            if count == after:
                process.kill()
        process.wait()
        process.stdout.close()
    state = DeviceState(tmp_path / "device")
    assert told <= {number for number in range(1, 1000) if state.ledger.joined(FIRST.digest, number)}
    assert state.ledger.rounds() == {FIRST.digest: 40}
    state.close()
