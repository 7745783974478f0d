"""The one door of a device: every byte that it sends to anybody leaves through this module, and none by another way.

No other module of the participant opens a connection (``tests/contract/test_one_door.py`` holds it to that). Both ways
out, through relays and the unsafe direct one, send these requests and no others:

================= ======================================= =====================================================
method            goes to                                 carries
================= ======================================= =====================================================
``send``          a relay that the experiment names       one sealed package of a plain experiment
``submit``        the entry relay of two                  all sealed packages of a round, with its token if any
``ask_token``     the entry relay of two                  one blinded element
``relayed_terms`` one of two relays                       nothing: a GET
``fetch``         a relay of the settings                 a GET for the gateway's key, then one sealed path
================= ======================================= =====================================================

Beside these bodies a relay of the settings is told the device's credential, where it has one. Before a connection the
operating system looks up the relay's name: whoever answers that learns to which relay the device goes, and when. Over
Tor nothing is looked up here.
What is sealed is decided in ``plain.membership`` and ``relayed.membership``, before it comes here; nothing here knows
what is inside.

Through a relay (docs/protocol.md §19.6) a package is one POST of sealed bytes, and a fetch is one too: the relay learns
who asks, the gateway what is asked for. Rules of the way:

 1. A request carries what HTTP cannot do without, and the media type: no cookies, no user agent, no languages.
 2. No redirect is followed. No answer is read beyond what it may have. Everything has a time limit.
 3. Which relay a package takes is decided by the digest of its capsule: uniform, and the same when it is sent again, so
    that a relay can tell a re-send for what it is and no second relay hears of it.
 4. Every fetch takes a connection of its own, and another relay than the fetch before it where there are several,
    thrown with the device's dice. Fresh looks, by which a device checks what it was told, look like all
    others: by their shape a relay cannot answer the rest and drop just these.
 5. The gateway's key is asked for before every fetch, over the same connection, and not kept for the next one. While a
    round of the log is believed, fetches are sealed to the key that the log names, and never to another instead.
 6. Over Tor every fetch and every request has a circuit of its own, so that neither a relay nor anybody at an exit can
    tell by their way that two come from one device. Packages of a plain round share a few circuits, which no other
    round takes. Where Tor is away, nothing leaves: there is no other way then.

``send`` and ``fetch`` never raise because of what the network or a server does.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections.abc import Container, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import yarl

from secvm.crypto.sealing.oblivious import decode_key_configurations, seal_request
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE as TOKEN_ANSWER
from secvm.crypto.tokens import REQUEST_MEDIA_TYPE as TOKEN_REQUEST
from secvm.errors import LocalProtocolError, RemoteProtocolError, UnreachableError
from secvm.participant.dice import RandomBytes
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.plain.sealed_requests import FETCH_ANSWER_STEP, fetch_request, read_answer
from secvm.protocol.relays.statements import ENVELOPE_BYTES, RelayedTerms
from secvm.protocol.relays.submission import MAX_RECEIPT_BYTES
from secvm.protocol.relays.submission import MEDIA_TYPE as SUBMISSION
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError, goes_in_clear
from secvm.runtime.http.messages import is_onion
from secvm.runtime.http.tor import ANSWER_S, ISOLATION_BYTES, Circuit, NoCircuitError, NoTorError, TorProxy

SEALED_REQUEST = "message/ohttp-req"
SEALED_RESPONSE = "message/ohttp-res"
#: A manifest or an experiment in its envelope, with room for padding.
MOST_DOCUMENT_BYTES = 2**20 + 2**14
#: Keys of a gateway, see ``manifest.MAX_KEY_BYTES``.
_MOST_KEY_BYTES = 2**13
_MOST_ACKNOWLEDGEMENT_BYTES = 2**16
_MOST_TERMS_BYTES = RelayedTerms.longest + ENVELOPE_BYTES
#: A file's answer is padded to the next multiple of a step, and has fields and a seal, all in less than another step.
_AROUND_A_FILE_BYTES = 2 * FETCH_ANSWER_STEP
#: Asked to wait longer than this, a device does as if it were this.
_LONGEST_WAIT_MS = 86_400_000
#: Each has a connection of its own, and a process has only so many.
_FETCHES_AT_ONCE = 64
#: Connections of one process; a person's device needs one or two.
_CONNECTIONS = 64
#: What a server may say of bytes that it takes later. 421: the entry relay has not pulled the manifest yet. 425: its
#: clock says that the window is not open.
_LATER = (408, 425, 429)
_SEALED_HEADERS = {"Content-Type": SEALED_REQUEST}
_CREDENTIAL = "Secvm-Credential"
#: Over Tor, so many circuits for the packages of one round: one for each would be a load on Tor's relays.
_CIRCUITS_OF_A_ROUND = 3
#: A request line, a few headers and the frames around them; what a transport counts on top of what it was given.
OVERHEAD_BYTES = 400


@dataclass(frozen=True, slots=True)
class SendReply:
    """What was said to a capsule, a request or the wish for a token."""

    #: Where it was taken: what may be a receipt or a token, of a capsule nothing; None: it was not, or nobody answered.
    content: bytes | None = field(default=None, repr=False)
    #: The server asked to wait so long.
    retry_after_ms: int = 0
    #: Sending it again will not help.
    final: bool = False
    #: Whether anybody answered, whatever it was; asked of relays of two alone.
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Fetched:
    """A public file, and what the server's clock said."""

    content: bytes = field(repr=False)
    server_time: int | None = None
    #: By so many milliseconds at least the server's clock is ahead of this device's, or behind where it is negative.
    #: None: it said nothing, or nobody has held it to this device's clock.
    ahead: int | None = None

    def held_to(self, sent: int, received: int) -> Fetched:
        """The same beside this device's clock. The server's was read somewhere in between: whatever time went by on the
        way says nothing against either clock.
        """
        server = self.server_time
        return self if server is None else replace(self, ahead=server - min(max(server, sent), received))


class NotNowError(UnreachableError):
    """A relay answers that it cannot just now."""


class Transport(Protocol):
    """The network, as a device sees it."""

    #: The status with which a relay refused the last fetch, where one did: 401 without the credential that it wants.
    refused_with: int | None
    #: Why nothing leaves this machine, in one sentence: there is no Tor; None: it does.
    shut: str | None

    def check(self, document: ExperimentDocument) -> None:
        """Raise ``LocalProtocolError`` where this way is not good enough for the experiment."""
        ...

    async def send(self, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:
        """Send one capsule of the round of this ``label``."""
        ...

    async def fetch(
        self, path: str, *, most: int = MOST_DOCUMENT_BYTES, gateway_keys: bytes | None = None
    ) -> Fetched | None:
        """A public file of at most so many bytes; None where it could not be had.

        ``gateway_keys``: what the log names for now; the request is sealed to these and to no others.
        """
        ...

    async def ask_token(self, request: bytes, label: bytes, relay: Relay) -> SendReply:
        """Ask the entry relay for a round's token, as the client that this device is to it."""
        ...

    async def submit(self, body: bytes, label: bytes, relay: Relay, *, anonymous: bool = False) -> SendReply:
        """Send a round's request to the entry relay. ``anonymous``: without a name, which a token stands for."""
        ...

    async def relayed_terms(self, relay: Relay) -> RelayedTerms | None:
        """What one of two relays has signed that it takes on; None where there is no such thing.

        Raises ``UnreachableError`` where it does not answer, or cannot just now.
        """
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


def relay_for(capsule: bytes, relays: Sequence[Relay]) -> Relay | None:
    """The relay that this capsule takes, now and whenever it is sent again."""
    if not relays:
        return None
    return relays[int.from_bytes(hashlib.sha256(capsule).digest()[:8], "big") % len(relays)]


class _HttpTransport:
    """What both ways share: the requests to relays that an experiment names."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.refused_with: int | None = None
        self.shut: str | None = None

    def _own_connection(self) -> AbstractAsyncContextManager[HttpClient]:
        """A client for one request to a relay of an experiment."""
        return nullcontext(self._client)

    def _connection_for(self, capsule: bytes, label: bytes) -> AbstractAsyncContextManager[HttpClient]:  # noqa: ARG002
        """A client for one package of a round."""
        return nullcontext(self._client)

    async def _ask(self, client: HttpClient, url: str, **asked: Any) -> HttpAnswer:
        """Ask, and note whether anything leaves this machine."""
        self.shut = None
        try:
            return await client.ask(url, **asked)
        except NoTorError as fault:
            self.shut = str(fault)
            raise

    def _credential_for(self, url: str) -> dict[str, str]:  # noqa: ARG002  (whom to tell is for those who have one)
        """The header field with the credential, where the server at this URL is told it."""
        return {}

    async def ask_token(self, request: bytes, label: bytes, relay: Relay) -> SendReply:
        # An element for the one that was sent, and a proof in place of the key: a little more.
        headers, most = {**self._credential_for(relay.url), "Content-Type": TOKEN_REQUEST}, len(request) + 2**8
        answer = await self._ask_alone(relay, f"tokens/{label.hex()}", most=most, headers=headers, body=request)
        if isinstance(answer, UnreachableError):
            return SendReply(answered=not self._blames(answer))
        taken = answer.status == 200 and answer.media_type == TOKEN_ANSWER
        # 429: as many as one client is given.
        return _reply(answer, taken=taken, most=most, later=(408, 421, 425))

    async def submit(self, body: bytes, label: bytes, relay: Relay, *, anonymous: bool = False) -> SendReply:
        headers = {**({} if anonymous else self._credential_for(relay.url)), "Content-Type": SUBMISSION}
        most = MAX_RECEIPT_BYTES
        answer = await self._ask_alone(relay, f"submit/{label.hex()}", most=most, headers=headers, body=body)
        if isinstance(answer, UnreachableError):
            return SendReply(answered=not self._blames(answer))
        return _reply(answer, taken=answer.status == 200, most=most, later=(421, *_LATER))

    async def relayed_terms(self, relay: Relay) -> RelayedTerms | None:
        answer = await self._ask_alone(relay, "terms", most=_MOST_TERMS_BYTES)
        if isinstance(answer, UnreachableError) or answer.status >= 500:
            why = f"the {relay.role} relay {relay.host} does not answer when it is asked for its terms"
            silent = isinstance(answer, UnreachableError) and self._blames(answer)
            raise UnreachableError(why) if silent else NotNowError(why)
        if answer.status != 200 or len(answer.content) > _MOST_TERMS_BYTES:
            return None
        try:
            return RelayedTerms.read(answer.content, relay.key)
        except RemoteProtocolError:
            return None

    def _blames(self, fault: UnreachableError) -> bool:  # noqa: ARG002  (there is only the relay to blame)
        """Whether it was the relay who did not answer."""
        return True

    async def _ask_alone(self, relay: Relay, path: str, *, most: int, **asked: Any) -> HttpAnswer | UnreachableError:
        """What comes of one request to a relay of an experiment, a POST where it has a ``body``."""
        method = "POST" if "body" in asked else "GET"
        try:
            async with self._own_connection() as client:
                return await self._ask(client, f"{relay.url.rstrip('/')}/{path}", most=most, method=method, **asked)
        except UnreachableError as fault:
            return fault

    async def _post_capsule(self, url: str, capsule: bytes, label: bytes) -> SendReply:
        headers = _SEALED_HEADERS | self._credential_for(url)
        most = _MOST_ACKNOWLEDGEMENT_BYTES
        try:
            # A good answer is not looked into: what would open it is not kept.
            async with self._connection_for(capsule, label) as client:
                answer = await self._ask(client, url, most=most, method="POST", headers=headers, body=capsule)
        except UnreachableError:
            return SendReply()
        taken = answer.status == 202 or (answer.status == 200 and answer.media_type == SEALED_RESPONSE)
        reply = _reply(answer, taken=taken, most=most, later=_LATER)
        return reply if reply.content is None else SendReply(b"")

    async def close(self) -> None:
        await self._client.close()


class RelayTransport(_HttpTransport):
    """Through relays: the way for people. ``relays`` are the URLs that fetches take."""

    def __init__(
        self,
        client: HttpClient,
        relays: Sequence[str],
        random_bytes: RandomBytes,
        *,
        credential: str | None = None,
        tor: TorProxy | None = None,
    ) -> None:
        if not relays:
            raise LocalProtocolError("fetches need at least one relay")
        #: Where a relay knows its clients by credential, this is said to it, and to nobody else: an experiment may name
        #: other relays, and whoever runs one would know this person again in every experiment.
        self._credential = credential
        super().__init__(client)
        self._relays = [url.rstrip("/") for url in relays]
        self._random_bytes = random_bytes
        self._tor = tor
        self._secret = random_bytes(ISOLATION_BYTES)
        #: Which relay the last fetch took.
        self._took = 0
        #: Devices of one process share this.
        self._fetching = asyncio.Semaphore(_FETCHES_AT_ONCE)

    def check(self, document: ExperimentDocument) -> None:
        if not document.relays:
            raise LocalProtocolError("this experiment has no relay to send packages to")
        # The gateway's key for fetches comes from there: whoever may change it on the way reads what is asked for. A
        # relay on this machine is a tunnel.
        if not document.test and any(goes_in_clear(url) and not is_onion(url) for url in self._relays):
            raise LocalProtocolError(
                "the relays in the settings must begin with https, for this experiment is not marked as a test"
            )
        onion = next((relay.host for relay in document.relays if is_onion(relay.url)), None)
        if onion is not None and self._tor is None:
            raise LocalProtocolError(f'the relay {onion} is reached over Tor alone: set via = "tor" under [relay]')

    async def send(self, capsule: bytes, relay: Relay | None, *, label: bytes = b"") -> SendReply:
        if relay is None:
            raise LocalProtocolError("a package needs a relay")
        return await self._post_capsule(relay.url, capsule, label)

    def for_client(self, credential: str | None) -> RelayTransport:
        """The same way for another device of this process, with a credential of its own, or with none."""
        other = copy.copy(self)
        other._credential = credential  # noqa: SLF001  (its own kind)
        other._secret = self._random_bytes(ISOLATION_BYTES)  # noqa: SLF001  (likewise)
        return other

    def _credential_for(self, url: str) -> dict[str, str]:
        # For the origins of the settings' relays; no field for any other.
        if self._credential is None:
            return {}
        origin = yarl.URL(url).origin()
        known = any(origin == yarl.URL(relay).origin() for relay in self._relays)
        return {_CREDENTIAL: self._credential} if known else {}

    async def fetch(
        self, path: str, *, most: int = MOST_DOCUMENT_BYTES, gateway_keys: bytes | None = None
    ) -> Fetched | None:
        self._took = self._next_relay()
        relay = self._relays[self._took]
        async with self._fetching, self._own_connection() as client:
            return await self._fetch(client, relay, path, most, gateway_keys)

    def _own_connection(self) -> AbstractAsyncContextManager[HttpClient]:
        # As for every fetch: none of them tells another by its connection.
        return self._alone(self._random_bytes(ISOLATION_BYTES))

    def _connection_for(self, capsule: bytes, label: bytes) -> AbstractAsyncContextManager[HttpClient]:
        if self._tor is None:
            return nullcontext(self._client)
        circuit = hashlib.sha256(capsule).digest()[0] % _CIRCUITS_OF_A_ROUND
        name = hashlib.sha256(b"%d:" % circuit + self._secret + label).digest()
        return self._alone(name[:ISOLATION_BYTES])

    def _blames(self, fault: UnreachableError) -> bool:
        # A circuit that fails or is slow is another one the next time.
        return self._tor is None or not isinstance(fault, NoCircuitError | SlowAnswerError)

    def _alone(self, isolation: bytes) -> HttpClient:
        if self._tor is None:
            return HttpClient(connections=1)
        return HttpClient(connections=1, answer_s=ANSWER_S, circuit=Circuit(self._tor, isolation))

    def _next_relay(self) -> int:
        """Thrown among those that the fetch before did not take."""
        word, count = int.from_bytes(self._random_bytes(8), "big"), len(self._relays)
        return 0 if count == 1 else (self._took + 1 + word % (count - 1)) % count

    async def _fetch(
        self, client: HttpClient, relay: str, path: str, most: int, gateway_keys: bytes | None
    ) -> Fetched | None:
        try:
            # Asked for every time: a key that is kept is a name by which the gateway would know this device again. Also
            # where the log names another key: a relay sees the same requests for every fetch.
            served = await self._ask(client, relay + "/keys", most=_MOST_KEY_BYTES)
            if served.status != 200 or not 0 < len(served.content) <= _MOST_KEY_BYTES:
                return None
            configurations = decode_key_configurations(served.content if gateway_keys is None else gateway_keys)
            if not configurations:
                return None
            sealed = seal_request(configurations[0], fetch_request(path), self._random_bytes)
            headers = _SEALED_HEADERS | self._credential_for(relay)
            longest = most + _AROUND_A_FILE_BYTES
            response = await self._ask(
                client, relay + "/fetch", most=longest, method="POST", headers=headers, body=sealed.capsule
            )
            self.refused_with = response.status if response.status >= 400 else None
            if response.status != 200 or response.media_type != SEALED_RESPONSE or len(response.content) > longest:
                return None
            answer = read_answer(sealed.open_response(response.content))
        except (UnreachableError, RemoteProtocolError):
            return None
        taken = answer.status == 200 and len(answer.content) <= most
        return Fetched(answer.content, _instant(answer.date)) if taken else None


class UnsafeDirectTransport(_HttpTransport):
    """Straight to the coordinator, which then knows who sends. For experiments that are marked as a test."""

    def __init__(self, client: HttpClient, coordinator: str) -> None:
        super().__init__(client)
        self._base = coordinator.rstrip("/")

    def check(self, document: ExperimentDocument) -> None:
        if not document.test:
            raise LocalProtocolError("sending without a relay is for experiments that are marked as a test")

    async def send(
        self,
        capsule: bytes,
        relay: Relay | None,  # noqa: ARG002  (there is none on this way)
        *,
        label: bytes = b"",
    ) -> SendReply:
        return await self._post_capsule(self._base + "/v1/capsule", capsule, label)

    async def fetch(
        self,
        path: str,
        *,
        most: int = MOST_DOCUMENT_BYTES,
        gateway_keys: bytes | None = None,  # noqa: ARG002  (nothing is sealed on this way)
    ) -> Fetched | None:
        try:
            answer = await self._ask(self._client, self._base + path, most=most)
        except UnreachableError:
            return None
        taken = answer.status == 200 and len(answer.content) <= most
        return Fetched(answer.content, _instant(answer.headers.get("Date"))) if taken else None


def open_transport(
    relays: Sequence[str],
    random_bytes: RandomBytes,
    *,
    credential: str | None,
    tor: TorProxy | None = None,
    unsafe_direct_url: str | None = None,
) -> RelayTransport | UnsafeDirectTransport:
    """The way out of one process: through these relays, over Tor where its proxy is given, or straight to a coordinator
    where that URL is given.
    """
    client = HttpClient(connections=_CONNECTIONS)
    if unsafe_direct_url is not None:
        return UnsafeDirectTransport(client, unsafe_direct_url)
    return RelayTransport(client, relays, random_bytes, credential=credential, tor=tor)


def _reply(answer: HttpAnswer, *, taken: bool, most: int, later: Container[int]) -> SendReply:
    """What an answer says; one that is too long says nothing. A 4xx other than those that may be gone ``later`` is
    about these very bytes; anything else, as a redirect or a proxy's page, may be gone the next time.
    """
    if taken:
        return SendReply(answer.content if len(answer.content) <= most else None)
    final = 400 <= answer.status < 500 and answer.status not in later
    return SendReply(None, _retry_after_ms(answer.headers.get("Retry-After")), final)


def _retry_after_ms(text: str | None) -> int:
    """Seconds, as our servers write them; a date is taken for no answer."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return 0
    return min(1000 * int(text), _LONGEST_WAIT_MS)


def _instant(date: str | None) -> int | None:
    try:
        return None if date is None else int(parsedate_to_datetime(date).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
