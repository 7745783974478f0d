"""docs/capacity.md: its tables follow from the inputs that stand on it."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "capacity.md").read_text(encoding="utf-8")


def _arithmetic() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capacity_plan", ROOT / "benchmarks" / "_capacity_plan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


plan = _arithmetic()
INPUTS = plan.inputs(PAGE)
COSTS, ASSUMPTIONS = INPUTS["costs"], INPUTS["assumptions"]


def test_the_tables_of_the_page_follow_from_its_inputs() -> None:
    assert plan.block(PAGE, "plan") == plan.table(COSTS, ASSUMPTIONS)
    assert plan.block(PAGE, "device") == plan.device_table(COSTS, ASSUMPTIONS)


def test_the_page_states_the_assumptions_of_the_command() -> None:
    assert ASSUMPTIONS == plan.ASSUMPTIONS


def test_another_input_makes_another_table() -> None:
    dearer = {**COSTS, "open_and_count_cpu_us": 2 * COSTS["open_and_count_cpu_us"]}
    assert plan.table(dearer, ASSUMPTIONS) != plan.block(PAGE, "plan")


def test_the_arithmetic_by_hand_for_one_scale() -> None:
    devices, told = 10_000_000, ASSUMPTIONS
    found = plan.plan(COSTS, devices, told)
    a_round = devices * told["share_of_devices_attending"] * told["packages_per_device_and_round"]
    assert found["packages_per_day"] == a_round * told["rounds_per_day"]
    us = sum(
        COSTS[name]
        for name in ("intake_cpu_us", "database_intake_cpu_us", "open_and_count_cpu_us", "database_open_cpu_us")
    )
    busy = a_round / told["seconds_to_open_and_count"] * us / 1e6
    assert found["coordinator_cores"] == pytest.approx(busy / told["share_of_a_core_that_is_used"])
    assert found["nodes"] == math.ceil(found["coordinator_cores"] / told["cores_per_node"])


def test_ten_times_the_devices_need_ten_times_as_much_and_no_longer_log() -> None:
    small, large = (plan.plan(COSTS, devices, ASSUMPTIONS) for devices in (10**7, 10**8))
    whole = {"nodes", "nodes_with_lanes", "primaries", "deposits_of_the_largest_size", "log_mb_per_year"}
    for name in small.keys() - whole:
        assert large[name] == pytest.approx(10 * small[name]), name
    assert large["log_mb_per_year"] == small["log_mb_per_year"]


def test_a_block_can_be_written_anew() -> None:
    changed = plan.with_block(PAGE, "device", "| other |")
    assert plan.block(changed, "device") == "| other |"
    assert plan.block(changed, "plan") == plan.block(PAGE, "plan")
