"""The experiment as it is published: canonical bytes, signed once, and from then on a digest that nobody can bend.

Everything that decides what a device computes and sends is in here or in a manifest, and every manifest names this
document's digest. What the learning core needs is an ``Experiment``; around it stand the question in words, binning,
windows, floor, cohorts, the number of rounds, privacy, and whose signatures count.

``log`` says in whose log its rounds stand and whose cosignatures count; without one (null) nobody can be held to having
told everybody the same. ``privacy`` is "plain", or cover with all its numbers (``protocol.cover_terms``). The digest of
the client's code proves nothing without attestation; it says what the publisher claims to have tested.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from secvm.crypto.signing import PUBLIC_KEY_BYTES, Envelope, SigningKey, VerifyKey, sign, verify
from secvm.crypto.tokens import MAX_TOKENS
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import EXPERIMENT_ID_BYTES, MAX_BINS, ExperimentId
from secvm.protocol.cover_terms import CoverTerms, check_covered, read_privacy, write_privacy
from secvm.protocol.documents import (
    Fields,
    decode_document,
    digest_of,
    encode_document,
    is_integer,
    ratio_text,
)
from secvm.protocol.learning_terms import read_learning, write_learning
from secvm.protocol.log import LogTerms
from secvm.protocol.tokens import TokenTerms
from secvm.protocol.version import EXPERIMENT_TYPE, MAX_ROUND

MAX_DOCUMENT_BYTES = 2**18
MAX_HASHES = 16
#: A week: who waits longer for a round has another problem.
MAX_WINDOW_S = 7 * 86_400
MAX_KEYS = 8
_URL = r"https?://[!-~]{1,500}"
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}"
_NAME = r"[a-z0-9][a-z0-9.-]*"


#: What becomes of capsules at a relay (docs/protocol.md §19.6).
RelayMode = Literal["forward", "interval", "round"]


@dataclass(frozen=True, slots=True)
class Beacon:
    """A round of a public randomness beacon that lay in the future when the experiment was published."""

    #: Such as "drand-quicknet" or "nist-2.0-chain-2" (``secvm.crypto.beacon``).
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
    #: What it promises to be; None: nothing is told of it.
    mode: RelayMode | None = None


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
    #: SHA-256 of the client's code, in hexadecimal. Proves nothing without attestation.
    client_code: str | None = None
    #: The log of its rounds; None: there is none.
    log: LogTerms | None = None
    #: What the experiment's cover was asked and planned for; None: plain, and the experiment has no cover.
    privacy: CoverTerms | None = None
    #: Who issues anonymous tokens; None: packages carry none.
    tokens: TokenTerms | None = None
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
        vectors = len(self.experiment.rule.start(1, 1).vectors) + (0 if robust is None else len(robust.names))
        return 8 * vectors * self.experiment.models.n_models * (self.experiment.n_bins + 1)

    def reaches_floor(self, participants: Iterable[int]) -> bool:
        """Whether a round with these counts of train participants, per label, has enough people to count.

        The floor is about people: where counts hold cover, it is compared with how many of them cover leaves.
        """
        return self.experiment.train_people(tuple(participants)) >= self.floor

    def check_seeded_dice(self) -> None:
        """Seeded dice may be thrown here, or this raises: who knows the seed knows every throw."""
        if not self.test:
            raise LocalProtocolError("seeded dice are for experiments that are marked as a test")

    @classmethod
    def from_bytes(cls, data: bytes) -> ExperimentDocument:
        """The document of canonical bytes; anything else is refused."""
        fields = Fields(decode_document(data, max_bytes=MAX_DOCUMENT_BYTES), "the experiment")
        fields.constant("type", EXPERIMENT_TYPE)
        test = fields.flag("test")
        binning = _read_binning(fields.inner("binning"))
        relays = [_read_relay(relay, test=test) for relay in fields.inner_list("relays", longest=16)]
        keys = [_read_key(item) for item in fields.items("coordinator_keys", shortest=1, longest=MAX_KEYS)]
        train_share = fields.ratio("train_share")
        if not 0 < train_share <= 1:
            raise fields.refuse("train_share")
        learning = read_learning(fields.inner("learning"), binning.bins)
        privacy, experiment = read_privacy(fields.inner("privacy"), learning, train_share)
        document = cls(
            title=fields.text("title", shortest=1, longest=200),
            question=fields.text("question", longest=4000),
            experiment=experiment,
            features=_read_features(fields.inner("features")),
            binning=binning,
            windows=_read_windows(fields.inner("windows")),
            floor=fields.integer("floor", 1),
            train_share=train_share,
            rounds=fields.integer("rounds", 1, MAX_ROUND),
            coordinator_keys=tuple(keys),
            threshold=fields.integer("threshold", 1, len(set(keys))),
            relays=tuple(relays),
            gateway_note=fields.text("gateway_note", longest=4000),
            client_code=None if fields.is_null("client_code") else fields.digest("client_code"),
            log=None if fields.is_null("log") else LogTerms.from_fields(fields.inner("log")),
            # Only documents of experiments with tokens have the field.
            tokens=TokenTerms.from_fields(fields.inner("tokens"), test=test) if fields.has("tokens") else None,
            privacy=privacy,
            test=test,
        )
        fields.done()
        if document.tokens is not None and document.budget > MAX_TOKENS:
            raise MalformedMessageError("no issuer gives so many tokens at once as this budget needs")
        if len(set(keys)) != len(keys) or not (relays or test):
            raise MalformedMessageError("keys or relays of the experiment are not as they should be")
        _check_log_keys(document)
        if privacy is not None:
            check_covered(
                presence=document.features.presence,
                modes=[relay.mode for relay in relays],
                floor=document.floor,
                labels=len(experiment.labels),
            )
        # What defaults and other spellings would hide: only one way to write an experiment is taken.
        if encode_document(document._content()) != data:
            raise MalformedMessageError("the experiment is not written in its one way")
        return document

    def _content(self) -> dict[str, Any]:
        tokens = {} if self.tokens is None else {"tokens": self.tokens.to_content()}
        return tokens | {
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
            "privacy": write_privacy(self.privacy, self.experiment, self.train_share),
            "question": self.question,
            "relays": [_write_relay(relay) for relay in self.relays],
            "rounds": self.rounds,
            "test": self.test,
            "threshold": self.threshold,
            "title": self.title,
            "train_share": ratio_text(self.train_share),
            "type": EXPERIMENT_TYPE,
            "windows": {
                "first_opening": self.windows.first_opening,
                "grace_s": self.windows.grace_s,
                "hours": [list(pair) for pair in self.windows.hours],
                "length_s": self.windows.length_s,
                "time_zone": self.windows.time_zone,
            },
        }


def publish(document: ExperimentDocument, *, keys: tuple[SigningKey, ...]) -> bytes:
    """The document in its envelope, signed by its own coordinator keys."""
    if not {key.public for key in keys} <= set(document.coordinator_keys) or len(keys) < document.threshold:
        raise LocalProtocolError("an experiment is signed by enough of the keys that it names")
    return sign(document.data, purpose=EXPERIMENT_TYPE, keys=keys)


def read_published(data: bytes, *, digest: str) -> ExperimentDocument:
    """The experiment of this digest, out of its envelope.

    The digest is what the person agreed to, and it fixes the keys; the signature says that their owners stand by it.
    """
    from_inside = ExperimentDocument.from_bytes(Envelope.from_bytes(data).payload)
    if from_inside.digest != digest:
        raise MalformedMessageError("this is another experiment")
    verify(data, purpose=EXPERIMENT_TYPE, keys=from_inside.coordinator_keys, threshold=from_inside.threshold)
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


def _read_windows(fields: Fields) -> Windows:
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


def _write_relay(relay: Relay) -> dict[str, Any]:
    told = {} if relay.mode is None else {"mode": relay.mode}
    return {"key": relay.key.data.hex(), **told, "url": relay.url}


def _read_relay(fields: Fields, *, test: bool) -> Relay:
    url = fields.text("url", longest=510, pattern=_URL)
    key = VerifyKey(fields.hexadecimal("key", shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES))
    mode: RelayMode | None = None
    if fields.has("mode"):
        told = fields.text("mode", longest=20)
        mode = next((known for known in get_args(RelayMode) if known == told), None)
        if mode is None:
            raise fields.refuse("mode")
    fields.done()
    if not test and not url.startswith("https:"):
        raise MalformedMessageError("a relay's url must begin with https, unless the experiment is marked as a test")
    return Relay(url=url, key=key, mode=mode)
