"""A statement about an experiment without cover in plain words, for the person who is to decide."""

from __future__ import annotations

from secvm.privacy.statements.coalitions import coalitions, in_words
from secvm.privacy.statements.plain import PrivacyStatement

NO_GUARANTEE = (
    "There is no formal guarantee: this experiment adds no noise. Tallies are public and stay so: anybody, not only the"
    " coordinator, can use them to guess at you."
)
#: Whatever the law of an honest run says. Ends without a full stop.
CHOSEN_WEIGHTS = (
    "a coordinator that chooses the weights, by making tallies up, can tell your label with an AUC of 1.00 (certainty)"
)
#: Before all coalitions that are sufficient (``coalitions``).
_COLLUDE = (
    "To find out your label nobody has to work together with anybody: the public tallies are enough. To learn which"
    " packages are yours, any one of these is: {all}"
)


def words(statement: PrivacyStatement) -> list[str]:
    """One sentence or a few in each item, in the order in which they matter."""
    return [
        NO_GUARANTEE,
        _leak(statement),
        _COLLUDE.format(all=in_words(coalitions(statement.terms))),
        *_cost(statement),
    ]


def as_text(statement: PrivacyStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def _leak(statement: PrivacyStatement) -> str:
    leak, rounds = statement.leak, statement.terms.rounds
    if leak is None:
        return "For a label that is a number there is no law yet, so the risk has no number."
    every = f"all {rounds} rounds" if rounds > 1 else "its one round"
    corrected = "" if leak.auc_corrected is None else f" ({leak.auc_corrected:.2f} with all corrections)"
    return (
        "The fewer train, the more that tells, and no device can see how many do. Somebody who knows your features and"
        f" wants your label would, if {statement.terms.floor:,} train, the fewest from whom the model should learn,"
        f" reach an AUC of about {leak.auc_round:.2f} in one round, and {leak.auc:.2f} in {every}{corrected}; 0.50 is a"
        f" coin, 1.00 is certainty. And {CHOSEN_WEIGHTS}."
    )


def _cost(statement: PrivacyStatement) -> list[str]:
    if statement.budget is None:
        return []
    size = f", {statement.bytes_per_round:,} bytes" if statement.bytes_per_round else ""
    return [f"Your device sends exactly {statement.budget:,} packages in every round{size}."]
