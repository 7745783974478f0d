"""The paper's lemmas at its own sizes, recomputed; and why the third says nothing about labels.

Lemma 3 bounds by how much the probability of any one tally differs between two worlds. That is small where every single
tally is improbable, which is nearly always. What decides whether a label hides is the *ratio* of the two probabilities.
``curve`` puts the bound beside how well the label is found, planned at the paper's size and played with dice in a world
a hundredth as large, over numbers of participants from where nothing hides to where nearly everything does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from secvm.pages.figure import Curve, Figure, NamedPlace, ReferenceLine
from secvm.pages.pictures import picture
from secvm_lab.label_game import play
from secvm_lab.privacy.hashing_bounds import (
    count_p3,
    one_minus_p3,
    p1,
    p2,
    printed_one_minus_p3,
    printed_p1,
    printed_p2,
)
from secvm_lab.privacy.label_leak import LabelGame
from secvm_lab.privacy.label_lemma import (
    lemma3_exact,
    lemma3_printed,
    lemma3_without_floor,
    mode,
    paper_leak,
    with_floor,
)

#: The paper's Twitter numbers: distinct words, bins, participants of one sign, words of a person.
FEATURES, BINS, PARTICIPANTS, PER_PERSON = 95_880_008, 95_880, 34_615, 1_826
#: Participants of one sign, and in how small a world it is played.
SIZES = (1_000, 3_000, 10_000, 34_615, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
SCALE = 100
_TARGETS, _PLAYS = 60, 40
#: Packages in two bins: where the printed floor jumps.
JUMPS = range(1, 21)


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of the paper."""

    said: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Point:
    """One number of participants: Lemma 3 beside what an attacker reaches."""

    participants: int
    printed_log10: float
    exact_log10: float
    #: Of the best attacker, in one round.
    auc: float
    played: float
    played_error: float


def claims() -> list[Claim]:
    """What the paper says of its own sizes, and what is true."""
    first, second = p1(FEATURES, BINS), p2(FEATURES, BINS, 1)
    third = one_minus_p3(FEATURES, BINS, 700)
    at_900 = printed_one_minus_p3(FEATURES, BINS, 900)
    lemma3 = (PARTICIPANTS, PER_PERSON, BINS)
    small = count_p3(4, 2, 3)
    exact = lemma3_exact(*lemma3)
    return [
        Claim(
            "p1 < 5e-427",
            f"{printed_p1(FEATURES, BINS).text(4)}, exactly {first.high.text(4)}",
            first.high.log10 < _log10_of(5, -427),
        ),
        Claim(
            "p2 < 6e-435 for one feature",
            f"{printed_p2(FEATURES, BINS, 1).text(4)}, exactly {second.high.text(4)}",
            second.high.log10 < _log10_of(6, -435),
        ),
        Claim(
            "1 - p3 < 5e-19 for k = 700",
            f"{printed_one_minus_p3(FEATURES, BINS, 700).text(4)}, exactly {third.high.text(4)}",
            third.high.log10 < _log10_of(5, -19),
        ),
        Claim("a bound for k from 1 to 1,000", f"{at_900.text(3)} at k = 900", not at_900.vacuous),
        Claim("p3 = 0 for k > m/n", f"{small} for m = 4, n = 2, k = 3", small == 0),
        Claim(
            "Lemma 3 < 5e-173411, by its printed formula",
            f"{lemma3_printed(*lemma3).text(3)}; without the floor {lemma3_without_floor(*lemma3).text(3)}",
            lemma3_printed(*lemma3).log10 < _log10_of(5, -173411),
        ),
        Claim("Lemma 3 < 5e-173411, by the exact mode", exact.text(4), exact.log10 < _log10_of(5, -173411)),
    ]


def curve(*, seed: int, on_point: Callable[[int], None] | None = None) -> list[Point]:
    """Lemma 3 and the attacker, over numbers of participants."""
    found = []
    for i, participants in enumerate(SIZES):
        small = LabelGame(
            positive=participants // SCALE,
            negative=None,
            bins=BINS // SCALE,
            features=PER_PERSON // SCALE,
            rounds=1,
        )
        played = play(small, targets=_TARGETS, plays=_PLAYS, seed=seed)
        found.append(
            Point(
                participants=participants,
                printed_log10=lemma3_printed(participants, PER_PERSON, BINS).log10,
                exact_log10=lemma3_exact(participants, PER_PERSON, BINS).log10,
                auc=paper_leak(participants=participants, features=PER_PERSON, bins=BINS).auc,
                played=played.auc,
                played_error=played.auc_error,
            )
        )
        if on_point is not None:
            on_point(i + 1)
    return found


def jumps() -> list[tuple[int, float, float]]:
    """(packages, as printed, exactly) for two bins: the printed formula jumps, and exceeds one."""
    return [(n, 10 ** with_floor(n, 2).log10, 10 ** mode(n, 2).log10) for n in JUMPS]


def draw(points: list[Point]) -> str:
    """How well the label is found, as an SVG document that stands alone; the bound stands under each place."""
    places = [one.participants for one in points]
    figure = Figure(
        "lemma3",
        title="Lemma 3 beside the attacker",
        description=(
            "AUC of the label in one round over participants of one sign, planned and played, from nearly 1 down to"
            " one half; under each number of participants the exponent of Lemma 3's bound, which is astronomically"
            " small throughout."
        ),
        across="participants of one sign; below, the power of ten of Lemma 3",
        up="AUC of the label, one round",
        curves=[
            Curve("planned", places, [one.auc for one in points], colour=0),
            Curve(
                "played, a hundredth of the size",
                places,
                [one.played for one in points],
                low=[one.played - 2 * one.played_error for one in points],
                high=[min(1.0, one.played + 2 * one.played_error) for one in points],
                colour=1,
            ),
        ],
        rules=[ReferenceLine("what a device accepts by default", 0.55)],
        log_across=True,
        lowest=0.5,
        highest=1.0,
        places=[
            NamedPlace(one.participants, f"{_short(one.participants)}\n{one.exact_log10:,.0f}".replace("-", "\u2212"))
            for one in points
        ],
    )
    return picture(figure, "svg").decode()


def _log10_of(mantissa: float, exponent: int) -> float:
    return math.log10(mantissa) + exponent


def _short(number: int) -> str:
    return f"{number // 1_000_000} M" if number >= 1_000_000 else f"{round(number / 1_000)} k"
