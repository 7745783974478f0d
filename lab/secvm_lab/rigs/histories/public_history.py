"""A public history: what an honest coordinator with a log has published, as files by path, without a network.

It can be stopped anywhere: a test looks at what is public so far, a liar (``secvm_lab.rigs.lies.catalogue``) changes
something and goes on. Nothing is drawn but from the dice that it is given, so the same seed is the same history.

    history = PublicHistory.drawn(random.Random(7))
    history.play(3)                              # three rounds, some of them abandoned
    history.announce()                           # the fourth begins
    trusted = TrustedRounds(history.document, history.envelope)
    trusted.believe(trusted.check(history.served(trusted), now=history.now))
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.crypto.notes import Note
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights
from secvm.protocol.canonical import digest_of
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.ending import Ending, Why, make_ending
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, publish
from secvm.protocol.documents.manifest import LastRound, RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.log.checkpoints import Checkpoint, SignedCheckpoint
from secvm.protocol.log.entries import ModelNames, experiment_entry, manifest_entry
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle
from secvm.protocol.trust.trusted_rounds import Served, TrustedRounds, tallies_named
from secvm.protocol.version import LOG_ORIGIN
from secvm_lab.rigs.histories.random_experiments import START, HonestWitness, Parties, draw_document, draw_tally
from secvm_lab.rigs.histories.witnessed_log import WitnessedLog

#: Between the end of a round and the next opening: manifests are fetched then.
LEAD_S = 120


class PublicHistory:
    """One experiment, as its coordinator publishes it."""

    def __init__(
        self,
        dice: random.Random,
        document: ExperimentDocument,
        parties: Parties,
        *,
        now: int = START,
        records: Sequence[bytes] | None = None,
        log: WitnessedLog | None = None,
    ) -> None:
        """The experiment is signed, logged, cosigned and public from ``now`` on.

        ``records`` are those of its beacons; without, those of the development beacon. ``log``: the coordinator's,
        where it has experiments already.
        """
        assert document.log is not None
        self.dice, self.document, self.parties, self.now = dice, document, parties, now
        self.terms: LogTerms = document.log
        #: The experiment's envelope.
        self.envelope = publish(document, keys=(parties.coordinator,))
        #: All public files, by path.
        self.files: dict[str, bytes] = {}
        self.manifests: list[RoundManifest] = []
        self.ending: Ending | None = None
        #: The descent state of the newest manifest; once its round is concluded, that of the next.
        self.state = aggregate.start(document.experiment)
        self.gateway_keys: list[GatewayKey] = []
        #: The coordinator's one log, in which others of its experiments stand as well.
        self.log = log or WitnessedLog(document.log.log_key.name, parties.log)
        self._last: LastRound | None = None
        self._publish_experiment(records)

    @classmethod
    def drawn(
        cls, dice: random.Random, *, witnesses: int | None = None, relays: int = 1, **changes: Any
    ) -> PublicHistory:
        """A history of an experiment at random; ``changes`` go to ``draw_document``."""
        parties = Parties.drawn(dice, witnesses=dice.randint(1, 5) if witnesses is None else witnesses, relays=relays)
        return cls(dice, draw_document(dice, parties, **changes), parties)

    # ── what a coordinator does ──────────────────────────────────────────────────────────────────────────────────────

    def announce(self, now: int | None = None, **changes: Any) -> RoundManifest:
        """Sign the next round's manifest, log it, have it cosigned, show it.

        ``changes``: fields of the manifest to be set after it was made, which an honest coordinator never needs.
        """
        number = len(self.manifests) + 1
        self.now = max(self.now, self.opening(number) - 1000 * LEAD_S) if now is None else now
        manifest = replace(self.make_manifest(), **changes)
        self.add(manifest)
        return manifest

    def make_manifest(self) -> RoundManifest:
        """The next round's manifest, as it should be; nothing is signed, logged or shown. A fresh gateway key."""
        opens_at = self.opening(len(self.manifests) + 1)
        key = GatewayKey(self.epoch(opens_at) % 256, X25519PrivateKey.generate(self.dice.randbytes))
        self.gateway_keys.append(key)
        return make_manifest(
            self.document,
            opens_at=opens_at,
            model=self._model,
            gateway_keys=encode_key_configurations([key.configuration]),
            before=self.manifests[-1] if self.manifests else None,
            last=self._last,
        )

    @property
    def _model(self) -> ModelNames:
        state, training, evaluation = (digest_of(part.to_bytes()) for part in (self.state, *self.weights(self.state)))
        return state, training, evaluation

    def conclude(
        self, tally: Tally | None, *, clients: int | None = None, counted_for: Experiment | None = None
    ) -> LastRound:
        """End the round that was announced: with this tally, or abandoned. Takes the step; shows nothing yet.

        ``counted_for``: another experiment whose tally it is, which only a liar publishes.
        """
        manifest = self.manifests[-1]
        self.now = max(self.now, manifest.accept_until)
        count = None
        if tally is None:
            self._last = last_round(None)
        else:
            people = int(tally.participants.sum() + tally.cells.sum())
            clients = people if clients is None else clients
            if self.parties.relays:
                count = RelayCount(manifest.opens_at, clients, clients * self.document.budget)
            self._last = last_round(tally, relay_count=None if count is None else count.signed(self.parties.relays[0]))
            self.files[f"/v1/blob/{self._last.tally}"] = encode_tally(tally, counted_for or self.document.experiment)
            self.state = self.step(self.state, tally)
        return self._last

    def end(self, why: Why = Why.FINISHED) -> Ending:
        """Sign the ending, log it, have it cosigned, show it. The last round must be concluded."""
        ending = make_ending(
            self.document,
            why=why,
            model=self._model,
            before=self.manifests[-1] if self.manifests else None,
            last=self._last,
        )
        self.add(ending)
        return ending

    def cosign(self, now: int | None = None) -> SignedCheckpoint:
        """Have the log as it is cosigned (again), and show the checkpoint and the newest manifest's proof."""
        self.now = self.now if now is None else now
        signed = self.log.cosigned(
            self.present_witnesses(), time_s=lambda _: self.now // 1000 - self.dice.randint(0, 3)
        )
        self.show_checkpoint(signed)
        return signed

    def play(self, rounds: int, *, abandoned: float = 0.2) -> None:
        """So many whole rounds; each is abandoned with this probability."""
        for _ in range(rounds):
            self.announce()
            self.conclude(None if self.dice.random() < abandoned else self.draw_tally())

    # ── what it decides with; a liar has its own ─────────────────────────────────────────────────────────────────────

    def step(self, state: State, tally: Tally) -> State:
        """The next descent state."""
        return aggregate.step(self.document.experiment, state, tally)

    def weights(self, state: State) -> tuple[Weights, Weights]:
        """Training and evaluation weights of a state."""
        asked = self.document.experiment
        return aggregate.training_weights(asked, state), aggregate.evaluation_weights(asked, state)

    def draw_tally(self) -> Tally:
        """A tally that meets the floor, of participants who keep to the budget."""
        while True:
            train = self.document.floor + self.dice.randint(0, 20)
            tally = draw_tally(self.dice, self.document, train=train, test=self.dice.randint(0, 9))
            # Always, without cover; with it, so few people may look like fewer.
            if self.document.reaches_floor(tally.participants.tolist()):
                return tally

    def present_witnesses(self) -> list[HonestWitness]:
        """The witnesses that answer this time: always a quorum, not always all."""
        witnesses = list(self.parties.witnesses)
        count = self.dice.randint(self.terms.quorum, len(witnesses))
        return self.dice.sample(witnesses, count)

    # ── where and when ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def period_s(self) -> int:
        """From one opening to the next: a slot of the coordinator's grid."""
        return self.document.windows.length_s + self.document.windows.grace_s + LEAD_S

    def opening(self, round_number: int) -> int:
        """When a round opens."""
        return self.document.windows.first_opening + (round_number - 1) * 1000 * self.period_s

    def epoch(self, opens_at: int) -> int:
        """The slot of a round."""
        return opens_at // (1000 * self.period_s)

    @property
    def place(self) -> str:
        """The path below which the experiment's files stand."""
        return f"/v1/experiment/{self.document.digest}"

    @property
    def log_place(self) -> str:
        """The path below which the log stands."""
        return f"/{LOG_ORIGIN}"

    @property
    def first(self) -> bytes:
        """The proof file of the experiment under the first checkpoint that a quorum cosigned."""
        return self.files[f"{self.place}/first"]

    @property
    def records(self) -> list[bytes]:
        """Records of the beacons that fix the salt."""
        named = self.document.binning.beacons if isinstance(self.document.binning, HashedBins) else ()
        return [self.files[f"{self.place}/beacon/{i}"] for i in range(len(named))]

    def served(self, trusted: TrustedRounds) -> Served:
        """What a device that believes this much fetches now."""
        return served_from(self.files, self.document.digest, trusted)

    def branch(self) -> PublicHistory:
        """Another world with the same past, whose next steps may differ. Its witnesses know nothing of this one's."""
        other = copy.copy(self)
        known = [replace(witness, seen=dict(witness.seen)) for witness in self.parties.witnesses]
        other.parties = replace(self.parties, witnesses=tuple(known))
        other.files, other.manifests = dict(self.files), list(self.manifests)
        other.gateway_keys = list(self.gateway_keys)
        other.log = self.log.branch()
        return other

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, told: RoundManifest | Ending, envelope: bytes) -> None:
        """Put a document and the model that it names where everybody finds them."""
        if isinstance(told, Ending):
            self.files[f"{self.place}/ending"] = envelope
        else:
            self.files[f"{self.place}/manifest/{told.round_number}"] = envelope
            self.files[f"{self.place}/manifest/latest"] = envelope
        for part in (self.state, *self.weights(self.state)):
            self._put_blob(part.to_bytes())

    def show_checkpoint(self, signed: SignedCheckpoint) -> None:
        """Put a checkpoint of the log, with tiles and the newest manifest's proof, where all find them."""
        self.files |= {f"{self.log_place}/{path}": data for path, data in self.log.files(signed).items()}
        self.files[f"{self.place}/checkpoint"] = signed.data
        newest = self.manifests[-1].log_entry if self.manifests else None
        if newest is not None and newest.to_bytes() in self.log.entries[: signed.checkpoint.size]:
            proof = self.log.proof(self.log.index_of(newest), signed)
            self.files[f"{self.place}/proof/{newest.round_number}"] = proof

    def let_others_append(self) -> int:
        """Other experiments of the coordinator begin, as many as fall to this size of the log; how many lines."""
        dice = random.Random(f"{self.document.digest} {self.log.tree.size}")  # noqa: S311  (no secrets here)
        count = dice.randrange(3)
        for _ in range(count):
            other = dice.randbytes(32).hex()
            self.log.append(experiment_entry(other))
            self.log.append(manifest_entry(other, 1, dice.randbytes(32).hex()))
        return 2 * count

    def _publish_experiment(self, records: Sequence[bytes] | None) -> None:
        digest = self.document.digest
        self.let_others_append()
        self.log.append(experiment_entry(digest))
        signed = self.cosign()
        self.files[f"{self.place}/first"] = self.log.proof(self.log.tree.size - 1, signed)
        self.files[self.place] = self.envelope
        told = {"digest": digest, "standing": "running", "title": self.document.title}
        self.files["/v1/experiments"] = json.dumps({"experiments": [told]}, separators=(",", ":")).encode()
        if isinstance(self.document.binning, HashedBins):
            if records is None:
                source = LocalUnsafeBeacon()
                records = [source.fetch(one.chain, one.round_number) for one in self.document.binning.beacons]
            self.files |= {f"{self.place}/beacon/{i}": record for i, record in enumerate(records)}

    def add(self, told: RoundManifest | Ending) -> None:
        """Log a document, have it cosigned, and only then show it."""
        if isinstance(told, Ending):
            self.ending = told
        else:
            self.manifests.append(told)
        self.let_others_append()
        self.log.append(told.log_entry)
        self.cosign()
        self.show(told, told.signed([self.parties.coordinator]))

    def _put_blob(self, data: bytes) -> None:
        self.files[f"/v1/blob/{digest_of(data)}"] = data


def served_from(files: Mapping[str, bytes], experiment: str, trusted: TrustedRounds) -> Served:
    """What a device that believes this much fetches out of these files, unchecked.

    Raises
    ------
    MalformedMessageError
        A file that it needs is not there, or is none.
    """
    place = f"/v1/experiment/{experiment}"
    ending = files.get(f"{place}/ending")
    latest = files.get(f"{place}/manifest/latest")
    newest = 0 if latest is None else RoundManifest.from_bytes(Envelope.from_bytes(latest).payload).round_number
    manifests = [_file(files, f"{place}/manifest/{number}") for number in range(trusted.next_round, newest + 1)]
    told: list[RoundManifest | Ending] = [
        RoundManifest.from_bytes(Envelope.from_bytes(manifest).payload) for manifest in manifests
    ]
    if ending is not None:
        told.append(Ending.from_bytes(Envelope.from_bytes(ending).payload))
    checkpoint = _file(files, f"{place}/checkpoint")
    size = Checkpoint.from_text(Note.from_bytes(checkpoint).text).size
    return Served(
        manifests=tuple(manifests),
        checkpoint=checkpoint,
        lines=lines_from(files, trusted.trusted.log.frontier.size, size),
        tallies={name: _file(files, f"/v1/blob/{name}") for name in tallies_named(told)},
        ending=ending,
    )


def lines_from(files: Mapping[str, bytes], since: int, size: int) -> tuple[bytes, ...]:
    """The lines of the log from an index on, out of its tiles."""
    if size <= since:
        return ()
    lines: list[bytes] = []
    for number in range(since // TILE_WIDTH, -(-size // TILE_WIDTH)):
        tile = Tile(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
        lines += read_bundle(_file(files, f"/{LOG_ORIGIN}/{tile.path}"), width=tile.width)
    return tuple(lines[since % TILE_WIDTH :])


def _file(files: Mapping[str, bytes], path: str) -> bytes:
    if path not in files:
        raise MalformedMessageError("a file that should be public is not there")
    return files[path]
