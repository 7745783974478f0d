"""``[privacy]`` of a specification: cover for a wished (ε, δ), and what it costs, told before anything is published.

The plan is ``privacy.shuffle_dp``'s: for all rounds of the experiment together, for so many participants in a round of
whom the share γ is honest and delivers. B is what follows from it, unless the specification wants more. Planning takes
a second or, where the smallest B is looked for, some twenty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import pydantic

from secvm.errors import BadExperimentError, MalformedMessageError
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.privacy.accountant import Adjacency
from secvm.privacy.shuffle_dp import CoverPlan, epsilon_of, plan
from secvm.protocol.cover_terms import CoverTerms, check_covered
from secvm.runtime.settings import Settings

#: "How bad is it if so few of those whom the plan counts on are honest?"
FEW_HONEST = Fraction(3, 10)


class PrivacyPart(Settings):
    """Cover, and for whom it is planned. Numbers as TOML or JSON writes them, or exactly, as text such as "1/2"."""

    epsilon: int | float | str
    delta: int | float | str = "1e-6"
    #: Participants of a round, all together.
    participants: Annotated[int, pydantic.Field(ge=1)]
    #: Which share of them is honest and delivers, at least: Sybils, drop-outs and losses are the rest.
    gamma: int | float | str = "1/2"
    #: r of the noise in a train cell: small ones fail early when fewer are honest, "smallest" is for the smallest B.
    shape: Annotated[int, pydantic.Field(ge=1)] | Literal["smallest"] = 30


@dataclass(frozen=True, slots=True)
class PlannedCover:
    """A plan, with the numbers as a document tells them."""

    plan: CoverPlan
    terms: CoverTerms


def plan_cover(
    told: PrivacyPart,
    experiment: Experiment,
    *,
    hashes: int,
    rounds: int | None,
    train_share: Fraction,
    presence: bool,
    modes: list[str | None],
    floor: int,
) -> PlannedCover:
    """Cover for an experiment that has none yet.

    Raises
    ------
    BadExperimentError
        One sentence about what cannot be kept, or by no cover that a device could send.
    """
    if rounds is None:
        raise BadExperimentError("a guarantee is for a number of rounds: give rounds")
    if experiment.features_per_person is None:
        raise BadExperimentError("a guarantee needs a bound on a person's features: give features.per_participant")
    try:
        check_covered(presence=presence, modes=modes, floor=floor, labels=len(experiment.labels))
    except MalformedMessageError as fault:
        raise BadExperimentError(str(fault)) from None
    terms = CoverTerms(
        epsilon=exact(told.epsilon),
        delta=exact(told.delta),
        participants=told.participants,
        gamma=exact(told.gamma),
    )
    made = plan(
        epsilon=float(terms.epsilon),
        delta=float(terms.delta),
        rounds=rounds,
        features=experiment.features_per_person,
        models=experiment.models.n_models,
        hashes=hashes,
        bins=experiment.n_bins,
        thinning=experiment.thinning,
        participants=terms.participants,
        gamma=terms.gamma,
        shape=None if told.shape == "smallest" else told.shape,
        violable=experiment.models.most_per_person,
        labels=len(experiment.labels),
        train_share=train_share,
    )
    return PlannedCover(made, terms)


def cost(planned: PlannedCover) -> dict[str, Any]:
    """What the cover costs and is worth, as values; an ε of null is no guarantee at all."""
    made, terms = planned.plan, planned.terms

    def epsilon(gamma: Fraction, adjacency: Adjacency) -> float | None:
        found = epsilon_of(made, delta=made.delta, participants=terms.participants, gamma=gamma, adjacency=adjacency)
        return None if math.isinf(found) else found

    few = terms.gamma * FEW_HONEST
    return {
        "epsilon": made.epsilon,
        "delta": made.delta,
        "participants": terms.participants,
        "gamma": float(terms.gamma),
        "honest": terms.honest,
        "rounds": made.contribution.rounds,
        "shape": made.shape,
        "achieved": made.achieved,
        "epsilon_label_flip": epsilon(terms.gamma, Adjacency.LABEL_FLIP),
        "honest_if_few": math.floor(terms.participants * few),
        "epsilon_if_few_honest": epsilon(few, Adjacency.ZERO_OUT),
        "budget": made.budget,
        "cover_mean": float(made.cover.mean_packages),
        "real_cap": made.real_cap,
        "noise_per_cell": math.sqrt(made.noise.variance_per_cell(terms.participants)),
    }


def cost_lines(told: dict[str, Any]) -> list[str]:
    """The same for a terminal."""

    def worth(epsilon: float | None) -> str:
        return "no guarantee" if epsilon is None else f"epsilon {epsilon:.2f}"

    return [
        (
            f"guarantee   epsilon {told['epsilon']:g} at delta {told['delta']:.1g} over all {told['rounds']} rounds;"
            f" reached: {told['achieved']:.2f}"
        ),
        f"            if somebody's label is flipped: {worth(told['epsilon_label_flip'])}",
        (
            f"assumes     {told['honest']} honest devices in every round"
            f" ({told['gamma']:.0%} of {told['participants']}), and a relay that shuffles and does not collude"
        ),
        (
            f"            if only {told['honest_if_few']} are honest (30 % of these):"
            f" {worth(told['epsilon_if_few_honest'])}"
        ),
        (
            f"costs       {told['budget']} packages of every device in every round, of which"
            f" {told['cover_mean']:.1f} on average are cover and at most {told['real_cap'] + 1} its own"
        ),
        (
            f"noise       {told['noise_per_cell']:.1f} in each count of a bin and a sign (standard deviation), beside"
            f" {told['participants']} participants"
        ),
    ]
