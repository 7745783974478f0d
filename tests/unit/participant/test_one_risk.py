"""One experiment, one number: wherever somebody is told how risky it is to take part, it is the same."""

import json
from pathlib import Path

import pytest

from secvm.cli.output import Format
from secvm.cli.privacy import emit_statement
from secvm.participant.consent.ledger import spending
from secvm.participant.consent.policies import Consent
from secvm.participant.person.disclosure import in_short, what_leaves
from secvm.participant.person.inspection import as_text, inspect
from secvm.participant.storage.books import Accepted
from secvm.participant.ui.view import view
from secvm.privacy.planning.planner import guaranteed
from secvm.privacy.risk import in_words, times_in_ten
from secvm.privacy.statements.relayed import RelayedStatement, state_relayed
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from tests.unit.participant.relayed.relayed_world import RelayedWorld
from tests.unit.participant.relayed.test_relayed_consent import PLANNED
from tests.unit.participant.ui.test_view import LOOK
from tests.unit.privacy.test_planner import SMALL, TABLE


def test_repro_one_experiment_told_contradictory_risks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The person's own δ is a hundredth of the plan's: one number all the same.
    consent = Consent(delta=1e-8)
    statement = consent.statement(PLANNED)
    said = in_words(statement.risk, PLANNED.experiment)
    assert 5 < times_in_ten(statement.risk) < 10
    # Before joining: the command, and the page.
    assert in_short(PLANNED, statement)[0] == what_leaves(PLANNED, statement)[0] == said
    # After joining: the command, and the page.
    world = RelayedWorld(tmp_path, PLANNED)
    device = world.joined()
    now = world.clock.now()
    known = inspect(device.state, now=now, consent=consent)[PLANNED.digest]
    assert known["risk"] == statement.risk
    assert said in as_text({PLANNED.digest: known})
    page = view(device.state, LOOK, [], now=now, consent=consent, daily_bytes=1, runs=True)
    assert page["experiments"][0]["risk"]["text"] == said
    device.close()
    # Asked without a device, and when all its rounds were joined.
    emit_statement(relayed_terms_of(PLANNED), 1e-8, Format.JSON)
    assert json.loads(capsys.readouterr().out)["words"][0] == said
    assert spending(PLANNED, PLANNED.rounds, consent, Accepted()).risk == statement.risk


def test_the_operator_is_told_the_number_that_devices_are_told() -> None:
    found = guaranteed(SMALL, TABLE)
    told = found.content(bytes_per_package=128)
    assert isinstance(found.statement, RelayedStatement)
    theirs = found.statement.terms
    device = state_relayed(theirs, delta=1e-9)
    assert told["attacker"]["risk"] == told["attacker"]["auc"] == device.risk
    assert told["attacker"]["times"] == times_in_ten(device.risk)
    assert told["statement"][0] == in_words(device.risk, theirs.experiment)
