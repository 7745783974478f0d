"""The two-cycle is seen and can be left; the plateau stops when there is nothing more to gain."""

import pytest

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.convergence import SPELL, Plateau, TwoCycle
from secvm.learning.aggregate.tally import Tally
from tests.unit.learning.helpers import small_tally


def violators(*sides: tuple[int, int]) -> Tally:
    """A tally in which so many of each side violate, per model; only the bias column matters."""
    return small_tally([[9, p] for p, _ in sides], [[9, m] for _, m in sides], [50, 50])


UP, DOWN, EVEN = (40, 0), (0, 40), (20, 20)


def watched(*rounds: list[tuple[int, int]] | tuple[int, int]) -> TwoCycle:
    watcher = TwoCycle()
    for one in rounds:
        watcher.watch(violators(*one) if isinstance(one, list) else violators(one))
    return watcher


# ── the two-cycle ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_swing_of_eight_rounds_is_an_orbit_and_one_of_seven_is_none() -> None:
    swing = [UP, DOWN] * 4
    assert SPELL == 8
    assert watched(*swing).caught
    assert watched(*swing).spells == [(1, 8)]
    assert not watched(*swing[:7]).caught
    assert watched(*swing[:7]).spells == []


def test_swing_need_not_be_complete_but_nearly() -> None:
    assert watched(*[(90, 10), (10, 90)] * 5).caught  # balance ±.8
    assert not watched(*[(89, 11), (11, 89)] * 5).caught


@pytest.mark.parametrize(
    "rounds", [[EVEN] * 20, [UP] * 20, [UP, UP, DOWN, DOWN] * 5, [UP, EVEN, DOWN, EVEN] * 5, [(0, 0)] * 20]
)
def test_what_does_not_swing_every_round_is_no_orbit(rounds: list[tuple[int, int]]) -> None:
    assert watched(*rounds).spells == []


def test_spell_that_ends_is_kept_but_no_longer_holds() -> None:
    watcher = watched(*[EVEN, EVEN], *[UP, DOWN] * 5, *[EVEN] * 3)
    assert watcher.spells == [(3, 12)]
    assert not watcher.caught
    for one in [UP, DOWN] * 4:
        watcher.watch(violators(one))
    assert watcher.spells == [(3, 12), (16, 23)]
    assert watcher.caught


def test_repro_abandoned_rounds_do_not_shift_the_numbers_of_a_spell() -> None:
    watcher = TwoCycle()
    for number, one in zip([1, 2, 3, 6, 7, 8, 9, 10], [UP, DOWN] * 4, strict=True):  # 4 and 5 were abandoned
        watcher.watch(violators(one), number)
    assert watcher.spells == [(1, 10)]


def test_repro_a_handful_of_violators_that_swings_is_no_orbit() -> None:
    few, crowd = [(9, 0), (0, 9)] * 6, [(11, 0), (0, 11)] * 6  # of 20 each in the first round
    assert watched(EVEN, *few).spells == []
    assert watched(EVEN, *crowd).spells == [(2, 13)]


def test_spells_of_models_that_overlap_are_one() -> None:
    first = [UP, DOWN] * 5 + [EVEN] * 8
    second = [EVEN] * 4 + [UP, DOWN] * 7
    watcher = watched(*[[a, b] for a, b in zip(first, second, strict=True)])
    assert watcher.spells == [(1, 18)]


# ── the plateau ──────────────────────────────────────────────────────────────────────────────────────────────────────


def stops_at(
    accuracies: list[float], of: int = 1000, patience: int = 10, at_least: int = 20
) -> tuple[int | None, Plateau]:
    plateau = Plateau(patience=patience, at_least=at_least)
    for number, accuracy in enumerate(accuracies, start=1):
        if plateau.watch(round(accuracy * of), of):
            return number, plateau
    return None, plateau


def test_plateau_stops_when_accuracy_stands_still_or_falls_and_never_while_it_rises() -> None:
    assert stops_at([0.5 + 0.005 * t for t in range(80)])[0] is None
    still, _ = stops_at([0.5 + 0.01 * t for t in range(30)] + [0.8] * 60)
    falling, plateau = stops_at([0.5 + 0.01 * min(t, 60 - t) for t in range(60)])
    assert still is not None
    assert falling is not None
    assert 40 <= still <= 60
    assert 30 < falling < 50
    assert plateau.best_round == 31


def test_plateau_never_stops_before_its_first_allowed_round() -> None:
    assert stops_at([0.5] * 100, at_least=50, patience=5)[0] == 50
    assert stops_at([0.5] * 100, at_least=1, patience=5)[0] == 10
    assert stops_at([0.5] * 100, at_least=1, patience=30)[0] == 60


def test_gain_below_a_quarter_of_a_standard_error_is_none() -> None:
    # At p = .5 and 100 people that is .0125; ten rounds later the mean has risen by .005, or by .05.
    assert stops_at([0.5 + 0.0005 * t for t in range(40)], of=100_000_000, at_least=1)[0] is None
    plateau = Plateau(at_least=1)
    assert any(plateau.watch(5000 + 5 * t, 10_000) for t in range(40)) is False
    few = Plateau(at_least=1)
    assert any(few.watch(50 + t // 20, 100) for t in range(40))


def test_best_round_is_the_middle_of_the_best_three_and_the_first_of_equals() -> None:
    _, plateau = stops_at([0.5, 0.9, 0.5, 0.7, 0.8, 0.7, 0.5])
    assert plateau.best_round == 5
    assert stops_at([0.6, 0.6, 0.6])[1].best_round == 1
    assert stops_at([0.5, 0.6, 0.7])[1].best_round == 3


def test_round_without_test_people_counts_as_zero_and_does_not_divide_by_it() -> None:
    plateau = Plateau(patience=2, at_least=1)
    for _ in range(5):
        plateau.watch(0, 0)
    assert plateau.best_round == 1


@pytest.mark.parametrize(("patience", "at_least"), [(1, 20), (0, 20), (10, 0)])
def test_plateau_refuses_parameters_without_meaning(patience: int, at_least: int) -> None:
    with pytest.raises(BadExperimentError):
        Plateau(patience=patience, at_least=at_least)
