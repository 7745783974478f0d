"""How long the steps after a window take: seconds for the entry relay, the mixing relay, the reveals and the opening.

With M devices of B capsules and D cover packages of a relay, in a round

- the entry relay draws and seals D packages twice, and hands on n₁ = B M + D capsules of 128 bytes;
- the mixing relay opens n₁, seals D packages once, and hands on n₂ = n₁ + D capsules of 80 bytes;
- the coordinator opens n₂, and publishes them.

Nothing can be sealed before a window has ended, because the cover is bound to the batch. Each step gets ``SLACK`` times
what it takes for the expected people, and ``LEAST_S`` at least, so that a step that was interrupted can begin again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from secvm.errors import BadExperimentError
from secvm.privacy.planning.relay_plan import RelayPlan

SLACK = 3
#: In which a relay seals or opens a million packages, where nobody says: what relays' own settings say by default.
SECONDS_PER_MILLION = 600
#: Of every step; the reveals are two small messages and have no more.
LEAST_S = 60
#: The longest step that a document may name: a week.
MOST_S = 7 * 86_400
#: Capsules as they are handed on by the entry relay, and by the mixing relay.
OUTER_BYTES, INNER_BYTES = 128, 80
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Seconds for a million packages, as relays' terms and the coordinator's own measurements tell them."""

    #: The entry relay: drawn and sealed twice.
    seal_twice_s: float = 125.0
    #: The mixing relay: drawn and sealed once, and the outer layer opened.
    seal_s: float = 65.0
    open_s: float = 65.0
    #: The coordinator: the inner layer opened and counted.
    count_s: float = 65.0
    #: Bytes that go from one party to the next in a second.
    bytes_per_s: float = 1e7

    def __post_init__(self) -> None:
        for name in ("seal_twice_s", "seal_s", "open_s", "count_s", "bytes_per_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadExperimentError(f"a pace of {getattr(self, name)} for {name}: it lies above 0")


def paces_of(*, entry: int, mix: int) -> Paces:
    """Of two relays whose terms tell so many seconds for a million packages."""
    return Paces(seal_twice_s=float(entry), seal_s=float(mix), open_s=float(mix))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTimes:
    """Whole seconds for each step, with its slack."""

    batch_s: int
    mix_s: int
    reveal_s: int
    open_s: int
    #: One relay's cover alone, drawn and sealed twice, without slack.
    sealing_s: float


def round_times(plan: RelayPlan, paces: Paces | None = None) -> RoundTimes:
    """Times for a plan and the people that it expects.

    Raises
    ------
    BadExperimentError
        A step takes longer than a document may name.
    """
    pace = paces or Paces()
    cover = plan.cover.packages
    first = plan.budget * plan.question.people + cover
    second = first + cover
    sealing = cover * pace.seal_twice_s / _MILLION
    return RoundTimes(
        batch_s=_step("batch_s", sealing + first * OUTER_BYTES / pace.bytes_per_s),
        mix_s=_step(
            "mix_s",
            (first * pace.open_s + cover * pace.seal_s) / _MILLION + second * INNER_BYTES / pace.bytes_per_s,
        ),
        reveal_s=LEAST_S,
        open_s=_step("open_s", second * pace.count_s / _MILLION + second * INNER_BYTES / pace.bytes_per_s),
        sealing_s=sealing,
    )


def _step(name: str, seconds: float) -> int:
    total = max(LEAST_S, math.ceil(SLACK * seconds))
    if total > MOST_S:
        raise BadExperimentError(
            f"{name} would be {total:,} seconds, and {MOST_S:,} are the limit: quicker relays (more cores), fewer bins,"
            " or fewer people in a round"
        )
    return total
