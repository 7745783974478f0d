"""The small world of devices around a coordinator that has a log and witnesses, and publishes all that goes with it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from secvm.crypto.sealing.oblivious import GatewayKey
from secvm.participant.device import Device
from secvm.participant.trust.trust_policy import TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm_lab.rigs.histories.public_history import LEAD_S, PublicHistory
from tests.unit.participant.world import EXPERIMENT, World

#: From the end of a round on, the next manifest is there.
LEAD_MS = 1000 * LEAD_S


class LoggedWorld(World):
    """One device, and the public history of its experiment."""

    def __init__(self, folder: Path, seed: object = 0, *, relays: int = 1, **changes: Any) -> None:
        told: dict[str, Any] = {"experiment": EXPERIMENT, "beacons": 0, **changes}
        self.history = PublicHistory.drawn(random.Random(f"{seed}"), witnesses=3, relays=relays, **told)
        super().__init__(folder, self.history.document, now=self.history.now)
        self.net.files = self.history.files

    def serve(self, of: ExperimentDocument) -> bytes:
        return self.history.files[f"/v1/experiment/{of.digest}"]

    @property
    def policy(self) -> TrustPolicy:
        return TrustPolicy()

    @property
    def gateway_keys(self) -> Sequence[GatewayKey]:
        return self.history.gateway_keys

    @property
    def next_opening(self) -> int:
        return self.history.opening(len(self.history.manifests) + 1)

    def announce(self, **changes: Any) -> RoundManifest:
        """The next round, as soon as the one before is over."""
        self.clock.advance(max(0, self.next_opening - LEAD_MS - self.clock.now()))
        return self.history.announce(self.clock.now(), **changes)

    def take_part(self, device: Device, number: int = 0, **changes: Any) -> RoundManifest:
        manifest = self.announce(**changes)
        self.drive(device, until=manifest.accept_until)
        return manifest

    def conclude(self, *, abandoned: bool = False) -> None:
        """Count the round."""
        self.history.conclude(None if abandoned else self.history.draw_tally())

    def play(self, device: Device, rounds: int = 1) -> None:
        """Whole rounds in which the device takes part."""
        for _ in range(rounds):
            self.take_part(device)
            self.conclude()

    def asked(self, part: str) -> list[int]:
        """When paths with this part were fetched."""
        return [at for path, at in self.net.fetches if part in path]


__all__ = ["LEAD_MS", "LoggedWorld"]
