"""A small world for the tests of devices: a coordinator that publishes, a network in memory, a clock that is moved."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, OpenedRequest, encode_key_configurations
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.package import Package
from secvm.participant.consent.policies import Consent
from secvm.participant.device import Device
from secvm.participant.sending.transport import Transport
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.canonical import digest_of
from secvm.protocol.codec import ExperimentId, decode
from secvm.protocol.documents.ending import Why, make_ending
from secvm.protocol.documents.experiment import ExperimentDocument, Relay, publish
from secvm.protocol.documents.manifest import LastRound, RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.documents.recomputation import first_model
from secvm.protocol.plain.sealed_requests import package_in
from secvm.testing.clock import ManualClock
from secvm.testing.transport import Fate, MemoryTransport
from tests.unit.protocol.helpers import COORDINATOR, LENGTH_S, RELAY, START, document, opening, tally

BUDGET = 8
EXPERIMENT = Experiment(n_bins=20, labels=("a", "b"), rule=Pegasos(), budget=BUDGET)
#: A feature and a label that nothing may ever show.
SECRET = "xylophonesecret"
FEATURES = {SECRET: 1, "tree": 2, "house": 1, "river": 1}
#: So few people hide nobody; what a device agrees to by itself is the subject of test_consent and test_ledger.
ANYTHING = Consent.unsafe_accept_anything()
RELAYS = tuple(Relay(url=f"https://relay{i}.example/r", key=RELAY.public) for i in range(3))
#: In a device's settings, which then knows all of them.
RELAY_URLS = [relay.url for relay in RELAYS]


def real_document(**changes: Any) -> ExperimentDocument:
    """An experiment for people; its labels are told by nothing else in this world."""
    return document(**{"experiment": EXPERIMENT, "relays": RELAYS, **changes})


Ask = TypeVar("Ask")


class Crash(BaseException):
    """The device dies here."""


class Points:
    """Counts the moments at which a device may die, and lets it die at one of them."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.passed = 0

    def pass_by(self) -> None:
        self.passed += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Crash


class MortalState(DeviceState):
    """A state whose device may die before and after every commit; and a disk that forgets what was not synced."""

    def __init__(self, folder: Path, points: Points) -> None:
        super().__init__(folder)
        self._points = points
        self.save()

    def save(self) -> None:
        """What would be left after a power cut."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        kept = self.folder.with_name(self.folder.name + " synced")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.folder, kept, ignore=shutil.ignore_patterns("*-shm"))

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[None]:
        self._points.pass_by()
        with super().writing(durable=durable):
            yield
        if durable:
            self.save()
        self._points.pass_by()


class MortalTransport(MemoryTransport):
    """A network on which the device may die before and after each request."""

    def __init__(self, now: Callable[[], int], points: Points) -> None:
        super().__init__(now)
        self._points = points

    @staticmethod
    def _mortal(ask: Ask) -> Ask:
        async def dying(self: MortalTransport, *told: Any, **named: Any) -> Any:
            self._points.pass_by()
            reply = await cast("Any", ask)(self, *told, **named)
            self._points.pass_by()
            return reply

        return cast("Ask", dying)

    send, ask_token = _mortal(MemoryTransport.send), _mortal(MemoryTransport.ask_token)
    submit, fetch = _mortal(MemoryTransport.submit), _mortal(MemoryTransport.fetch)


class World:
    """Everything around one device."""

    def __init__(self, folder: Path, of: ExperimentDocument | None = None, *, now: int = START - 100_000) -> None:
        self.of = of or real_document()
        self.folder = folder / "device"
        self.clock = ManualClock(now)
        self.points = Points()
        self.net = MortalTransport(self.clock.now, self.points)
        #: What devices use; a test may put another in its place.
        self.transport: Transport = self.net
        self.key = GatewayKey(1, X25519PrivateKey(os.urandom(32)))
        self.before: dict[str, RoundManifest] = {}
        self.started: list[Device] = []
        self.serve(self.of)

    # ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, of: ExperimentDocument) -> bytes:
        envelope = publish(of, keys=(COORDINATOR,))
        self.net.files[f"/v1/experiment/{of.digest}"] = envelope
        return envelope

    def publish(self, number: int, of: ExperimentDocument | None = None, **changes: Any) -> RoundManifest:
        of = of or self.of
        model = first_model(of)
        before = self.before.get(of.digest) if number > 1 else None
        last: LastRound | None = None
        if before is not None:
            # Where the relay must count: as many as any guarantee needs.
            count = RelayCount(before.opens_at, clients=10**6, capsules=10**9).signed(RELAY)
            last = last_round(tally(20, 30), relay_count=count if of.experiment.cover is not None else None)
        told: dict[str, Any] = {
            "opens_at": opening(number),
            "model": model.names,
            "gateway_keys": encode_key_configurations([self.key.configuration]),
            "before": before,
            "last": last,
        }
        manifest = make_manifest(of, **{**told, **changes})
        self.before[of.digest] = manifest
        for digest, blob in model.by_name.items():
            self.net.files[f"/v1/blob/{digest}"] = blob
        self.net.files[f"/v1/experiment/{of.digest}/manifest/latest"] = manifest.signed([COORDINATOR])
        return manifest

    def take_part(self, device: Device, number: int = 1, **changes: Any) -> RoundManifest:
        """A round, from its manifest until nobody takes its packages any more."""
        manifest = self.publish(number, **changes)
        self.drive(device, until=manifest.accept_until)
        return manifest

    def end(self, weights: bytes) -> None:
        of = self.of
        ending = make_ending(
            of,
            why=Why.FINISHED,
            model=(first_model(of).names[0], digest_of(weights), digest_of(weights)),
            before=self.before[of.digest],
            last=last_round(tally(20, 30)),
        )
        self.net.files[f"/v1/blob/{digest_of(weights)}"] = weights
        self.net.files[f"/v1/experiment/{of.digest}/ending"] = ending.signed([COORDINATOR])

    @property
    def gateway_keys(self) -> Sequence[GatewayKey]:
        return [self.key]

    def opened(self) -> list[tuple[Package, int, ExperimentId]]:
        """Package, round and experiment of every distinct capsule that left the device."""
        keys, found = GatewayKeys(self.gateway_keys), []
        for capsule in dict.fromkeys(one.capsule for one in self.net.seen):
            opened = keys.open(capsule)
            assert isinstance(opened, OpenedRequest)
            addressed = decode(package_in(opened.request))
            found.append((addressed.package, addressed.round_number, addressed.experiment_id))
        return found

    def distinct(self, number: int = 1) -> int:
        """Distinct capsules of a round that left the device."""
        return Counter(round_number for _, round_number, _ in self.opened())[number]

    # ── the device ───────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, **changes: Any) -> Device:
        """The device of this folder, as its process would begin."""
        told: dict[str, Any] = {
            "policy": self.policy, "consent": ANYTHING, "random_bytes": os.urandom, "only_tests": self.of.test,
            **changes,
        }  # fmt: skip
        device = Device(MortalState(self.folder, self.points), self.transport, now=self.clock.now, **told)
        self.started.append(device)
        return device

    def close(self) -> None:
        """Let go of the files of all devices that were started here."""
        for device in self.started:
            device.state.close()

    @property
    def policy(self) -> TrustPolicy:
        """What the device demands, unless a test says something else."""
        return TrustPolicy(without_log=True)

    def fill(self, *documents: ExperimentDocument, label: str = "b") -> None:
        with Vault(self.folder) as vault:
            vault.put("words", FEATURES)
            for of in documents or (self.of,):
                vault.set_label(of.digest, label)

    def crowd(self, count: int, **shared: Any) -> list[Device]:
        """Devices of so many people, each in a folder of its own, who have joined the experiment."""
        made = []
        for i in range(count):
            folder = self.folder / f"{i}"
            told: dict[str, Any] = {"policy": self.policy, "consent": ANYTHING, "only_tests": self.of.test, **shared}
            device = Device(DeviceState(folder), self.net, now=self.clock.now, random_bytes=os.urandom, **told)
            if device.state.record(self.of.digest) is None:
                with Vault(folder) as vault:
                    vault.put("words", FEATURES)
                    vault.set_label(self.of.digest, "ab"[i % 2])
                    device.join(self.of.digest, self.net.files[f"/v1/experiment/{self.of.digest}"], vault)
            made.append(device)
        return made

    def joined(self, **changes: Any) -> Device:
        """A device that has joined the experiment."""
        self.fill()
        device = self.start(**changes)
        self.join(device)
        return device

    def join(self, device: Device, of: ExperimentDocument | None = None) -> None:
        of = of or self.of
        with Vault(self.folder) as vault:
            device.join(of.digest, self.net.files[f"/v1/experiment/{of.digest}"], vault)

    def cut_power(self, device: Device) -> None:
        """All that was not synced is gone."""
        device.state.close()
        kept = self.folder.with_name(self.folder.name + " synced")
        shutil.rmtree(self.folder)
        shutil.copytree(kept, self.folder)
        self.folder.chmod(0o700)

    def drive(self, device: Device, *, until: int) -> None:
        """Let the device live up to this instant, one moment after the other."""
        asyncio.run(self.driven(device, until=until))

    async def driven(self, device: Device, *, until: int) -> None:
        """The same where an event loop is running."""
        # A host does this every two seconds; before every request the device does it by itself.
        device.look()
        while True:
            while jobs := device.wake():
                for job in jobs:
                    await device.carry_out(job)
            following = max(device.wake_at, self.clock.now() + 1)
            if following >= until:
                self.clock.advance(max(0, until - self.clock.now()))
                return
            self.clock.advance(following - self.clock.now())

    async def survived(self, device: Device, deaths: list[tuple[int, bool]], *, until: int, **changes: Any) -> Device:
        """The same with a device that is started again, with these ``changes``, whenever it dies. ``deaths``: at which
        moment from now on, and whether the power is cut; the last one comes first.
        """
        while True:
            cut = False
            if deaths and self.points.left is None:
                self.points.left, cut = deaths.pop()
            try:
                await self.driven(device, until=until)
            except Crash:
                if cut:
                    self.cut_power(device)
                else:
                    device.state.close()
                device = self.start(**changes)
            else:
                return device

    def drive_into(self, device: Device, manifest: RoundManifest) -> None:
        """Let the device live until some of its packages are acknowledged, and others still wait.

        Send times are uniform: at half of the window none has left in one of 2^BUDGET rounds. In the first of 256
        pieces of the window in which one leaves, all leave with chance 256^(1 - BUDGET).
        """
        piece = (manifest.closes_at - manifest.opens_at) // 256
        until = max(self.clock.now(), manifest.opens_at)
        while not device.memberships or not device.memberships[self.of.digest].session.progress.acknowledged:
            until += piece
            self.drive(device, until=until)


__all__ = ["BUDGET", "FEATURES", "LENGTH_S", "SECRET", "START", "Crash", "Fate", "World", "real_document"]
