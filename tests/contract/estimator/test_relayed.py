"""The keystone under two relays' cover: offline rounds are those of everybody's packages and of derived parts."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.sealing.part_streams import seeded_round_secret
from secvm.errors import BadInputError
from secvm.estimator.round_cover import CoverOrigin, net_cover, part_counts, simulated_origins
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import Name
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.update import fixed_target
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning
from secvm.protocol.codec import ExperimentId
from secvm.protocol.relays.commitments import RoundSecret
from secvm.protocol.relays.cover_parts import derive_part
from secvm_lab.replay import Replay
from tests.unit.estimator.relayed_packages import RelayedPath
from tests.unit.learning.helpers import relay_cover, rows_of

PARTS, RELAY_SEEDS = 4, ("north", "south")
KERNELS: tuple[Name, ...] = ("fast", "reference")
#: Labels, how they become models, and weights of classes.
SCHEMES: dict[str, dict[str, Any]] = {
    "two labels": {"labels": ("a", "b")},
    "weighted": {"labels": ("a", "b"), "class_weights": (Fraction(1), Fraction(3))},
    "one against the rest": {"labels": ("a", "b", "c")},
    "one against one": {"labels": ("a", "b", "c"), "multiclass": "ovo"},
    "a number": {"labels": ("n",), "loss": Loss("epsilon-insensitive", Fraction(1, 10))},
}


def asked(scheme: str, *, bins: int = 5, swift: bool = True, room: int = 400) -> Experiment:
    chosen = SCHEMES[scheme]
    labels = len(chosen["labels"])
    models = labels if labels > 2 else 1
    cover = relay_cover(
        bins=bins,
        labels=labels,
        models=models,
        shape="5",
        train="3/2",
        here="1/4",
        tested="1/2",
        parts=PARTS,
        room=room,
    )
    return Experiment(
        n_bins=bins,
        rule=Swift() if swift else Pegasos(lambda_=Fraction(1, 10)),
        thinning=Thinning(rho=Fraction(3, 2)) if swift else Thinning(q=Fraction(1, 2)),
        features_per_person=bins,
        cover=cover,
        **chosen,
    )


def opened_round(number: int, part: int = 2) -> CoverOrigin:
    """A round that took place between relays with known seeds."""
    label, entry, mix = (bytes([number, what] * 16) for what in range(3))
    return CoverOrigin.of_opening(RELAY_SEEDS, number, PARTS, label=label, roots=(entry, mix), opened=part)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_offline_rounds_are_those_of_the_packages_and_the_parts(scheme: str, data: st.DataObject) -> None:
    draw = data.draw
    experiment = asked(scheme, swift=draw(st.booleans()))
    n_labels, n_bins = len(experiment.labels), experiment.n_bins
    rows = draw(st.lists(st.sets(st.integers(0, n_bins - 1)), min_size=n_labels + 2, max_size=7))
    codes = [i % n_labels for i in range(len(rows))]
    regression = experiment.loss.regression
    targets = [fixed_target(float(i - 2), centre=Fraction(0), spread=Fraction(1)) for i in range(len(rows))]
    seed = draw(st.binary(max_size=3))
    people = [
        Individual(
            vector=BinnedVector(values=dict.fromkeys(sorted(bins), 1), n_bins=n_bins),
            label=code,
            target=target if regression else 0,
        )
        for bins, code, target in zip(rows, codes, targets, strict=True)
    ]
    deployed = draw(st.booleans())
    origins = opened_round if deployed else simulated_origins(experiment, seed)
    path = RelayedPath(experiment, people, seed, random.Random(1), origins)
    expected = path.run(2)
    folk = Population(
        rows=rows_of(rows, n_bins),
        labels=np.array(codes, dtype=np.int64),
        targets=np.array(targets, dtype=np.int64) if regression else None,
    )
    for kernel in KERNELS:
        training = OfflineTraining(experiment, seed=seed, kernel=kernel, origins=origins if deployed else None)
        for _ in range(2):
            training.advance(folk)
        assert training.state.to_bytes() == expected.to_bytes()


def test_a_replay_that_is_given_the_openings_counts_what_a_federation_counts() -> None:
    """Train and test people; the floor is for all devices, and a round below it is not stepped."""
    experiment = asked("two labels")
    rows = [{i % 5, (i * 3 + 1) % 5} for i in range(12)]
    train = np.arange(12) % 3 != 0
    people = [
        Individual(
            vector=BinnedVector(values=dict.fromkeys(sorted(row), 1), n_bins=5),
            label=i % 2,
            cohort=Cohort.TRAIN if train[i] else Cohort.TEST,
        )
        for i, row in enumerate(rows)
    ]
    path = RelayedPath(experiment, people, b"replayed", random.Random(3), opened_round)
    binned = rows_of(rows, 5)
    replay = Replay(
        experiment,
        Population(rows=binned, labels=np.arange(12) % 2, train=train),
        dice_seed=b"replayed",
        floor=10,
        origins=opened_round,
    )
    state = aggregate.start(experiment)
    for number, absent in ((1, 0), (2, 2), (3, 3)):
        here = np.arange(12) >= absent
        expected = path.tally(state, number, np.flatnonzero(here).tolist())
        assert replay.advance(here).tally == expected
        # Below the floor a round is counted, and nothing is learnt from it.
        if absent < 3:
            state = aggregate.step(experiment, state, expected)
    assert replay.state == state.to_bytes()


def test_seeds_are_those_that_seeded_relays_commit_to() -> None:
    origin = opened_round(3)
    for role, seed, seeds in zip(("entry", "mix"), RELAY_SEEDS, origin.seeds, strict=True):
        assert seeds == RoundSecret(seeded_round_secret(seed, role, 3)).part_seeds(PARTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("opened", range(PARTS))
def test_the_opened_part_of_each_relay_is_off_and_all_others_are_there(opened: int) -> None:
    experiment = asked("two labels")
    origin = opened_round(1, opened)
    whole = np.zeros(2 * (experiment.n_bins + 1), np.int64)
    for relay in range(2):
        for part in range(PARTS):
            whole += part_counts(experiment, origin, relay, part)[0] * (part != opened)
    net = net_cover(experiment, origin)
    np.testing.assert_array_equal(np.stack([net.plus[0], net.minus[0]], axis=-1).ravel(), whole)


def test_parts_that_overflow_are_drawn_again_offline_as_by_a_relay() -> None:
    experiment = asked("two labels", room=37)
    cover = experiment.cover
    assert cover is not None
    attempts = []
    for number in range(1, 12):
        origin = opened_round(number)
        part = derive_part(
            experiment,
            experiment_id=ExperimentId(bytes(16)),
            round_number=number,
            label=origin.label,
            root=origin.roots[1],
            seed=origin.seeds[1][0],
        )
        attempts.append(part.attempt)
        for ours, theirs in zip(part_counts(experiment, origin, 1, 0), part.counts, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert any(attempts)


def test_dice_give_other_stand_ins_for_every_seed_and_round_and_print_nothing() -> None:
    origins = [CoverOrigin.from_dice(seed, number, 9) for seed in (b"", b"x") for number in (1, 2)]
    told = {value for one in origins for value in (one.label, *one.roots, *one.seeds[0], *one.seeds[1])}
    assert len(told) == 4 * (3 + 18)
    assert repr(origins[0]) == "CoverOrigin(...)"
    drawn = {CoverOrigin.from_dice(b"", number, 4).opened for number in range(60)}
    assert drawn == {0, 1, 2, 3}


def test_origins_of_other_parts_or_short_roots_are_refused() -> None:
    with pytest.raises(BadInputError, match="32 bytes"):
        CoverOrigin.of_opening(RELAY_SEEDS, 1, 4, label=b"", roots=(bytes(32), bytes(32)), opened=0)
    with pytest.raises(BadInputError, match="part 4 of 4"):
        CoverOrigin.of_opening(RELAY_SEEDS, 1, 4, label=bytes(32), roots=(bytes(32), bytes(32)), opened=4)
    with pytest.raises(BadInputError, match="9 parts"):
        net_cover(asked("two labels"), CoverOrigin.from_dice(b"", 1, 9))


def test_a_count_that_nobody_could_explain_is_not_stepped_from() -> None:
    experiment = asked("two labels")

    class Flooded(OfflineTraining):
        def received(self, tally: Tally) -> Tally:
            tally.plus[0, 0] += 10**5
            return tally

    people = Population(rows=rows_of([[0]] * 8, experiment.n_bins), labels=np.arange(8) % 2)
    training = Flooded(experiment, seed=b"f")
    assert training.advance(people).abandoned
    assert training.state.to_bytes() == aggregate.start(experiment).to_bytes()
    assert not OfflineTraining(experiment, seed=b"f").advance(people).abandoned
