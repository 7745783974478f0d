"""Swift equals a slow loop over Python's floats, and the same tallies always give the same bytes."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State, Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from tests.unit.learning.helpers import small_tally

RHO = Fraction(3)
N_BINS = 4


class SlowSwift:
    """The formulas of the rule's docstring, one float at a time, for one model of two labels of weight one."""

    def __init__(self, rule: Swift) -> None:
        self.rule = rule
        self.t = 0
        self.p = self.precondition = self.v = self.w = self.average = [0.0] * (N_BINS + 1)

    def step(self, tally: Tally) -> None:
        self.t += 1
        n_minus, n_plus = tally.participants.tolist()
        divisor = float(RHO * (n_plus + n_minus))
        plus, minus = tally.plus[0].tolist(), tally.minus[0].tolist()
        if self.t == 1:
            self.p = [(a + b) / divisor for a, b in zip(plus, minus, strict=True)]
            self.precondition = self._precondition()
        momentum = float(self.rule.momentum)
        v = [momentum * old + (a - b) / divisor for old, a, b in zip(self.v, plus, minus, strict=True)]
        rate = float(self.rule.step_size) / math.sqrt(self.t)
        self.v = self._held(v, rate, Fraction(abs(n_plus - n_minus), n_plus + n_minus))
        kept = 1.0 - float(self.rule.decay)
        self.w = [kept * w + (rate * p) * v for w, p, v in zip(self.w, self.precondition, self.v, strict=True)]
        self.average = self.w if self.t == 1 else [0.5 * a + 0.5 * w for a, w in zip(self.average, self.w, strict=True)]

    def _precondition(self) -> list[float]:
        total = 0.0
        for p in self.p:
            total += p
        if total == 0.0:
            return [0.0] * len(self.p)
        floor = float(self.rule.floor) * (total / len(self.p))
        powers = []
        for p in self.p:
            root = math.sqrt(p + floor)
            powers.append(1.0 / (root * math.sqrt(root)))
        weighed = 0.0
        for p, power in zip(self.p, powers, strict=True):
            weighed += p * power
        return [power * (total / weighed) for power in powers]

    def _held(self, v: list[float], rate: float, imbalance: Fraction) -> list[float]:
        cap = float(self.rule.mean_move + self.rule.mean_move_imbalance * imbalance)
        along = across = 0.0
        for p, precondition, speed in zip(self.p, self.precondition, v, strict=True):
            along += (p * precondition) * speed
            across += (p * precondition) * p
        move = rate * along
        if abs(move) <= cap:
            return v
        excess = move - cap if move > 0.0 else move + cap
        factor = excess / (rate * across)
        return [speed - factor * p for speed, p in zip(v, self.p, strict=True)]


def experiment(rule: Swift) -> Experiment:
    return Experiment(n_bins=N_BINS, labels=("a", "b"), rule=rule, thinning=Thinning(rho=RHO))


COUNTS = st.lists(st.integers(0, 400), min_size=N_BINS + 1, max_size=N_BINS + 1)
TALLIES = st.lists(
    st.builds(
        lambda plus, minus, n: small_tally([plus], [minus], list(n)),
        COUNTS,
        COUNTS,
        st.tuples(st.integers(1, 300), st.integers(0, 300)),
    ),
    min_size=1,
    max_size=5,
)


@given(TALLIES, st.sampled_from([Fraction(0), Fraction(1, 50)]), st.sampled_from([Fraction(9, 10), Fraction(0)]))
def test_swift_equals_a_slow_loop_bit_for_bit(tallies: list[Tally], decay: Fraction, momentum: Fraction) -> None:
    rule = Swift(decay=decay, momentum=momentum)
    state, slow = aggregate.start(experiment(rule)), SlowSwift(rule)
    for tally in tallies:
        state = aggregate.step(experiment(rule), state, tally)
        slow.step(tally)
        assert state.vectors["precondition"][0].tolist() == slow.precondition
        assert state.vectors["velocity"][0].tolist() == slow.v
        assert state.vectors["weights"][0].tolist() == slow.w
        assert state.vectors["average"][0].tolist() == slow.average


@given(TALLIES)
def test_same_tallies_give_the_same_bytes_also_from_a_state_read_back(tallies: list[Tally]) -> None:
    rule = Swift()
    once = again = aggregate.start(experiment(rule))
    for tally in tallies:
        once = aggregate.step(experiment(rule), once, tally)
        again = State.from_bytes(aggregate.step(experiment(rule), again, tally).to_bytes())
    assert once.to_bytes() == again.to_bytes()
    assert rule.training_weights(once).to_bytes() == rule.training_weights(again).to_bytes()


def test_mean_persons_score_moves_by_no_more_than_the_cap() -> None:
    rule = Swift()
    tally = small_tally([[200, 100, 30, 9, 150]], [[150, 90, 33, 2, 100]], [100, 150])
    state = aggregate.step(experiment(rule), aggregate.start(experiment(rule)), tally)
    popularity = (tally.plus + tally.minus)[0] / float(RHO * 250)
    move = float(np.dot(popularity, state.vectors["weights"][0]))
    assert abs(move) <= (1 / 200 + 3 / 20 * 50 / 250) * (1 + 1e-9)
    free = Swift(mean_move=Fraction(10**9))
    unheld = aggregate.step(experiment(free), aggregate.start(experiment(free)), tally)
    assert float(np.dot(popularity, unheld.vectors["weights"][0])) > 10 * move


def test_published_weights_are_normalised_and_those_of_the_start_are_first() -> None:
    rule = Swift()
    start = rule.training_weights(rule.start(1, N_BINS))
    assert start.normalised
    assert start.first
    state = aggregate.step(experiment(rule), rule.start(1, N_BINS), small_tally([[9, 1, 3, 2, 4]], [[1] * 5], [2, 4]))
    published = rule.training_weights(state)
    assert published.normalised
    assert not published.first
    assert np.abs(published.values() - state.vectors["weights"]).max() <= float(published.unit) / 2
