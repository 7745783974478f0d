"""What cover is worth: δ(ε) of everything that one person tells over an experiment, never too little.

Compared are two worlds that differ in one person:

- **zero-out**: the device sends as many packages, and none of its own (that it takes part is public, so a world without
  the device would be a comparison nobody could keep);
- **label flip**: the same features with the other label: every package moves from a cell to another, a unit taken and a
  unit given.

In each round a person of the train cohort touches at most n train cells of each model, one unit each, and one
participation cell; one of the test cohort a test cell and a participation cell. Each touched cell is a *look*
(``cover_loss.py``), whatever the weights and whatever was published before, so malicious weights are covered; rounds
that were opened and abandoned count like others. Thinning by ρ sends each unit of a person with n cells with chance
q = min(1, ρ/√n), n fixed when the device joins: which n is worst is not proved but *looked up*, over all of them
(docs/proofs/thinned-cover.md). The cohort is drawn without a look at the data, and both are looked up.

Who adds the cover is no matter here; in an experiment it is one honest relay (``relay_cover``). Whoever does says which
negative binomial is added to a cell, and with which chances reality departs from that in a round; these come to δ times
(1 + e^ε).

**Patience.** A few numbers of a form or of a document can ask for hours of computation: a million rounds, a tiny ε.
Inside of ``patience`` the accountant asks now and then whether it has taken long enough, and then refuses the
experiment; outside it takes its time. This holds for the thread, or the task, that has asked.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.cover_loss import cell_losses, spread_of_loss
from secvm.privacy.accounting.pld import Looks, PrivacyLoss, smallest_epsilon
from secvm.privacy.accounting.reals import exp

TOO_LONG = "its guarantee takes longer to calculate than anybody waits here"

_enough: ContextVar[Callable[[], bool] | None] = ContextVar("enough", default=None)


@contextmanager
def patience(enough: Callable[[], bool]) -> Iterator[None]:
    """Reckonings within give up when ``enough`` says so."""
    before = _enough.set(enough)
    try:
        yield
    finally:
        _enough.reset(before)


def until(now: Callable[[], int], seconds: float) -> Callable[[], bool]:
    """Enough is when so many seconds are over, by a clock in milliseconds that nobody sets."""
    end = now() + int(1000 * seconds)
    return lambda: now() >= end


def keep_patience() -> None:
    """Raise ``BadInputError`` where it has lasted long enough."""
    enough = _enough.get()
    if enough is not None and enough():
        # Not ``BadExperimentError``: who tries many plans would take it for one that does not fit.
        raise BadInputError(TOO_LONG)


#: The sampler's distance from its law, for each draw of one kind of cells (its own module proves far less).
SAMPLER_ERROR = 2.0**-60
#: A grid's step, in standard deviations of the smallest look: it adds a 1,500th to the variance, never takes from it.
_STEP = 1 / 16
#: Neighbouring n are looked at together while they differ by less than this share: the larger n with the larger q.
_TOGETHER = 0.01
#: More than what a few roundings take from a chance.
_ROUNDED_UP = 1 + 1e-12


class Adjacency(enum.Enum):
    """Which two worlds are compared."""

    ZERO_OUT = "zero-out"
    LABEL_FLIP = "label flip"


@dataclass(frozen=True, slots=True)
class Sight:
    """So many looks at cells whose cover is NB(shape, p), each with a unit that is sent with chance q."""

    shape: float
    p: float
    q: float
    looks: int


@dataclass(frozen=True, slots=True)
class CellCover:
    """The cover of one kind of cells that is counted on: NB(shape, p) in each of them, in every round."""

    shape: float
    p: float

    def sight(self, q: float, looks: int) -> Sight:
        """So many looks at it."""
        return Sight(self.shape, self.p, q, looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """Chances that one round is not as the accountant has it."""

    #: Cover was more than there is room for.
    overflow: float
    #: The sampler erred.
    sampler: float

    @property
    def any(self) -> float:
        return self.overflow + self.sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The most that one person tells over an experiment."""

    #: Rounds that are opened, the abandoned ones too.
    rounds: int
    #: Models that a person can violate in a round.
    models: int
    #: Train cells of one model that a person touches in a round: hashes x (features + 1), one unit each.
    cells: int
    thinning: Thinning

    def __post_init__(self) -> None:
        if min(self.rounds, self.models, self.cells) < 1:
            raise BadExperimentError("a contribution has a round, a model and a cell at least")

    def looks(self) -> Iterator[tuple[float, int]]:
        """(q, how many looks at train cells) of every person there may be, or of one who tells more."""
        each = self.rounds * self.models
        if self.thinning.rho is None:
            yield (float(self.thinning.q or 1), each * self.cells)
            return
        rho = float(self.thinning.rho)
        # Below ρ² nothing is thinned: fewer cells with the same q tell less.
        low = max(1, min(math.floor(self.thinning.rho**2), self.cells))
        while low <= self.cells:
            high = min(self.cells, math.floor(low * (1 + _TOGETHER)))
            yield (min(1.0, rho / math.sqrt(low) * _ROUNDED_UP), each * high)
            low = high + 1

    @property
    def mean_units(self) -> float:
        """The largest mean number of units that a person sends in a round."""
        if self.thinning.rho is not None:
            return self.models * min(self.cells, float(self.thinning.rho) * math.sqrt(self.cells))
        return float(self.models * self.cells * (self.thinning.q or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """All cover of an experiment that is counted on, with what a person tells: what an accountant needs to know.

    >>> told = Contribution(rounds=10, models=1, cells=20, thinning=Thinning())
    >>> as_modelled = Departures(overflow=0.0, sampler=0.0)
    >>> cover = CellCover(shape=15.0, p=0.99)
    >>> mechanism = Mechanism(contribution=told, train=cover, participation=None, test=None, departures=as_modelled)
    >>> round(mechanism.epsilon(delta=1e-6), 2)
    0.16
    """

    contribution: Contribution
    train: CellCover
    #: None: not asked for, and then no part of what is said.
    participation: CellCover | None
    test: CellCover | None
    departures: Departures

    @property
    def persons(self) -> list[tuple[Sight, ...]]:
        """What each person who may be there shows."""
        rounds = self.contribution.rounds
        here = () if self.participation is None else (self.participation.sight(1.0, rounds),)
        persons = [(self.train.sight(q, looks), *here) for q, looks in self.contribution.looks()]
        if self.test is not None:
            persons.append((self.test.sight(1.0, rounds), *here))
        return persons

    @property
    def departs(self) -> float:
        """The chance that reality departs from the model in some round."""
        return self.contribution.rounds * self.departures.any

    def after(self, rounds: int) -> Mechanism:
        """The same for a person who has taken part in so many rounds."""
        return replace(self, contribution=replace(self.contribution, rounds=rounds))

    def epsilon(self, *, delta: float, adjacency: Adjacency = Adjacency.ZERO_OUT) -> float:
        """ε at δ; +∞: no guarantee."""
        departs, worst = self.departs, 0.0
        for person in self.persons:

            def whole(epsilon: float, person: tuple[Sight, ...] = person) -> float:
                return delta_of(person, epsilon, adjacency) + (1 + exp(epsilon)) * departs

            worst = smallest_epsilon(whole, delta, at_least=worst)
            if math.isinf(worst):
                break
        return worst

    def delta(self, epsilon: float, *, adjacency: Adjacency = Adjacency.ZERO_OUT) -> float:
        """δ(ε)."""
        return self.deltas((epsilon,), adjacency=adjacency)[0]

    def deltas(self, epsilons: Sequence[float], *, adjacency: Adjacency = Adjacency.ZERO_OUT) -> list[float]:
        """δ at each ε, of whoever is worst off there."""
        worst = map(max, zip(*(deltas_of(person, epsilons, adjacency) for person in self.persons), strict=True))
        pairs = zip(epsilons, worst, strict=True)
        return [min(1.0, delta + (1 + exp(epsilon)) * self.departs) for epsilon, delta in pairs]


def delta_of(person: Iterable[Sight], epsilon: float, adjacency: Adjacency) -> float:
    """δ(ε) of one person's sights, noise alone."""
    return deltas_of(person, (epsilon,), adjacency)[0]


def deltas_of(person: Iterable[Sight], epsilons: Sequence[float], adjacency: Adjacency) -> list[float]:
    """The same at several ε, in hardly more time than at one."""
    keep_patience()
    seen = tuple(person)
    step = _STEP * min(_spread(sight.shape, sight.p, sight.q) for sight in seen)
    pairs = [(*_losses(sight.shape, sight.p, sight.q, step), sight.looks) for sight in seen]
    taken = [(loss, looks) for loss, _, looks in pairs]
    given = [(loss, looks) for _, loss, looks in pairs]
    if adjacency is Adjacency.LABEL_FLIP:
        return Looks([*taken, *given]).deltas(epsilons)
    return [max(both) for both in zip(Looks(taken).deltas(epsilons), Looks(given).deltas(epsilons), strict=True)]


@lru_cache(maxsize=512)
def _spread(shape: float, p: float, q: float) -> float:
    return spread_of_loss(shape, p, q)


@lru_cache(maxsize=512)
def _losses(shape: float, p: float, q: float, step: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    return cell_losses(shape, p, q, step)
