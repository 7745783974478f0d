"""A part of a relay's cover, derived from its seed: its packages, counts, attempts and capsules."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.sealing import layers
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.part_streams import PartStream, part_key
from secvm.errors import BadExperimentError, LocalProtocolError
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.cover_sampler import CellLaw, draw_clusters
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.relays.cover_parts import CoverPart, derive_part, seal_part
from tests.seeds import seed_bytes

BINS, PARTS = 6, 4
EXPERIMENT_ID = ExperimentId(bytes(range(16)))
LABEL, ROOT = bytes(range(32)), bytes(range(32, 64))


def made(labels: int = 3, room: int = 300, odds: Fraction = Fraction(3, 2), bins: int = BINS) -> Experiment:
    models = labels if labels > 2 else 1
    shape = Fraction(5)
    cover = RelayCover(
        train=Noise(cells=2 * models * (bins + 1), shape=shape, odds=odds),
        participation=Noise(cells=2 * labels, shape=shape, odds=Fraction(1, 4)),
        test=None if labels == 1 else Noise(cells=labels**2, shape=shape, odds=Fraction(1, 2)),
        parts=PARTS,
        packages=PARTS * room,
    )
    loss = Loss("epsilon-insensitive", Fraction(1, 10)) if labels == 1 else Loss("hinge")
    return Experiment(
        n_bins=bins, labels=tuple("abcdefgh"[:labels]), rule=Pegasos(), loss=loss, features_per_person=3, cover=cover
    )


def derived(experiment: Experiment, seed: bytes, **changes: object) -> CoverPart:
    fields = {"experiment_id": EXPERIMENT_ID, "round_number": 7, "label": LABEL, "root": ROOT, "seed": seed}
    return derive_part(experiment, **(fields | changes))  # type: ignore[arg-type]  # a table of fields


def seeds(purpose: str, count: int) -> list[bytes]:
    whole = seed_bytes(purpose)
    return [part_key(whole.ljust(32, b"\0")[:32], label=LABEL, root=ROOT, attempt=i) for i in range(count)]


def slowly(experiment: Experiment, seed: bytes, attempt: int) -> list[Package]:
    """§29 once more, package by package, by the sampler alone; as many as there are."""
    cover = experiment.cover
    assert cover is not None
    key = part_key(seed, label=LABEL, root=ROOT, attempt=attempt)
    labels, found = len(experiment.labels), list[Package]()
    for name, noise in zip(("train", "participation", "test"), cover.kinds, strict=False):
        law = CellLaw(cells=noise.cells, shape=noise.shape / (cover.parts - 1), odds=noise.odds)
        for cell, size in draw_clusters(law, PartStream(key, name).words()):  # type: ignore[arg-type]
            package: Package
            match name:
                case "train":
                    model, place = divmod(cell, 2 * (experiment.n_bins + 1))
                    package = TrainPackage(model=model, bin_index=place // 2, sign=-1 if place % 2 else 1)
                case "participation":
                    cohort = Cohort.TEST if cell >= labels else Cohort.TRAIN
                    package = ParticipationPackage(cohort=cohort, class_index=cell % labels)
                case _:
                    package = TestPackage(true_class=cell // labels, predicted_class=cell % labels)
            found += [package] * size
    return found


# ── packages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 3]), st.binary(min_size=32, max_size=32), st.sampled_from(["fast", "reference"]))
def test_a_part_is_what_the_sampler_draws_package_by_package_and_nulls(labels: int, seed: bytes, name: str) -> None:
    experiment = made(labels)
    part = derived(experiment, seed, kernel=kernels(name))  # type: ignore[arg-type]  # one of the two names
    assert part.attempt == 0
    assert part.size == 300
    expected = slowly(experiment, seed, 0)
    assert part.named == len(expected)
    expected += [NullPackage()] * (part.size - len(expected))
    data = part.packages(0, part.size)
    assert data == b"".join(encode(AddressedPackage(EXPERIMENT_ID, 7, one)) for one in expected)
    assert part.tally == aggregate.empty_tally(experiment).count(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300))
def test_any_run_of_packages_can_be_asked_for(first: int, count: int) -> None:
    part = derived(made(), bytes(32))
    whole = part.packages(0, part.size)
    count = min(count, part.size - first)
    assert part.packages(first, count) == whole[32 * first : 32 * (first + count)]
    with pytest.raises(LocalProtocolError, match="of a part of 300"):
        part.packages(first, 301 - first)


def test_seed_label_and_root_each_make_another_part_and_round_and_experiment_do_not() -> None:
    experiment = made(bins=40, room=900)
    right = derived(experiment, bytes(32))
    same = (derived(experiment, bytes(32)), derived(experiment, bytes(32), round_number=8))
    other = (
        derived(experiment, b"\1" * 32),
        derived(experiment, bytes(32), label=ROOT),
        derived(experiment, bytes(32), root=LABEL),
    )
    assert all((one.counts[0] == right.counts[0]).all() for one in same)
    assert all((one.counts[0] != right.counts[0]).any() for one in other)


def test_a_part_prints_nothing_and_needs_relays_cover() -> None:
    experiment = made()
    assert repr(derived(experiment, bytes(32))) == "CoverPart(...)"
    with pytest.raises(BadExperimentError):
        derived(replace(experiment, cover=None), bytes(32))
    for change in ({"round_number": 0}, {"experiment_id": b"short"}, {"label": b""}, {"root": b""}):
        with pytest.raises(LocalProtocolError):
            derived(experiment, bytes(32), **change)


# ── overflow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def tight() -> Experiment:
    """Room for little more than the mean: many a part overflows."""
    experiment = made(2)
    cover = experiment.cover
    assert cover is not None
    return replace(experiment, cover=replace(cover, packages=PARTS * (int(cover.mean_of_part) + 2)))


def test_a_part_that_overflows_is_drawn_again_and_is_the_first_that_fits() -> None:
    experiment, attempts = tight(), Counter[int]()
    for seed in seeds("overflow", 60):
        parts = [derived(experiment, seed, kernel=kernels(name)) for name in ("fast", "reference")]
        part = parts[0]
        attempts[part.attempt] += 1
        totals = [len(slowly(experiment, seed, attempt)) for attempt in range(part.attempt + 1)]
        assert all(total > part.size for total in totals[:-1])
        assert totals[-1] == part.named <= part.size
        assert parts[1].packages(0, part.size) == part.packages(0, part.size)
        assert parts[1].attempt == part.attempt
    # Otherwise nothing was seen: each attempt overflows about two times in five.
    assert attempts[0]
    assert sum(attempts[k] for k in attempts if k)


def test_a_part_that_is_exactly_full_is_taken() -> None:
    seed = bytes(32)
    experiment = made(2)
    cover = experiment.cover
    assert cover is not None
    named = next(
        (len(slowly(experiment, s, 0)), s)
        for s in seeds("full", 200)
        if len(slowly(experiment, s, 0)) > cover.mean_of_part + 1
    )
    total, seed = named
    exact = replace(experiment, cover=replace(cover, packages=PARTS * total))
    assert derived(exact, seed).attempt == 0
    one_less = replace(experiment, cover=replace(cover, packages=PARTS * (total - 1)))
    assert derived(one_less, seed).attempt > 0


# ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────────────

COUNT, MIX = (X25519PrivateKey.derive(bytes([i]) * 32) for i in (1, 2))


@pytest.mark.parametrize("block", [1, 7, 4096])
def test_capsules_are_sealed_with_the_64_bytes_of_their_package(block: int) -> None:
    part = derived(made(2, room=40, odds=Fraction(1, 4)), b"\3" * 32)
    blocks = list(seal_part(part, count_key=COUNT.public_key, mix_key=MIX.public_key, block=block))
    inner, outer = (b"".join(getattr(one, name) for one in blocks) for name in ("inner", "outer"))
    stream = PartStream(part.key, "seals")
    for i in range(part.size):
        ephemerals, package = stream.take(64), part.packages(i, 1)
        one, two = layers.seal_both(COUNT.public_key, MIX.public_key, LABEL, ephemerals, package)
        assert inner[80 * i : 80 * (i + 1)] == one
        assert outer[128 * i : 128 * (i + 1)] == two
        assert layers.open_inner(COUNT, LABEL, layers.open_outer(MIX, LABEL, two)) == package
    alone = list(seal_part(part, count_key=COUNT.public_key, block=block))
    assert b"".join(one.inner for one in alone) == inner
    assert not any(one.outer for one in alone)


def test_blocks_come_one_by_one() -> None:
    part = derived(made(), bytes(32))
    assert len(next(iter(seal_part(part, count_key=COUNT.public_key, block=3))).inner) == 3 * 80
    with pytest.raises(LocalProtocolError):
        next(islice(seal_part(part, count_key=COUNT.public_key, block=0), 1))
