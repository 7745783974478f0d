"""The leakage meter: what an experiment's public tallies have given away so far, and what all rounds were planned for.

Everything in it follows from public counts, so that anybody may hold it to the tallies. After each round: d'² and AUC
of somebody who knows a person's features and asks for the label (``privacy.experiment_leak``), as if the person had
sent in every one of the rounds.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from secvm.learning.aggregate.tally import Tally
from secvm.privacy.leakage.experiment_leak import PlannedLeak, measured_leak, planned_leak
from secvm.privacy.leakage.label_leakage import auc_of
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import terms_of


@dataclass
class LeakageMeter:
    """Fed with every round that is concluded, once, in order."""

    document: ExperimentDocument
    #: d'² of each tallied round; None where there is no law for the label.
    rounds: dict[int, float | None] = field(default_factory=dict)
    #: The same as text, made once.
    _pieces: dict[int, str] = field(default_factory=dict, repr=False)

    def watch(self, number: int, tally: Tally) -> None:
        """Take note of a tally."""
        self.rounds[number] = measured_leak(self.document.experiment, tally, hashes=terms_of(self.document).hashes)

    @cached_property
    def _planned(self) -> PlannedLeak | None:
        terms = terms_of(self.document)
        return planned_leak(terms.experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes)

    def content(self, *, told: int) -> dict[str, Any]:
        """For the public status: stable keys, null where there is no number. The ends of ``told`` rounds are public."""
        found: dict[str, Any] = json.loads(self.text(told=told))
        return found

    def text(self, *, told: int) -> str:
        """The same, as it stands in the status."""
        planned = self._planned
        rounds = {number: one for number, one in self.rounds.items() if number <= told and one is not None}
        so_far = None if planned is None else math.fsum(rounds.values())
        found: dict[str, Any] = {
            "formal_guarantee": False,
            "rounds_told": told,
            "planned_d_prime": None if planned is None else math.sqrt(planned.d_squared),
            "planned_auc": None if planned is None else planned.auc,
            "d_prime": None if so_far is None else math.sqrt(so_far),
            "auc": None if so_far is None else auc_of(so_far),
        }
        pieces = ",".join(self._piece(number, one) for number, one in rounds.items())
        return f'{as_text(found)[:-1]},"per_round":[{pieces}]}}'

    def _piece(self, number: int, leak: float) -> str:
        if number not in self._pieces:
            self._pieces[number] = as_text({"round": number, "d_prime": math.sqrt(leak), "auc": auc_of(leak)})
        return self._pieces[number]


def as_text(content: object) -> str:
    """JSON as the status is written in."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
