"""A relay's cover and devices' packages look alike under both seals: to X, which sees outer capsules, and to C and E.

As many capsules are sealed by the code of a device as by that of a relay, for the keys of one round. All have one
size, so what is left are their bits. A classifier learns from one half of the capsules and scores the other; each byte
is looked at alone, too. Fails by chance with probability at most 1e-6 a test: Massart's inequality for two samples of
one law (``bounds.two_samples``), of which bytes and classifier have half each, and the bytes share theirs. Capsules
with a fault must show.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, open_outer
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TrainPackage
from secvm.protocol.relays.cover_parts import derive_part, seal_part
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, read_request, seal_submission
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound
from tests.deep.statistical.bounds import two_samples
from tests.seeds import FALSE_ALARM, seed_for

N = 4_000
ROUND = RelayedRound()
DOCUMENT = ROUND.document
SIZES = {"outer": OUTER_BYTES, "inner": INNER_BYTES}
Capsules = NDArray[np.uint8]


@cache
def of_devices() -> dict[str, Capsules]:
    """Participation, a unit, and nulls, as a device seals them."""
    dice = np.random.default_rng(seed_for("capsules of devices"))
    key, found = ROUND.secret("mix").mix_key, dict[str, list[bytes]](outer=[], inner=[])
    while len(found["outer"]) < N:
        packages: list[Package] = [
            ParticipationPackage(cohort=Cohort.TRAIN, class_index=int(dice.integers(2))),
            TrainPackage(model=0, bin_index=int(dice.integers(DOCUMENT.experiment.n_bins)), sign=1),
        ]
        packages += [NullPackage()] * (DOCUMENT.budget - len(packages))
        words = iter(dice.integers(0, 2**64, 4096, dtype=np.uint64).tolist())
        body = seal_submission(
            DOCUMENT,
            ROUND.manifest,
            packages,
            order=draw_order(DOCUMENT.budget, words),
            ephemerals=dice.bytes(SECRETS_BYTES * DOCUMENT.budget),
        ).body
        outers = read_request(body, budget=DOCUMENT.budget)
        found["outer"] += outers
        found["inner"] += [open_outer(key, ROUND.label, outer) for outer in outers]
    return {layer: _table(b"".join(capsules), SIZES[layer]) for layer, capsules in found.items()}


@cache
def of_relays() -> dict[str, Capsules]:
    """Parts of cover, as a relay seals them."""
    dice = np.random.default_rng(seed_for("capsules of relays"))
    inner, outer = bytearray(), bytearray()
    while len(outer) < N * OUTER_BYTES:
        part = derive_part(
            DOCUMENT.experiment,
            experiment_id=DOCUMENT.experiment_id,
            round_number=ROUND.manifest.round_number,
            label=ROUND.label,
            root=dice.bytes(32),
            seed=dice.bytes(32),
        )
        for block in seal_part(
            part, count_key=ROUND.count_key.public_key, mix_key=ROUND.secret("mix").mix_key.public_key
        ):
            inner += block.inner
            outer += block.outer
    return {"outer": _table(bytes(outer), OUTER_BYTES), "inner": _table(bytes(inner), INNER_BYTES)}


def _table(capsules: bytes, size: int) -> Capsules:
    return np.frombuffer(capsules, np.uint8).reshape(-1, size)[:N]


def by_byte(ours: Capsules, theirs: Capsules) -> float:
    """What the byte tells that tells most, in units of the limit."""
    rate = FALSE_ALARM / 2 / ours.shape[1]
    return max(two_samples(a, b, rate) for a, b in zip(ours.T, theirs.T, strict=True))


def guessed(ours: Capsules, theirs: Capsules) -> float:
    """What a classifier on all bits tells, in units of the limit."""
    half = N // 2
    bits = [np.unpackbits(one, axis=1).astype(float) for one in (ours, theirs)]
    model = LogisticRegression(C=0.01, max_iter=200)
    model.fit(np.concatenate([one[:half] for one in bits]), np.repeat([0, 1], half))
    scored, others = (model.decision_function(one[half:]) for one in bits)
    return two_samples(scored, others, FALSE_ALARM / 2)


@pytest.mark.parametrize("layer", SIZES)
def test_nothing_tells_covers_capsules_from_devices(layer: str) -> None:
    ours, theirs = of_devices()[layer], of_relays()[layer]
    assert ours.shape == theirs.shape == (N, SIZES[layer])
    assert len(np.unique(np.concatenate([ours, theirs]), axis=0)) == 2 * N
    assert by_byte(ours, theirs) < 1
    assert guessed(ours, theirs) < 1


def _another_encoding(capsules: Capsules) -> Capsules:
    """Every third share of a key has the bit that readers pass over."""
    changed = capsules.copy()
    changed[::3, 31] |= 0x80
    return changed


def _a_key_id(capsules: Capsules) -> Capsules:
    """Every second capsule begins with the number of a key."""
    changed = capsules.copy()
    changed[::2, 0] = 7
    return changed


@pytest.mark.parametrize("layer", SIZES)
@pytest.mark.parametrize("fault", [_another_encoding, _a_key_id])
def test_a_relay_whose_capsules_differ_is_told_apart(layer: str, fault: Callable[[Capsules], Capsules]) -> None:
    ours, theirs = of_devices()[layer], fault(of_relays()[layer])
    assert by_byte(ours, theirs) > 1
    assert guessed(ours, theirs) > 1
