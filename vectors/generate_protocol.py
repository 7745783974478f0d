"""The vectors of what travels: packages, documents, envelopes, manifests, schedules. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from shared import COORDINATOR, JSON, RELAY, SECOND, START, STRANGER, as_json, log_terms, names, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing import binary_http, kem
from secvm.crypto.sealing.oblivious import OUR_ALGORITHMS
from secvm.crypto.signing import sign, signed_bytes
from secvm.learning import aggregate
from secvm.learning._kernels import reference
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.package import (
    Cohort,
    NullPackage,
    Package,
    ParticipationPackage,
    TestPackage,
    TrainPackage,
)
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import encode_document
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.documents.blobs import encode_tally
from secvm.protocol.documents.ending import Ending, Why, make_ending
from secvm.protocol.documents.experiment import (
    Beacon,
    ExperimentDocument,
    FeaturesWanted,
    HashedBins,
    Relay,
    VocabularyBins,
    Windows,
)
from secvm.protocol.documents.manifest import RelayCount, RoundManifest, last_round, make_manifest
from secvm.protocol.plain.sealed_requests import fetch_answer, fetch_request, package_request
from secvm.protocol.problems import PROBLEMS
from secvm.protocol.schedule import Window, redraw, shuffle, spread
from secvm.protocol.version import ENDING_TYPE, EXPERIMENT_TYPE, MANIFEST_TYPE

ID = ExperimentId(bytes(range(16)))
#: The first and the last of each range of characters that no text holds (§10), but for halves of surrogate pairs, which
#: no bytes of UTF-8 have.
UNPRINTABLE = (
    "\x00\x1f\x7f\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u202e\u2060\u206f\ue000\uf8ff\ufeff\ufff9\ufffb"
    "\U0001bca0\U0001bca3\U0001d173\U0001d17a\U000e0000\U0010ffff"
)


def packages() -> JSON:
    """Packages and their 32 bytes."""
    inputs: list[tuple[ExperimentId, int, Package]] = [
        (ID, 1, TrainPackage(model=0, bin_index=0, sign=1)),
        (ID, 1, TrainPackage(model=0, bin_index=0, sign=-1)),
        (ID, 258, TrainPackage(model=259, bin_index=66_051, sign=1)),
        (ExperimentId(b"\xff" * 16), 2**20 - 1, TrainPackage(model=4095, bin_index=2**24, sign=-1)),
        (ID, 2, TestPackage(true_class=0, predicted_class=0)),
        (ID, 2, TestPackage(true_class=4095, predicted_class=1)),
        (ID, 2, TestPackage(true_class=1, predicted_class=4095)),
        (ID, 3, ParticipationPackage(cohort=Cohort.TRAIN, class_index=0)),
        (ID, 3, ParticipationPackage(cohort=Cohort.TEST, class_index=4095)),
        (ID, 4, NullPackage()),
    ]
    return {
        "description": "Packages of a round of an experiment, and their bytes.",
        "cases": [
            {
                "experiment_id": experiment_id.hex(),
                "round": number,
                "package": as_json(package),
                "bytes": encode(AddressedPackage(experiment_id, number, package)).hex(),
            }
            for experiment_id, number, package in inputs
        ],
    }


def bad_encodings() -> JSON:
    """Bytes that are no package."""
    train = encode(AddressedPackage(ID, 1, TrainPackage(model=0, bin_index=0, sign=1)))
    test = encode(AddressedPackage(ID, 1, TestPackage(true_class=0, predicted_class=0)))
    participation = encode(AddressedPackage(ID, 1, ParticipationPackage(cohort=Cohort.TRAIN, class_index=0)))
    null = encode(AddressedPackage(ID, 1, NullPackage()))

    def put(data: bytes, at: int, *values: int) -> bytes:
        return data[:at] + bytes(values) + data[at + len(values) :]

    inputs = {
        "nothing": b"",
        "a byte too few": train[:-1],
        "a byte too many": train + b"\0",
        "version 0": put(train, 0, 0),
        "version 2": put(train, 0, 2),
        "kind 0": put(null, 1, 0),
        "kind 5": put(null, 1, 5),
        "round 0": put(train, 18, 0),
        "a round too large": put(train, 20, 16),
        "a model too large": put(train, 23, 16),
        "a bin too large": put(train, 24, 1, 0, 0, 1),
        "a sign of zero": put(train, 28, 0),
        "a sign of three": put(train, 28, 3),
        "something after the sign": put(train, 29, 1),
        "something in the last byte": put(train, 31, 1),
        "a test package with a sign": put(test, 28, 1),
        "a true label too large": put(test, 23, 16),
        "a predicted label too large": put(test, 25, 16),
        "a cohort of zero": put(participation, 28, 0),
        "a cohort of three": put(participation, 28, 3),
        "a participation package with a bin": put(participation, 24, 1),
        "a null package with a model": put(null, 22, 1),
        "a null package with a bin": put(null, 27, 1),
        "a null package with a sign": put(null, 28, 1),
        "a null package with something after": put(null, 30, 1),
    }
    return {
        "description": "Bytes that must be refused as a package; `good` are some that must be taken.",
        "good": [data.hex() for data in (train, test, participation, null)],
        "cases": with_reasons(inputs),
    }


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────────


def document(**changes: Any) -> ExperimentDocument:
    """A small experiment with all that it needs."""
    fields: JSON = {
        "title": "Which words tell a from b?",
        "question": "",
        "experiment": Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos(), budget=5),
        "features": FeaturesWanted(source="words", description="Words that the person has written."),
        "binning": HashedBins(bins=10, salt=bytes(range(16))),
        "windows": Windows(length_s=600, grace_s=60, first_opening=START),
        "floor": 3,
        "train_share": Fraction(7, 10),
        "rounds": 30,
        "coordinator_keys": (COORDINATOR.public,),
        "relays": (Relay(url="https://relay.example/", key=RELAY.public),),
    }
    return ExperimentDocument(**{**fields, **changes})


def terms(count: int = 3, *, first: int = 11) -> JSON:
    """The terms of a log, as documents write them."""
    return log_terms(count, first=first).to_content()


def plain_experiment_document() -> JSON:
    """Published experiments as bytes."""
    swift = Experiment(
        n_bins=3000,
        labels=("Größe", '"\\/\u00a0', "👩\u200d🚀", "می\u200cخواهم"),
        rule=Swift(),
        thinning=Thinning(rho=Fraction(3)),
        class_weights=(Fraction(1), Fraction(1, 2), Fraction(0), Fraction(2)),
        multiclass="ovo",
        features_per_person=100,
        budget=300,
        robust=Robust(clip=Fraction(1, 2), trim=3),
    )
    inputs = {
        "the smallest": document(),
        "beacons, several keys, hours of the day, other letters": document(
            experiment=swift,
            question="Größe?\u2027\ufffd",
            binning=HashedBins(bins=3000, hashes=2, beacons=(Beacon("drand-quicknet", 7), Beacon("nist-2.0", 2**52))),
            windows=Windows(
                length_s=3600, grace_s=0, first_opening=0, hours=((7, 9), (18, 24)), time_zone="Europe/Berlin"
            ),
            coordinator_keys=(COORDINATOR.public, SECOND.public),
            threshold=2,
            client_code="ab" * 32,
            gateway_note="Run by nobody you know.",
        ),
        "a vocabulary, a test": document(
            binning=VocabularyBins(bins=10, digest="cd" * 32),
            test=True,
            relays=(),
            features=FeaturesWanted("w", "", presence=False),
        ),
        "a log with three witnesses, two of whom are needed": document(log=log_terms()),
        "several relays": document(
            relays=tuple(Relay(url=f"https://{name}.example/", key=RELAY.public) for name in ("north", "south"))
        ),
        "keys of MLKEM768-X25519": document(kem=kem.MLKEM768_X25519),
    }
    return {
        "description": "Experiments as published: canonical text, its SHA-256, and the id that packages carry.",
        "cases": [
            {
                "note": note,
                "text": made.data.decode(),
                "digest": made.digest,
                "experiment_id": made.experiment_id.hex(),
            }
            for note, made in inputs.items()
        ],
    }


def bad_plain_experiment_documents() -> JSON:
    """Texts that are no published experiment."""
    good = document().data.decode()

    def put(path: str, value: object, text: str = good) -> str:
        content: Any = json.loads(text)
        inner = content
        *outer, name = path.split(".")
        for step in outer:
            inner = inner[step]
        inner[name] = value
        return encode_document(content).decode()

    relay = json.loads(good)["relays"][0]
    inputs = {
        "a line feed at the end": good + "\n",
        "a space": good.replace(":", ": ", 1),
        "keys out of order": json.dumps(dict(reversed(json.loads(good).items())), separators=(",", ":")),
        "a key twice": good.replace('"floor":3', '"floor":3,"floor":3'),
        "a float": good.replace('"floor":3', '"floor":3.0'),
        "an escape that is not needed": good.replace("words", "\\u0077ords", 1),
        "tokens with one relay": put("tokens", True),
        "a KEM that is told although it is X25519": put("kem", kem.X25519),
        "a KEM that nobody has": put("kem", 16),
        "a KEM that is null": put("kem", None),
        "an unknown key": put("x", None),
        "an unknown key inside": put("windows.x", None),
        "an unknown constant of the rule": put("learning.rule.constants.x", "1"),
        **{f"U+{ord(letter):04X} in the title": put("title", f"a{letter}b") for letter in UNPRINTABLE},
        "a line feed in the question": put("question", "one\ntwo"),
        "a direction mark in the description": put("features.description", "\u200fWords"),
        "a carriage return in the gateway's note": put("gateway_note", "one\r"),
        "an escape in a label": put("learning.labels", ["a", "b\u001b[8m"]),
        "another type": put("type", MANIFEST_TYPE),
        "a log that is no object": put("log", "log"),
        "a log without witnesses": put("log", terms() | {"witnesses": [], "quorum": 0}),
        "a quorum of half the witnesses": put("log", terms(4) | {"quorum": 2}),
        "more witnesses needed than there are": put("log", terms() | {"quorum": 4}),
        "a witness with two names": put(
            "log",
            terms() | {"witnesses": [*terms(2)["witnesses"], {**terms()["witnesses"][0], "name": "twin.example"}]},
        ),
        "a witness that is the coordinator": put("log", terms(1, first=1) | {"quorum": 1}),
        "a witness that is the log": put("log", terms(1) | {"key": terms(1)["witnesses"][0]["key"]}),
        "a relay's key as the log's": put("log", terms() | {"key": RELAY.public.data.hex()}),
        "a log's name with its scheme": put("log", terms() | {"name": "https://log.example"}),
        "an unknown key of the log": put("log", terms() | {"x": None}),
        "a privacy that is not null": put("privacy", {"kind": "plain"}),
        "two relays' cover in a document for one": put("privacy", {"kind": "relays"}),
        "neither salt nor beacons": put("binning.salt", None),
        "both salt and beacons": put("binning.beacons", [{"chain": "nist-2.0", "round": 1}]),
        "a ratio not in lowest terms": put("train_share", "14/20"),
        "a ratio as a decimal": put("train_share", "0.7"),
        "a share above one": put("train_share", "3/2"),
        "no budget": put("learning.budget", None),
        "no coordinator": put("coordinator_keys", []),
        "a coordinator whose key anybody can sign for": put("coordinator_keys", ["01" + "00" * 31]),
        "a relay whose key anybody can sign for": put("relays", [{"key": "00" * 32, "url": "https://relay.example/"}]),
        "more signatures asked for than keys": put("threshold", 2),
        "no relay, and no test": put("relays", []),
        "a relay without encryption, and no test": put(
            "relays", [{"key": STRANGER.public.data.hex(), "url": "http://relay.example/"}]
        ),
        "hours that overlap": put("windows.hours", [[8, 12], [10, 14]]),
        "a zone that is a path": put("windows.time_zone", "/etc/localtime"),
        "rounds trimmed by an even number": put("learning.robust", {"clip": None, "trim": 2}),
        "robust by neither": put("learning.robust", {"clip": None, "trim": 1}),
        "a clip of nothing": put("learning.robust", {"clip": "0", "trim": 1}),
        "a default of the rule left out": put("learning.rule.constants", {"lambda": "1/10000"}),
        "a relay with a mode": put("relays", [relay | {"mode": "round"}]),
    }
    return {
        "description": "Texts that must be refused as an experiment; `good` is one that must be taken.",
        "good": good,
        "cases": with_reasons(inputs, "text"),
    }


def askers() -> JSON:
    """Experiments that say who asks, how to reach them and what for, and texts that do so wrongly."""
    said = {
        "all three": {
            "operator": "Universität Ω",
            "contact": "study@uni.example",
            "purpose": "To see whether words tell.",
        },
        "one alone": {"operator": "Entry e.V."},
        "the longest": {"operator": "o" * 200, "contact": "c" * 400, "purpose": "é" * 500},
    }
    good = json.loads(document().data)
    wrong = {
        "an operator that is empty and stands there": {"operator": ""},
        "a contact that is null": {"contact": None},
        "an operator one byte too long": {"operator": "o" * 201},
        "a contact one byte too long": {"contact": "c" * 401},
        "a purpose one byte too long": {"purpose": "é" * 500 + "p"},
        "a line feed in the purpose": {"purpose": "one\ntwo"},
        "an override of direction in the operator": {"operator": "\u202einU"},
        "an invisible character in the contact": {"contact": "study@\u200buni.example"},
    }
    return {
        "description": "Experiments that say who asks; those of `bad` must be refused.",
        "cases": [
            {"note": note, "text": (made := document(**texts)).data.decode(), "digest": made.digest}
            for note, texts in said.items()
        ],
        "bad": with_reasons({why: encode_document(good | texts).decode() for why, texts in wrong.items()}, "text"),
    }


# ── envelopes and manifests ──────────────────────────────────────────────────────────────────────────────────────────


def envelope() -> JSON:
    """Signatures and what they are over."""
    inputs = [
        (b"", "", (COORDINATOR,)),
        (b"payload", MANIFEST_TYPE, (COORDINATOR,)),
        (bytes(range(256)), EXPERIMENT_TYPE, (COORDINATOR, SECOND, RELAY)),
    ]
    return {
        "description": "Envelopes: a payload signed for a purpose by keys.",
        "cases": [
            {
                "seeds": [key.seed.hex() for key in keys],
                "public_keys": [key.public.data.hex() for key in keys],
                "key_ids": [key.public.key_id.hex() for key in keys],
                "purpose": purpose,
                "payload": payload.hex(),
                "signed": signed_bytes(purpose, payload).hex(),
                "bytes": sign(payload, purpose=purpose, keys=keys).hex(),
            }
            for payload, purpose, keys in inputs
        ],
    }


def bad_public_keys() -> JSON:
    """Ed25519 keys that bind nobody, and second spellings."""
    p = 2**255 - 19
    order_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    inputs = {
        "order 1": 1,
        "order 2": p - 1,
        "order 4": 0,
        "order 8": order_8,
        "order 8, the other y": p - order_8,
        "order 4, y not reduced": p,
        "order 1, y not reduced": p + 1,
        "the smallest y not reduced of a point of large order": p + 3,
        "the largest y not reduced": p + 18,
    }
    signs = {"": 0, ", x negative": 2**255}
    return {
        "description": "Ed25519 public keys that must be refused wherever one is named; `good` must be taken.",
        "good": STRANGER.public.data.hex(),
        "cases": [
            {"why": why + also, "public_key": (y | sign).to_bytes(32, "little").hex()}
            for why, y in inputs.items()
            for also, sign in signs.items()
        ],
    }


def bad_envelopes() -> JSON:
    """Envelopes that prove nothing."""
    good = sign(b"payload", purpose=MANIFEST_TYPE, keys=[COORDINATOR, SECOND])
    start = len(b"secvm-envelope-v1\n")
    first, second = good[start + 1 : start + 81], good[start + 81 : start + 161]
    tail = good[start + 161 :]
    inputs = {
        "nothing": b"",
        "another magic line": good.replace(b"-v1", b"-v2", 1),
        "no signature": good[:start] + b"\0" + tail,
        "a signature too few": good[:start] + b"\2" + first + tail,
        "signatures out of order": good[: start + 1] + second + first + tail,
        "a signature twice": good[: start + 1] + first + first + tail,
        "a byte too few": good[:-1],
        "a byte too many": good + b"\0",
        "another payload": good[:-1] + b"D",
        "a signature flipped": good[: start + 100] + bytes([good[start + 100] ^ 1]) + good[start + 101 :],
        "one signature where two are needed": sign(b"payload", purpose=MANIFEST_TYPE, keys=[COORDINATOR]),
        "a stranger's signature": sign(b"payload", purpose=MANIFEST_TYPE, keys=[COORDINATOR, STRANGER]),
        "signed for another purpose": sign(b"payload", purpose=EXPERIMENT_TYPE, keys=[COORDINATOR, SECOND]),
    }
    return {
        "description": "Envelopes that must be refused where both `public_keys` must sign; `good` must be taken.",
        "purpose": MANIFEST_TYPE,
        "public_keys": [key.public.data.hex() for key in (COORDINATOR, SECOND)],
        "good": good.hex(),
        "cases": with_reasons(inputs),
    }


def stored(planes: bytes) -> bytes:
    """A zlib stream that does not depend on who writes it: nothing is made smaller."""
    return zlib.compress(planes, 0)


def travelling(tally: Tally, experiment: Experiment) -> bytes:
    """A tally as a vector has it."""
    return stored(zlib.decompress(encode_tally(tally, experiment)))


def tally() -> Tally:
    """What round 1 counted."""
    return aggregate.empty_tally(document().experiment).count(
        [
            *(ParticipationPackage(cohort=Cohort.TRAIN, class_index=i % 2) for i in range(5)),
            *(TrainPackage(model=0, bin_index=i % 11, sign=1 if i % 3 else -1) for i in range(30)),
            *(TestPackage(true_class=1, predicted_class=i % 2) for i in range(3)),
        ]
    )


def gateway_keys(kem_id: int = kem.X25519, *pairs: tuple[int, int]) -> bytes:
    """What a manifest tells of its one gateway key; bytes alone, since a vector needs no key that opens."""
    algorithms = b"".join(number.to_bytes(2, "big") for pair in pairs or (OUR_ALGORITHMS,) for number in pair)
    public = bytes(range(9, 41)) if kem_id == kem.X25519 else kem.HybridPrivateKey(bytes(32)).public_key.to_bytes()
    one = bytes([7]) + kem_id.to_bytes(2, "big") + public + len(algorithms).to_bytes(2, "big") + algorithms
    return len(one).to_bytes(2, "big") + one


def rounds() -> list[RoundManifest]:
    """Two rounds and an abandoned one after them, then one more."""
    of, counted = document(), tally()
    state = aggregate.start(of.experiment)
    made: list[RoundManifest] = []
    count = RelayCount(opens_at=START, clients=8, capsules=40).signed(RELAY)
    for number, last in enumerate((None, last_round(counted, relay_count=count), last_round(None))):
        if number == 1:
            state = aggregate.step(of.experiment, state, counted)
        made.append(
            make_manifest(
                of,
                opens_at=START + number * 3_600_000,
                model=names(of, state),
                gateway_keys=gateway_keys(),
                before=made[-1] if made else None,
                last=last,
            )
        )
    return made


def plain_manifest() -> JSON:
    """Manifests that follow each other, and the tally that one of them names."""
    return {
        "description": "Rounds of the experiment, each accepted after the one before; and round 1's tally.",
        "experiment": document().data.decode(),
        "tally": travelling(tally(), document().experiment).hex(),
        "cases": [
            {
                "round": made.round_number,
                "text": made.data.decode(),
                "digest": made.digest,
                "bytes": made.signed([COORDINATOR]).hex(),
            }
            for made in rounds()
        ],
    }


def signed_cases(purpose: str, table: dict[str, tuple[str, bytes]]) -> list[JSON]:
    """The coordinator's signature under each of these, for this purpose, and the fault of it."""
    return [
        {"why": why, "fault": fault, "bytes": sign(data, purpose=purpose, keys=[COORDINATOR])}
        for why, (fault, data) in table.items()
    ]


def bad_plain_manifests() -> JSON:
    """Manifests that a device must not believe after round 1."""
    first, second, _ = rounds()
    relay = last_round(tally(), relay_count=RelayCount(opens_at=START, clients=8, capsules=40).signed(STRANGER))

    def put(**fields: object) -> bytes:
        return encode_document({**json.loads(second.data), **fields})

    good = sign(second.data, purpose=MANIFEST_TYPE, keys=[COORDINATOR])
    signed: dict[str, tuple[str, bytes]] = {
        "no canonical document": ("malformed", second.data + b"\n"),
        "an unknown key": ("malformed", put(x=None)),
        "a log, of which nothing is known yet": ("malformed", put(log={})),
        "another type": ("malformed", put(type=EXPERIMENT_TYPE)),
        "round 2 that follows nothing": ("malformed", put(previous=None, last=None)),
        "a window that closes before it opens": ("malformed", put(closes_at=second.opens_at)),
        "another experiment": ("inconsistent", put(experiment="00" * 32)),
        "a shorter window": (
            "inconsistent",
            put(closes_at=second.closes_at - 1000, accept_until=second.accept_until - 1000),
        ),
        "late packages taken longer": ("inconsistent", put(accept_until=second.accept_until + 1)),
        "a chain that is broken": ("inconsistent", put(previous="00" * 32)),
        "an abandoned round that changed the state": ("inconsistent", replace(second, last=last_round(None)).data),
        "a round beyond the last": ("inconsistent", put(round=31)),
        "a quota below the budget": ("inconsistent", put(quota=4)),
        **{
            why: ("inconsistent", replace(second, gateway_keys=keys).data)
            for why, keys in {
                "no gateway key": b"",
                "two gateway keys": gateway_keys() + gateway_keys(),
                "a gateway key of another KEM": gateway_keys(kem.MLKEM768_X25519),
                "a gateway key of another KEM before it": gateway_keys(kem.MLKEM768_X25519) + gateway_keys(),
                "a gateway key of a KEM that nobody has before it": b"\0\7\7\xff\xffABCD" + gateway_keys(),
                "a gateway key with two pairs of algorithms": gateway_keys(kem.X25519, (1, 3), OUR_ALGORITHMS),
                "a gateway key with another pair of algorithms": gateway_keys(kem.X25519, (1, 3)),
                "something after the gateway key": gateway_keys() + b"\0",
            }.items()
        },
        "a counted round without the relay's count": ("inconsistent", replace(second, last=last_round(tally())).data),
        "a stranger's count as the relay's": ("signature", replace(second, last=relay).data),
        "a second manifest for round 1": ("equivocation", replace(first, state="00" * 32).data),
    }
    forged = {
        "a stranger's signature": second.signed([STRANGER]),
        "the relay's signature": second.signed([RELAY]),
        "signed as an experiment": sign(second.data, purpose=EXPERIMENT_TYPE, keys=[COORDINATOR]),
    }
    broken = {"no envelope": second.data, "cut short": good[:-1]}
    return {
        "description": "Manifests that must be refused after `last` (round 1) was accepted; `good` must be taken.",
        "experiment": document().data.decode(),
        "last": first.signed([COORDINATOR]).hex(),
        "good": good.hex(),
        "cases": [
            *signed_cases(MANIFEST_TYPE, signed),
            *with_reasons(forged, fault="signature"),
            *with_reasons(broken, fault="malformed"),
        ],
    }


def endings() -> dict[str, tuple[Ending, RoundManifest | None]]:
    """Endings after each of the rounds, and before the first."""
    of, (first, second, _) = document(), rounds()
    start = aggregate.start(of.experiment)
    state = aggregate.step(of.experiment, start, tally())

    def ending(why: Why, after: RoundManifest | None, **more: Any) -> Ending:
        left = state if after is second or more.get("last") is not None else start
        return make_ending(
            of,
            why=why,
            model=names(of, left),
            before=after,
            **more,
        )

    count = RelayCount(opens_at=START, clients=8, capsules=40).signed(RELAY)
    return {
        "finished after round 1": (
            ending(Why.FINISHED, first, last=last_round(tally(), relay_count=count)),
            first,
        ),
        "stopped after round 2, which was abandoned": (ending(Why.STOPPED, second, last=last_round(None)), second),
        "stopped before round 1": (ending(Why.STOPPED, None), None),
    }


def plain_ending() -> JSON:
    """How experiments end."""
    return {
        "description": "Endings of the experiment, each accepted after the manifest `last`, or after none.",
        "experiment": document().data.decode(),
        "cases": [
            {
                "note": note,
                "last": None if before is None else before.signed([COORDINATOR]).hex(),
                "text": made.data.decode(),
                "digest": made.digest,
                "bytes": made.signed([COORDINATOR]).hex(),
            }
            for note, (made, before) in endings().items()
        ],
    }


def bad_plain_endings() -> JSON:
    """Endings that a device must not believe after round 1."""
    first, second, _ = rounds()
    made = endings()["finished after round 1"][0]
    count = RelayCount(opens_at=START, clients=8, capsules=40).signed(STRANGER)

    def put(**fields: object) -> bytes:
        return encode_document({**json.loads(made.data), **fields})

    signed: dict[str, tuple[str, bytes]] = {
        "no canonical document": ("malformed", made.data + b"\n"),
        "an unknown key": ("malformed", put(x=None)),
        "a log, of which nothing is known yet": ("malformed", put(log={})),
        "another type": ("malformed", put(type=MANIFEST_TYPE)),
        "an unknown reason": ("malformed", put(why="bored")),
        "no last round, though there was one": ("malformed", put(last=None)),
        "a round before the first": ("malformed", put(round=-1)),
        "another experiment": ("inconsistent", put(experiment="00" * 32)),
        "a round beyond the last": ("inconsistent", put(round=31)),
        "another manifest": ("inconsistent", put(manifest=second.digest)),
        "an abandoned round that changed the state": ("inconsistent", replace(made, last=last_round(None)).data),
        "no round, though one was accepted": ("inconsistent", put(round=0, manifest=None, last=None)),
        "a counted round without the relay's count": ("inconsistent", replace(made, last=last_round(tally())).data),
        "a stranger's count as the relay's": (
            "signature",
            replace(made, last=last_round(tally(), relay_count=count)).data,
        ),
    }
    forged = {
        "a stranger's signature": made.signed([STRANGER]),
        "signed as a manifest": sign(made.data, purpose=MANIFEST_TYPE, keys=[COORDINATOR]),
    }
    return {
        "description": "Endings that must be refused after `last` (round 1) was accepted; `good` must be taken.",
        "experiment": document().data.decode(),
        "last": first.signed([COORDINATOR]).hex(),
        "good": made.signed([COORDINATOR]).hex(),
        "cases": [*signed_cases(ENDING_TYPE, signed), *with_reasons(forged, fault="signature")],
    }


# ── schedule and problems ────────────────────────────────────────────────────────────────────────────────────────────


def words(number: int, count: int) -> list[int]:
    """Dice for the vectors: SipHash of a counter."""
    return [reference.dice_word(bytes(range(16)), number, 0, i) for i in range(count)]


def schedule() -> JSON:
    """Send times from words."""
    windows = [(0, 1), (START, START + 600_000), (5, 2**52), (0, 3), (7, 1007)]
    times = []
    for number, (opens_at, closes_at) in enumerate(windows):
        # The highest words are thrown away where they belong to an incomplete run.
        thrown = [2**64 - 1, *words(number, 5), 2**64 - 2, 0]
        source = iter(thrown)
        drawn = spread(5, Window(opens_at, closes_at), source)
        used = len(thrown) - len(list(source))
        now = (opens_at + closes_at) // 2
        again = words(number + 100, 10)
        times.append(
            {
                "opens_at": opens_at,
                "closes_at": closes_at,
                "words": [str(word) for word in thrown[:used]],
                "times": drawn,
                "now": now,
                "redraw_words": [str(word) for word in again],
                "redrawn": redraw(drawn, Window(opens_at, closes_at), iter(again), now=now),
            }
        )
    return {
        "description": "Words of dice to send times, to new times for what is overdue, and to a shuffled order.",
        "cases": times,
        "shuffles": [
            {
                "count": count,
                "words": [str(word) for word in words(50 + count, count)],
                "order": shuffle(range(count), iter(words(50 + count, count))),
            }
            for count in (0, 1, 2, 5, 12)
        ],
    }


def problems() -> JSON:
    """What a server answers."""
    return {
        "description": "Problem types and the bodies of their answers, without padding.",
        "cases": [
            {**{name: getattr(p, name) for name in ("name", "uri", "status", "retry")}, "text": p.to_bytes().decode()}
            for p in PROBLEMS.values()
        ],
    }


def sealed_requests() -> JSON:
    """What stands under the seals of requests and answers."""
    package = encode(AddressedPackage(ID, 258, TrainPackage(model=259, bin_index=66_051, sign=1)))
    strange = binary_http.Request(
        method=b"POST",
        scheme=b"http",
        authority=b"gateway.example:8443",
        path=b"/v1/packages",
        headers=((b"accept", b"*/*"), (b"content-type", b"application/octet-stream")),
        content=package,
    )
    paths = ("/v1/keys", "/v1/experiments", f"/v1/experiment/{'ab' * 32}/manifest/latest")
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    bodies = (b"", b"{}", bytes(range(256)) * 3, bytes(973), bytes(974))
    refused = {
        "another path": b"/v1/packages/",
        "a path with a query": b"/v1/packages?",
        "the path of a public file": b"/v1/keys",
    }
    bad = {why: replace(strange, path=path) for why, path in refused.items()}
    bad |= {
        "another method": replace(strange, method=b"PUT"),
        "a method in lower case": replace(strange, method=b"post"),
        "a fetch with content": replace(strange, method=b"GET"),
    }
    return {
        "description": "Packages and fetches as binary HTTP, and answers to fetches, before they are sealed.",
        "packages": [
            {"package": package.hex(), "request": package_request(package).hex()},
        ],
        "others": [
            {"package": package.hex(), "request": binary_http.encode_request(strange).hex()},
            {"package": package.hex(), "request": binary_http.encode_request(strange, indeterminate=True).hex()},
            {"package": package.hex(), "request": binary_http.encode_request(strange, padded_to=300).hex()},
            {
                "package": package[:-1].hex(),
                "request": package_request(package).replace(b" " + package, b"\x1f" + package[:-1]).hex(),
            },
        ],
        "fetches": [{"path": path, "request": fetch_request(path).hex()} for path in paths],
        "refused": [{"why": why, "request": binary_http.encode_request(one).hex()} for why, one in bad.items()],
        "fetch_answers": [
            {
                "status": status,
                "content": content.hex(),
                "date": date,
                "answer": fetch_answer(status, content, date).hex(),
            }
            for status, content in ((404, b""), *((200, body) for body in bodies))
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker
    for maker in (
        *(packages, envelope, schedule, problems, sealed_requests),
        *(plain_experiment_document, plain_manifest, plain_ending, askers),
        *(bad_encodings, bad_public_keys, bad_envelopes),
        *(bad_plain_experiment_documents, bad_plain_manifests, bad_plain_endings),
    )
}
