"""Update → packages → tally: nothing is lost, nothing is counted twice, and thinning is fair."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning._kernels.reference import dice_word
from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.contribution import fit_budget, pad, split, thin
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, dice_key
from secvm.learning.individual.update import Update
from secvm.learning.package import NullPackage, Package, TrainPackage
from secvm.learning.thinning import ALWAYS, Thinning

UPDATES = st.dictionaries(st.integers(0, 9), st.integers(-6, 6).filter(bool), max_size=8).map(
    lambda values: Update(values={**dict(sorted(values.items())), 10: 1})
)
DICE = UnsafeSeededDice(b"splitting", 1)


def counted(packages: list[Package]) -> Tally:
    return Tally.empty(n_models=2, n_bins=10, n_labels=2).count(packages)


@given(UPDATES, st.integers(0, 1), st.randoms(use_true_random=False), st.data())
def test_tally_of_the_split_is_the_update_in_any_order_with_packages_sent_twice(
    update: Update, model: int, shuffler: random.Random, data: st.DataObject
) -> None:
    sent = list(enumerate(split(update, model)))
    again = data.draw(st.lists(st.sampled_from(sent), max_size=20))
    arrived = sent + again
    shuffler.shuffle(arrived)
    seen: set[int] = set()
    once: list[Package] = []
    for package_id, package in arrived:
        if package_id not in seen:
            seen.add(package_id)
            once.append(package)
    tally = counted(once)
    net = (tally.plus - tally.minus)[model].tolist()
    assert {b: v for b, v in enumerate(net) if v} == update.values
    assert int(tally.plus.sum() + tally.minus.sum()) == sum(map(abs, update.values.values()))
    assert not tally.plus[1 - model].any()


def test_packages_of_a_split_stand_in_ascending_bins_with_the_bias_last() -> None:
    packages = split(Update(values={1: 2, 4: -1, 9: 1}), model=3)
    assert [(p.model, p.bin_index, p.sign) for p in packages] == [(3, 1, 1), (3, 1, 1), (3, 4, -1), (3, 9, 1)]


# ── thinning ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(UPDATES, st.integers(0, ALWAYS), st.integers(1, 500), st.integers(0, 3))
def test_unit_is_sent_when_the_word_of_its_number_lies_below(
    update: Update, keep53: int, round_number: int, model: int
) -> None:
    packages = split(update, model)
    key = dice_key(b"splitting", 1, Purpose.THINNING)
    expected = [p for number, p in enumerate(packages) if dice_word(key, round_number, model, number) >> 11 < keep53]
    assert thin(packages, keep53=keep53, dice=DICE, round_number=round_number, model=model) == expected


def test_thinning_by_nothing_sends_all_and_by_zero_sends_none() -> None:
    packages = split(Update(values={0: 9, 3: 1}), 0)
    assert thin(packages, keep53=ALWAYS, dice=DICE, round_number=1, model=0) == packages
    assert thin(packages, keep53=0, dice=DICE, round_number=1, model=0) == []


def test_word_equal_to_the_probability_is_not_sent() -> None:
    packages = split(Update(values={3: 1}), 0)
    word = DICE.words(Purpose.THINNING, 1, 0, 1)[0] >> 11
    assert thin(packages, keep53=word, dice=DICE, round_number=1, model=0) == []
    assert thin(packages, keep53=word + 1, dice=DICE, round_number=1, model=0) == packages


@given(st.fractions(Fraction(1, 10**6), 2**20, max_denominator=10**6), st.integers(1, 2**44))
def test_keeping_by_rho_is_rho_over_the_norm_rounded_down(rho: Fraction, squared: int) -> None:
    keep = int(Thinning(rho=rho).keep53([squared])[0])
    # keep / 2^53 <= rho / sqrt(squared) < (keep + 1) / 2^53, squared so that no root is needed; or clipped at 1.
    if keep == ALWAYS:
        assert rho * rho >= squared
    else:
        assert keep * keep * squared <= rho * rho * ALWAYS**2 < (keep + 1) ** 2 * squared


@given(st.fractions(Fraction(1, 10**6), 1), st.integers(1, 100))
def test_keeping_by_q_is_q_rounded_down_for_everybody(q: Fraction, squared: int) -> None:
    assert Thinning(q=q).keep53([squared, 7]).tolist() == [int(q * ALWAYS)] * 2
    assert Thinning(q=q).divisor == q


def test_no_thinning_keeps_always_and_divides_by_one() -> None:
    assert Thinning().keep53([5]).tolist() == [ALWAYS]
    assert Thinning().divisor == 1
    assert not Thinning().active
    assert Thinning(rho=Fraction(3)).divisor == 3


@pytest.mark.parametrize(
    ("q", "rho"),
    [
        (Fraction(0), None),
        (Fraction(-1), None),
        (Fraction(3, 2), None),
        (None, Fraction(0)),
        (None, Fraction(2**20 + 1)),
        (Fraction(1, 2), Fraction(1)),
    ],
)
def test_thinning_refuses_shares_that_are_none(q: Fraction | None, rho: Fraction | None) -> None:
    with pytest.raises(BadExperimentError):
        Thinning(q=q, rho=rho)


# ── the budget ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(UPDATES, st.integers(1, 30))
def test_budget_keeps_the_smallest_words_in_their_order(update: Update, budget: int) -> None:
    packages = split(update, 0)
    kept = fit_budget(packages, budget=budget, dice=DICE, round_number=4)
    assert len(kept) == min(budget, len(packages))
    words = DICE.words(Purpose.BUDGET, 4, 0, len(packages))
    limit = sorted(words)[len(kept) - 1]
    assert kept == [p for p, word in zip(packages, words, strict=True) if word <= limit]


@given(UPDATES, st.integers(0, 60))
def test_padding_fills_up_to_exactly_the_budget_with_nulls(update: Update, budget: int) -> None:
    packages: list[Package] = [*split(update, 0)]
    if len(packages) > budget:
        with pytest.raises(BadInputError):
            pad(packages, budget)
        return
    padded = pad(packages, budget)
    assert len(padded) == budget
    assert padded[: len(packages)] == packages
    assert all(isinstance(p, NullPackage) for p in padded[len(packages) :])
    assert counted(padded) == counted(packages)


def test_train_package_names_model_bin_and_sign_and_no_one() -> None:
    assert set(TrainPackage.__slots__) == {"model", "bin_index", "sign"}
