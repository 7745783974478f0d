"""Devices in experiments with two relays that are lied to: Python's, in a folder, and the browser's, in node.

Both have the liar's network in memory and a clock that is moved, and are asked the same: to join, to live up to an
instant, and what the person is told. Evidence must convince without the device, whoever wrote it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import subprocess
from pathlib import Path
from typing import Any, Protocol

from secvm.auditor.explanation import explain
from secvm.errors import LocalProtocolError, SecVMError
from secvm.participant.consent.policies import Consent
from secvm.participant.device import Device
from secvm.participant.person.pinning import fetch_salt
from secvm.participant.storage.state import DeviceState
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.protocol.canonical import base64_text
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.plain.session_events import Reason
from secvm.testing.clock import ManualClock
from secvm.testing.transport import MemoryTransport
from secvm_lab.node import link_packages, node
from secvm_lab.rigs.lies.about_shards import Scene as CountScene
from secvm_lab.rigs.lies.about_shards import seen_by_device

#: What the person has; nothing of it may ever be seen.
FEATURES = ("tree", "house", "river", "xylophone")
#: A device that has ended expects nothing more of the server.
ENDED = "ended"
_EXTENSION = Path(__file__).parents[5] / "extension"


class Listener(Protocol):
    """One device of one person."""

    def join(self, seed: int) -> str | None:
        """Take part; or the name of the error that the person is told."""
        ...

    def drive(self, until: int) -> None:
        """Let it live up to this instant."""
        ...

    def noticed(self) -> str | None:
        """What it noticed, in a word or two; None: nothing."""
        ...

    def close(self) -> None:
        """Let go of its files."""
        ...


def _noticed(
    evidence: list[bytes], distrust: str | None, reasons: list[str], *, unanswered: int, ended: bool
) -> str | None:
    if evidence:
        return f"evidence: {explain(evidence[0]).kind}"
    if distrust is not None:
        return "distrusted"
    # Who comes late takes the next round: no reason to doubt anybody.
    noted = [reason for reason in reasons if reason != Reason.LATE.name]
    return noted[-1] if noted else "unanswered" if unanswered else ENDED if ended else None


class PythonListener:
    """Python's device: a state folder, and all that a process has around it."""

    def __init__(self, net: MemoryTransport, clock: ManualClock, document: ExperimentDocument, folder: Path) -> None:
        self.net, self.clock, self.document = net, clock, document
        self._folder = folder
        self._device: Device | None = None

    def join(self, seed: int) -> str | None:
        relays = tuple(TrustedRelay(url=one.url, key=one.key, operator=one.operator) for one in self.document.relays)
        policy = TrustPolicy(relays=relays, unsafe_beacons=True, coordinator="Uni")
        dice = random.Random(seed)  # noqa: S311  (a trial can be had again)
        state = DeviceState(self._folder, unsafe_unsynced=True)
        self._device = Device(
            state,
            self.net,
            now=self.clock.now,
            random_bytes=dice.randbytes,
            policy=policy,
            consent=Consent.unsafe_accept_anything(),
            only_tests=self.document.test,
        )
        return asyncio.run(self._join(policy))

    async def _join(self, policy: TrustPolicy) -> str | None:
        assert self._device is not None
        digest = self.document.digest
        try:
            envelope = self.net.files[f"/v1/experiment/{digest}"]
            document = read_published(envelope, digest=digest)
            policy.check(document)
            salt = await fetch_salt(document, self.net, policy, now=self.clock.now())
            with Vault(self._folder) as vault:
                vault.put("words", dict.fromkeys(FEATURES, 1))
                vault.set_label(digest, document.experiment.labels[0])
                self._device.join(digest, envelope, vault, salt=salt)
        except SecVMError as fault:
            return type(fault).__name__
        return None

    def drive(self, until: int) -> None:
        asyncio.run(self._drive(until))

    async def _drive(self, until: int) -> None:
        device, clock = self._device, self.clock
        assert device is not None
        device.look()
        while True:
            while jobs := device.wake():
                for job in jobs:
                    await device.carry_out(job)
            following = max(device.wake_at, clock.now() + 1)
            if following >= until:
                clock.advance(max(0, until - clock.now()))
                return
            clock.advance(following - clock.now())

    def noticed(self) -> str | None:
        device, digest = self._device, self.document.digest
        assert device is not None
        device.flush()
        state, member = device.state, device.memberships[digest]
        return _noticed(
            state.evidence(digest),
            state.trust.distrust(digest),
            [reason for _, reason, _ in state.abstentions(digest)],
            unanswered=member.unanswered,
            ended=member.ended,
        )

    def close(self) -> None:
        if self._device is not None:
            self._device.close()


class BrowserListener:
    """The browser's device, in a node process that many share one after the other."""

    def __init__(
        self, net: MemoryTransport, clock: ManualClock, document: ExperimentDocument, told: NodeProcess
    ) -> None:
        self.net, self.clock, self.document = net, clock, document
        self._node = told

    def join(self, seed: int) -> str | None:
        relays = [{"url": one.url, "key": one.key.data.hex(), "operator": one.operator} for one in self.document.relays]
        about: dict[str, Any] = {"relays": relays, "features": FEATURES, "label": self.document.experiment.labels[0]}
        about |= {"digest": self.document.digest, "seed": str(seed), "now": self.clock.now()}
        refused: str | None = self._told("join", **about).get("refused")
        return refused

    def drive(self, until: int) -> None:
        self._told("drive", now=self.clock.now(), until=until)
        self.clock.advance(max(0, until - self.clock.now()))

    def noticed(self) -> str | None:
        told = self._told("told")
        evidence = [base64.b64decode(data) for data in told.pop("evidence")]
        return _noticed(evidence, told.pop("distrust"), told.pop("reasons"), **told)

    def close(self) -> None:
        """The next one takes its place in the process."""

    def _told(self, command: str, **about: Any) -> Any:
        return self._node.tell({"do": command, **about}, self._answer)

    def _answer(self, asked: dict[str, Any]) -> bytes | None:
        self.clock.advance(max(0, asked["now"] - self.clock.now()))
        if asked["ask"] == "terms":
            terms = self.net.both_terms.get(asked["url"])
            return None if terms is None else terms.to_bytes()
        return asyncio.run(self._ask(asked))

    async def _ask(self, asked: dict[str, Any]) -> bytes | None:
        if asked["ask"] == "fetch":
            fetched = await self.net.fetch(asked["path"], most=asked["most"])
            return None if fetched is None else fetched.content
        body, label = base64.b64decode(asked["body"]), bytes.fromhex(asked["label"])
        return (await self.net.submit(body, label, self.document.entry_relay)).content


class NodeProcess:
    """A node process with the browser's code (``extension/test/rigs/listener.ts``), told one thing after the other."""

    def __init__(self) -> None:
        link_packages(_EXTENSION)
        self._process = subprocess.Popen(  # noqa: S603  (our own program)
            [node(), "test/rigs/listener.ts"],
            cwd=_EXTENSION,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def tell(self, told: dict[str, Any], answer: Any = None) -> Any:
        """What comes of it; meanwhile ``answer`` has the bytes that it asks for."""
        self._write(told)
        while True:
            said = self._read()
            if "done" in said:
                return said["done"]
            content = answer(said)
            self._write({"id": said["id"], "content": None if content is None else base64_text(content)})

    def recount(self, scene: CountScene) -> str:
        """What the browser's device sees of a lie about a count: ``seen_by_device``."""
        made = scene.round
        files = [scene.files.get(scene.path(name)) for name in ("shard", "capsules", "tally")]
        shown = {
            "document": made.document.data,
            "manifest": made.manifest.to_bytes(),
            "opening": scene.opening.to_bytes(),
        }
        told: dict[str, Any] = {name: base64_text(data) for name, data in shown.items()}
        told["files"] = [None if data is None else base64_text(data) for data in files]
        seen: str = self.tell({"do": "recount", "shard": scene.shard, **told})
        return seen

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _write(self, told: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(told)}\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, complaints = self._process.communicate()
            raise LocalProtocolError(f"node has ended: {complaints[-5000:]}")
        said: dict[str, Any] = json.loads(line)
        return said


class Devices(Protocol):
    """Whose devices are lied to."""

    def listener(
        self, net: MemoryTransport, clock: ManualClock, document: ExperimentDocument, folder: Path
    ) -> Listener:
        """A new one, of somebody who has not joined yet."""
        ...

    def recount(self, scene: CountScene) -> str:
        """What such a device sees of a lie about a count."""
        ...

    def close(self) -> None:
        """No more are wanted."""
        ...


class PythonDevices:
    """``secvm.participant``."""

    def listener(
        self, net: MemoryTransport, clock: ManualClock, document: ExperimentDocument, folder: Path
    ) -> Listener:
        return PythonListener(net, clock, document, folder)

    def recount(self, scene: CountScene) -> str:
        return seen_by_device(scene)

    def close(self) -> None:
        """Nothing to let go of."""


class BrowserDevices:
    """``extension``."""

    def __init__(self) -> None:
        self.node = NodeProcess()

    def listener(
        self, net: MemoryTransport, clock: ManualClock, document: ExperimentDocument, folder: Path
    ) -> Listener:
        del folder
        return BrowserListener(net, clock, document, self.node)

    def recount(self, scene: CountScene) -> str:
        return self.node.recount(scene)

    def close(self) -> None:
        self.node.close()
