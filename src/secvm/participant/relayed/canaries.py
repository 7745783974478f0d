"""Was my canary handed on? A device looks for the one package of its own that it ever looks for (docs/protocol.md §32).

When the opening of a round is believed for which a receipt is held, the canary gets a random moment. Then two public
files are fetched, the index of the shards and the run of digests into which the canary's falls, and checked under the
root that the mixing relay signed. Three things can come of it:

- it is there: in one round of 64 its shard is counted again, and then everything that was kept of
  the round is forgotten;
- it is not there, and its neighbours show that: **a relay left it out**, and there is a file that shows it to others;
- nothing that verifies came, three times, although other files were served: that is no accident either.

The files are kept for some days only. Whoever comes later looks once, and then no more.

What the device does depends on the canary and on public files alone. It keeps nothing else by which it could find
another capsule of its own: whoever drops packages by what they say learns nothing from it.

**The recount.** Whether a device counts its canary's shard again follows from the canary's own secrets, which are the
operating system's dice: it is drawn once for a round, outlives a restart, and no server can make the device draw again
by not answering. The shard's capsules and its sub-tally are public; every capsule of it is opened with the published
seed, a person's own like all others. What does not come or does not belong together is for ``Canaries`` to count; a
sub-tally that the coordinator signed and that is false is evidence.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from secvm.crypto.signing import Envelope
from secvm.errors import BadProofError, CheatingError, MalformedMessageError, RemoteProtocolError
from secvm.participant.membership import spread_ms
from secvm.participant.sending.transport import MOST_DOCUMENT_BYTES
from secvm.participant.storage.books import RECOUNTED, SEEN, UNCHECKED, KeptCanary
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.missing_canary import examine_canary, missing_canary
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind
from secvm.protocol.plain.session_memory import GRACE_MS, NEVER
from secvm.protocol.relays import shards
from secvm.protocol.relays.counts import MixCount
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.recount import (
    MAX_CAPSULES_BYTES,
    MAX_SHARD_TALLY_BYTES,
    Recount,
    ShardTally,
    WrongCountError,
)
from secvm.protocol.schedule import below

#: So often nothing that verifies may come.
MAX_TRIES = 3
#: So long after ``open_by`` the files must be there, less a day for clocks that differ.
_SURELY_KEPT_MS = (shards.LEAST_DAYS - 1) * shards.DAY_MS
#: Where nobody answers moments are spread wider each time, up to so many times twofold.
_MOST_DOUBLED = 6
_WITHHELD = "for the canary of round {} no shard that verifies can be had, although other files are served"


@dataclass(frozen=True, slots=True)
class CanaryLoss:
    """A canary that is not where it should be."""

    round_number: int
    sentence: str
    #: The file that shows it; None: nothing that was signed does.
    evidence: bytes | None = field(default=None, repr=False)


class _UnansweredError(Exception):
    """Nobody answered."""


class Canaries:
    """The canaries of one experiment."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, envelope: bytes) -> None:
        """``envelope`` is the experiment's, as it was served, for evidence."""
        self._around, self._document, self._envelope = around, document, envelope
        self._book = around.state.relayed
        self._path = f"/v1/experiment/{document.digest}"
        self._spread = spread_ms(document.windows)
        self._moments: dict[int, int] = {}
        #: Looks in a row that nobody answered, and nothing else either.
        self._silent = 0
        #: Askings for manifests that were answered, at the last look in vain.
        self._answered_then = 0

    def plan(self, *, now: int) -> None:
        """Give every canary that can be looked for a moment."""
        kept = self._book.canaries(self._document.digest)
        wanted = {canary.round_number for canary in kept if canary.opening is not None}
        self._moments = {number: at for number, at in self._moments.items() if number in wanted}
        for number in sorted(wanted - set(self._moments)):
            self._draw(number, now)

    @property
    def at(self) -> int:
        """When the next one is looked for."""
        return min(self._moments.values(), default=NEVER)

    async def look(self, now: Now, *, answered: int, ended: bool) -> CanaryLoss | None:
        """Look for the one that is due; ``answered``: askings for manifests that were answered so far; ``ended``: the
        experiment is over.

        Raises
        ------
        CheatingError
            The coordinator signed a count of the canary's shard that is false; with evidence.
        """
        at, number = min((at, number) for number, at in self._moments.items())
        del self._moments[number]
        canaries = self._book.canaries(self._document.digest)
        kept = next((canary for canary in canaries if canary.round_number == number), None)
        if kept is None or kept.opening is None:
            return None
        if at + GRACE_MS < now():
            # This device slept or was paused: asking right after waking would tell when.
            self._draw(number, now())
            return None
        opening = Opening.from_bytes(kept.opening)
        if opening.mix_count is None:
            raise BadProofError(f"the opening of round {number} that is kept has no count of the mixing relay")
        count = MixCount.enclosed(opening.mix_count)
        try:
            runs = await self._runs(kept, count, now)
            holding = [run for run in runs if run.find(kept.canary.inner_digest) is not None]
            if holding and kept.canary.recounts:
                await self._recount(kept, opening, holding[0], now)
        except _UnansweredError:
            return await self._unanswered(kept, now, answered=answered, ended=ended)
        except CheatingError:
            self._done(kept, SEEN)
            raise
        except RemoteProtocolError:
            return self._tried(kept, now())
        self._silent = 0
        if holding:
            self._done(kept, SEEN)
            return None
        return self._missing(kept, runs, opening.mix_count)

    # ── one look ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _runs(self, kept: KeptCanary, count: MixCount, now: Now) -> list[shards.ShardRun]:
        """The run in which the canary stands or would stand, and the one beside it where it takes two to show that."""
        digest, number = kept.canary.inner_digest, kept.round_number
        for run in self._around.checks.runs(count.root):
            # Of another device of this host: between its ends the digest is in it, or nowhere.
            if run.digests[0] <= digest <= run.digests[-1]:
                return [run]
        most = shards.index_bytes(count.capsules)
        index = await self._fetch(f"shards/{number}", most, now)
        shard = shards.shard_of(shards.read_index(index, capsules=count.capsules), digest)
        runs = [await self._run(number, shard, count, now)]
        also = None if runs[0].find(digest) is not None else shards.beside(runs[0], digest)
        if also is not None:
            runs.append(await self._run(number, also, count, now))
        if all(run.find(digest) is None for run in runs) and shards.absence_in(digest, runs) is None:
            raise MalformedMessageError("the index leads to a shard that the canary has no place in")
        return runs

    async def _run(self, number: int, shard: int, count: MixCount, now: Now) -> shards.ShardRun:
        data = await self._fetch(f"shard/{number}/{shard}", shards.MAX_RUN_BYTES, now)
        for known in self._around.checks.runs(count.root):
            # Another device has checked it meanwhile.
            if known.shard == shard:
                return known
        run = shards.read_run(data, shard=shard, capsules=count.capsules)
        run.check(count.root)
        self._around.checks.keep_run(count.root, run)
        return run

    async def _fetch(self, path: str, most: int, now: Now) -> bytes:
        content = await self._around.content(f"{self._path}/{path}", now, most=most)
        if content is None:
            raise _UnansweredError
        return content

    # ── the recount ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _recount(self, kept: KeptCanary, opening: Opening, run: shards.ShardRun, now: Now) -> None:
        """That the coordinator counted this shard, which was checked, as it should.

        Raises
        ------
        CheatingError
            It signed another count, with evidence.
        RemoteProtocolError
            Its files do not belong together; and whatever ``_fetch`` raises.
        """
        checks, name = self._around.checks, (opening.digest, run.shard)
        if not checks.known("recounted", name):
            await self._count_shard(kept, opening, run, now)
            checks.keep("recounted", name, True)
        with self._around.state.writing(durable=False):
            self._around.state.trust.count(self._document.digest, RECOUNTED)

    async def _count_shard(self, kept: KeptCanary, opening: Opening, run: shards.ShardRun, now: Now) -> None:
        of_shard = f"{kept.round_number}/{run.shard}"
        capsules = await self._fetch(f"capsules/{of_shard}", MAX_CAPSULES_BYTES, now)
        tally = ShardTally.from_bytes(await self._fetch(f"tally/{of_shard}", MAX_SHARD_TALLY_BYTES, now))
        manifest = RelayedManifest.from_bytes(kept.manifest)
        recount = Recount.of(self._document, manifest, opening, self._around.sealer)
        try:
            await asyncio.to_thread(recount.check, run, capsules, tally)
        except WrongCountError:
            proof = shards.ShardProof(label=manifest.label, shard=run.shard, path=tally.path, mix_path=run.path)
            documents = (
                await self._signed(f"manifest/{kept.round_number}", kept.manifest, now),
                await self._signed(f"opening/{kept.round_number}", opening.data, now),
            )
            file = RelayedEvidence(
                kind=RelayedKind.WRONG_COUNT,
                experiment=self._envelope,
                documents=documents,
                blobs=(capsules, tally.sub_tally),
                proof=proof,
            ).to_bytes()
            # What does not convince others is not kept as if it did.
            raise CheatingError(examine_relayed(file).sentence.rstrip("."), evidence=file) from None

    async def _signed(self, path: str, payload: bytes, now: Now) -> bytes:
        """The envelope of a document that is believed; a device keeps what is in it alone."""
        envelope = await self._fetch(path, MOST_DOCUMENT_BYTES, now)
        if Envelope.from_bytes(envelope).payload != payload:
            raise BadProofError(f"{path} is not the document that was believed")
        return envelope

    # ── what comes of it ─────────────────────────────────────────────────────────────────────────────────────────────

    def _missing(self, kept: KeptCanary, runs: list[shards.ShardRun], mix_count: bytes) -> CanaryLoss:
        absence = shards.absence_in(kept.canary.inner_digest, runs)
        if absence is None:
            raise BadProofError("a canary is neither in its runs nor absent from them")
        manifest = RelayedManifest.from_bytes(kept.manifest)
        file = missing_canary(
            kept.canary, absence, experiment=self._envelope, manifest=manifest, mix_count=mix_count
        ).to_bytes()
        # What does not convince others is not kept as if it did.
        finding = examine_canary(file)
        return CanaryLoss(kept.round_number, finding.sentence.rstrip("."), file)

    async def _unanswered(self, kept: KeptCanary, now: Now, *, answered: int, ended: bool) -> CanaryLoss | None:
        """Nobody can tell a bad network from this, unless other files come."""
        if now() >= RelayedManifest.from_bytes(kept.manifest).instants.open_by + _SURELY_KEPT_MS:
            # They may be gone, and an honest coordinator looks the same as another.
            self._done(kept, UNCHECKED)
            return None
        if ended:
            # No manifest is asked for any more.
            served = await self._around.fetch(f"{self._path}/ending", now) is not None
        else:
            served = answered > self._answered_then
            self._answered_then = answered
        if served:
            return self._tried(kept, now())
        self._silent = min(self._silent + 1, _MOST_DOUBLED)
        self._draw(kept.round_number, now())
        return None

    def _tried(self, kept: KeptCanary, now: int) -> CanaryLoss | None:
        """Nothing that verifies came."""
        tries, self._silent = kept.tries + 1, 0
        if tries >= MAX_TRIES:
            return CanaryLoss(kept.round_number, _WITHHELD.format(kept.round_number))
        with self._around.state.writing(durable=False):
            self._book.put_tries(self._document.digest, kept.round_number, tries)
        self._draw(kept.round_number, now)
        return None

    def _done(self, kept: KeptCanary, what: str) -> None:
        """It was seen, or it is too late to look for it."""
        with self._around.state.writing(durable=True):
            self._book.drop_canary(self._document.digest, kept.round_number)
            self._around.state.trust.count(self._document.digest, what)

    def _draw(self, number: int, now: int) -> None:
        self._moments[number] = now + below(self._spread << self._silent, self._around.words)
