"""What a device agrees to, as values: policies that look at a privacy statement and refuse in one sentence, or do not.

A policy has one method. ``AllOf`` and ``AnyOf`` put policies together; ``UnsafeAcceptAnything`` agrees to everything,
is for tests and demos, and says so in its name wherever it is used. Nothing here looks at a person's data, so a refusal
tells nothing of it: only public documents count, and what the person has decided. For one experiment they may accept
more than their device does by itself (``Accepted``).

``Consent`` is all that a person decides about this: the policy, what the device counts on (its own number of honest
participants, never the experiment's claim of ε), and how much may be told in all experiments together (``ledger``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from secvm.errors import BadInputError, ConsentRefusedError
from secvm.participant.sealing import CAPSULE_BYTES
from secvm.participant.transport import OVERHEAD_BYTES
from secvm.privacy.label_leakage import d_squared_of
from secvm.privacy.statement import Assumption, PrivacyStatement, state
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.stating import terms_of

#: The AUC above which a device refuses, and the ε.
MOST_AUC, MOST_EPSILON = 0.55, 4.0
#: A guarantee was made for a number of rounds; nobody plans with more.
MOST_ROUNDS = 1000
#: A round of fewer hides nobody.
LEAST_FLOOR = 20
#: δ of everything that a device ever tells under a guarantee; each experiment has ``Assumption.delta`` of it.
TOTAL_DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the person has agreed to for one experiment, beyond what its device agrees to by itself."""

    auc: float | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.auc is not None and not 0.5 <= self.auc <= 1:
            raise BadInputError("an AUC to be accepted lies from 0.5 to 1")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise BadInputError("an ε to be accepted is above 0")


#: The person has put nothing aside.
NOTHING = Accepted()


class ConsentPolicy(Protocol):
    """Looks at what an experiment tells about a person."""

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        """Return, or raise ``ConsentRefusedError`` with one sentence and what the person can do."""
        ...


@dataclass(frozen=True, slots=True)
class MostLeakage:
    """Without a formal guarantee: who knows a person's features may tell the label with at most this AUC."""

    auc: float = MOST_AUC

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        limit = max(self.auc, accepted.auc or 0.0)
        if statement.formal or limit >= 1:
            return
        if statement.leak is None:
            raise ConsentRefusedError(
                "this experiment has no formal guarantee, and for a label that is a number nobody knows the risk",
                next_step=_how("--accept-leakage", "auc", "1"),
            )
        if statement.leak.auc > limit:
            needed = _rounded_up(statement.leak.auc, 1000)
            raise ConsentRefusedError(
                "this experiment has no formal guarantee, and would let whoever knows your features tell your label"
                f" with an AUC of {needed:.3f}; this device agrees to {limit:g} at most",
                next_step=_how("--accept-leakage", "auc", f"{needed:.3f}"),
            )


@dataclass(frozen=True, slots=True)
class MostEpsilon:
    """With a formal guarantee: ε over all rounds, by what this device counts on, may be at most this."""

    epsilon: float = MOST_EPSILON

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        own, limit = statement.own, max(self.epsilon, accepted.epsilon or 0.0)
        if own is None or own.epsilon <= limit:
            return
        if math.isinf(own.epsilon):
            raise ConsentRefusedError(
                f"this experiment guarantees nothing if only {own.honest:,} devices are honest, as this device assumes",
                next_step="What it assumes: honest_share and participants under [consent] in the settings.",
            )
        needed = _rounded_up(own.epsilon, 100)
        raise ConsentRefusedError(
            f"this experiment's guarantee is ε = {needed:.2f} if {own.honest:,} devices are honest, as this device"
            f" assumes; it agrees to {limit:g} at most",
            next_step=_how("--accept-epsilon", "epsilon", f"{needed:.2f}"),
        )


@dataclass(frozen=True, slots=True)
class MostRounds:
    """No experiment with more rounds."""

    rounds: int = MOST_ROUNDS

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:  # noqa: ARG002
        if statement.terms.rounds > self.rounds:
            raise ConsentRefusedError(
                f"this experiment has {statement.terms.rounds} rounds, and this device agrees to {self.rounds} at most",
                next_step="The limit is most_rounds under [consent] in the settings.",
            )


@dataclass(frozen=True, slots=True)
class LeastFloor:
    """No experiment whose rounds count with fewer people than this."""

    floor: int = LEAST_FLOOR

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:  # noqa: ARG002
        if statement.terms.floor < self.floor:
            raise ConsentRefusedError(
                f"a round of this experiment counts with {statement.terms.floor} people, and this device wants"
                f" {self.floor} at least",
                next_step="The limit is least_floor under [consent] in the settings.",
            )


@dataclass(frozen=True, slots=True)
class AllOf:
    """Each of them must agree; the first that does not is heard."""

    policies: tuple[ConsentPolicy, ...]

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        for policy in self.policies:
            policy.check(statement, accepted)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One that agrees is enough; else the last is heard. Of none at all nobody agrees."""

    policies: tuple[ConsentPolicy, ...]

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        refusal = ConsentRefusedError("no policy of this device agrees to anything")
        for policy in self.policies:
            try:
                policy.check(statement, accepted)
            except ConsentRefusedError as fault:
                refusal = fault
            else:
                return
        raise refusal


@dataclass(frozen=True, slots=True)
class UnsafeAcceptAnything:
    """Agrees to everything, whatever it tells. For made-up people in tests and demos."""

    def check(self, statement: PrivacyStatement, accepted: Accepted = NOTHING) -> None:
        pass


def needed_for(statement: PrivacyStatement) -> Accepted | None:
    """What the person would have to accept for this experiment; None: no number helps."""
    if statement.own is not None:
        own = statement.own.epsilon
        return None if math.isinf(own) else Accepted(epsilon=_rounded_up(own, 100))
    return Accepted(auc=1.0 if statement.leak is None else _rounded_up(statement.leak.auc, 1000))


def _rounded_up(number: float, parts: int) -> float:
    """Towards what would be accepted: a limit rounded down would refuse again."""
    return math.ceil(parts * number) / parts


def default_policy(
    *,
    auc: float = MOST_AUC,
    epsilon: float = MOST_EPSILON,
    rounds: int = MOST_ROUNDS,
    floor: int = LEAST_FLOOR,
) -> ConsentPolicy:
    """What protects a person who has decided nothing."""
    return AllOf((MostRounds(rounds), LeastFloor(floor), MostLeakage(auc), MostEpsilon(epsilon)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a device may tell in its life, in all experiments together."""

    #: Under formal guarantees: the sum of ε, and of δ.
    epsilon: float = MOST_EPSILON
    delta: float = TOTAL_DELTA
    #: Without: the AUC that Σ d'² comes to.
    auc: float = MOST_AUC

    @property
    def d_squared(self) -> float:
        return allowance(self.auc)


def allowance(auc: float) -> float:
    """The largest d'² of an AUC; 1: any."""
    return math.inf if auc >= 1 else d_squared_of(auc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """All that a person has decided about what is told of them."""

    policy: ConsentPolicy = field(default_factory=default_policy)
    assumption: Assumption = field(default_factory=Assumption)
    budget: Budget = field(default_factory=Budget)

    @classmethod
    def unsafe_accept_anything(cls) -> Consent:
        """No limit at all. For made-up people."""
        return cls(policy=UnsafeAcceptAnything(), budget=Budget(epsilon=math.inf, delta=math.inf, auc=1.0))

    @property
    def unsafe(self) -> bool:
        return isinstance(self.policy, UnsafeAcceptAnything)

    def statement(self, document: ExperimentDocument, *, curve: bool = False) -> PrivacyStatement:
        """What this experiment tells about a person, by what this device counts on."""
        each = CAPSULE_BYTES + OVERHEAD_BYTES
        return state(terms_of(document), self.assumption, bytes_per_package=each, curve=curve)

    def check(self, document: ExperimentDocument, accepted: Accepted = NOTHING) -> None:
        """Return if this device agrees to the experiment; else raise ``ConsentRefusedError``."""
        if not self.unsafe:
            self.policy.check(self.statement(document), accepted)


def _how(option: str, what: str, needed: str) -> str:
    # Both settings: with the first alone the device would join, and its life's budget would refuse every round.
    return (
        f"Who wants to take part all the same joins with {option} {needed} (this experiment only), or puts"
        f" most_{what} = {needed} and a total_{what} of as much or more under [consent] in the settings."
    )
