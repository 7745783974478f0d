"""A statement about an experiment with two relays in plain words, for the person who is to decide."""

from __future__ import annotations

import math

from secvm.privacy.accounting.guarantee import NO_PROTECTION, Guarantee
from secvm.privacy.risk import in_words as risk_in_words
from secvm.privacy.statements.operators import Operators, in_words, relay_coalitions, relay_of
from secvm.privacy.statements.relayed import Caught, CellChances, RelayedStatement

NO_GUARANTEE = (
    "There is no formal guarantee: {why}. Tallies are public and stay so: anybody, not only the coordinator, can use"
    " them to guess at you."
)
#: An experiment without noise, in one paragraph: the paper's own system.
PLAIN = (
    "There is no formal guarantee: this experiment adds no noise. Tallies are public and stay so, and whoever knows a"
    " person's features can use them to guess the label. A coordinator that chooses the weights, by making tallies up,"
    " can tell every label with an AUC of 1.00 (certainty), however many take part."
)
#: The same of an experiment with two relays.
HOLDS = "a guarantee as long as {relay} is honest in each round, whatever all others do"
#: One paragraph: everything that a guarantee rests on.
ASSUMPTIONS = (
    "This holds for whatever weights the coordinator sends, whoever the others are and however many, as long as your"
    " device runs its own code with real dice and {relay} is honest in each round: it mixes, adds its noise from good"
    " dice, and forgets. It protects what you send, not that you take part. What your device tells in other"
    " experiments adds to it, and so does what another device of yours tells."
)
_COLLUDE = "To break it, this is enough, and less is not: {all}"
#: What the parties learn although all is well.
_LEARNT = (
    "{entry}, the entry relay, learns that your address takes part in this experiment, and in which others over it; a"
    " relay over which your device fetches learns the address."
)


def words(statement: RelayedStatement) -> list[str]:
    """One sentence or a few in each item, in the order in which they matter."""
    operators, own = statement.terms.operators, statement.own
    if own is None:
        guarantee = [NO_GUARANTEE.format(why=statement.why_no_guarantee)]
    else:
        guarantee = [*_guaranteed(statement, own), *rests_on(operators, own)]
    seen = [] if statement.caught is None else [_seen(statement.caught, statement.terms.expected, operators)]
    return [*guarantee, *seen, _LEARNT.format(entry=operators.entry), *_leak(statement), *_cost(statement)]


def as_text(statement: RelayedStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def holds(operators: Operators) -> str:
    """On whom the guarantee rests, in half a sentence."""
    return HOLDS.format(relay=_relied_on(operators))


def rests_on(operators: Operators, guarantee: Guarantee) -> list[str]:
    """Who must be honest, and everybody who is enough to break it."""
    if math.isinf(guarantee.epsilon):
        # Where nothing holds, there is nothing to break.
        return []
    sufficient = relay_coalitions(operators)
    return [ASSUMPTIONS.format(relay=_relied_on(operators)), _COLLUDE.format(all=in_words(sufficient))]


def _relied_on(operators: Operators) -> str:
    if operators.of_coordinator:
        (kept,) = (role for role in ("entry", "mix") if role not in operators.of_coordinator)
        return f"{operators.relied_on[0]} ({relay_of(kept)}; the coordinator's operator runs the other)"
    return f"one of {operators.entry} ({relay_of('entry')}) and {operators.mix} ({relay_of('mix')})"


def _guaranteed(statement: RelayedStatement, own: Guarantee) -> list[str]:
    rounds = statement.terms.rounds
    if math.isinf(own.epsilon):
        return ["No guarantee: the noise of one relay is not enough, whatever the experiment says of itself."]
    every = f"all {rounds} rounds" if rounds > 1 else "its one round"
    sentences = [
        (
            f"Over {every}, whether your device sends anything of its own changes the chance of whatever comes out by a"
            f" factor of at most e^{own.epsilon:.2f} = {math.exp(own.epsilon):,.1f}, but for a chance of"
            f" {own.delta:.0e} (ε = {own.epsilon:.2f}; after one round ε = {own.epsilon_round:.2f}). With another label"
            f" in place of yours it is ε = {_number(own.epsilon_flip)} (one"
            f" round: {_number(own.epsilon_flip_round)}): that is what your device's budget is charged with."
        ),
        risk_in_words(statement.risk, statement.terms.experiment),
    ]
    if own.epsilon >= NO_PROTECTION:
        sentences.append(f"An ε of {NO_PROTECTION:g} or more is no protection, though it is a guarantee by name.")
    if not statement.kept:
        claimed = statement.terms.claimed
        epsilon = math.inf if statement.planned is None else statement.planned.epsilon
        sentences.append(
            f"The experiment claims {claimed}, and its noise does not keep that: it is ε = {_number(epsilon)} at that"
            " δ."
        )
    return sentences


def _seen(caught: Caught, people: int, operators: Operators) -> str:
    mean, fullest = _cell(caught.mean_cell), _cell(caught.fullest_cell)
    return (
        f"After each round everybody can count again what {operators.mix} (the mixing relay) handed on; the coordinator"
        f" cannot change one package unseen. In each round, with {people:,} devices: a relay that falsifies its noise"
        f" is seen with a chance of 1 in {1 / caught.false_cover} at least; whoever drops or replaces"
        f" {caught.blindly_99:,} capsules blindly before they are handed on, with 99 in 100; by content, in the mean"
        f" cell {mean}, and in the fullest {fullest}."
        f" An entry relay that drops one of your capsules is seen by you with a chance of 1 in {1 / caught.canary}, and"
        " surely if it drops all. Nobody can see whether the entry relay's clients are people, or whether they tell the"
        " truth."
    )


def _cell(cell: CellChances) -> str:
    whole = f"of its {cell.people + cell.cover:,} packages"
    if cell.packages_90 is None:
        return f"never with 9 in 10: all {whole} are missed with {100 * (1 - cell.at_most):.0f} %"
    likely = f"with 9 in 10 for {cell.packages_90:,} {whole}"
    if cell.packages_99 is None:
        return f"{likely}, and never with 99 in 100"
    return f"{likely}, with 99 in 100 for {cell.packages_99:,}"


def _leak(statement: RelayedStatement) -> list[str]:
    leak = statement.leak
    if leak is None:
        return ["For a label that is a number there is no law yet, so the risk without a guarantee has no number."]
    return [
        (
            f"Without its noise, somebody who knows your features and wants your label would, with"
            f" {statement.terms.floor:,} people who train, reach an AUC of about {leak.auc_round:.2f} in one round and"
            f" {leak.auc:.2f} in all; whoever chooses the weights, or knows the others, does better."
        )
    ]


def _cost(statement: RelayedStatement) -> list[str]:
    if statement.budget is None:
        return []
    size = f", {statement.bytes_per_round:,} bytes" if statement.bytes_per_round else ""
    return [f"Your device sends exactly {statement.budget:,} packages in every round{size}, in one request."]


def _number(epsilon: float) -> str:
    return f"{epsilon:.2f}" if math.isfinite(epsilon) else "∞"
