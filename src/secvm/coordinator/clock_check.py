"""ClockCheck: whether the coordinator's clock can be believed, before a driver does what nobody can take back.

A manifest is signed for the time that the clock shows, and an epoch's key is destroyed when the clock says that the
epoch is over. One wrong reading would end every experiment. So a driver acts on a reading that agrees, to a period of
the grid,

 1. where there is a log, with the times in the newest cosignatures of a quorum of witnesses;
 2. without a log, with the reading before it and the time that has passed since, by a clock that nobody sets;
 3. without a log and after a start, with what the store's rounds have reached already. A clock that is ahead at the
    start, where there is no log, is not noticed.

Every time is kept as its distance from the steady clock. So what a witness said an hour ago still tells what time it
is now, and a clock that was wrong for some seconds is believed again as soon as it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass

from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.crypto.notes import NoteKey
from secvm.protocol.log.policy import LogTerms
from secvm.runtime.clock import Clock
from secvm.runtime.logs import SILENT, Log


@dataclass(eq=False, repr=False)
class ClockCheck:
    """Reads the clock for one driver.

    ``steady``: a clock that nobody sets. ``terms`` of the log, where there is one.
    """

    clock: Clock
    steady: Clock
    _: KW_ONLY
    period_s: InitVar[int]
    terms: LogTerms | None = None
    log: Log = SILENT

    def __post_init__(self, period_s: int) -> None:
        self._period_ms = 1000 * period_s
        #: By witness: its time, less the steady clock's when it was heard.
        self._heard: dict[NoteKey, int] = {}
        #: The clock's newest reading that was believed, less the steady clock's.
        self._believed: int | None = None
        #: Why the last reading was not believed; None if it was.
        self.doubt: str | None = None
        #: Called when a doubt begins: whoever can ask witnesses what time it is.
        self.on_doubt: Callable[[], None] | None = None

    def hear(self, witness: NoteKey, time_s: int) -> None:
        """A witness has just cosigned something, and this is its time."""
        self._heard[witness] = 1000 * time_s - self.steady.now()

    def now(self, reached: Callable[[], int | None]) -> int | None:
        """What time it is, in milliseconds; None while that is in doubt.

        ``reached``: the newest instant that the store's rounds have lived through; None where nothing depends on the
        time yet, so that no witness is asked.
        """
        now = self.clock.now()
        distance = now - self.steady.now()
        doubt = self._doubt(now, distance, reached)
        if doubt is None:
            self._believed = distance
        self._change(doubt)
        return now if doubt is None else None

    def health(self) -> dict[str, object]:
        """For whoever runs it: nothing while all is well."""
        return {} if self.doubt is None else {"status": "degraded", "clock": self.doubt}

    def _doubt(self, now: int, distance: int, reached: Callable[[], int | None]) -> str | None:
        if self.terms is not None and reached() is not None:
            heard = [self._heard[key] for key in self.terms.witness_keys if key in self._heard]
            if sum(self._agree(distance, other) for other in heard) >= self.terms.quorum:
                return None
            return "too-few-witnesses-heard" if len(heard) < self.terms.quorum else "witnesses-have-another-time"
        if self._believed is not None:
            return None if self._agree(distance, self._believed) else "it-was-set"
        return "rounds-are-further" if now < (reached() or 0) - self._period_ms else None

    def _agree(self, distance: int, other: int) -> bool:
        return abs(distance - other) <= self._period_ms

    def _change(self, doubt: str | None) -> None:
        before, self.doubt = self.doubt, doubt
        if doubt == before:
            return
        if doubt is None:
            self.log.tell("clock-believed-again")
        else:
            self.log.tell("clock-in-doubt", reason=doubt)
        if before is None and self.on_doubt is not None:
            self.on_doubt()


def clock_check(
    settings: CoordinatorProgramSettings, clock: Clock, steady: Clock, logbook: Logbook | None, log: Log
) -> ClockCheck | None:
    """The check for a driver of this process; None where the clock is steered, because that leaps on purpose."""
    if settings.testing is not None:
        return None
    if logbook is None:
        return ClockCheck(clock, steady, period_s=settings.epochs.period_s, log=log)
    check = ClockCheck(clock, steady, period_s=settings.epochs.period_s, terms=logbook.terms, log=log)
    logbook.on_time = check.hear
    check.on_doubt = logbook.ask_anew
    return check
