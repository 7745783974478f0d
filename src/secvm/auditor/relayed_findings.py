"""What an auditor can find wrong with a round of two relays: one word each, who it is, and the sentence people read.

Programs go by the name, so that a sentence can be written better without changing a verdict. A sentence says who, what,
and what to do next. An unopened round is no finding: any of the parties may have been down.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from secvm.protocol.evidence.relayed import Who

#: Checks of a round with two relays, in the order in which reports show them.
RELAYED_CHECKS = (
    "signed",
    "chain",
    "logged",
    "window",
    "commitments",
    "statements",
    "counts",
    "reveals",
    "opened",
    "step",
    "blobs",
    "parts",
    "capsules",
    "doors",
)

_KEEP = "keep the evidence, and show it to people who take part"
_ASK_C = "ask the coordinator's operator for the signed file"


@dataclass(frozen=True, slots=True)
class _Told:
    who: Who
    #: One of ``RELAYED_CHECKS``.
    check: str
    what: str
    next_step: str


class Found(enum.Enum):
    """One thing that an honest federation never shows."""

    MANIFEST_UNREADABLE = _Told(Who.COORDINATOR, "signed", "its manifest cannot be believed", _ASK_C)
    MANIFEST_NOT_SHOWN = _Told(Who.COORDINATOR, "chain", "its manifest is not served, and later ones are", _ASK_C)
    BROKEN_CHAIN = _Told(Who.COORDINATOR, "chain", "its manifest does not continue what was before", _KEEP)
    WINDOW = _Told(Who.COORDINATOR, "window", "its instants do not follow from the experiment", _KEEP)
    COMMITMENT = _Told(Who.COORDINATOR, "commitments", "its manifest lacks a relay's own commitment", _KEEP)
    USED_BEFORE = _Told(Who.COORDINATOR, "commitments", "a count key or commitment is used a second time", _KEEP)
    OPENING_NOT_SHOWN = _Told(Who.COORDINATOR, "opened", "its opening is named and not served", _ASK_C)
    OPENING_UNREADABLE = _Told(Who.COORDINATOR, "opened", "its opening cannot be believed", _ASK_C)
    OTHER_OPENING = _Told(Who.COORDINATOR, "chain", "the document after it names another opening", _KEEP)
    FALSE_OPENING = _Told(Who.COORDINATOR, "opened", "it is called opened, and its opening is false", _KEEP)
    FORGED_STATEMENT = _Told(
        Who.COORDINATOR, "statements", "its opening holds what no relay signed for it", "ask the relays for theirs"
    )
    SEED = _Told(Who.COORDINATOR, "opened", "the published seed is not the count key's", _KEEP)
    ENTRY_EQUATION = _Told(Who.ENTRY, "counts", "the entry relay's capsules are not B · M + D", _KEEP)
    MIX_EQUATION = _Told(Who.MIX, "counts", "the mixing relay's capsules are not n₁ − refused + D", _KEEP)
    COUNTS_DISAGREE = _Told(
        Who.EITHER, "counts", "the relays name different counts or reveals of each other", "ask at both relays' doors"
    )
    TWO_STATEMENTS_OF_ENTRY = _Told(Who.ENTRY, "statements", "the entry relay signed two for one", _KEEP)
    TWO_STATEMENTS_OF_MIX = _Told(Who.MIX, "statements", "the mixing relay signed two for one", _KEEP)
    ENTRY_REVEAL = _Told(Who.ENTRY, "reveals", "the entry relay opened what it was not bound to", _KEEP)
    MIX_REVEAL = _Told(Who.MIX, "reveals", "the mixing relay opened what it was not bound to", _KEEP)
    TALLY = _Told(Who.COORDINATOR, "step", "its net tally is named and not to be had", _ASK_C)
    FIRST_MODEL = _Told(Who.COORDINATOR, "step", "the first model is not zero", _KEEP)
    STEP = _Told(Who.COORDINATOR, "step", "the model after it does not follow from its net tally", _KEEP)
    BLOBS = _Told(Who.COORDINATOR, "blobs", "a state or weights are not served as they were signed", _ASK_C)
    RUNS = _Told(
        Who.COORDINATOR, "capsules", "the digests in public are not those that the mixing relay signed", _ASK_C
    )
    PART_OF_ENTRY = _Told(
        Who.EITHER,
        "parts",
        "a capsule of the entry relay's opened part was not handed on",
        "ask a relay for the digests of the entry relay's batch: they tell which of the two",
    )
    PART_DROPPED_BY_ENTRY = _Told(Who.ENTRY, "parts", "the entry relay's opened part is not in its own batch", _KEEP)
    PART_DROPPED_BY_MIX = _Told(
        Who.MIX, "parts", "the mixing relay left out what was in the entry relay's batch", _KEEP
    )
    PART_OF_MIX = _Told(Who.MIX, "parts", "the mixing relay's opened part is not in what it handed on", _KEEP)
    CAPSULES = _Told(Who.COORDINATOR, "capsules", "capsules in public are not those of their digests", _ASK_C)
    SHARDS = _Told(Who.COORDINATOR, "capsules", "a sub-tally in public is not under the root of the shards", _ASK_C)
    COUNT = _Told(Who.COORDINATOR, "capsules", "its capsules, counted again, do not give a signed sub-tally", _KEEP)
    RAW = _Told(Who.COORDINATOR, "capsules", "its sub-tallies together are not net tally and opened parts", _KEEP)
    WITHHELD = _Told(
        Who.COORDINATOR, "capsules", "capsules that must still be public are not served", "look again in an hour"
    )
    ENDING = _Told(Who.COORDINATOR, "chain", "the ending cannot be believed, or does not follow", _KEEP)

    @property
    def who(self) -> Who:
        """Whom it concerns."""
        return self.value.who

    @property
    def check(self) -> str:
        """Which check finds it."""
        return self.value.check

    def sentence(self, detail: str = "") -> str:
        """In one sentence; ``detail`` says more of this case."""
        told = self.value
        more = f" ({detail})" if detail else ""
        return f"{told.who.value}: {told.what}{more}; {told.next_step}"
