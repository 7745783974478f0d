"""Inconsistency: what a signed manifest or ending can have against its experiment or the round before it.

Its value is the sentence that people read. Programs that tell one from another go by the name, so that a sentence can
be written better without changing a verdict.
"""

from __future__ import annotations

from enum import Enum


class Inconsistency(Enum):
    """One thing that is wrong with a manifest or an ending."""

    OTHER_EXPERIMENT = "it is of another experiment"
    TOO_MANY_ROUNDS = "the experiment has fewer rounds"
    WINDOW_LENGTH = "its window has another length"
    GRACE = "it takes late packages longer or shorter"
    BEFORE_START = "it opens before the experiment starts"
    OVERLAP = "it opens before the round before is closed"
    BROKEN_CHAIN = "it does not continue the round before"
    ROUND_AFTER = "there was a round after it"
    OTHER_ROUND = "it ends another round"
    OTHER_LABELS = "its counts are of other labels"
    ABANDONED_STEP = "an abandoned round changed the state"
    BELOW_FLOOR = "its round was below the floor and not abandoned"
    QUOTA = "its quota is below the budget"
    GATEWAY_KEYS = "its gateway keys are not one key of the experiment's KEM with one pair of algorithms"
    NO_COUNT = "it tells no relay's count of the round"
    # Of experiments with two relays.
    RELAY_TIMES = "its relays have more or less time than the experiment says"
    MIX_COMMITMENT = "its mixing relay's commitment is not signed by that relay, or of another round"
    ENTRY_COMMITMENT = "its entry relay's commitment is not signed by that relay, or of another round"
    FETCH_KEYS = "its fetch keys are not one X25519 key with one pair of algorithms, or are a key that opens packages"
    USED_BEFORE = "its count key or a relay's commitment was that of another round"
    OTHER_OPENING = "it does not follow from the opening of the round before"
    UNOPENED_STEP = "a round that was not opened, or had too few people, changed the state"
