"""A specification with a guarantee: two relays of two operators, and the cover that keeps (ε, δ) over all rounds.

The plan is ``privacy.private_plan``'s, from public numbers alone. Rounds and swift's own numbers that nobody has given
are chosen there as well. Planning takes some seconds.
"""

from __future__ import annotations

from dataclasses import replace

from secvm.coordinator.experiments.learning_part import learning
from secvm.coordinator.experiments.specification import RelayPart, Specification
from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact
from secvm.privacy.planning.private_plan import AskedPrivately, PrivatePlan, plan_private
from secvm.privacy.planning.relay_times import paces_of
from secvm.privacy.statements.operators import Operators, relay_of
from secvm.protocol.documents.relay_terms import ROLES, RelayRole, RelayTimes

_STEPS = ("batch_s", "mix_s", "reveal_s", "open_s")
#: What ends every refusal that comes from a guarantee.
_OR_PLAIN = 'or privacy = "none", without a guarantee'


def private_plan(told: Specification) -> PrivatePlan | None:
    """The plan of a specification with a guarantee; None: it asks for none. It needs no coordinator.

    Raises
    ------
    BadExperimentError
        One sentence about what is missing, or what cannot be kept.
    """
    asked = told.privacy
    if asked is None:
        return None
    entry, mix = two_relays(told)
    if told.people is None:
        raise BadExperimentError(
            f"a guarantee is planned for a number of devices: give people, those expected in a round; {_OR_PLAIN}"
        )
    if told.features.per_participant is None:
        raise BadExperimentError(
            f"a guarantee needs a bound on a person's features: give features.per_participant, {_OR_PLAIN}"
        )
    if not told.features.presence:
        raise BadExperimentError(
            f"a guarantee needs features that count by presence: set features.presence = true, {_OR_PLAIN}"
        )
    made = plan_private(
        AskedPrivately(
            experiment=replace(learning(told), budget=None),
            target=asked,
            people=told.people,
            hashes=told.binning.hashes,
            train_share=exact(told.train_share),
            rounds=told.rounds,
            given=told.descent.given,
            paces=paces_of(entry=entry.seconds_per_million, mix=mix.seconds_per_million),
        )
    )
    if told.budget not in (None, made.plan.budget):
        raise BadExperimentError(
            f"a budget of {told.budget} was given, and with a guarantee it is {made.plan.budget}: leave budget out"
        )
    given = {name: getattr(told.windows, name) for name in _STEPS}
    times = replace(made.times, **{name: value for name, value in given.items() if value is not None})
    return replace(made, times=times)


def two_relays(told: Specification) -> tuple[RelayPart, RelayPart]:
    """The entry relay and the mixing relay. Raises ``BadExperimentError`` where a guarantee cannot rest on them."""
    by_role = {relay.role: relay for relay in told.relays}
    if len(told.relays) != len(ROLES) or set(by_role) != set(ROLES):
        named = ", ".join(relay.role or "no role" for relay in told.relays) or "none"
        raise BadExperimentError(
            f"a guarantee rests on two relays, and the specification has {named}: give [[relays]] with role ="
            f' "entry" and with role = "mix", of two operators, {_OR_PLAIN}'
        )
    entry, mix = by_role["entry"], by_role["mix"]
    operators = operators_of(told)
    if operators.same:
        raise BadExperimentError(
            f"{operators.why_no_guarantee(one_relay=False)}: name relays of two operators, {_OR_PLAIN}"
        )
    for name in ("url", "key"):
        if getattr(entry, name) == getattr(mix, name):
            raise BadExperimentError(f"both relays have the {name} {getattr(mix, name)}: each has one of its own")
    return entry, mix


def operators_of(told: Specification) -> Operators:
    """Who runs the two relays."""
    named = {relay.role: relay.operator for relay in told.relays}

    def operator(role: RelayRole) -> str:
        found = named.get(role)
        if found is None or not found.strip():
            raise BadExperimentError(f"{relay_of(role)} has no operator: give relays.operator, the name of who runs it")
        return found

    return Operators(entry=operator("entry"), mix=operator("mix"))


def relay_times(made: PrivatePlan) -> RelayTimes:
    """As a document tells them."""
    return RelayTimes(**{name: getattr(made.times, name) for name in _STEPS})
