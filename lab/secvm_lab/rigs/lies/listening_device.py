"""A device as people have it, that is lied to: a state folder, a network in memory, a clock that is moved.

``live`` lets it live through a lie up to the end of the window, and tells whether a capsule left after the lie and what
the person is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.signing import Envelope
from secvm.errors import SecVMError
from secvm.participant.consent.policies import Consent
from secvm.participant.device import Device
from secvm.participant.person.pinning import fetch_salt
from secvm.participant.sending.transport import Fetched
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import read_published
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.evidence.plain import examine
from secvm.protocol.plain.session_events import Reason
from secvm.testing.clock import ManualClock
from secvm.testing.transport import MemoryTransport
from secvm_lab.rigs.lies.liar import Scene, Told

#: What the person has; nothing of it may ever be seen.
_FEATURES = {"tree": 2, "house": 1, "river": 1, "xylophone": 3}
_A_WHILE_MS = 1_200_000
_POLICY = TrustPolicy(unsafe_beacons=True)


@dataclass(frozen=True, slots=True)
class Lived:
    """What became of a device."""

    #: What caught the lie; None: it noticed nothing.
    caught_by: str | None
    #: Capsules that left it after the lie was told.
    sent: int
    #: Whether it ended up with exactly the round that everybody has.
    no_effect: bool = False


class _Refetching(MemoryTransport):
    """Shows another checkpoint to whoever looks again."""

    def __init__(self, clock: ManualClock, path: str, checkpoint: bytes) -> None:
        super().__init__(clock.now)
        self._path, self._checkpoint = path, checkpoint
        self.lied_at: int | None = None

    async def fetch(self, path: str, *, most: int = 2**30, gateway_keys: bytes | None = None) -> Fetched | None:
        if path != self._path:
            return await super().fetch(path, most=most, gateway_keys=gateway_keys)
        self.lied_at = self.now() if self.lied_at is None else self.lied_at
        return Fetched(self._checkpoint, self.now())


class DeviceInFolder:
    """One real device."""

    def __init__(self, folder: Path, scene: Scene, told: Told) -> None:
        history = told.stage or scene.history
        self.digest = told.joined or history.document.digest
        self.clock = ManualClock(told.now)
        self.net = MemoryTransport(self.clock.now)
        if told.refetched is not None:
            self.net = _Refetching(self.clock, f"{history.place}/checkpoint", told.refetched)
        self.net.files = dict(told.files)
        self._scene, self._envelope, self._honest = scene, history.envelope, history.files
        self._folder = folder
        self.device = self._start(DeviceState(folder, unsafe_unsynced=True))

    def _start(self, state: DeviceState) -> Device:
        return Device(
            state,
            self.net,
            now=self.clock.now,
            random_bytes=self._scene.dice.randbytes,
            policy=_POLICY,
            consent=Consent.unsafe_accept_anything(),
            only_tests=read_published(self._envelope).test,
        )

    async def join(self) -> None:
        """Take part. Raises what the person would be told."""
        scene, digest, state = self._scene, self.digest, self.device.state
        if scene.kept is None:
            envelope, net = self.net.files[f"/v1/experiment/{digest}"], self.net
        else:
            # It has joined long ago, when all was honest.
            envelope, net = self._envelope, MemoryTransport(self.clock.now)
            net.files = self._honest
        document = read_published(envelope, digest=digest)
        salt = await fetch_salt(document, net, _POLICY, now=self.clock.now())
        with Vault(self._folder) as vault:
            vault.put("words", _FEATURES)
            vault.set_label(digest, document.experiment.labels[0])
            self.device.join(digest, envelope, vault, salt=salt)
        if scene.kept is not None:
            with state.writing(durable=False):
                state.trust.put_trusted(digest, scene.kept.to_bytes(), scene.kept.state)
            self.device = self._start(state)

    async def drive(self, until: int) -> None:
        """Let it live up to this instant, one moment after the other."""
        device, clock = self.device, self.clock
        while True:
            while jobs := device.wake():
                for job in jobs:
                    await device.carry_out(job)
            following = max(device.wake_at, clock.now() + 1)
            if following >= until:
                clock.advance(max(0, until - clock.now()))
                return
            clock.advance(following - clock.now())

    def reason(self) -> str | None:
        """What it noticed, in a word or two. Evidence must convince without the device."""
        device, digest = self.device, self.digest
        device.flush()
        state = device.state
        for data in state.evidence(digest):
            return f"evidence: {examine(data).kind.value}"
        if state.trust.distrust(digest) is not None:
            return "distrusted"
        # Who comes late takes the next round: no reason to doubt anybody.
        noted = [reason for _, reason, _ in state.abstentions(digest) if reason != Reason.LATE.name]
        return noted[-1] if noted else "unanswered" if device.memberships[digest].unanswered else None


async def live(scene: Scene, told: Told, folder: Path) -> Lived:
    """A device that is told a lie, or the truth."""
    one = DeviceInFolder(folder, scene, told)
    try:
        await one.join()
    except SecVMError as fault:
        one.device.close()
        return Lived(type(fault).__name__, 0)
    newest = _newest(told.files, one.digest)
    # Long enough to have asked, also where no window is to come.
    enough = told.now + _A_WHILE_MS
    await one.drive(enough if newest is None else max(newest.accept_until, enough))
    caught_by = one.reason()
    lied_at = one.net.lied_at if isinstance(one.net, _Refetching) else told.now
    sent = sum(lied_at is None or seen.at > lied_at for seen in one.net.seen)
    accepted = one.device.memberships[one.digest].session.accepted
    same = told.honest is not None and accepted is not None and accepted.manifest.digest == told.honest.digest
    one.device.close()
    return Lived(caught_by, sent, no_effect=same and caught_by is None)


def lied_to(scene: Scene, told: Told, folder: Path) -> Lived:
    """``live``, for those without a loop."""
    return asyncio.run(live(scene, told, folder))


def _newest(files: Mapping[str, bytes], digest: str) -> RoundManifest | None:
    latest = files.get(f"/v1/experiment/{digest}/manifest/latest")
    return None if latest is None else RoundManifest.from_bytes(Envelope.from_bytes(latest).payload)
