"""Whether a tally fits the relay's count and the budget. It says nothing about truth within these bounds.

``violations`` takes what is public of one round: the experiment, its tally, and the relay's signed count of its slot.
Each rule is something that cannot happen where relay and coordinator are honest; empty means that all is possible.

**What one person sends** (``learning.individual.contribution``), B packages: one participation package; train cohort:
at most B - 1 train packages, in all models together; test cohort: one test package (none where the label is a number);
nulls for the rest. In a tally a train person is thus at most one participant and B - 1 units, a test person at most one
cell. In one model the units are those of y · x, thinned and cut: the bias once, with the sign of its label; and, where
features count by presence and F of them take part, hashed H times, at most F · H others, all of that sign. *At most*,
because packages get lost, each for itself: a person's units may arrive without its participation package. So nothing
here compares units with participants; an honest round with losses would break "units ≤ (B - 1) · participants".

With C clients and K capsules of the only relay, P participants, P_l of label l, E cells, U units:

 1. P reaches the floor, and a label that is a number has no cells: the coordinator abandons, and refuses, otherwise.
 2. The count is of the round's slot: the slot begins when the round's window opens.
 3. P + E + U ≤ K. Each counted package was in a capsule of its own; nulls and test participation only add to K.
 4. P + E ≤ C. Each stands for another person: nobody is both participant and cell, nor twice either.
 5. U ≤ (B - 1)(C - E). At least E people test, and do not train.
 6. In each model, units ≤ u · (C - E - P_out), with u = min(B - 1, F · H + 1) or B - 1, and P_out the participants of
    labels that take no part in it: E + P_out people are known to be others. The bias alone: u = 1.
 7. The same for units of one sign, P_out then being all participants who are not of that sign's labels: for the bias
    always, for all units where features count by presence. Not for numbers as labels: there anybody may have any sign.

From 4 and 5: P + E + U ≤ B · C. Other experiments of the slot only add to C and K: a person is one client, and takes
part in one round of an experiment once.

**What the rules rest on.** 1 to 3 hold whatever people send. 4 to 7 hold where each client is one person whose device
keeps to the protocol: a device that sends two participation packages breaks them too, and so do two people behind one
address, where the relay knows clients by address. Whoever would refuse a coordinator for these should know that
(``Violation.whatever_people_send``).

With several relays a manifest has the count of one. The others' people and capsules are unknown, and 3 to 7 say
nothing: only 1 and 2 are checked. Without a count, only 1; where one must be told, ``documents.manifest`` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RelayCount


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a tally breaks."""

    #: For programs.
    name: str
    #: For people: what is seen, not why.
    sentence: str
    #: Whether no participant could have brought it about: relay or coordinator has told something wrong.
    whatever_people_send: bool


def violations(
    document: ExperimentDocument, tally: Tally, count: RelayCount | None, *, opened_at: int | None = None
) -> list[Violation]:
    """Every rule that is broken, in the order of the module's list; empty: the counts fit.

    ``count`` is the one that the manifest or ending tells together with this tally; ``opened_at``: when the window of
    the tally's own round opened, None where its manifest is not known.
    """
    broken: list[Violation] = []
    participants, cells = _total(tally.participants), _total(tally.cells)

    # (1)
    if not document.reaches_floor(tally.participants.tolist()):
        broken.append(_surely("below-floor", f"{participants} took part and the floor is {document.floor}."))
    if document.experiment.loss.regression and cells:
        broken.append(_surely("cells-of-numbers", f"There are {cells} test cells, and the label is a number."))
    if count is None:
        return broken
    # (2)
    if opened_at is not None and count.opens_at != opened_at:
        sentence = (
            f"The relay's count is of the slot that began at {count.opens_at}, and the round opened at {opened_at}."
        )
        broken.append(_surely("another-slot", sentence))
    if len(document.relays) > 1:
        return broken
    # (3)
    units = _total(tally.plus) + _total(tally.minus)
    counted = participants + cells + units
    if counted > count.capsules:
        sentence = f"{counted} packages were counted, and the relay had {count.capsules} capsules."
        broken.append(_surely("more-packages-than-capsules", sentence))
    # (4)
    if participants + cells > count.clients:
        sentence = f"{participants} trained and {cells} tested, and the relay had {count.clients} clients."
        broken.append(Violation("more-people-than-clients", sentence, whatever_people_send=False))
    # (5)
    trainers = max(0, count.clients - cells)
    most = _own_units(document) * trainers
    if units > most:
        sentence = f"{units} train packages were counted, and {trainers} clients can have sent {most}."
        broken.append(Violation("more-units-than-budget", sentence, whatever_people_send=False))
    # (6), (7)
    return broken + _in_models(document, tally, trainers)


def _in_models(document: ExperimentDocument, tally: Tally, trainers: int) -> list[Violation]:
    """Rules 6 and 7; of each the first model that breaks it."""
    signs = document.experiment.models.signs
    participants = [int(value) for value in tally.participants]
    by_side = not document.experiment.loss.regression
    most = _units_in_a_model(document)
    broken: dict[str, Violation] = {}

    def check(name: str, model: int, units: int, of_each: int, out: int, what: str) -> None:
        people = max(0, trainers - out)
        can = of_each * people
        if units > can:
            sentence = f"Model {model} has {units} {what}, and {people} clients can have sent {can}."
            broken.setdefault(name, Violation(name, sentence, whatever_people_send=False))

    for model in range(signs.shape[1]):
        sides = {1: tally.plus[model], -1: tally.minus[model]}
        units = {sign: _total(side) for sign, side in sides.items()}
        bias = {sign: int(side[-1]) for sign, side in sides.items()}
        out = sum(n for n, sign in zip(participants, signs[:, model], strict=True) if sign == 0)
        check("more-units-in-a-model", model, sum(units.values()), most, out, "train packages")
        check("more-biases-in-a-model", model, sum(bias.values()), 1, out, "units of its bias")
        for side in (1, -1) if by_side else ():
            others = sum(n for n, sign in zip(participants, signs[:, model], strict=True) if sign != side)
            check("more-biases-of-a-sign", model, bias[side], 1, others, f"units of its bias with sign {side:+d}")
            if document.features.presence:
                check("more-units-of-a-sign", model, units[side], most, others, f"train packages of sign {side:+d}")
    return list(broken.values())


def _units_in_a_model(document: ExperimentDocument) -> int:
    """The most units that one person sends in one model."""
    features = document.experiment.features_per_person
    if features is None or not document.features.presence:
        return _own_units(document)
    hashes = document.binning.hashes
    return min(_own_units(document), features * hashes + 1)


def _own_units(document: ExperimentDocument) -> int:
    """The most units of its own that one person sends in a round."""
    own = document.experiment.train_budget
    assert own is not None
    return own


def _surely(name: str, sentence: str) -> Violation:
    return Violation(name, sentence, whatever_people_send=True)


def _total(counts: NDArray[np.int64]) -> int:
    """Exactly, however large: a sum that wraps around would fit anything."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
