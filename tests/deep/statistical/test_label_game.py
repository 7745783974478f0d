"""The planner of label leakage against the game played with dice.

Seeds are the run's. The planner is an approximation: in truth it may be off by ``OFF``. Beyond that a test fails by
chance with probability at most 1e-6: Efron's bound (``bounds``) for a mean over independent targets.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln

from secvm.learning.thinning import Thinning
from secvm_lab.label_game import Played, play, ranked
from secvm_lab.privacy.label_leak import LabelGame, Leak, label_leak
from secvm_lab.privacy.label_lemma import paper_leak
from tests.deep.statistical.bounds import standard_errors
from tests.effort import scaled
from tests.seeds import FALSE_ALARM, seed_for

#: How far a planned AUC, or a total variation, may be from the truth.
OFF, OFF_VARIATION = 0.012, 0.05
#: Standard errors of a mean over targets.
ERRORS = standard_errors(FALSE_ALARM / 2)


def game(
    sides: tuple[int, int | None], bins: int, features: int, *, zipf: float = 0.0, rounds: int = 1, q: str = "1"
) -> LabelGame:
    thinning = Thinning() if q == "1" else Thinning(q=Fraction(q))
    return LabelGame(
        positive=sides[0], negative=sides[1], bins=bins, features=features, zipf=zipf, rounds=rounds, thinning=thinning
    )


SMALL_CELLS = game((50, 50), 300, 10, zipf=1.0, q="1/10", rounds=2)


#: Enough for a standard error of .0035, and a limit of .03.
MANY = 360


def both(setting: LabelGame, *, targets: int = scaled(90, MANY), crowd: bool = False) -> tuple[Leak, Played]:
    found = play(setting, targets=targets, plays=40, seed=seed_for(f"label game {setting}"), crowd=crowd)
    return label_leak(setting), found


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(game((200, 200), 200, 20), id="uniform, 1:1"),
        pytest.param(game((100, 900), 200, 20), id="uniform, 1:9"),
        pytest.param(game((300, 300), 300, 30, zipf=0.8, q="1/5"), id="zipf .8, thinned"),
        pytest.param(game((400, 400), 300, 30, zipf=1.0), id="zipf 1"),
        pytest.param(game((200, 1800), 300, 30, zipf=1.2), id="zipf 1.2, 1:9"),
        pytest.param(game((150, 600), 150, 15, zipf=1.2, rounds=10, q="1/10"), id="zipf 1.2, 1:4, thinned, 10 rounds"),
        pytest.param(game((800, 1200), 150, 60, zipf=1.1, rounds=5), id="zipf 1.1, 2:3, many features, 5 rounds"),
        pytest.param(SMALL_CELLS, id="zipf 1, small cells"),
        pytest.param(
            replace(game((150, 300), 150, 15, zipf=1.0, rounds=6, q="1/4"), same_people=True), id="same people"
        ),
        pytest.param(replace(game((150, 300), 150, 15, zipf=1.0, rounds=3, q="1/2"), cover_variance=5.0), id="cover"),
        pytest.param(game((173, None), 479, 9), id="the paper's two worlds, small"),
    ],
)
def test_the_planned_auc_is_what_the_game_gives(setting: LabelGame) -> None:
    planned, played = both(setting)
    assert abs(planned.auc - played.auc) <= OFF + ERRORS * played.auc_error
    # Looser: where a cell is small its likelihood ratio is far from normal, and total variation notices first.
    beyond = abs(planned.total_variation - played.total_variation) - OFF_VARIATION
    assert beyond <= ERRORS * played.total_variation_error


def test_the_law_alone_would_be_caught() -> None:
    """The law is .062 away, eleven standard errors beyond the limit."""
    planned, played = both(SMALL_CELLS, targets=MANY)
    assert abs(planned.law_auc - played.auc) > OFF + ERRORS * played.auc_error


def test_people_drawn_as_a_whole_give_the_same_as_bins_drawn_alone() -> None:
    """Each of the others has exactly F different bins: nothing of the planner's independence is in these dice."""
    setting = game((40, 80), 60, 12, zipf=1.0, rounds=2)
    planned, played = both(setting, crowd=True)
    assert abs(planned.auc - played.auc) <= OFF + ERRORS * played.auc_error


def test_the_same_dice_play_the_same_game() -> None:
    seed = seed_for("same dice")
    first, again, other = (play(SMALL_CELLS, targets=3, plays=5, seed=one) for one in (seed, seed, seed + 1))
    assert first == again
    assert first != other


def test_a_game_in_which_nothing_is_told_is_a_coin() -> None:
    """Everybody has every bin."""
    found = play(game((10, 10), 8, 8), targets=2, plays=10, seed=seed_for("coin"))
    assert (found.auc, found.total_variation, found.pooled_auc) == (0.5, 0.0, 0.5)


def test_ranks_count_ties_as_half() -> None:
    assert ranked(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == pytest.approx((0.5 + 1 + 1 + 1) / 4)


@pytest.mark.parametrize(
    ("participants", "features", "bins"),
    [
        pytest.param(346, 200, 958, id="a hundredth of the paper"),
        pytest.param(40, 300, 100, id="more features than bins"),
    ],
)
def test_the_papers_own_two_worlds_are_told_apart_as_planned(participants: int, features: int, bins: int) -> None:
    """Fails by chance with probability at most 1e-6: Hoeffding's inequality for an AUC (1963, section 5b), .035."""
    dice, plays = np.random.default_rng(seed_for(f"paper {bins}")), 6_000
    size = {"participants": participants, "features": features, "bins": bins}
    ours, theirs = (
        np.array([_paper_score(dice, known=known, **size) for _ in range(plays)]) for known in (True, False)
    )
    limit = OFF + (math.log(2 / FALSE_ALARM) / (2 * plays)) ** 0.5
    assert abs(ranked(ours, theirs) - paper_leak(**size).auc) <= limit


def _paper_score(dice: np.random.Generator, *, participants: int, features: int, bins: int, known: bool) -> float:
    """One play of the worlds of Lemma 3, word by word, and the exact logarithm of their likelihood ratio."""
    even = np.full(bins, 1 / bins)
    vector = dice.multinomial(features, even)
    counts = dice.multinomial((participants - known) * features, even) + known * vector
    total, rest = participants * features, (participants - 1) * features
    if (counts < vector).any():
        return -np.inf
    log_ratio = (gammaln(counts + 1) - gammaln(counts - vector + 1)).sum()
    return float(log_ratio + gammaln(rest + 1) - gammaln(total + 1) + features * np.log(bins))
