"""What a device demands of a server before it joins an experiment, as its person has decided ([trust])."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError
from secvm.privacy.sentences import Sentence, say
from secvm.privacy.statements.operators import Operators
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.recomputation import Caps
from secvm.protocol.log.policy import LogPolicy, quorum_of

#: A device holds a state in memory, and a few more of its size while it computes.
MOST_STATE_BYTES = 2**29
REFETCHES = 2
MOST_UNSEEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedRelay:
    """A relay that this device's person lets packages take."""

    url: str
    #: None: the person has named the URL alone, and the experiment's key is taken.
    key: VerifyKey | None = None
    #: Who runs it, in the person's words; None: they have not said.
    operator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """What a device demands of a server, as its settings say ([trust])."""

    #: The only relays that packages take; None: those that the experiment names, which is for tests alone.
    relays: tuple[TrustedRelay, ...] | None = None
    #: Which log, and which witnesses are enough; None: as the experiment says.
    log_policy: LogPolicy | None = None
    caps: Caps = field(default_factory=Caps)
    #: Fresh looks at the log in each window.
    refetches: int = REFETCHES
    #: So many rounds in a row without one answered fresh look, and no further one is joined.
    most_unseen: int = MOST_UNSEEN
    #: Who runs the coordinators, in the person's words; None: they have not said.
    coordinator: str | None = None
    #: That one relay is enough, where the coordinator's operator runs the other.
    one_relay: bool = False
    #: Take part where nobody can tell whether all are told the same.
    without_log: bool = False
    #: Take salts from the development beacon; in test experiments only.
    unsafe_beacons: bool = False

    def check(self, document: ExperimentDocument) -> None:
        """Raise ``BadInputError`` where the person would not want to join this."""
        if document.state_bytes > MOST_STATE_BYTES:
            raise BadInputError("this experiment's model is larger than a device can hold")
        unknown = self.unknown_relay(document)
        if unknown is not None:
            raise BadInputError(
                unknown,
                next_step="Whoever runs both relay and coordinator knows who sends what. If the relay is run by others"
                " whom you trust, name it under [[trust.relays]] in the settings: operator, url and key.",
            )
        one_hand = self.one_hand(document)
        if one_hand is not None:
            raise BadInputError(
                one_hand,
                next_step="Two relays that one party runs hide nothing from it. Name both under [[trust.relays]], each"
                " with the operator, url and key that you had from its operator.",
            )
        terms = document.log
        if terms is None:
            if not (document.test or self.without_log):
                raise BadInputError(
                    "this experiment has no log, so nobody can tell whether everybody is told the same",
                    next_step="To take part anyway, put without_log = true under [trust] in the settings.",
                )
            return
        try:
            quorum_of(terms, self.log_policy)
        except BadInputError as fault:
            next_step = "Whom this device knows is told by witnesses under [trust] in the settings."
            raise BadInputError(str(fault), next_step=next_step) from None

    def unknown_relay(self, document: ExperimentDocument) -> str | None:
        """In a sentence, the first of the experiment's relays that the person has not named; None: there is none."""
        for relay in document.relays if self.relays is not None else ():
            known = self._known(relay.url)
            if known is None:
                return f"this experiment's packages go through the relay {relay.host}, which this device does not know"
            if known.key not in (None, relay.key):
                return (
                    f"this experiment names the relay {relay.host} with the key {relay.key.data.hex()[:16]}…, and this"
                    " device knows it by another"
                )
        return None

    def one_hand(self, document: ExperimentDocument) -> str | None:
        """In a sentence, why two relays may be in one hand; None: they are not, as far as anybody has said.

        By the operators that the person has named, and by those that the document names: each pair must differ.
        """
        if document.experiment.cover is None or (self.relays is None and document.test):
            return None
        both = (document.entry_relay, document.mix_relay)
        known = [self._known(relay.url) for relay in both]
        for relay, trusted in zip(both, known, strict=True):
            if trusted is None or trusted.key is None or trusted.operator is None:
                return f"this device's settings do not name operator and key of the relay {relay.host}"
        names = [
            tuple(trusted.operator for trusted in known if trusted is not None),
            tuple(relay.operator for relay in both),
        ]
        for pair in names:
            entry, mix = (name or "" for name in pair)
            coordinators = (self.coordinator or "", document.operator)
            why = Operators(entry=entry, mix=mix, coordinators=coordinators).why_no_guarantee(one_relay=self.one_relay)
            if why is not None:
                return why
        return None

    def relays_in_words(self, document: ExperimentDocument) -> Sentence:
        """Each relay of the experiment by its host, and by its operator where the person has named one."""
        named = []
        for relay in document.relays:
            known = self._known(relay.url)
            who = known.operator if known is not None else None
            named.append(
                say("unnamed", host=relay.host) if who is None else say("named", host=relay.host, operator=who)
            )
        return functools.reduce(lambda a, b: say("and", a=a, b=b), named)

    def _known(self, url: str) -> TrustedRelay | None:
        return next((known for known in self.relays or () if known.url == url), None)
