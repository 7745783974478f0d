"""Which relays do not answer this device: three refusals, then silence for the rest of the round's window.

Whoever blocks a relay by its name, or runs one that is dead, would else be asked hundreds of times in a window. A
refusal is that nobody answers at all; whatever an answer says, it ends the counting. After a refusal the next attempt
has a random moment in what is left of the window: a relay that is started anew meanwhile is not taken for dead, and
costs nobody a round. After the third the round is given up: the next round begins from zero.

Counts are in memory, for a process outlives a window. In a browser, whose workers do not, they are on the disk.
"""

from __future__ import annotations

from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.schedule import below

#: So often nobody may answer.
MOST_REFUSALS = 3


class Refusals:
    """The refusals of one experiment's relays."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        #: By URL, in which round and how often in a row.
        self._counts: dict[str, tuple[int, int]] = {}

    def heard(self, relay: Relay, manifest: RelayedManifest, *, answered: bool) -> None:
        """A relay has answered, or nobody has."""
        count = 0 if answered else self._count(relay, manifest) + 1
        self._counts[relay.url] = (manifest.round_number, count)

    def is_silent(self, relay: Relay, manifest: RelayedManifest) -> bool:
        """Whether nothing more is asked of this relay in the round."""
        return self._count(relay, manifest) >= MOST_REFUSALS

    def is_refused(self, relay: Relay, manifest: RelayedManifest) -> bool:
        """Whether nobody answered the last time that something was asked of it."""
        return self._count(relay, manifest) > 0

    def wait(self, manifest: RelayedManifest, now: int) -> int:
        """So long to wait for the next attempt, up to the end of the window."""
        return below(max(1, manifest.instants.closes_at - now), self._around.words)

    def _count(self, relay: Relay, manifest: RelayedManifest) -> int:
        number, count = self._counts.get(relay.url, (0, 0))
        return count if number == manifest.round_number else 0
