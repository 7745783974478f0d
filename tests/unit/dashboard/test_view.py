"""Summaries, columns and nights, from what was read."""

import json
from datetime import UTC
from typing import Any

import pytest

from secvm.coordinator.store.port import Standing
from secvm.dashboard import view
from secvm.dashboard.public_status import ExperimentListing, ExperimentStatus, PublicRound
from secvm.dashboard.view import nights, time_zone
from secvm.errors import BadInputError
from secvm.protocol.documents.experiment import Windows
from tests.unit.dashboard.office import DAY_MS, status_of
from tests.unit.protocol.helpers import START, document

OF = document()
LISTED = ExperimentListing(digest=OF.digest, title="as listed", standing="running")


def read(rounds: int, standing: Standing = Standing.RUNNING) -> tuple[ExperimentStatus, dict[str, Any]]:
    data = status_of(OF, rounds, standing=standing)
    return ExperimentStatus.read(data, digest=OF.digest), json.loads(data)


def test_columns_have_every_number_of_the_status_and_null_where_there_is_none() -> None:
    found, told = read(9)
    columns = view.columns(found, range(1, 10))
    leaks = {leak["round"]: leak for leak in told["leakage"]["per_round"]}
    for place, one in enumerate(told["rounds"]):
        assert columns["number"][place] == one["number"]
        assert columns["state"][place] == one["state"]
        assert columns["closes_at"][place] == one["closes_at"]
        for name in ("participants", "people"):
            assert {label: columns[name][label][place] for label in "ab"} == one.get(name, {"a": None, "b": None})
        for end in ("value", "low", "high"):
            assert columns["accuracy"][end][place] == one.get("accuracy", {}).get(end)
            for name in ("recall", "precision", "baseline"):
                for label in "ab":
                    assert columns[name][label][end][place] == one.get(name, {}).get(label, {}).get(end)
        assert columns["auc"][place] == leaks.get(one["number"], {}).get("auc")
        assert columns["d_prime"][place] == leaks.get(one["number"], {}).get("d_prime")
    assert columns["recall"]["a"]["value"][6] is None  # abandoned
    assert columns["end"] == [*["counted"] * 6, "nothing-came", "counted", None]
    some = view.columns(found, [2, 9])
    assert (some["number"], some["state"]) == ([2, 9], ["published", "open"])


def test_a_summary_has_the_running_round_and_the_newest_that_was_counted() -> None:
    found, told = read(8)
    # Round 7 was abandoned: the last with counts is 6.
    made = view.summary(LISTED, OF, found, live={"devices": 3})
    assert (made["running"]["number"], made["running"]["state"], made["running"]["devices"]) == (8, "open", 3)
    assert made["last"]["number"] == 6
    assert made["last"]["accuracy"] == told["rounds"][5]["accuracy"]["value"]
    assert made["last"]["recall"]["a"] == told["rounds"][5]["recall"]["a"]["value"]
    assert (made["title"], made["floor"], made["budget"], made["rounds_planned"]) == (OF.title, OF.floor, 5, 30)
    assert (made["auc"], made["auc_planned"]) == (told["leakage"]["auc"], told["leakage"]["planned_auc"])
    over, _ = read(8, Standing.STOPPED)
    assert view.summary(LISTED, OF, over)["running"] is None


@pytest.mark.parametrize(
    ("states", "in_vain"),
    [
        ("published open", None),
        ("abandoned:too-few-trained open", (1, ["too-few-trained"])),
        ("abandoned published announced", None),
        ("opened:counted opened:nobody-left unopened:restarted opened:nobody-left", (3, ["nobody-left", "restarted"])),
        # One that tells no reasons, and one that knows more of them.
        ("opened abandoned", (1, [None])),
        ("opened:counted unopened:struck-by-lightning", (1, ["struck-by-lightning"])),
    ],
)  # fmt: skip
def test_rounds_at_the_end_that_brought_no_model_are_counted_with_their_reasons(
    states: str, in_vain: tuple[int, list[str | None]] | None
) -> None:
    told = json.loads(status_of(OF, 1))
    told["rounds"] = [
        {**told["rounds"][0], "number": number, "state": state, **({"end": end} if end else {})}
        for number, (state, _, end) in enumerate((one.partition(":") for one in states.split()), start=1)
    ]
    made = view.summary(LISTED, OF, ExperimentStatus.read(json.dumps(told).encode(), digest=OF.digest))
    assert made["in_vain"] == (None if in_vain is None else {"rounds": in_vain[0], "ends": in_vain[1]})
    assert made["begins_at"] == OF.windows.first_opening


def test_of_what_is_only_listed_little_is_said() -> None:
    made = view.summary(LISTED, None, None, problem="it is not there")
    assert (made["title"], made["standing"], made["labels"], made["problem"]) == (
        "as listed",
        "running",
        [],
        "it is not there",
    )


@pytest.mark.parametrize(
    ("asked", "there"),
    [((None, None), (1, 9)), ((3, 5), (3, 5)), ((0, 100), (1, 9)), ((20, None), (20, 19)), ((5, 2), (5, 4))],
)
def test_a_stretch_is_cut_to_the_rounds_that_there_are(asked: tuple[int, int], there: tuple[int, int]) -> None:
    assert view.stretch(read(9)[0], *asked) == there


def at(*instants: int) -> list[PublicRound]:
    return [
        PublicRound(number=number, state="published", opens_at=instant, closes_at=instant + 1, accept_until=instant + 2)
        for number, instant in enumerate(instants, 1)
    ]


def test_nights_of_an_experiment_that_is_always_open_are_those_of_the_operators_clock() -> None:
    hourly = at(*(START + 3_600_000 * hour for hour in range(48)))
    windows = Windows(length_s=600, grace_s=60, first_opening=START)
    # Rounds 1 to 6 open at 0 to 5 o'clock, round 23 at 22.
    assert nights(windows, hourly, zone=UTC) == [(0.5, 6.5), (22.5, 30.5), (46.5, 48.5)]
    assert nights(windows, hourly[:1], zone=UTC) == [(0.5, 1.5)]
    berlin = nights(windows, hourly, zone=time_zone("Europe/Berlin"))
    assert berlin[0] == (0.5, 5.5)


def test_nights_of_an_experiment_with_hours_lie_between_its_rounds() -> None:
    windows = Windows(length_s=600, grace_s=60, first_opening=START, hours=((8, 20),))
    eight = START + 8 * 3_600_000
    rounds = at(eight, eight + 3_600_000, eight + 11 * 3_600_000, eight + DAY_MS, eight + 3 * DAY_MS)
    assert nights(windows, rounds, zone=UTC) == [(3.4, 3.6), (4.4, 4.6)]


def test_a_time_zone_that_nobody_knows_is_one_sentence() -> None:
    with pytest.raises(BadInputError, match="Europe/Berlin"):
        time_zone("Middle/Earth")
    with pytest.raises(BadInputError):
        time_zone("../../etc/passwd")
