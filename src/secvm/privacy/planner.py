"""The planner: an experiment in numbers → what it would tell, cost and learn, before anybody is asked.

``quick`` answers in milliseconds: the leak of a plain experiment exactly as its statement will say it, and of one with
cover *about* what the plan would be (``rough_cover``). ``guaranteed`` takes seconds: it makes the very plan that the
coordinator would make, with the statement that people will read. Both say what is wrong (``planner_remarks``), and what
accuracy to expect (``accuracy_cost``).

Plans and guarantees are kept: somebody who moves a slider back waits for nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.experiment import Experiment
from secvm.privacy.accuracy_cost import AccuracyTable, ExpectedCost
from secvm.privacy.budgets import default_budget
from secvm.privacy.experiment_leak import keep_share, planned_leak
from secvm.privacy.noise_settings import floor_for
from secvm.privacy.planned import Planned, experiment_of
from secvm.privacy.planner_remarks import (
    DEVICE_AUC,
    DEVICE_DAILY_BYTES,
    CoverWish,
    Remark,
    Wish,
    refusals,
    warnings,
)
from secvm.privacy.rough_cover import rough_cover
from secvm.privacy.shuffle_dp import CoverPlan, asked_for, plan
from secvm.privacy.statement import Assumption, PrivacyStatement, Terms, state

#: Up to here an AUC is a hint, not a good guess.
_HINT_AUC = 0.7


def quick(wish: Wish, table: AccuracyTable, *, bytes_per_package: int = 0) -> Planned:
    """At once; with cover, about."""
    refused = refusals(wish)
    if refused:
        return Planned(wish=wish, refused=tuple(refused), exact=wish.cover is None)
    try:
        experiment = experiment_of(wish)
        if wish.cover is not None:
            rough = rough_cover(asked_for(**_asked(wish, wish.cover, experiment)), shape=wish.cover.shape or 90)
            return _completed(
                wish, experiment, table, budget=wish.budget or rough.budget, cover_mean=rough.cover_mean,
                auc=rough.auc, variance=rough.variance_per_cell, exact=False, bytes_per_package=bytes_per_package,
            )  # fmt: skip
        usual = None if wish.features is None else _usual(wish, experiment)
        budget = usual if wish.budget is None else wish.budget
    except BadInputError as fault:
        return Planned(wish=wish, refused=(Remark("", _sentence(fault)),), exact=wish.cover is None)
    assert budget is not None
    found = _completed(
        wish, replace(experiment, budget=budget), table, budget=budget, bytes_per_package=bytes_per_package
    )
    if usual is not None and budget < usual:
        short = Remark("budget", f"Updates are cut: nearly all of them would fit into {usual:,} packages.")
        return replace(found, warned=(*found.warned, short))
    return found


def guaranteed(wish: Wish, table: AccuracyTable, *, bytes_per_package: int = 0) -> Planned:
    """With the plan that the coordinator would make, and what it is worth. Takes seconds where there is cover."""
    first = quick(wish, table, bytes_per_package=bytes_per_package)
    if wish.cover is None or first.refused:
        return first
    try:
        experiment = experiment_of(wish)
        made = cover_plan(wish)
    except BadInputError as fault:
        return Planned(wish=wish, refused=(Remark("privacy.epsilon", _sentence(fault)),))
    if wish.budget is not None and wish.budget < made.budget:
        needed = f"Cover and a person's own packages need a budget of {made.budget:,}."
        return replace(first, refused=(Remark("budget", needed),), exact=True)
    budget = wish.budget or made.budget
    return _completed(
        wish,
        replace(experiment, budget=budget, cover=made.cover),
        table,
        budget=budget,
        cover_mean=float(made.cover.mean_packages),
        variance=float(made.noise.variance_per_cell(made.participants)),
        bytes_per_package=bytes_per_package,
    )


@lru_cache(maxsize=64)
def cover_plan(wish: Wish) -> CoverPlan:
    """The plan for a wish with cover: what ``coordinator.cover_question`` would make of the same numbers."""
    if wish.cover is None:
        raise BadExperimentError("no guarantee is wished for")
    return plan(**_asked(wish, wish.cover, experiment_of(wish)), shape=wish.cover.shape)


def _asked(wish: Wish, cover: CoverWish, experiment: Experiment) -> dict[str, Any]:
    assert wish.features is not None
    return {
        "epsilon": cover.epsilon,
        "delta": cover.delta,
        "rounds": wish.rounds,
        "features": wish.features,
        "models": experiment.models.n_models,
        "hashes": wish.hashes,
        "bins": wish.bins,
        "thinning": wish.thinning,
        "participants": cover.participants,
        "gamma": cover.gamma,
        "violable": experiment.models.most_per_person,
        "labels": wish.labels,
        "train_share": wish.train_share,
    }


def _usual(wish: Wish, experiment: Experiment) -> int | None:
    if not wish.presence and wish.thinning.rho is None:
        return None
    return default_budget(experiment, hashes=wish.hashes, presence=wish.presence, most=wish.limits.budget)


def _completed(
    wish: Wish,
    experiment: Experiment,
    table: AccuracyTable,
    *,
    budget: int,
    bytes_per_package: int,
    cover_mean: float = 0.0,
    auc: float | None = None,
    variance: float = 0.0,
    exact: bool = True,
) -> Planned:
    leak = planned_leak(
        experiment,
        train_participants=wish.train_participants,
        rounds=wish.rounds,
        hashes=wish.hashes,
        shares=wish.shares,
    )
    at_floor = planned_leak(experiment, train_participants=wish.floor, rounds=wish.rounds, hashes=wish.hashes)
    statement = _statement(wish, experiment, bytes_per_package) if exact else None
    if statement is not None and statement.planned is not None:
        best = statement.planned
        auc = best.auc if best.auc_curve is None else min(best.auc, best.auc_curve)
    elif auc is None or not wish.logged:
        # Where nothing is guaranteed, what cover would do is no number to rely on.
        auc = None if leak is None else leak.auc
    per_bin = _noise_per_bin(wish, variance)
    cost, no_cost = _cost(wish, experiment, table, per_bin)
    found = Planned(
        wish=wish, refused=(), exact=exact, leak=leak, floor_leak=at_floor, auc=auc, budget=budget,
        cover_mean=cover_mean, cost=cost, no_cost=no_cost, suggested_floor=_floor(wish, per_bin), statement=statement,
    )  # fmt: skip
    return replace(found, warned=(*warnings(wish), *_about(found, bytes_per_package)))


def _statement(wish: Wish, experiment: Experiment, bytes_per_package: int) -> PrivacyStatement:
    """What a device would say that counts on what devices count on by themselves."""
    terms = Terms(
        experiment=experiment,
        rounds=wish.rounds,
        hashes=wish.hashes,
        floor=wish.floor,
        train_share=wish.train_share,
        relay_modes=wish.relay_modes,
        logged=wish.logged,
        participants=None if wish.cover is None else wish.cover.participants,
        **({} if wish.cover is None else {"gamma": wish.cover.gamma, "delta": wish.cover.delta}),  # type: ignore[arg-type]  # mypy sees one type for both
    )
    return state(terms, Assumption(), bytes_per_package=bytes_per_package, curve=True)


def _noise_per_bin(wish: Wish, variance: float) -> float:
    """Noise of both signs in each bin of a round's mean direction, where a person's own row has length 1."""
    divisor = 1.0 if wish.thinning.rho is None else float(wish.thinning.rho)
    return math.sqrt(2 * variance) / (divisor * wish.train_participants)


def _floor(wish: Wish, per_bin: float) -> Fraction | None:
    if wish.cover is None or wish.rule != "swift" or wish.features is None:
        return None
    return floor_for(per_bin, bins=wish.bins, cells=min(wish.features * wish.hashes, wish.bins) + 1)


def _cost(
    wish: Wish, experiment: Experiment, table: AccuracyTable, per_bin: float
) -> tuple[ExpectedCost | None, str | None]:
    if wish.rule != "swift":
        return None, "The table of accuracies was measured with swift; there is none for pegasos."
    found = table.expected(
        people=wish.train_participants,
        bins=wish.bins,
        features=wish.features,
        rounds=wish.rounds,
        noise=per_bin * math.sqrt(wish.bins + 1),
        q=keep_share(experiment, hashes=wish.hashes),
    )
    return found, None


def _about(found: Planned, bytes_per_package: int) -> list[Remark]:
    told: list[Remark] = []
    auc, plain = found.auc, found.wish.cover is None or not found.wish.logged
    if auc is not None and auc > (DEVICE_AUC if plain else _HINT_AUC):
        who = "whoever knows a person's features" if plain else "the best attacker"
        can = (
            "can tell the label"
            if auc > 0.9
            else "can make a good guess at the label"
            if auc > _HINT_AUC
            else "has a hint"
        )
        told.append(Remark("", f"AUC {auc:.2f}: {who} {can}."))
    floor = found.floor_leak
    if plain and floor is not None and floor.auc > DEVICE_AUC:
        told.append(
            Remark(
                "",
                f"Devices refuse it, unless their people say otherwise: without a guarantee they take an AUC of"
                f" {DEVICE_AUC:g} at most, and reckon with the floor, where it is {floor.auc:.2f}.",
            )
        )
    given, better = found.wish.popularity_floor, found.suggested_floor
    if given is not None and better is not None and 2 * given < better:
        told.append(
            Remark("descent.floor", f"Less than expected is learnt with so small a floor: {float(better):g} fits.")
        )
    days, budget = found.wish.rounds_per_day, found.budget
    if days is not None and budget is not None:
        daily = budget * min(days, found.wish.rounds) * bytes_per_package
        if daily > DEVICE_DAILY_BYTES:
            told.append(
                Remark(
                    "windows.length_s",
                    f"Devices send {DEVICE_DAILY_BYTES // 10**6} MB a day at most, and skip the rest.",
                )
            )
    return told


def _sentence(fault: Exception) -> str:
    text = str(fault)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
