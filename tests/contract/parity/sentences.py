"""Every sentence that a person is told, about random values."""

from __future__ import annotations

import random
import re
from typing import Any

from secvm.privacy.sentences import ENGLISH, Sentence, say
from tests.contract.parity.channel import JSON


def draw_sentences(dice: random.Random) -> JSON:
    """A question for both languages."""
    return {"told": [[key, {name: _value(dice, how) for name, how in _placeholders(key)}] for key in ENGLISH]}


def _placeholders(key: str) -> list[tuple[str, str]]:
    return re.findall(r"\{(\w+):?([^}]*)\}", ENGLISH[key])


def _value(dice: random.Random, how: str) -> Any:
    if how == "" and dice.random() < 0.3:
        return ["duration.days", {"n": dice.randrange(10**5)}]
    if how == "":
        return dice.choice(("Größe", "ε", "$&{n}", "a b", 7))
    if how == ",":
        return dice.choice((0, 12, 999, 1000, 2**53 - 1))
    return dice.choice((0.5, 0.125, 2.5, 0.005, 1e15, dice.random(), dice.expovariate(1e-4), 3.0))


def answer_sentences(question: JSON) -> JSON:
    """What Python says."""
    return {"said": [_sentence(told).content() for told in question["told"]]}


def _sentence(told: list[Any]) -> Sentence:
    key, values = told
    return say(key, **{name: _sentence(one) if isinstance(one, list) else one for name, one in values.items()})
