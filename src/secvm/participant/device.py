"""Device: one person, and all experiments they take part in.

It has no loop of its own. A host asks ``wake_at``, calls ``wake`` when it is time, carries out the jobs that come back,
each with ``carry_out``, and calls ``flush`` now and then. So one loop can carry one device or hundreds, and a test can
carry one by hand.

 1. At most ``parallel_sends`` capsules of a device are under way at once, all experiments together.
 2. Before anything is sent or fetched, it looks whether another process has written its state: a pause holds at once.
 3. Where ``only_tests`` is set (a steered clock), experiments that are none are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from secvm.crypto.sealing.layers import BulkSealer
from secvm.learning.individual.binning import VocabularyBinning
from secvm.participant.consent.policies import Consent
from secvm.participant.dice import DiceFor, RandomBytes, safe_dice, system_words
from secvm.participant.membership import Membership
from secvm.participant.person import decisions
from secvm.participant.plain.membership import PlainMembership
from secvm.participant.relayed.membership import RelayedMembership
from secvm.participant.sending.sealing import gateway_seal
from secvm.participant.sending.transport import Transport
from secvm.participant.storage.books import NOTHING, Accepted
from secvm.participant.storage.state import DeviceState, ExperimentRecord, Status
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.model_files import ModelShelf
from secvm.participant.trust.shared_checks import SharedChecks
from secvm.participant.trust.surroundings import Surroundings, Traffic
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.plain.session_events import SendPackage
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.session import SendRequest

#: About a hundred rounds of a hundred packages.
DAILY_BYTES = 50_000_000
PARALLEL_SENDS = 8
_TAKES_PART = (Status.JOINED, Status.PAUSED)


@dataclass(frozen=True, slots=True)
class Job:
    """Send what is ``due`` in one experiment; or, where nothing is named, fetch or compute for it."""

    membership: Membership[Any]
    due: SendPackage | SendRequest | None = None


class Device:
    """One person's device. ``close`` it."""

    def __init__(
        self,
        state: DeviceState,
        transport: Transport,
        *,
        now: Callable[[], int],
        random_bytes: RandomBytes,
        dice_for: DiceFor | None = None,
        shelf: ModelShelf | None = None,
        checks: SharedChecks | None = None,
        sealer: BulkSealer | None = None,
        policy: TrustPolicy | None = None,
        consent: Consent | None = None,
        daily_bytes: int = DAILY_BYTES,
        parallel_sends: int = PARALLEL_SENDS,
        only_tests: bool = False,
    ) -> None:
        """``daily_bytes``: sent and fetched in a day; ``parallel_sends``: capsules under way at once."""
        self.state = state
        #: All experiments that it takes part in.
        self.memberships: dict[str, Membership[Any]] = {}
        self._now = now
        self._way = decisions.Way(
            transport,
            policy or TrustPolicy(),
            dice_for or safe_dice(random_bytes),
            consent or Consent(),
            only_tests=only_tests,
        )
        self._parallel_sends = parallel_sends
        self._traffic = Traffic(state, daily_bytes=daily_bytes)
        self._around = Surroundings(
            state=state,
            transport=transport,
            shelf=shelf or ModelShelf(state.folder / "models"),
            checks=checks or SharedChecks(),
            traffic=self._traffic,
            policy=self._way.policy,
            consent=self._way.consent,
            words=system_words(random_bytes),
            seal=gateway_seal(random_bytes),
            random_bytes=random_bytes,
            sealer=sealer or BulkSealer(),
        )
        self._under_way = 0
        self._look()

    def __repr__(self) -> str:
        return "Device(...)"

    # ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def join(
        self,
        digest: str,
        envelope: bytes,
        vault: Vault,
        *,
        vocabulary: VocabularyBinning | None = None,
        salt: bytes | None = None,
        accepted: Accepted = NOTHING,
    ) -> None:
        """Take part: the person has agreed to the experiment of this digest (``decisions.join``)."""
        decisions.join(
            self.state, digest, envelope, vault, self._way, vocabulary=vocabulary, salt=salt, accepted=accepted
        )
        self._look()

    @property
    def shut(self) -> str | None:
        """Why nothing leaves this machine, in one sentence; None: it does."""
        return self._around.transport.shut

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before; 0: at once."""
        everything = self.memberships.values()
        if self._under_way < self._parallel_sends and any(membership.outbox for membership in everything):
            return 0
        return min((membership.wake_at for membership in everything), default=NEVER)

    def wake(self) -> list[Job]:
        """What is to be done now. Each job wants ``carry_out``, once."""
        now, jobs = self._now(), list[Job]()
        for membership in self.memberships.values():
            membership.tick(now)
            if membership.takes_work(now):
                jobs.append(Job(membership))
            while self._under_way < self._parallel_sends and (due := membership.next_due(now)) is not None:
                self._under_way += 1
                jobs.append(Job(membership, due))
        return jobs

    async def carry_out(self, job: Job) -> None:
        """Do one job, and tell its session."""
        # It may have stood in a queue; a pause or a window's end holds also then.
        self.look()
        if job.due is None:
            await job.membership.work(self._now)
            return
        try:
            await job.membership.send(job.due, self._now)
        finally:
            self._under_way -= 1

    def look(self) -> None:
        """See what another process has decided: joined, paused, resumed, forgotten."""
        if self.state.changed_elsewhere():
            self._look()

    def flush(self, *, durable: bool = False) -> None:
        """Write what has changed since the last time, in one transaction."""
        unwritten = [membership for membership in self.memberships.values() if membership.unwritten]
        if unwritten or self._traffic.unwritten:
            with self.state.writing(durable=durable):
                for membership in unwritten:
                    membership.write()
                self._traffic.write()

    def close(self) -> None:
        """Write everything, and let go of the files."""
        self.look()
        self.flush(durable=True)
        self.state.close()

    def _look(self) -> None:
        now = self._now()
        records = {record.digest: record for record in self.state.records()}
        for digest, membership in list(self.memberships.items()):
            if records[digest].status in _TAKES_PART:
                membership.set_status(records.pop(digest).status, now)
            else:
                membership.leave()
                del self.memberships[digest]
        for record in records.values():
            if record.status in _TAKES_PART:
                self._take_up(record, now)

    def _take_up(self, record: ExperimentRecord, now: int) -> None:
        document = read_published(record.envelope, digest=record.digest)
        decisions.check_way(document, self._way)
        kind = PlainMembership if document.experiment.cover is None else RelayedMembership
        made = kind(self._around, record, document, self._way.dice_for(document), now=now)
        self.memberships[record.digest] = made
