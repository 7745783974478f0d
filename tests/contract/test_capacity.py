"""docs/results/capacity.md: its tables follow from the inputs that stand on it."""

import math

import pytest

from benchmarks import _capacity_plan as plan
from tests.programs import ROOT

PAGE = (ROOT / "docs/results/capacity.md").read_text(encoding="utf-8")


INPUTS = plan.inputs(PAGE)
COSTS, ASSUMPTIONS = INPUTS["costs"], INPUTS["assumptions"]


def test_the_tables_of_the_page_follow_from_its_inputs() -> None:
    assert plan.block(PAGE, "plan") == plan.table(COSTS, ASSUMPTIONS)
    assert plan.block(PAGE, "device") == plan.device_table(COSTS, ASSUMPTIONS)


def test_the_page_states_the_assumptions_of_the_command() -> None:
    assert ASSUMPTIONS == plan.ASSUMPTIONS


def test_another_input_makes_another_table() -> None:
    dearer = {**COSTS, "count_us": 2 * COSTS["count_us"]}
    assert plan.table(dearer, ASSUMPTIONS) != plan.block(PAGE, "plan")


def test_the_arithmetic_by_hand_for_one_scale() -> None:
    devices, told = 10_000_000, ASSUMPTIONS
    found = plan.plan(COSTS, devices, told)
    attending = devices * told["share_of_devices_attending"]
    capsules = attending * COSTS["packages_per_device"] + 2 * COSTS["cover_packages"]
    assert found["packages_per_day"] == capsules * told["rounds_per_day"]
    busy = capsules / told["seconds_for_each_step_after_a_window"] * COSTS["count_us"] / 1e6
    assert found["coordinator_cores"] == pytest.approx(busy / told["share_of_a_core_that_is_used"])
    assert found["nodes"] == math.ceil(found["coordinator_cores"] / told["cores_per_node"])
    kept = 80 * capsules * told["rounds_per_day"] * told["days_that_capsules_are_public"]
    assert found["public_gb"] == pytest.approx(kept / 1e9)
    recounted = attending * told["chance_of_a_device_to_recount_a_shard"] * COSTS["shard_bytes"]
    month = 30 * told["rounds_per_day"] * told["price_per_gb_of_egress"] / 1e9
    fetched = month * told["transport_factor"] * told["hops_of_a_fetch"]
    assert found["egress_recounts_money"] == pytest.approx(recounted * fetched)
    assert found["egress_news_money"] == pytest.approx(devices * COSTS["news_bytes"] * fetched)


def test_ten_times_the_devices_need_ten_times_as_much_but_for_cover_and_index() -> None:
    uncovered = {**COSTS, "cover_packages": 0}
    small, large = (plan.plan(uncovered, devices, ASSUMPTIONS) for devices in (10**8, 10**9))
    constant, square = {"log_mb_per_year", "entry_cores", "cover_percent"}, {"egress_index_money"}
    for name in small.keys() - {"nodes"}:
        factor = 1 if name in constant else 100 if name in square else 10
        assert large[name] == pytest.approx(factor * small[name], rel=1e-5), name


def test_rounds_with_coded_tallies_cost_a_quarter_of_those_with_uncoded_ones() -> None:
    found = plan.plan(COSTS, 10**7, ASSUMPTIONS)
    assert 4 * found["egress_news_money"] < found["egress_uncoded_money"]


def test_a_block_can_be_written_anew() -> None:
    changed = plan.with_block(PAGE, "device", "| other |")
    assert plan.block(changed, "device") == "| other |"
    assert plan.block(changed, "plan") == plan.block(PAGE, "plan")
