"""A device counts the shard of its canary again, in one round of 64 (docs/protocol.md §32).

Whether it does follows from the canary's own secrets, which are the operating system's dice: it is drawn once for a
round, outlives a restart, and no server can make the device draw again by not answering. The shard's capsules and its
sub-tally are public; every capsule of it is opened with the published seed, a person's own like all others. What does
not come or does not belong together is for whoever looks (``canaries``) to count; a sub-tally that the coordinator
signed and that is false is evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from secvm.crypto.signing import Envelope
from secvm.errors import BadProofError, CheatingError
from secvm.participant.sending.transport import MOST_DOCUMENT_BYTES
from secvm.participant.storage.relayed_book import KeptCanary
from secvm.participant.storage.trust_book import RECOUNTED
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.evidence.examination import examine_relayed
from secvm.protocol.evidence.relayed import RelayedEvidence, RelayedKind
from secvm.protocol.relays.counting.recount import (
    MAX_CAPSULES_BYTES,
    MAX_SHARD_TALLY_BYTES,
    Recount,
    ShardTally,
    WrongCountError,
)
from secvm.protocol.relays.counting.shard_runs import ShardRun
from secvm.protocol.relays.counting.shards import ShardProof
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening

#: A path below the experiment, and the most bytes that are taken from there.
Fetch = Callable[[str, int, Now], Awaitable[bytes]]


class Recounting:
    """Counts shards of one experiment again."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, envelope: bytes, fetch: Fetch) -> None:
        """``envelope`` is the experiment's, for evidence."""
        self._around, self._document, self._envelope, self._fetch = around, document, envelope, fetch

    async def check(self, kept: KeptCanary, opening: Opening, run: ShardRun, now: Now) -> None:
        """That the coordinator counted this shard, which was checked, as it should.

        Raises
        ------
        CheatingError
            It signed another count, with evidence.
        RemoteProtocolError
            Its files do not belong together; and whatever ``fetch`` raises.
        """
        checks, name = self._around.checks, (opening.digest, run.shard)
        if not checks.known("recounted", name):
            await self._count(kept, opening, run, now)
            checks.keep("recounted", name, True)
        with self._around.state.writing(durable=False):
            self._around.state.trust.count(self._document.digest, RECOUNTED)

    async def _count(self, kept: KeptCanary, opening: Opening, run: ShardRun, now: Now) -> None:
        of_shard = f"{kept.round_number}/{run.shard}"
        capsules = await self._fetch(f"capsules/{of_shard}", MAX_CAPSULES_BYTES, now)
        tally = ShardTally.from_bytes(await self._fetch(f"tally/{of_shard}", MAX_SHARD_TALLY_BYTES, now))
        manifest = RelayedManifest.from_bytes(kept.manifest)
        recount = Recount.of(self._document, manifest, opening, self._around.sealer)
        try:
            await asyncio.to_thread(recount.check, run, capsules, tally)
        except WrongCountError:
            proof = ShardProof(label=manifest.label, shard=run.shard, path=tally.path, mix_path=run.path)
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
