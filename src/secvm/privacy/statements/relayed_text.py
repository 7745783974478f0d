"""A statement about an experiment with two relays as sentences, for the person who is to decide.

What somebody must know to decide comes first: the risk, who must be honest, what leaves. ``figures`` come after.
"""

from __future__ import annotations

import math

from secvm.privacy.accounting.guarantee import NO_PROTECTION, Guarantee
from secvm.privacy.accounting.reals import exp
from secvm.privacy.risk import in_words as risk_in_words
from secvm.privacy.risk import up
from secvm.privacy.sentences import Sentence, say
from secvm.privacy.statements.operators import Operators, relay_coalitions
from secvm.privacy.statements.plain import size
from secvm.privacy.statements.relayed import Caught, CellChances, RelayedStatement

#: An experiment without noise, in one paragraph: the paper's own system.
PLAIN = (
    "There is no formal guarantee: this experiment adds no noise. Tallies are public and stay so, and whoever knows a"
    " person's features can use them to guess the label. A coordinator that chooses the weights, by making tallies up,"
    " can tell every label for certain, however many take part."
)
#: The same of an experiment with two relays.
HOLDS = "a guarantee as long as {relay} is honest in each round, whatever all others do"


def words(statement: RelayedStatement) -> list[Sentence]:
    """One sentence or a few in each item, in the order in which they matter."""
    return [*plainly(statement), *size(statement.budget, statement.bytes_per_round), *figures(statement)]


def as_text(statement: RelayedStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def plainly(statement: RelayedStatement) -> list[Sentence]:
    """The risk, who must be honest, and who learns what although all is well."""
    operators, own = statement.terms.operators, statement.own
    return [
        risk_in_words(statement.risk, statement.terms.experiment),
        *(_without(statement) if own is None else rests_on(operators, own)),
        say("leaves.learnt", entry=operators.entry),
    ]


def figures(statement: RelayedStatement) -> list[Sentence]:
    """ε, δ, AUC and the chances of being seen, for those who know the words."""
    seen = [] if statement.caught is None else [_seen(statement.caught, statement)]
    guaranteed = [] if statement.own is None else _guaranteed(statement, statement.own)
    return [*guaranteed, *seen, *_leak(statement)]


def _without(statement: RelayedStatement) -> list[Sentence]:
    if statement.terms.experiment.cover is None:
        return [say("none.noise")]
    return [say("none.operators", why=statement.why_no_guarantee or "")]


def holds(operators: Operators) -> str:
    """On whom the guarantee rests, in half a sentence."""
    return HOLDS.format(relay=_relied_on(operators))


def rests_on(operators: Operators, guarantee: Guarantee) -> list[Sentence]:
    """Who must be honest, and everybody who is enough to break it."""
    if math.isinf(guarantee.epsilon):
        # Where nothing holds, there is nothing to break.
        return [say("none.faint")]
    (coalition,) = relay_coalitions(operators)
    return [say("honest", relay=_relied_on(operators)), say("break", who=coalition.parties)]


def _relied_on(operators: Operators) -> Sentence:
    if operators.of_coordinator:
        (kept,) = (role for role in ("entry", "mix") if role not in operators.of_coordinator)
        return say(f"relay.{kept}", **{kept: operators.relied_on[0]})
    return say("relay.either", entry=operators.entry, mix=operators.mix)


def _guaranteed(statement: RelayedStatement, own: Guarantee) -> list[Sentence]:
    if math.isinf(own.epsilon):
        return []
    epsilon, flip = up(own.epsilon, 100), own.epsilon_flip
    numbers = {"factor": up(exp(own.epsilon), 10), "one_in": math.floor(1 / own.delta), "epsilon": epsilon}
    sentences = [say("figures.auc", auc=up(statement.risk, 1000))]
    if statement.terms.rounds > 1:
        rounds, once = statement.terms.rounds, up(own.epsilon_round, 100)
        sentences.append(say("figures.epsilon", rounds=rounds, epsilon_round=once, **numbers))
    else:
        sentences.append(say("figures.epsilon.one", **numbers))
    if math.isinf(flip):
        sentences.append(say("figures.flip.none"))
    else:
        once = up(own.epsilon_flip_round, 100)
        sentences.append(say("figures.flip", epsilon=up(flip, 100), epsilon_round=once))
    if own.epsilon >= NO_PROTECTION:
        sentences.append(say("figures.weak", least=int(NO_PROTECTION)))
    if not statement.kept:
        claimed = str(statement.terms.claimed)
        worth = math.inf if statement.planned is None else statement.planned.epsilon
        none = math.isinf(worth)
        values = {"claimed": claimed} if none else {"claimed": claimed, "epsilon": up(worth, 100)}
        sentences.append(say("figures.broken.none" if none else "figures.broken", **values))
    return sentences


def _seen(caught: Caught, statement: RelayedStatement) -> Sentence:
    return say(
        "figures.seen",
        mix=statement.terms.operators.mix,
        people=statement.terms.expected,
        parts=int(1 / caught.false_cover),
        blindly=caught.blindly_99,
        mean=_cell(caught.mean_cell),
        fullest=_cell(caught.fullest_cell),
        canary=int(1 / caught.canary),
    )


def _cell(cell: CellChances) -> Sentence:
    packages = cell.people + cell.cover
    if cell.packages_90 is None:
        return say("cell.never", packages=packages, missed=1 - cell.at_most)
    if cell.packages_99 is None:
        return say("cell.likely", packages=packages, likely=cell.packages_90)
    return say("cell.both", packages=packages, likely=cell.packages_90, surely=cell.packages_99)


def _leak(statement: RelayedStatement) -> list[Sentence]:
    leak = statement.leak
    if leak is None:
        return [say("figures.no-law")]
    return [say("figures.without", floor=statement.terms.floor, one=leak.auc_round, all=leak.auc)]
