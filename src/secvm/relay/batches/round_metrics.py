"""Figures of a role for whoever runs the relay, at ``GET /metrics``: sums over all rounds, under labels that are fixed.

Nothing here has a name of a client, a label or an experiment. How large batches are, and how rounds end, is public
anyway (docs/protocol.md §30); how long steps take is what an operator holds against the terms that the relay signed.
"""

from __future__ import annotations

from secvm.runtime.metrics import Metrics

DOORS = ("submit", "tokens", "commitment", "batch", "counts", "leaves", "terms")
_STATUSES = ("400", "401", "403", "404", "409", "410", "413", "415", "421", "422", "425", "429", "503")
#: What a round goes through here; a part and a piece are each counted.
STAGES = (
    *("closed", "opened", "part", "counted", "announced", "piece", "taken", "handed-on"),
    *("narrowed", "forgotten", "told", "revealed", "silent", "over"),
)
#: How long they take is told: opening a piece, drawing and sealing a part, sorting the batch.
_TIMED = ("opened", "part", "counted")
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
_CAPSULES = tuple(10**power for power in range(3, 9))


class RoundMeter:
    """Counts what one role does."""

    def __init__(self, metrics: Metrics) -> None:
        self._refused = metrics.counter(
            "role_refused", "Requests that a role's door refused.", {"door": DOORS, "status": _STATUSES}
        )
        self._submissions = metrics.counter(
            "submissions", "Submissions with a receipt, by whether they were new.", {"came": ("first", "again")}
        )
        self._tokens = metrics.counter(
            "tokens_given", "Answers to requests for a token, those that came again included."
        )
        self._steps = metrics.counter("round_steps", "Steps of rounds that were done here.", {"stage": STAGES})
        self._seconds = metrics.histogram(
            "round_step_seconds", "How long such a step took.", {"stage": _TIMED}, buckets=_SECONDS
        )
        self._capsules = metrics.histogram(
            "batch_capsules", "Capsules of a batch that is ready to be handed on.", buckets=_CAPSULES
        )
        self._ended = metrics.counter(
            "rounds_over",
            "Rounds that are over, by whether this relay has opened its part.",
            {"part": ("opened", "unopened")},
        )

    def answered(self, door: str, status: int) -> None:
        """A door has answered."""
        if status >= 400:
            self._refused.add(door=door, status=str(status))

    def took(self, *, again: bool) -> None:
        """A submission has its receipt."""
        self._submissions.add(came="again" if again else "first")

    def gave(self) -> None:
        """A client was given a token."""
        self._tokens.add()

    def stepped(self, step: str, seconds: float | None = None) -> None:
        """A step of a round is done, and how long it took where somebody has looked."""
        stage = stage_of(step)
        self._steps.add(stage=stage)
        if seconds is not None and stage in _TIMED:
            self._seconds.observe(seconds, stage=stage)

    def built(self, capsules: int) -> None:
        """A batch of so many capsules is ready."""
        self._capsules.observe(capsules)

    def ended(self, *, opened: bool) -> None:
        """A round is over; ``opened``: our part of it was."""
        self._ended.add(part="opened" if opened else "unopened")


def stage_of(step: str) -> str:
    """A step without its number or paper: ``part-3`` is ``part``."""
    return step if step in STAGES else step.partition("-")[0]
