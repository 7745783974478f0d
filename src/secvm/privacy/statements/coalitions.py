"""Who is enough to tell which packages are one person's: computed, all of them.

The separation of who and what ends with any one of these coalitions. None of them is a claim that somebody cheats; each
is what the protocol cannot prevent, and the list is what a person reads before they join.

- A relay delivers. One that hands on a single person's packages, and beside them only its own, reads the public tally.
- Nobody counts a crowd for a device. A coordinator can show an experiment to few, and count a round of one person.
- Two histories of a log need two quorums. With n witnesses of which q are enough, 2q - n of them have to cosign both;
  then one person can be given a gateway key of their own.

With two relays' cover none of these is enough. There exactly the coalitions that have both relays are sufficient, and
who that is follows from the operators: the coordinator, witnesses and other devices add nothing to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.privacy.statements.operators import Operators, relay_of
from secvm.privacy.statements.plain import Terms


@dataclass(frozen=True, slots=True)
class Coalition:
    """Parties that are enough, without anybody's help."""

    parties: str
    #: What they can do, as the rest of a sentence about them.
    can: str


def coalitions(terms: Terms) -> tuple[Coalition, ...]:
    """All that are sufficient where nobody adds cover, the smallest first."""
    found = [_isolating(terms), _with_a_key_of_its_own(terms)]
    if terms.relays:
        one = terms.relays == 1
        relay = "the relay" if one else f"each of the {terms.relays} relays, for the packages that take it,"
        found.insert(0, Coalition(f"{relay} alone", "hand on your packages with only its own beside them"))
        with_whom = "the relay" if one else "the relays that your packages take"
        found.append(Coalition(f"the coordinator and {with_whom} together", "tell who sent what"))
    return tuple(found)


def relay_coalitions(operators: Operators) -> tuple[Coalition, ...]:
    """All that are sufficient where two relays add cover."""
    can = "tell for ever who sent what, and choose the count"
    if operators.same:
        what = "both relays and the coordinator" if operators.of_coordinator else "both relays"
        return (Coalition(f"{operators.entry} ({what}) alone", can),)
    return (Coalition(f"{_runs(operators, 'entry')} and {_runs(operators, 'mix')} together", can),)


def in_words(found: tuple[Coalition, ...]) -> str:
    """As the end of a sentence: numbered where they are several, because any one of them is enough."""
    if len(found) == 1:
        return f"{found[0].parties} can {found[0].can}."
    return "; ".join(f"({number}) {one.parties} can {one.can}" for number, one in enumerate(found, 1)) + "."


def _runs(operators: Operators, role: str) -> str:
    name = operators.entry if role == "entry" else operators.mix
    also = " and the coordinator" if role in operators.of_coordinator else ""
    return f"{name} ({relay_of(role)}{also})"


def _isolating(terms: Terms) -> Coalition:
    if not terms.relays:
        # Devices go straight there.
        return Coalition("the coordinator alone", "see who sends what")
    return Coalition("the coordinator alone", "show this experiment to so few that you stand alone in a round")


def _with_a_key_of_its_own(terms: Terms) -> Coalition:
    can = "give you a gateway key of your own, and so tell your packages from all others"
    if not terms.logged:
        return Coalition("the coordinator alone, for there is no log,", can)
    if terms.quorum is None:
        return Coalition("the coordinator and as many witnesses as two of their quorums share", can)
    enough, of = terms.quorum
    both = 2 * enough - of
    if both <= 0:
        return Coalition(f"the coordinator alone, for {enough} of {of} witnesses are no majority,", can)
    return Coalition(f"the coordinator and {both} of the {of} witnesses", can)
