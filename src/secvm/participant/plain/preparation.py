"""A plain round's packages: computed once the person agrees and the weights are there.

The round is in the ledger before anything of it exists.
"""

from __future__ import annotations

from secvm.crypto.sealing.kem import public_key_bytes
from secvm.errors import ConsentRefusedError, SecVMError
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Distrust, Preparation
from secvm.participant.plain.rounds import Rounds
from secvm.participant.plain.turns import PlainTurns
from secvm.participant.sending.sealing import bytes_of_a_round
from secvm.participant.trust.polling import opens_in_hours
from secvm.participant.trust.surroundings import Now, Surroundings, Traffic
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session import Phase
from secvm.protocol.plain.session_events import Declined, Distrusted, PackagesReady
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.schedule import below

#: Weights that could not be had are asked for again within this time, doubled each time.
_FIRST_PATIENCE_MS = 2000
_LONGEST_PATIENCE_MS = 60_000


class PlainPreparation(Preparation):
    """Prepares the packages of one person in one plain experiment."""

    def __init__(
        self,
        around: Surroundings,
        document: ExperimentDocument,
        distrust: Distrust,
        turns: PlainTurns,
        rounds: Rounds,
        *,
        person: Individual,
        dice: Dice,
    ) -> None:
        super().__init__(around, document, distrust, person=person, dice=dice)
        self._turns, self._rounds = turns, rounds
        self._patience = _FIRST_PATIENCE_MS

    def plan(self, now: int) -> None:
        self.at = now
        self._patience = _FIRST_PATIENCE_MS

    async def prepare(self, now: Now) -> bool:
        turns, around, document = self._turns, self._around, self._document
        accepted = turns.session.accepted
        self.at = NEVER
        if accepted is None or turns.session.phase is not Phase.COMPUTING:
            return False
        manifest = accepted.manifest
        if self._distrust.why is not None:
            turns.tell(Distrusted(self._distrust.why), now())
            return False
        try:
            agree(around, document, manifest, now)
            weights = await self._rounds.weights(manifest, now)
            why = None if weights is None else next(filter(None, map(around.policy.caps.refuses, weights)), None)
            session = turns.session
            if turns.left or session.accepted is not accepted or session.phase is not Phase.COMPUTING:
                return False
            if why is not None:
                raise ConsentRefusedError(why)
            if weights is None:
                self.at = now() + below(self._patience, around.words)
                self._patience = min(2 * self._patience, _LONGEST_PATIENCE_MS)
                return False
            training, evaluation = weights
            packages = self._contribute(manifest.round_number, training, evaluation)
            self._keep_model(turns, manifest)
            turns.tell(PackagesReady(tuple(packages)), now())
        except SecVMError as fault:
            # Weights that are none, a gateway key that is none: nothing of the person is in these sentences.
            if turns.session.phase is Phase.COMPUTING:
                turns.tell(Declined(str(fault)), now())
            return False
        return True


def agree(around: Surroundings, document: ExperimentDocument, manifest: RoundManifest, now: Now) -> None:
    """Return if this device may take part in the round, as far as can be said before it is entered in the ledger.

    Raises
    ------
    ConsentRefusedError
        Why not, in one sentence.
    """
    why = (
        # Asked again, because the settings may be others than when the person joined.
        around.policy.unknown_relay(document) or why_not(document, manifest, around.traffic, now())
    )
    if why is not None:
        raise ConsentRefusedError(why)
    around.consent.check(document, around.state.ledger.accepted(document.digest))


def why_not(document: ExperimentDocument, manifest: RoundManifest, traffic: Traffic, now: int) -> str | None:
    """In one sentence; None: it takes part."""
    if public_key_bytes(document.kem) is None:
        return (
            f"the experiment's gateway has keys of KEM {document.kem:#06x}, which the cryptography package of this"
            " machine lacks; a newer one has it"
        )
    if not opens_in_hours(document.windows, manifest.opens_at):
        return "the window opens outside the experiment's hours of the day"
    if not traffic.allows(bytes_of_a_round(document), now):
        return "this round would go beyond the device's limit of traffic for a day"
    return None
