"""An experiment with cover: what a device sends, what is taken off again, and what the intervals say."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError, LocalProtocolError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.scoring import Share, score
from secvm.learning.cover import Cover
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector, HashBinning, bin_features
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.cover import draw_cover
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.thinning import Thinning

BINS, LABELS = 6, 2


def noise(cells: int, cap: int = 40) -> CoverNoise:
    return CoverNoise(cells=cells, share=Fraction(1, 3), odds=Fraction(3, 2), cap=cap)


COVER = Cover(
    train=noise(2 * (BINS + 1)),
    participation=noise(2 * LABELS),
    test=noise(LABELS**2),
    real_cap=4,
    train_share=Fraction(7, 10),
)
PLAIN = Experiment(
    n_bins=BINS,
    labels=("f", "m"),
    rule=Swift(),
    thinning=Thinning(rho=Fraction(1)),
    features_per_person=5,
)
COVERED = replace(PLAIN, cover=COVER, budget=COVER.budget)


def person(label: int, cohort: Cohort, bins: set[int]) -> Individual:
    vector = BinnedVector(values=dict.fromkeys(sorted(bins), 1), n_bins=BINS)
    return Individual(vector=vector, label=label, cohort=cohort)


def sent(one: Individual, experiment: Experiment, number: int, round_number: int = 1) -> list[Package]:
    state = experiment.start()
    return contribute(
        one,
        experiment=experiment,
        training=experiment.rule.training_weights(state),
        evaluation=experiment.rule.evaluation_weights(state),
        dice=UnsafeSeededDice(b"covered", number),
        round_number=round_number,
    )


people = st.builds(
    person,
    st.integers(0, 1),
    st.sampled_from(Cohort),
    st.sets(st.integers(0, BINS - 1), max_size=5),
)


@given(people, st.integers(0, 10**6))
def test_a_device_sends_its_own_packages_cover_and_nulls_and_always_b(one: Individual, number: int) -> None:
    packages = sent(one, COVERED, number)
    assert len(packages) == COVER.budget
    cover = draw_cover(COVER, n_bins=BINS, n_labels=LABELS, dice=UnsafeSeededDice(b"covered", number), round_number=1)
    own = [p for p in sent(one, replace(PLAIN, budget=COVER.real_cap + 1), number) if not isinstance(p, NullPackage)]
    assert [p for p in packages if not isinstance(p, NullPackage)] == [*own, *cover]


@given(people, people, st.integers(0, 10**6))
def test_cover_is_the_same_whoever_the_person_is(one: Individual, other: Individual, number: int) -> None:
    def cover_of(someone: Individual) -> Sequence[Package]:
        own = [p for p in sent(someone, PLAIN, number) if isinstance(p, ParticipationPackage | TestPackage)]
        units = [p for p in sent(someone, PLAIN, number) if isinstance(p, TrainPackage)][: COVER.real_cap]
        found = [p for p in sent(someone, COVERED, number) if not isinstance(p, NullPackage)]
        return found[len(own) + len(units) :]

    assert cover_of(one) == cover_of(other)


def test_own_units_are_cut_to_their_own_cap() -> None:
    many = person(0, Cohort.TRAIN, {0, 1, 2, 3, 4})
    experiment = replace(COVERED, rule=Pegasos(), thinning=Thinning(), cover=replace(COVER, real_cap=3))
    # Six units with the bias, and only three may leave; the cover's cap has room for more.
    units = [p for p in sent(many, experiment, 1) if isinstance(p, TrainPackage)]
    cover = [
        p
        for p in draw_cover(COVER, n_bins=BINS, n_labels=LABELS, dice=UnsafeSeededDice(b"covered", 1), round_number=1)
        if isinstance(p, TrainPackage)
    ]
    assert len(units) == 3 + len(cover)


def test_two_units_in_a_bin_are_refused_and_one_per_bin_makes_none() -> None:
    twice = Individual(vector=BinnedVector(values={2: 2}, n_bins=BINS), label=0)
    with pytest.raises(LocalProtocolError, match="one unit in a bin"):
        sent(twice, COVERED, 1)
    binning = HashBinning(n_bins=2, salt=b"salt", n_hashes=2)
    features = {f"word {i}": i + 1 for i in range(20)}
    assert set(bin_features(features, binning, one_per_bin=True).values.values()) == {1}
    assert max(bin_features(features, binning, presence=True).values.values()) > 1


def test_what_is_taken_off_is_the_mean_of_the_cover() -> None:
    """Over 3,000 devices that send nothing of their own but participation; six standard errors (1e-8 each)."""
    n = 3_000
    quiet = replace(COVERED, budget=None)
    packages: list[Package] = []
    for i in range(n):
        cohort = Cohort.TEST if i % 10 >= 7 else Cohort.TRAIN
        packages.append(ParticipationPackage(cohort=cohort, class_index=i % 2))
        packages += draw_cover(COVER, n_bins=BINS, n_labels=LABELS, dice=UnsafeSeededDice(b"mean", i), round_number=1)
    tally = quiet.empty_tally().count(packages)
    found = COVER.uncovered(tally)
    error = float(COVER.participation.variance_per_cell(n)) ** 0.5
    assert abs(float(COVER.devices(tally)) - n) < 6 * error
    assert np.abs(found.participants - 0.35 * n).max() < 12 * error
    for counts in (found.plus, found.minus, found.cells):
        assert np.abs(counts).max() < 12 * error
    assert tally.plus.min() > 0.4 * n


def test_a_step_is_that_of_the_uncovered_tally() -> None:
    n = 50
    packages = [p for i in range(n) for p in sent(person(i % 2, Cohort.TRAIN, {i % BINS}), COVERED, i)]
    tally = COVERED.empty_tally().count(packages)
    weighted = replace(COVERED, class_weights=(Fraction(3), Fraction(1)))
    plain = replace(weighted, cover=None)
    assert (
        weighted.step(weighted.start(), tally).to_bytes()
        == plain.step(plain.start(), COVER.uncovered(tally)).to_bytes()
    )


def test_intervals_of_metrics_include_the_noise() -> None:
    cells = np.array([[900, 100], [150, 850]])
    plain, noisy = score(cells), score(cells, variance=400.0)
    for one, other in zip(
        (plain.accuracy, *plain.recall, *plain.precision, *plain.baseline),
        (noisy.accuracy, *noisy.recall, *noisy.precision, *noisy.baseline),
        strict=True,
    ):
        assert one.value == other.value
        assert other.interval[0] < one.interval[0]
        assert other.interval[1] > one.interval[1]
    tally = replace(COVERED.empty_tally(), cells=cells, participants=np.array([3000, 3000]))
    assert COVERED.score(tally).accuracy.variance == pytest.approx(COVER.test_variance(tally))
    assert PLAIN.score(tally) == plain


def test_the_widened_interval_holds_the_truth_as_often_as_it_says() -> None:
    """95 % of 2,000 noisy counts; an interval that is right fails with a chance below 1e-6 (binomial, 90 %)."""
    rng, n, truth, sd = np.random.default_rng(2), 400, 0.8, 15.0
    held = 0
    for _ in range(2_000):
        right = rng.binomial(n, truth)
        cells = np.array([[right, n - right]]) + np.rint(rng.normal(0, sd, (1, 2))).astype(int)
        low, high = Share(int(cells[0, 0]), int(cells.sum()), sd**2, (1, 1)).interval
        held += low <= truth <= high
    assert held >= 1_860


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_bins": 7}, "made for other bins"),
        ({"labels": ("a", "b", "c")}, "made for other bins"),
        ({"features_per_person": None}, "bound on the features"),
        ({"budget": COVER.budget - 1}, f"a budget of {COVER.budget}"),
        ({"thinning": Thinning(), "fixed_point_rows": True, "budget": None}, "rows that packages can carry"),
    ],
)
def test_cover_that_does_not_fit_is_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadExperimentError, match=sentence):
        replace(COVERED, **change)  # type: ignore[arg-type]  # a table of fields


def test_numbers_as_labels_have_no_test_cells() -> None:
    fields = {"labels": ("number",), "loss": Loss("epsilon-insensitive", Fraction(1, 10)), "rule": Pegasos()}
    without = replace(COVER, participation=noise(2), test=None)
    made = replace(PLAIN, **fields, thinning=Thinning(), cover=without)  # type: ignore[arg-type]  # a table of fields
    assert len(made.cover.kinds if made.cover else ()) == 2
