"""ParticipantSession: a device's part in one experiment. Events in, actions out; it does nothing itself.

Its owner hands in every event with the time and dice, **stores** what has changed (``take_changes``: a header and rows
of capsules), and only then carries out the actions: so that after a crash nothing was done that the session does not
know of. The rules (docs/protocol.md §16):

 1. It joins a round only with a manifest that it accepts, received before the window opens, by a clock that seems
    right. Else it abstains, and says why. After an equivocation, or other evidence against the server, it abstains for
    ever: also what was scheduled does not leave any more.
 2. A round has exactly B packages. They are encoded, shuffled and sealed once, when they are ready; from then on the
    session holds capsules, and never makes another one for this round.
 3. Every capsule has its own random time in the window. Those that are overdue after a restart, a pause or late
    computing, and all that are overdue when one of them is by more than ``GRACE_MS`` (sleep), get new times in what is
    left of the window. Sent at once they would be a burst that belongs to one person.
 4. What failed is sent again, the same bytes, after a random time that doubles with each attempt. What was under way
    during a crash is sent again too: the same bytes count once.
 5. Nothing is sent from ``closes_at`` on, nor while paused. What is under way then may be acknowledged until
    ``accept_until``. What was acknowledged is forgotten at once.

``seal`` makes a capsule of a package's bytes for the gateway keys of the manifest. Its dice are its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from secvm.errors import (
    EquivocationError,
    InconsistentManifestError,
    LocalProtocolError,
    RemoteProtocolError,
)
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.manifest import RoundManifest, accept
from secvm.protocol.plain.session_events import (
    Abstain,
    Action,
    Compute,
    Distrusted,
    Event,
    Finished,
    ManifestArrived,
    PackagesReady,
    Reason,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Wait,
)
from secvm.protocol.plain.session_memory import MAX_CAPSULE_BYTES, Phase, SessionMemory, Waiting
from secvm.protocol.schedule import Window, redraw, shuffle, spread


class ParticipantSession(SessionMemory):
    """One device in one experiment."""

    ready = PackagesReady

    def _handle(self, event: Event, now: int, words: Iterator[int]) -> list[Action]:
        match event:
            case ManifestArrived(data, ahead):
                return self._manifest_arrived(data, ahead, now)
            case PackagesReady():
                return self._packages_ready(event, now, words)
            case SendSucceeded(package_id):
                # One that is not there was acknowledged before, or came after the window: no harm.
                self._acknowledged += self._drop(package_id)
            case SendFailed():
                self._send_failed(event, now, words)
            case Distrusted(sentence, evidence):
                return self._distrusted(sentence, evidence)
        return super()._handle(event, now, words)

    # ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _manifest_arrived(self, data: bytes, ahead: int | None, now: int) -> list[Action]:
        if self._phase is Phase.STOPPED:
            why = Reason.EQUIVOCATION if self._evidence else Reason.CHEATING
            return [Abstain(why, why.value, self._evidence)]
        try:
            accepted = accept(data, document=self._document, last=self._accepted)
        except EquivocationError as fault:
            # No package more, also of a round that had begun.
            self._phase, self._evidence = Phase.STOPPED, fault.evidence
            self._lost += len(self._waiting)
            self._drop_all()
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
        closed = None if before is None else before.manifest.closes_at
        reason = self._reason_against(accepted.manifest.window, closed, ahead=ahead, now=now)
        if reason is not None:
            return [*actions, Abstain(reason, reason.value)]
        self._phase, self._acknowledged, self._lost = Phase.COMPUTING, 0, 0
        return [*actions, Compute(accepted.manifest)]

    def _packages_ready(self, ready: PackagesReady, now: int, words: Iterator[int]) -> list[Action]:
        if self._phase is not Phase.COMPUTING or self._accepted is None:
            raise LocalProtocolError("nobody asked for packages, or they are already on their way")
        manifest, document = self._accepted.manifest, self._document
        packages = ready.packages
        if len(packages) != document.budget:
            raise LocalProtocolError(f"a participant sends {document.budget} packages in every round")
        if now >= manifest.closes_at:
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        plaintexts = [
            encode(AddressedPackage(document.experiment_id, manifest.round_number, package)) for package in packages
        ]
        capsules = [self._seal(content, manifest.gateway_keys) for content in shuffle(plaintexts, words)]
        if any(not 0 < len(capsule) <= MAX_CAPSULE_BYTES for capsule in capsules):
            sizes = sorted({len(capsule) for capsule in capsules})
            raise LocalProtocolError(f"capsules of {sizes} bytes; a capsule has 1 to {MAX_CAPSULE_BYTES}")
        times = spread(len(capsules), manifest.window, words)
        for i, (at, capsule) in enumerate(zip(times, capsules, strict=True)):
            self._put(i, Waiting(at=at, attempts=0, under_way=False, capsule=capsule))
        self._phase = Phase.SENDING
        return []

    def _distrusted(self, sentence: str, evidence: bytes | None) -> list[Action]:
        if self._phase is Phase.STOPPED:
            return []
        # Capsules that wait are lost, and forgotten: nothing more leaves.
        finished = [] if self._accepted is None else self._close(self._accepted.manifest)
        if evidence is None:
            return [*finished, Abstain(Reason.DISTRUST, sentence)]
        # Its owner keeps the file: it may be as large as a state and a tally, and a session is written often.
        self._phase = Phase.STOPPED
        return [*finished, Abstain(Reason.CHEATING, sentence, (evidence,))]

    def _restarted(self, now: int) -> list[Action]:
        # Not ``_put``: a row says nothing of what is under way.
        self._waiting = {i: replace(capsule, under_way=False) for i, capsule in self._waiting.items()}
        self._order = sorted((capsule.at, i) for i, capsule in self._waiting.items())
        manifest = None if self._accepted is None else self._accepted.manifest
        if self._phase is Phase.COMPUTING and manifest is not None and now < manifest.closes_at:
            return [Compute(manifest)]
        return []

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send_failed(self, event: SendFailed, now: int, words: Iterator[int]) -> None:
        waiting = self._waiting.get(event.package_id)
        if waiting is None or self._accepted is None:
            return
        closes_at = self._accepted.manifest.closes_at
        earliest = now + max(0, event.retry_after_ms)
        if event.final or earliest >= closes_at:
            self._drop(event.package_id)
            self._lost += 1
            return
        at = self._retry_at(earliest, closes_at, waiting.attempts, words)
        self._put(event.package_id, replace(waiting, at=at, under_way=False))

    def _go_on(self, now: int, words: Iterator[int], *, grace: int) -> list[Action]:
        """What time alone brings about: the end of the window, new times, packages that are due."""
        if self._accepted is None or self._phase not in (Phase.COMPUTING, Phase.SENDING):
            return []
        manifest = self._accepted.manifest
        if self._phase is Phase.COMPUTING:
            if now < manifest.closes_at:
                return [Wait(manifest.closes_at)]
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        if now >= manifest.closes_at:
            self._give_up_resting()
            if self._waiting and now < manifest.accept_until:
                return [Wait(manifest.accept_until)]
        if now >= manifest.closes_at or not self._waiting:
            return self._close(manifest)
        if self._paused:
            return [Wait(manifest.closes_at)]
        actions: list[Action] = []
        for at, package_id in self._due(manifest.window, now, words, grace):
            waiting = self._waiting[package_id]
            self._put(package_id, replace(waiting, attempts=waiting.attempts + 1, under_way=True))
            actions.append(SendPackage(package_id, at, waiting.capsule))
        return [*actions, Wait(min(manifest.closes_at, self._next_time()))]

    def _due(self, window: Window, now: int, words: Iterator[int], grace: int) -> list[tuple[int, int]]:
        """Time and number of what is to be sent now, in this order. If one is too late, all get another time first."""
        due: list[tuple[int, int]] = []
        too_late = self._next_time() + grace < now
        while self._next_time() <= now:
            due.append(heapq.heappop(self._order))
        if not too_late:
            return due
        ready: list[tuple[int, int]] = []
        for package_id in sorted(package_id for _, package_id in due):
            waiting = self._waiting[package_id]
            (at,) = redraw([waiting.at], window, words, now=now)
            self._put(package_id, replace(waiting, at=at))
            if at <= now:
                ready.append((at, package_id))
        return sorted(ready)

    def _give_up_resting(self) -> None:
        """After the window nothing leaves any more; what is under way may still be acknowledged."""
        resting = [package_id for package_id, waiting in self._waiting.items() if not waiting.under_way]
        for package_id in resting:
            self._drop(package_id)
        self._lost += len(resting)

    def _close(self, manifest: RoundManifest) -> list[Action]:
        """The end of a round: what was not acknowledged is lost, and forgotten."""
        finished: list[Action] = []
        if self._phase is Phase.SENDING:
            self._lost += len(self._waiting)
            finished = [Finished(manifest.round_number, self._acknowledged, self._lost)]
        self._drop_all()
        self._phase = Phase.IDLE
        return finished
