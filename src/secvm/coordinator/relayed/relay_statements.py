"""Papers: the counts and reveals of one round, as relays signed them and as this coordinator keeps them (§30, §31).

Of each kind one is kept: the first that its relay signed for this label. Whether it is also true is asked when the
round is opened, so that what is false stands in the opening for everybody to see. The entry relay's count is kept once
the mixing relay's is here, and only if that names it: an entry relay that signed two is believed in neither.

They are public, come to any node from anybody, and stay.
"""

from __future__ import annotations

import contextlib

from secvm.coordinator.relayed.relayed_history import KeptRound
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.rules import agreed_name
from secvm.errors import BadSignatureError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.relays.batches.counts import EntryCount, MixCount
from secvm.protocol.relays.cover.reveals import EntryReveal, MixReveal

#: By the names that openings and relays' doors have for them, in the order in which they come about.
KINDS: dict[str, type[EntryCount | MixCount | EntryReveal | MixReveal]] = {
    "entry_count": EntryCount,
    "mix_count": MixCount,
    "entry_reveal": EntryReveal,
    "mix_reveal": MixReveal,
}
#: The mixing relay's count says which count of the entry relay is taken.
_TAKEN_IN_ORDER = ("mix_count", "entry_count", "entry_reveal", "mix_reveal")


class Papers:
    """Those of one round."""

    def __init__(self, store: CoordinatorStore, document: ExperimentDocument, one: KeptRound) -> None:
        self._store = store
        self._document = document
        self._label = one.manifest.label

    def kept(self, name: str) -> bytes | None:
        """The statement of this name, in its envelope."""
        try:
            return self._store.blob(agreed_name(self._name(name)))
        except KeyError:
            return None

    def all(self) -> dict[str, bytes]:
        """Those that are here."""
        found = {name: self.kept(name) for name in KINDS}
        return {name: envelope for name, envelope in found.items() if envelope is not None}

    @property
    def missing(self) -> list[str]:
        """The names of the others."""
        there = self.all()
        return [name for name in KINDS if name not in there]

    @property
    def mix_count(self) -> MixCount | None:
        """The mixing relay's count."""
        envelope = self.kept("mix_count")
        return None if envelope is None else MixCount.enclosed(envelope)

    def offer(self, name: str, envelope: bytes) -> bool:
        """Keep a statement if it is the first of its kind. False: another one is kept, or this one cannot be yet.

        Raises
        ------
        MalformedMessageError, BadSignatureError
            It is no such statement of this round's relay.
        """
        kind = KINDS.get(name)
        if kind is None:
            raise MalformedMessageError(f"a round has {', '.join(KINDS)}, and nothing of another name")
        relay = self._document.entry_relay if kind in (EntryCount, EntryReveal) else self._document.mix_relay
        found = kind.read(envelope, relay.key)
        if found.label != self._label:
            raise MalformedMessageError(f"{kind.name} is of another label")
        if isinstance(found, EntryCount):
            mix_count = self.mix_count
            if mix_count is None or mix_count.entry_count != found.digest:
                return False
        return self._store.agree(self._name(name), envelope) == envelope

    def offer_all(self, told: dict[str, bytes]) -> None:
        """Offer what a relay shows. What is none is left aside: another relay may show a better one."""
        for name in _TAKEN_IN_ORDER:
            if name in told and self.kept(name) is None:
                with contextlib.suppress(MalformedMessageError, BadSignatureError):
                    self.offer(name, told[name])

    def _name(self, name: str) -> str:
        return f"relays {self._label.hex()} {name}"
