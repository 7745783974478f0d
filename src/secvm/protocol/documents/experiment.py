"""The experiment as it is published: canonical bytes, signed once, and from then on a digest that nobody can bend.

Everything that decides what a device computes and sends is in here or in a manifest, and every manifest names this
document's digest. What the learning core needs is an ``Experiment``; around it stand the question in words, binning,
windows, floor, cohorts, the number of rounds, privacy, and whose signatures count.

``log`` says in whose log its rounds stand and whose cosignatures count; without one (null) nobody can be held to having
told everybody the same. ``privacy`` is two relays' cover with all its numbers (``protocol.relayed_terms``), or null: no
guarantee. A document with cover has a type of its own, and its relays have roles. The digest of the client's code
proves nothing without attestation; it says what the publisher claims to have tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from secvm.crypto.sealing.kem import PUBLIC_KEY_BYTES as KEM_KEY_BYTES
from secvm.crypto.sealing.kem import X25519
from secvm.crypto.signing import PUBLIC_KEY_BYTES, Envelope, SigningKey, VerifyKey, sign, verify
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.common_settings import MAX_BINS, MAX_HASHES
from secvm.learning.cover_law import RelayCover
from secvm.learning.experiment import Experiment
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import (
    Fields,
    decode_document,
    digest_of,
    encode_document,
    is_integer,
    ratio_text,
)
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.documents.learning_terms import read_learning, write_learning
from secvm.protocol.documents.relay_terms import (
    ROLES,
    RelayRole,
    RelayTimes,
    check_relayed,
    read_relay_cover,
    write_relay_cover,
)
from secvm.protocol.log.terms import LogTerms
from secvm.protocol.version import EXPERIMENT_TYPE, MAX_ROUND, RELAYED_EXPERIMENT_TYPE

MAX_DOCUMENT_BYTES = 2**18
#: A week: who waits longer for a round has another problem.
MAX_WINDOW_S = 7 * 86_400
MAX_KEYS = 8
_URL = r"https?://[!-~]{1,500}"
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}"
_NAME = r"[a-z0-9][a-z0-9.-]*"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Beacon:
    """A round of a public randomness beacon that lay in the future when the experiment was published."""

    #: Such as "drand-quicknet" or "nist-2.0-chain-2" (``secvm.crypto.beacons.sources``).
    chain: str
    round_number: int


@dataclass(frozen=True, slots=True)
class HashedBins:
    """Bins by salted hash."""

    bins: int
    hashes: int = 1
    #: The salt, or None where beacons will fix it.
    salt: bytes | None = None
    #: The beacon rounds that will fix the salt; empty where it stands here.
    beacons: tuple[Beacon, ...] = ()


@dataclass(frozen=True, slots=True)
class VocabularyBins:
    """The words of a public list as bins."""

    bins: int
    #: The list's name (docs/protocol.md §2.9), in hexadecimal.
    digest: str


@dataclass(frozen=True, slots=True)
class FeaturesWanted:
    """What a device looks at."""

    #: The source on the device by name, such as "history-titles".
    source: str
    #: In words, for the person.
    description: str
    #: A feature counts once, however often it occurs.
    presence: bool = True


@dataclass(frozen=True, slots=True)
class Windows:
    """When rounds happen."""

    #: Length of every window.
    length_s: int
    #: How long after a window's end late capsules are still taken.
    grace_s: int
    #: The earliest opening of round 1, in milliseconds.
    first_opening: int
    #: [from, to) in hours of the day, ascending: windows open only then.
    hours: tuple[tuple[int, int], ...] = ((0, 24),)
    #: IANA name of the zone whose hours are meant. Its offset is looked up by whoever owns a time zone database.
    time_zone: str = "UTC"
    #: How long the steps after a window take where there are two relays; else None.
    relays: RelayTimes | None = None

    def open_at_hour(self, opens_at: int, *, offset_s: int) -> bool:
        """Whether a window may open at this instant, where local time is ``offset_s`` seconds ahead of UTC."""
        hour = (opens_at // 1000 + offset_s) % 86_400 // 3600
        return any(start <= hour < end for start, end in self.hours)


@dataclass(frozen=True, slots=True)
class Relay:
    """A relay that devices may use."""

    url: str
    #: Signs the relay's counts.
    key: VerifyKey
    #: What it does, and who runs it, where there are two relays; else None.
    role: RelayRole | None = None
    operator: str | None = None

    @property
    def host(self) -> str:
        """Whose it is, as far as a URL tells: host and port, and nothing that only looks like them."""
        return re.split(r"[/?#\\]", self.url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]


@dataclass(frozen=True, kw_only=True)
class ExperimentDocument:
    """One experiment, published."""

    title: str
    #: What is asked, in words.
    question: str
    experiment: Experiment
    features: FeaturesWanted
    binning: HashedBins | VocabularyBins
    windows: Windows
    #: Fewest train participants; below, a round is abandoned.
    floor: int
    #: Probability with which a device trains; the others test.
    train_share: Fraction
    #: T: after so many rounds the experiment is over, abandoned ones included.
    rounds: int
    #: Whose signatures make a manifest, and how many of them are needed.
    coordinator_keys: tuple[VerifyKey, ...]
    threshold: int = 1
    relays: tuple[Relay, ...] = ()
    #: In words: who runs the gateway. Its keys come with the manifests.
    gateway_note: str = ""
    #: Of the gateway's keys, by its number in HPKE's registry. A device that lacks it takes no part.
    kem: int = X25519
    #: SHA-256 of the client's code, in hexadecimal. Proves nothing without attestation.
    client_code: str | None = None
    #: The log of its rounds; None: there is none.
    log: LogTerms | None = None
    #: What two relays' cover was asked for; None: there is none, and no guarantee.
    privacy: PrivacyTarget | None = None
    #: Whether a submission to two relays needs an anonymous token, which the entry relay gives.
    tokens: bool = False
    #: A test experiment: no people, seeded dice allowed, http and no relay allowed.
    test: bool = False

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = encode_document(self._content())
        try:
            ExperimentDocument.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"this experiment cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """The experiment's name everywhere."""
        return digest_of(self.data)

    @property
    def kind(self) -> str:
        """The document's type, and the purpose of its signatures."""
        return EXPERIMENT_TYPE if self.privacy is None else RELAYED_EXPERIMENT_TYPE

    @property
    def relay_cover(self) -> RelayCover:
        """The cover of each of the two relays. Raises ``LocalProtocolError`` where there are none."""
        return self._relayed(self.experiment.cover)

    @property
    def relay_times(self) -> RelayTimes:
        """How long the relays' steps take. Raises ``LocalProtocolError`` where there are not two."""
        return self._relayed(self.windows.relays)

    @property
    def entry_relay(self) -> Relay:
        """The relay that knows who sends. Raises ``LocalProtocolError`` where there are not two."""
        return self._relayed(next((relay for relay in self.relays if relay.role == "entry"), None))

    @property
    def mix_relay(self) -> Relay:
        """The relay that opens the outer layer. Raises ``LocalProtocolError`` where there are not two."""
        return self._relayed(next((relay for relay in self.relays if relay.role == "mix"), None))

    def _relayed(self, told: T | None) -> T:
        if told is None:
            raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is null")
        return told

    @property
    def experiment_id(self) -> ExperimentId:
        """The half of the digest that packages carry."""
        return ExperimentId(bytes.fromhex(self.digest)[:EXPERIMENT_ID_BYTES])

    @property
    def budget(self) -> int:
        """Packages of a participant in every round, never more, never less."""
        assert self.experiment.budget is not None
        return self.experiment.budget

    @property
    def state_bytes(self) -> int:
        """How many bytes the numbers of a descent state have. Known before any of that size is made."""
        robust = self.experiment.robust
        vectors = len(aggregate.rule_of(self.experiment).start(1, 1).vectors) + (
            0 if robust is None else len(robust.names)
        )
        return 8 * vectors * self.experiment.models.n_models * (self.experiment.n_bins + 1)

    @property
    def tally_bytes(self) -> int:
        """How many bytes the counts of a tally have. Known before any of that size is made."""
        labels, models = len(self.experiment.labels), self.experiment.models.n_models
        return 8 * (2 * models * (self.experiment.n_bins + 1) + labels + labels * labels)

    @property
    def most_tally_bytes(self) -> int:
        """How many bytes a tally has at most as it is served: those of its planes, and what deflating can add."""
        return self.tally_bytes + 64

    def reaches_floor(self, participants: Iterable[int]) -> bool:
        """Whether a round without cover has enough people to count, by its train participants per label."""
        return sum(participants) >= self.floor

    def check_seeded_dice(self) -> None:
        """Seeded dice may be thrown here, or this raises: who knows the seed knows every throw."""
        if not self.test:
            raise LocalProtocolError("seeded dice are for experiments that are marked as a test")

    @classmethod
    def from_bytes(cls, data: bytes) -> ExperimentDocument:
        """The document of canonical bytes; anything else is refused."""
        fields = Fields(decode_document(data, max_bytes=MAX_DOCUMENT_BYTES), "the experiment")
        kind = fields.text("type", longest=40)
        if kind not in (EXPERIMENT_TYPE, RELAYED_EXPERIMENT_TYPE):
            raise fields.refuse("type")
        relayed = kind == RELAYED_EXPERIMENT_TYPE
        test = fields.flag("test")
        binning = _read_binning(fields.inner("binning"))
        relays = [_read_relay(relay, test=test, relayed=relayed) for relay in fields.inner_list("relays", longest=16)]
        keys = [_read_key(item) for item in fields.items("coordinator_keys", shortest=1, longest=MAX_KEYS)]
        # Only documents of experiments with another KEM than X25519 have the field.
        kem = fields.integer("kem", 0) if fields.has("kem") else X25519
        if kem not in KEM_KEY_BYTES:
            raise fields.refuse("kem")
        train_share = fields.ratio("train_share")
        if not 0 < train_share <= 1:
            raise fields.refuse("train_share")
        privacy, experiment = None, read_learning(fields.inner("learning"), binning.bins)
        if fields.is_null("privacy") == relayed:
            raise fields.refuse("privacy")
        if relayed:
            privacy, experiment = read_relay_cover(fields.inner("privacy"), experiment, train_share)
        document = cls(
            title=fields.text("title", shortest=1, longest=200),
            question=fields.text("question", longest=4000),
            experiment=experiment,
            features=_read_features(fields.inner("features")),
            binning=binning,
            windows=_read_windows(fields.inner("windows"), relayed=relayed),
            floor=fields.integer("floor", 1),
            train_share=train_share,
            rounds=fields.integer("rounds", 1, MAX_ROUND),
            coordinator_keys=tuple(keys),
            threshold=fields.integer("threshold", 1, len(set(keys))),
            relays=tuple(relays),
            gateway_note=fields.text("gateway_note", longest=4000),
            kem=kem,
            client_code=None if fields.is_null("client_code") else fields.digest("client_code"),
            log=None if fields.is_null("log") else LogTerms.from_fields(fields.inner("log")),
            # Only documents of experiments with tokens have the field.
            tokens=relayed and fields.has("tokens") and fields.flag("tokens"),
            privacy=privacy,
            test=test,
        )
        fields.done()
        if len(set(keys)) != len(keys) or not (relays or test):
            raise MalformedMessageError("keys or relays of the experiment are not as they should be")
        _check_log_keys(document)
        if relayed:
            _check_relayed(document)
        # What defaults and other spellings would hide: only one way to write an experiment is taken.
        if encode_document(document._content()) != data:
            raise MalformedMessageError("the experiment is not written in its one way")
        return document

    def _content(self) -> dict[str, Any]:
        tokens = {"tokens": True} if self.tokens else {}
        kem = {} if self.kem == X25519 else {"kem": self.kem}
        return {
            **kem,
            **tokens,
            "binning": _write_binning(self.binning),
            "client_code": self.client_code,
            "coordinator_keys": [key.data.hex() for key in self.coordinator_keys],
            "features": {
                "description": self.features.description,
                "presence": self.features.presence,
                "source": self.features.source,
            },
            "floor": self.floor,
            "gateway_note": self.gateway_note,
            "learning": write_learning(self.experiment, self.binning.bins),
            "log": None if self.log is None else self.log.to_content(),
            "privacy": self._privacy(),
            "question": self.question,
            "relays": [_write_relay(relay) for relay in self.relays],
            "rounds": self.rounds,
            "test": self.test,
            "threshold": self.threshold,
            "title": self.title,
            "train_share": ratio_text(self.train_share),
            "type": self.kind,
            "windows": {
                **({} if self.windows.relays is None else self.windows.relays.to_content()),
                "first_opening": self.windows.first_opening,
                "grace_s": self.windows.grace_s,
                "hours": [list(pair) for pair in self.windows.hours],
                "length_s": self.windows.length_s,
                "time_zone": self.windows.time_zone,
            },
        }

    def _privacy(self) -> dict[str, Any] | None:
        cover = self.experiment.cover
        if (self.privacy is None) != (cover is None):
            raise LocalProtocolError("an experiment with cover tells what it was asked for, and one without does not")
        if self.privacy is None or cover is None:
            return None
        if cover.train_share != self.train_share:
            raise LocalProtocolError("the cover was made for another share of devices that train")
        return write_relay_cover(self.privacy, cover)


def publish(document: ExperimentDocument, *, keys: tuple[SigningKey, ...]) -> bytes:
    """The document in its envelope, signed by its own coordinator keys."""
    if not {key.public for key in keys} <= set(document.coordinator_keys) or len(keys) < document.threshold:
        raise LocalProtocolError("an experiment is signed by enough of the keys that it names")
    return sign(document.data, purpose=document.kind, keys=keys)


@lru_cache(maxsize=64)
def read_published(data: bytes, *, digest: str) -> ExperimentDocument:
    """The experiment of this digest, out of its envelope. Read once, by its bytes.

    The digest is what the person agreed to, and it fixes the keys; the signature says that their owners stand by it.
    """
    from_inside = ExperimentDocument.from_bytes(Envelope.from_bytes(data).payload)
    if from_inside.digest != digest:
        raise MalformedMessageError("this is another experiment")
    verify(data, purpose=from_inside.kind, keys=from_inside.coordinator_keys, threshold=from_inside.threshold)
    return from_inside


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_binning(binning: HashedBins | VocabularyBins) -> dict[str, Any]:
    if isinstance(binning, VocabularyBins):
        return {"bins": binning.bins, "digest": binning.digest, "kind": "vocabulary"}
    return {
        "beacons": [{"chain": beacon.chain, "round": beacon.round_number} for beacon in binning.beacons],
        "bins": binning.bins,
        "hashes": binning.hashes,
        "kind": "hash",
        "salt": None if binning.salt is None else binning.salt.hex(),
    }


def _read_binning(fields: Fields) -> HashedBins | VocabularyBins:
    kind = fields.text("kind", longest=20)
    bins = fields.integer("bins", 1, MAX_BINS)
    binning: HashedBins | VocabularyBins
    if kind == "vocabulary":
        binning = VocabularyBins(bins=bins, digest=fields.digest("digest"))
    elif kind == "hash":
        salt = None if fields.is_null("salt") else fields.hexadecimal("salt", shortest=16, longest=64)
        beacons = []
        for beacon in fields.inner_list("beacons", longest=8):
            chain = beacon.text("chain", longest=64, pattern=_NAME)
            beacons.append(Beacon(chain=chain, round_number=beacon.integer("round", 1)))
            beacon.done()
        binning = HashedBins(
            bins=bins, hashes=fields.integer("hashes", 1, MAX_HASHES), salt=salt, beacons=tuple(beacons)
        )
        if (salt is None) != bool(beacons):
            raise MalformedMessageError("an experiment's salt stands in it, or beacons will fix it")
    else:
        raise fields.refuse("kind")
    fields.done()
    return binning


def _read_features(fields: Fields) -> FeaturesWanted:
    features = FeaturesWanted(
        source=fields.text("source", longest=64, pattern=_NAME),
        description=fields.text("description", longest=4000),
        presence=fields.flag("presence"),
    )
    fields.done()
    return features


def _read_windows(fields: Fields, *, relayed: bool) -> Windows:
    pairs: list[tuple[int, int]] = []
    for item in fields.items("hours", shortest=1, longest=24):
        match item:
            case [start, end] if is_integer(start) and is_integer(end):
                pairs.append((start, end))
            case _:
                raise fields.refuse("hours")
    hours = [hour for pair in pairs for hour in pair]
    if hours != sorted(set(hours)) or not 0 <= hours[0] < hours[-1] <= 24:
        raise fields.refuse("hours")
    windows = Windows(
        length_s=fields.integer("length_s", 1, MAX_WINDOW_S),
        grace_s=fields.integer("grace_s", 0, MAX_WINDOW_S),
        first_opening=fields.integer("first_opening", 0),
        hours=tuple(pairs),
        time_zone=fields.text("time_zone", longest=64, pattern=_ZONE),
        relays=RelayTimes.from_fields(fields) if relayed else None,
    )
    fields.done()
    return windows


def _read_key(item: object) -> VerifyKey:
    fields = Fields({"key": item}, "a list of keys")
    return VerifyKey(fields.hexadecimal("key", shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES))


def _check_log_keys(document: ExperimentDocument) -> None:
    """The log's key and the witnesses' sign nothing else, and a witness is none of the parties that it watches."""
    if document.log is None:
        return
    others = {*document.coordinator_keys, *(relay.key for relay in document.relays)}
    if not others.isdisjoint({document.log.key, *(witness.key for witness in document.log.witnesses)}):
        raise MalformedMessageError("a key of the experiment's log is that of another party")


def _check_relayed(document: ExperimentDocument) -> None:
    """What an experiment with two relays is held to as a whole."""
    binning = document.binning
    check_relayed(
        document.experiment,
        hashes=binning.hashes if isinstance(binning, HashedBins) else 1,
        presence=document.features.presence,
        roles=[relay.role for relay in document.relays],
        keys=[relay.key.data for relay in document.relays],
    )
    # Everybody derives an opened part byte for byte, and what X-Wing throws cannot be derived.
    if document.kem != X25519:
        raise MalformedMessageError("capsules for two relays are sealed with X25519, and the document names no KEM")


def _write_relay(relay: Relay) -> dict[str, Any]:
    told = {"operator": relay.operator, "role": relay.role}
    there = {name: value for name, value in told.items() if value is not None}
    return {"key": relay.key.data.hex(), **there, "url": relay.url}


def _read_relay(fields: Fields, *, test: bool, relayed: bool) -> Relay:
    url = fields.text("url", longest=510, pattern=_URL)
    key = VerifyKey(fields.hexadecimal("key", shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES))
    role: RelayRole | None = None
    operator = fields.text("operator", shortest=1, longest=200) if relayed else None
    if relayed:
        named = fields.text("role", longest=20)
        role = next((known for known in ROLES if known == named), None)
        if role is None:
            raise fields.refuse("role")
    fields.done()
    if not test and not url.startswith("https:"):
        raise MalformedMessageError("a relay's url must begin with https, unless the experiment is marked as a test")
    return Relay(url=url, key=key, role=role, operator=operator)
