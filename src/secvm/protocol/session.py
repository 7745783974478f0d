"""ParticipantSession: a device's part in one experiment. Events in, actions out; it does nothing itself.

Its owner hands in every event with the time and dice, **stores** ``to_bytes()``, and only then carries out the actions:
so that after a crash nothing was done that the session does not know of. The rules (docs/protocol.md §16):

 1. It joins a round only with a manifest that it accepts, received before the window opens, by a clock that seems
    right. Else it abstains, and says why. After an equivocation it abstains for ever, and keeps the evidence.
 2. A round has exactly B packages. They are encoded, shuffled and sealed once, when they are ready; from then on the
    session holds capsules, and never makes another one for this round.
 3. Every capsule has its own random time in the window. One that is overdue by more than ``GRACE_MS`` (sleep, restart,
    pause) gets a new time in what is left of the window.
 4. What failed is sent again, the same bytes, after a random time that doubles with each attempt. What was under way
    during a crash is sent again too: the same bytes count once.
 5. Nothing is sent from ``closes_at`` on, nor while paused. What was acknowledged is forgotten at once.

``seal`` makes a capsule of 32 bytes for the gateway keys of the manifest. Its dice are its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from secvm.errors import (
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    MalformedMessageError,
    RemoteProtocolError,
)
from secvm.learning.package import Package
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents import Fields, base64_text, decode_document, encode_document
from secvm.protocol.events import (
    Abstain,
    Action,
    Compute,
    Declined,
    Event,
    Finished,
    ManifestArrived,
    PackagesReady,
    Paused,
    Reason,
    Restarted,
    Resumed,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from secvm.protocol.experiment_document import MAX_BUDGET, ExperimentDocument
from secvm.protocol.manifest import MAX_MANIFEST_BYTES, AcceptedManifest, RoundManifest, accept
from secvm.protocol.schedule import Window, below, redraw, shuffle, spread
from secvm.protocol.version import SESSION_TYPE

#: A package this late is still sent at once: an owner's timer is never exact. Above, it is drawn anew.
GRACE_MS = 10_000
#: So far may this device's clock be from the server's, or fall back, before it joins nothing.
CLOCK_TOLERANCE_MS = 60_000
#: The first retry comes within this time; the bound doubles up to the second number.
FIRST_BACKOFF_MS = 4_000
LONGEST_BACKOFF_MS = 15 * 60_000
MAX_CAPSULE_BYTES = 2**14
MAX_SESSION_BYTES = 2**28
#: A manifest with its signatures.
MAX_ENVELOPE_BYTES = MAX_MANIFEST_BYTES + 2**12

#: (32 bytes, the manifest's gateway keys) → the capsule to send.
Seal = Callable[[bytes, bytes], bytes]


def unsafe_no_seal(plaintext: bytes, _gateway_keys: bytes) -> bytes:
    """The package in clear, for tests: everybody on the way can read it."""
    return plaintext


# ── the session ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Phase(enum.Enum):
    """Where a device stands in its current round."""

    #: No round, or done with it.
    IDLE = "idle"
    #: Joined; the owner computes.
    COMPUTING = "computing"
    #: There are capsules to send.
    SENDING = "sending"
    #: The server equivocated: never again.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One capsule that was not acknowledged yet."""

    at: int
    attempts: int
    under_way: bool
    capsule: bytes = field(repr=False)


class ParticipantSession:
    """One device in one experiment."""

    def __init__(self, document: ExperimentDocument, *, seal: Seal) -> None:
        self._document = document
        self._seal = seal
        self._phase = Phase.IDLE
        self._paused = False
        #: The latest instant seen, to notice a clock that falls back.
        self._latest = 0
        self._accepted: AcceptedManifest | None = None
        self._evidence: tuple[bytes, ...] = ()
        self._waiting: dict[int, _Waiting] = {}
        self._acknowledged = 0
        self._lost = 0

    @property
    def phase(self) -> Phase:
        """Where the device stands."""
        return self._phase

    @property
    def paused(self) -> bool:
        """Whether the person has paused."""
        return self._paused

    @property
    def evidence(self) -> tuple[bytes, ...]:
        """After an equivocation: both manifests, as they were served."""
        return self._evidence

    @property
    def accepted(self) -> AcceptedManifest | None:
        """The newest manifest that this device believes."""
        return self._accepted

    def receive(self, event: Event, *, now: int, words: Iterator[int]) -> list[Action]:
        """What to do about an event. ``now`` in milliseconds; ``words`` are fresh dice, uniform 64-bit words.

        Raises
        ------
        LocalProtocolError
            The owner told something that cannot be, such as packages nobody asked for. Nothing has changed then.
        """
        if now < 0:
            raise LocalProtocolError("time begins at zero")
        actions: list[Action] = []
        match event:
            case ManifestArrived(data, server_time):
                actions = self._manifest_arrived(data, server_time, now)
            case PackagesReady(packages):
                actions = self._packages_ready(packages, now, words)
            case Declined(why):
                actions = self._declined(why)
            case SendSucceeded(package_id):
                # One that is not there was acknowledged before, or came after the window: no harm.
                self._acknowledged += self._waiting.pop(package_id, None) is not None
            case SendFailed():
                self._send_failed(event, now, words)
            case Paused() | Resumed():
                self._paused = isinstance(event, Paused)
            case Restarted():
                actions = self._restarted(now)
            case Tick():
                pass
        self._latest = max(self._latest, now)
        return [*actions, *self._go_on(now, words)]

    # ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _manifest_arrived(self, data: bytes, server_time: int | None, now: int) -> list[Action]:
        if self._phase is Phase.STOPPED:
            return [Abstain(Reason.EQUIVOCATION, Reason.EQUIVOCATION.value, self._evidence)]
        try:
            accepted = accept(data, document=self._document, last=self._accepted)
        except EquivocationError as fault:
            # No package more, also of a round that had begun.
            self._phase, self._evidence = Phase.STOPPED, fault.evidence
            self._lost += len(self._waiting)
            self._waiting = {}
            return [Abstain(Reason.EQUIVOCATION, str(fault), fault.evidence)]
        except InconsistentManifestError as fault:
            return [Abstain(Reason.BAD_MANIFEST, str(fault), fault.evidence)]
        except RemoteProtocolError as fault:
            # A round that had begun goes on: anybody can send nonsense, and it must not stop others.
            return [Abstain(Reason.BAD_MANIFEST, str(fault))]
        if accepted is self._accepted:
            return []
        before, self._accepted = self._accepted, accepted
        # The round before is over: its tally is in this manifest.
        actions = [] if before is None else self._close(before.manifest)
        reason = self._reason_against(accepted.manifest, before, server_time, now)
        if reason is not None:
            return [*actions, Abstain(reason, reason.value)]
        self._phase, self._acknowledged, self._lost = Phase.COMPUTING, 0, 0
        return [*actions, Compute(accepted.manifest)]

    def _reason_against(
        self, manifest: RoundManifest, before: AcceptedManifest | None, server_time: int | None, now: int
    ) -> Reason | None:
        if self._paused:
            return Reason.PAUSED
        if server_time is not None and abs(server_time - now) > CLOCK_TOLERANCE_MS:
            return Reason.CLOCK
        if server_time is None and now < self._latest - CLOCK_TOLERANCE_MS:
            return Reason.CLOCK
        # The next manifest is signed after the round before has ended. Who has it earlier has a slow clock.
        if before is not None and now < before.manifest.closes_at - CLOCK_TOLERANCE_MS:
            return Reason.CLOCK
        return Reason.LATE if now >= manifest.opens_at else None

    def _packages_ready(self, packages: Sequence[Package], now: int, words: Iterator[int]) -> list[Action]:
        if self._phase is not Phase.COMPUTING or self._accepted is None:
            raise LocalProtocolError("nobody asked for packages, or they are already on their way")
        manifest, document = self._accepted.manifest, self._document
        if len(packages) != document.budget:
            raise LocalProtocolError(f"a participant sends {document.budget} packages in every round")
        if now >= manifest.closes_at:
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        plaintexts = [
            encode(AddressedPackage(document.experiment_id, manifest.round_number, package)) for package in packages
        ]
        capsules = [self._seal(plaintext, manifest.gateway_keys) for plaintext in shuffle(plaintexts, words)]
        if any(not 0 < len(capsule) <= MAX_CAPSULE_BYTES for capsule in capsules):
            raise LocalProtocolError("a capsule has no bytes, or too many")
        times = spread(len(capsules), manifest.window, words)
        self._waiting = {
            i: _Waiting(at=at, attempts=0, under_way=False, capsule=capsule)
            for i, (at, capsule) in enumerate(zip(times, capsules, strict=True))
        }
        self._phase = Phase.SENDING
        return []

    def _declined(self, why: str) -> list[Action]:
        if self._phase is not Phase.COMPUTING:
            raise LocalProtocolError("there is nothing to decline")
        self._phase = Phase.IDLE
        return [Abstain(Reason.DECLINED, why)]

    def _restarted(self, now: int) -> list[Action]:
        self._waiting = {i: replace(one, under_way=False) for i, one in self._waiting.items()}
        manifest = None if self._accepted is None else self._accepted.manifest
        if self._phase is Phase.COMPUTING and manifest is not None and now < manifest.closes_at:
            return [Compute(manifest)]
        return []

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send_failed(self, event: SendFailed, now: int, words: Iterator[int]) -> None:
        one = self._waiting.get(event.package_id)
        if one is None or self._accepted is None:
            return
        closes_at = self._accepted.manifest.closes_at
        earliest = now + max(0, event.retry_after_ms)
        if event.final or earliest >= closes_at:
            del self._waiting[event.package_id]
            self._lost += 1
            return
        patience = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(max(one.attempts - 1, 0), 20))
        at = earliest + below(min(patience, closes_at - earliest), words)
        self._waiting[event.package_id] = replace(one, at=at, under_way=False)

    def _go_on(self, now: int, words: Iterator[int]) -> list[Action]:
        """What time alone brings about: the end of the window, new times, packages that are due."""
        if self._accepted is None or self._phase not in (Phase.COMPUTING, Phase.SENDING):
            return []
        manifest = self._accepted.manifest
        if self._phase is Phase.COMPUTING:
            if now < manifest.closes_at:
                return [Wait(manifest.closes_at)]
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        if now >= manifest.closes_at or not self._waiting:
            return self._close(manifest)
        if self._paused:
            return [Wait(manifest.closes_at)]
        self._redraw_overdue(manifest.window, now, words)
        ready = sorted(
            (one.at, package_id) for package_id, one in self._waiting.items() if not one.under_way and one.at <= now
        )
        actions: list[Action] = []
        for at, package_id in ready:
            one = self._waiting[package_id]
            self._waiting[package_id] = replace(one, attempts=one.attempts + 1, under_way=True)
            actions.append(SendPackage(package_id, at, one.capsule))
        later = [one.at for one in self._waiting.values() if not one.under_way]
        return [*actions, Wait(min([manifest.closes_at, *later]))]

    def _redraw_overdue(self, window: Window, now: int, words: Iterator[int]) -> None:
        resting = [i for i, one in self._waiting.items() if not one.under_way]
        times = redraw([self._waiting[i].at for i in resting], window, words, now=now, grace=GRACE_MS)
        for package_id, at in zip(resting, times, strict=True):
            self._waiting[package_id] = replace(self._waiting[package_id], at=at)

    def _close(self, manifest: RoundManifest) -> list[Action]:
        """The end of a round: what was not acknowledged is lost, and forgotten."""
        finished: list[Action] = []
        if self._phase is Phase.SENDING:
            self._lost += len(self._waiting)
            finished = [Finished(manifest.round_number, self._acknowledged, self._lost)]
        self._waiting, self._phase = {}, Phase.IDLE
        return finished

    # ── between restarts ─────────────────────────────────────────────────────────────────────────────────────────────

    def to_bytes(self) -> bytes:
        """All that the session must remember. With a true seal nothing in it says what the packages are."""
        content: dict[str, Any] = {
            "accepted": None if self._accepted is None else base64_text(self._accepted.envelope),
            "acknowledged": self._acknowledged,
            "evidence": [{"envelope": base64_text(data)} for data in self._evidence],
            "experiment": self._document.digest,
            "latest": self._latest,
            "lost": self._lost,
            "paused": self._paused,
            "phase": self._phase.value,
            "type": SESSION_TYPE,
            "waiting": [
                {
                    "at": one.at,
                    "attempts": one.attempts,
                    "capsule": base64_text(one.capsule),
                    "id": package_id,
                    "under_way": one.under_way,
                }
                for package_id, one in sorted(self._waiting.items())
            ],
        }
        return encode_document(content)

    @classmethod
    def from_bytes(cls, data: bytes, document: ExperimentDocument, *, seal: Seal) -> ParticipantSession:
        """The session that wrote these bytes. Tell it ``Restarted`` first of all."""
        fields = Fields(decode_document(data, max_bytes=MAX_SESSION_BYTES), "the session")
        fields.constant("type", SESSION_TYPE)
        fields.constant("experiment", document.digest)
        session = cls(document, seal=seal)
        if not fields.is_null("accepted"):
            envelope = fields.base64("accepted", longest=MAX_ENVELOPE_BYTES)
            session._accepted = accept(envelope, document=document)
        evidence = fields.inner_list("evidence", longest=2)
        session._evidence = tuple(one.base64("envelope", longest=MAX_ENVELOPE_BYTES) for one in evidence)
        phase = fields.text("phase", longest=20)
        if phase not in {known.value for known in Phase}:
            raise fields.refuse("phase")
        session._phase = Phase(phase)
        session._paused = fields.flag("paused")
        session._latest = fields.integer("latest", 0)
        session._acknowledged = fields.integer("acknowledged", 0, MAX_BUDGET)
        session._lost = fields.integer("lost", 0, MAX_BUDGET)
        for one in fields.inner_list("waiting", longest=MAX_BUDGET):
            session._waiting[one.integer("id", 0, document.budget - 1)] = _Waiting(
                at=one.integer("at", 0),
                attempts=one.integer("attempts", 0),
                under_way=one.flag("under_way"),
                capsule=one.base64("capsule", longest=MAX_CAPSULE_BYTES),
            )
            one.done()
        for rest in (*evidence, fields):
            rest.done()
        session._check_whole(data)
        return session

    def _check_whole(self, data: bytes) -> None:
        """What was read hangs together, and is written as it was read."""
        together = len(self._waiting) + self._acknowledged + self._lost
        sending = self._phase is Phase.SENDING
        if (
            (self._phase in (Phase.COMPUTING, Phase.SENDING) and self._accepted is None)
            or (sending and together != self._document.budget)
            or (self._waiting and not sending)
            or (self._phase is Phase.STOPPED) != (len(self._evidence) == 2)
            or self.to_bytes() != data
        ):
            raise MalformedMessageError("the session's parts do not fit together")
