"""The arithmetic of docs/results/capacity.md: measured costs and stated assumptions in, cores, bytes and money out.

Nothing is measured here and nothing is rounded before the end. The page has the inputs as JSON beside its tables, and a
test makes the tables again from them. Letters are those of docs/protocol.md: B packages of a device, D of a relay's
cover, n₁ and n₂ capsules that the entry and the mixing relay hand on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

SCALES = (200_000, 10_000_000, 1_000_000_000)
#: What is assumed, with its unit in the name. Prices are round numbers to be replaced by the reader's own.
ASSUMPTIONS: dict[str, float] = {
    "rounds_per_day": 4,
    "share_of_devices_attending": 0.5,
    "window_s": 4 * 3600,
    "lead_s": 1800,
    "seconds_for_each_step_after_a_window": 1800,
    "share_of_a_core_that_is_used": 0.6,
    "cores_per_node": 16,
    "rounds_of_an_experiment": 30,
    "days_that_capsules_are_public": 30,
    "chance_of_a_device_to_recount_a_shard": 1 / 64,
    "auditors_that_recount_everything": 3,
    "hops_of_a_fetch": 2,
    "transport_factor": 1.15,
    "price_per_core_hour": 0.04,
    "price_per_gb_month_of_disk": 0.1,
    "price_per_gb_of_egress": 0.05,
}
_DAYS = 30
#: Capsules of a shard, bytes of a capsule at each relay's door, and of a shard in the index.
SHARD, OUTER_BYTES, INNER_BYTES, INDEX_BYTES = 4096, 128, 80, 8


def plan(costs: Mapping[str, float], devices: int, told: Mapping[str, float] = ASSUMPTIONS) -> dict[str, float]:
    """What so many devices need."""
    attending, cover = devices * told["share_of_devices_attending"], costs["cover_packages"]
    n1 = attending * costs["packages_per_device"] + cover
    n2, rounds, step_s = n1 + cover, told["rounds_per_day"], told["seconds_for_each_step_after_a_window"]

    def cores(us: float, seconds: float) -> float:
        return us / 1e6 / seconds / told["share_of_a_core_that_is_used"]

    intake_us, entry_us = attending * costs["entry_intake_us"], cover * costs["entry_cover_us"]
    mix_us, count_us = n1 * costs["mix_open_us"] + cover * costs["mix_cover_us"], n2 * costs["count_us"]
    fetch_us = devices * costs["fetches_cpu_us"] + attending * costs["run_cpu_us"]
    cpu_s = (intake_us + entry_us + mix_us + count_us + fetch_us) / 1e6 / told["share_of_a_core_that_is_used"]
    egress = {name: rounds * count / 1e9 for name, count in _egress(costs, devices, told).items()}
    public_gb = n2 * INNER_BYTES * rounds * told["days_that_capsules_are_public"] / 1e9
    price = _DAYS * told["price_per_gb_of_egress"]
    return {
        "packages_per_day": n2 * rounds,
        "cover_percent": 100 * 2 * cover / n2,
        "entry_cores_in_a_window": cores(intake_us, told["window_s"]),
        "entry_cores": cores(entry_us, step_s),
        "mix_cores": cores(mix_us, step_s),
        "coordinator_cores": cores(count_us, step_s),
        "coordinator_cores_with_lanes": cores(n2 * (costs["count_lanes_us"] or costs["count_us"]), step_s),
        "nodes": math.ceil(cores(count_us, step_s) / told["cores_per_node"]),
        "auditor_core_hours": n2 * costs["count_us"] / 3.6e9,
        "submitted_mbit_s": 8 * attending * costs["submission_bytes"] / told["window_s"] / 1e6,
        "batch_mbit_s": 8 * n1 * OUTER_BYTES / step_s / 1e6,
        "public_gb_a_round": n2 * INNER_BYTES / 1e9,
        "public_gb": public_gb,
        "index_kb": math.ceil(n2 / SHARD) * INDEX_BYTES / 1000,
        "fetch_cores": cores(devices * costs["fetches_cpu_us"], told["lead_s"]),
        "fetched_mbit_s": 8e9 * egress["news"] / rounds / told["lead_s"] / 1e6,
        "log_mb_per_year": costs["log_bytes_per_round"] * rounds * 365 / 1e6,
        "cpu_money": cpu_s * rounds * _DAYS / 3600 * told["price_per_core_hour"],
        "disk_money": public_gb * told["price_per_gb_month_of_disk"],
        **{f"egress_{name}_money": gb * price for name, gb in egress.items()},
        "egress_uncoded_money": rounds * devices * _fetched(costs["uncoded_news_bytes"], told) / 1e9 * price,
    }


def _fetched(count: float, told: Mapping[str, float]) -> float:
    """What a fetch of so many bytes costs on its way: from the coordinator to a relay, and on to the device."""
    return count * told["transport_factor"] * told["hops_of_a_fetch"]


def _egress(costs: Mapping[str, float], devices: int, told: Mapping[str, float]) -> dict[str, float]:
    """Bytes that leave somebody's machines for a round, by what they are."""
    attending, cover = devices * told["share_of_devices_attending"], costs["cover_packages"]
    n1 = attending * costs["packages_per_device"] + cover
    n2, chance = n1 + cover, told["chance_of_a_device_to_recount_a_shard"]
    return {
        # Whether they attend or not, all devices compute the model.
        "news": devices * _fetched(costs["news_bytes"], told),
        "looks": attending * _fetched(costs["looks_bytes"], told),
        "index": attending * _fetched(math.ceil(n2 / SHARD) * INDEX_BYTES, told),
        "runs": attending * _fetched(costs["run_bytes"], told),
        "recounts": attending * _fetched(chance * costs["shard_bytes"], told),
        "auditors": told["auditors_that_recount_everything"] * n2 * INNER_BYTES * told["transport_factor"],
        "batches": (n1 * OUTER_BYTES + n2 * INNER_BYTES) * told["transport_factor"],
    }


def per_device(
    costs: Mapping[str, float], told: Mapping[str, float] = ASSUMPTIONS, devices: int = SCALES[0]
) -> dict[str, float]:
    """What one device that attends spends in a day among so many, and what a newcomer fetches first."""
    rounds, chance = told["rounds_per_day"], told["chance_of_a_device_to_recount_a_shard"]
    n2 = devices * told["share_of_devices_attending"] * costs["packages_per_device"] + 2 * costs["cover_packages"]
    index = math.ceil(n2 / SHARD) * INDEX_BYTES
    work = costs["submission_ms"] + costs["verify_ms"] + chance * costs["recount_ms"]
    day = rounds * told["transport_factor"] / 1000
    return {
        "cpu_ms_per_day": rounds * work,
        "up_kb_per_day": day * costs["submission_bytes"],
        "believed_kb_per_day": day * (costs["news_bytes"] + costs["looks_bytes"]),
        "canary_kb_per_day": day * (index + costs["run_bytes"]),
        "recount_kb_per_day": day * chance * costs["shard_bytes"],
        "newcomer_kb": told["rounds_of_an_experiment"] * costs["news_bytes"] * told["transport_factor"] / 1000,
    }


_ROWS = {
    "packages_per_day": "capsules that are counted, a day",
    "cover_percent": "… of them cover, %",
    "submitted_mbit_s": "devices → entry relay in a window, Mbit/s",
    "entry_cores_in_a_window": "entry relay: cores in a window",
    "entry_cores": "entry relay: cores that seal its cover",
    "batch_mbit_s": "entry relay → mixing relay, Mbit/s",
    "mix_cores": "mixing relay: cores that open, and seal its cover",
    "coordinator_cores": "coordinator: cores that open and count, one by one",
    "coordinator_cores_with_lanes": "… with lanes",
    "nodes": "nodes of so many cores, one by one",
    "auditor_core_hours": "one auditor: core hours to recount a round, one by one",
    "public_gb_a_round": "capsules published a round, GB",
    "public_gb": "capsules that are public at a time, GB",
    "index_kb": "index of shards, which each canary needs, kB",
    "fetch_cores": "gateway: cores for what devices fetch before a window",
    "fetched_mbit_s": "fetched before a window, on all hops, Mbit/s",
    "log_mb_per_year": "log and documents, MB a year",
    "cpu_money": "CPU, money a month",
    "disk_money": "published capsules on disk, money a month",
    "egress_news_money": "egress of rounds' news, money a month",
    "egress_uncoded_money": "(… if tallies travelled uncoded)",
    "egress_looks_money": "egress of fresh looks at the log, money a month",
    "egress_index_money": "egress of indexes of shards, money a month",
    "egress_runs_money": "egress of canaries' runs of digests, money a month",
    "egress_recounts_money": "egress of shards that devices recount, money a month",
    "egress_auditors_money": "egress to auditors, money a month",
    "egress_batches_money": "egress between relays and coordinator, money a month",
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
        "believed_kb_per_day": "fetched to believe rounds and compute models, kB a day",
        "canary_kb_per_day": "fetched to look for canaries, kB a day",
        "recount_kb_per_day": "fetched to recount shards, kB a day on average",
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
    found: dict[str, Any] = json.loads(block(page, "inputs").removeprefix("```json").removesuffix("```"))
    return found
