"""A privacy statement in plain words, for the person who is to decide."""

from __future__ import annotations

import math

from secvm.privacy.statement import NO_PROTECTION, Guarantee, PrivacyStatement

#: An AUC that is no limit any more.
_CERTAIN = 0.9995
NO_GUARANTEE = (
    "There is no formal guarantee: {why}. Tallies are public and stay so: anybody, not only the coordinator, can use"
    " them to guess at you."
)
#: One paragraph: everything that a guarantee rests on.
ASSUMPTIONS = (
    "This holds for whatever weights the coordinator sends, and whoever the others are, as long as: your device runs"
    " its own code with real dice; the relay shuffles each round's packages as a whole, delivers everybody's, and does"
    " not tell the coordinator which came from whom; and {honest:,} devices, yours among them, or more, add their share"
    " of the noise in every round and deliver it. No device can see whether that last one is so: it is an assumption."
    " What your device tells in other experiments adds to it, and so does what another device of yours tells."
)
COLLUDE = (
    "To break it, the coordinator and the relay would have to work together (then they know who sent what), or so many"
    " of the participants be somebody's that fewer than {honest:,} honest ones remain."
)
COLLUDE_PLAIN = (
    "To find out your label nobody has to work together with anybody: the public tallies are enough. To learn which"
    " packages are yours, the coordinator and the relay would have to."
)


def words(statement: PrivacyStatement) -> list[str]:
    """One sentence or a few in each item, in the order in which they matter."""
    if statement.own is None:
        return [
            NO_GUARANTEE.format(why=statement.why_no_guarantee),
            *_leak(statement),
            COLLUDE_PLAIN,
            *_cost(statement),
        ]
    # Where nothing holds, there is nothing to break.
    rests = () if math.isinf(statement.own.epsilon) else (ASSUMPTIONS, COLLUDE)
    return [
        *_guaranteed(statement, statement.own),
        *(sentence.format(honest=statement.own.honest) for sentence in rests),
        *_leak(statement),
        *_cost(statement),
    ]


def as_text(statement: PrivacyStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def _guaranteed(statement: PrivacyStatement, own: Guarantee) -> list[str]:
    rounds, planned = statement.terms.rounds, statement.planned
    if math.isinf(own.epsilon):
        return [
            (
                f"No guarantee under what your device counts on ({own.honest:,} honest devices): the noise of so few is"
                f" not enough, whatever the experiment promises{_promised(planned)}. Take it for no protection."
            )
        ]
    told = [
        (
            f"Over {_all(rounds)}, whether your device sends anything of its own changes the chance of whatever"
            f" comes out by a factor of at most e^{own.epsilon:.2f} = {math.exp(own.epsilon):,.1f}, but for a chance of"
            f" {own.delta:.0e} (ε = {own.epsilon:.2f}; after one round ε = {own.epsilon_round:.2f}). With the other"
            f" label in place of yours it is ε = {_number(own.epsilon_flip)}"
            f" (one round: {_number(own.epsilon_flip_round)})."
        ),
        _auc(own.auc if own.auc_curve is None else own.auc_curve),
    ]
    if own.epsilon >= NO_PROTECTION:
        told.append(f"An ε of {NO_PROTECTION:g} or more is no protection, though it is a guarantee by name.")
    if planned is not None and planned.honest != own.honest:
        told.append(
            f"These numbers are for the {own.honest:,} honest devices that your device counts on; the experiment was"
            f" planned for {planned.honest:,}{_promised(planned)}."
        )
    return told


def _auc(most: float) -> str:
    if most >= _CERTAIN:
        return (
            "That leaves room for somebody who knows enough of you and the others to be all but certain of your label."
        )
    return (
        f"So nobody, whatever they know of you and the others, tells your label with an AUC above {most:.3f} (0.5 is a"
        " coin, 1 is certainty)."
    )


def _promised(planned: Guarantee | None) -> str:
    if planned is None:
        return ""
    return f", with which it would be ε = {_number(planned.epsilon)} at δ = {planned.delta:.0e}"


def _leak(statement: PrivacyStatement) -> list[str]:
    leak = statement.leak
    if leak is None:
        return ["For a label that is a number there is no law yet, so the risk without a guarantee has no number."]
    without = "Without its noise, s" if statement.own is not None else "S"
    every = _all(statement.terms.rounds)
    corrected = "" if leak.auc_corrected is None else f" ({leak.auc_corrected:.2f} with all corrections)"
    return [
        (
            f"The fewer train, the more that tells. A round counts only if {statement.terms.floor:,} or more train."
            f" {without}omebody who knows your features and wants your label would, with just so many, reach an AUC of"
            f" about {leak.auc_round:.2f} in one round, and {leak.auc:.2f} in {every}{corrected};"
            " 0.50 is a coin, 1.00 is certainty. Whoever chooses the weights, or knows the others, does better."
        )
    ]


def _cost(statement: PrivacyStatement) -> list[str]:
    if statement.budget is None:
        return []
    cover = f", {statement.cover_mean:.0f} of them noise on average" if statement.own is not None else ""
    size = f", {statement.bytes_per_round:,} bytes" if statement.bytes_per_round else ""
    return [f"Your device sends exactly {statement.budget:,} packages in every round{cover}{size}."]


def _all(rounds: int) -> str:
    return f"all {rounds} rounds" if rounds > 1 else "its one round"


def _number(epsilon: float) -> str:
    return f"{epsilon:.2f}" if math.isfinite(epsilon) else "∞"
