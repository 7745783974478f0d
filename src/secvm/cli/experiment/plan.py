"""The plan of a specification as ``secvm experiment new`` tells it, before anything is published."""

from __future__ import annotations

import json
from typing import Any

from secvm.cli.output import note


def planned(content: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """What a specification's guarantee takes and is worth, as values and in words; None: it asks for none.

    Takes seconds, and needs no coordinator.
    """
    from secvm.coordinator.experiments.new_experiment import operators_of, private_plan
    from secvm.coordinator.experiments.specification import Specification
    from secvm.crypto.sealing.layers import OUTER_BYTES
    from secvm.privacy.planning.private_plan import plan_lines
    from secvm.privacy.statements.relayed_text import PLAIN, words
    from secvm.runtime.settings import parse_settings

    told = parse_settings(json.dumps(content, default=str).encode(), Specification, "the specification")
    if told.privacy is None:
        return None, [PLAIN]
    note("planning two relays' cover …")
    made = private_plan(told)
    assert made is not None, "a specification with a guarantee has a plan"
    statement = made.statement(operators_of(told), floor=told.floor, bytes_per_package=OUTER_BYTES)
    found = made.content(statement)
    return found, [*plan_lines(found), "", "devices will say:", *(f"  {one}" for one in words(statement))]
