"""The vectors of rounds with two relays: what must be refused. Written by generate.py into vectors/v2."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shared import JSON, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing.hpke import CHACHA20_POLY1305
from secvm.crypto.sealing.kem import MLKEM768_X25519, PublicKey
from secvm.crypto.sealing.layers import seal_inner
from secvm.crypto.sealing.oblivious import OUR_ALGORITHMS, KeyConfiguration, encode_key_configurations
from secvm.crypto.signing import SigningKey, sign
from secvm.learning.package import Cohort, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.canonical import encode_document
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.log.policy import Witness
from secvm.protocol.relays.batches import Absence, CapsuleTree
from secvm.protocol.relays.commitments import RoundSecret, entry_commitment, mix_commitment, part_path
from secvm.protocol.relays.manifest import Instants, RelayedManifest, manifest_faults
from secvm.protocol.relays.opening import Opening, opening_faults
from secvm.protocol.relays.shards import SHARD, write_sub_tally
from secvm.protocol.relays.statements import Statement
from secvm_lab.rigs.histories.relayed_rounds import (
    COORDINATOR,
    ENTRY,
    MIX,
    START,
    STRANGER,
    RelayedRound,
    known_bytes,
    known_key,
    relayed_document,
)
from secvm_lab.rigs.histories.shard_tree import ShardTree
from secvm_lab.rigs.histories.witnessed_log import known_log_terms

FIRST = RelayedRound()
SECOND = FIRST.following()
DOCUMENT = FIRST.document
LOG = known_log_terms(witnesses=(Witness("w.example", known_key("witness").public),), quorum=1, freshness_s=3600)
#: Points of low order, and ones that are no reduced spelling of them.
LOW_ORDER = ("00" * 32, "01" + "00" * 31, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")


def told_otherwise(data: bytes, **changes: Any) -> bytes:
    """The document with other fields; ... takes one out."""
    content = {name: value for name, value in {**json.loads(data), **changes}.items() if value is not ...}
    # Not by ``encode_document``: it would refuse what must be refused.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _shown(value: object) -> str:
    return "left out" if value is ... else f"{value}"[:70]


def spellings(data: bytes) -> dict[str, bytes]:
    """The same content, written in other ways."""
    return {
        "a blank at the end": data + b" ",
        "a line feed at the end": data + b"\n",
        "a blank after a colon": data.replace(b'":', b'": ', 1),
        "a field twice": data[:-1] + b"," + data[1 : data.index(b",")] + b"}",
        "cut off": data[:-1],
        "a field too many": told_otherwise(data, more=1),
        "another type": told_otherwise(data, type="secvm-v2-other"),
    }


def bad_label() -> JSON:
    """Proofs that do not show what they should."""
    every = FIRST.submission
    tree = CapsuleTree(b"".join(every))
    place, size, root = tree.place(2), tree.size, tree.root
    hidden = every[3]
    places = [
        ("another index", replace(place, index=3), size),
        ("an index out of range", replace(place, index=size), size),
        ("another digest", replace(place, digest=bytes(32)), size),
        ("a path too short", replace(place, path=place.path[:-1]), size),
        ("a path too long", replace(place, path=(*place.path, bytes(32))), size),
        ("another size", place, size + 2),
    ]
    absences = [
        ("the digest stands between them", Absence(tree.place(2), tree.place(4)), hidden),
        ("it is the left one", Absence(tree.place(3), tree.place(4)), hidden),
        ("it is the right one", Absence(tree.place(2), tree.place(3)), hidden),
        ("a first one that is not the first", Absence(None, tree.place(1)), bytes(32)),
        ("a last one that is not the last", Absence(tree.place(size - 2), None), b"\xff" * 32),
        ("no neighbours in a tree that is not empty", Absence(None, None), hidden),
    ]
    return {
        "description": "Proofs under the root of a submission that must be refused.",
        "root": root,
        "size": size,
        "places": [{"why": why, "size": n, **one.to_content()} for why, one, n in places],
        "absences": [{"why": why, "digest": digest, **one.to_content()} for why, one, digest in absences],
        "labels": with_reasons(_labels(), "text"),
    }


def _labels() -> dict[str, str]:
    good = FIRST.label.hex()
    return {"upper case": good.upper(), "too short": good[:-2], "too long": good + "00", "a blank": good[:-1] + " "}


def bad_statements() -> JSON:
    """Every kind of statement, spelled otherwise, signed by somebody else, or of impossible numbers."""
    made: list[tuple[Statement, SigningKey, list[JSON]]] = [
        (FIRST.manifest.mix_commitment, MIX, [{"key": low} for low in LOW_ORDER] + [{"round": 0}, {"round": 2**20}]),
        (FIRST.manifest.entry_commitment, ENTRY, [{"nonce": ...}, {"nonce": "00"}, {"round": 0}]),
        (FIRST.receipt, ENTRY, [{"capsules": 0}, {"root": None}, {"label": FIRST.label.hex().upper()}]),
        (FIRST.entry_count, ENTRY, [{"clients": -1}, {"capsules": 0}, {"received": ...}, {"clients": 2**53}]),
        (FIRST.mix_count, MIX, [{"refused": -1}, {"capsules": "2"}, {"entry_count": "00"}]),
        (FIRST.entry_reveal, ENTRY, [{"part": -1}, {"part": 64}, {"path": ["00"]}, {"path": ["00" * 32] * 65}]),
        (FIRST.mix_reveal, MIX, [{"part": 64}, {"mix_count": ""}, {"mix_count": "AA=="}, {"seed": "00" * 31}]),
    ]
    cases = []
    for one, key, changes in made:
        signed = {
            f"{next(iter(told))} is {_shown(next(iter(told.values())))}": told_otherwise(one.data, **told)
            for told in changes
        }
        malformed = {
            why: sign(data, purpose=one.purpose, keys=[key])
            for why, data in {
                **spellings(one.data),
                **signed,
                "too long": told_otherwise(one.data, more="x" * one.longest),
            }.items()
        }
        malformed["two signatures"] = sign(one.data, purpose=one.purpose, keys=[key, STRANGER])
        malformed["bytes after the envelope"] = one.signed(key) + b"\0"
        forged = {
            "another signer": one.signed(STRANGER),
            "the other relay": one.signed(MIX if key is ENTRY else ENTRY),
            "another purpose": sign(one.data, purpose="secvm-v2-opening", keys=[key]),
            "a signature that is changed": one.signed(key).replace(one.data, told_otherwise(one.data, label="0" * 64))
            if "label" in json.loads(one.data)
            else one.signed(key).replace(one.data, told_otherwise(one.data, experiment="0" * 64)),
        }
        for fault, table in (("malformed", malformed), ("signature", forged)):
            told = {"type": one.purpose, "public_key": key.public.data, "fault": fault}
            cases += [{"why": why, **told, "envelope": data} for why, data in table.items()]
    return {"description": "Envelopes that hold no such statement of the relay of this key.", "cases": cases}


def bad_fetch_keys() -> dict[str, bytes]:
    """Key configurations that a manifest of the second round may not name."""

    def written(public_key: PublicKey, *pairs: tuple[int, int]) -> bytes:
        return encode_key_configurations([KeyConfiguration(2, public_key, pairs or (OUR_ALGORITHMS,))])

    good = SECOND.manifest.fetch_keys
    key, chacha = SECOND.fetch_key.private_key.public_key, (OUR_ALGORITHMS[0], CHACHA20_POLY1305.aead_id)
    low_order = good.replace(key.to_bytes(), bytes.fromhex(LOW_ORDER[0]))
    return {
        "none": b"",
        "two keys": good + FIRST.manifest.fetch_keys,
        "the same key twice": good + good,
        "two pairs of algorithms": written(key, OUR_ALGORITHMS, chacha),
        "another pair of algorithms": written(key, chacha),
        "another KEM": good[:3] + MLKEM768_X25519.to_bytes(2, "big") + good[5:],
        "a key of low order": low_order,
        "the count key": written(SECOND.manifest.public_count_key),
        "the count key of the round before": written(FIRST.manifest.public_count_key),
        "the mixing relay's key": written(SECOND.manifest.mix_commitment.public_key),
    }


def bad_manifests() -> JSON:
    """Manifests that must be refused after the first one was accepted."""
    two = SECOND.manifest

    def commits(role: str, key: SigningKey, *, experiment: str = DOCUMENT.digest, number: int = 2) -> RelayedManifest:
        told: JSON = {"experiment": experiment, "round_number": number, "parts": SECOND.parts}
        if role == "mix":
            return replace(two, mix=mix_commitment(SECOND.secret("mix"), **told).signed(key))
        return replace(two, entry=entry_commitment(SECOND.secret("entry"), **told).signed(key))

    told = two.instants
    inconsistent = {
        "another experiment": replace(two, experiment="0" * 64),
        "a round beyond T": replace(two, round_number=31),
        "a longer window": replace(two, instants=replace(told, closes_at=told.closes_at + 1)),
        "a batch too early": replace(two, instants=replace(told, batch_by=told.batch_by - 1)),
        "an opening too late": replace(two, instants=replace(told, open_by=told.open_by + 1)),
        "before the experiment starts": replace(two, instants=Instants.planned(DOCUMENT, START - 1)),
        "before the round before is mixed": replace(
            two, instants=Instants.planned(DOCUMENT, FIRST.manifest.instants.mix_by - 1)
        ),
        "after another manifest": replace(two, previous="0" * 64),
        "the mixing relay's commitment by a stranger": commits("mix", STRANGER),
        "the mixing relay's commitment by the entry relay": commits("mix", ENTRY),
        "the mixing relay's commitment of another round": commits("mix", MIX, number=3),
        "the mixing relay's commitment of another experiment": commits("mix", MIX, experiment="0" * 64),
        "the entry relay's commitment by a stranger": commits("entry", STRANGER),
        "the entry relay's commitment of another round": commits("entry", ENTRY, number=3),
        "the count key of the round before": replace(two, count_key=FIRST.manifest.count_key),
        "the count seed of the round before": replace(two, count_seed_hash=FIRST.manifest.count_seed_hash),
        **{f"fetch_keys: {why}": replace(two, fetch_keys=keys) for why, keys in bad_fetch_keys().items()},
    }
    malformed = {
        **spellings(two.data),
        "count_key of low order": told_otherwise(two.data, count_key=LOW_ORDER[0]),
        "no opening of the round before": told_otherwise(two.data, opening=None),
        "round 1 that follows one": told_otherwise(two.data, round=1),
        "instants out of order": told_otherwise(two.data, mix_by=told.batch_by - 1),
        "commitments in each other's place": told_otherwise(
            two.data, mix=json.loads(two.data)["entry"], entry=json.loads(two.data)["mix"]
        ),
        "too long": told_otherwise(two.data, more="x" * 4096),
    }
    purpose = "secvm-v2-manifest"
    cases: list[JSON] = [
        {
            "why": why,
            "fault": "inconsistent",
            "faults": [fault.name for fault in manifest_faults(one, DOCUMENT, FIRST.manifest)],
            "envelope": one.signed([COORDINATOR]),
        }
        for why, one in inconsistent.items()
    ]
    for why, data in malformed.items():
        envelope = sign(data, purpose=purpose, keys=[COORDINATOR])
        cases.append({"why": why, "fault": "malformed", "faults": [], "envelope": envelope})
    cases.append({"why": "a stranger's", "fault": "signature", "faults": [], "envelope": two.signed([STRANGER])})
    return {
        "description": "Manifests that must be refused once `before` was accepted, which is a payload.",
        "document": DOCUMENT.data.decode(),
        "before": FIRST.manifest.data.decode(),
        "cases": cases,
    }


def false_openings() -> dict[str, Opening]:
    """Openings of the first round that can be read, and in which something is not true."""
    good = FIRST.opening
    e_count, x_count, e_reveal, x_reveal = FIRST.entry_count, FIRST.mix_count, FIRST.entry_reveal, FIRST.mix_reveal

    def with_(name: str, one: Statement, key: SigningKey) -> Opening:
        changes: JSON = {name: one.signed(key)}
        return replace(good, **changes)

    part = (e_reveal.part + 1) % FIRST.parts
    secrets: list[RoundSecret] = [FIRST.secret("entry"), FIRST.secret("mix")]
    paths = [part_path(secret.part_seeds(FIRST.parts), part) for secret in secrets]
    chosen = replace(e_reveal, part=part, seed=secrets[0].part_seed(part), path=paths[0])
    answer = replace(x_reveal, part=part, seed=secrets[1].part_seed(part), path=paths[1], entry_reveal=chosen.digest)
    second = replace(x_count, root=bytes(32))
    return {
        "another experiment": replace(good, experiment="0" * 64),
        "another round": replace(good, round_number=2),
        "another label": replace(good, label=bytes(32)),
        "the entry count by a stranger": with_("entry_count", e_count, STRANGER),
        "the entry count of another label": with_("entry_count", replace(e_count, label=bytes(32)), ENTRY),
        "a client too many": with_("entry_count", replace(e_count, clients=e_count.clients + 1), ENTRY),
        "n1 too small": with_("entry_count", replace(e_count, capsules=e_count.capsules - 1), ENTRY),
        "the mix count by the entry relay": with_("mix_count", x_count, ENTRY),
        "n2 too small": with_("mix_count", replace(x_count, capsules=x_count.capsules - 1), MIX),
        "more refused than came": with_("mix_count", replace(x_count, refused=10**6), MIX),
        "the mix count of another entry count": with_("mix_count", replace(x_count, entry_count="0" * 64), MIX),
        "a second mix count": with_("mix_count", second, MIX),
        "the entry reveal by the mixing relay": with_("entry_reveal", e_reveal, MIX),
        "the entry reveal of another label": with_("entry_reveal", replace(e_reveal, label=bytes(32)), ENTRY),
        "another nonce": with_("entry_reveal", replace(e_reveal, nonce=bytes(32)), ENTRY),
        "another seed": with_("entry_reveal", replace(e_reveal, seed=bytes(32)), ENTRY),
        "a path that does not lead": with_("entry_reveal", replace(e_reveal, path=e_reveal.path[::-1]), ENTRY),
        "a part beyond S": with_("entry_reveal", replace(e_reveal, part=FIRST.parts), ENTRY),
        "a part that was chosen": replace(good, entry_reveal=chosen.signed(ENTRY), mix_reveal=answer.signed(MIX)),
        "the mix reveal by a stranger": with_("mix_reveal", x_reveal, STRANGER),
        "the mix reveal of another label": with_("mix_reveal", replace(x_reveal, label=bytes(32)), MIX),
        "the mix reveal of another entry reveal": with_("mix_reveal", replace(x_reveal, entry_reveal="0" * 64), MIX),
        "the mix reveal of another count": with_("mix_reveal", replace(x_reveal, mix_count=second.signed(MIX)), MIX),
        "another part of the mixing relay": with_("mix_reveal", answer, MIX),
        "another seed of the mixing relay": with_("mix_reveal", replace(x_reveal, seed=bytes(32)), MIX),
        "another count seed": replace(good, count_seed=bytes(32)),
    }


def bad_openings() -> JSON:
    """Openings that are none, and openings that are not true."""
    good = FIRST.opening.data
    content = json.loads(good)
    malformed = {
        **spellings(good),
        "a seed without a mix reveal": told_otherwise(good, mix_reveal=None),
        "a tally without a seed": told_otherwise(good, count_seed=None, shards=None),
        "a seed without shards": told_otherwise(good, shards=None),
        "a count in the place of another": told_otherwise(good, entry_count=content["mix_count"]),
        "round 0": told_otherwise(good, round=0),
        "too long": told_otherwise(good, more="x" * 2**14),
    }
    return {
        "description": "Openings: `cases` can be read and are not true, `malformed` cannot be read.",
        "good": good.decode(),
        "document": DOCUMENT.data.decode(),
        "manifest": FIRST.manifest.data.decode(),
        "cases": [
            {
                "why": why,
                "changes": {name: told for name, told in json.loads(one.data).items() if told != content[name]},
                "faults": [fault.name for fault in opening_faults(one, FIRST.manifest, DOCUMENT)],
            }
            for why, one in false_openings().items()
        ],
        "malformed": with_reasons(malformed),
    }


def bad_shards() -> JSON:
    """Shards that are not under the roots, and sub-tallies that are none."""
    every = sorted(known_bytes(f"digest {i}") for i in range(SHARD + 5))
    sub_tally = write_sub_tally({1: 2})
    tree = ShardTree(FIRST.label)
    for at in (0, SHARD):
        tree.append(every[at : at + SHARD], sub_tally)
    run, proof, size = every[SHARD:], tree.proof(1), len(every)
    cases = [
        ("a digest left out", run[:-1], sub_tally, proof, size),
        ("another digest", [bytes(32), *run[1:]], sub_tally, proof, size),
        ("two in each other's place", [run[1], run[0], *run[2:]], sub_tally, proof, size),
        ("another sub-tally", run, write_sub_tally({1: 1}), proof, size),
        ("another n", run, sub_tally, proof, size + 1),
        ("another shard", run, sub_tally, replace(proof, shard=0), size),
        ("a shard out of range", run, sub_tally, replace(proof, shard=2), size),
        ("a path that does not lead", run, sub_tally, replace(proof, path=(bytes(32),)), size),
        ("a mix path that does not lead", run, sub_tally, replace(proof, mix_path=(bytes(32),)), size),
    ]
    line = {name: (write_sub_tally({cell: n})) for name, cell, n in (("one", 1, 1), ("two", 2, 1), ("five", 1, 5))}
    zero = (1).to_bytes(8, "little") + bytes(8)
    beyond = write_sub_tally({30: 1})
    tallies = {
        "half a line": line["one"][:-1],
        "a zero": zero,
        "a cell twice": line["one"] * 2,
        "not ascending": line["two"] + line["one"],
        "no such cell": beyond,
        "more packages than capsules": line["five"],
    }
    return {
        "description": "Shards that must be refused under these roots; sub-tallies that are none.",
        "shards": tree.root,
        "mix_root": tree.mix_root,
        "cases": [
            {
                "why": why,
                "digests": listed,
                "sub_tally": counted,
                "proof": shown.data.decode(),
                "capsules": count,
            }
            for why, listed, counted, shown, count in cases
        ],
        "proofs": [{"why": why, "bytes": data} for why, data in spellings(proof.data).items()],
        "sub_tallies": [{"why": why, "bytes": data, "cells": 30, "capsules": 4} for why, data in tallies.items()],
    }


def junk_capsules(one: RelayedRound) -> dict[str, bytes]:
    """Inner capsules that count for nothing, each for another reason."""
    own, key = one.document.experiment_id, one.count_key.public_key
    train = TrainPackage(model=0, bin_index=3, sign=1)

    def package(kind: Package = train, *, of: ExperimentId = own, number: int = 1) -> bytes:
        return encode(AddressedPackage(of, number, kind))

    def sealed(content: bytes, label: bytes = one.label) -> bytes:
        return seal_inner(key, label, known_bytes("junk"), content)

    good = sealed(package())
    return {
        "nothing": b"",
        "a byte too few": good[:-1],
        "a byte too many": good + b"\0",
        "an exchange of zero": bytes(32) + good[32:],
        "a point of low order": bytes.fromhex(LOW_ORDER[1]) + good[32:],
        "a wrong tag": good[:-1] + bytes([good[-1] ^ 1]),
        "sealed for another label": sealed(package(), bytes(32)),
        "no package": sealed(bytes(32)),
        "another version": sealed(b"\2" + package()[1:]),
        "another spelling": sealed(package()[:-1] + b"\1"),
        "another experiment": sealed(package(of=ExperimentId(bytes(16)))),
        "another round": sealed(package(number=2)),
        "an unknown model": sealed(package(TrainPackage(model=1, bin_index=3, sign=1))),
        "a bin out of range": sealed(package(TrainPackage(model=0, bin_index=11, sign=1))),
        "an unknown label": sealed(package(ParticipationPackage(cohort=Cohort.TRAIN, class_index=2))),
        "an unknown prediction": sealed(package(TestPackage(true_class=0, predicted_class=2))),
    }


def bad_experiment_documents() -> JSON:
    """Documents with two relays that must be refused."""
    data = relayed_document().data
    content: JSON = json.loads(data)
    entry, mix = content["relays"]

    def inside(name: str, **changes: Any) -> bytes:
        return told_otherwise(data, **{name: json.loads(told_otherwise(encode_document(content[name]), **changes))})

    privacy, train = content["privacy"], content["privacy"]["train"]
    cases = {
        **spellings(data),
        "the type of version 1": told_otherwise(data, type="secvm-v1-experiment"),
        "plain": told_otherwise(data, privacy={"kind": "plain"}),
        "three parts": inside("privacy", parts=3),
        "65 parts": inside("privacy", parts=65),
        "packages that are no multiple of the parts": inside("privacy", packages=162),
        "2^32 packages": inside("privacy", packages=2**32),
        "a part that overflows on average": inside("privacy", packages=40),
        "no noise for tests": inside("privacy", test=None),
        "odds of zero": inside("privacy", train={**train, "odds": "0"}),
        "a shape below zero": inside("privacy", train={**train, "shape": "-1"}),
        "a shape that is not in lowest terms": inside("privacy", train={**train, "shape": "6/2"}),
        "a cap": inside("privacy", train={**train, "cap": 3}),
        "epsilon of 33": inside("privacy", epsilon="33"),
        "delta of 1": inside("privacy", delta="1"),
        "gamma": inside("privacy", gamma=privacy["delta"]),
        "one relay": told_otherwise(data, relays=[entry]),
        "three relays": told_otherwise(data, relays=[entry, mix, mix]),
        "the mixing relay first": told_otherwise(data, relays=[mix, entry]),
        "two entry relays": told_otherwise(data, relays=[entry, {**mix, "role": "entry"}]),
        "one key for both relays": told_otherwise(data, relays=[entry, {**mix, "key": entry["key"]}]),
        "a relay without https": told_otherwise(data, relays=[entry, {**mix, "url": "http://mix.example/"}]),
        "an onion service in another's name": told_otherwise(
            data, relays=[entry, {**mix, "url": f"http://{'a' * 56}.onion.example/"}]
        ),
        "a relay with a mode": told_otherwise(data, relays=[entry, {**mix, "mode": "round"}]),
        "an operator without a name": told_otherwise(data, relays=[entry, {**mix, "operator": ""}]),
        "no time for the batch": inside("windows", batch_s=0),
        "more than a week to open": inside("windows", open_s=7 * 86_400 + 1),
        "no time for reveals": inside("windows", reveal_s=...),
        "a budget too small": inside("learning", budget=6),
        "a budget too large": inside("learning", budget=11),
        "no bound on features": inside("learning", features_per_participant=None),
        "features that count by value": inside("features", presence=False),
        "a KEM": told_otherwise(data, kem=0x647A),
        "tokens that are none": told_otherwise(data, tokens=False),
        "tokens of an issuer": told_otherwise(data, tokens={"issuer": mix["url"]}),
    }
    return {
        "description": "Bytes that are no document of an experiment with two relays.",
        "good": data.decode(),
        "cases": with_reasons(cases),
    }


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker
    for maker in (
        *(bad_label, bad_statements, bad_manifests, bad_openings, bad_shards),
        bad_experiment_documents,
    )
}
