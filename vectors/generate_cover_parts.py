"""The vectors of relays' cover: its law, both seals, the streams of a part, and whole parts. Written by generate.py."""
# ruff: noqa: INP001  (beside the package, not a part of it)

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from shared import JSON  # type: ignore[import-not-found]  # beside this program, not in a package

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import seal_both
from secvm.crypto.sealing.part_streams import PartStream, StreamName, part_key
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.protocol.canonical import ratio_text
from secvm.protocol.codec import ExperimentId
from secvm.protocol.relays.cover_parts import CoverPart, derive_part, seal_part

STREAMS: tuple[StreamName, ...] = ("train", "participation", "test", "seals")


def known(name: str, size: int = 32) -> bytes:
    """Bytes that follow from a name."""
    return hashlib.shake_256(f"vectors of relays' cover: {name}".encode()).digest(size)


COUNT, MIX = (X25519PrivateKey.derive(known(name)) for name in ("count seed", "mix seed"))


def cover() -> JSON:
    """The law, seals, streams and parts."""
    return {
        "description": "Cover of relays: what is taken off, seals with given secrets, streams, and parts from seeds.",
        "laws": _laws(),
        "seals": _seals(),
        "streams": _streams(),
        "parts": _parts(),
    }


def _laws() -> list[JSON]:
    told = [
        (Fraction(15), Fraction(21, 2)),
        (Fraction(15), Fraction(1, 4)),
        (Fraction(1, 4), Fraction(1)),
        (Fraction(37, 10), Fraction(200, 7)),
        (Fraction(1), Fraction(1, 10**6 - 1)),
        (Fraction(1, 1000), Fraction(16384)),
    ]
    return [
        {
            "shape": ratio_text(shape),
            "odds": ratio_text(odds),
            "taken": round(2 * shape * odds),
            "quantile": Noise(cells=1, shape=shape, odds=odds).quantile,
        }
        for shape, odds in told
    ]


def _seals() -> list[JSON]:
    cases = []
    for i, ephemerals in enumerate((known("ephemerals", 64), bytes(64), b"\xff" * 64)):
        label, package = known(f"label {i}"), known(f"package {i}")
        inner, outer = seal_both(COUNT.public_key, MIX.public_key, label, ephemerals, package)
        cases.append(
            {
                "count_private_key": COUNT.secret_bytes(),
                "mix_private_key": MIX.secret_bytes(),
                "label": label,
                "ephemerals": ephemerals,
                "package": package,
                "inner": inner,
                "outer": outer,
            }
        )
    return cases


def _streams() -> list[JSON]:
    cases = []
    for attempt in (0, 1, 2**32 - 1):
        seed, label, root = (known(f"{name} {attempt}") for name in ("seed", "label", "root"))
        key = part_key(seed, label=label, root=root, attempt=attempt)
        cases += [
            {
                "seed": seed,
                "label": label,
                "root": root,
                "attempt": attempt,
                "part_key": key,
                "stream": name,
                "start": start,
                "bytes": PartStream(key, name, start=start).take(40),
            }
            for name, start in zip(STREAMS, (0, 16, 1000, 64), strict=True)
        ]
    return cases


def _parts() -> list[JSON]:
    numbers = Loss("epsilon-insensitive")
    return [
        _part("two labels", ("a", "b"), bins=5, room=60),
        _part("three labels", ("a", "b", "c"), bins=4, room=110, parts=9),
        _part("one versus one", ("a", "b", "c"), bins=4, room=110, multiclass="ovo"),
        _part("numbers", ("n",), bins=8, room=50, loss=numbers),
        # Room for little more than the mean, and a seed whose first attempts overflow.
        _part("overflows", ("a", "b"), bins=5, room=39, attempts=2),
        _part("many", ("a", "b"), bins=20, room=1200, odds=Fraction(21, 2), shape=Fraction(15), parts=9),
    ]


def _part(
    name: str,
    labels: tuple[str, ...],
    *,
    bins: int,
    room: int,
    parts: int = 4,
    odds: Fraction = Fraction(7, 5),
    shape: Fraction = Fraction(4),
    multiclass: str = "ovr",
    loss: Loss = Loss("hinge"),  # noqa: B008  (a frozen value)
    attempts: int = 0,
) -> JSON:
    models = Experiment(n_bins=bins, labels=labels, rule=Pegasos(), loss=loss, multiclass=multiclass).models.n_models
    test = None
    if len(labels) > 1:
        test = Noise(cells=len(labels) ** 2, shape=shape, odds=Fraction(2, 3))
    made = RelayCover(
        train=Noise(cells=2 * models * (bins + 1), shape=shape, odds=odds),
        participation=Noise(cells=2 * len(labels), shape=shape, odds=Fraction(1, 2)),
        test=test,
        parts=parts,
        packages=parts * room,
    )
    experiment = Experiment(
        n_bins=bins, labels=labels, rule=Pegasos(), loss=loss, multiclass=multiclass, features_per_person=3, cover=made
    )
    fields = {"label": known(f"{name}: label"), "root": known(f"{name}: root")}
    tries = (known(f"{name}: seed {i}") for i in range(1000))
    seed, part = next(
        (seed, part) for seed in tries if (part := _derived(experiment, seed, **fields)).attempt == attempts
    )
    return {
        "name": name,
        "bins": bins,
        "labels": len(labels),
        "models": models,
        "parts": parts,
        "packages": made.packages,
        "train": _noise(made.train),
        "participation": _noise(made.participation),
        "test": None if test is None else _noise(test),
        "experiment_id": known("experiment", 16).hex(),
        "round": 7,
        **{field: value.hex() for field, value in fields.items()},
        "seed": seed,
        "attempt": part.attempt,
        "counts": [[[int(c), int(n[c])] for c in np.flatnonzero(n)] for n in part.counts],
        "count_key": COUNT.public_key.to_bytes(),
        "mix_key": MIX.public_key.to_bytes(),
        **_sealed(part),
    }


def _derived(experiment: Experiment, seed: bytes, *, label: bytes, root: bytes) -> CoverPart:
    return derive_part(
        experiment,
        experiment_id=ExperimentId(known("experiment", 16)),
        round_number=7,
        label=label,
        root=root,
        seed=seed,
    )


def _sealed(part: CoverPart) -> JSON:
    """All packages where they are few, and digests of everything."""
    packages = part.packages(0, part.size)
    (block,) = seal_part(part, count_key=COUNT.public_key, mix_key=MIX.public_key)
    return {
        "encoded": packages.hex() if part.size < 200 else None,
        "encoded_digest": hashlib.sha256(packages).hexdigest(),
        "first_inner": block.inner[:80],
        "first_outer": block.outer[:128],
        "inner_digest": hashlib.sha256(block.inner).hexdigest(),
        "outer_digest": hashlib.sha256(block.outer).hexdigest(),
    }


def _noise(noise: Noise) -> JSON:
    return {"shape": ratio_text(noise.shape), "odds": ratio_text(noise.odds)}


FILES: dict[str, Callable[[], JSON]] = {"cover": cover}
