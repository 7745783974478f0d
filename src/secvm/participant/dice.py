"""A device's dice: the operating system's, and nothing else where people take part.

Both doors take ``random_bytes``, which a main program fills with ``os.urandom``. Everything that could tell devices
apart (order, times, phases, which relay a fetch takes, sealing) is thrown with these, also in tests. Only what is
*learnt* may be thrown with seeded dice, so that a run can be compared with an offline one, and only where the
experiment is marked as a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from secvm.learning.individual.dice import Dice, Purpose, UnsafeSeededDice
from secvm.protocol.documents.experiment import ExperimentDocument

#: So many bytes that nobody can guess.
RandomBytes = Callable[[int], bytes]
#: Whose dice decide what is learnt in an experiment.
DiceFor = Callable[[ExperimentDocument], Dice]
#: Words are fetched in blocks: a call to the system costs more than the bytes.
_BLOCK_WORDS = 64


class SystemDice:
    """Dice that cannot be thrown again, for every purpose the same."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:  # noqa: ARG002
        numbers: list[int] = np.frombuffer(self._random_bytes(8 * count), dtype="<u8").tolist()
        return numbers


def system_words(random_bytes: RandomBytes) -> Iterator[int]:
    """Uniform 64-bit words without end, as schedules take them."""
    while True:
        block = random_bytes(8 * _BLOCK_WORDS)
        yield from (int.from_bytes(block[i : i + 8], "little") for i in range(0, len(block), 8))


def safe_dice(random_bytes: RandomBytes) -> DiceFor:
    """The system's dice for every experiment."""
    return lambda _document: SystemDice(random_bytes)


def unsafe_seeded_dice(seed: bytes, participant: int) -> DiceFor:
    """Seeded dice for tests; asked for a real experiment's, it raises ``LocalProtocolError``."""

    def dice_for(document: ExperimentDocument) -> Dice:
        document.check_seeded_dice()
        return UnsafeSeededDice(seed, participant)

    return dice_for
