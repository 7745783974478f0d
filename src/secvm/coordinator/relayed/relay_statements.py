"""Counts and reveals that relays sign: how relays are asked for them, and which are kept (docs/protocol.md §27, §30).

    POST R/commitment        {"experiment": D, "round": T}, with the token that both know each other by
    GET  R/counts/LABEL      what is signed so far, open to everybody

A relay that does not answer, or answers wrongly, is asked again later. Answers are bounded in size and time, and
nothing of them is believed before its signature is checked.

Of each kind of statement one is kept: the first that its relay signed for this label. Whether it is also true is
checked when the round is opened, so that a false one stands in the opening for everybody to see. The entry relay's
count is kept once the mixing relay's is here, and only if that one names it: an entry relay that signed two is believed
in neither. Statements are public, come to any node from anybody, and stay.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from secvm.coordinator.relayed.relayed_history import RelayedRound
from secvm.coordinator.store.port import CoordinatorStore, find_blob
from secvm.coordinator.store.rules import agreed_name
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadSignatureError, MalformedMessageError, UnreachableError
from secvm.protocol.canonical import encode_document
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.relays.commitments import EntryCommitment, MixCommitment
from secvm.protocol.relays.counts import MAX_SHOWN_BYTES, EntryCount, EntryReveal, MixCount, MixReveal, read_shown
from secvm.protocol.relays.statements import ENVELOPE_BYTES
from secvm.runtime.clock import Clock, SteadyClock
from secvm.runtime.http.client import HttpAnswer, ask_once

#: For one answer, all of it.
ANSWER_S = 10.0
_OK, _SERVER_FAULT = 200, 500
#: While a relay is needed and does not answer it is asked every few seconds.
_RECENT_MS = 180_000


class RelayClient:
    """Relays over HTTP. ``tokens``: by URL, as experiments write it. ``steady``: a clock that nobody sets."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        ask: Callable[..., Awaitable[HttpAnswer]] = ask_once,
        steady: Clock | None = None,
    ) -> None:
        self._ask = ask
        self._tokens = {url.rstrip("/"): token for url, token in tokens.items()}
        self._steady = SteadyClock() if steady is None else steady
        #: When each was asked last, and whether it answered.
        self._heard: dict[str, tuple[int, bool]] = {}

    def __repr__(self) -> str:
        return f"AskedRelays({len(self._tokens)} with tokens)"

    def answers(self, url: str) -> bool | None:
        """Whether a relay answered when it was asked last; None where nobody has asked it for a while."""
        asked_at, answered = self._heard.get(url.rstrip("/"), (0, False))
        is_recent = bool(asked_at) and self._steady.now() - asked_at < _RECENT_MS
        return answered if answered or is_recent else None

    async def commitment(self, relay: Relay, experiment: str, number: int) -> bytes | None:
        """What a relay answers to the request for its commitment; None: nothing."""
        token = self._tokens.get(relay.url.rstrip("/"))
        if token is None:
            return None
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        body = encode_document({"experiment": experiment, "round": number})
        return await self._answer(relay, "commitment", MixCommitment.longest + ENVELOPE_BYTES, headers, body)

    async def shown(self, relay: Relay, label: bytes) -> dict[str, bytes]:
        """Counts and reveals that a relay shows, by name; none where it does not answer."""
        answer = await self._answer(relay, f"counts/{label.hex()}", MAX_SHOWN_BYTES)
        try:
            return {} if answer is None else read_shown(answer)
        except MalformedMessageError:
            return {}

    async def _answer(
        self,
        relay: Relay,
        path: str,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes | None:
        door = relay.url.rstrip("/")
        method = "GET" if body is None else "POST"
        try:
            answer = await self._ask(
                f"{door}/{path}", answer_s=ANSWER_S, most=most, method=method, headers=headers, body=body
            )
        except UnreachableError:
            self._heard[door] = self._steady.now(), False
            return None
        # A proxy may stand before a relay that is gone.
        self._heard[door] = self._steady.now(), answer.status < _SERVER_FAULT
        return answer.content if answer.status == _OK and len(answer.content) <= most else None


async def ask_commitments(relays: RelayClient, document: ExperimentDocument, number: int) -> dict[str, bytes | str]:
    """By role, each relay's commitment in its envelope; or, in its place, a word for why there is none."""
    asked = {"entry": document.entry_relay, "mix": document.mix_relay}
    answers = await asyncio.gather(*(relays.commitment(known, document.digest, number) for known in asked.values()))
    return {
        role: _commitment(role, relay.key, answer, (document.digest, number))
        for (role, relay), answer in zip(asked.items(), answers, strict=True)
    }


def _commitment(role: str, key: VerifyKey, answer: bytes | None, wanted: tuple[str, int]) -> bytes | str:
    if answer is None:
        return f"{role}-relay-silent"
    kind: type[EntryCommitment | MixCommitment] = EntryCommitment if role == "entry" else MixCommitment
    try:
        commitment = kind.read(answer, key)
    except (MalformedMessageError, BadSignatureError):
        return f"{role}-commitment-refused"
    return answer if (commitment.experiment, commitment.round_number) == wanted else f"{role}-commitment-refused"


#: By the names that openings and relays' doors have for them, in the order in which they come about.
KINDS: dict[str, type[EntryCount | MixCount | EntryReveal | MixReveal]] = {
    "entry_count": EntryCount,
    "mix_count": MixCount,
    "entry_reveal": EntryReveal,
    "mix_reveal": MixReveal,
}
#: The mixing relay's count says which count of the entry relay is taken.
_TAKEN_IN_ORDER = ("mix_count", "entry_count", "entry_reveal", "mix_reveal")


class RelayStatements:
    """Those of one round."""

    def __init__(self, store: CoordinatorStore, document: ExperimentDocument, known: RelayedRound) -> None:
        self._store = store
        self._document = document
        self._label = known.manifest.label

    def kept(self, name: str) -> bytes | None:
        """The statement of this name, in its envelope."""
        return find_blob(self._store, agreed_name(self._name(name)))

    def all(self) -> dict[str, bytes]:
        """Those that are here."""
        kept = {name: self.kept(name) for name in KINDS}
        return {name: envelope for name, envelope in kept.items() if envelope is not None}

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
        statement = kind.read(envelope, relay.key)
        if statement.label != self._label:
            raise MalformedMessageError(f"{kind.title} is of another label")
        if isinstance(statement, EntryCount):
            mix_count = self.mix_count
            if mix_count is None or mix_count.entry_count != statement.digest:
                return False
        return self._store.agree(self._name(name), envelope) == envelope

    def offer_all(self, shown: dict[str, bytes]) -> None:
        """Offer what a relay shows. What is none is left aside: another relay may show a better one."""
        for name in _TAKEN_IN_ORDER:
            if name in shown and self.kept(name) is None:
                with contextlib.suppress(MalformedMessageError, BadSignatureError):
                    self.offer(name, shown[name])

    def _name(self, name: str) -> str:
        return f"relays {self._label.hex()} {name}"
