"""B of an experiment without cover: so many packages that nearly every update fits.

A participant sends exactly B packages in every round, whatever it has to say: one tells that it takes part, and the
others must hold its update in nearly every round. With F features of H hashes each a person fills at most n = F · H + 1
bins, and takes part in m models. Then, on average, at most

    m · n units are sent without thinning,   m · q · n with q,   m · ρ · √n with ρ        (Σ|x| / ‖x‖ ≤ √n, always)

and B leaves room for four standard deviations more: of a person's rounds about one in 30,000 is cut. Without F, or for
values that are no presence and not thinned by ρ, there is no such bound, and the budget must be given.
"""

from __future__ import annotations

import math

from secvm.errors import BadExperimentError
from secvm.learning.experiment import Experiment

#: Standard deviations of the number of units for which a default budget leaves room.
_ROOM = 4


def default_budget(experiment: Experiment, *, hashes: int, presence: bool, most: int) -> int:
    """B that holds nearly every update; ``most`` is the largest that there may be."""
    if experiment.features_per_person is None:
        raise BadExperimentError("give a budget, or features.per_participant, from which one is computed")
    if not presence and experiment.thinning.rho is None:
        raise BadExperimentError("give a budget: values that are no presence have no bound without thinning by rho")
    bins = experiment.features_per_person * hashes + 1
    models = experiment.models.most_per_person
    needed = models * bins
    if experiment.thinning.active:
        share = float(experiment.thinning.divisor)
        mean = models * share * (bins if experiment.thinning.rho is None else math.sqrt(bins))
        with_room = math.ceil(mean + _ROOM * math.sqrt(mean))
        # Presence also bounds the units themselves.
        needed = min(needed, with_room) if presence else with_room
    budget = needed + 1
    if budget > most:
        raise BadExperimentError(
            f"{budget} packages would be needed in every round, and {most} are the most: thin, or ask for less"
        )
    return max(2, budget)
