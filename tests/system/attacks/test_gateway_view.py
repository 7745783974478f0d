"""A curious gateway: which requests come from one device? It tries headers, connections, keys, bytes and order.

Over real sockets: clients that differ in all they can (address, user agent, cookies, languages, credential) send
capsules through the real relay, to be handed on at once or in a deposit, and the gateway keeps every byte. Each attack
must fail against the relay, and succeed where the defence is missing: a plain proxy in its place, a sealer that keeps
its ephemeral key, a relay that does not sort.

Attacks with statistics compare what was found with shuffled names of clients, or have a limit; each test says how often
it fails by chance. Dice have the run's seed; which connection a request takes is the machine's timing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.participant.dice import RandomBytes
from secvm.participant.sending.sealing import CAPSULE_BYTES, gateway_seal
from secvm.participant.sending.transport import RelayTransport
from secvm.protocol.codec import AddressedPackage, ExperimentId, encode
from secvm.protocol.documents.experiment import Relay
from secvm.relay import deposits
from secvm.runtime.http.client import HttpClient
from secvm.testing.gateway import FakeGateway, GatewayRequest, Reply
from tests.deep.statistical.bounds import rank_correlation
from tests.seeds import FALSE_ALARM, seed_for
from tests.unit.protocol.helpers import RELAY
from tests.unit.relay.helpers import DEPOSIT_MS, Place, running, taken_apart

CLIENTS, EACH = 8, 20
#: Requests under way at once, so that there are several connections to the gateway.
WAVE = 8
#: Of the epoch in which a ``Place`` begins, and of the one after it, to which fetches are sealed.
KEY, FETCH_KEY = (GatewayKey(epoch, X25519PrivateKey(bytes(range(epoch, epoch + 32)))) for epoch in (10, 11))
KINDS: tuple[Package, ...] = (
    ParticipationPackage(cohort=Cohort.TRAIN, class_index=1),
    TrainPackage(model=0, bin_index=7, sign=-1),
    TestPackage(true_class=0, predicted_class=1),
    NullPackage(),
)
SHUFFLES = 999


def dice(*seed: int) -> RandomBytes:
    return np.random.default_rng((seed_for("gateway view"), *seed)).bytes


def sealed(random_bytes: Callable[[int], RandomBytes]) -> dict[bytes, int]:
    """The capsules of all clients, and whose they are. Clients seal with the dice they are given."""
    keys = encode_key_configurations([KEY.configuration])
    found = {}
    for client in range(CLIENTS):
        seal = gateway_seal(random_bytes(client))
        for i in range(EACH):
            found[seal(encode(AddressedPackage(ExperimentId(bytes(16)), 1, KINDS[i % len(KINDS)])), keys)] = client
    return found


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[list[RelayTransport]]:
    """The participant's own transport on connections that give away all they can."""
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for client in range(CLIENTS):
            headers = {
                "User-Agent": f"browser-of-{client}",
                "Cookie": f"session={client:032x}",
                "Accept-Language": f"x-{client}",
                "X-Forwarded-For": f"10.0.0.{client}",
                "Secvm-Credential": f"credential of {client}",
            }
            connector = aiohttp.TCPConnector(local_addr=(f"127.0.0.{client + 2}", 0))
            session = aiohttp.ClientSession(headers=headers, connector=connector, cookie_jar=aiohttp.CookieJar())
            way = await stack.enter_async_context(HttpClient())
            way._sessions[False] = session
            # Fetches take connections of their own, and tell the relay no more than a credential.
            made.append(RelayTransport(way, [url], dice(2, client), credential=f"credential of {client}"))
        yield made


@asynccontextmanager
async def plain_proxy(gateway: FakeGateway) -> AsyncIterator[str]:
    """What stands where the relay should: every connection goes on as it is, but for the path."""
    to = gateway.url.removeprefix("http://").split(":")

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**16):
                writer.write(data)
        finally:
            writer.close()

    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection(to[0], int(to[1]))
        for one in (pipe(reader, onward[1]), pipe(onward[0], writer)):
            tasks.add(asyncio.get_running_loop().create_task(one))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/relay"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answer(seen: GatewayRequest) -> Reply:
    if seen.path.endswith("/keys"):
        return Reply(200, encode_key_configurations([FETCH_KEY.configuration]), "application/ohttp-keys")
    if seen.path in ("/v1/batch", "/v1/deposit"):
        return Reply(202)
    return Reply(200, b"sealed", "message/ohttp-res")


def forwarded(folder: Path, *, relay: bool) -> list[tuple[int, GatewayRequest]]:
    """All capsules in random order, as fetches through the relay or a plain proxy; and whose each request was."""
    capsules = sealed(lambda client: dice(1, client))
    order = np.random.default_rng(seed_for("order of sending")).permutation(len(capsules))

    async def main() -> list[GatewayRequest]:
        async with FakeGateway(answer) as gateway, contextlib.AsyncExitStack() as stack:
            if relay:
                served = await stack.enter_async_context(running(Place(folder), gateway.url))
                url = f"http://127.0.0.1:{served.port}/relay"
            else:
                url = await stack.enter_async_context(plain_proxy(gateway))
            senders = await stack.enter_async_context(clients(url))
            path = "/v1/fetch" if relay else "/relay/fetch"
            # The relay cannot see what is in a capsule: only its door makes it a fetch.
            way, listed = Relay(url=f"{url}/fetch", key=RELAY.public), list(capsules)
            for begin in range(0, len(order), WAVE):
                gateway.open.clear()
                wave = [listed[i] for i in order[begin : begin + WAVE]]
                sent = [asyncio.ensure_future(senders[capsules[one]].send(one, way)) for one in wave]
                await gateway.wait_for(path, begin + len(wave))
                gateway.open.set()
                assert all(reply.content is not None for reply in await asyncio.gather(*sent))
            return gateway.at(path)

    return [(capsules[one.body], one) for one in asyncio.run(main())]


# ── attacks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def lines_that_name_a_client(requests: Sequence[tuple[int, GatewayRequest]]) -> set[bytes]:
    """Lines of heads that two requests of one client share and no other client's has."""
    by_line: dict[bytes, list[int]] = defaultdict(list)
    for client, seen in requests:
        for line in set(seen.head.split(b"\r\n")):
            by_line[line].append(client)
    return {line for line, whose in by_line.items() if len(whose) > 1 and len(set(whose)) == 1}


def shared_parts(capsules: dict[bytes, int], size: int = 8) -> set[bytes]:
    """Parts of so many bytes, behind the key's name, that two capsules of one client share."""
    by_part: dict[tuple[int, bytes], set[bytes]] = defaultdict(set)
    for capsule, client in capsules.items():
        for at in range(7, len(capsule) - size + 1):
            by_part[client, capsule[at : at + size]].add(capsule)
    return {part for (_, part), found in by_part.items() if len(found) > 1}


def same_connection_share(whose: np.ndarray, connection: np.ndarray) -> int:
    """Pairs of requests of one client that came on one connection."""
    found = np.bincount(whose * (connection.max() + 1) + connection)
    return int((found * (found - 1) // 2).sum())


def exceeds_chance(statistic: Callable[[np.ndarray], float], whose: np.ndarray) -> bool:
    """Whether the statistic is eight standard deviations above its mean with shuffled names.

    It counts pairs. Poisson's law of mean 19 (neighbours) leaves 1e-9 beyond that, and chi-square's with 49 degrees (8
    clients on 8 connections) 4e-9: a false alarm has a probability of at most 1e-7, whoever sent.
    """
    rng = np.random.default_rng(seed_for("shuffled names"))
    shuffled = np.array([statistic(rng.permutation(whose)) for _ in range(SHUFFLES)])
    return bool(statistic(whose) > shuffled.mean() + 8 * shuffled.std())


def neighbours(whose: np.ndarray) -> float:
    """How often two neighbours are one client's."""
    return float((whose[1:] == whose[:-1]).sum())


# ── what is handed on at once ────────────────────────────────────────────────────────────────────────────────────────


def test_heads_are_the_same_for_everybody_behind_a_relay(tmp_path: Path) -> None:
    """Certain, no statistics: the gateway sees one and the same head, whoever sent it and whatever is inside."""
    requests = forwarded(tmp_path, relay=True)
    assert len(requests) == CLIENTS * EACH
    assert lines_that_name_a_client(requests) == set()
    assert len({seen.head for _, seen in requests}) == 1
    # The token is the relay's own.
    assert set(requests[0][1].fields) == {"host", "authorization", "content-type", "content-length"}


def test_heads_name_the_client_behind_a_plain_proxy(tmp_path: Path) -> None:
    named = lines_that_name_a_client(forwarded(tmp_path, relay=False))
    assert {line.partition(b":")[0].lower() for line in named} >= {b"user-agent", b"cookie", b"x-forwarded-for"}


@pytest.mark.parametrize("relay", [True, False], ids=["relay", "plain proxy"])
def test_connections_say_who_sent_only_without_a_relay(tmp_path: Path, relay: bool) -> None:
    """Fails by chance with probability at most 1e-7: capsules of one client share no connection more often."""
    requests = forwarded(tmp_path, relay=relay)
    whose = np.array([client for client, _ in requests])
    _, connection = np.unique([seen.connection for _, seen in requests], return_inverse=True)
    assert connection.max() >= WAVE // 2
    assert exceeds_chance(lambda names: same_connection_share(names, connection), whose) is not relay


# ── bytes of capsules ────────────────────────────────────────────────────────────────────────────────────────────────


def test_capsules_of_a_client_share_nothing_but_the_name_of_the_key() -> None:
    """The chance that two random capsules share eight bytes anywhere is below 1e-9 for all of them."""
    capsules = sealed(lambda client: dice(1, client))
    assert len(capsules) == CLIENTS * EACH
    assert {len(capsule) for capsule in capsules} == {CAPSULE_BYTES}
    assert len({capsule[:7] for capsule in capsules}) == 1
    assert len({capsule[7:39] for capsule in capsules}) == len(capsules)
    assert shared_parts(capsules) == set()


def test_a_sealer_that_keeps_its_ephemeral_key_names_its_client() -> None:
    kept = sealed(lambda client: lambda count: bytes([client]) * count)
    assert {part[:8] for part in shared_parts(kept)} >= {capsule[7:15] for capsule in kept}


# ── order, in a deposit ──────────────────────────────────────────────────────────────────────────────────────────────


def counting() -> Iterator[bytes]:
    """Dice that only count, upwards."""
    number = 0
    while True:
        number += 1
        # Group numbers are 63 of 64 bits.
        yield (2 * number).to_bytes(8, "little")


def handed_on(folder: Path, *, mixes: bool) -> tuple[list[int], list[int]]:
    """Clients send one after the other, each all it has: place of arrival and name, in the order the gateway sees."""
    capsules = sealed(lambda client: dice(1, client))
    listed = list(capsules)

    async def main() -> list[bytes]:
        place = Place(folder)
        async with (
            FakeGateway(answer) as gateway,
            running(place, gateway.url, dice=dice(5)) as relay,
            clients(f"http://127.0.0.1:{relay.port}/relay") as senders,
        ):
            if not mixes:
                numbers = counting()
                assert relay.relay._store is not None
                relay.relay._store._dice = lambda _count: next(numbers)
            way = Relay(url=f"http://127.0.0.1:{relay.port}/relay", key=RELAY.public)
            for capsule in listed:
                assert (await senders[capsules[capsule]].send(capsule, way)).content is not None
            place.go_to(place.now + DEPOSIT_MS)
            (seen,) = await gateway.wait_for("/v1/deposit")
            found = taken_apart(seen.body)[1]
            assert set(seen.fields) == {"host", "content-type", "content-length", "authorization"}
            return found

    with pytest.MonkeyPatch.context() as patch:
        if not mixes:
            patch.setattr(deposits, "in_order", list)
        found = asyncio.run(main())
    assert sorted(found) == sorted(listed)
    return [listed.index(capsule) for capsule in found], [capsules[capsule] for capsule in found]


@pytest.mark.parametrize("mixes", [True, False], ids=["sorts", "does not sort"])
def test_order_says_who_sent_only_where_a_relay_does_not_sort(tmp_path: Path, mixes: bool) -> None:
    """Fails by chance with probability at most 1e-6: half for the order of arrival, less for neighbours."""
    arrived, whose = handed_on(tmp_path, mixes=mixes)
    assert (rank_correlation(arrived, range(len(arrived)), FALSE_ALARM / 2) > 1) is not mixes
    assert exceeds_chance(neighbours, np.array(whose)) is not mixes
