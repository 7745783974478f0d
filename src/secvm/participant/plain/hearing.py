"""Hearing: what a device asks of a plain experiment, and what it makes of the answers.

It asks for a newer manifest, and while a window is open it looks at the log again (``watching``).
"""

from __future__ import annotations

from secvm.errors import CheatingError, OverLimitError, RemoteProtocolError
from secvm.participant.plain.rounds import News, Rounds
from secvm.participant.plain.turns import Turns
from secvm.participant.plain.watching import Watching
from secvm.participant.trust.polling import Polling
from secvm.participant.trust.surroundings import Now
from secvm.protocol.documents.ending import Ending
from secvm.protocol.plain.session import Phase
from secvm.protocol.plain.session_events import Abstain, Distrusted, ManifestArrived, Reason
from secvm.protocol.plain.session_memory import NEVER


class Hearing:
    """The askings of one experiment, each at a time that says nothing about the device."""

    def __init__(
        self, turns: Turns, rounds: Rounds, watching: Watching | None, *, polling: Polling, ended: bool
    ) -> None:
        """``ended``: the experiment was over before this process."""
        self._turns, self._rounds, self._watching = turns, rounds, watching
        self._polling = polling
        self.ended = ended
        self._poll_at = NEVER

    @property
    def asks(self) -> bool:
        """Whether anything at all is fetched."""
        session = self._turns.session
        return not (self._turns.left or self.ended or session.paused or session.phase is Phase.STOPPED)

    @property
    def at(self) -> int:
        """When something is to be asked next."""
        return min(NEVER if self.ended else self._poll_at, self._look_at)

    @property
    def _look_at(self) -> int:
        return NEVER if self._watching is None else self._watching.refetch_at()

    def begin(self, now: int) -> None:
        """Ask at a time after now; of a round that is known, after its end."""
        accepted = self._turns.session.accepted
        self._poll_at = self._polling.first(now) if accepted is None else self._polling.after(accepted.manifest, now)

    def begin_at_once(self, now: int) -> None:
        """The same where no round runs: there may be something new."""
        self._poll_at = self._polling.first(now)

    async def ask(self, now: Now) -> None:
        """Whatever is due: look at the log, or ask for a newer manifest."""
        if self._watching is None or self._look_at > now():
            await self._poll(now)
            return
        seen = await self._watching.refetch(now)
        if isinstance(seen, Distrusted):
            self._turns.tell(seen, now())
        elif seen is not None:
            self._turns.note(seen)

    async def _poll(self, now: Now) -> None:
        before = self._turns.session.accepted
        try:
            news = await self._rounds.ask(now)
        except CheatingError as fault:
            self._turns.tell(Distrusted(str(fault), fault.evidence), now())
            return
        except (RemoteProtocolError, OverLimitError) as fault:
            # Nothing has changed: it is asked again, and no round is joined meanwhile.
            ours = isinstance(fault, OverLimitError)
            self._turns.note(Abstain(Reason.DECLINED if ours else Reason.BAD_MANIFEST, str(fault)))
            self._poll_at = self._polling.again(now())
            return
        if not self.asks:
            # Whoever is paused meanwhile has heard the ending all the same: it is believed once, and not a second time.
            if news is not None and news.ending is not None and not self._turns.left:
                self._end(news.ending)
            return
        if news is None:
            self._poll_at = self._polling.failed(now())
            return
        if news.manifest is not None:
            self._turns.tell(ManifestArrived(news.manifest, news.ahead), now())
        if self._watching is not None:
            self._watching.believed()
        await self._go_on(news, before is not self._turns.session.accepted, now)

    async def _go_on(self, news: News, new: bool, now: Now) -> None:
        """After an asking that was answered: when the next is, and whether it is the last."""
        accepted, ending = self._turns.session.accepted, news.ending
        if new and accepted is not None and ending is None:
            self._poll_at = self._polling.after(accepted.manifest, now())
            return
        self._poll_at = self._polling.again(now())
        if ending is None and accepted is not None and now() >= accepted.manifest.accept_until:
            ending = await self._rounds.ask_for_ending(accepted, now)
        if ending is not None:
            self._end(ending)

    def _end(self, ending: Ending) -> None:
        self.ended = True
        self._turns.hold(ending.evaluation_weights)
