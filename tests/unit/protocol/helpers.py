"""An experiment with its keys, manifests of it, and dice, for the tests of the protocol."""

import hashlib
import json
from collections.abc import Iterator
from copy import copy
from fractions import Fraction
from typing import Any

import numpy as np

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.crypto.signing import SigningKey
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TrainPackage
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument, FeaturesWanted, HashedBins, Relay, Windows
from secvm.protocol.documents.manifest import LastRound, RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.log.entries import ModelNames
from secvm.protocol.log.policy import LogTerms, Witness
from secvm.protocol.plain.session import ParticipantSession

COORDINATOR = SigningKey(b"coordinator".ljust(32, b"\0"))
SECOND = SigningKey(b"second coordinator".ljust(32, b"\0"))
RELAY = SigningKey(b"relay".ljust(32, b"\0"))
STRANGER = SigningKey(b"stranger".ljust(32, b"\0"))
LOG = SigningKey(b"log".ljust(32, b"\0"))
WITNESSES = [SigningKey(f"witness {i}".encode().ljust(32, b"\0")) for i in range(3)]

#: 2026-01-01, and the lengths of the windows.
START = 1_767_225_600_000
LENGTH_S, GRACE_S = 600, 60
#: What manifests tell of the gateway.
GATEWAY_KEYS, OTHER_KEYS = (
    encode_key_configurations([GatewayKey(7, X25519PrivateKey(secret.ljust(32, b"\0"))).configuration])
    for secret in (b"gateway", b"other gateway")
)
EXPERIMENT = Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos(), budget=5)


def log_terms() -> LogTerms:
    return LogTerms(
        name="log.example",
        key=LOG.public,
        witnesses=tuple(Witness(f"w{i}.example", key.public) for i, key in enumerate(WITNESSES)),
        quorum=2,
        freshness_s=3600,
    )


def document(**changes: Any) -> ExperimentDocument:
    told: dict[str, Any] = {
        "title": "Which words tell a from b?",
        "question": "",
        "experiment": EXPERIMENT,
        "features": FeaturesWanted(source="words", description="Words that the person has written."),
        "binning": HashedBins(bins=changes.get("experiment", EXPERIMENT).n_bins, salt=bytes(16)),
        "windows": Windows(length_s=LENGTH_S, grace_s=GRACE_S, first_opening=START),
        "floor": 3,
        "train_share": Fraction(7, 10),
        "rounds": 30,
        "coordinator_keys": (COORDINATOR.public,),
        "relays": (Relay(url="https://relay.example/", key=RELAY.public),),
    }
    return ExperimentDocument(**{**told, **changes})


def changed(data: bytes, path: str, value: object) -> bytes:
    """The document of these bytes with the field at a dotted path changed; ``KeyError`` takes it out."""
    content: Any = json.loads(data)
    *outer, name = path.split(".")
    inner = content
    for step in outer:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    if value is KeyError:
        del inner[name]
    else:
        inner[name] = value
    return encode_document(content)


def digests(count: int) -> list[bytes]:
    """So many digests of capsules, ascending."""
    return sorted(hashlib.sha256(b"%d" % i).digest() for i in range(count))


def paths(value: object, prefix: str = "") -> list[str]:
    """Dotted paths to every field of a document, those of objects in lists included."""
    if isinstance(value, dict):
        return [p for name, inner in value.items() for p in (f"{prefix}{name}", *paths(inner, f"{prefix}{name}."))]
    if isinstance(value, list):
        return [p for i, inner in enumerate(value) if isinstance(inner, dict) for p in paths(inner, f"{prefix}{i}.")]
    return []


def opening(round_number: int) -> int:
    return START + (round_number - 1) * 1000 * (LENGTH_S + GRACE_S)


def tally(*participants: int) -> Tally:
    empty = aggregate.empty_tally(EXPERIMENT)
    return Tally(empty.plus, empty.minus, np.array(participants, dtype=np.int64), empty.cells)


def ended(before: RoundManifest, of: ExperimentDocument, counted: Tally | None = None) -> LastRound:
    """How a round ended that was counted, with the count of its relay where there is one."""
    count = RelayCount(before.opens_at, clients=40, capsules=200).signed(RELAY) if of.relays else None
    return last_round(tally(2, 2) if counted is None else counted, relay_count=count)


def names_of_model(number: int) -> ModelNames:
    """Digests that name no model."""
    state, training, evaluation = (
        digest_of(b"%s %d" % (part, number)) for part in (b"state", b"training", b"evaluation")
    )
    return state, training, evaluation


def manifests(count: int, of: ExperimentDocument, **changes: Any) -> list[RoundManifest]:
    """Rounds 1, 2, … of a coordinator that behaves; the changes go into the last one."""
    made: list[RoundManifest] = []
    before: RoundManifest | None = None
    last: LastRound | None = None
    for number in range(1, count + 1):
        told: dict[str, Any] = {
            "opens_at": opening(number),
            "model": names_of_model(number),
            "gateway_keys": GATEWAY_KEYS,
            "before": before,
            "last": last,
        }
        before = make_manifest(of, **{**told, **(changes if number == count else {})})
        last = ended(before, of)
        made.append(before)
    return made


def served(manifest: RoundManifest, *keys: SigningKey) -> bytes:
    return manifest.signed(keys or (COORDINATOR,))


def words(seed: object = 0) -> Iterator[int]:
    """Dice that can be thrown again."""
    block = 0
    while True:
        data = hashlib.blake2b(f"{seed} {block}".encode()).digest()
        yield from (int.from_bytes(data[i : i + 8], "little") for i in range(0, 64, 8))
        block += 1


def packages(budget: int = 5) -> tuple[Package, ...]:
    sent: list[Package] = [
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=1),
        *(TrainPackage(model=0, bin_index=i, sign=1) for i in range(min(3, budget - 1))),
    ]
    return (*sent, *(NullPackage() for _ in range(budget - len(sent))))


def state_of(session: ParticipantSession) -> dict[str, Any]:
    """All that a session remembers, apart from what its owner was told last and from how it is sorted."""
    left_out = {"_document", "_seal", "_told", "_touched", "_order"}
    return {name: copy(value) for name, value in vars(session).items() if name not in left_out}
