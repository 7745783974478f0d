"""The experiment as it is published: canonical bytes, signed once, and from then on a digest that nobody can bend.

Everything that decides what a device computes and sends is in here or in a manifest, and every manifest names this
document's digest. What the learning core needs is an ``Experiment``; around it stand the question in words, who asks it
and what for, binning, windows, floor, cohorts, the number of rounds, privacy, and whose signatures count.

``log`` says in whose log its rounds stand and whose cosignatures count; without one (null) nobody can be held to having
told everybody the same. ``privacy`` is two relays' cover with all its numbers (``terms``), or null: no
guarantee. A document with cover has a type of its own, and its relays have roles. The digest of the client's code
proves nothing without attestation; it says what the publisher claims to have tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, TypeVar

from secvm.crypto.sealing.kem import PUBLIC_KEY_BYTES as KEM_KEY_BYTES
from secvm.crypto.sealing.kem import X25519
from secvm.crypto.signing import Envelope, SigningKey, VerifyKey, sign, verify
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning import aggregate
from secvm.learning.cover_law import RelayCover, relay_budget
from secvm.learning.declared import MAX_BINS, MAX_HASHES
from secvm.learning.experiment import Experiment
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import (
    Fields,
    decode_document,
    digest_of,
    encode_document,
    ratio_text,
)
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, ExperimentId
from secvm.protocol.documents.terms import (
    ROLES,
    RelayRole,
    RelayTimes,
    read_learning,
    read_relay_cover,
    write_learning,
    write_relay_cover,
)
from secvm.protocol.log.entries import CoordinatorRecord
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.records import (
    BESIDE,
    OMITTED,
    Digest,
    FieldKind,
    Flag,
    Record,
    SignerKey,
    listed,
    text,
    whole,
    words,
)
from secvm.protocol.version import EXPERIMENT_TYPE, MAX_ROUND, RELAYED_EXPERIMENT_TYPE

MAX_DOCUMENT_BYTES = 2**18
#: A week: who waits longer for a round has another problem.
MAX_WINDOW_S = 7 * 86_400
#: A hundred years.
MAX_DAYS = 36_500
MAX_KEYS = 8
_URL = r"https?://[!-~]{1,500}"
#: What is said to these is sealed on the way, to an onion service by Tor.
_SEALED_WAY = re.compile(r"https:.*|http://([a-z0-9-]+\.)*[a-z2-7]{56}\.onion(:[0-9]{1,5})?(/.*)?")
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}"
_NAME = r"[a-z0-9][a-z0-9.-]*"
T = TypeVar("T")
C = TypeVar("C", bound=CoordinatorRecord)


def _read_hours(fields: Fields, name: str) -> tuple[tuple[int, int], ...]:
    """Pairs of hours of the day, ascending."""
    pairs = [(item.counts("item", longest=2)) for item in fields.each(name, shortest=1, longest=24)]
    hours = [hour for pair in pairs for hour in pair]
    if any(len(pair) != 2 for pair in pairs) or hours != sorted(set(hours)) or hours[-1] > 24:
        raise fields.refuse(name, "pairs of hours from 0 to 24, ascending")
    return tuple((start, end) for start, end in pairs)


_HOURS = FieldKind(_read_hours, lambda hours: [list(pair) for pair in hours])
_SALT = FieldKind(lambda fields, name: fields.hexadecimal(name, shortest=16, longest=64), lambda salt: salt.hex())


@dataclass(frozen=True, slots=True)
class Beacon(Record):
    """A round of a public randomness beacon that lay in the future when the experiment was published."""

    #: Such as "drand-quicknet" or "nist-2.0-chain-2" (``secvm.crypto.beacons.sources``).
    chain: Annotated[str, text(longest=64, pattern=_NAME)]
    round_number: Annotated[int, whole(1, name="round")]


@dataclass(frozen=True, slots=True)
class HashedBins(Record):
    """Bins by salted hash."""

    bins: Annotated[int, whole(1, MAX_BINS)]
    hashes: Annotated[int, whole(1, MAX_HASHES)] = 1
    #: The salt, or None where beacons will fix it.
    salt: Annotated[bytes, _SALT] | None = None
    #: The beacon rounds that will fix the salt; empty where it stands here.
    beacons: Annotated[tuple[Beacon, ...], listed(Beacon, longest=8)] = ()

    def _check_whole(self) -> None:
        if (self.salt is None) != bool(self.beacons):
            raise MalformedMessageError("an experiment's salt stands in it, or beacons will fix it")


@dataclass(frozen=True, slots=True)
class VocabularyBins(Record):
    """The words of a public list as bins."""

    bins: Annotated[int, whole(1, MAX_BINS)]
    #: The list's name (docs/protocol.md §2.9), in hexadecimal.
    digest: Digest
    #: A word has one bin.
    hashes: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class FeaturesWanted(Record):
    """What a device looks at."""

    #: The source on the device by name, such as "history-titles".
    source: Annotated[str, text(longest=64, pattern=_NAME)]
    #: In words, for the person.
    description: Annotated[str, text(longest=4000)]
    #: A feature counts once, however often it occurs.
    presence: Flag = True
    #: How many days the source may look back; None: as far as it can.
    days: Annotated[Annotated[int, whole(1, MAX_DAYS)] | None, OMITTED] = None


@dataclass(frozen=True, slots=True)
class Windows(Record):
    """When rounds happen."""

    #: Length of every window.
    length_s: Annotated[int, whole(1, MAX_WINDOW_S)]
    #: How long after a window's end late capsules are still taken.
    grace_s: Annotated[int, whole(0, MAX_WINDOW_S)]
    #: The earliest opening of round 1, in milliseconds.
    first_opening: Annotated[int, whole(0)]
    #: [from, to) in hours of the day, ascending: windows open only then.
    hours: Annotated[tuple[tuple[int, int], ...], _HOURS] = ((0, 24),)
    #: IANA name of the zone whose hours are meant. Its offset is looked up by whoever owns a time zone database.
    time_zone: Annotated[str, text(longest=64, pattern=_ZONE)] = "UTC"
    #: How long the steps after a window take where there are two relays; else None.
    relays: Annotated[RelayTimes | None, BESIDE] = None

    def open_at_hour(self, opens_at: int, *, offset_s: int) -> bool:
        """Whether a window may open at this instant, where local time is ``offset_s`` seconds ahead of UTC."""
        hour = (opens_at // 1000 + offset_s) % 86_400 // 3600
        return any(start <= hour < end for start, end in self.hours)


@dataclass(frozen=True, slots=True)
class Relay(Record):
    """A relay that devices may use."""

    url: Annotated[str, text(longest=510, pattern=_URL)]
    #: Signs the relay's counts.
    key: SignerKey
    #: What it does, and who runs it, where there are two relays; else None.
    role: Annotated[Annotated[RelayRole, words(*ROLES)] | None, OMITTED] = None
    operator: Annotated[Annotated[str, text(longest=200, shortest=1)] | None, OMITTED] = None

    @property
    def host(self) -> str:
        """Whose it is, as far as a URL tells: host and port, and nothing that only looks like them."""
        return re.split(r"[/?#\\]", self.url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]


def _read_binning(fields: Fields, name: str) -> HashedBins | VocabularyBins:
    inner = fields.inner(name)
    kind = inner.one_of("kind", ["hash", "vocabulary"])
    return VocabularyBins.from_fields(inner) if kind == "vocabulary" else HashedBins.from_fields(inner)


def _write_binning(binning: HashedBins | VocabularyBins) -> dict[str, Any]:
    return {**binning.to_content(), "kind": "vocabulary" if isinstance(binning, VocabularyBins) else "hash"}


def _read_share(fields: Fields, name: str) -> Fraction:
    share = fields.ratio(name)
    if not 0 < share <= 1:
        raise fields.refuse(name, f"greater than 0 and at most 1, not {share}")
    return share


def _read_kem(fields: Fields, name: str) -> int:
    kem = fields.integer(name, 0)
    if kem not in KEM_KEY_BYTES:
        raise fields.refuse(name, f"one of {sorted(KEM_KEY_BYTES)}, not {kem}")
    return kem


_KEM = FieldKind(_read_kem)
_BINNING = FieldKind(_read_binning, _write_binning)
_SHARE = FieldKind(_read_share, ratio_text)


@dataclass(frozen=True, kw_only=True)
class ExperimentDocument(Record):
    """One experiment, published."""

    title: Annotated[str, text(shortest=1, longest=200)]
    #: What is asked, in words.
    question: Annotated[str, text(longest=4000)]
    experiment: Experiment
    features: FeaturesWanted
    binning: Annotated[HashedBins | VocabularyBins, _BINNING]
    windows: Windows
    #: Fewest train participants; below, a round is abandoned.
    floor: Annotated[int, whole(1)]
    #: Probability with which a device trains; the others test.
    train_share: Annotated[Fraction, _SHARE]
    #: T: after so many rounds the experiment is over, abandoned ones included.
    rounds: Annotated[int, whole(1, MAX_ROUND)]
    #: Whose signatures make a manifest, and how many of them are needed.
    coordinator_keys: Annotated[tuple[VerifyKey, ...], listed(SignerKey, shortest=1, longest=MAX_KEYS)]
    threshold: Annotated[int, whole(1)] = 1
    relays: Annotated[tuple[Relay, ...], listed(Relay, longest=16)] = ()
    #: In words: who asks, how to reach them, and what for. A test may leave them empty.
    operator: Annotated[Annotated[str, text(longest=200)], OMITTED] = ""
    contact: Annotated[Annotated[str, text(longest=400)], OMITTED] = ""
    purpose: Annotated[Annotated[str, text(longest=1000)], OMITTED] = ""
    #: In words: who runs the gateway. Its keys come with the manifests.
    gateway_note: Annotated[str, text(longest=4000)] = ""
    #: Of the gateway's keys, by its number in HPKE's registry. A device that lacks it takes no part.
    kem: Annotated[Annotated[int, _KEM], OMITTED] = X25519
    #: SHA-256 of the client's code, in hexadecimal. Proves nothing without attestation.
    client_code: Digest | None = None
    #: The log of its rounds; None: there is none.
    log: LogTerms | None = None
    #: What two relays' cover was asked for; None: there is none, and no guarantee.
    privacy: PrivacyTarget | None = None
    #: Whether a submission to two relays needs an anonymous token, which the entry relay gives.
    tokens: Annotated[Flag, OMITTED] = False
    #: A test experiment: no people, seeded dice allowed, http and no relay allowed.
    test: Flag = False

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

    def _relayed(self, part: T | None) -> T:
        if part is None:
            raise LocalProtocolError("this experiment has not the cover of two relays: its privacy is null")
        return part

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

    def read(self, kind: type[C], envelope: bytes) -> C:
        """The document of this kind in an envelope that enough of the coordinator's keys signed.

        Raises ``MalformedMessageError`` or ``BadSignatureError``.
        """
        keys, threshold = self.coordinator_keys, self.threshold
        return kind.from_bytes(verify(envelope, purpose=kind.purpose, keys=keys, threshold=threshold))

    def read_any(self, kinds: tuple[type[C], ...], envelope: bytes) -> C:
        """A document of this experiment, of one of these kinds. Raises as ``read``."""
        payload = Envelope.from_bytes(envelope).payload
        kind = next((kind for kind in kinds if f'"type":"{kind.purpose}"'.encode() in payload), None)
        if kind is None:
            raise MalformedMessageError(f"this is neither {' nor '.join(kind.title for kind in kinds)}")
        document = self.read(kind, envelope)
        if document.experiment != self.digest:
            raise MalformedMessageError("the document is of another experiment")
        return document

    @classmethod
    def from_bytes(cls, data: bytes) -> ExperimentDocument:
        """The document of canonical bytes; anything else is refused."""
        fields = Fields(decode_document(data, max_bytes=MAX_DOCUMENT_BYTES), "the experiment")
        kind = fields.one_of("type", [EXPERIMENT_TYPE, RELAYED_EXPERIMENT_TYPE])
        relayed = kind == RELAYED_EXPERIMENT_TYPE
        values = cls.take_values(fields)
        privacy, experiment = None, read_learning(fields.inner("learning"), values["binning"].bins)
        if fields.is_null("privacy") == relayed:
            raise fields.refuse("privacy", "null without relays' cover, and only then")
        if relayed:
            privacy, experiment = read_relay_cover(fields.inner("privacy"), experiment, values["train_share"])
        document = cls(**values, experiment=experiment, privacy=privacy)
        fields.done()
        _check_parties(document, relayed=relayed)
        if relayed:
            _check_relayed(document)
        # What defaults and other spellings would hide: only one way to write an experiment is taken.
        if encode_document(document._content()) != data:
            raise MalformedMessageError("the experiment is not written in its one way")
        return document

    def _content(self) -> dict[str, Any]:
        return {
            **self.to_content(),
            "learning": write_learning(self.experiment, self.binning.bins),
            "privacy": self._privacy(),
            "type": self.kind,
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
def read_published(data: bytes, *, digest: str | None = None) -> ExperimentDocument:
    """The experiment of this digest, out of its envelope. Read once, by its bytes.

    The digest is what the person agreed to, and it fixes the keys; the signature says that their owners stand by it.
    Without a digest it is whichever experiment the envelope holds: for evidence, which brings its own along.
    """
    from_inside = ExperimentDocument.from_bytes(Envelope.from_bytes(data).payload)
    if digest not in (None, from_inside.digest):
        raise MalformedMessageError("this is another experiment")
    verify(data, purpose=from_inside.kind, keys=from_inside.coordinator_keys, threshold=from_inside.threshold)
    return from_inside


def _check_parties(document: ExperimentDocument, *, relayed: bool) -> None:
    """What must hold of the keys, the relays and the log of an experiment together."""
    keys, relays = document.coordinator_keys, document.relays
    if len(set(keys)) != len(keys):
        raise MalformedMessageError(f"the experiment lists {len(keys)} coordinator keys, of which some are the same")
    if document.threshold > len(keys):
        raise MalformedMessageError(f"{document.threshold} signatures are needed, and there are {len(keys)} keys")
    if not relays and not document.test:
        raise MalformedMessageError("the experiment lists no relay; only one that is marked as a test may have none")
    if any((relay.role is None, relay.operator is None) != (not relayed, not relayed) for relay in relays):
        raise MalformedMessageError("a relay has a role and an operator where there is relays' cover, and only there")
    if document.tokens and not relayed:
        raise MalformedMessageError("the experiment has fields that it should not have: tokens")
    if (document.windows.relays is None) == relayed:
        raise MalformedMessageError("windows tell the times of two relays where there is their cover, and only there")
    if not document.test and not all(_SEALED_WAY.fullmatch(relay.url) for relay in relays):
        raise MalformedMessageError(
            "a relay's url must begin with https, or be that of an onion service, unless the experiment is marked as a"
            " test"
        )
    if document.log is not None:
        # The log's key and the witnesses' sign nothing else, and a witness is none of the parties that it watches.
        others = {*keys, *(relay.key for relay in relays)}
        if not others.isdisjoint({document.log.key, *(witness.key for witness in document.log.witnesses)}):
            raise MalformedMessageError("a key of the experiment's log is that of another party")


def _check_relayed(document: ExperimentDocument) -> None:
    """What an experiment with two relays is held to as a whole."""
    experiment, features = document.experiment, document.experiment.features_per_person
    if not document.features.presence:
        raise MalformedMessageError("cover needs features that count by presence: a guarantee is about one unit")
    if tuple(relay.role for relay in document.relays) != ROLES or len({relay.key for relay in document.relays}) != 2:
        raise MalformedMessageError("relays' cover needs an entry relay, then a mixing relay, with keys of their own")
    if features is None:
        raise MalformedMessageError("relays' cover needs a bound on the features per person")
    violable = experiment.models.most_per_person
    budget = relay_budget(violable=violable, features=features, hashes=document.binning.hashes)
    if experiment.budget != budget:
        raise MalformedMessageError(
            f"the budget is {experiment.budget}, and a person's units before thinning, participation and canary"
            f" are {budget}"
        )
    # Everybody derives an opened part byte for byte, and what X-Wing throws cannot be derived.
    if document.kem != X25519:
        raise MalformedMessageError("capsules for two relays are sealed with X25519, and the document names no KEM")
