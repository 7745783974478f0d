"""An honest history of an experiment with two relays, as public files: rounds that are opened, lost, late or too small.

Kills and losses are what they leave in public. A relay whose machine restarts forgets its secret, and nothing comes of
it in that round; a message that is lost is a statement that the opening lacks, and which a relay's own door may have;
a coordinator that is down is an opening that is not there yet.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from secvm.auditor.files import GivenFiles
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import Package, TrainPackage
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.recomputation import Model, after_opened, first_model
from secvm.protocol.log.entries import Entry, experiment_entry
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.opening import Opening, RelayedEnding, Why, clients_of, is_opened
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, START, STATEMENTS, RelayedRound, relayed_document
from secvm_lab.rigs.histories.sealed_round import ROLES, SealedRound
from secvm_lab.rigs.histories.witnessed_log import KnownLog


class KnownHistory:
    """The public files of an experiment with two relays, signed by keys that everybody knows."""

    def __init__(self, document: ExperimentDocument | None = None) -> None:
        self.document = relayed_document() if document is None else document
        #: Of the rounds that are concluded.
        self.openings: list[Opening] = []
        self.model = first_model(self.document)
        self.now = START
        listed = [{"digest": self.document.digest, "standing": "running", "title": self.document.title}]
        self.files = {
            "/v1/experiments": json.dumps({"experiments": listed}).encode(),
            self.place: publish(self.document, keys=(COORDINATOR,)),
        }
        #: In which others of the coordinator's experiments may stand as well. Not read where the document names none.
        self.log = KnownLog()
        self.enter(experiment_entry(self.document.digest))

    @property
    def place(self) -> str:
        """Where the experiment's files are."""
        return f"/v1/experiment/{self.document.digest}"

    def enter(self, entry: Entry) -> None:
        """One more line of the log, where there is one."""
        if self.document.log is not None:
            self.log.enter(self.files, entry)

    def following(self, before: RelayedRound | None) -> dict[str, Any]:
        """What the round after this one is made of."""
        opening = self.openings[-1] if self.openings else None
        manifest = None if before is None else before.manifest
        number = 1 if before is None else before.round_number + 1
        told = {"round_number": number, "before": manifest, "opening_before": opening}
        return {"document": self.document, "model": self.model.names, **told}

    def show_manifest(self, manifest: RelayedManifest) -> None:
        """Under its number and as the latest, and in the log."""
        envelope = manifest.signed([COORDINATOR])
        for name in (str(manifest.round_number), "latest"):
            self.files[f"{self.place}/manifest/{name}"] = envelope
        self.enter(manifest.log_entry)

    def show_opening(self, opening: Opening, of: RelayedRound) -> None:
        """In the log too; what devices step from; and the model that follows."""
        self.openings.append(opening)
        self.files[f"{self.place}/opening/{of.round_number}"] = opening.signed([COORDINATOR])
        self.enter(opening.log_entry)
        if opening.tally is not None:
            self.files[f"/v1/blob/{tally_digest(of.net)}"] = encode_tally(of.net, self.document.experiment)
        if is_opened(opening, of.manifest, self.document):
            self.model = after_opened(self.document, self.model.state, of.net, clients=clients_of(opening)).model

    def show_ending(self, last: RelayedRound | None, why: Why, **changes: Any) -> RelayedEnding:
        """No round follows."""
        state, training, evaluation = self.model.names
        told: dict[str, Any] = {
            "experiment": self.document.digest,
            "round_number": 0 if last is None else last.round_number,
            "manifest": None if last is None else last.manifest.digest,
            "opening": None if last is None else self.openings[-1].digest,
            "state": state,
            "training_weights": training,
            "evaluation_weights": evaluation,
            "why": why,
        }
        ending = RelayedEnding(**{**told, **changes})
        self.files[f"{self.place}/ending"] = ending.signed([COORDINATOR])
        self.enter(ending.log_entry)
        return ending


class AuditedHistory(KnownHistory):
    """One experiment from its first round on. ``files`` and ``doors`` are what an auditor is given."""

    def __init__(self, name: str, document: ExperimentDocument | None = None) -> None:
        self.name = name
        self.rounds: list[RelayedRound] = []
        self.doors: dict[str, dict[str, bytes]] = {role: {} for role in ROLES}
        super().__init__(document)

    def enter(self, entry: Entry) -> None:
        self.log.time_s = self.now // 1000
        super().enter(entry)

    def renew(self) -> None:
        """Witnesses cosign the log as it is, now."""
        if self.document.log is not None:
            self.log.time_s = self.now // 1000
            self.log.show(self.files, [self.document.digest])

    @property
    def shows_capsules(self) -> bool:
        """Whether its rounds are sealed to the last capsule; a light one has none that could be shown."""
        return any(isinstance(one, SealedRound) for one in self.rounds)

    def door_at(self, url: str) -> GivenFiles:
        """A relay's own door, by its URL."""
        role = "entry" if url == self.document.entry_relay.url else "mix"
        return GivenFiles(self.doors[role])

    def announce(self, *, sealed: bool = False, late_ms: int = 0, **changes: Any) -> RelayedRound:
        """The next round begins."""
        before = self.rounds[-1] if self.rounds else None
        told = {**self.following(before), "name": self.name}
        told["opens_at"] = (START if before is None else before.manifest.instants.open_by) + late_ms
        made: RelayedRound
        if sealed:
            made = SealedRound(covered=True, **{**told, **changes})
        else:
            made = RelayedRound(**{**told, "drawn": aggregate.empty_tally(self.document.experiment), **changes})
        self.rounds.append(made)
        self.show_model(self.model)
        self.now = made.manifest.instants.opens_at
        self.show_manifest(made.manifest)
        return made

    def conclude(self, *, lost: int = len(STATEMENTS) + 1, opening: Opening | None = None) -> Opening:
        """The round ends. Of the four statements and the seed, those from ``lost`` on are missing."""
        made = self.rounds[-1]
        told = made.opening if opening is None else opening
        if lost <= len(STATEMENTS):
            gone: dict[str, Any] = dict.fromkeys((*STATEMENTS[lost:], "count_seed", "tally", "shards"))
            told = replace(told, **gone)
        else:
            self.files |= {f"{self.place}/{path}": data for path, data in made.public().items()}
        for role in ROLES:
            # A statement that was never made is at no door; one that was lost on its way is.
            self.doors[role] |= made.door(without=STATEMENTS[lost:])
        self.now = made.manifest.instants.open_by
        self.show_opening(told, made)
        return told

    def end(self, why: Why = "stopped", **changes: Any) -> RelayedEnding:
        """No round follows."""
        self.show_model(self.model)
        return self.show_ending(self.rounds[-1] if self.rounds else None, why, **changes)

    def show_model(self, model: Model) -> None:
        """Its blobs, under their digests."""
        self.files |= {f"/v1/blob/{digest}": blob for digest, blob in model.by_name.items()}


# ── at random ────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_net(dice: random.Random, document: ExperimentDocument, clients: int) -> Tally:
    """A net tally about as noise and people make it; now and then one that nothing explains, or that is empty."""
    shape = dice.random()
    tally = aggregate.empty_tally(document.experiment)
    numbers = np.random.default_rng(dice.getrandbits(64))
    if shape < 0.1:
        return tally
    for counts in (tally.plus, tally.minus, tally.participants, tally.cells):
        counts[:] = numbers.poisson(3, counts.shape) + numbers.integers(0, clients + 1, counts.shape)
    if shape > 0.9:
        tally.plus[0, 0] += 10**4
    return tally


def draw_told(dice: random.Random, document: ExperimentDocument, clients: int) -> tuple[tuple[Package, ...], ...]:
    """What devices of a sealed round send beside their participation."""
    units = range(document.budget - 2)
    return tuple(
        tuple(TrainPackage(model=0, bin_index=dice.randrange(11), sign=dice.choice((1, -1))) for _ in units)
        for _ in range(clients)
    )


def draw_history(
    dice: random.Random, *, rounds: int, sealed: bool = False, document: ExperimentDocument | None = None
) -> AuditedHistory:
    """An honest history of so many rounds at random, with kills and losses."""
    made = AuditedHistory(f"drawn {dice.getrandbits(64):x}", document)
    for _ in range(rounds):
        clients = dice.choice((0, 1, 2, 3, 5, 8))
        changes: Mapping[str, Any] = (
            {"told": draw_told(dice, made.document, clients)}
            if sealed
            else {"drawn": draw_net(dice, made.document, clients), "refused": dice.choice((0, 0, 1, 7))}
        )
        made.announce(sealed=sealed, clients=clients, late_ms=dice.choice((0, 0, 86_400_000)), **changes)
        made.conclude(lost=dice.choice((0, 1, 2, 3, 4, 5, 5, 5, 5)))
        if dice.random() < 0.3:
            # A statement that the coordinator did not get in time, and a door that is not there.
            made.doors["entry"] |= made.rounds[-1].door()
        if dice.random() < 0.2:
            made.doors[dice.choice(ROLES)].clear()
    ends = dice.random()
    if ends < 0.3:
        ways: tuple[Why, Why] = ("finished", "stopped")
        made.end(dice.choice(ways))
    elif ends < 0.6:
        made.announce(clients=2)
        # Down when the opening was due, or still in its window.
        made.now += dice.choice((0, 10**9))
    made.renew()
    return made
