"""What a document's cover is worth: a relay refuses one that claims more than its noise gives (§26)."""

from __future__ import annotations

from secvm.privacy.accounting.guarantee import guarantee
from secvm.privacy.accounting.relay_cover import contribution_of, relay_mechanism
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins
from secvm.relay.batches.refusing import RelayRefusalError

#: Of an ε: documents are planned with the same accountant, on another machine.
_ROUNDING = 1e-9


def check_worth(document: ExperimentDocument) -> None:
    """Raise ``RelayRefusalError`` where ε of one honest relay's cover, over all rounds, is above the document's."""
    terms = document.privacy
    if not isinstance(terms, PrivacyTarget):
        raise RelayRefusalError("the experiment has no cover of two relays", why="refused")
    hashes = document.binning.hashes if isinstance(document.binning, HashedBins) else 1
    contribution = contribution_of(document.experiment, rounds=document.rounds, hashes=hashes)
    found = guarantee(relay_mechanism(contribution, document.relay_cover), float(terms.delta)).epsilon
    claimed = float(terms.epsilon)
    if not found <= claimed * (1 + _ROUNDING):
        raise RelayRefusalError(
            f"the cover gives ε = {found:.6g}, and the document says {claimed:.6g}: plan it with more noise",
            why="refused",
        )
