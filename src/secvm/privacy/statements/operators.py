"""Operators: who runs which party of a round with two relays, and on whom its guarantee rests.

(ε, δ) holds as long as one of the two relays is honest: it mixes, adds its cover from good dice, and forgets. The
coordinator is taken for hostile. So where its operator runs one of the relays, the guarantee rests on the other alone,
and one operator of both relays is none. ``relay_coalitions`` says who is enough to break it: exactly those who have
both relays. The coordinator, witnesses and other devices add nothing to it.

Who runs the coordinator is what the person has said, and what an experiment says of itself: its signed ``operator``.
Names are compared without regard to case and to white space at their ends: two names are no proof of two parties, but
one name is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.privacy.sentences import Sentence, say

#: Of ``[trust] profile``: a person agrees that the coordinator's operator runs one of the relays.
ONE_RELAY = "one relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """Who runs what, as the document and the device's settings name them."""

    entry: str
    mix: str
    #: Every name that the coordinator's operator goes by; an empty one says nothing.
    coordinators: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether one operator has both relays."""
        return _same(self.entry, self.mix)

    @property
    def of_coordinator(self) -> tuple[str, ...]:
        """Roles of relays that the coordinator's operator has."""
        roles = (("entry", self.entry), ("mix", self.mix))
        return tuple(role for role, name in roles if any(own.strip() and _same(name, own) for own in self.coordinators))

    @property
    def relied_on(self) -> tuple[str, ...]:
        """Operators of whom one must be honest, as they are named; none: nobody is left."""
        if self.same:
            return () if self.of_coordinator else (self.entry,)
        named = {"entry": self.entry, "mix": self.mix}
        return tuple(name for role, name in named.items() if role not in self.of_coordinator)

    def why_no_guarantee(self, *, one_relay: bool) -> str | None:
        """In one sentence; None: two parties run the relays, or the person agrees that one of them is enough."""
        if self.same:
            return f"both relays are run by {self.entry}, who alone can link everything"
        if len(self.of_coordinator) == 2:
            return f"{self.entry} and {self.mix} both run the coordinator, and together can link everything"
        if self.of_coordinator and not one_relay:
            role = self.of_coordinator[0]
            return (
                f"{self.mix if role == 'mix' else self.entry} runs the coordinator and {relay_of(role)}, so that it"
                f" would rest on {self.relied_on[0]} alone; who agrees to that sets"
                f' profile = "{ONE_RELAY}" under [trust]'
            )
        return None


@dataclass(frozen=True, slots=True)
class Coalition:
    """Parties that are enough, without anybody's help."""

    parties: str
    #: What they can do, as the rest of a sentence about them.
    can: str


def relay_coalitions(operators: Operators) -> tuple[Coalition, ...]:
    """All that are sufficient where two relays add cover."""
    can = "link for ever who sent what, and choose the count"
    if operators.same:
        runs = "both relays and the coordinator" if operators.of_coordinator else "both relays"
        return (Coalition(f"{operators.entry} ({runs}) alone", can),)
    return (Coalition(say("together", a=_runs(operators, "entry"), b=_runs(operators, "mix")), can),)


def in_words(sufficient: tuple[Coalition, ...]) -> Sentence:
    """As the end of a sentence: numbered where they are several, because any one of them is enough."""
    named = {
        letter: say("coalition", parties=coalition.parties, can=coalition.can)
        for letter, coalition in zip("abcd", sufficient, strict=False)
    }
    return say(f"several.{len(sufficient)}", **named)


def _runs(operators: Operators, role: str) -> Sentence:
    name = operators.entry if role == "entry" else operators.mix
    return say(f"runs.{role}" + "-coordinator" * (role in operators.of_coordinator), name=name)


def relay_of(role: str) -> str:
    """A role as a sentence names it."""
    return "the entry relay" if role == "entry" else "the mixing relay"


def _same(name: str, other: str) -> bool:
    return name.strip().casefold() == other.strip().casefold()
