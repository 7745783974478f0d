"""The arithmetic of docs/capacity.md: measured costs and stated assumptions in, cores, bytes and money out.

Nothing is measured here and nothing is rounded before the end. The page has the inputs as JSON beside its tables, and a
test makes the tables again from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

SCALES = (200_000, 10_000_000, 1_000_000_000)
#: What is assumed, with its unit in the name. Prices are round numbers to be replaced by the reader's own.
ASSUMPTIONS: dict[str, float] = {
    "packages_per_device_and_round": 50,
    "rounds_per_day": 4,
    "share_of_devices_attending": 0.5,
    "window_s": 4 * 3600,
    "lead_s": 1800,
    "seconds_to_open_and_count": 1800,
    "share_of_a_core_that_is_used": 0.6,
    "cores_per_node": 16,
    "memory_per_node_gb": 64,
    "rounds_of_an_experiment": 30,
    "transport_factor": 1.15,
    "price_per_core_hour": 0.04,
    "price_per_gb_month_of_disk": 0.1,
    "price_per_gb_of_egress": 0.05,
}
_DAYS = 30


def plan(costs: Mapping[str, float], devices: int, told: Mapping[str, float] = ASSUMPTIONS) -> dict[str, float]:
    """What so many devices need."""
    attending = devices * told["share_of_devices_attending"]
    per_round = attending * told["packages_per_device_and_round"]
    per_day = per_round * told["rounds_per_day"]
    in_window = per_round / told["window_s"]
    used = told["share_of_a_core_that_is_used"]

    def cores(rate: float, *us: float) -> float:
        return rate * sum(us) / 1e6 / used

    relay_cores = cores(in_window, costs["relay_cpu_us"])
    # Relays that deposit do so when the window is over: then everything comes at once.
    opening_rate = per_round / told["seconds_to_open_and_count"]
    intake = (costs["intake_cpu_us"], costs["database_intake_cpu_us"])
    portable = cores(opening_rate, *intake, costs["open_and_count_cpu_us"], costs["database_open_cpu_us"])
    lanes_us = costs["open_and_count_lanes_cpu_us"] or costs["open_and_count_cpu_us"]
    lanes = cores(opening_rate, *intake, lanes_us, costs["database_open_cpu_us"])
    # Devices fetch in the lead before a window, whether they attend or not.
    down = devices * costs["device_down_bytes"] * told["transport_factor"]
    up = attending * costs["device_up_bytes"] * told["transport_factor"]
    cores_all_day = relay_cores * told["window_s"] * told["rounds_per_day"] / 86_400
    cores_all_day += cores(devices, costs["fetches_cpu_us"]) * told["rounds_per_day"] / 86_400
    cores_all_day += portable * told["seconds_to_open_and_count"] * told["rounds_per_day"] / 86_400
    disk_gb = per_round * (costs["database_bytes"] + costs["relay_disk_bytes"]) / 1e9
    egress_gb_day = down * told["rounds_per_day"] / 1e9
    return {
        "packages_per_day": per_day,
        "packages_per_s_in_a_window": in_window,
        "relay_cores": relay_cores,
        "coordinator_cores": portable,
        "coordinator_cores_with_lanes": lanes,
        "nodes": math.ceil(portable / told["cores_per_node"]),
        "nodes_with_lanes": math.ceil(lanes / told["cores_per_node"]),
        "relay_in_mbit_s": 8 * up / told["window_s"] / 1e6,
        "deposit_mbit_s": 8 * per_round * costs["capsule_bytes"] / told["seconds_to_open_and_count"] / 1e6,
        "fetch_cores": cores(devices / told["lead_s"], costs["fetches_cpu_us"]),
        "fetched_mbit_s": 8 * down / told["lead_s"] / 1e6,
        "database_gb": per_round * costs["database_bytes"] / 1e9,
        "wal_mb_s": opening_rate * costs["wal_bytes"] / 1e6,
        "primaries": math.ceil(opening_rate / costs["database_packages_per_s"]),
        "counting_memory_gb": per_round * costs["count_memory_bytes"] / 1e9,
        "deposits_of_the_largest_size": math.ceil(per_round / costs["deposit_packages"]),
        "log_mb_per_year": costs["log_bytes_per_round"] * told["rounds_per_day"] * 365 / 1e6,
        "cpu_money_per_month": cores_all_day * 24 * _DAYS * told["price_per_core_hour"],
        "disk_money_per_month": disk_gb * told["price_per_gb_month_of_disk"],
        "egress_money_per_month": egress_gb_day * _DAYS * told["price_per_gb_of_egress"],
    }


def per_device(costs: Mapping[str, float], told: Mapping[str, float] = ASSUMPTIONS) -> dict[str, float]:
    """What one device spends in a day, and what a newcomer fetches first."""
    rounds, packages = told["rounds_per_day"], told["packages_per_device_and_round"]
    return {
        "cpu_ms_per_day": rounds * (packages * costs["device_seal_us"] / 1000 + costs["device_verify_ms"]),
        "up_kb_per_day": rounds * costs["device_up_bytes"] * told["transport_factor"] / 1000,
        "down_kb_per_day": rounds * costs["device_down_bytes"] * told["transport_factor"] / 1000,
        "newcomer_kb": told["rounds_of_an_experiment"] * costs["device_down_bytes"] * told["transport_factor"] / 1000,
    }


_ROWS = {
    "packages_per_day": "packages a day",
    "packages_per_s_in_a_window": "packages a second, in a window",
    "relay_cores": "relays: cores",
    "relay_in_mbit_s": "relays: from devices, Mbit/s",
    "deposit_mbit_s": "relays → coordinator after a window, Mbit/s",
    "coordinator_cores": "coordinator and database: cores, one by one",
    "coordinator_cores_with_lanes": "… with lanes",
    "nodes": "nodes of so many cores, one by one",
    "nodes_with_lanes": "… with lanes",
    "database_gb": "database, largest, GB",
    "wal_mb_s": "write-ahead log, MB/s",
    "primaries": "PostgreSQL primaries of the size that was measured",
    "counting_memory_gb": "memory that counting a round takes, all nodes, GB",
    "deposits_of_the_largest_size": "deposits of the largest size, a round",
    "log_mb_per_year": "log and documents, MB a year",
    "fetch_cores": "gateway: cores for what devices fetch before a window",
    "fetched_mbit_s": "fetched by devices before a window, Mbit/s",
    "cpu_money_per_month": "CPU, money a month",
    "disk_money_per_month": "disk, money a month",
    "egress_money_per_month": "egress, money a month",
}


def table(costs: Mapping[str, float], told: Mapping[str, float] = ASSUMPTIONS) -> str:
    """The plan for all scales, in Markdown."""
    plans = {devices: plan(costs, devices, told) for devices in SCALES}
    head = "| | " + " | ".join(f"{devices:,} devices" for devices in SCALES) + " |"
    rows = [f"| {said} | " + " | ".join(_number(plans[d][name]) for d in SCALES) + " |" for name, said in _ROWS.items()]
    return "\n".join([head, "|---" + "|---:" * len(SCALES) + "|", *rows])


def device_table(costs: Mapping[str, float], told: Mapping[str, float] = ASSUMPTIONS) -> str:
    """What a device spends, in Markdown."""
    said = {
        "cpu_ms_per_day": "CPU, ms a day",
        "up_kb_per_day": "sent, kB a day",
        "down_kb_per_day": "fetched, kB a day",
        "newcomer_kb": "fetched by a newcomer at the end of an experiment, kB",
    }
    found = per_device(costs, told)
    return "\n".join(
        ["| one device | |", "|---|---:|", *(f"| {said[name]} | {_number(found[name])} |" for name in said)]
    )


def _number(value: float) -> str:
    """Two digits that count; whole from ten on."""
    if value >= 10 or value == int(value):
        scale = 10 ** max(0, math.floor(math.log10(max(1, abs(value)))) - 2)
        return f"{round(value / scale) * scale:,}"
    return f"{value:.2g}"


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_BLOCK = r"(<!-- capacity: {name} -->\n).*?(<!-- end -->)"


def with_block(page: str, name: str, content: str) -> str:
    """The page with this content between the marks of that name."""
    return re.sub(_BLOCK.format(name=name), lambda found: f"{found[1]}\n{content}\n\n{found[2]}", page, flags=re.DOTALL)


def block(page: str, name: str) -> str:
    """What stands there."""
    found = re.search(_BLOCK.format(name=name).replace(".*?", "(?P<content>.*?)"), page, flags=re.DOTALL)
    assert found is not None, f"the page has no block {name!r}"
    return found["content"].strip()


def inputs(page: str) -> dict[str, Any]:
    """The costs and assumptions that the page states."""
    import json

    found: dict[str, Any] = json.loads(block(page, "inputs").removeprefix("```json").removesuffix("```"))
    return found
