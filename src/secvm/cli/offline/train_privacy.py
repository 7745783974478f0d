"""``secvm train --epsilon``: what is asked for, what goes with it, and how it is told."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from secvm.cli.commands import in_laboratory
from secvm.cli.offline import options
from secvm.cli.offline.people import Read
from secvm.cli.output import note
from secvm.errors import BadInputError
from secvm.estimator.offline_run import OfflineRun, PrivateRun
from secvm.estimator.privacy import CONTRIBUTION, doubts
from secvm.learning.aggregate.descent import Swift
from secvm.learning.declared import shown
from secvm.privacy.risk import up
from secvm.privacy.target import USUAL, PrivacyTarget

#: Defaults of what goes with --epsilon.
DELTA, NOISE = shown(USUAL.delta), "cover"
#: The seed where nobody gives one, and nothing is promised.
USUAL_SEED = 1

_privacy = partial(typer.Option, rich_help_panel="Formal guarantee")

EpsilonOption = Annotated[
    str | None,
    _privacy(help="Train under (ε, δ), by the cover of two relays.", metavar="NUMBER", show_default=False),
]
DeltaOption = Annotated[str, _privacy(help="Less than one over the people.", metavar="NUMBER")]
ContributionOption = Annotated[
    int | None,
    _privacy(
        help="Most features of a person, drawn once.",
        metavar="N",
        min=1,
        show_default=f"what columns can make, else {CONTRIBUTION}",
    ),
]
NoiseOption = Annotated[str, _privacy(help="central: of a trusted server, for comparison.", metavar="cover|central")]


def asked(
    epsilon: str | None,
    delta: str,
    contribution: int | None,
    *,
    rounds: int | None,
    thinning: str,
    hashes: int,
    seed: bytes,
    noise: str,
) -> PrivateRun | None:
    """The (ε, δ) that was asked for, and what goes with it."""
    if epsilon is None:
        # Whoever gives a δ believes to be training under a promise.
        alone = {"--delta": delta != DELTA, "--contribution": contribution is not None}
        for option in (name for name, given in alone.items() if given):
            raise BadInputError(f"{option} goes with --epsilon: without it nothing is promised")
        return None
    rho = None
    if thinning != "auto":
        rho = float(options.number(thinning, "with --epsilon, --thinning"))
    return PrivateRun(
        PrivacyTarget(options.number(epsilon, "--epsilon"), options.number(delta, "--delta")),
        hashes,
        seed,
        rounds=rounds,
        rho=rho,
        trusted=noise == "central",
    )


def of_people(private: PrivateRun | None, contribution: int | None, read: Read) -> PrivateRun | None:
    """With the contribution that was given, or that ``SecVMClassifier`` takes of such people."""
    if private is None:
        return None
    most = None if read.frame is None else read.frame.most_words
    return replace(private, features=contribution or min(most or CONTRIBUTION, CONTRIBUTION))


def check(
    private: PrivateRun | None,
    noise: str,
    *,
    descent: str,
    bins: str,
    vocabulary: Path | None,
    stop: str,
    constants: Mapping[str, object],
    class_weight: list[str] | None,
    loss: str,
) -> None:
    """Refuse what would look at people outside the promise, or what it decides by itself."""
    if noise not in (NOISE, "central"):
        raise BadInputError(f"--noise must be cover or central, not '{noise}'")
    if private is None and noise != NOISE:
        raise BadInputError("--noise goes with --epsilon: without it nothing is promised")
    if private is None:
        return
    if noise == "central":
        _central_noise()
    if descent != Swift.name:
        raise BadInputError(f"--epsilon trains with {Swift.name}: fewer rounds tell less")
    for option in (name for name, given in constants.items() if given is not None):
        raise BadInputError(f"with --epsilon {Swift.name}'s constants follow from public numbers: leave {option} away")
    if bins == "none" and vocabulary is None:
        raise BadInputError("words found among people are not public: with --epsilon give --bins or --vocabulary")
    if stop != "none":
        raise BadInputError("--stop plateau looks at people in every round: with --epsilon rounds are fixed beforehand")
    if options.loss(loss, None).regression:
        raise BadInputError("--epsilon needs labels that are classes; for numbers use SecVMRegressor from Python")
    if "balanced" in (class_weight or []):
        raise BadInputError("balanced class weights look at everybody's label: with --epsilon give numbers")


def begin(work: OfflineRun, private: PrivateRun | None, noise: str, rounds: int, seed: int) -> int:
    """Show what it costs before it starts; the rounds to run."""
    if private is None or work.privacy_plan is None:
        return rounds
    rounds = work.privacy_plan.settings.rounds
    for doubt in doubts(private.target, len(work.people)):
        note(f"secvm: {doubt}")
    if noise == "cover":
        note(work.privacy_plan.in_words())
    else:
        note(
            f"{private.target} over all {rounds} rounds, by Gaussian noise of a server "
            "that is trusted with everybody's rows: for comparison"
        )
        work.noise = _central_noise()(
            work.experiment,
            epsilon=float(private.target.epsilon),
            delta=float(private.target.delta),
            rounds=rounds,
            contribution=private.features,
            seed=seed,
        )
    return rounds


def _central_noise() -> Callable[..., Any]:
    """The noise of a trusted server, which ``secvm-lab`` brings for comparison."""
    for entry in metadata.entry_points(group="secvm.noises", name="central"):
        noise: Callable[..., Any] = entry.load()
        return noise
    raise in_laboratory("--noise central")


def content(work: OfflineRun, noise: str) -> dict[str, Any]:
    """What the result says of it: nothing where it was not asked for."""
    if work.privacy_plan is None:
        return {}
    return {"privacy": {"noise": noise, **work.privacy_plan.content()}}


def covered(about: dict[str, Any], work: OfflineRun, noise: str) -> dict[str, Any]:
    """What was trained, without what only people's data tell: how many words they have, and how much they sent."""
    plan = work.privacy_plan
    if plan is None:
        return about
    about.pop("clipped_share", None)
    sent = float(plan.budget * about["rounds"]) if noise == NOISE else None  # a trusted server is given whole rows
    return about | {"features": None, "packages_per_person": sent}


def seed_of(seed: int | None, *, private: bool) -> int:
    """The seed that was given. Whoever knows it can take cover away, so under an ε there is none that is usual."""
    if seed is not None and private:
        note("secvm: whoever knows --seed can take the noise away: leave it out for a model that others see")
    return seed if seed is not None else secrets.randbits(128) if private else USUAL_SEED


def as_text(privacy: dict[str, Any]) -> str:
    """The promise and its price in one line."""
    if privacy["noise"] == "central":
        return f"ε = {privacy['epsilon']:g}, δ = {privacy['delta']:g} if the server is trusted with everything"
    spent = up(privacy["epsilon_achieved"], 100)
    return (
        f"ε = {spent:.2f}, δ = {privacy['delta']:g} if in each round one of two relays is honest; "
        f"{privacy['budget_per_device_round']} packages per device and round, "
        f"{privacy['relay_packages']:,} of each relay"
    )
