"""Live figures, from differences of a coordinator's counters between two looks. Pure.

Counters are sums over everybody since the coordinator was started; a smaller one than before means that it was started
again. How many devices have sent in the round that runs is packages so far over the budget, where that can be known:
one round runs, its relays hand packages on as they come, and the counter was seen before its window opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from secvm.dashboard.public_status import Figures, PublicRound
from secvm.protocol.documents.experiment import ExperimentDocument

#: A rate is over so many milliseconds of the machine: longer would be old, shorter would jump.
_SPAN_MS = 5000
_KEPT_BY_RELAY = "the relay keeps a round's packages until its end"
_SEVERAL = "several rounds run at once, and packages are sealed"
_SINCE_WHEN = "the page began to look after the window had opened"
_NO_COUNTER = "this coordinator does not count packages"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A look at the counters."""

    steady: int
    now: int
    packages: float | None
    commits: float
    commit_ms: float


@dataclass
class Live:
    """Fed with every look, in order."""

    _seen: deque[_Seen] = field(default_factory=deque)
    #: The counter before each round that runs had opened, by experiment and number.
    _before: dict[tuple[str, int], float] = field(default_factory=dict)
    figures: Figures = field(default_factory=dict)

    def look(self, figures: Figures, *, steady: int, now: int) -> None:
        """Take note of ``/metrics``, at an instant of the machine and one of the coordinator's clock."""
        self.figures = figures
        packages = _sum(figures, "packages_total")
        last = self._seen[-1] if self._seen else None
        if last is not None and (packages is None or last.packages is None or packages < last.packages):
            self._seen.clear()
            self._before.clear()
        self._seen.append(
            _Seen(
                steady,
                now,
                packages,
                figures.get(("commits_total",), 0.0),
                figures.get(("commit_milliseconds_total",), 0.0),
            )
        )
        # One older than the span stays, so that the rate is over all of it.
        while len(self._seen) > 2 and self._seen[1].steady <= steady - _SPAN_MS:
            self._seen.popleft()

    def rounds(self, running: Sequence[tuple[str, PublicRound]]) -> None:
        """Take note of what runs, by experiment: the newest look from before a round's opening has its first count."""
        self._before = {
            (digest, round_.number): self._before[digest, round_.number]
            for digest, round_ in running
            if (digest, round_.number) in self._before
        }
        for digest, round_ in running:
            before = [seen.packages for seen in self._seen if seen.now <= round_.opens_at and seen.packages is not None]
            if before:
                self._before[digest, round_.number] = before[-1]

    def away(self) -> None:
        """The coordinator did not answer: nobody knows what happened meanwhile."""
        self._seen.clear()
        self._before.clear()

    def rates(self) -> dict[str, Any]:
        """Packages a second, and how long a commit took, over the last seconds."""
        first, last = (self._seen[0], self._seen[-1]) if self._seen else (None, None)
        rate = commit_ms = None
        if first is not None and last is not None and last.steady > first.steady:
            if first.packages is not None and last.packages is not None:
                rate = 1000 * (last.packages - first.packages) / (last.steady - first.steady)
            if last.commits > first.commits:
                commit_ms = (last.commit_ms - first.commit_ms) / (last.commits - first.commits)
        return {"packages_per_s": rate, "commit_ms": commit_ms}

    def round_so_far(
        self, document: ExperimentDocument, round_: PublicRound, running: Sequence[tuple[str, PublicRound]]
    ) -> dict[str, Any]:
        """Packages and devices of the round that runs; ``running``: all of them, by experiment."""
        unknown = self._why_unknown(document, round_, running)
        last = self._seen[-1].packages if self._seen else None
        if unknown is not None or last is None:
            return {"packages": None, "devices": None, "why_unknown": unknown}
        packages = last - self._before[document.digest, round_.number]
        return {"packages": int(packages), "devices": round(packages / document.budget, 1), "why_unknown": None}

    def _why_unknown(
        self, document: ExperimentDocument, round_: PublicRound, running: Sequence[tuple[str, PublicRound]]
    ) -> str | None:
        if not self._seen or self._seen[-1].packages is None:
            return _NO_COUNTER
        if document.relays:
            return _KEPT_BY_RELAY
        if any(
            other != document.digest and there.opens_at < round_.accept_until and round_.opens_at < there.accept_until
            for other, there in running
        ):
            return _SEVERAL
        return None if (document.digest, round_.number) in self._before else _SINCE_WHEN


def _sum(figures: Figures, name: str) -> float | None:
    values = [value for key, value in figures.items() if key[0] == name]
    return sum(values) if values else None


_TOTALS = (
    *("packages_total", "commit_faults_total", "opened_total", "opener_faults_total", "admin_refused_total"),
    *("opening_lanes", "train_participants_total"),
)
_BY_LABEL = ("rounds_total", "cosignatures_total", "witness_failures_total")


def totals(figures: Figures) -> dict[str, Any]:
    """What was counted since the coordinator was started."""

    def total_of(name: str) -> int | None:
        total = _sum(figures, name)
        return None if total is None else int(total)

    def by_label(name: str) -> dict[str, int]:
        return {key[1]: int(value) for key, value in figures.items() if key[0] == name}

    refused: dict[str, int] = {}
    for key, value in figures.items():
        if key[0] in ("refused_total", "dropped_total") and len(key) == 2 and value:
            refused[key[1]] = refused.get(key[1], 0) + int(value)
    sealed, opened, dropped = total_of("packages_total"), total_of("opened_total"), total_of("dropped_total")
    started = figures.get(("start_time_seconds",))
    known = sealed is not None and opened is not None
    return {
        "started_at": None if started is None else int(1000 * started),
        "refused_total": refused,
        "stored_total": total_of("stored_requests_total"),
        "backlog": max(0, (sealed or 0) - (opened or 0) - (dropped or 0)) if known else None,
        **{name: total_of(name) for name in _TOTALS},
        **{name: by_label(name) for name in _BY_LABEL},
    }
