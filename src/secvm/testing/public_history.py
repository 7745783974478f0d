"""A public history: what an honest coordinator with a log has published, as files by path, without a network.

It can be stopped anywhere: a test looks at what is public so far, a liar (``secvm.testing.malicious``) changes
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

from secvm.crypto.beacon import LocalUnsafeBeacon
from secvm.crypto.kem import X25519PrivateKey
from secvm.crypto.oblivious import GatewayKey, encode_key_configurations
from secvm.crypto.signing import Envelope
from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.weights import Weights
from secvm.protocol.blobs import encode_tally
from secvm.protocol.checkpoints import SignedCheckpoint
from secvm.protocol.documents import digest_of
from secvm.protocol.ending import Ending, Why, make_ending
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins, publish
from secvm.protocol.log import LogTerms, ending_entry, experiment_entry, manifest_entry
from secvm.protocol.manifest import LastRound, RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.receipts import encode_bits, encode_receipt
from secvm.protocol.received import DIGEST_BYTES, bucket_bits, bucket_of, receipt, received_root, side_by_side
from secvm.protocol.trusted_rounds import Served, TrustedRounds, tallies_named
from secvm.testing.parties import HonestWitness, Parties
from secvm.testing.random_experiments import START, draw_document, draw_tally
from secvm.testing.witnessed_log import WitnessedLog

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
    ) -> None:
        """The experiment is signed, logged, cosigned and public from ``now`` on.

        ``records`` are those of its beacons; without, those of the development beacon.
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
        self.state = document.experiment.start()
        #: Digests of the received capsules of each concluded round.
        self.received: dict[int, list[bytes]] = {}
        self.gateway_keys: list[GatewayKey] = []
        self.token_key: bytes | None = None
        self.log = WitnessedLog(document.log.log_key(document.digest).name, parties.log)
        self.directory = WitnessedLog(document.log.directory_key.name, parties.log)
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
        training, evaluation = self.weights(self.state)
        return make_manifest(
            self.document,
            opens_at=opens_at,
            state=self.state.to_bytes(),
            training_weights=training.to_bytes(),
            evaluation_weights=evaluation.to_bytes(),
            gateway_keys=encode_key_configurations([key.configuration]),
            before=self.manifests[-1] if self.manifests else None,
            last=self._last,
            token_key=self.token_key,
        )

    def conclude(self, tally: Tally | None, *, capsules: Sequence[bytes] = (), clients: int | None = None) -> LastRound:
        """End the round that was announced: with this tally, or abandoned. Takes the step; shows nothing yet.

        ``capsules``: digests of capsules that were received, besides as many as the dice like.
        """
        number, manifest = len(self.manifests), self.manifests[-1]
        self.now = max(self.now, manifest.accept_until)
        received = [*capsules, *(self.dice.randbytes(DIGEST_BYTES) for _ in range(self.dice.randint(0, 90)))]
        root = received_root(side_by_side(received)).hex()
        count = None
        if tally is None:
            self._last = last_round(None, received_root=root)
        else:
            people = int(tally.participants.sum() + tally.cells.sum())
            clients = people if clients is None else clients
            if self.parties.relays:
                capsules_seen = max(clients * self.document.budget, len(received))
                count = RelayCount(self.epoch(manifest.opens_at), clients, capsules_seen)
            self._last = last_round(
                tally,
                relay_count=None if count is None else count.to_signed_bytes(self.parties.relays[0]),
                received_root=root,
            )
            self._put_blob(encode_tally(tally))
            self.state = self.step(self.state, tally)
        self.received[number] = received
        self._show_receipts(number, received)
        return self._last

    def end(self, why: Why = Why.FINISHED) -> Ending:
        """Sign the ending, log it, have it cosigned, show it. The last round must be concluded."""
        training, evaluation = self.weights(self.state)
        ending = make_ending(
            self.document,
            why=why,
            state=self.state.to_bytes(),
            training_weights=training.to_bytes(),
            evaluation_weights=evaluation.to_bytes(),
            before=self.manifests[-1] if self.manifests else None,
            last=self._last,
        )
        self.add(ending)
        return ending

    def cosign(self, now: int | None = None) -> SignedCheckpoint:
        """Have the log as it is cosigned (again), and show the checkpoint and the newest entry's proof."""
        self.now = self.now if now is None else now
        signed = self.log.cosigned(
            self.present_witnesses(), time_s=lambda _: self.now // 1000 - self.dice.randint(0, 3)
        )
        self.show_checkpoint(signed)
        return signed

    def play(self, rounds: int, *, abandoned: float = 0.2) -> None:
        """So many whole rounds; each is abandoned with this probability, and sometimes a key changes."""
        for _ in range(rounds):
            if self.dice.random() < 0.1:
                self.token_key = self.dice.randbytes(32)
            self.announce()
            self.conclude(None if self.dice.random() < abandoned else self.draw_tally())

    # ── what it decides with; a liar has its own ─────────────────────────────────────────────────────────────────────

    def step(self, state: State, tally: Tally) -> State:
        """The next descent state."""
        return self.document.experiment.step(state, tally)

    def weights(self, state: State) -> tuple[Weights, Weights]:
        """Training and evaluation weights of a state."""
        rule = self.document.experiment.rule
        return rule.training_weights(state), rule.evaluation_weights(state)

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
        """The path below which its log stands."""
        return f"/secvm/v1/{self.document.digest}"

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
        other.received, other.gateway_keys = dict(self.received), list(self.gateway_keys)
        other.log, other.directory = self.log.branch(), self.directory.branch()
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
        """Put a checkpoint of the experiment's log, with tiles and the newest entry's proof, where all find them."""
        self._put_log(self.log_place, self.log, signed)
        newest = signed.checkpoint.size - 1
        self.files[f"{self.place}/proof/{newest}"] = self.log.proof(newest, signed)

    def _publish_experiment(self, records: Sequence[bytes] | None) -> None:
        digest = self.document.digest
        self.log.append(experiment_entry(digest))
        self.directory.append(experiment_entry(digest))
        listed = self.directory.cosigned(self.present_witnesses(), time_s=lambda _: self.now // 1000)
        self._put_log("/secvm/v1/directory", self.directory, listed)
        signed = self.cosign()
        self.files[f"{self.place}/first"] = self.log.proof(0, signed)
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
            self.log.append(ending_entry(told.digest))
        else:
            self.manifests.append(told)
            self.log.append(manifest_entry(told.digest))
        self.cosign()
        self.show(told, told.signed([self.parties.coordinator]))

    def _show_receipts(self, number: int, received: Sequence[bytes]) -> None:
        data = side_by_side(received)
        bits = bucket_bits(len(data) // DIGEST_BYTES)
        self.files[f"{self.place}/received/{number}"] = encode_bits(bits)
        for bucket, digest in {bucket_of(digest, bits): digest for digest in received}.items():
            self.files[f"{self.place}/received/{number}/{bucket}"] = encode_receipt(receipt(data, digest))

    def _put_blob(self, data: bytes) -> None:
        self.files[f"/v1/blob/{digest_of(data)}"] = data

    def _put_log(self, place: str, log: WitnessedLog, signed: SignedCheckpoint) -> None:
        self.files |= {f"{place}/{path}": data for path, data in log.files(signed).items()}


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
    return Served(
        manifests=tuple(manifests),
        proof=_file(files, f"{place}/proof/{newest + (ending is not None)}"),
        tallies={name: _file(files, f"/v1/blob/{name}") for name in tallies_named(told)},
        ending=ending,
    )


def _file(files: Mapping[str, bytes], path: str) -> bytes:
    if path not in files:
        raise MalformedMessageError("a file that should be public is not there")
    return files[path]


__all__ = ["LEAD_S", "PublicHistory", "served_from"]
