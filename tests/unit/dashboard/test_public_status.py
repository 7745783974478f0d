"""What a coordinator says is read strictly, and never crashes whoever reads it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.store.port import Standing
from secvm.dashboard.public_status import MOST_EXPERIMENTS, ExperimentStatus, read_health, read_list, read_metrics
from secvm.errors import MalformedMessageError
from tests.unit.dashboard.office import status_of
from tests.unit.protocol.helpers import document

OF = document()
DATA = status_of(OF, 9)


def changed(path: list[str | int], value: object) -> bytes:
    content = json.loads(DATA)
    inner: Any = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(content).encode()


def test_beside_the_one_before_only_what_changed_is_read() -> None:
    before = ExperimentStatus.read(DATA, digest=OF.digest)
    assert before.changed == list(range(1, 10))
    after = ExperimentStatus.read(status_of(OF, 10), digest=OF.digest, before=before)
    assert after.changed == [9, 10]
    assert after.rounds[0] is before.rounds[0]
    whole = ExperimentStatus.read(status_of(OF, 10), digest=OF.digest)
    assert after.rounds == whole.rounds
    assert after.leaks == whole.leaks
    same = ExperimentStatus.read(status_of(OF, 10), digest=OF.digest, before=after)
    assert same.changed == []
    over = ExperimentStatus.read(status_of(OF, 10, standing=Standing.STOPPED), digest=OF.digest, before=same)
    assert (over.changed, over.standing) == ([10], "stopped")


def test_a_history_that_is_told_differently_now_is_read_again() -> None:
    before = ExperimentStatus.read(DATA, digest=OF.digest)
    after = ExperimentStatus.read(changed(["rounds", 2, "participants", "a"], 7), digest=OF.digest, before=before)
    assert after.changed == [3]
    assert after.rounds[2].participants == {"a": 7, "b": 40}
    leaks = ExperimentStatus.read(changed(["leakage", "per_round", 0, "auc"], 0.75), digest=OF.digest, before=before)
    assert leaks.leaks[1].auc == 0.75


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        DATA[:-2],
        changed(["experiment"], "0" * 64),
        changed(["experiment"], OF.digest + "\n"),
        changed(["standing"], "well"),
        changed(["labels"], "ab"),
        changed(["labels"], ["a", 3]),
        changed(["labels"], ["b", "a"]),
        changed(["labels"], ["a" * 300, "b"]),
        changed(["notes"], [["a"]]),
        changed(["notes"], ["a" * 5000]),
        changed(["notes"], ["a"] * 1001),
        changed(["rounds"], {"1": 2}),
        changed(["rounds", 3, "number"], 7),
        changed(["rounds", 3, "number"], True),
        changed(["rounds", 3, "number"], 4.5),
        changed(["rounds", 3, "number"], "4"),
        changed(["rounds", 3, "number"], 10**400),
        changed(["rounds", 3, "opens_at"], -1),
        changed(["rounds", 3, "opens_at"], 10**18),
        changed(["rounds", 3, "state"], "<b>"),
        changed(["rounds", 3, "end"], "<b>"),
        changed(["rounds", 3, "participants"], {"a": 1}),
        changed(["rounds", 3, "participants"], {"a": 1, "b": 2, "c": 3}),
        changed(["rounds", 3, "participants", "a"], -1),
        changed(["rounds", 3, "recall", "a"], 0.5),
        changed(["rounds", 3, "recall", "a", "value"], float("nan")),
        changed(["rounds", 3, "recall", "a", "low"], None),
        changed(["rounds", 3, "recall", "a", "high"], float("inf")),
        changed(["rounds", 3, "accuracy", "value"], 1e300),
        changed(["leakage"], None),
        changed(["leakage", "auc"], "1"),
        changed(["leakage", "per_round"], {}),
        changed(["leakage", "per_round", 0], 5),
    ],
)
def test_whatever_else_is_served_is_refused_in_one_sentence_that_quotes_nothing(data: bytes) -> None:
    before = ExperimentStatus.read(DATA, digest=OF.digest)
    for beside in (None, before):
        with pytest.raises(MalformedMessageError) as found:
            ExperimentStatus.read(data, digest=OF.digest, before=beside)
        assert len(str(found.value)) < 100
        assert "<" not in str(found.value)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for read in (read_list, read_health, lambda given: ExperimentStatus.read(given, digest=OF.digest)):
        try:
            read(data)
        except MalformedMessageError:
            continue
    assert isinstance(read_metrics(data), dict)


def test_a_list_has_each_experiment_once_and_not_too_many() -> None:
    one = {"digest": "ab" * 32, "title": "<script>", "standing": "running", "more": 1}
    found, left_out = read_list(json.dumps({"experiments": [one]}).encode())
    assert (found[0].title, left_out) == ("<script>", 0)
    with pytest.raises(MalformedMessageError, match="twice"):
        read_list(json.dumps({"experiments": [one, one]}).encode())
    many = [{**one, "digest": f"{number:064x}"} for number in range(MOST_EXPERIMENTS + 5)]
    found, left_out = read_list(json.dumps({"experiments": many}).encode())
    assert (len(found), left_out, found[-1].digest) == (MOST_EXPERIMENTS, 5, many[-1]["digest"])


def test_repro_a_title_that_would_turn_the_page_around_is_shown_without_it() -> None:
    listed = {"digest": "ab" * 32, "title": "tea\u202e\u0000", "standing": "running"}
    ((found, *_), *_) = read_list(json.dumps({"experiments": [listed]}).encode())
    assert found.title == "tea??"


def test_metrics_of_others_and_lines_of_another_kind_are_left_out() -> None:
    page = b"""# HELP secvm_coordinator_opened_total Capsules that hold a package.
# TYPE secvm_coordinator_opened_total counter
secvm_coordinator_opened_total 12.0
secvm_coordinator_dropped_total{problem="stale"} 3.0
secvm_coordinator_dropped_total{problem="<img src=x>"} 1e3
secvm_coordinator_strange NaN
secvm_coordinator_large 1e300
secvm_coordinator_odd{problem="a\\"b"} 1
secvm_relay_requests_total{door="capsule"} 5.0
garbage
"""
    assert read_metrics(page) == {
        ("opened_total",): 12.0,
        ("dropped_total", "stale"): 3.0,
        ("dropped_total", "<img src=x>"): 1000.0,
    }
