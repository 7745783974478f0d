"""The coordinator's log, to which a device holds the rounds of an experiment with two relays (docs/protocol.md §33).

The checkpoint comes with the news of a round, or is fetched last of all, because it is renewed; when enough witnesses
have cosigned it, every line that the log has appended since. The lines of this experiment among them are exactly the
documents that were served; those of others, of either version, are read and passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.participant.trust.log_lines import LogLines
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.entries import Document
from secvm.protocol.relays.news import News
from secvm.protocol.trust.relayed_chain import RelayedChain
from secvm.protocol.trust.trusted_log import SeenLog, TrustedLog


@dataclass(frozen=True, slots=True)
class FetchedLog:
    """A checkpoint, and all lines since what was seen. **Nothing in it is checked** but the checkpoint's quorum."""

    checkpoint: bytes
    lines: tuple[bytes, ...] = field(repr=False)


class HeldLog:
    """The log, as this device believes it, for one experiment."""

    def __init__(
        self, around: Surroundings, document: ExperimentDocument, envelope: bytes, chain: RelayedChain
    ) -> None:
        """``envelope``: the experiment's, for evidence. Raises ``BadInputError`` where too few witnesses are known."""
        self._around, self._chain = around, chain
        self._path = f"/v1/experiment/{document.digest}/checkpoint"
        self._log = TrustedLog.of(document, envelope, policy=around.policy.log_policy, checking=around.checks)
        self.seen = around.state.relayed.log(document.digest) or SeenLog()
        self._lines = LogLines(around)

    # ── believing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def fetch(self, news: News, now: Now, *, over: bool) -> FetchedLog | None:
        """The log as it is now, from ``news`` as far as it is there; None where something could not be had. ``over``:
        an ending is to be shown.

        Raises
        ------
        CheatingError
            The log was forked; with evidence.
        RemoteProtocolError
            It is no checkpoint of this log, or too few witnesses have cosigned it lately.
        OverLimitError
            There is more to fetch than may be fetched today.
        """
        checkpoint = news.checkpoint
        if not checkpoint:
            fetched = await self._around.fetch(self._path, now, most=MAX_NOTE_BYTES)
            if fetched is None:
                return None
            checkpoint = fetched.content
        # Before anything is fetched for it: a log alone can claim any size.
        self._log.check_quorum(self.seen, checkpoint, now=now(), over=over)
        since, size = self.seen_size, self.seen_size + self.missing_lines(checkpoint)
        lines = self._around.checks.known("lines", self._name(checkpoint))
        if lines is None:
            lines = news.lines_between(since, size)
        if lines is None:
            lines = await self._lines.fetch(since, size, now)
        return None if lines is None else FetchedLog(checkpoint, lines)

    def _name(self, checkpoint: bytes) -> tuple[object, ...]:
        """Of the lines from what was seen up to this checkpoint: its text says of which log, how long it is, and its
        root; signatures are renewed.
        """
        return checkpoint.partition(b"\n\n")[0], self.seen_size

    def grow(self, fetched: FetchedLog, served: Sequence[Document]) -> SeenLog:
        """What is seen of the log then; see ``TrustedLog.grow``."""
        found = self._log.grow(self.seen, fetched.checkpoint, fetched.lines, served, believed=self._chain.newest())
        self._around.checks.keep("lines", self._name(fetched.checkpoint), fetched.lines)
        return found

    def believe(self, seen: SeenLog) -> None:
        """From now on this is what was seen. Whoever calls this has stored it before."""
        self.seen = seen
        self.forget()

    def forget(self) -> None:
        """What was fetched did not fit, or is not needed any more."""
        self._lines.forget()

    # ── fresh looks ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def seen_size(self) -> int:
        """So many lines were read."""
        return self.seen.frontier.size

    def missing_lines(self, checkpoint: bytes) -> int:
        """See ``TrustedLog.missing``."""
        return self._log.missing(self.seen, checkpoint)

    def compare(self, checkpoint: bytes, lines: Sequence[bytes]) -> None:
        """See ``TrustedLog.compare``."""
        self._log.compare(self.seen, checkpoint, lines, believed=self._chain.newest())
