"""What a role counts: fixed labels, no names, and every step that a round has."""

import pytest

from secvm.relay.batches.running_rounds import STAGES, RoundMeter, stage_of
from secvm.runtime.metrics import Metrics


@pytest.mark.parametrize(
    ("step", "stage"),
    [
        ("part-3", "part"),
        ("opened-0", "opened"),
        ("told-mix-count", "told"),
        ("handed-on", "handed-on"),
        *((stage, stage) for stage in STAGES),
    ],
)
def test_a_step_is_counted_without_its_number(step: str, stage: str) -> None:
    assert stage_of(step) == stage


def test_everything_is_a_sum_under_labels_that_were_there_before() -> None:
    metrics = Metrics("relay")
    meter = RoundMeter(metrics)
    before = {line.rpartition(" ")[0] for line in metrics.page()[0].decode().splitlines()}
    meter.submissions.add(came="first")
    meter.submissions.add(came="again")
    meter.tokens.add()
    for status in (200, 403, 503):
        meter.answered("submit", status)
    meter.stepped("part-0", 2.0)
    meter.stepped("told-entry-reveal")
    meter.batches.observe(5000)
    meter.ended.add(part="unopened")
    page = metrics.page()[0].decode()
    assert {line.rpartition(" ")[0] for line in page.splitlines()} == before
    assert 'secvm_relay_role_refused_total{door="submit",status="403"} 1.0' in page
    assert 'secvm_relay_rounds_over_total{part="unopened"} 1.0' in page
    assert 'secvm_relay_round_step_seconds_sum{stage="part"} 2.0' in page


def test_a_door_or_step_that_nobody_knows_becomes_no_label() -> None:
    metrics = Metrics("relay")
    meter = RoundMeter(metrics)
    meter.answered("198.51.100.7", 404)
    meter.stepped("somebody-s-name")
    page = metrics.page()[0].decode()
    assert "198.51.100.7" not in page
    assert "somebody" not in page
