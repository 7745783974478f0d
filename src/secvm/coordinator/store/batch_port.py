"""BatchStore: what a coordinator keeps of a round with two relays, as a part of its store's port (``port``).

A **batch** is the mixing relay's inner capsules of one round, in pieces as they travel (docs/protocol.md §30), and with
them the seed of the round's count key. It begins with the seed, before the round has a manifest; it is **whole** when
its pieces were compared with the mixing relay's count; it is **forgotten** some rounds later, seed, pieces and all. The
statements that relays sign are no part of it: they are public, and kept for good.

A whole batch is counted in **runs**, one for each piece: any node claims one, opens its capsules and keeps what they
came to. What a run came to follows from the batch, so it does not matter who counted it, or how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is."""

    #: How often its pieces were not what was announced, and were dropped.
    attempt: int = 0
    #: The numbers of the pieces that are here, ascending.
    have: tuple[int, ...] = ()
    #: Whether the pieces are the batch, for good.
    whole: bool = False


class BatchStore(Protocol):
    """Batches, each by its experiment's digest and its round's number."""

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        """The seed of the round's count key: the one that is there, or this one, durably. For the driver, and fenced.
        A batch that is forgotten gets none: it raises ``LocalProtocolError``, as an unknown experiment does.
        """
        ...

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        """The seed; None where the batch has not begun, or is forgotten."""
        ...

    def batch(self, experiment: str, number: int) -> BatchState | None:
        """How far it is; None where it has not begun, or is forgotten."""
        ...

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        """A piece of the batch. The same again changes nothing; other bytes raise ``LocalProtocolError``, and so does a
        new piece of a whole batch. False: the batch has not begun, or is forgotten.
        """
        ...

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        """The bytes of a piece; None where it is not here."""
        ...

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        """The pieces of this attempt are not what was announced: they are gone, and the next attempt begins. A whole
        batch keeps its pieces, and so does another attempt.
        """
        ...

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        """The pieces of this attempt were compared, and are the batch. False: they were dropped meanwhile."""
        ...

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        """A run, of so many, that has no result and that nobody else is counting; None when there is none, and as long
        as the batch is not whole. The same one again as long as this node has not put its result; then another.
        """
        ...

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        """What a run came to. The first result stays. Of a batch that is forgotten nothing is kept; of one that is not
        whole there is no result: it raises.
        """
        ...

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        """Which runs have a result."""
        ...

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        """What a run came to; None where it is not counted, or forgotten."""
        ...

    def forget_batch(self, experiment: str, number: int) -> None:
        """Seed, pieces and results are gone, also from the file's free pages. Twice is once. For the driver, and
        fenced. Whoever was killed in here calls it again, or opens the store again.
        """
        ...

    def batches(self) -> list[tuple[str, int]]:
        """Those that have begun and are not forgotten, by experiment and number."""
        ...
