"""What can be wrong with an opening, or missing from it: one word each, and the sentence that people read.

Programs go by the name, so that a sentence can be written better without changing a verdict.
"""

from __future__ import annotations

from enum import Enum


class Missing(Enum):
    """Why a round is unopened, as far as its opening tells. It accuses nobody."""

    ENTRY_COUNT = "the entry relay's count is missing"
    MIX_COUNT = "the mixing relay's count is missing"
    ENTRY_REVEAL = "the entry relay has not opened its part"
    MIX_REVEAL = "the mixing relay has not opened its part"
    SEED = "the coordinator has not published the seed of the count key"


class OpeningFault(Enum):
    """One thing that is not true of what an opening holds."""

    OTHER_ROUND = "it is of another experiment, round or label"
    ENTRY_COUNT = "its entry count is none that the entry relay signed for this label"
    MIX_COUNT = "its mix count is none that the mixing relay signed for this label"
    ENTRY_REVEAL = "its entry reveal is none that the entry relay signed for this label"
    MIX_REVEAL = "its mix reveal is none that the mixing relay signed for this label"
    ENTRY_EQUATION = "the entry relay's capsules are not B · M + D"
    MIX_EQUATION = "the mixing relay's capsules are not those of the entry relay, less what it refused, and D"
    OTHER_ENTRY_COUNT = "the mixing relay counted after another count of the entry relay"
    OTHER_MIX_COUNT = "a reveal answers another count of the mixing relay"
    OTHER_ENTRY_REVEAL = "the mixing relay answered another reveal of the entry relay"
    NONCE = "the nonce is not the one that the entry relay is bound to"
    PART = "the opened part is not the one that nonce and count say"
    ENTRY_SEED = "the entry relay's seed is not the one that it is bound to"
    MIX_SEED = "the mixing relay's seed is not the one that it is bound to"
    COUNT_SEED = "the seed of the count key is not the one that the manifest names"
    COUNT_KEY = "the count key is not the one that its seed gives"
