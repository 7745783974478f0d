"""Cover that two relays add: what the accountant has to know, where one of the two is honest.

The honest relay adds S parts, of which one is opened: S - 1 stay, and in each cell these are NB(shape, odds) of the
document. Nothing else hides anybody: no number of participants, no share of honest devices. A person's units are never
cut, because B has room for all of them (docs/protocol.md §26), so that two departures remain in a round:

- a part of the honest relay overflows, S · P(part > D/S): it is drawn again, so its law is that of parts which fit;
- the sampler errs, for each part and kind.

docs/proofs/relays-cover.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from secvm.errors import BadExperimentError
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.privacy.accounting.accountant import SAMPLER_ERROR, CellCover, Contribution, Departures, Mechanism
from secvm.privacy.accounting.cover_loss import least, log_mass
from secvm.privacy.accounting.reals import exp, expm1, log, log1p

#: Halvings of the interval in which the best tilt lies: any tilt gives a bound.
_HALVINGS = 80


@lru_cache(maxsize=64)
def relay_mechanism(contribution: Contribution, cover: RelayCover) -> Mechanism:
    """The accountant's mechanism with the cover of one honest relay. Kept, as what it is worth is."""
    return Mechanism(
        contribution=contribution,
        train=_counted_on(cover.train),
        participation=_counted_on(cover.participation),
        test=None if cover.test is None else _counted_on(cover.test),
        departures=Departures(
            overflow=cover.parts * exp(log_overflow(cover.kinds, cover.parts, cover.part_packages)),
            sampler=cover.parts * len(cover.kinds) * SAMPLER_ERROR,
        ),
    )


def contribution_of(experiment: Experiment, *, rounds: int, hashes: int = 1) -> Contribution:
    """The most that one person tells in so many rounds: H · F cells and the bias of each model they can violate."""
    features = experiment.features_per_person
    if features is None:
        raise BadExperimentError("a guarantee needs a limit on features per person: set features.per_participant")
    return Contribution(
        rounds=rounds,
        models=experiment.models.most_per_person,
        cells=min(hashes * features, experiment.n_bins) + 1,
        thinning=experiment.thinning,
    )


def log_overflow(kinds: Sequence[Noise], parts: int, room: int) -> float:
    """An upper bound on ln P(one part's packages Z > room).

    Z is a sum of negative binomials, one for each kind: of C cells, each of the shape r / (S - 1). For every tilt t
    below all -ln p, with K(t) = ln E e^(tZ) and k = room + 1,

        P(Z ≥ k) = e^(K(t) - t k) · Σ_j≥0 e^(-t j) P_t(Z = k + j) ≤ e^(K(t) - t k) · min(1, m / (1 - e^-t)),

    m the largest chance of one value under the tilted law. That of a sum is at most that of each of its terms, and a
    tilted negative binomial is one of p e^t. For parts of hundreds of packages the bound is near the truth.
    """
    laws = [(float(noise.cells * noise.part(parts)), float(noise.p)) for noise in kinds]
    tilt = _tilt(laws, room + 1)
    if tilt <= 0:
        return 0.0
    terms = [shape * (log1p(-p) - log(-expm1(log(p) + tilt))) for shape, p in laws]
    terms.append(-tilt * (room + 1))
    # Each term is good to a few units of its last place.
    chernoff = math.fsum(terms) + 1e-9 + 16 * 2.0**-52 * math.fsum(map(abs, terms))
    largest = min(_log_mode(shape, p * exp(tilt)) for shape, p in laws)
    return min(0.0, chernoff + min(0.0, largest - log(-expm1(-tilt))))


def smallest_part(kinds: Sequence[Noise], parts: int, log_chance: float) -> int:
    """The least room that one part exceeds with at most this chance, by ``log_overflow``."""
    return least(lambda room: log_overflow(kinds, parts, room) <= log_chance)


def _tilt(laws: Sequence[tuple[float, float]], mean: int) -> float:
    """About the tilt under which the sum has this mean; 0 where it has more without."""
    low, high = 0.0, min(-log(p) for _, p in laws)
    for _ in range(_HALVINGS):
        tilt = (low + high) / 2
        left = [-expm1(log(p) + tilt) for _, p in laws]
        small = min(left) > 0 and math.fsum(a * (1 - q) / q for (a, _), q in zip(laws, left, strict=True)) < mean
        low, high = (tilt, high) if small else (low, tilt)
    return low


def _log_mode(shape: float, p: float) -> float:
    """The logarithm of the largest mass of NB(shape, p), rounded up; 0 where p is as good as 1."""
    if not p < 1:
        return 0.0
    return log_mass(shape, p, math.floor(max(0.0, (shape - 1) * p / (1 - p))))


def _counted_on(noise: Noise) -> CellCover:
    return CellCover(float(noise.shape), float(noise.p))
