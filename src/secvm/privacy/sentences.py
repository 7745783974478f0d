"""Sentences that a person is told about their data: English here, and by key and values for a page in another language.

A ``Sentence`` is its English text, and remembers from which key and values it was made. So the command line prints it,
and the person's page says the same in the language of its reader: a table there has a text for each key, with the same
placeholders (a test compares them). Values are numbers, names and lists of names; placeholders are written as
``str.format`` has them, of which a page knows ``{n}``, ``{n:,}``, ``{n:.2f}`` and ``{n:.0%}``.
"""

from __future__ import annotations

from typing import Any, Self

Value = str | int | float


class Sentence(str):
    """English text that knows its key and values; equal to the same text."""

    __slots__ = ("key", "values")

    key: str
    values: dict[str, Value]

    def __new__(cls, key: str, text: str, values: dict[str, Value]) -> Self:
        made = super().__new__(cls, text)
        made.key, made.values = key, values
        return made

    def content(self) -> dict[str, Any]:
        """As a page is given it."""
        return {"key": self.key, "values": self.values, "text": str(self)}


def say(key: str, **values: Value) -> Sentence:
    """The sentence of this key about these values."""
    return Sentence(key, ENGLISH[key].format(**values), values)


ENGLISH = {
    # The risk of taking part, in words that somebody can weigh (``risk``).
    "risk.two": (
        "Somebody who knows everything else about you and bets on your answer would be right at most {times:.1f} times"
        " in 10; 5 is a coin toss."
    ),
    "risk.several": (
        "Somebody who knows everything else about you and bets between your answer and another one would be right at"
        " most {times:.1f} times in 10; 5 is a coin toss."
    ),
    "risk.number": (
        "Somebody who knows everything else about you and bets between your number and another one would be right at"
        " most {times:.1f} times in 10; 5 is a coin toss."
    ),
    "risk.unbounded": (
        "Nothing limits the risk: somebody who bets on your answer could be right 10 times in 10; 5 is a coin toss."
    ),
}
