"""Write vectors/v2 from the reference code, or with --check say whether the files are still the same.

    python vectors/generate.py [--check]

Inputs stand here; outputs come from ``secvm``. The format of every file is explained in vectors/README.md.
"""
# ruff: noqa: INP001  (a program beside the package, not a part of it)

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
from shared import JSON, as_json, plain, with_reasons  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing import binary_http, kem, oblivious
from secvm.crypto.sealing.hpke import AEADS, Schedule
from secvm.learning import aggregate
from secvm.learning._kernels import reference
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import mantissas, to_fixed
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import BinnedVector, Binning, HashBinning, VocabularyBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute, fit_budget, split, thin
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, dice_key, draw_cohort, sample_features
from secvm.learning.individual.update import Update, band, fixed_norm, fixed_target, local_update, score, squared_norm
from secvm.learning.label_models import LabelModels
from secvm.learning.losses import ONE, Loss, logistic_table
from secvm.learning.package import (
    Cohort,
    TrainPackage,
)
from secvm.learning.thinning import Thinning
from secvm.learning.weights import Weights

FOLDER = Path(__file__).resolve().parent / "v2"


def big(number: int) -> str:
    """An integer that may be too large for a JavaScript number, in decimal."""
    return str(int(number))


def pairs(values: dict[int, int]) -> list[list[int]]:
    """Bins and values, ascending."""
    return [[b, v] for b, v in values.items()]


# ── hashing and binning ──────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = [
    "",
    "a",
    "word",
    "1234567",
    "12345678",
    "123456789",
    "Größe",
    "é",
    "e\u0301",
    "日本語",
    "🙂",
    "tab\tand\nline",
    "x" * 300,
]


def hashing() -> JSON:
    """SipHash-2-4, its keys, and the bin of a feature."""
    plain = [(bytes(range(16)), bytes(range(n))) for n in (0, 1, 7, 8, 15, 16, 63)] + [(b"\xff" * 16, b"\xff" * 256)]
    cases = []
    for salt, n_bins, n_hashes in ((b"", 1000, 1), (b"public randomness", 1000, 2), (b"public randomness", 1001, 1)):
        binning = HashBinning(n_bins=n_bins, salt=salt, n_hashes=n_hashes)
        for text in TEXTS:
            for index, key in enumerate(binning.keys):
                cases.append(
                    {
                        "feature": text,
                        "utf8": text.encode().hex(),
                        "salt": salt.hex(),
                        "n_bins": n_bins,
                        "hash_index": index,
                        "key": key.hex(),
                        "hash": f"{reference.siphash24(key, text.encode()):016x}",
                        "bin": binning.bins_of(text)[index],
                    }
                )
    return {
        "description": "SipHash-2-4 of bytes; and for features the key, the hash and the bin.",
        "siphash": [
            {"key": key.hex(), "message": message.hex(), "hash": f"{reference.siphash24(key, message):016x}"}
            for key, message in plain
        ],
        "cases": cases,
    }


def range_reduction() -> JSON:
    """From a 64-bit hash to a bin."""
    hashes = [0, 0xFFFFFFFF, 1 << 32, 0x7FFFFFFFFFFFFFFF, 1 << 63, 0x0123456789ABCDEF, (1 << 64) - 1]
    bins = [1, 2, 3, 1000, 95_880, 2**24 - 1, 2**24]
    return {
        "description": "bin = floor(upper 32 bits of the hash * n_bins / 2^32).",
        "cases": [
            {"hash": f"{h:016x}", "n_bins": n, "bin": reference.reduce_to_bin(h, n)} for h in hashes for n in bins
        ],
    }


def told(binning: Binning) -> JSON:
    """A binning as the files write it."""
    if isinstance(binning, HashBinning):
        return {"kind": "hash", "n_bins": binning.n_bins, "salt": binning.salt.hex(), "n_hashes": binning.n_hashes}
    return {"kind": "vocabulary", "words": list(binning.words), "digest": binning.digest}


def binning() -> JSON:
    """From features to values per bin."""
    everyday = {"the": 7, "cat": 2, "Größe": 1, "é": 1, "e\u0301": 1, "absent": 0}
    few, signed = {"a": 3, "b": -3, "c": 5, "d": -1}, {"up": 4, "down": -6, "left": 2}
    words = VocabularyBinning(words=("the", "é", "dog", "cat", ""))
    inputs: list[tuple[dict[str, int], Binning, bool]] = [
        ({}, HashBinning(n_bins=8, salt=b""), False),
        (everyday, HashBinning(n_bins=1000, salt=b"salt"), False),
        (everyday, HashBinning(n_bins=1000, salt=b"salt"), True),
        (everyday, HashBinning(n_bins=1000, salt=b"other salt"), False),
        (everyday, HashBinning(n_bins=3, salt=b"salt"), False),
        (everyday, HashBinning(n_bins=3, salt=b"salt"), True),
        (everyday, HashBinning(n_bins=50, salt=b"salt", n_hashes=3), False),
        (few, HashBinning(n_bins=1, salt=b""), False),
        ({"a": 3, "b": -3}, HashBinning(n_bins=1, salt=b""), False),
        ({"a": 3}, HashBinning(n_bins=1, salt=b"", n_hashes=4), False),
        (signed, HashBinning(n_bins=2, salt=b"signed"), False),
        (everyday, words, False),
        (everyday, words, True),
        ({"dog": -2, "": 1, "unknown": 9}, words, False),
        ({"a": 2**22 - 3}, VocabularyBinning(words=("a",)), False),
    ]
    return {
        "description": "A person's features to its binned vector. The bias is not in it.",
        "cases": [
            {
                "features": [[name, value] for name, value in features.items()],
                "binning": told(way),
                "presence": presence,
                "values": pairs(bin_features(features, way, presence=presence).values),
            }
            for features, way, presence in inputs
        ],
    }


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def arithmetic() -> JSON:
    """Rounding, in the three places where it happens."""
    fixed = [
        ([0, 1, -1, 2, 3], Fraction(1, 3)),
        ([1, 3, 5, -1, -3, -5], Fraction(1, 2**33)),
        ([7, -7, 123_456_789], Fraction(10, 350_001)),
        ([1, 2, -3, 10**9], Fraction(1, 2**62 - 57)),
        ([1, -1, 10**12], Fraction(3, 2**70 + 1)),
    ]
    integers = [[0, 0], [5, -7], [2**31 - 1], [2**31], [2**32 - 1, 3], [2**32 - 3], [-(2**60) - 1, 2**31, 12345]]
    floats = [[0.0], [1.0, -0.5, 1e-12], [4294967295.0], [0.1, 0.2, -0.3], [1e-40, 3e-41], [123456.789, -1e-3]]

    def mantissa_case(values: list[int] | list[float], kind: type) -> JSON:
        integers, exponent = mantissas(np.array(values, dtype=kind))
        shown = [big(int(v)) for v in values] if kind is np.int64 else [struct.pack(">d", v).hex() for v in values]
        return {"values": shown, "mantissas": integers.tolist(), "exponent": exponent}

    return {
        "description": "round_half_even in three places: fixed point, integer mantissas, float mantissas.",
        "to_fixed": [
            {
                "numerators": [big(n) for n in numerators],
                "scale": scale,
                "fixed": [big(f) for f in to_fixed(np.array(numerators, dtype=np.int64), scale).tolist()],
            }
            for numerators, scale in fixed
        ],
        "integer_mantissas": [mantissa_case(values, np.int64) for values in integers],
        "float_mantissas": [mantissa_case(values, np.float64) for values in floats],
    }


def dice() -> JSON:
    """Seeded dice, word by word."""
    cases = []
    for seed, participant in ((b"", 0), (b"seed", 7), (bytes(range(40)), 2**40 + 1)):
        for purpose in Purpose:
            for round_number, model, index in ((0, 0, 0), (1, 0, 0), (1, 2, 3), (2**20 - 1, 4095, 2**32 - 1)):
                key = dice_key(seed, participant, purpose)
                cases.append(
                    {
                        "seed": seed.hex(),
                        "participant": participant,
                        "purpose": purpose.value,
                        "key": key.hex(),
                        "round": round_number,
                        "model": model,
                        "index": index,
                        "word": big(reference.dice_word(key, round_number, model, index)),
                    }
                )
    return {
        "description": "One 64-bit word of seeded dice. Devices throw their own; these are for tests.",
        "cases": cases,
    }


def drawing() -> JSON:
    """Cohorts and samples of features from seeded dice."""
    seed = b"drawing"
    features = {"z": 1, "a": 2, "\uff61": 3, "\U00010000": 4, "é": 5, "nothing": 0, "m": -6}
    shares = [Fraction(7, 10), Fraction(1, 3), Fraction(1), Fraction(0)]
    return {
        "description": "What a participant with seeded dice draws once per experiment.",
        "seed": seed.hex(),
        "cohorts": [
            {
                "participant": participant,
                "train_share": share,
                "cohort": draw_cohort(share, UnsafeSeededDice(seed, participant)).value,
            }
            for share in shares
            for participant in range(6)
        ],
        "samples": [
            {
                "participant": participant,
                "features": [[name, value] for name, value in features.items()],
                "limit": limit,
                "sample": [
                    [name, value]
                    for name, value in sample_features(features, limit, UnsafeSeededDice(seed, participant)).items()
                ],
            }
            for participant in range(3)
            for limit in (1, 3, 5)
        ],
    }


# ── the person's side ────────────────────────────────────────────────────────────────────────────────────────────────

COINS = [0, 1, 2**21, 2**40, 2**41, 3 * 2**40, 2**51 + 12345, 2**52 - 1, 2**52, 2**52 + 1, 2**53 - 2**41, 2**53 - 1]


def losses() -> JSON:
    """The threshold of each loss for some coins."""
    chosen = [
        Loss("hinge"),
        Loss("perceptron"),
        Loss("squared-hinge"),
        Loss("squared-hinge", Fraction(3, 2)),
        Loss("squared-hinge", Fraction("3.141592653589793")),
        Loss("modified-huber"),
        Loss("logistic"),
    ]
    return {
        "description": "Thresholds in units of 2^-32 for coins of 53 bits, and the coordinator's factors.",
        "cases": [
            {
                "loss": loss.name,
                "parameter": loss.parameter,
                "factors": loss.factors,
                "tosses_coins": loss.tosses_coins,
                "coins": [big(c) for c in COINS],
                "thresholds": [big(t) for t in loss.thresholds(np.array(COINS, dtype=np.int64)).tolist()],
            }
            for loss in chosen
        ],
        "logistic_table": logistic_table().tolist(),
        "targets": [
            {
                "target": repr(target),
                "centre": centre,
                "spread": spread,
                "fixed": big(fixed_target(target, centre=centre, spread=spread)),
            }
            for target, centre, spread in (
                (0.0, Fraction(0), Fraction(1)),
                (0.1, Fraction(0), Fraction(1)),
                (37.5, Fraction(40), Fraction(25, 2)),
                (-1e-9, Fraction(1, 3), Fraction(7)),
            )
        ],
    }


def _update_case(
    row: list[int],
    unit: Fraction,
    values: dict[int, int],
    label_sign: int | None,
    *,
    threshold: int = ONE,
    width: int = 0,
    normalised: bool = False,
    first: bool = False,
    note: str = "",
) -> JSON:
    vector = BinnedVector(values=values, n_bins=len(row) - 1)
    weights = Weights(np.array([row], dtype=np.int32), unit, normalised=normalised, first=first)
    norm = fixed_norm(squared_norm(vector)) if normalised else None
    lower, upper = band(threshold=threshold, width=width, norm=norm, unit=unit)
    update = local_update(
        weights=weights, model=0, vector=vector, label_sign=label_sign, threshold=threshold, width=width
    )
    return {
        "note": note,
        "mantissas": row,
        "unit": unit,
        "normalised": normalised,
        "first": first,
        "vector": pairs(values),
        "label_sign": label_sign,
        "threshold": big(threshold),
        "width": big(width),
        "norm": None if norm is None else big(norm),
        "score": score(weights, 0, vector),
        "band": [big(lower), big(upper)],
        "sign": 0 if update is None else update.values[vector.n_bins],
        "update": None if update is None else pairs(update.values),
    }


def update() -> JSON:
    """The margin test."""
    v, cases = {0: 3, 2: -2}, []
    for sign in (1, -1):
        for bias, note in ((20, "on the margin"), (19, "one unit below"), (21, "one unit above")):
            row = [sign * m for m in (30, 999, 5, 999, bias)]
            cases.append(_update_case(row, Fraction(1, 100), v, sign, note=note))
        for bias, note in ((0, "on the margin, normalised"), (-1, "below, normalised"), (1, "above, normalised")):
            row, square = [10 * sign, 0, 0, bias * sign], {0: 4, 1: 2, 2: 2}
            cases.append(_update_case(row, Fraction(1, 8), square, sign, normalised=True, note=note))
        cases += [
            _update_case([7, -3, 11, 0, 2], Fraction(1, 12), v, sign, normalised=True, note="an irrational norm"),
            _update_case([7, -3, 11, 0, 2], Fraction(5, 7), v, sign, normalised=True, note="unit no power of two"),
            _update_case([7, -3, 11, 0, 2], Fraction(1, 2**40), v, sign, normalised=True, note="band beyond 2^53"),
            _update_case([7, -3, 11, 0, 2], Fraction(1, 2**80), v, sign, note="band clipped at 2^60"),
            _update_case([0] * 5, Fraction(1), v, sign, first=True, threshold=0, note="first round: violates anyhow"),
            _update_case([0] * 5, Fraction(1), v, sign, threshold=0, note="perceptron at score 0"),
            _update_case([1, 0, 2, 0, 1], Fraction(1), v, sign, threshold=-(ONE // 3), note="a negative threshold"),
        ]
    top = 2**31 - 1
    cases += [
        _update_case([top, -top], Fraction(1), {0: 2**22 - 3}, 1, note="the largest score"),
        _update_case([0, 0], Fraction(1), {}, -1, note="nobody but the bias"),
    ]
    for m, note in ((3, "below the band"), (4, "on its lower edge"), (12, "on its upper edge"), (13, "above it")):
        cases.append(_update_case([m, 0], Fraction(1, 4), {0: 1}, None, threshold=2 * ONE, width=ONE, note=note))
    for target in (5, 0, -5):
        cases.append(
            _update_case([0, 0], Fraction(1), {0: 1}, None, threshold=target, first=True, note="number, first round")
        )
    return {"description": "Score, band and verdict of one person in one model.", "cases": cases}


def labels() -> JSON:
    """Signs of labels in models, and winners."""
    scores: dict[tuple[int, str], list[list[int]]] = {
        (2, "ovr"): [[-1], [0], [1]],
        (3, "ovr"): [[1, 5, 2], [-9, -9, -9], [0, 7, 7]],
        (3, "ovo"): [[-1, -1, 5], [-4, 3, -9], [-2, 2, -2], [0, 0, 0]],
        (4, "ovo"): [[1, -1, 1, -1, 1, -1], [0, 0, 0, 0, 0, 0], [-5, -5, -5, 9, 9, 9]],
    }
    return {
        "description": "The sign of each label in each model, and the label that wins for given scores.",
        "cases": [
            {
                "n_labels": n,
                "multiclass": kind,
                "signs": LabelModels(n, kind).signs.tolist(),
                "scores": rows,
                "winners": LabelModels(n, kind).predict(np.array(rows, dtype=np.int64)).tolist(),
            }
            for (n, kind), rows in scores.items()
        ],
    }


UPDATES = [{5: 1}, {0: 3, 2: -2, 5: 1}, {0: -3, 2: 2, 5: -1}, {1: -1, 3: 4, 4: -2, 5: -1}]


def shown(packages: list[TrainPackage]) -> list[list[int]]:
    """Train packages as [model, bin, sign]."""
    return [[p.model, p.bin_index, p.sign] for p in packages]


def splitting() -> JSON:
    """Units in their order, and the cut to a budget."""
    seed, cut = b"splitting", []
    for budget in (1, 4, 7, 8, 9):
        units = split(Update(values=UPDATES[3]), 2)
        words = UnsafeSeededDice(seed, 5).words(Purpose.BUDGET, 9, 0, len(units))
        kept = fit_budget(units, budget=budget, dice=UnsafeSeededDice(seed, 5), round_number=9)
        cut.append(
            {
                "packages": shown(units),
                "key": dice_key(seed, 5, Purpose.BUDGET).hex(),
                "round": 9,
                "words": [big(w) for w in words],
                "budget": budget,
                "kept": shown(kept),
            }
        )
    return {
        "description": "An update as unit packages [model, bin, sign]; and those that stay within a budget.",
        "cases": [
            {"update": pairs(values), "model": model, "packages": shown(split(Update(values=values), model))}
            for model, values in enumerate(UPDATES)
        ],
        "budget": cut,
    }


def thinning() -> JSON:
    """Probabilities of 53 bits, and the units that are kept."""
    chosen = [
        *(Thinning(q=q) for q in (Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**6))),
        *(Thinning(rho=rho) for rho in (Fraction(1), Fraction(3), Fraction(10), Fraction(1, 7))),
        Thinning(),
    ]
    seed, kept = b"thinning", []
    for participant, way, squared in ((1, chosen[1], 15), (2, chosen[5], 15), (3, chosen[5], 5), (4, chosen[7], 15)):
        keep53 = int(way.keep53([squared])[0])
        values = {0: 3, 2: -2, 5: 1}
        units = split(Update(values=values), 1)
        key = dice_key(seed, participant, Purpose.THINNING)
        words = UnsafeSeededDice(seed, participant).words(Purpose.THINNING, 4, 1, len(units))
        stays = thin(units, keep53=keep53, dice=UnsafeSeededDice(seed, participant), round_number=4, model=1)
        numbers = [i for i, word in enumerate(words) if word >> 11 < keep53]
        kept.append(
            {
                "update": pairs(values),
                "model": 1,
                "round": 4,
                "key": key.hex(),
                "keep53": big(keep53),
                "words": [big(w) for w in words],
                "kept_units": numbers,
                "packages": shown(stays),
            }
        )
    return {
        "description": "keep53 for a squared norm (the bias included); and which units of an update are sent.",
        "probabilities": [
            {
                "q": way.q,
                "rho": way.rho,
                "divisor": way.divisor,
                "squared_norms": [1, 2, 9, 10, 1601, 2**44],
                "keep53": [big(k) for k in way.keep53([1, 2, 9, 10, 1601, 2**44]).tolist()],
            }
            for way in chosen
        ],
        "cases": kept,
    }


# ── experiments ──────────────────────────────────────────────────────────────────────────────────────────────────────


def described(experiment: Experiment) -> JSON:
    """An experiment as the files write it."""
    robust = experiment.robust
    return {
        "n_bins": experiment.n_bins,
        "labels": list(experiment.labels),
        "multiclass": experiment.multiclass,
        "rule": {"name": experiment.rule.name, "parameters": experiment.rule.parameters()},
        "loss": {"name": experiment.loss.name, "parameter": experiment.loss.parameter},
        "thinning": {"q": experiment.thinning.q, "rho": experiment.thinning.rho},
        "class_weights": experiment.class_weights,
        "budget": experiment.budget,
        "robust": robust and {"clip": robust.clip, "trim": robust.trim},
    }


EXPERIMENTS = [
    Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos()),
    Experiment(
        n_bins=3,
        labels=("a", "b"),
        rule=Pegasos(lambda_=Fraction(1, 10), averaging=3, step_cap=Fraction(1, 2)),
        class_weights=(Fraction(1), Fraction(4)),
        thinning=Thinning(q=Fraction(1, 3)),
    ),
    Experiment(n_bins=2, labels=("a", "b", "c"), multiclass="ovo", rule=Pegasos(lambda_=Fraction(1, 7), averaging=1)),
    Experiment(n_bins=2, labels=("n",), loss=Loss("pinball", Fraction(9, 10)), rule=Pegasos(lambda_=Fraction(1))),
    Experiment(n_bins=3, labels=("a", "b"), rule=Swift(), thinning=Thinning(rho=Fraction(3))),
    Experiment(
        n_bins=2,
        labels=("a", "b", "c"),
        rule=Swift(decay=Fraction(1, 50), step_size=Fraction(30)),
        class_weights=(Fraction(1), Fraction(2), Fraction(1, 3)),
        thinning=Thinning(rho=Fraction(1)),
    ),
    Experiment(
        n_bins=2, labels=("a", "b", "c", "d"), multiclass="ovo", rule=Swift(), thinning=Thinning(rho=Fraction(2))
    ),
    Experiment(
        n_bins=3,
        labels=("a", "b"),
        rule=Swift(),
        thinning=Thinning(rho=Fraction(1)),
        robust=Robust(clip=Fraction(1, 2)),
    ),
    Experiment(
        n_bins=3,
        labels=("a", "b", "c"),
        rule=Pegasos(lambda_=Fraction(1, 10)),
        class_weights=(Fraction(1), Fraction(2), Fraction(1, 3)),
        robust=Robust(clip=Fraction(2, 3), trim=3),
    ),
]
#: One-vs-one model of the labels c and d, whom nobody has in the first round: it meets its people later.
LATE_PAIR = 5


def some_tallies(experiment: Experiment, rounds: int) -> list[Tally]:
    """Counts from seeded dice, the later rounds with fewer violators; the third has one participant."""
    found = []
    models, n_labels = experiment.models.n_models, len(experiment.labels)
    size = models * (experiment.n_bins + 1)
    for t in range(1, rounds + 1):
        draw = UnsafeSeededDice(b"tallies", t).words(Purpose.COIN, t, 0, 2 * size + n_labels)
        counts = np.array([w % (100 // t) for w in draw], dtype=np.int64)
        participants = counts[2 * size :] + 1 if t != 3 else np.eye(n_labels, dtype=np.int64)[0]
        shape = (models, experiment.n_bins + 1)
        if t == 1 and models > LATE_PAIR:
            participants[2:] = 0
            for half in (counts[:size], counts[size : 2 * size]):
                half.reshape(shape)[LATE_PAIR] = 0
        found.append(
            Tally(
                plus=counts[:size].reshape(shape),
                minus=counts[size : 2 * size].reshape(shape),
                participants=participants,
                cells=np.zeros((n_labels, n_labels), dtype=np.int64),
            )
        )
    return found


def state() -> JSON:
    """From tallies to states."""
    cases = []
    for experiment in EXPERIMENTS:
        current, rounds = aggregate.start(experiment), []
        start = current.to_bytes()
        for tally in some_tallies(experiment, 4):
            current = aggregate.step(experiment, current, tally)
            data = current.to_bytes()
            rounds.append(
                {
                    "plus": tally.plus.tolist(),
                    "minus": tally.minus.tolist(),
                    "participants": tally.participants.tolist(),
                    "state": data.hex(),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            )
        cases.append({"experiment": described(experiment), "start": start.hex(), "rounds": rounds})
    return {"description": "The state after each round of tallies, from the start on.", "cases": cases}


def weights() -> JSON:
    """From states to published weights."""
    cases = []
    for experiment in EXPERIMENTS:
        current = aggregate.start(experiment)
        for tally in [None, *some_tallies(experiment, 3)]:
            current = current if tally is None else aggregate.step(experiment, current, tally)
            both = {
                "training": aggregate.training_weights(experiment, current),
                "evaluation": aggregate.evaluation_weights(experiment, current),
            }
            cases.append(
                {
                    "rule": {"name": experiment.rule.name, "parameters": experiment.rule.parameters()},
                    "state": current.to_bytes().hex(),
                    **{
                        name: {
                            "mantissas": published.mantissas.tolist(),
                            **{part: getattr(published, part) for part in ("unit", "normalised", "first")},
                            "bytes": published.to_bytes(),
                        }
                        for name, published in both.items()
                    },
                }
            )
    return {"description": "Training and evaluation weights of a state, and their bytes.", "cases": cases}


def contribution() -> JSON:
    """A person's whole round."""
    seed, cases = b"contribution", []
    row = [3, -1, 4, 2]
    experiments = [
        Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos()),
        Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos(), budget=12),
        Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos(), budget=4, loss=Loss("logistic")),
        Experiment(n_bins=3, labels=("a", "b"), rule=Swift(), thinning=Thinning(rho=Fraction(1)), budget=12),
        Experiment(
            n_bins=3,
            labels=("a", "b", "c"),
            rule=Pegasos(),
            multiclass="ovo",
            thinning=Thinning(q=Fraction(1, 2)),
            budget=12,
        ),
        Experiment(n_bins=3, labels=("n",), rule=Pegasos(), loss=Loss("epsilon-insensitive"), budget=10),
    ]
    for experiment in experiments:
        published = Weights(
            np.array([row] * experiment.models.n_models, dtype=np.int32),
            Fraction(1, 10),
            normalised=experiment.rule.normalised,
        )
        for participant, cohort in ((0, Cohort.TRAIN), (1, Cohort.TRAIN), (2, Cohort.TEST)):
            label = participant % len(experiment.labels)
            target = 3 * ONE // 2 if experiment.loss.regression else 0
            vector = BinnedVector(values={0: 1, 2: -3}, n_bins=3)
            packages = contribute(
                Individual(vector, label=label, target=target, cohort=cohort),
                experiment=experiment,
                training=published,
                evaluation=published,
                dice=UnsafeSeededDice(seed, participant),
                round_number=6,
            )
            cases.append(
                {
                    "experiment": described(experiment),
                    "mantissas": published.mantissas.tolist(),
                    "unit": published.unit,
                    "normalised": published.normalised,
                    "vector": pairs(vector.values),
                    "label": label,
                    "target": big(target),
                    "cohort": cohort.value,
                    "seed": seed.hex(),
                    "participant": participant,
                    "round": 6,
                    "packages": [as_json(p) for p in packages],
                }
            )
    return {"description": "All packages of one person in one round, in the order they are made.", "cases": cases}


# ── what must be refused ─────────────────────────────────────────────────────────────────────────────────────────────


def bad_states() -> JSON:
    """Bytes that are no state."""
    good = aggregate.step(
        EXPERIMENTS[0], aggregate.start(EXPERIMENTS[0]), some_tallies(EXPERIMENTS[0], 1)[0]
    ).to_bytes()
    magic, line, body = good.split(b"\n", 2)

    def with_line(changed: bytes, rest: bytes = body) -> bytes:
        return magic + b"\n" + changed + b"\n" + rest

    step = b'"step":1'
    inputs = {
        "empty": b"",
        "magic line only": magic + b"\n",
        "another version": good.replace(b"state-v1", b"state-v2"),
        "last byte missing": good[:-1],
        "one byte more": good + b"\0",
        "a whole vector missing": good[: -len(body) // 2],
        "a space in the header": with_line(line.replace(b",", b", ")),
        "header in another order": with_line(b'{"step":1,' + line.replace(b"," + step, b"")[1:]),
        "an unknown field": with_line(line.replace(step, step + b',"zzz":0')),
        "a field missing": with_line(line.replace(b"," + step, b"")),
        "a step below zero": with_line(line.replace(step, b'"step":-1')),
        "a step with a fraction": with_line(line.replace(step, b'"step":1.0')),
        "a step as text": with_line(line.replace(step, b'"step":"1"')),
        "a step that is true": with_line(line.replace(step, b'"step":true')),
        "a step given twice": with_line(line.replace(step, step + b"," + step)),
        "an infinite shape": with_line(line.replace(b"[1,4]", b"[1e999,4]")),
        "no rows": with_line(line.replace(b"[1,4]", b"[0,4]"), b""),
        "no vectors": with_line(line.replace(b'["i8","i8"]', b"[]").replace(b'["sum_0","sum_1"]', b"[]"), b""),
        "an unknown kind": with_line(line.replace(b'"i8","i8"', b'"i4","i8"')),
        "kinds that are lists": with_line(line.replace(b'["i8","i8"]', b'[["i8"],["i8"]]')),
        "names out of order": with_line(line.replace(b'"sum_0","sum_1"', b'"sum_1","sum_0"')),
        "a name twice": with_line(line.replace(b'"sum_0","sum_1"', b'"sum_0","sum_0"')),
        "no object": with_line(b"[]"),
        "no JSON": with_line(b"{"),
        "no UTF-8": with_line(b"\xff\xfe"),
    }
    return {
        "description": "Bytes that must be refused as a state; `good` is one that must be taken.",
        "good": good.hex(),
        "cases": with_reasons(inputs),
    }


def bad_packages() -> JSON:
    """Packages the experiment has no place for."""
    inputs: dict[str, JSON] = {
        "a model too many": {"kind": "train", "model": 2, "bin": 0, "sign": 1},
        "a model below zero": {"kind": "train", "model": -1, "bin": 0, "sign": 1},
        "a bin beyond the bias": {"kind": "train", "model": 0, "bin": 4, "sign": 1},
        "a bin below zero": {"kind": "train", "model": 0, "bin": -1, "sign": 1},
        "a sign of zero": {"kind": "train", "model": 0, "bin": 0, "sign": 0},
        "a sign of two": {"kind": "train", "model": 0, "bin": 0, "sign": 2},
        "an unknown true label": {"kind": "test", "true_class": 3, "predicted_class": 0},
        "an unknown predicted label": {"kind": "test", "true_class": 0, "predicted_class": -1},
        "a participant of no label": {"kind": "participation", "cohort": "train", "class": 3},
        "a test participant of no label": {"kind": "participation", "cohort": "test", "class": -1},
    }
    return {
        "description": "Packages that must be refused, and must change no count.",
        "n_models": 2,
        "n_bins": 3,
        "n_labels": 3,
        "cases": with_reasons(inputs, "package"),
    }


def bad_vocabularies() -> JSON:
    """Word lists that are no vocabulary."""
    return {
        "description": "Lists of words that must be refused as a vocabulary.",
        "cases": [
            {"why": "no words", "words": []},
            {"why": "a word twice", "words": ["a", "b", "a"]},
            {"why": "the empty word twice", "words": ["", "a", ""]},
            {"why": "a line break in a word", "words": ["a", "b\nc"]},
            {"why": "a word that is a line break", "words": ["\n"]},
        ],
    }


def bad_experiments() -> JSON:
    """Experiments that contradict themselves."""
    good = described(Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos(), budget=50))
    swift = {"name": "swift", "parameters": {}}
    rho, half = {"q": None, "rho": "3/1"}, {"q": "1/2", "rho": None}

    def pegasos(**parameters: str) -> JSON:
        return {"rule": {"name": "pegasos", "parameters": {"lambda": "1/10", **parameters}}}

    inputs: dict[str, JSON] = {
        "no bins": {"n_bins": 0},
        "no labels": {"labels": []},
        "one label for a loss that needs two": {"labels": ["a"]},
        "a label twice": {"labels": ["a", "a"]},
        "two labels for a loss of numbers": {"loss": {"name": "pinball", "parameter": "1/2"}},
        "an unknown kind of several labels": {"labels": ["a", "b", "c"], "multiclass": "all"},
        "too few class weights": {"class_weights": ["1/1"]},
        "a negative class weight": {"class_weights": ["1/1", "-1/1"]},
        "class weights all zero": {"class_weights": ["0/1", "0/1"]},
        "a budget of one": {"budget": 1},
        "an unknown loss": {"loss": {"name": "cubic", "parameter": None}},
        "a parameter for a loss without": {"loss": {"name": "hinge", "parameter": "1/1"}},
        "a clip below one": {"loss": {"name": "squared-hinge", "parameter": "1/2"}},
        "a clip that is text": {"loss": {"name": "squared-hinge", "parameter": "much"}},
        "an unknown rule": {"rule": {"name": "adam", "parameters": {}}},
        "pegasos without lambda": {"rule": {"name": "pegasos", "parameters": {}}},
        "lambda zero": pegasos(**{"lambda": "0"}),
        "lambda divided by zero": pegasos(**{"lambda": "1/0"}),
        "lambda without end": pegasos(**{"lambda": "1e-999999999"}),
        "lambda not a number": pegasos(**{"lambda": "nan"}),
        "two and a half averages": pegasos(averaging="5/2"),
        "an average of none": pegasos(averaging="0"),
        "a step cap of one": pegasos(step_cap="1"),
        "a constant of another rule": pegasos(momentum="1/2"),
        "rho without normalised rows": {"thinning": rho},
        "q with normalised rows": {"rule": swift, "thinning": half},
        "normalised rows sent whole": {"rule": swift},
        "both q and rho": {"thinning": {"q": "1/2", "rho": "3/1"}},
        "q above one": {"thinning": {"q": "3/2", "rho": None}},
        "q of zero": {"thinning": {"q": "0/1", "rho": None}},
        "momentum of one": {"rule": {"name": "swift", "parameters": {"momentum": "1"}}, "thinning": rho},
    }
    return {
        "description": "Experiments that must be refused; `good` is one that must be taken.",
        "good": good,
        "cases": [{"why": why, "experiment": {**good, **change}} for why, change in inputs.items()],
    }


# ── sealing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#: RFC 9458, appendix A.
RFC_PRIVATE = "3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a"
RFC_EPHEMERAL = "bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73"
RFC_NONCE = "c789e7151fcba46158ca84b04464910d"
RFC_REQUEST = "00034745540568747470730b6578616d706c652e636f6d012f"
RFC_RESPONSE = "0140c8"

AES, CHACHA = (1, 1), (1, 3)
Message = binary_http.Request | binary_http.Response
Algorithms = tuple[tuple[int, int], ...]


def throw_once(text: str) -> kem.RandomBytes:
    """Dice that give the bytes that are written. For vectors alone."""
    return lambda count: bytes.fromhex(text)[:count]


def made_up(name: str, length: int = 32) -> str:
    """Bytes that anybody can make up again."""
    return hashlib.shake_256(name.encode()).hexdigest(length)


def gateway_key(key_id: int, secret: str, algorithms: Algorithms = (AES,)) -> oblivious.GatewayKey:
    """A gateway's key of X25519."""
    return oblivious.GatewayKey(key_id, kem.X25519PrivateKey(bytes.fromhex(secret)), algorithms)


def exchange(key: oblivious.GatewayKey, secret: str, ephemeral: str, request: str, nonce: str, response: str) -> JSON:
    """One request and its answer, sealed and opened."""
    sealed = oblivious.seal_request(key.configuration, bytes.fromhex(request), throw_once(ephemeral))
    opened = oblivious.GatewayKeys([key]).open(sealed.capsule)
    answer = opened.seal_response(bytes.fromhex(response), throw_once(nonce))
    if opened.request.hex() != request or sealed.open_response(answer).hex() != response:
        raise AssertionError("what was sealed does not open")
    return {
        "private_key": secret,
        "configuration": key.configuration.to_bytes().hex(),
        "ephemeral": ephemeral,
        "request": request,
        "capsule": sealed.capsule.hex(),
        "nonce": nonce,
        "response": response,
        "answer": answer.hex(),
    }


def sealing() -> JSON:
    """HPKE, key configurations, capsules and answers."""
    schedules = []
    for aead_id, info, aad, plaintext in (
        (1, "", "", ""),
        (1, "696e666f", "616164", "68656c6c6f"),
        (3, "696e666f", "", "00"),
    ):
        private = kem.X25519PrivateKey(bytes.fromhex(made_up("recipient")))
        schedule = Schedule(kem.X25519, AEADS[aead_id], bytes.fromhex(info))
        sender = schedule.send_to(private.public_key, throw_once(made_up("ephemeral")))
        schedules.append(
            {
                "private_key": made_up("recipient"),
                "public_key": private.public_key.to_bytes().hex(),
                "ephemeral": made_up("ephemeral"),
                "aead": aead_id,
                "info": info,
                "enc": sender.enc.hex(),
                "shared_secret": private.decapsulate(sender.enc).hex(),
                "aad": aad,
                "plaintext": plaintext,
                "ciphertexts": [sender.seal(bytes.fromhex(aad), bytes.fromhex(plaintext)).hex() for _ in range(3)],
                "export_context": "636f6e74657874",
                "exported": sender.export(b"context", 48).hex(),
            }
        )
    rfc = gateway_key(1, RFC_PRIVATE, (AES, CHACHA))
    hybrid = oblivious.GatewayKey(255, kem.HybridPrivateKey(bytes.fromhex(made_up("hybrid"))))
    keys = [(rfc, RFC_PRIVATE), (gateway_key(0, made_up("zero")), made_up("zero")), (hybrid, made_up("hybrid"))]
    foreign = "0a0010" + "00" * 65 + "000400010001"
    cases = [exchange(rfc, RFC_PRIVATE, RFC_EPHEMERAL, RFC_REQUEST, RFC_NONCE, RFC_RESPONSE)]
    for key_id, algorithms, request, response in (
        (0, (AES,), "", ""),
        (200, (AES,), made_up("request", 100), made_up("response", 300)),
        (3, (CHACHA,), RFC_REQUEST, RFC_RESPONSE),
        (4, ((2, 1), (1, 2), CHACHA, AES), RFC_REQUEST, RFC_RESPONSE),
    ):
        secret = made_up(f"key {key_id}")
        offered = oblivious.KeyConfiguration(key_id, gateway_key(key_id, secret).private_key.public_key, algorithms)
        known = tuple(pair for pair in algorithms if pair in {AES, CHACHA})
        told = exchange(
            gateway_key(key_id, secret, known),
            secret,
            made_up(f"ephemeral {key_id}"),
            request,
            made_up(f"nonce {key_id}", 32 if known[0] == CHACHA else 16),
            response,
        )
        cases.append({**told, "configuration": offered.to_bytes().hex()})
    document = oblivious.encode_key_configurations([key.configuration for key, _ in keys[:2]])
    return {
        "description": "HPKE, key configurations, capsules and their answers. The first case is RFC 9458's example.",
        "hpke": schedules,
        "configurations": [
            {
                "key_id": key.key_id,
                "kem": key.private_key.kem_id,
                "private_key": secret,
                "algorithms": [list(pair) for pair in key.algorithms],
                "configuration": key.configuration.to_bytes().hex(),
            }
            for key, secret in keys
        ],
        "documents": [
            {"document": document.hex(), "known": [key.configuration.to_bytes().hex() for key, _ in keys[:2]]},
            {
                "document": f"{len(foreign) // 2:04x}{foreign}{document.hex()}",
                "known": [key.configuration.to_bytes().hex() for key, _ in keys[:2]],
            },
        ],
        "cases": cases,
    }


def told_fields(fields: tuple[binary_http.Field, ...]) -> list[list[str]]:
    """Fields as text."""
    return [[name.decode("ascii"), value.decode("ascii")] for name, value in fields]


def told_message(message: Message) -> JSON:
    """A message as JSON."""
    rest = {
        "headers": told_fields(message.headers),
        "content": message.content.hex(),
        "trailers": told_fields(message.trailers),
    }
    if isinstance(message, binary_http.Request):
        control = {name: getattr(message, name).decode("ascii") for name in ("method", "scheme", "authority", "path")}
        return {**control, **rest}
    early = [{"status": one.status, "headers": told_fields(one.headers)} for one in message.informational]
    return {"informational": early, "status": message.status, **rest}


CURL = binary_http.Request(
    method=b"GET",
    scheme=b"https",
    authority=b"",
    path=b"/hello.txt",
    headers=(
        (b"user-agent", b"curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
        (b"host", b"www.example.com"),
        (b"accept-language", b"en, mi"),
    ),
)
APACHE = binary_http.Response(
    status=200,
    headers=(
        (b"date", b"Mon, 27 Jul 2009 12:28:53 GMT"),
        (b"server", b"Apache"),
        (b"last-modified", b"Wed, 22 Jul 2009 19:15:56 GMT"),
        (b"etag", b'"34aa387-d-1568eb00"'),
        (b"accept-ranges", b"bytes"),
        (b"content-length", b"51"),
        (b"vary", b"Accept-Encoding"),
        (b"content-type", b"text/plain"),
    ),
    content=b"Hello World! My content includes a trailing CRLF.\r\n",
    informational=(
        binary_http.InformationalResponse(status=102, headers=((b"running", b'"sleep 15"'),)),
        binary_http.InformationalResponse(
            status=103,
            headers=(
                (b"link", b"</style.css>; rel=preload; as=style"),
                (b"link", b"</script.js>; rel=preload; as=script"),
            ),
        ),
    ),
)
CHUNKED = binary_http.Response(
    status=200, content=b"This content contains CRLF.\r\n", trailers=((b"trailer", b"text"),)
)
POST = binary_http.Request(
    method=b"POST",
    scheme=b"https",
    authority=b"example.com",
    path=b"/packages",
    headers=((b":protocol", b"x"), (b"a", b""), (b"a", b"b")),
    content=b"package",
    trailers=((b"t", b"u"),),
)


def sealing_messages() -> JSON:
    """Binary HTTP."""
    get = binary_http.Request(method=b"GET", scheme=b"https", authority=b"example.com", path=b"/")
    ok = binary_http.Response(status=200)
    ways: list[tuple[Message, bool, bool, int | None]] = [
        (CURL, False, False, None),
        (CURL, True, False, 144),
        (APACHE, True, False, None),
        (CHUNKED, False, False, None),
        (get, False, True, None),
        (ok, False, True, None),
        *((message, indeterminate, truncated, 800) for message in (CURL, APACHE) for indeterminate in (False, True)
          for truncated in (False, True)),
        *((message, indeterminate, True, None) for message in (POST, CHUNKED, get) for indeterminate in (False, True)),
        *((binary_http.Response(status=599, content=b"c" * n), indeterminate, False, None)
          for n in (63, 64) for indeterminate in (False, True)),
        (binary_http.Request(method=b"CONNECT", scheme=b"", authority=b"a.example:1", path=b""), False, False, None),
        (binary_http.Request(method=b"OPTIONS", scheme=b"http", authority=b"", path=b"*"), False, False, None),
    ]  # fmt: skip
    cases = []
    for message, indeterminate, truncated, padded_to in ways:
        how: JSON = {"indeterminate": indeterminate, "truncated": truncated, "padded_to": padded_to}
        request = isinstance(message, binary_http.Request)
        encode: Callable[..., bytes] = binary_http.encode_request if request else binary_http.encode_response
        kind = "request" if request else "response"
        cases.append({"kind": kind, **how, "message": told_message(message), "bytes": encode(message, **how).hex()})
    start = binary_http.encode_request(get, indeterminate=True).hex()[:-4]
    known = binary_http.encode_request(get).hex()
    others = {
        "content in two chunks": start + "036f6e650374776f0000",
        "a length on two bytes": known[:2] + "4003" + known[4:],
        "a length on four bytes": known[:2] + "80000003" + known[4:],
        "a framing on eight bytes": "c000000000000000" + known[2:],
    }
    return {
        "description": "HTTP messages as bytes. The first four are RFC 9292's examples, the next two RFC 9458's.",
        "cases": cases,
        "others": [
            {"why": why, "message": told_message(binary_http.decode_request(bytes.fromhex(data))), "bytes": data}
            for why, data in others.items()
        ],
    }


def flipped(data: str, at: int, bits: int) -> str:
    """The same bytes with some bits of one changed."""
    changed = bytearray.fromhex(data)
    changed[at] ^= bits
    return changed.hex()


def bad_sealing() -> JSON:
    """Capsules, answers and key configurations that must be refused."""
    key = gateway_key(1, RFC_PRIVATE)
    good = exchange(key, RFC_PRIVATE, RFC_EPHEMERAL, RFC_REQUEST, RFC_NONCE, RFC_RESPONSE)
    capsule, answer, configuration = good["capsule"], good["answer"], good["configuration"]
    document = f"{len(configuration) // 2:04x}{configuration}"
    order_8 = "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"
    capsules = {
        "nothing": ("", "malformed"),
        "half a header": (capsule[:12], "malformed"),
        "a header alone": (capsule[:14], "malformed"),
        "shorter than a tag": (capsule[: 2 * (7 + 32 + 15)], "malformed"),
        "another key": ("02" + capsule[2:], "unknown key"),
        "another KEM": (capsule[:2] + "0010" + capsule[6:], "unknown key"),
        "another KDF": (capsule[:6] + "0002" + capsule[10:], "unknown key"),
        "an AEAD that the key does not offer": (capsule[:10] + "0003" + capsule[14:], "unknown key"),
        "an ephemeral key of zero": (capsule[:14] + "00" * 32 + capsule[78:], "does not open"),
        "an ephemeral key of order 8": (capsule[:14] + order_8 + capsule[78:], "does not open"),
        "the ephemeral key written otherwise": (flipped(capsule, 38, 128), "does not open"),
        "the first bit of the ciphertext": (flipped(capsule, 39, 128), "does not open"),
        "the last bit": (flipped(capsule, -1, 1), "does not open"),
        "the last byte missing": (capsule[:-2], "does not open"),
        "one byte more": (capsule + "00", "does not open"),
    }  # fmt: skip
    answers = {
        "nothing": ("", "malformed"),
        "shorter than nonce and tag": (answer[:62], "malformed"),
        "another nonce": ("00" + answer[2:], "does not open"),
        "the last bit": (flipped(answer, -1, 1), "does not open"),
        "the last byte missing": (answer[:-2], "does not open"),
        "one byte more": (answer + "00", "does not open"),
    }
    configurations = {
        "nothing": "",
        "a KEM that nobody has": configuration[:2] + "ffff" + configuration[6:],
        "half a key": configuration[:40],
        "no algorithms": configuration[:70] + "0000",
        "half a pair of algorithms": configuration[:70] + "00020001",
        "more algorithms than announced": configuration + "00010003",
        "fewer algorithms than announced": configuration[:-2],
        "a public key of zero": configuration[:6] + "00" * 32 + configuration[70:],
        "a public key of order 8": configuration[:6] + order_8 + configuration[70:],
    }
    documents = {
        "nothing": "",
        "one byte": "00",
        "a configuration without its length": configuration,
        "the last byte missing": document[:-2],
        "one byte more": document + "00",
        "a configuration of no bytes after a good one": document + "0000",
        "a bad configuration after a good one": document + document[:10] + "00" * 32 + document[74:],
    }
    return {
        "description": "Capsules, answers and key configurations that must be refused; `good` must be taken.",
        "good": good,
        "capsules": [{"why": why, "capsule": data, "error": error} for why, (data, error) in capsules.items()],
        "answers": [{"why": why, "answer": data, "error": error} for why, (data, error) in answers.items()],
        "configurations": with_reasons(configurations, "configuration"),
        "documents": with_reasons(documents, "document"),
    }


def bad_sealing_messages() -> JSON:
    """Binary HTTP that must be refused."""
    known, indeterminate = (binary_http.encode_request(POST, indeterminate=way).hex() for way in (False, True))
    head = "0003474554056874747073" + "00" + "012f"
    requests = {
        "nothing": "",
        "framing alone": "00",
        "framing 4": "04" + known[2:],
        "a response where a request is asked for": "0140c8",
        "no method": "0000" + head[10:],
        "a method with a blank": "0003472054" + head[10:],
        "no scheme": "0003474554" + "00" + "00" + "012f",
        "no path": head[:-4] + "00",
        "a path without a slash": head[:-4] + "0161",
        "an asterisk for GET": head[:-4] + "012a",
        "a path with a line end": head[:-4] + "022f0a",
        "a path beyond ASCII": head[:-4] + "032fc3a9",
        "an authority that names a user": head[:22] + "03614062" + head[24:],
        "CONNECT with a path": "0007434f4e4e454354" + head[10:],
        "a path that ends too early": head[:-2],
        "a length of 2^62 - 1": "00" + "ff" * 8 + head[4:],
        "half an integer": "00" + "c000",
        "headers longer than the message": head + "05016101",
        "half a field line": head + "020161",
        "a name of no bytes": head + "0400026161",
        "a name in upper case": head + "0401410161",
        "a name with a blank": head + "050261200161",
        "a pseudo-field after a field": head + "0901610162" + "023a780178",
        "the method as a field": head + "0c073a6d6574686f6403474554",
        "a value with a line end": head + "050161020a61",
        "a value with a zero byte": head + "0401610100",
        "a value that begins with a blank": head + "05016102" + "2061",
        "a value that ends with a tab": head + "05016102" + "6109",
        "content longer than the message": head + "00" + "0261",
        "a pseudo-field among the trailers": head + "0000" + "05023a780178",
        "padding that is not zero": known + "0001",
        "indeterminate: headers without an end": "02" + head[2:] + "01610162",
        "indeterminate: half a chunk": "02" + head[2:] + "00" + "0361",
        "indeterminate: content without an end": "02" + head[2:] + "00" + "0161",
        "indeterminate: padding that is not zero": indeterminate + "01",
    }
    responses = {
        "nothing": "",
        "a request where a response is asked for": known,
        "no status": "01",
        "status 99": "01" + "4063",
        "status 600": "01" + "4258",
        "status 0": "0100",
        "an informational status and no other": "01" + "4064" + "00",
        "an informational status with half its headers": "01" + "4064" + "0501",
        "an informational status with a bad field": "01" + "4064" + "0401410161" + "40c8",
        "padding that is not zero": "0140c8" + "0000000001",
        "indeterminate: an informational status without an end": "03" + "4064" + "01610162" + "40c8",
    }
    return {
        "description": "Bytes that are no HTTP message of their `kind` and must be refused.",
        "cases": [
            {"why": why, "kind": kind, "bytes": data}
            for kind, table in (("request", requests), ("response", responses))
            for why, data in table.items()
        ],
    }


FILES: dict[str, Callable[[], JSON]] = {
    maker.__name__: maker
    for maker in (
        *(hashing, range_reduction, binning, arithmetic, dice, drawing, losses),
        *(update, labels, splitting, thinning),
        *(state, weights, contribution, bad_states, bad_packages, bad_vocabularies, bad_experiments),
        *(sealing, sealing_messages, bad_sealing, bad_sealing_messages),
    )
} | {
    name: maker
    for module in (
        *("protocol", "tallies", "locking", "log", "policy", "beacons"),
        *("tokens", "trusted", "relays", "cover_parts", "pages"),
    )
    for name, maker in import_module(f"generate_{module}").FILES.items()
}


def text_of(content: JSON) -> str:
    """JSON that a person can read and a diff can show: one line per case, ASCII only."""
    lines = []
    for name, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inside = ",\n".join("  " + json.dumps(case, default=plain) for case in value)
            lines.append(f" {json.dumps(name)}: [\n{inside}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value, default=plain)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: list[str]) -> int:
    """Write all files, or compare them."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    wrong = []
    for name, maker in FILES.items():
        path, text = FOLDER / f"{name}.json", text_of(maker())
        if arguments:
            if not path.is_file() or path.read_bytes() != text.encode():
                wrong.append(path.name)
        else:
            path.write_bytes(text.encode())
    if arguments:
        wrong += sorted(path.name for path in FOLDER.glob("*") if path.stem not in FILES)
    for file in wrong:
        sys.stdout.write(f"{file} is not what the code says\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
