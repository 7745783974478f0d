"""What whoever runs a coordinator is told of rounds with two relays: events, counts and reasons; never a capsule."""

from __future__ import annotations

from secvm.coordinator.relayed.conclusion import Outcome
from secvm.coordinator.relayed.relayed_history import RelayedHistory, RelayedRound
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics


class RelayedEvents:
    """Log and metrics. A reason for waiting is told once, and again when another was told meanwhile."""

    def __init__(self, log: Log = SILENT, metrics: Metrics | None = None) -> None:
        self._log = log
        metrics = Metrics("coordinator") if metrics is None else metrics
        self._counted = metrics.counter(
            "relayed_capsules", "Inner capsules of opened rounds, by what they were.", {"kind": ("package", "junk")}
        )
        self._pieces = metrics.counter("relayed_pieces", "Pieces of batches that were made durable.")
        self._asked = metrics.counter("relayed_waits", "Times that a relay's commitment was asked for in vain.")
        self._milliseconds = metrics.counter("relayed_milliseconds", "How long attending to such experiments took.")
        self._told: dict[str, str] = {}

    def event(self, event: str, known: RelayedRound, **counts: int) -> None:
        """Log that something has happened to a round."""
        self._told.pop(known.stored.experiment, None)
        self._log.tell(event, experiment=known.stored.experiment, round=known.stored.number, **counts)

    def waiting(self, history: RelayedHistory, number: int, reason: str) -> None:
        """Count and log that the next round waits."""
        self._asked.add()
        if self._told.get(history.stored.digest) == reason:
            return
        self._told[history.stored.digest] = reason
        self._log.tell("round-waits", experiment=history.stored.digest, round=number, reason=reason)

    def concluded(self, known: RelayedRound, outcome: Outcome) -> None:
        """Count and log that a round is over."""
        figures = outcome.figures
        state = "unopened" if outcome.net is None else "opened"
        self._counted.add(figures.packages, kind="package")
        self._counted.add(figures.junk, kind="junk")
        self.event(f"round-{state}", known, capsules=figures.capsules, packages=figures.packages, rejected=figures.junk)
        for reason in figures.reasons:
            what = f"why-{'unopened' if outcome.net is None else 'not-stepped'}"
            self._log.tell(what, experiment=known.stored.experiment, round=known.stored.number, reason=reason)

    def forgotten(self, experiment: str, number: int) -> None:
        """Seed and capsules of a round are gone."""
        self._log.tell("batch-forgotten", experiment=experiment, round=number)

    def refused(self, experiment: str, number: int, status: int) -> None:
        """Something that a mixing relay brought was not taken."""
        self._log.tell("batch-refused", experiment=experiment, round=number, status=status)

    def piece(self) -> None:
        """A piece of a batch is durable."""
        self._pieces.add()

    def took(self, milliseconds: int) -> None:
        """So long it took to attend to all experiments once."""
        self._milliseconds.add(milliseconds)
