"""The stage of attacks on two relays: both of them as they are, with a disk and a memory each, and devices' requests.

Secrets are known to the stage, so that it can be said what an attacker would hold. A part of the cover is drawn and
sealed as relays do it; there is little of it, so that a round takes a tenth of a second.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from secvm.crypto.sealing.layers import BulkSealer
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import RelayedTerms
from secvm.relay.admission import Identity
from secvm.relay.batches.experiments import Experiments, OwnRelay, plan_of
from secvm.relay.batches.ledger import RoundLedger
from secvm.relay.batches.round_custody import RoundCustody, RoundPlan, RoundSecrets
from secvm.relay.entry.intake import IntakeLimits, IntakeVerdict, read_submission
from secvm.relay.entry.rounds import EntryRound
from secvm.relay.mix import MixRound
from secvm.relay.role import drawing
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, ENTRY, MIX, known_bytes, relayed_document
from secvm_lab.rigs.histories.sealed_round import SealedRound

LIMITS = IntakeLimits(quota=1, network_quota=4, submissions=100)
_URL = "https://coordinator.example"


@dataclass
class Machine:
    """One relay's disk and memory."""

    folder: Path
    _open: list[Any] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_process()

    @property
    def disk(self) -> Path:
        """What survives everything."""
        return self.folder / "disk"

    def keeping(self) -> RoundCustody:
        """Where its process keeps things, from now on."""
        self.disk.mkdir(parents=True, exist_ok=True)
        made = RoundCustody(RoundLedger(self.disk / "ledger.db"), RoundSecrets(self.folder / "memory"), self.disk)
        self._open.append(made.ledger)
        return made

    def paper(self, label: bytes, name: str) -> bytes:
        """What it has said of a round; empty: nothing."""
        ledger = RoundLedger(self.disk / "ledger.db")
        try:
            return ledger.paper(label, name) or b""
        finally:
            ledger.close()

    def opened(self, one: Any) -> Any:
        """The same, closed when the process ends."""
        self._open.append(one)
        return one

    def end_process(self) -> None:
        """As a kill does it, and as every try ends."""
        while self._open:
            self._open.pop().close()

    def restored(self, to: Callable[[], object]) -> None:
        """The disk as it was before ``to`` was done, and nothing else."""
        self.end_process()
        copy = shutil.copytree(self.disk, self.folder / "copy")
        to()
        self.end_process()
        shutil.rmtree(self.disk)
        shutil.move(copy, self.disk)

    def everything(self) -> bytes:
        """Every byte that lies on it."""
        return b"".join(file.read_bytes() for file in sorted(self.folder.rglob("*")) if file.is_file())


@dataclass
class Stage:
    """One round of both relays."""

    folder: Path
    told: SealedRound = field(default_factory=SealedRound)

    def __post_init__(self) -> None:
        self.entry_machine, self.mix_machine = Machine(self.folder / "entry"), Machine(self.folder / "mix")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.entry_machine.end_process()
        self.mix_machine.end_process()

    @cached_property
    def plan(self) -> RoundPlan:
        """What both know of the round."""
        return plan_of(self.told.document, self.told.manifest)

    def entry(self, machine: Machine | None = None) -> EntryRound:
        """The entry relay's round, as a new process finds it."""
        machine = machine or self.entry_machine
        keeping = self._with_secret(machine, "entry")
        draw = drawing(self.told.document, self.plan, "entry", BulkSealer())
        made: EntryRound = machine.opened(EntryRound(self.plan, keeping, ENTRY, draw, lambda n: known_bytes("dice", n)))
        return made

    def mix(self, plan: RoundPlan | None = None) -> MixRound:
        """The mixing relay's."""
        used = plan or self.plan
        keeping = self._with_secret(self.mix_machine, "mix")
        draw = drawing(self.told.document, used, "mix", BulkSealer())
        made: MixRound = self.mix_machine.opened(
            MixRound(
                used,
                keeping,
                MIX,
                draw,
                BulkSealer(),
                most_capsules=10_000,
            )
        )
        return made

    def _with_secret(self, machine: Machine, role: str) -> RoundCustody:
        keeping, secret = machine.keeping(), self.told.secret(role).secret
        keeping.secrets.make(self.plan.experiment, self.plan.round_number, lambda count: secret[:count])
        return keeping

    def send(
        self, entry: EntryRound, *devices: int, network: bytes = b"", limits: IntakeLimits = LIMITS
    ) -> list[IntakeVerdict]:
        """These devices' requests, each from an address of its own."""
        group = [
            read_submission(
                Identity(b"client %d" % one, network),
                self.told.submissions[one].body,
                budget=self.plan.budget,
                token_bytes=0,
            )
            for one in devices
        ]
        return entry.take(group, limits, self.plan.instants.opens_at)

    def batch(self, entry: EntryRound) -> tuple[bytes, bytes]:
        """The entry relay's count and batch, once its window has closed."""
        finish(entry, self.plan.instants.accept_until)
        count = entry.count
        return (b"", b"") if count is None else (count, entry.piece(0))

    def mixed(self, mix: MixRound, count: bytes, piece: bytes) -> bytes:
        """The mixing relay's count over this batch."""
        now = self.plan.instants.batch_by
        mix.announce(count, now)
        mix.put(0, piece, now)
        mix.complete(count, now)
        finish(mix, now)
        return mix.count or b""


def finish(one: EntryRound | MixRound, now: int) -> None:
    """All steps that are due."""
    while one.advance(now) is not None:
        pass


def relay_for(
    machine: Machine,
    *,
    seed: str | None = None,
    document: ExperimentDocument | None = None,
    terms: Mapping[str, int] = MappingProxyType({}),
) -> Experiments:
    """An entry relay's book of experiments, which judges documents and manifests; ``terms`` in place of small ones."""
    told = document or relayed_document()
    relay = told.entry_relay
    limits = {"quota": 1, "cells": 100, "packages": 200, "capsules": 1000, "seconds_per_million": 1000, **terms}
    own = RelayedTerms(url=relay.url, operator=relay.operator or "", role="entry", **limits)
    secret = SealedRound(document=told).secret("entry").secret
    return Experiments(machine.keeping(), OwnRelay(own, ENTRY, seed), lambda _: None, lambda count: secret[:count])


def served(experiments: Experiments, document: ExperimentDocument) -> None:
    """Have it serve this document, and bind itself for round 1."""
    experiments.add(document.digest, _URL, publish(document, keys=(COORDINATOR,)))
    experiments.commit(document.digest, 1)


def signed(manifest: RelayedManifest) -> bytes:
    """As the coordinator hands it out."""
    return manifest.signed([COORDINATOR])
