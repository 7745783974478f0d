"""The vectors of rounds with two relays: what must be taken. Written by generate.py into vectors/v2."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import generate_relays_bad  # type: ignore[import-not-found]  # beside this program, not in a package
from shared import JSON  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import seal_inner, seal_outer
from secvm.learning.cover_law import Noise, RelayCover, relay_budget
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.canonical import digest_of
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.experiment import HashedBins, VocabularyBins, publish
from secvm.protocol.relays.batches import CapsuleTree, capsule_digest, capsule_root, label_of
from secvm.protocol.relays.commitments import RoundSecret, entry_commitment, mix_commitment, part_entry, part_path
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.counts import part_index
from secvm.protocol.relays.news import News
from secvm.protocol.relays.opening import RelayedEnding, opening_faults
from secvm.protocol.relays.recount import ShardTally
from secvm.protocol.relays.shards import SHARD, ShardRun, shard_entry, write_sub_tally
from secvm.protocol.relays.submission import (
    SECRETS_BYTES,
    draw_order,
    read_request,
    receipt_for,
    recounts,
    seal_submission,
    token_bytes,
)
from secvm_lab.rigs.histories.relayed_rounds import (
    COORDINATOR,
    ENTRY,
    MIX,
    RelayedRound,
    known_bytes,
    relayed_document,
    relayed_experiment,
)
from secvm_lab.rigs.histories.shard_tree import ShardTree

FIRST = RelayedRound()
SECOND = FIRST.following()
PACKAGES: tuple[Package, ...] = (
    TrainPackage(model=0, bin_index=3, sign=1),
    TrainPackage(model=0, bin_index=10, sign=-1),
    ParticipationPackage(cohort=Cohort.TRAIN, class_index=1),
    ParticipationPackage(cohort=Cohort.TEST, class_index=0),
    TestPackage(true_class=1, predicted_class=0),
    NullPackage(),
)


def digests(count: int) -> list[bytes]:
    """So many digests of capsules, ascending."""
    return sorted(capsule_digest(b"capsule %d" % i) for i in range(count))


def label() -> JSON:
    """Labels, and the tree over capsules."""
    shown = []
    for count, digest in ((0, bytes(32)), (1, b"\xff" * 32), (7, bytes(32)), (7, b"\x80" * 32), (7, b"\xff" * 32)):
        tree = CapsuleTree(b"".join(digests(count)))
        absence = tree.absence(digest).to_content()
        shown.append({"size": count, "root": tree.root, "digest": digest, **absence})
    tree = CapsuleTree(b"".join(digests(7)))
    return {
        "description": "Labels of rounds; roots over capsules, that a digest is under a root, and that one is not.",
        "labels": [{"payload": data, "label": label_of(data)} for data in (b"", FIRST.manifest.data)],
        "roots": [{"digests": digests(n), "root": capsule_root(digests(n))} for n in (0, 1, 2, 3, 7, 8)],
        "places": [{"size": 7, "root": tree.root, **tree.place(i).to_content()} for i in (0, 3, 6)],
        "absences": shown,
    }


def layers() -> JSON:
    """Both seals of packages, with given ephemeral secrets."""
    cases = []
    for number, package in enumerate(PACKAGES):
        count_seed, mix_secret = known_bytes(f"count seed {number}"), known_bytes(f"mix key {number}")
        count_key, mix_key = X25519PrivateKey.derive(count_seed), X25519PrivateKey.derive(mix_secret)
        name = known_bytes(f"label {number}")
        ephemerals = [known_bytes(f"{layer} ephemeral {number}") for layer in ("inner", "outer")]
        data = encode(AddressedPackage(FIRST.document.experiment_id, 1, package))
        inner = seal_inner(count_key.public_key, name, ephemerals[0], data)
        cases.append(
            {
                "count_seed": count_seed,
                "count_private_key": count_key.secret_bytes(),
                "count_key": count_key.public_key.to_bytes(),
                "count_seed_hash": hashlib.sha256(count_seed).hexdigest(),
                "mix_seed": mix_secret,
                "mix_private_key": mix_key.secret_bytes(),
                "mix_key": mix_key.public_key.to_bytes(),
                "label": name,
                "package": data,
                "inner_ephemeral": ephemerals[0],
                "inner": inner,
                "inner_digest": capsule_digest(inner),
                "outer_ephemeral": ephemerals[1],
                "outer": seal_outer(mix_key.public_key, name, ephemerals[1], inner),
            }
        )
    return {"description": "A package sealed for the coordinator, and that for the mixing relay.", "cases": cases}


def commitments() -> JSON:
    """All that follows from a relay's secret of a round."""
    cases = []
    for parts in (4, 9, 64):
        secret = RoundSecret(known_bytes(f"secret of {parts} parts"))
        seeds = secret.part_seeds(parts)
        told: JSON = {"experiment": FIRST.document.digest, "round_number": parts, "parts": parts}
        part = parts - 2
        cases.append(
            {
                "secret": secret.secret,
                "parts": parts,
                "part_seeds": seeds,
                "part_entries": [part_entry(seed) for seed in seeds],
                "parts_root": mix_commitment(secret, **told).parts,
                "part": part,
                "path": part_path(seeds, part),
                "nonce": secret.nonce,
                "mix_private_key": secret.mix_key.secret_bytes(),
                "experiment": FIRST.document.digest,
                "round": parts,
                "mix_commitment": mix_commitment(secret, **told).data.decode(),
                "entry_commitment": entry_commitment(secret, **told).data.decode(),
                "token_seed": secret.token_seed,
                "entry_commitment_with_tokens": entry_commitment(secret, tokens=True, **told).data.decode(),
            }
        )
    drawn = []
    for number, parts in enumerate((4, 9, 9, 64)):
        nonce, count = known_bytes(f"nonce {number}"), digest_of(b"count %d" % number)
        told = {"nonce": nonce, "mix_count": count, "parts": parts}
        drawn.append({**told, "part": part_index(nonce, count, parts)})
    return {
        "description": "What a relay derives from its secret of a round, and which part is opened.",
        "cases": cases,
        "opened_parts": drawn,
    }


def statements() -> JSON:
    """Every statement of an honest round, in its envelope."""
    made = [
        (FIRST.manifest.mix_commitment, MIX),
        (FIRST.manifest.entry_commitment, ENTRY),
        (FIRST.receipt, ENTRY),
        (FIRST.entry_count, ENTRY),
        (FIRST.mix_count, MIX),
        (FIRST.entry_reveal, ENTRY),
        (FIRST.mix_reveal, MIX),
    ]
    cases = [
        {
            "type": one.purpose,
            "public_key": key.public.data,
            "envelope": one.signed(key),
            "payload": one.data.decode(),
            "digest": one.digest,
        }
        for one, key in made
    ]
    receipt = {"digests": FIRST.submission, "root": FIRST.receipt.root}
    return {"description": "What the two relays sign in one round.", "cases": cases, "receipts": [receipt]}


def manifest() -> JSON:
    """Two rounds of one experiment."""
    cases = [
        {
            "envelope": one.manifest.signed([COORDINATOR]),
            "payload": one.manifest.data.decode(),
            "label": one.label,
            "round": one.round_number,
        }
        for one in (FIRST, SECOND)
    ]
    return {
        "description": "Manifests that must be accepted, the second after the first.",
        "document": FIRST.document.data.decode(),
        "cases": cases,
    }


def submission() -> JSON:
    """Whole requests, and what a device keeps of each."""
    covered = RelayedRound(document=relayed_document(log=generate_relays_bad.LOG, tokens=True))
    train, test = PACKAGES[:3], PACKAGES[3:5]
    cases = []
    for number, (of, told) in enumerate(((FIRST, train), (SECOND, test), (covered, (PACKAGES[2], *train)))):
        budget = of.document.budget
        packages = (*told, *[NullPackage()] * (budget - len(told)))
        words = [int.from_bytes(known_bytes(f"word {number} {i}", 8), "little") for i in range(2 * budget)]
        order = draw_order(budget, iter(words))
        ephemerals = known_bytes(f"secrets {number}", SECRETS_BYTES * budget)
        token = known_bytes(f"token {number}", token_bytes(of.document))
        sealed = seal_submission(of.document, of.manifest, packages, order=order, ephemerals=ephemerals, token=token)
        outers = read_request(sealed.body, budget=budget, token=len(token))
        receipt = receipt_for(of.label, map(capsule_digest, outers)).signed(ENTRY)
        cases.append(
            {
                "document": of.document.data.decode(),
                "manifest": of.manifest.data.decode(),
                "packages": [
                    encode(AddressedPackage(of.document.experiment_id, of.round_number, package))
                    for package in packages
                ],
                "words": [str(word) for word in words],
                "order": order.places,
                "ephemerals": ephemerals,
                "token": token,
                "body": sealed.body,
                "canary": sealed.canary.to_bytes().decode(),
                "receipt": receipt,
                "taken": sealed.canary.with_receipt(receipt).to_bytes().decode(),
            }
        )
    return {"description": "Requests of devices, byte for byte, and the canary that is kept of each.", "cases": cases}


def opening() -> JSON:
    """An opened round, and ones of which something is missing."""
    without: JSON = {"count_seed": None, "tally": None, "shards": None}
    names = ("mix_reveal", "entry_reveal", "mix_count", "entry_count")
    made = [FIRST.opening, replace(FIRST.opening, **without)]
    for number in range(1, len(names) + 1):
        fewer: JSON = {**without, **dict.fromkeys(names[:number])}
        made.append(replace(FIRST.opening, **fewer))
    cases = []
    for one in made:
        if opening_faults(one, FIRST.manifest, FIRST.document):
            raise AssertionError("an opening that is good has faults")
        told = {"envelope": one.signed([COORDINATOR]), "payload": one.data.decode()}
        cases.append({**told, "missing": [what.name.lower() for what in one.missing]})
    return {
        "description": "Openings in which nothing is false. The first is opened; of the others something is missing.",
        "document": FIRST.document.data.decode(),
        "manifest": FIRST.manifest.data.decode(),
        "cases": cases,
    }


def ending() -> JSON:
    """How experiments end."""
    told: JSON = {"experiment": FIRST.document.digest}
    told |= dict(zip(("state", "training_weights", "evaluation_weights"), FIRST.manifest.model, strict=True))
    named = {"manifest": FIRST.manifest.digest, "opening": FIRST.opening.digest}
    made = [
        RelayedEnding(round_number=1, **named, why="finished", **told),
        RelayedEnding(round_number=0, manifest=None, opening=None, why="stopped", **told),
    ]
    cases = [{"envelope": one.signed([COORDINATOR]), "payload": one.data.decode()} for one in made]
    return {
        "description": "Endings, signed by the coordinator.",
        "public_key": COORDINATOR.public.data,
        "cases": cases,
    }


def shards() -> JSON:
    """Shards under both roots, sub-tallies, and the numbers of cells."""
    experiment = FIRST.document.experiment
    cells = Cells.of(experiment)
    counts = {0: 3, cells.train: 2, cells.count - 1: 1}
    proofs = []
    for count in (5, SHARD + 2):
        tree, every = ShardTree(FIRST.label), digests(count)
        split = [every[at : at + SHARD] for at in range(0, count, SHARD)]
        for run in split:
            tree.append(run, write_sub_tally(counts))
        proof = tree.proof(len(split) - 1)
        proofs.append(
            {
                "capsules": count,
                "shard": len(split) - 1,
                "digests": split[-1],
                "sub_tally": write_sub_tally(counts),
                "entry": shard_entry(split[-1], write_sub_tally(counts)),
                "shards": tree.root,
                "mix_root": tree.mix_root,
                "proof": proof.data.decode(),
                "run_file": ShardRun(proof.shard, count, proof.mix_path, tuple(split[-1])).to_bytes(),
                "tally_file": ShardTally(proof.path, write_sub_tally(counts)).to_bytes(),
            }
        )
    return {
        "description": "Shards, their proofs and files; sub-tallies; numbers of cells; which shards are recounted.",
        "recounts": [
            {"ephemerals": secrets, "recounts": recounts(secrets)}
            for secrets in (known_bytes(f"canary {number}", 64) for number in range(96))
        ],
        "proofs": proofs,
        "sub_tallies": [
            {"counts": sorted([cell, n] for cell, n in told.items()), "bytes": write_sub_tally(told)}
            for told in ({}, {0: 1}, counts)
        ],
        "cells": [
            {
                "models": 1,
                "bins": 10,
                "labels": 2,
                "package": encode(AddressedPackage(FIRST.document.experiment_id, 1, package)),
                "cell": cells.cell_of(package),
            }
            for package in PACKAGES
        ],
    }


def news() -> JSON:
    """News of rounds: with all parts, with some, and with the newest manifest alone."""
    manifest, opening = (one.signed([COORDINATOR]) for one in (FIRST.manifest, FIRST.opening))
    made = [
        News(manifest),
        News(manifest, opening, b"", b"a checkpoint\n", 7, (b"a line\n",)),
        News(manifest, opening, b"a tally", b"a checkpoint\n", 2**40, (b"a line\n", b"another\n")),
    ]
    cases = [
        {
            "parts": (one.manifest, one.opening, one.tally, one.checkpoint),
            "first_line": one.first_line,
            "lines": one.lines,
            "news": one.to_bytes(),
        }
        for one in made
    ]
    whole = made[2].to_bytes()
    return {
        "description": "News of rounds; the bad ones are not whole, or have something behind them.",
        "cases": cases,
        "bad": (b"", whole[:-1], whole + b"\0", bytes(16), bytes(20) + b"\0"),
    }


def junk() -> JSON:
    """Capsules that count, and capsules that are junk."""
    key = FIRST.count_key.public_key
    reader = CapsuleReader.of(FIRST.document, FIRST.manifest, FIRST.count_seed)
    cells = Cells.of(FIRST.document.experiment)
    cases: list[JSON] = []
    for number, package in enumerate(PACKAGES):
        data = encode(AddressedPackage(FIRST.document.experiment_id, 1, package))
        capsule = seal_inner(key, FIRST.label, known_bytes(f"good {number}"), data)
        cases.append({"why": "counts", "capsule": capsule, "junk": False, "cell": cells.cell_of(package)})
    for why, capsule in generate_relays_bad.junk_capsules(FIRST).items():
        cases.append({"why": why, "capsule": capsule, "junk": True, "cell": None})
    every = [case["capsule"] for case in cases]
    return {
        "description": "Inner capsules, with the cell for which each counts; junk counts for none, and so do nulls.",
        "document": FIRST.document.data.decode(),
        "label": FIRST.label,
        "round": 1,
        "count_seed": FIRST.count_seed,
        "sub_tally": reader.sub_tally(every),
        "cases": cases,
    }


def experiment_document() -> JSON:
    """Documents with two relays, of several kinds."""
    number = Noise(cells=22, shape=Fraction(3), odds=Fraction(1, 2))
    numbers = RelayCover(
        train=number,
        participation=Noise(cells=2, shape=Fraction(15), odds=Fraction(1, 7)),
        test=None,
        parts=9,
        packages=360,
        train_share=Fraction(7, 10),
    )
    made = [
        relayed_document(),
        relayed_document(log=generate_relays_bad.LOG, tokens=True),
        relayed_document(
            binning=HashedBins(bins=10, salt=bytes(16), hashes=3),
            experiment=relayed_experiment(budget=relay_budget(violable=1, features=4, hashes=3)),
        ),
        relayed_document(
            binning=VocabularyBins(bins=10, digest="0" * 64),
            experiment=relayed_experiment(labels=("y",), loss=Loss("epsilon-insensitive", Fraction(1)), cover=numbers),
        ),
    ]
    cases = []
    for one in made:
        cover = one.relay_cover
        cases.append(
            {
                "text": one.data.decode(),
                "digest": one.digest,
                "envelope": publish(one, keys=(COORDINATOR,)),
                "budget": one.budget,
                "parts": cover.parts,
                "packages": cover.packages,
                "cells": [noise.cells for noise in cover.kinds],
            }
        )
    return {"description": "Documents of experiments with two relays.", "cases": cases}


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker
    for maker in (
        *(label, layers, commitments, statements, manifest, opening, ending),
        *(shards, junk, experiment_document, news, submission),
    )
} | generate_relays_bad.FILES
