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
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.documents.recomputation import Model, after_opened, first_model
from secvm.protocol.log.entries import Entry, experiment_entry
from secvm.protocol.relays.opening import Opening, RelayedEnding, Why, clients_of, is_opened
from secvm_lab.rigs.histories.audited_rounds import ROLES, STATEMENTS, LightRound, SealedRound
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, START, relayed_document
from secvm_lab.rigs.histories.witnessed_log import KnownLog


class AuditedHistory:
    """One experiment from its first round on. ``files`` and ``doors`` are what an auditor is given."""

    def __init__(self, name: str, document: ExperimentDocument | None = None) -> None:
        self.name = name
        self.document = relayed_document() if document is None else document
        self.rounds: list[LightRound] = []
        #: Of the rounds that are concluded.
        self.openings: list[Opening] = []
        self.model = first_model(self.document)
        self.now = START
        self.doors: dict[str, dict[str, bytes]] = {role: {} for role in ROLES}
        listed = [{"digest": self.document.digest, "standing": "running", "title": self.document.title}]
        self.files = {
            "/v1/experiments": json.dumps({"experiments": listed}).encode(),
            self.place: publish(self.document, keys=(COORDINATOR,)),
        }
        #: In which others of the coordinator's experiments may stand as well. Not read where the document names none.
        self.log = KnownLog()
        self.enter(experiment_entry(self.document.digest))

    def enter(self, entry: Entry) -> None:
        """One more line of the log, where there is one."""
        if self.document.log is not None:
            self.log.time_s = self.now // 1000
            self.log.enter(self.files, entry)

    def renew(self) -> None:
        """Witnesses cosign the log as it is, now."""
        if self.document.log is not None:
            self.log.time_s = self.now // 1000
            self.log.show(self.files, [self.document.digest])

    @property
    def place(self) -> str:
        """Where the experiment's files are."""
        return f"/v1/experiment/{self.document.digest}"

    @property
    def shows_capsules(self) -> bool:
        """Whether its rounds are sealed to the last capsule; a light one has none that could be shown."""
        return any(isinstance(one, SealedRound) for one in self.rounds)

    def door_at(self, url: str) -> GivenFiles:
        """A relay's own door, by its URL."""
        role = "entry" if url == self.document.entry_relay.url else "mix"
        return GivenFiles(self.doors[role])

    # ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def announce(self, *, sealed: bool = False, late_ms: int = 0, **changes: Any) -> LightRound:
        """The next round begins."""
        before = self.rounds[-1].manifest if self.rounds else None
        opens_at = (START if before is None else before.instants.open_by) + late_ms
        kind = SealedRound if sealed else LightRound
        told: dict[str, Any] = {
            "document": self.document,
            "name": self.name,
            "round_number": len(self.rounds) + 1,
            "before": before,
            "opening_before": self.openings[-1] if self.openings else None,
            "model": self.model.names,
            "opens_at": opens_at,
        }
        made = kind(**{**told, **changes})
        self.rounds.append(made)
        self.show_model(self.model)
        envelope = made.manifest.signed([COORDINATOR])
        self.files[f"{self.place}/manifest/{made.round_number}"] = envelope
        self.files[f"{self.place}/manifest/latest"] = envelope
        self.now = made.manifest.instants.opens_at
        self.enter(made.manifest.log_entry)
        return made

    def conclude(self, *, lost: int = len(STATEMENTS) + 1, opening: Opening | None = None) -> Opening:
        """The round ends. Of the four statements and the seed, those from ``lost`` on are missing."""
        made = self.rounds[-1]
        told = made.opening if opening is None else opening
        if lost <= len(STATEMENTS):
            gone: dict[str, Any] = dict.fromkeys((*STATEMENTS[lost:], "count_seed", "tally", "shards"))
            told = replace(told, **gone)
        else:
            self.files[f"/v1/blob/{tally_digest(made.net)}"] = encode_tally(made.net, self.document.experiment)
            self.files |= {f"{self.place}/{path}": data for path, data in made.public().items()}
        self.openings.append(told)
        self.files[f"{self.place}/opening/{made.round_number}"] = told.signed([COORDINATOR])
        for role in ROLES:
            # A statement that was never made is at no door; one that was lost on its way is.
            self.doors[role] |= made.door(without=STATEMENTS[lost:])
        self.now = made.manifest.instants.open_by
        self.enter(told.log_entry)
        self.model = self.after(told, made)
        return told

    def after(self, opening: Opening, made: LightRound) -> Model:
        """The model that follows."""
        if not is_opened(opening, made.manifest, self.document):
            return self.model
        return after_opened(self.document, self.model.state, made.net, clients=clients_of(opening)).model

    def end(self, why: Why = "stopped", **changes: Any) -> RelayedEnding:
        """No round follows."""
        last = self.rounds[-1] if self.rounds else None
        state, training, evaluation = self.model.names
        told: dict[str, Any] = {
            "experiment": self.document.digest,
            "round_number": len(self.rounds),
            "manifest": None if last is None else last.manifest.digest,
            "opening": None if last is None else self.openings[-1].digest,
            "state": state,
            "training_weights": training,
            "evaluation_weights": evaluation,
            "why": why,
        }
        ending = RelayedEnding(**{**told, **changes})
        self.show_model(self.model)
        self.files[f"{self.place}/ending"] = ending.signed([COORDINATOR])
        self.enter(ending.log_entry)
        return ending

    def show_model(self, model: Model) -> None:
        """Its blobs, under their digests."""
        blobs = (model.state_bytes, model.training.to_bytes(), model.evaluation.to_bytes())
        self.files |= {f"/v1/blob/{digest_of(blob)}": blob for blob in blobs}


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
