"""Where a device's rounds come from: out of a log, checked step by step, or on a server's word alone.

Both are asked the same three things: what is new, whether it is over, and with which weights a round is computed.
Rounds out of a log are fetched with all that shows them, checked, stored, and only then believed. One asking
(docs/protocol.md §22; ``protocol.trust`` decides):

 1. the newest manifest; what it says of itself tells what else is needed,
 2. every manifest between the last one believed and it, and every tally that they name: a newcomer from round 1 on,
 3. where its window is over, the ending, if there is one,
 4. the newest checkpoint, last of all, because it is renewed; and when enough witnesses have cosigned it, the lines
    that the log has appended since the device has seen it, those of other experiments as well,
 5. all of it checked: one model after the other computed here. No weights are fetched.
 6. what is believed now is on the disk; then the device goes on with it.

The log may grow while this goes on; then it begins again, a few times. What was fetched is kept in memory until the
next asking, so that a newcomer with a bad network comes on; when something in it does not fit, all of it goes. Nobody
catches up beyond the person's limit of traffic for a day: the rest comes tomorrow.

**What this tells.** Each fetch is sealed and goes through a relay. But whoever answers may see from which round on a
burst of them asks: that somebody was away so long, or is new. It does not see who.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from secvm.crypto.notes import MAX_NOTE_BYTES
from secvm.crypto.signing import Envelope
from secvm.errors import RemoteProtocolError, SecVMError, StaleRoundError
from secvm.learning.weights import Weights
from secvm.participant.membership import RoundNews
from secvm.participant.sending.transport import MOST_DOCUMENT_BYTES, OVERHEAD_BYTES
from secvm.participant.storage.books import STEPS
from secvm.participant.trust.fresh_looks import LogGrewError, LogLines, ask_while_log_grows
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.ending import Ending, accept_ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import AcceptedManifest, RoundManifest
from secvm.protocol.documents.recomputation import Model
from secvm.protocol.trust.trusted_rounds import Checked, Served, Trusted, TrustedRounds, tallies_named


class Rounds(ABC):
    """One experiment's rounds."""

    def __init__(self, around: Surroundings, document: ExperimentDocument) -> None:
        self._around, self._document = around, document
        self._path = f"/v1/experiment/{document.digest}"

    @abstractmethod
    async def ask(self, now: Now) -> RoundNews | None:
        """The newest manifest that may be told to the session; None where nobody answered.

        Raises
        ------
        CheatingError
            What was served convicts the server.
        RemoteProtocolError
            It cannot be believed; nothing has changed.
        OverLimitError
            There is more to fetch than may be fetched today.
        """

    async def ask_for_ending(self, last: AcceptedManifest, now: Now) -> Ending | None:  # noqa: ARG002
        """Whether it is over, where ``ask`` has not told that already."""
        return None

    @abstractmethod
    async def weights(self, manifest: RoundManifest, now: Now) -> tuple[Weights, Weights] | None:
        """For training and for evaluation; None where they cannot be had now."""


class UnloggedRounds(Rounds):
    """Without a log: what the server signs is taken, and nobody can tell whether others are told the same."""

    async def ask(self, now: Now) -> RoundNews | None:
        fetched = await self._around.fetch(f"{self._path}/manifest/latest", now)
        return None if fetched is None else RoundNews(fetched.content, fetched.ahead)

    async def ask_for_ending(self, last: AcceptedManifest, now: Now) -> Ending | None:
        around = self._around
        served = await around.content(f"{self._path}/ending", now)
        if served is None:
            return None
        try:
            ending = accept_ending(served, document=self._document, last=last)
            weights = await self._fetch_weights(ending.evaluation_weights, now)
        except SecVMError:
            # Not one to believe, or its weights are none: rounds may still come.
            return None
        if weights is None:
            return None
        with around.state.writing(durable=True):
            around.state.put_ending(self._document.digest, served, ending)
        return ending

    async def weights(self, manifest: RoundManifest, now: Now) -> tuple[Weights, Weights] | None:
        training = await self._fetch_weights(manifest.training_weights, now)
        evaluation = await self._fetch_weights(manifest.evaluation_weights, now)
        if training is None or evaluation is None:
            return None
        self._around.traffic.add(4 * training.mantissas.size * 2 + 2 * OVERHEAD_BYTES, now())
        return training, evaluation

    async def _fetch_weights(self, digest: str, now: Now) -> Weights | None:
        # Another experiment of this device may have a log, whose keys hold for every fetch.
        around = self._around
        keys = around.gateway_keys(now())
        return await around.shelf.weights(digest, self._document, around.transport, gateway_keys=keys)


#: More steps than this are played again in a thread of their own: capsules of other experiments are due meanwhile.
_FEW_STEPS = 8


class LoggedRounds(Rounds):
    """One experiment's rounds, as this device believes them."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, envelope: bytes) -> None:
        super().__init__(around, document)
        parts = around.state.trust.trusted(document.digest)
        self.trusted = TrustedRounds(
            document,
            envelope,
            None if parts is None else Trusted.from_parts(*parts),
            policy=around.policy.log_policy,
            checking=around.checks,
        )
        self._seal_fetches()
        #: What an asking that did not come to its end has fetched.
        self._manifests: dict[int, bytes] = {}
        self._tallies: dict[str, bytes] = {}
        self._lines = LogLines(around)

    async def ask(self, now: Now) -> RoundNews | None:
        return await ask_while_log_grows(self._ask, now, give_up=self._forget_fetched)

    async def _ask(self, now: Now) -> RoundNews | None:
        fetched = await self._around.fetch(f"{self._path}/manifest/latest", now)
        if fetched is None and self.trusted.last is None:
            # Nobody answers, there is no round yet, or there never will be one.
            return await self._ask_without_rounds(now)
        if fetched is None:
            return None
        announced = self.trusted.look(fetched.content)
        last = self.trusted.last
        newest = announced or (None if last is None else last.manifest)
        ending = None
        if newest is not None and now() >= newest.accept_until:
            ending = await self._around.content(f"{self._path}/ending", now)
        if announced is None and ending is None:
            return RoundNews(fetched.content, fetched.ahead)
        checked = await self._believe(announced, fetched.content, ending, now)
        return None if checked is None else RoundNews(fetched.content, fetched.ahead, checked.ending)

    async def _ask_without_rounds(self, now: Now) -> RoundNews | None:
        """Whether it was over before its first round."""
        served = await self._around.fetch(f"{self._path}/ending", now)
        if served is None:
            return None
        checked = await self._believe(None, b"", served.content, now)
        return None if checked is None else RoundNews(None, served.ahead, checked.ending)

    async def _believe(
        self, announced: RoundManifest | None, envelope: bytes, ending: bytes | None, now: Now
    ) -> Checked | None:
        """Fetch what shows it, check it, and keep it; None where something could not be had."""
        try:
            served = await self._gather(announced, envelope, ending, now)
            if served is None:
                return None
            checked = await self._check(served, now)
        except StaleRoundError as fault:
            raise LogGrewError(str(fault)) from None
        except RemoteProtocolError:
            self._forget_fetched()
            raise
        self._keep(checked, served)
        return checked

    def believes(self, manifest: RoundManifest) -> bool:
        """Whether this manifest was believed: it is the newest of them, or an older one."""
        last = self.trusted.last
        if last is None or last.manifest.round_number < manifest.round_number:
            return False
        return last.manifest.round_number > manifest.round_number or last.manifest.digest == manifest.digest

    async def weights(self, manifest: RoundManifest, now: Now) -> tuple[Weights, Weights] | None:  # noqa: ARG002
        # Computed here, from the state that is believed.
        last = self.trusted.last
        if last is None or last.manifest.digest != manifest.digest:
            raise StaleRoundError("the round to be computed is not the newest one that is believed")
        model = self.trusted.model()
        self._shelve(model)
        return model.training, model.evaluation

    # ── fetching ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _gather(
        self, announced: RoundManifest | None, envelope: bytes, ending: bytes | None, now: Now
    ) -> Served | None:
        """All that ``check`` wants; None where something could not be had."""
        around, first, documents = self._around, self.trusted.next_round, list[RoundManifest | Ending]()

        async def fetch_manifest(number: int) -> bytes | None:
            return await around.content(f"{self._path}/manifest/{number}", now)

        async def fetch_tally(digest: str) -> bytes | None:
            return await around.fetch_tally(digest, self._document, now)

        if announced is not None:
            before, most = range(first, announced.round_number), MOST_DOCUMENT_BYTES
            if not await around.fetch_missing(self._manifests, before, fetch_manifest, most=most, now=now, unasked=0):
                return None
            self._manifests[announced.round_number] = envelope
            numbers = range(first, announced.round_number + 1)
            documents += [RoundManifest.from_bytes(_payload(self._manifests[number])) for number in numbers]
        manifests = tuple(self._manifests[number] for number in range(first, first + len(documents)))
        if ending is not None:
            documents.append(Ending.from_bytes(_payload(ending)))
        wanted, most = tallies_named(documents), self._document.most_tally_bytes
        if not await around.fetch_missing(self._tallies, wanted, fetch_tally, most=most, now=now):
            return None
        checkpoint = await around.content(f"{self._path}/checkpoint", now, most=MAX_NOTE_BYTES)
        if checkpoint is None:
            return None
        # Before anything is fetched for it: a log alone can claim any size.
        log = self.trusted.log
        log.check_quorum(checkpoint, now=now(), over=ending is not None)
        lines = await self._lines.fetch(log.seen_size, log.seen_size + log.missing_lines(checkpoint), now)
        if lines is None:
            return None
        tallies = {digest: self._tallies[digest] for digest in wanted}
        return Served(manifests=manifests, checkpoint=checkpoint, lines=lines, tallies=tallies, ending=ending)

    def _forget_fetched(self) -> None:
        self._manifests, self._tallies = {}, {}
        self._lines.forget()

    # ── believing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _check(self, served: Served, now: Now) -> Checked:
        if len(served.tallies) <= _FEW_STEPS:
            return self.trusted.check(served, now=now())
        return await asyncio.to_thread(self.trusted.check, served, now=now())

    def _keep(self, checked: Checked, served: Served) -> None:
        """On the disk first; then it is believed."""
        state, digest = self._around.state, self._document.digest
        kept = checked.trusted
        with state.writing(durable=True):
            state.trust.put_trusted(digest, kept.to_bytes(), kept.state)
            state.trust.count(digest, STEPS, checked.steps)
            if checked.ending is not None and served.ending is not None:
                state.put_ending(digest, served.ending, checked.ending)
        self.trusted.believe(checked)
        self._seal_fetches()
        self._forget_fetched()
        if checked.ending is not None:
            self._shelve(checked.model)

    def _seal_fetches(self) -> None:
        """From now on fetches are sealed to what is believed."""
        if self.trusted.last is not None:
            self._around.believed[self._document.digest] = self.trusted.last.manifest

    def _shelve(self, model: Model) -> None:
        self._around.shelf.put(model.names[2], model.evaluation)


def _payload(envelope: bytes) -> bytes:
    return Envelope.from_bytes(envelope).payload
