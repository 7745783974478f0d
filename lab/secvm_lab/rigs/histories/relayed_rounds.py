"""A round with two relays, small and whole, for tests, vectors and fuzz targets: honest, and easily made false.

Keys, secrets and capsules follow from texts that everybody knows. Capsules here are bytes of the right length: what is
under their seals is no concern of the documents that count them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.crypto.signing import SigningKey
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_law import Noise, RelayCover, relay_budget
from secvm.learning.experiment import Experiment
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import base64_text, digest_of
from secvm.protocol.documents.blobs import tally_digest
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Relay, Windows
from secvm.protocol.documents.terms import RelayTimes
from secvm.protocol.log.entries import ModelNames
from secvm.protocol.relays.batches import capsule_digest, capsule_root
from secvm.protocol.relays.commitments import RoundSecret, entry_commitment, mix_commitment
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal, entry_reveal, mix_reveal
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.opening import Opening
from secvm.protocol.relays.shards import SHARD
from secvm.protocol.relays.submission import Receipt, receipt_for
from secvm_lab.rigs.histories.shard_tree import ShardTree

T = TypeVar("T")

#: What each relay's door serves of a round, by the name of the statement.
STATEMENTS = ("entry_count", "mix_count", "entry_reveal", "mix_reveal")
#: 2026-01-01.
START = 1_767_225_600_000


def known_bytes(name: str, count: int = 32) -> bytes:
    """So many bytes that follow from a name."""
    return hashlib.shake_256(name.encode()).digest(count)


def known_key(name: str) -> SigningKey:
    """A key that everybody knows."""
    return SigningKey(known_bytes(f"key of {name}"))


COORDINATOR, ENTRY, MIX, STRANGER = (
    known_key(name) for name in ("coordinator", "entry relay", "mixing relay", "nobody")
)


def relayed_experiment(**changes: Any) -> Experiment:
    """A small question with relays' cover. Its noise is too little for what it claims: who reads it must compute."""
    labels = len(changes.get("labels", ("a", "b")))
    cover = RelayCover(
        train=Noise(cells=22, shape=Fraction(3), odds=Fraction(1, 2)),
        participation=Noise(cells=2 * labels, shape=Fraction(3), odds=Fraction(1, 2)),
        test=Noise(cells=labels**2, shape=Fraction(3), odds=Fraction(2, 3)),
        parts=4,
        packages=160,
        train_share=Fraction(7, 10),
    )
    told: dict[str, Any] = {
        "n_bins": 10,
        "labels": ("a", "b"),
        "rule": Pegasos(),
        "features_per_person": 4,
        "budget": relay_budget(violable=1, features=4),
        "cover": cover,
    }
    return Experiment(**{**told, **changes})


def relayed_document(**changes: Any) -> ExperimentDocument:
    """The same, published."""
    told: dict[str, Any] = {
        "title": "Which words tell a from b?",
        "question": "",
        "experiment": relayed_experiment(),
        "features": FeaturesWanted(source="words", description="Words that the person has written."),
        "binning": HashedBins(bins=10, salt=bytes(16)),
        "windows": Windows(
            length_s=600,
            grace_s=60,
            first_opening=START,
            relays=RelayTimes(batch_s=30, mix_s=40, reveal_s=50, open_s=70),
        ),
        "floor": 3,
        "train_share": Fraction(7, 10),
        "rounds": 30,
        "coordinator_keys": (COORDINATOR.public,),
        "relays": (
            Relay(url="https://entry.example/", key=ENTRY.public, role="entry", operator="Entry e.V."),
            Relay(url="https://mix.example/", key=MIX.public, role="mix", operator="Mix Ltd."),
        ),
        "privacy": PrivacyTarget(Fraction(1), Fraction(1, 10**6)),
    }
    return ExperimentDocument(**{**told, **changes})


@dataclass(frozen=True, kw_only=True)
class RelayedRound:
    """All that is said in one round. Whatever is asked for is made once."""

    document: ExperimentDocument = field(default_factory=relayed_document)
    #: Whose secrets: rounds of different histories share none.
    name: str = ""
    round_number: int = 1
    #: The round before and its opening; None in round 1.
    before: RelayedManifest | None = None
    opening_before: Opening | None = None
    #: What devices learn with; without, names of no model.
    model: ModelNames | None = None
    #: Without, as soon as may be.
    opens_at: int | None = None
    #: M.
    clients: int = 5
    refused: int = 1
    #: The net tally, where it is drawn.
    drawn: Tally | None = None
    #: What a liar makes of the manifest, a statement, the net tally or the opening, by its name. What follows from it
    #: follows.
    lies: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def _said(self, name: str, true: T) -> T:
        said: T = self.lies.get(name, lambda it: it)(true)
        return said

    def _known(self, what: str) -> bytes:
        return known_bytes(f"{self.name} {what} {self.round_number}".lstrip())

    @property
    def parts(self) -> int:
        """S."""
        return self.document.relay_cover.parts

    def secret(self, role: str) -> RoundSecret:
        """What a relay has drawn."""
        return RoundSecret(self._known(role))

    @property
    def count_seed(self) -> bytes:
        """What the coordinator has drawn."""
        return self._known("count seed")

    @property
    def count_key(self) -> X25519PrivateKey:
        """What opens inner capsules."""
        return X25519PrivateKey.derive(self.count_seed)

    @property
    def fetch_key(self) -> GatewayKey:
        """What opens fetches of those who believe the round."""
        return GatewayKey(self.round_number % 256, X25519PrivateKey.derive(known_bytes(f"fetch {self.round_number}")))

    @cached_property
    def manifest(self) -> RelayedManifest:
        """As it is announced."""
        of: dict[str, Any] = {"experiment": self.document.digest, "round_number": self.round_number}
        of["parts"] = self.parts
        before = self.before
        soonest = START if before is None else before.instants.open_by
        names = self.model or tuple(digest_of(name) for name in (b"state", b"training weights", b"evaluation weights"))
        manifest = RelayedManifest(
            experiment=self.document.digest,
            round_number=self.round_number,
            previous=None if before is None else before.digest,
            opening=None if self.opening_before is None else self.opening_before.digest,
            instants=Instants.planned(self.document, soonest if self.opens_at is None else self.opens_at),
            **dict(zip(("state", "training_weights", "evaluation_weights"), names, strict=True)),
            count_key=self.count_key.public_key.to_bytes(),
            count_seed_hash=hashlib.sha256(self.count_seed).digest(),
            fetch_keys=encode_key_configurations([self.fetch_key.configuration]),
            mix=mix_commitment(self.secret("mix"), **of).signed(MIX),
            entry=entry_commitment(self.secret("entry"), tokens=self.document.tokens, **of).signed(ENTRY),
        )
        return self._said("manifest", manifest)

    @property
    def label(self) -> bytes:
        """Of the round."""
        return self.manifest.label

    def _capsules(self, name: str, count: int, size: int) -> dict[bytes, bytes]:
        """So many that are made up, by digest."""
        made = (known_bytes(f"{name} {i} of {self.round_number}", size) for i in range(count))
        return {capsule_digest(capsule): capsule for capsule in made}

    @cached_property
    def submission(self) -> list[bytes]:
        """Outer digests of one device."""
        return self._submitted(0)

    def _submitted(self, device: int) -> list[bytes]:
        return sorted(self._capsules(f"device {device}", self.document.budget, OUTER_BYTES))

    @cached_property
    def received(self) -> list[bytes]:
        """Outer digests of all devices."""
        return sorted(digest for device in range(self.clients) for digest in self._submitted(device))

    @cached_property
    def batch(self) -> list[bytes]:
        """Outer digests that the entry relay hands on."""
        return sorted([*self.received, *self._capsules("cover", self.document.relay_cover.packages, OUTER_BYTES)])

    @cached_property
    def mixed(self) -> list[bytes]:
        """Inner digests that the mixing relay hands on."""
        count = len(self.batch) - self.refused + self.document.relay_cover.packages
        return sorted(self._capsules("inner", count, INNER_BYTES))

    @cached_property
    def receipt(self) -> Receipt:
        """For the one device."""
        return receipt_for(self.label, self.submission)

    @cached_property
    def entry_count(self) -> EntryCount:
        """The entry relay's."""
        count = EntryCount(
            label=self.label,
            clients=self.clients,
            received=capsule_root(self.received),
            capsules=len(self.batch),
            root=capsule_root(self.batch),
        )
        return self._said("entry_count", count)

    @cached_property
    def mix_count(self) -> MixCount:
        """The mixing relay's: what it handed on less its own cover is what it was given less what it refused."""
        count = MixCount(
            label=self.label,
            entry_count=self.entry_count.digest,
            refused=len(self.batch) + self.document.relay_cover.packages - len(self.mixed),
            capsules=len(self.mixed),
            root=capsule_root(self.mixed),
        )
        return self._said("mix_count", count)

    @cached_property
    def entry_reveal(self) -> EntryReveal:
        """The entry relay's."""
        return self._said(
            "entry_reveal", entry_reveal(self.secret("entry"), self.mix_count.signed(MIX), parts=self.parts)
        )

    @cached_property
    def mix_reveal(self) -> MixReveal:
        """The mixing relay's."""
        count = self.mix_count.signed(MIX)
        return self._said("mix_reveal", mix_reveal(self.secret("mix"), self.entry_reveal, count, parts=self.parts))

    @cached_property
    def net(self) -> Tally:
        """What devices step from; empty where nothing was drawn."""
        return self._said("net", aggregate.empty_tally(self.document.experiment) if self.drawn is None else self.drawn)

    @property
    def net_digest(self) -> str:
        """As the opening names it; of no tally where nothing was drawn."""
        return digest_of(b"net tally") if self.drawn is None else tally_digest(self.net)

    @cached_property
    def shards(self) -> ShardTree:
        """With a sub-tally that is made up."""
        tree = ShardTree(self.label)
        for at in range(0, len(self.mixed), SHARD):
            tree.append(self.mixed[at : at + SHARD], b"")
        return tree

    @cached_property
    def opening(self) -> Opening:
        """How it ended."""
        opening = Opening(
            experiment=self.document.digest,
            round_number=self.round_number,
            label=self.label,
            **self.statements(),
            count_seed=self.count_seed,
            tally=self.net_digest,
            shards=self.shards.root,
        )
        return self._said("opening", opening)

    def statements(self) -> dict[str, bytes]:
        """All four, as their relays signed them."""
        keys = {"entry": ENTRY, "mix": MIX}
        return {name: getattr(self, name).signed(keys[name.split("_")[0]]) for name in STATEMENTS}

    def public(self) -> dict[str, bytes]:
        """What is public of its capsules, as files below the experiment: nothing."""
        return {}

    def door(self, *, without: tuple[str, ...] = ()) -> dict[str, bytes]:
        """What a relay's door serves of the round."""
        shown = {name: None if name in without else base64_text(data) for name, data in self.statements().items()}
        label = self.label.hex()
        return {f"/counts/{label}": json.dumps(shown).encode(), f"/leaves/{label}/0": b"".join(self.batch)}

    def following(self, **changes: Any) -> RelayedRound:
        """The next round."""
        told = {"round_number": self.round_number + 1, "before": self.manifest, "opening_before": self.opening}
        return RelayedRound(document=self.document, **{**told, **changes})
