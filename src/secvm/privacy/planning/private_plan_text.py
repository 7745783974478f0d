"""A private plan in words, for the operator: what is guaranteed, what it costs whom, and whether a model is left.

What devices will tell their people is ``relayed_text``'s, and stands below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plan_lines(told: Mapping[str, Any]) -> list[str]:
    """``PrivatePlan.content`` for a terminal."""
    times, terms, found = told["times"], told["terms"], told["statement"]["planned"]
    chosen = "" if told["step_size"] is None else f", step size {told['step_size']}, floor {told['floor']} of swift"
    thinned = "" if told["rho"] is None else f", thinned by ρ = {told['rho']}"
    return [
        (
            f"guarantee   ε = {told['epsilon']:g} at δ = {told['delta']:g} over all {told['rounds']} rounds"
            f"{_reached(found)}"
        ),
        f"rounds      {told['rounds']}{thinned}{chosen}",
        f"device      B = {told['budget']:,} packages in every round, in one request",
        f"relays      D = {told['packages']:,} cover packages of each in every round, in S = {told['parts']} parts",
        (
            f"terms       both relays' must allow {terms['cells']:,} cells, {terms['packages']:,} packages and"
            f" {terms['capsules']:,} capsules; seconds_per_million is at most"
            f" {terms['entry_seconds_per_million']:,} at the entry relay and {terms['mix_seconds_per_million']:,} at"
            " the mixing relay"
        ),
        (
            f"times       after a window's grace {times['batch_s']} s at the entry relay, {times['mix_s']} s at the"
            f" mixing relay, {times['reveal_s']} s for reveals, {times['open_s']} s for the opening"
        ),
        f"noise       {told['noise_per_cell']:.1f} in each count of a bin and a sign (standard deviation)",
        f"model       {told['outlook_sentence']}",
    ]


def _reached(found: Mapping[str, Any] | None) -> str:
    if found is None or found["epsilon"] is None:
        return ""
    label = "none" if found["epsilon_flip"] is None else f"{found['epsilon_flip']:.2f}"
    return f"; reached: {found['epsilon']:.2f}, and of another label in place of a person's: {label}"
