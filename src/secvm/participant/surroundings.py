"""What all experiments of a device share, and what its person has decided about trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError
from secvm.participant.consent import Consent
from secvm.participant.dice import RandomBytes
from secvm.participant.models import ModelShelf
from secvm.participant.shared_checks import SharedChecks
from secvm.participant.state import DeviceState
from secvm.participant.traffic import Traffic
from secvm.participant.transport import MOST_DOCUMENT_BYTES, OVERHEAD_BYTES, Fetched, Transport
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.recompute import Caps
from secvm.protocol.session_memory import Seal

#: A clock's ``now``.
Now = Callable[[], int]
#: A device holds a state in memory, and a few more of its size while it computes.
MOST_STATE_BYTES = 2**29
REFETCHES = 2
RECEIPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """What a device demands of a server, as its settings say ([trust])."""

    #: Keys of the only witnesses that count; None: those that the experiment names.
    witnesses: frozenset[VerifyKey] | None = None
    caps: Caps = field(default_factory=Caps)
    #: Fresh looks at the log in each window.
    refetches: int = REFETCHES
    #: Capsules of each round that are looked for under the received root.
    receipts: int = RECEIPTS
    #: Take part where nobody can tell whether all are told the same.
    without_log: bool = False
    #: Take salts from the development beacon; in test experiments only.
    unsafe_beacons: bool = False

    def check(self, document: ExperimentDocument) -> None:
        """Raise ``BadInputError`` where the person would not want to join this."""
        if document.state_bytes > MOST_STATE_BYTES:
            raise BadInputError("this experiment's model is larger than a device can hold")
        terms = document.log
        if terms is None:
            if not (document.test or self.without_log):
                raise BadInputError(
                    "this experiment has no log, so nobody can tell whether everybody is told the same",
                    next_step="To take part all the same, put without_log = true under [trust] in the settings.",
                )
            return
        known = {witness.key for witness in terms.witnesses}
        if self.witnesses is not None and len(known & self.witnesses) < terms.quorum:
            raise BadInputError(
                "too few of this experiment's witnesses are ones that this device knows",
                next_step="They are those under [trust] in the settings.",
            )


@dataclass(frozen=True, slots=True, repr=False)
class Surroundings:
    """What all experiments of a device share."""

    state: DeviceState
    transport: Transport
    shelf: ModelShelf
    checks: SharedChecks
    traffic: Traffic
    policy: TrustPolicy
    consent: Consent
    #: The system's dice, for times, orders and phases.
    words: Iterator[int]
    seal: Seal
    #: The same dice, for secrets.
    random_bytes: RandomBytes

    async def fetch(
        self, path: str, now: Now, *, most: int = MOST_DOCUMENT_BYTES, fresh: bool = False
    ) -> Fetched | None:
        """A public file, counted in the traffic of the day."""
        fetched = await self.transport.fetch(path, most=most, fresh=fresh)
        self.traffic.add(OVERHEAD_BYTES if fetched is None else len(fetched.content) + OVERHEAD_BYTES, now())
        return fetched
