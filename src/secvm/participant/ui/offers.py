"""Experiments that ask to take part: fetched when the person asks for them, judged by what their device agrees to.

Nothing is fetched by itself: opening a page tells nobody anything. The list comes the way everything does, through a
relay and under the seal; each document is believed only as the digest that it was asked for by. What was found is kept
in memory, until the page ends.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from secvm.errors import BadInputError, RemoteProtocolError, SecVMError
from secvm.participant.consent.ledger import check_room
from secvm.participant.consent.policies import needed_for
from secvm.participant.person.decisions import Way, check_data, check_way
from secvm.participant.person.disclosure import chosen_relays
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.sources.browsers import HISTORIES
from secvm.participant.sources.registry import how_to_import
from secvm.participant.storage.books import NOTHING, Accepted
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.ui.view import VaultLook, about, contents
from secvm.privacy.sentences import Sentence, say
from secvm.protocol.documents.experiment import ExperimentDocument, HashedBins, read_published

#: So many are shown; a coordinator with more has a page of its own.
MOST_OFFERS = 30
_OPEN = ("running", "paused")


#: What a document means, for a page: ``short``, ``leaves`` and ``figures``.
Meaning = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Offer:
    """An experiment that could be joined."""

    document: ExperimentDocument
    envelope: bytes = field(repr=False)
    #: What it means to take part: computed once, because the page is drawn every few seconds.
    meaning: Meaning


class UnreckonedError(BadInputError):
    """Nobody can be told what it would mean to take part: numbers that make no sense, or that take for ever."""


Reckon = Callable[[ExperimentDocument], Awaitable[Meaning]]


class Offers:
    """What was found, by digest."""

    def __init__(self) -> None:
        self.known: dict[str, Offer] = {}
        #: Those that the person was invited to.
        self.invited: set[str] = set()
        #: Those that the person said no to, and wants to see again.
        self.again: set[str] = set()
        #: When it was last asked, and what was wrong then.
        self.asked_at: int | None = None
        self.problem: Sentence | None = None

    async def look(self, way: Way, *, now: int, reckon: Reckon, digest: str | None = None) -> int:
        """Ask for all experiments, or for the one of this digest; returns how many bytes went and came.

        ``reckon`` looks at a document before anybody is shown it, and raises where its numbers cannot be told.
        """
        self.asked_at, self.problem = now, None
        seen = 0

        async def fetch(path: str) -> bytes | None:
            nonlocal seen
            fetched = await way.transport.fetch(path)
            seen += OVERHEAD_BYTES + (0 if fetched is None else len(fetched.content))
            return None if fetched is None else fetched.content

        wanted = [digest] if digest is not None else []
        if digest is None:
            data = await fetch("/v1/experiments")
            try:
                wanted = [] if data is None else read_list(data)
            except RemoteProtocolError as fault:
                self.problem = say("found.no-list", why=str(fault))
            if data is None:
                self.problem = say("found.nobody" if way.transport.shut is None else "found.no-tor")
        for name in wanted[:MOST_OFFERS]:
            data = await fetch(f"/v1/experiment/{name}")
            try:
                if data is not None:
                    await self.put(name, data, reckon)
                    # Who names one wants to see it, also after a no.
                    self.again |= {name} if digest is not None else set()
                elif digest is not None:
                    self.problem = say("found.none")
            except RemoteProtocolError:
                self.problem = say("found.wrong")
            except UnreckonedError:
                self.problem = say("found.endless")
        return seen

    async def put(self, digest: str, envelope: bytes, reckon: Reckon) -> None:
        """One more; the oldest goes where there are too many."""
        document = read_published(envelope, digest=digest)
        self.known[digest] = Offer(document, envelope, await reckon(document))
        while len(self.known) > MOST_OFFERS:
            self.drop(next(iter(self.known)))

    async def put_invited(self, digest: str, envelope: bytes, reckon: Reckon) -> None:
        """One that the person was invited to."""
        self.invited.add(digest)
        try:
            await self.put(digest, envelope, reckon)
        except (RemoteProtocolError, UnreckonedError):
            self.problem = say("found.uncounted")

    async def put_again(self, digest: str, envelope: bytes, reckon: Reckon) -> None:
        """One that the device knows already: it was declined, and the person wants to see it again."""
        await self.put(digest, envelope, reckon)
        self.again.add(digest)

    def drop(self, digest: str) -> None:
        """The person has decided."""
        self.known.pop(digest, None)
        self.again.discard(digest)

    def offer(self, digest: str) -> Offer:
        """One of them."""
        if digest not in self.known:
            raise BadInputError("this experiment was not looked at yet")
        return self.known[digest]


def read_list(data: bytes) -> list[str]:
    """Digests of experiments that go on, of a coordinator's list. Its titles are not taken: documents are signed."""
    try:
        digests = [listed["digest"] for listed in json.loads(data)["experiments"] if listed["standing"] in _OPEN]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise RemoteProtocolError("it cannot be read") from None
    if not all(isinstance(listed, str) and is_digest(listed) for listed in digests):
        raise RemoteProtocolError("it names what is none")
    return list(dict.fromkeys(digests))


def is_digest(text: str) -> bool:
    """Whether this is an experiment's name."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the device says to an experiment."""

    refusal: str | None = None
    next_step: str | None = None
    #: What the person would have to accept, where that alone is in the way.
    accept: Accepted | None = None


def judge(offer: Offer, state: DeviceState, way: Way) -> Judgement:
    """Whether it could be joined as it is."""
    document, consent = offer.document, way.consent

    def refused(accepted: Accepted) -> SecVMError | None:
        try:
            consent.check(document, accepted)
            check_room(state, document, consent, accepted)
        except SecVMError as fault:
            return fault
        return None

    try:
        check_way(document, way)
        check_data(document, way)
        way.policy.check(document)
    except SecVMError as fault:
        return Judgement(_said(fault), fault.next_step)
    if not isinstance(document.binning, HashedBins):
        return Judgement("this experiment needs its list of words", "Join on the command line, with --vocabulary FILE.")
    refusal = refused(NOTHING)
    if refusal is None:
        return Judgement()
    needed = needed_for(consent.statement(document))
    helps = needed is not None and refused(needed) is None
    return Judgement(_said(refusal), refusal.next_step, needed if helps else None)


def _said(fault: SecVMError) -> str:
    """What was raised with it, which may be a ``Sentence``."""
    return fault.args[0] if fault.args and isinstance(fault.args[0], str) else str(fault)


def offer_view(
    offer: Offer, state: DeviceState, vault: VaultLook, way: Way, *, answered: Collection[str], invited: bool
) -> dict[str, Any]:
    """One offer, with its statement in plain words and what the device says to it."""
    document, judgement = offer.document, judge(offer, state, way)
    accept = judgement.accept
    return {
        **about(document),
        **offer.meaning,
        **({"short": [*offer.meaning["short"], chosen_relays(document).content()]} if invited else {}),
        "invited": invited,
        # A number of features of this source, and whether there is an answer: not which.
        "features_here": vault.sources.get(document.features.source, 0),
        "import_with": how_to_import(document.features.source),
        "profiles": list(vault.profiles) if document.features.source in HISTORIES else [],
        "answered": document.digest in answered,
        "refusal": None if judgement.refusal is None else contents([judgement.refusal])[0],
        "next_step": judgement.next_step,
        "accept": None if accept is None else {"auc": accept.auc, "epsilon": accept.epsilon},
    }


def offers_view(
    offers: Offers, state: DeviceState, vault: VaultLook, way: Way | None, *, answered: Collection[str]
) -> dict[str, Any]:
    """All that was found and is not decided; ``answered``: the questions that the person has answered."""
    decided = {
        record.digest
        for record in state.records()
        if record.status is not Status.DECLINED or record.digest not in offers.again
    }
    # All at once: somebody may be looking for more meanwhile.
    undecided = [item for digest, item in tuple(offers.known.items()) if digest not in decided]
    shown = [
        offer_view(item, state, vault, way, answered=answered, invited=item.document.digest in offers.invited)
        for item in undecided
        if way is not None
    ]
    # First what the person was invited to and the device agrees to, last what it refuses whatever its person says.
    shown.sort(
        key=lambda item: (
            not item["invited"],
            item["refusal"] is not None,
            item["accept"] is None,
            item["title"],
            item["digest"],
        )
    )
    return {
        "possible": way is not None,
        "asked_at": offers.asked_at,
        "problem": None if offers.problem is None else offers.problem.content(),
        "list": shown,
    }
