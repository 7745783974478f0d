"""An experiment that fits a federation, and people who do not exist to try it with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from secvm.crypto.sealing.kem import RandomBytes
from secvm.runtime.settings import settings_text

_HEAD = """\
# A question to many devices; docs/how-to/run-an-experiment.md explains every key. The next six lines
# are yours to change.

title = "Where are you from?"
question = "Do you live in the north or in the south?"
labels = {labels}
operator = "Operator of the coordinator"   # who asks, how to reach them, and what for: shown first, and signed
contact = "operator@federation.example"
purpose = "To try out how a federation learns."
people = {people}                 # devices expected in a round, train and test together
floor = {floor}                   # fewest train participants from whom a step is taken
rounds = {rounds}
test = {test}                   # true: for people who do not exist; nobody's own data belongs there

[features]
source = "words"                # what the device looks at
description = "Words that you use."
per_participant = {features}             # at most so many of a person, drawn once

{privacy}[binning]
bins = {bins}                       # fewer need fewer people, more tell words apart

"""
_PRIVACY = """\
[privacy]
epsilon = 3                     # over all rounds; a device with default consent agrees to 4 for all experiments, and
                                # with few people more privacy leaves less to see

"""
#: What the example experiment asks for.
LABELS = ("north", "south")
#: Words of those who give the first answer, and the second; further answers have words with numbers.
_WORDS = (
    ("rain", "coat", "tea", "fog", "wool", "boots", "soup", "train"),
    ("sun", "sea", "sand", "olive", "fan", "terrace", "siesta", "melon"),
)
#: Words of one person, and how many of 256 are of their own side: few rounds and few people must show something.
_OF_ONE, _OWN = 4, 224


def experiment_text(
    *,
    people: int,
    trying: bool,
    windows: Mapping[str, int],
    relays: Iterable[Mapping[str, str]],
) -> str:
    """The specification, with the relays as they stand in experiments; small and marked as a test for ``trying``."""
    sizes = {"rounds": 5, "features": 4, "bins": 16} if trying else {"rounds": 20, "features": 100, "bins": 500}
    privacy = _PRIVACY if trying else ""
    head = _HEAD.format(
        people=people,
        floor=max(2, people // 20),
        test=str(trying).lower(),
        labels=json.dumps(LABELS),
        privacy=privacy,
        **sizes,
    )
    return head + settings_text({"windows": windows, "relays": list(relays)})


def made_up_people(count: int, dice: RandomBytes, labels: Sequence[str] = LABELS) -> str:
    """A file of people who answer with these labels, two or more; one JSON object on each line."""
    words = [_WORDS[at] if at < len(_WORDS) else tuple(f"word-{at}-{n}" for n in range(8)) for at in range(len(labels))]
    lines = []
    for _ in range(count):
        first, step, *thrown = dice(2 + 2 * _OF_ONE)
        own = first % len(labels)
        other = (own + 1 + step % (len(labels) - 1)) % len(labels)
        sides = [words[own if byte < _OWN else other] for byte in thrown[:_OF_ONE]]
        features = [side[byte % len(side)] for side, byte in zip(sides, thrown[_OF_ONE:], strict=True)]
        lines.append(json.dumps({"label": labels[own], "features": features}) + "\n")
    return "".join(lines)
