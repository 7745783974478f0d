"""Experiments: which documents a relay serves, its one commitment for each round, and the one label of each round.

A document is served if its coordinator signed it, if it names this relay by role, URL, operator and key, if it keeps
within the relay's terms, and if its cover is worth what it says. A manifest is a round's if it is the first one, if it
stands in the coordinator's log, where the experiment has one, and if both relays' commitments in it are signed by them:
ours are the very bytes that we gave. ``CoordinatorFollower`` asks coordinators for both.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from secvm.crypto.sealing.kem import RandomBytes
from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.crypto.signing import Envelope, SigningKey
from secvm.errors import InconsistentManifestError, RemoteProtocolError, SecVMError
from secvm.privacy.accounting.guarantee import guarantee
from secvm.privacy.accounting.relay_cover import contribution_of, relay_mechanism
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.relays.commitments import (
    SEED_BYTES,
    EntryCommitment,
    MixCommitment,
    RoundSecret,
    entry_commitment,
    mix_commitment,
)
from secvm.protocol.relays.manifest import RelayedManifest, read_manifest
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.relays.submission import token_bytes
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import RoundCustody, RoundPlan
from secvm.relay.refusals import RelayRefusalError
from secvm.runtime.http.messages import HttpResponse
from secvm.runtime.logs import Log

_MILLION = 10**6

#: Raises ``RefusedError`` where a document's cover is worth less than it says.
Worth = Callable[[ExperimentDocument], None]


@dataclass(frozen=True, slots=True)
class OwnRelay:
    """Who we are."""

    terms: RelayedTerms
    key: SigningKey
    #: Of a relay for tests: its cover can be foretold, and it serves nothing else than tests.
    seed: str | None = None


def check_document(document: ExperimentDocument, own: OwnRelay, worth: Worth) -> None:
    """Whether we serve this experiment, or raise ``RelayRefusalError`` that says why not."""
    terms = own.terms
    cover = document.experiment.cover
    if cover is None:
        raise _refused("the experiment has no cover of two relays")
    ours = document.entry_relay if terms.role == "entry" else document.mix_relay
    if (ours.url, ours.operator, ours.key) != (terms.url, terms.operator, own.key.public):
        raise _refused(f"the experiment's {terms.role} relay is another one, by URL, operator or key")
    if own.seed is not None and not document.test:
        raise _refused("a relay with seeded dice serves experiments that are marked as a test, and no others")
    cells = sum(noise.cells for noise in cover.kinds)
    #: What must at least fit: one submission and the cover.
    least = document.budget + cover.packages
    for what, asked, most in (
        ("cells", cells, terms.cells),
        ("cover packages", cover.packages, terms.packages),
        ("capsules", least, terms.capsules),
    ):
        if asked > most:
            raise _refused(f"the experiment has {asked} {what}, and {most} are the limit of our terms")
    times = document.relay_times
    seconds, work = (times.batch_s, 1) if terms.role == "entry" else (times.mix_s, 2)
    if seconds * _MILLION < terms.seconds_per_million * work * cover.packages:
        raise _refused(f"{seconds} seconds are too few for {work * cover.packages} packages, by our terms")
    worth(document)


def _refused(why: str) -> RelayRefusalError:
    return RelayRefusalError(why, why="refused")


def plan_of(document: ExperimentDocument, manifest: RelayedManifest) -> RoundPlan:
    """All that a relay needs of them; both were checked."""
    return RoundPlan(
        label=manifest.label,
        experiment=document.digest,
        round_number=manifest.round_number,
        instants=manifest.instants,
        budget=document.budget,
        packages=document.relay_cover.packages,
        parts=document.relay_cover.parts,
        token_bytes=token_bytes(document),
        count_key=manifest.count_key,
        entry_key=document.entry_relay.key,
        mix_key=document.mix_relay.key,
        entry_commitment=manifest.entry_commitment,
        mix_commitment=manifest.mix_commitment,
    )


class Experiments:
    """The experiments of one relay."""

    def __init__(self, keeping: RoundCustody, own: OwnRelay, worth: Worth, dice: RandomBytes) -> None:
        self._keeping = keeping
        self._ledger = keeping.ledger
        self._own = own
        self._worth = worth
        self._dice = dice
        #: Document and coordinator's URL, by digest.
        self._served: dict[str, tuple[ExperimentDocument, str]] = {}
        for digest, coordinator, envelope in self._ledger.experiments():
            document = read_published(envelope, digest=digest)
            # Terms may have changed since; one that is not served any more stays in the ledger.
            if own.seed is None or document.test:
                self._served[digest] = document, coordinator

    def document(self, digest: str) -> ExperimentDocument | None:
        """An experiment that is served."""
        served = self._served.get(digest)
        return None if served is None else served[0]

    def coordinator(self, digest: str) -> str:
        """The URL of the coordinator it came from."""
        return self._served[digest][1]

    def add(self, digest: str, coordinator: str, envelope: bytes) -> ExperimentDocument:
        """Serve the experiment of this digest. Raises ``RemoteProtocolError``."""
        document = read_published(envelope, digest=digest)
        check_document(document, self._own, self._worth)
        self._ledger.keep_experiment(digest, coordinator, envelope)
        self._served[digest] = document, coordinator
        return document

    def commit(self, digest: str, round_number: int) -> bytes:
        """Our one commitment for this round, in its envelope: the same bytes for ever.

        The secret is made before anybody sees what follows from it. Where it is gone, the commitment stays what it was:
        the round will be unopened, and the experiment goes on with the next.
        """
        document = self.document(digest)
        if document is None:
            raise RelayRefusalError("this experiment is not served here", why="unknown")
        if not 1 <= round_number <= document.rounds:
            raise RelayRefusalError(f"the experiment has {document.rounds} rounds, not {round_number}", why="garbage")
        known = self._ledger.commitment(digest, round_number)
        if known is not None:
            return known
        secret = self._keeping.secrets.make(digest, round_number, self._dice_of(round_number))
        if len(secret) != SEED_BYTES:
            # The disk has forgotten a round that was handed on.
            raise RelayRefusalError("this round was served before", why="stale")
        drawn, parts = RoundSecret(secret), document.relay_cover.parts
        statement: EntryCommitment | MixCommitment
        if self._own.terms.role == "entry":
            statement = entry_commitment(
                drawn, experiment=digest, round_number=round_number, parts=parts, tokens=document.tokens
            )
        else:
            statement = mix_commitment(drawn, experiment=digest, round_number=round_number, parts=parts)
        return self._ledger.keep_commitment(digest, round_number, statement.signed(self._own.key))

    def _dice_of(self, round_number: int) -> RandomBytes:
        seed = self._own.seed
        if seed is None:
            return self._dice
        return lambda _count: seeded_round_secret(seed, self._own.terms.role, round_number)

    def name(self, digest: str, envelope: bytes, proof: bytes | None = None) -> RoundPlan:
        """The round of a manifest, if it is the first one of its round and all in it holds. ``proof``: its proof file,
        where the experiment has a log.

        Raises
        ------
        RemoteProtocolError
            It is none, or against its document, not in the log, another came before, or the commitment in it is not
            ours.
        """
        document = self.document(digest)
        if document is None:
            raise RelayRefusalError("this experiment is not served here", why="unknown")
        try:
            manifest = read_manifest(envelope, document, self._before(document, envelope))
        except InconsistentManifestError as fault:
            raise RelayRefusalError(f"the manifest contradicts its experiment: {fault}", why="refused") from None
        if document.log is not None:
            # Who is shown a manifest that devices do not see is shown a line that they see. A quorum is theirs to ask.
            LogProof.from_bytes(proof or b"").check(manifest.log_entry.to_bytes(), log=document.log.log_key)
        ours = manifest.entry if self._own.terms.role == "entry" else manifest.mix
        if ours != self._ledger.commitment(digest, manifest.round_number):
            raise RelayRefusalError("the commitment in the manifest is not the one that we gave", why="refused")
        if not self._ledger.keep_label(manifest.label, digest, manifest.round_number, manifest.bound, envelope):
            raise RelayRefusalError("another manifest of this round, or of these keys, came before", why="conflict")
        return plan_of(document, manifest)

    def _before(self, document: ExperimentDocument, envelope: bytes) -> RelayedManifest | None:
        """The manifest of the round before that of this one, as far as we have taken one."""
        round_number = RelayedManifest.from_bytes(Envelope.from_bytes(envelope).payload).round_number
        known = [
            RelayedManifest.from_bytes(Envelope.from_bytes(taken).payload)
            for _, digest, number, taken in self._ledger.labels()
            if digest == document.digest and number < round_number
        ]
        return max(known, key=lambda manifest: manifest.round_number, default=None)

    def plans(self) -> list[RoundPlan]:
        """All rounds that have a label."""
        taken = [(self.document(digest), envelope) for _, digest, _, envelope in self._ledger.labels()]
        return [plan_of(document, read_manifest(envelope, document)) for document, envelope in taken if document]


#: Of an ε: documents are planned with the same accountant, on another machine.
_ROUNDING = 1e-9


def check_worth(document: ExperimentDocument) -> None:
    """Raise ``RelayRefusalError`` where ε of one honest relay's cover, over all rounds, is above the document's."""
    terms = document.privacy
    if not isinstance(terms, PrivacyTarget):
        raise RelayRefusalError("the experiment has no cover of two relays", why="refused")
    hashes = document.binning.hashes
    contribution = contribution_of(document.experiment, rounds=document.rounds, hashes=hashes)
    epsilon = guarantee(relay_mechanism(contribution, document.relay_cover), float(terms.delta)).epsilon
    claimed = float(terms.epsilon)
    if not epsilon <= claimed * (1 + _ROUNDING):
        raise RelayRefusalError(
            f"the cover gives ε = {epsilon:.6g}, and the document says {claimed:.6g}: plan it with more noise",
            why="refused",
        )


#: Gets what is at a URL; also that nobody answers is an answer.
Get = Callable[[str], Awaitable[HttpResponse]]


@dataclass(kw_only=True, eq=False, repr=False)
class CoordinatorFollower:
    """Follows coordinators: documents when a commitment is asked for, manifests when they are there (§27).

    A relay asks only the coordinators of its own settings, and only for what they asked it to commit to: never at an
    address that a device or a document names.
    """

    experiments: Experiments
    ledger: RoundLedger
    get: Get
    #: Told of every round that has a label now.
    named: Callable[[RoundPlan], None]
    log: Log
    #: Between two looks for manifests.
    poll_s: float
    _asked: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _refused: set[tuple[str, int, bytes, bytes | None]] = field(default_factory=set, init=False)
    _commits_in_turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def commit(self, coordinator: str, experiment: str, round_number: int) -> bytes:
        """Our commitment; the document is fetched first, where it is not known.

        Raises
        ------
        RemoteProtocolError
            The coordinator has no such document, or it is not served.
        """
        async with self._commits_in_turn:
            if self.experiments.document(experiment) is None:
                answer = await self.get(f"{coordinator}/v2/experiment/{experiment}")
                if answer.status != 200:
                    raise RelayRefusalError("the coordinator does not show the experiment", why="try-later")
                await asyncio.to_thread(self.experiments.add, experiment, coordinator, answer.body)
                self.log.tell("experiment", state="served", experiment=experiment)
            if self.experiments.coordinator(experiment) != coordinator:
                raise RelayRefusalError("this experiment is another coordinator's", why="conflict")
            commitment = await asyncio.to_thread(self.experiments.commit, experiment, round_number)
        self.log.tell("step", stage="committed", round=round_number)
        self._asked.set()
        return commitment

    async def run(self) -> None:
        """Look for the manifests of rounds that we committed to, until cancelled."""
        while True:
            self._asked.clear()
            waiting = self.ledger.unnamed()
            for experiment, round_number in waiting:
                await self._look(experiment, round_number)
            if waiting:
                # The machine's time: it is the network that is waited for.
                await asyncio.sleep(self.poll_s)
            else:
                await self._asked.wait()

    async def _look(self, experiment: str, round_number: int) -> None:
        document = self.experiments.document(experiment)
        if document is None:
            return
        place = f"{self.experiments.coordinator(experiment)}/v2/experiment/{experiment}"
        manifest, proof = await self.get(f"{place}/manifest/{round_number}"), None
        if manifest.status == 200 and document.log is not None:
            shown = await self.get(f"{place}/proof/{round_number}")
            proof = shown.body if shown.status == 200 else None
        known = (experiment, round_number, manifest.body, proof)
        if manifest.status != 200 or known in self._refused:
            return
        try:
            plan = await asyncio.to_thread(self.experiments.name, experiment, manifest.body, proof)
        except RemoteProtocolError:
            self._refused.add(known)
            self.log.tell("manifest", state="refused", experiment=experiment, round=round_number)
        except (SecVMError, sqlite3.Error):
            self.log.tell("manifest", state="failed", experiment=experiment, round=round_number)
        else:
            self.log.tell("step", stage="named", round=round_number)
            self.named(plan)
