"""What an audit tells of one round with two relays: how it ended, its numbers, and how surely a lie had been seen.

Chances are those of ``privacy.caught``, for the numbers that the relays signed of this very round.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from secvm.learning.aggregate.tally import Tally
from secvm.privacy.statements.detection import CellCount, blindly_for, canary, false_cover, in_cell_for
from secvm.protocol.documents.experiment import ExperimentDocument

#: What "surely" means in a report.
SURELY = Fraction(99, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How surely somebody who lied in this round had been seen."""

    #: A relay that falsified a little of its own cover: at least this.
    false_cover: Fraction
    #: An entry relay that dropped one capsule of a device: its canary is that one.
    canary: Fraction
    #: Capsules that the mixing relay cannot drop blindly without being seen with 99 %.
    blindly: int
    #: Packages of the fullest train cell, likewise; None: not even all of them.
    fullest_cell: int | None

    def to_content(self) -> dict[str, Any]:
        """For programs."""
        return {
            "false_cover": str(self.false_cover),
            "canary": str(self.canary),
            "blindly_for_99": self.blindly,
            "fullest_cell_for_99": self.fullest_cell,
        }


def chances_of(document: ExperimentDocument, *, capsules: int, net: Tally | None) -> Chances:
    """Of a round whose entry relay handed on so many capsules; ``net``: its net tally, where it is there."""
    cover = document.relay_cover
    fullest = None
    if net is not None:
        fullest = _fullest(document, net)
    return Chances(
        false_cover=false_cover(Fraction(1, cover.packages), cover.parts),
        canary=canary(1, document.budget),
        blindly=blindly_for(SURELY, part=cover.part_packages, batch=capsules),
        fullest_cell=fullest,
    )


def _fullest(document: ExperimentDocument, net: Tally) -> int | None:
    """In the fullest train cell, by what is left there of people when the known mean is off."""
    cover = document.relay_cover
    left = cover.uncovered(net)
    people = max(0, int(left.plus.max(initial=0)), int(left.minus.max(initial=0)))
    noise = cover.train
    added = round(noise.mean * cover.parts / (cover.parts - 1))
    return in_cell_for(float(SURELY), CellCount(people, added), shape=noise.part(cover.parts), parts=cover.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """The numbers of one round; None where nothing is told."""

    #: running, opened, unopened.
    ended: str
    #: What an unopened round lacks.
    missing: tuple[str, ...] = ()
    clients: int | None = None
    entry_capsules: int | None = None
    mix_capsules: int | None = None
    refused: int | None = None
    part: int | None = None
    #: Why an opened round was not stepped.
    stayed: str | None = None
    #: Packages that were counted again; None: capsules were not there, or not looked at.
    recounted: int | None = None
    chances: Chances | None = None

    def to_content(self) -> dict[str, Any]:
        """For programs; keys stay."""
        return {
            "ended": self.ended,
            "missing": list(self.missing),
            "clients": self.clients,
            "entry_capsules": self.entry_capsules,
            "mix_capsules": self.mix_capsules,
            "refused": self.refused,
            "part": self.part,
            "stayed": self.stayed,
            "recounted": self.recounted,
            "seen": None if self.chances is None else self.chances.to_content(),
        }

    def lines(self) -> list[str]:
        """For people."""
        if self.ended == "unopened":
            why = ", and ".join(self.missing) or "its opening is false"
            return [f"unopened: {why}"]
        if self.ended == "running":
            return []
        numbers = (
            f"opened: M {self.clients}, n₁ {self.entry_capsules}, n₂ {self.mix_capsules}, refused {self.refused},"
            f" part {self.part}"
        )
        found = [numbers if self.stayed is None else f"{numbers}; not stepped: {self.stayed}"]
        if self.recounted is not None:
            found.append(f"counted again: {self.recounted} packages")
        if self.chances is not None:
            seen = self.chances
            cell = "never in" if seen.fullest_cell is None else f"{seen.fullest_cell} of"
            found.append(
                f"a lie had been seen: false cover with {_percent(seen.false_cover)} or more; with 99 % whoever drops"
                f" {seen.blindly} capsules blindly, or {cell} the fullest cell"
            )
        return found


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.3g} %"
