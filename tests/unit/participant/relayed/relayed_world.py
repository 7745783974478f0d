"""The small world of devices around an experiment with two relays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from secvm.participant.device import Device
from secvm.participant.relayed.membership import RelayedMembership
from secvm.participant.storage.books import KeptCanary
from secvm.participant.storage.state import DeviceState
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.manifest import RelayedManifest
from secvm_lab.rigs.histories.relayed_history import RelayedHistory, terms_of_relays
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.unit.participant.world import World


def trusting(document: ExperimentDocument, **changes: Any) -> TrustPolicy:
    """A person who has named both relays with their operators and keys."""
    relays = tuple(TrustedRelay(url=one.url, key=one.key, operator=one.operator) for one in document.relays)
    told: dict[str, Any] = {"relays": relays, "without_log": True, "coordinator": "Uni", **changes}
    return TrustPolicy(**told)


class RelayedWorld(World):
    """One device, two relays and a coordinator."""

    def __init__(self, folder: Path, of: ExperimentDocument | None = None) -> None:
        document = of or relayed_document()
        self.history = RelayedHistory(document)
        super().__init__(folder, document)
        self.net.files = self.history.files
        self.net.entry = self.history.take
        self.net.both_terms = terms_of_relays(document)

    def serve(self, of: ExperimentDocument) -> bytes:
        return self.history.files[f"/v1/experiment/{of.digest}"]

    @property
    def policy(self) -> TrustPolicy:
        return trusting(self.of)

    @property
    def member(self) -> RelayedMembership:
        """Of the device that was started last."""
        found = self.started[-1].memberships[self.of.digest]
        assert isinstance(found, RelayedMembership)
        return found

    @property
    def state(self) -> DeviceState:
        """Of the same device."""
        return self.started[-1].state

    def announce_relayed(self) -> RelayedManifest:
        return self.history.announce()

    def play_round(self, device: Device, **ending: Any) -> SealedRound:
        """A round from its announcement until its opening is there and the device had time to look."""
        manifest = self.history.announce()
        self.drive(device, until=manifest.instants.mix_by)
        return self.finish(device, manifest, **ending)

    def leave_canary_out(self, device: Device) -> KeptCanary:
        """A round whose mixing relay leaves the device's canary out."""
        manifest = self.history.announce()
        self.drive(device, until=manifest.instants.mix_by)
        (kept,) = device.state.relayed.canaries(self.of.digest)
        assert self.member.canaries == 1
        self.finish(device, manifest, mix_leaves_out=frozenset({kept.canary.inner_digest}))
        return kept

    def live(self, rounds: int = 1, **changes: Any) -> None:
        """A device joins, and takes part in so many rounds."""
        device = self.joined(**changes)
        for _ in range(rounds):
            self.play_round(device)
        # The last opening, and the look at the last canary, have random moments.
        self.drive(device, until=self.clock.now() + 3_600_000)

    def finish(self, device: Device, manifest: RelayedManifest, **ending: Any) -> SealedRound:
        played = self.history.conclude(**ending)
        # The next manifest would open at open_by: what is looked for is looked for before.
        self.drive(device, until=manifest.instants.open_by - 10_000)
        return played
