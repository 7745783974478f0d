"""Rounds of an experiment with two relays: fetched with their openings and net tallies, checked, stored, then believed.

One asking: the news (``protocol.relays.news``), which are the newest manifest and, for a device that is up to date,
all that leads to it. What they lack is fetched one by one: every manifest and every opening between the last one
believed and the newest, and the net tallies that a step was taken from; where its time has come, the opening of the
newest round, and the ending; where there is a log, all of its lines since (``HeldLog``). What is believed then is on
the disk before the device goes on with it (``protocol.trust`` decides). The log may grow meanwhile; then it
begins again, a few times.

An opening that the coordinator does not serve although it serves other files is counted: after three looks from
``open_by`` on the round is unopened for this device.

**The log** (docs/protocol.md §33) is what a device holds these rounds to. The checkpoint comes with the news of a
round, or is fetched last of all, because it is renewed; when enough witnesses have cosigned it, every line that the log
has appended since. The lines of this experiment among them are exactly the documents that were served; those of others,
of either version, are read and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.crypto.signing import Envelope
from secvm.errors import RemoteProtocolError, StaleRoundError
from secvm.participant.membership import RoundNews
from secvm.participant.sending.transport import MOST_DOCUMENT_BYTES
from secvm.participant.storage.books import STEPS
from secvm.participant.trust.fresh_looks import LogGrewError, LogLines, ask_while_log_grows
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import Model
from secvm.protocol.log.entries import Document
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.news import News, news_path
from secvm.protocol.relays.opening import Opening
from secvm.protocol.trust.relayed_chain import Believing, Ended, RelayedChain, RelayedServed
from secvm.protocol.trust.trusted_log import SeenLog, TrustedLog

#: A checkpoint, and all lines since what was seen. **Nothing in it is checked** but the checkpoint's quorum.
FetchedLog = tuple[bytes, tuple[bytes, ...]]


class HeldLog:
    """The log, as this device believes it, for one experiment."""

    def __init__(
        self, around: Surroundings, document: ExperimentDocument, envelope: bytes, chain: RelayedChain
    ) -> None:
        """``envelope``: the experiment's, for evidence. Raises ``BadInputError`` where too few witnesses are known."""
        self._around = around
        self._path = f"/v1/experiment/{document.digest}/checkpoint"
        self.trusted = TrustedLog(
            document,
            envelope,
            policy=around.policy.log_policy,
            checking=around.checks,
            seen=around.state.relayed.log(document.digest) or SeenLog(),
            believed=chain.newest,
        )
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
        checkpoint = news.checkpoint or await self._around.content(self._path, now, most=MAX_NOTE_BYTES)
        if checkpoint is None:
            return None
        # Before anything is fetched for it: a log alone can claim any size.
        self.trusted.check_quorum(checkpoint, now=now(), over=over)
        since = self.trusted.seen_size
        size = since + self.trusted.missing_lines(checkpoint)
        lines = self._around.checks.known("lines", self._name(checkpoint))
        if lines is None:
            lines = news.lines_between(since, size)
        if lines is None:
            lines = await self._lines.fetch(since, size, now)
        return None if lines is None else (checkpoint, lines)

    def _name(self, checkpoint: bytes) -> tuple[object, ...]:
        """Of the lines from what was seen up to this checkpoint: its text says of which log, how long it is, and its
        root; signatures are renewed.
        """
        return checkpoint.partition(b"\n\n")[0], self.trusted.seen_size

    def grow(self, fetched: FetchedLog, served: Sequence[Document]) -> SeenLog:
        """That these documents, in this order, are all that the log has of the experiment since the last; what is seen
        of it then. See ``TrustedLog.grow``.
        """
        checkpoint, lines = fetched
        try:
            seen = self.trusted.grow(checkpoint, lines, served)
        except StaleRoundError as fault:
            raise LogGrewError(str(fault)) from None
        except RemoteProtocolError:
            # What was fetched did not fit.
            self._lines.forget()
            raise
        self._around.checks.keep("lines", self._name(checkpoint), lines)
        return seen

    def believe(self, seen: SeenLog) -> None:
        """From now on this is what was seen. Whoever calls this has stored it before."""
        self.trusted.seen = seen
        self._lines.forget()


#: So often an opening may be missing where other files are served.
MAX_LOOKS = 3


class RelayedRounds:
    """One experiment's rounds, as this device believes them."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, envelope: bytes) -> None:
        #: What the experiment's other parts fetch by too: sealed to what is believed here (docs/protocol.md §27).
        self.around = replace(around, fetch_keys=self._fetch_keys)
        self._document = document
        self._path = f"/v1/experiment/{document.digest}"
        book = around.state.relayed
        self.chain = RelayedChain(
            document, book.trust(document.digest), seen=book.bound(document.digest), checking=around.checks
        )
        #: None: the experiment has none.
        self.log = None if document.log is None else HeldLog(self.around, document, envelope, self.chain)
        #: Told how rounds ended, inside the transaction that stores what is believed now.
        self.settle: Callable[[Sequence[Ended]], None] = lambda _ended: None
        #: The round whose opening was looked for, and how often in vain.
        self._missing = (0, 0)

    async def ask(self, now: Now) -> RoundNews | None:
        """What is new; None where nobody answered.

        Raises
        ------
        InconsistentManifestError
            What the coordinator signed contradicts its experiment, or itself.
        CheatingError
            The log contradicts what the coordinator signed, or itself; with evidence.
        RemoteProtocolError
            It cannot be believed; nothing has changed.
        OverLimitError
            There is more to fetch than may be fetched today.
        """
        return await ask_while_log_grows(self._ask, now)

    async def _ask(self, now: Now) -> RoundNews | None:
        chain = self.chain
        most = MOST_DOCUMENT_BYTES
        if chain.last is not None:
            most += self._document.most_tally_bytes
            self.around.traffic.check(most, now())
        fetched = await self.around.fetch(news_path(self._document.digest, chain.next_round), now, most=most)
        if fetched is None:
            return None
        news = News.from_bytes(fetched.content)
        announced = chain.look(news.manifest)
        served, unopened = await self._gather(announced, news, now)
        if served is None:
            return RoundNews(chain.trust.manifest, fetched.ahead, unopened=unopened)
        if not (served.manifests or served.ending or self._opens(served)):
            return RoundNews(chain.trust.manifest, fetched.ahead, unopened=unopened)
        logged = None if self.log is None else await self.log.fetch(news, now, over=served.ending is not None)
        if self.log is not None and logged is None:
            return None
        believing = chain.check(served)
        # Without a log there is nothing to hold them to.
        seen = None if self.log is None or logged is None else self.log.grow(logged, believing.documents)
        self._keep(believing, served, seen)
        for end in believing.ended:
            name = (self._document.digest, end.opening.digest)
            self.around.checks.keep("opening", name, served.openings[end.opening.round_number])
        return RoundNews(believing.trust.manifest, fetched.ahead, believing.ending, unopened)

    def _fetch_keys(self) -> bytes | None:
        return None if self.chain.last is None else self.chain.last.fetch_keys

    def model(self) -> Model:
        """With which the newest round is computed."""
        model = self.chain.model()
        self.around.shelf.put(model.names[2], model.evaluation)
        return model

    def _opens(self, served: RelayedServed) -> bool:
        last = self.chain.last
        return self.chain.opening is None and last is not None and last.round_number in served.openings

    # ── fetching ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _gather(
        self, announced: RelayedManifest | None, news: News, now: Now
    ) -> tuple[RelayedServed | None, int | None]:
        """All that ``check`` wants, and the round that stays without an opening; None: something could not be had."""
        chain, manifests = self.chain, dict[int, bytes]()
        last = chain.last
        if announced is not None:
            manifests = {announced.round_number: news.manifest}
            for number in range(chain.next_round, announced.round_number):
                self.around.traffic.check(MOST_DOCUMENT_BYTES, now())
                manifest = await self.around.content(f"{self._path}/manifest/{number}", now)
                if manifest is None:
                    return None, None
                manifests[number] = manifest
        rounds = [number for number in manifests if announced is not None and number < announced.round_number]
        due = last is not None and (announced is not None or now() >= last.instants.mix_by)
        if last is not None and chain.opening is None and due:
            rounds.insert(0, last.round_number)
        openings = dict[int, bytes]()
        for number in sorted(rounds):
            opening = await self._opening(number, announced, news, now)
            if opening is None:
                return None, self._missed(number, now())
            openings[number] = opening
        if announced is not None and now() >= announced.instants.mix_by:
            # Whoever was away may find it ended already, and the log with its opening.
            newest = await self.around.content(f"{self._path}/opening/{announced.round_number}", now)
            openings |= {} if newest is None else {announced.round_number: newest}
        ending = await self._ending(announced, openings, now)
        tallies = await self._tallies(openings, news, followed=announced is not None or ending is not None, now=now)
        if tallies is None:
            return None, None
        served = RelayedServed(
            manifests=tuple(manifests[number] for number in sorted(manifests)),
            openings=openings,
            tallies=tallies,
            ending=ending,
        )
        return served, None

    async def _opening(self, number: int, announced: RelayedManifest | None, news: News, now: Now) -> bytes | None:
        """The opening of a round: another device of this host may have fetched the one that the manifest names."""
        known: bytes | None = news.opening if number == self.chain.next_round - 1 else None
        if not known and announced is not None and announced.round_number == number + 1:
            known = self.around.checks.known("opening", (self._document.digest, announced.opening))
        return known or await self.around.content(f"{self._path}/opening/{number}", now)

    async def _ending(self, announced: RelayedManifest | None, openings: dict[int, bytes], now: Now) -> bytes | None:
        newest = announced or self.chain.last
        opened = newest is not None and newest.round_number in openings
        if not opened and (announced is not None or self.chain.opening is None):
            return None
        return await self.around.content(f"{self._path}/ending", now)

    async def _tallies(
        self, openings: dict[int, bytes], news: News, *, followed: bool, now: Now
    ) -> dict[str, bytes] | None:
        """Net tallies from which a step may have been taken; None: one could not be had."""
        around = self.around
        opened = [Opening.from_bytes(Envelope.from_bytes(data).payload) for data in openings.values()]
        if self.chain.opening is not None:
            opened.append(self.chain.opening)
        tallies = dict[str, bytes]()
        # The newest opening's is wanted only when something follows it.
        for digest in [opening.tally for opening in opened if opening.tally is not None and followed]:
            around.checks.keep_tally(digest, news.tally, self._document)
            data = around.checks.tally_at_hand(digest)
            if data is None:
                around.traffic.check(self._document.most_tally_bytes, now())
                data = await around.fetch_tally(digest, self._document, now)
            if data is None:
                return None
            tallies[digest] = data
        return tallies

    def _missed(self, number: int, now: int) -> int | None:
        """An opening that was not served: the round, where that was too often."""
        last = self.chain.last
        if last is None or last.round_number != number or now < last.instants.open_by:
            return None
        looks = 1 + (self._missing[1] if self._missing[0] == number else 0)
        self._missing = (number, looks)
        return number if looks >= MAX_LOOKS else None

    # ── believing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _keep(self, believing: Believing, served: RelayedServed, log: SeenLog | None) -> None:
        """On the disk first; then it is believed."""
        state, digest = self.around.state, self._document.digest
        with state.writing(durable=True):
            state.relayed.put_trust(digest, believing.trust, believing.manifests, log)
            state.trust.count(digest, STEPS, believing.steps)
            self.settle(believing.ended)
            if believing.ending is not None and served.ending is not None:
                state.put_ending(digest, served.ending, believing.ending)
        self.chain.believe(believing)
        if self.log is not None and log is not None:
            self.log.believe(log)
        if believing.ending is not None:
            self.around.shelf.put(believing.model.names[2], believing.model.evaluation)
