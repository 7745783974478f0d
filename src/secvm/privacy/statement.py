"""PrivacyStatement: what taking part in one experiment tells about a person, in numbers, before anybody joins.

Everything follows from public values, and nothing that an experiment claims of itself is believed: ε is computed anew
from the noise that its devices add, for the number of honest participants that it was planned for and for the one that
whoever asks counts on (``Assumption``). ``statement_text`` puts it in words.

- A **formal** guarantee needs cover, one relay in mode round, which alone shuffles all packages of a round, and a log:
  where every device may be given another gateway key, capsules are shuffled and still sorted by who can open them.
- ε is told at a δ, over all rounds and after one, under zero-out and under label flip (``accountant``); beside it the
  AUC that no attacker exceeds (``best_attacker``).
- The **leak without guarantee** is what the public tallies alone give away of a label (``experiment_leak``). Where
  there is cover, it says what cover is there to prevent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.learning.experiment import Experiment
from secvm.privacy.accountant import Adjacency, Contribution, Mechanism
from secvm.privacy.best_attacker import auc_at_most
from secvm.privacy.experiment_leak import PlannedLeak, planned_leak

#: From here on a guarantee is none worth the name: who knows all the others finds the label nearly surely.
NO_PROTECTION = 8.0
#: The only mode of a relay in which packages are shuffled among all participants.
SHUFFLER = "round"
#: Where the curve δ(ε) is looked at for an AUC.
_CURVE = (0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What somebody counts on: how many of the others are there, are honest, and deliver."""

    #: At least this share of the participants.
    gamma: Fraction = Fraction(1, 2)
    #: No more participants than this, whatever an experiment plans with; None: as many as it does.
    participants: int | None = None
    #: The chance left aside, for one experiment.
    delta: float = 1e-6
    #: That the coordinator gives everybody the same key, also where no log would show the contrary.
    without_log: bool = False

    def counted(self, planned: int) -> int:
        """Devices that are counted on, honest or not."""
        return min(planned, self.participants or planned)

    def honest(self, planned: int) -> int:
        """Devices whose cover is counted on."""
        return math.floor(self.gamma * self.counted(planned))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a statement is about. Public."""

    experiment: Experiment
    #: T, the abandoned rounds included.
    rounds: int
    hashes: int = 1
    #: Train participants below which a round is abandoned.
    floor: int
    train_share: Fraction = Fraction(1)
    #: Mode of each relay, as far as the experiment tells it.
    relay_modes: tuple[str | None, ...] = ()
    #: Whether its rounds stand in a log: else nobody knows that all devices have the same manifest, and the same key.
    logged: bool = True
    #: Devices in a round that the experiment was planned for; None: it does not say, and the floor is taken.
    participants: int | None = None
    #: What it plans with and asks for, where it has cover.
    gamma: Fraction = Fraction(1)
    delta: float = 1e-6

    @property
    def planned_participants(self) -> int:
        return math.ceil(self.floor / self.train_share) if self.participants is None else self.participants

    @property
    def budget(self) -> int | None:
        """B."""
        cover = self.experiment.cover
        return self.experiment.budget if cover is None else max(self.experiment.budget or 0, cover.budget)

    @property
    def mechanism(self) -> Mechanism | None:
        """What an accountant has to know; None: plain."""
        experiment, cover = self.experiment, self.experiment.cover
        if cover is None or experiment.features_per_person is None:
            return None
        return Mechanism(
            contribution=Contribution(
                rounds=self.rounds,
                models=experiment.models.most_per_person,
                cells=min(self.hashes * (experiment.features_per_person + 1), experiment.n_bins + 1),
                thinning=experiment.thinning,
            ),
            train=cover.train,
            participation=cover.participation,
            test=cover.test,
            real_cap=cover.real_cap,
        )

    def why_no_guarantee(self, assumption: Assumption) -> str | None:
        """In one sentence; None: there is one."""
        if self.experiment.cover is None:
            return "this experiment adds no noise"
        if self.relay_modes != (SHUFFLER,):
            return "its packages are not shuffled by one relay in mode round"
        if not (self.logged or assumption.without_log):
            return "it has no log, and a device that is given a key of its own is told from all others by it"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(ε, δ) under one assumption; ∞: none."""

    honest: int
    delta: float
    #: Zero-out: this device sends its cover, and nothing of its own. Over all rounds, and after one.
    epsilon: float
    epsilon_round: float
    #: Label flip: the same features with the other label.
    epsilon_flip: float
    epsilon_flip_round: float
    #: The largest AUC of anybody who asks for the label, over all rounds: from (ε, δ) under label flip alone …
    auc: float
    #: … and from the whole curve δ(ε), which is less; None: not computed.
    auc_curve: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyStatement:
    """The numbers. ``statement_text.words`` has the sentences."""

    terms: Terms
    assumption: Assumption
    #: None: a formal guarantee is stated.
    why_no_guarantee: str | None
    #: As it was planned, and under the assumption of whoever asks; None without a guarantee.
    planned: Guarantee | None
    own: Guarantee | None
    #: What public tallies give away without a guarantee, at the floor; None where no law is known.
    leak: PlannedLeak | None
    #: B, mean of the cover, and bytes that leave in a round; None offline, where nothing is sent.
    budget: int | None
    cover_mean: float
    bytes_per_round: int | None

    @property
    def formal(self) -> bool:
        return self.why_no_guarantee is None

    @property
    def protects(self) -> bool:
        """Whether there is a guarantee that deserves the name, under the assumption of whoever asks."""
        return self.own is not None and self.own.epsilon < NO_PROTECTION

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys. An infinite ε is null."""
        terms, experiment = self.terms, self.terms.experiment
        return {
            "kind": "plain" if experiment.cover is None else "cover",
            "formal": self.formal,
            "why_no_guarantee": self.why_no_guarantee,
            "protects": self.protects,
            "rounds": terms.rounds,
            "bins": experiment.n_bins,
            "features": experiment.features_per_person,
            "labels": len(experiment.labels),
            "floor": terms.floor,
            "participants": terms.planned_participants,
            "planned": _guarantee(self.planned),
            "own": _guarantee(self.own),
            "leak_without_guarantee": _leak(self.leak),
            "budget": self.budget,
            "cover_mean": self.cover_mean,
            "bytes_per_round": self.bytes_per_round,
            "tallies_are_public": True,
        }


def state(terms: Terms, assumption: Assumption, *, bytes_per_package: int = 0, curve: bool = False) -> PrivacyStatement:
    """The statement about an experiment. ``curve`` takes seconds more, and gives the smaller AUCs."""
    why_not, mechanism = terms.why_no_guarantee(assumption), terms.mechanism
    planned = own = None
    if why_not is None and mechanism is not None:
        honest = math.floor(terms.gamma * terms.planned_participants)
        planned = guarantee(mechanism, honest, terms.delta, curve=curve)
        own = guarantee(mechanism, assumption.honest(terms.planned_participants), assumption.delta, curve=curve)
    cover, budget = terms.experiment.cover, terms.budget
    # At the floor: fewer people than that are never counted.
    leak = planned_leak(terms.experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes)
    return PrivacyStatement(
        terms=terms,
        assumption=assumption,
        why_no_guarantee=why_not,
        planned=planned,
        own=own,
        leak=leak,
        budget=budget,
        cover_mean=0.0 if cover is None else float(cover.mean_packages),
        bytes_per_round=None if budget is None else budget * bytes_per_package,
    )


@lru_cache(maxsize=128)
def guarantee(mechanism: Mechanism, honest: int, delta: float, *, curve: bool = False) -> Guarantee:
    """What cover is worth if so many devices are honest. Kept: a device asks before every round."""
    flip = Adjacency.LABEL_FLIP
    epsilon_flip = epsilon_after(mechanism, mechanism.contribution.rounds, honest, delta, flip)
    points = [] if math.isinf(epsilon_flip) else [(epsilon_flip, delta)]
    return Guarantee(
        honest=honest,
        delta=delta,
        epsilon=epsilon_after(mechanism, mechanism.contribution.rounds, honest, delta),
        epsilon_round=epsilon_after(mechanism, 1, honest, delta),
        epsilon_flip=epsilon_flip,
        epsilon_flip_round=epsilon_after(mechanism, 1, honest, delta, flip),
        auc=auc_at_most(points),
        auc_curve=auc_of_curve(mechanism, honest, also=points) if curve else None,
    )


@lru_cache(maxsize=1024)
def epsilon_after(
    mechanism: Mechanism, rounds: int, honest: int, delta: float, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> float:
    """ε at δ when a device has joined so many of the rounds; 0: none."""
    if rounds == 0:
        return 0.0
    told = replace(mechanism, contribution=replace(mechanism.contribution, rounds=rounds))
    return told.epsilon(delta=delta, honest=honest, adjacency=adjacency)


def auc_of_curve(
    mechanism: Mechanism,
    honest: int,
    adjacency: Adjacency = Adjacency.LABEL_FLIP,
    *,
    also: list[tuple[float, float]] | None = None,
) -> float:
    """The largest AUC that the curve δ(ε) leaves, over all rounds."""
    if honest < 1:
        return 1.0
    curve = [(epsilon, mechanism.delta(epsilon, honest=honest, adjacency=adjacency)) for epsilon in _CURVE]
    return auc_at_most([*curve, *(also or ())])


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _guarantee(one: Guarantee | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "honest": one.honest,
        "delta": one.delta,
        "epsilon": _finite(one.epsilon),
        "epsilon_round": _finite(one.epsilon_round),
        "epsilon_flip": _finite(one.epsilon_flip),
        "epsilon_flip_round": _finite(one.epsilon_flip_round),
        "auc_at_most": one.auc,
        "auc_at_most_curve": one.auc_curve,
    }


def _leak(leak: PlannedLeak | None) -> dict[str, Any] | None:
    if leak is None:
        return None
    return {
        "train_participants": leak.participants,
        "d_squared_round": leak.d_squared_round,
        "auc_round": leak.auc_round,
        "d_squared": leak.d_squared,
        "auc": leak.auc,
        "auc_corrected": leak.auc_corrected,
    }
