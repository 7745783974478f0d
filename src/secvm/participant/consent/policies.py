"""What a device agrees to: limits that are held to a privacy statement, which refuse in one sentence, or do not.

``Consent`` is all that a person decides about this: the limits of one experiment, who runs what as far as they know,
the chance that a guarantee may leave aside, and how much may be told in all experiments together (``ledger``). For one
experiment they may accept more than their device does by itself (``Accepted``). Nothing here looks at a person's data,
so a refusal tells nothing of it: only public documents count, and what the person has decided. An experiment's own
claim of ε is never believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from secvm.crypto.sealing.layers import OUTER_BYTES
from secvm.errors import ConsentRefusedError
from secvm.participant.sending.sealing import capsule_bytes
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.storage.books import NOTHING, Accepted
from secvm.privacy.accounting.guarantee import delta_at
from secvm.privacy.leakage import d_squared_of
from secvm.privacy.risk import times_in_ten, up
from secvm.privacy.sentences import say
from secvm.privacy.statements.plain import PrivacyStatement, state
from secvm.privacy.statements.relayed import RelayedStatement, state_relayed
from secvm.privacy.target import USUAL
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of

#: What a policy looks at.
Statement = PrivacyStatement | RelayedStatement

#: The AUC above which a device refuses an experiment without a guarantee, and the ε. 0.5 refuses all of them: the law
#: that gives an experiment its AUC is one of honest weights, and bounds no coordinator that chooses them. By the one
#: risk (``privacy.risk``) they are 10 times in 10, and ε = 4 with a guarantee is less than 8.
MOST_AUC, MOST_EPSILON = 0.5, 4.0
#: A guarantee was made for a number of rounds; nobody plans with more.
MOST_ROUNDS = 1000
#: The AUC of everything that a device ever tells without a guarantee, where its person lets it join such experiments.
TOTAL_AUC = 0.55
#: Of a δ: documents are planned with the same accountant, on another machine.
_ROUNDING = 1e-9
#: δ of one experiment's guarantee.
DELTA = float(USUAL.delta)
#: δ of everything that a device ever tells under a guarantee; each experiment has ``Consent.delta`` of it.
TOTAL_DELTA = 1e-5


def needed_for(statement: Statement) -> Accepted | None:
    """What the person would have to accept for this experiment; None: no number helps."""
    if isinstance(statement, RelayedStatement) and statement.own is not None:
        own = statement.own.charged
        return None if math.isinf(own) else Accepted(epsilon=up(own, 100))
    return Accepted(auc=1.0 if statement.leak is None else up(statement.leak.auc, 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a device may tell in its life, in all experiments together."""

    #: Under formal guarantees: the sum of ε, each that of another label (``ledger``), and of δ.
    epsilon: float = MOST_EPSILON
    delta: float = TOTAL_DELTA
    #: Without: the AUC that Σ d'² comes to.
    auc: float = TOTAL_AUC

    @property
    def d_squared(self) -> float:
        return allowance(self.auc)


def allowance(auc: float) -> float:
    """The largest d'² of an AUC; 1: any."""
    return math.inf if auc >= 1 else d_squared_of(auc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """All that a person has decided about what is told of them."""

    #: Without a formal guarantee: the largest AUC of whoever reads the tallies. 0.5 refuses every such experiment.
    most_auc: float = MOST_AUC
    #: With one: the largest ε over all rounds.
    most_epsilon: float = MOST_EPSILON
    most_rounds: int = MOST_ROUNDS
    #: Agrees to everything, whatever it tells. For made-up people in tests and demos.
    unsafe: bool = False
    #: The chance that each experiment's guarantee may leave aside.
    delta: float = DELTA
    budget: Budget = field(default_factory=Budget)
    #: Who runs the coordinators; None: the person has not said.
    coordinator: str | None = None
    #: That one relay is enough, where the coordinator's operator runs the other.
    one_relay: bool = False

    @classmethod
    def unsafe_accept_anything(cls) -> Consent:
        """No limit at all. For made-up people."""
        return cls(unsafe=True, budget=Budget(epsilon=math.inf, delta=math.inf, auc=1.0))

    def statement(self, document: ExperimentDocument) -> Statement:
        """What this experiment tells about a person."""
        if document.experiment.cover is not None:
            return self.relayed_statement(document)
        each = capsule_bytes(document.kem) + OVERHEAD_BYTES
        return state(terms_of(document), bytes_per_package=each)

    def relayed_statement(self, document: ExperimentDocument) -> RelayedStatement:
        """The same about an experiment with two relays."""
        terms = relayed_terms_of(document, coordinator=self.coordinator)
        return state_relayed(terms, delta=self.delta, one_relay=self.one_relay, bytes_per_package=OUTER_BYTES)

    def check(self, document: ExperimentDocument, accepted: Accepted = NOTHING) -> None:
        """Return if this device agrees to the experiment; else raise ``ConsentRefusedError``."""
        if self.unsafe:
            return
        statement = self.statement(document)
        if isinstance(statement, RelayedStatement):
            check_kept(statement)
        self.weigh(statement, accepted)

    def weigh(self, statement: Statement, accepted: Accepted = NOTHING) -> None:
        """Return if this device agrees to what is told; or raise ``ConsentRefusedError`` with one sentence and what the
        person can do.
        """
        _against_rounds(self, statement)
        _against_leakage(self, statement, accepted)
        _against_epsilon(self, statement, accepted)


def _against_rounds(consent: Consent, statement: Statement) -> None:
    """A guarantee was made for a number of rounds, and nobody plans with more."""
    if statement.terms.rounds > consent.most_rounds:
        raise ConsentRefusedError(
            say("refused.rounds", rounds=statement.terms.rounds, most=consent.most_rounds),
            next_step="The limit is most_rounds under [consent] in the settings.",
        )


def _against_leakage(consent: Consent, statement: Statement, accepted: Accepted) -> None:
    """Without a formal guarantee: the AUC with which whoever knows a person's features and reads an honest run's
    tallies may tell the label.
    """
    limit = max(consent.most_auc, accepted.auc or 0.0)
    if (isinstance(statement, RelayedStatement) and statement.formal) or limit >= 1:
        return
    if statement.leak is None:
        raise ConsentRefusedError(
            say("refused.no-law"),
            next_step=_how("--accept-leakage", "auc", "1"),
        )
    if statement.leak.auc <= limit:
        return
    needed = up(statement.leak.auc, 1000)
    raise ConsentRefusedError(
        say("refused.leak", auc=needed, most=limit),
        next_step=_how("--accept-leakage", "auc", f"{needed:.3f}"),
    )


def _against_epsilon(consent: Consent, statement: Statement, accepted: Accepted) -> None:
    """With a formal guarantee: ε over all rounds."""
    if not isinstance(statement, RelayedStatement):
        return
    own, limit = statement.own, max(consent.most_epsilon, accepted.epsilon or 0.0)
    if own is None or own.epsilon <= limit:
        return
    deltas, times = _deltas(own.delta, float(statement.terms.claimed.delta)), times_in_ten(statement.risk)
    if math.isinf(own.epsilon):
        raise ConsentRefusedError(
            say("refused.faint.delta", **deltas) if deltas else say("refused.faint"),
            next_step=f"Its operator has to plan it with {f'delta = {own.delta:.0e}' if deltas else 'more noise'};"
            " nothing on this device helps.",
        )
    needed = up(own.epsilon, 100)
    raise ConsentRefusedError(
        say(f"refused.epsilon{'.delta' * bool(deltas)}", times=times, epsilon=needed, most=limit, **deltas),
        next_step=_how("--accept-epsilon", "epsilon", f"{needed:.2f}", total=f"{up(own.charged, 100):.2f}"),
    )


def _deltas(own: float, planned: float) -> dict[str, str]:
    """The δ of an ε, where the experiment's own is larger: with a smaller one it might have been agreed to."""
    return {} if planned <= own else {"own": f"{own:.0e}", "planned": f"{planned:.0e}"}


def check_kept(statement: RelayedStatement) -> None:
    """Raise ``ConsentRefusedError`` where relays' cover is no guarantee, or is worth less than the document says."""
    if statement.why_no_guarantee is not None or statement.planned is None:
        raise ConsentRefusedError(
            say("refused.none", why=statement.why_no_guarantee or ""),
            next_step="Who runs what is under [trust] in the settings.",
        )
    claimed, mechanism = statement.terms.claimed, statement.terms.mechanism
    epsilon, delta = float(claimed.epsilon), float(claimed.delta)
    # δ at the claimed ε decides: a search for the smallest ε may step over the one that was planned.
    if mechanism is None or delta_at(mechanism, epsilon) > delta * (1 + _ROUNDING):
        raise ConsentRefusedError(
            say("refused.claim", claimed=str(claimed), epsilon=up(statement.planned.epsilon, 100)),
            next_step="Its operator has to plan it with more noise; nothing on this device helps.",
        )


def _how(option: str, what: str, needed: str, *, total: str | None = None) -> str:
    # Both settings: with the first alone the device would join, and its life's budget would refuse every round.
    return (
        f"To take part anyway, join with {option} {needed} (this experiment only), or set most_{what} = {needed} and a"
        f" total_{what} of {total or needed} or more under [consent] in the settings."
    )
