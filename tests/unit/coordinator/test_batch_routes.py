"""The doors for batches and statements: what is taken, what is answered, and who is asked for a token."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from secvm.coordinator.relayed.batch_routes import RelayedRoutes
from secvm.coordinator.relayed.relay_statements import RelayClient, ask_commitments
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.run_counting import read_run, write_run
from secvm.coordinator.store.memory import MemoryStore
from secvm.errors import MalformedMessageError, UnreachableError
from secvm.protocol.relays.counts import write_shown
from secvm.runtime.http.client import HttpAnswer
from secvm.runtime.http.messages import HttpRequest, HttpResponse
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, MIX
from tests.unit.coordinator.two_relays import Federation, Said, TwoRelays, add, document

TOKEN = "a-token"


@dataclass
class World:
    """A round whose mixing relay is about to hand on."""

    federation: Federation = field(init=False)
    woken: int = 0

    def __post_init__(self) -> None:
        store, of = MemoryStore(), document(rounds=1)
        add(store, of)
        self.federation = Federation(store, TwoRelays(of))
        asyncio.run(self.federation.driver.step())
        self.one = self.federation.round()[1]
        self.said: Said = self.federation.relays.mix(self.one.manifest)
        self.papers = self.federation.relays.statements(self.said)
        self.routes = RelayedRoutes(
            store,
            self.federation.clock,
            tokens=[hashlib.sha256(TOKEN.encode()).digest()],
            most_bytes=2**20,
            events=RelayedEvents(),
            wake=self.wake,
        )

    def wake(self) -> None:
        self.woken += 1

    def go_to(self, instant: str) -> None:
        at = getattr(self.one.manifest.instants, instant)
        self.federation.clock.advance(at - self.federation.clock.now())
        asyncio.run(self.federation.driver.step())

    def put(self, path: str, body: bytes, *, token: str | None = TOKEN, label: str | None = None) -> HttpResponse:
        named = self.one.manifest.label.hex() if label is None else label
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        request = HttpRequest("PUT", f"/v2/{path.replace('LABEL', named)}", "", headers, body, "127.0.0.1")

        async def main() -> HttpResponse:
            found = self.routes.handle(request)
            return found if isinstance(found, HttpResponse) else await found

        return asyncio.run(main())


@pytest.fixture
def world() -> World:
    return World()


def test_batch_is_announced_brought_and_whole(world: World) -> None:
    count, batch = world.papers["mix_count"], b"".join(world.said.batch)
    assert world.put("batch/LABEL/count", count).status == 425
    world.go_to("accept_until")
    assert world.put("batch/LABEL/0", batch).status == 409
    first = world.put("batch/LABEL/count", count)
    assert (first.status, json.loads(first.body)) == (202, {"have": []})
    assert world.put("batch/LABEL/1", batch).status == 404
    assert world.put("batch/LABEL/0", batch[:-80]).status == 413
    assert world.woken == 0
    assert [world.put("batch/LABEL/0", batch).status for _ in range(2)] == [200, 200]
    assert world.put("batch/LABEL/0", batch[::-1]).status == 409
    assert [world.put("batch/LABEL/count", count).status for _ in range(2)] == [200, 200]
    assert world.woken == 4
    assert world.federation.store.batch(*world.one.place).whole  # type: ignore[union-attr]


def test_pieces_that_are_not_the_batch_may_come_again(world: World) -> None:
    world.go_to("accept_until")
    count, batch = world.papers["mix_count"], b"".join(world.said.batch)
    world.put("batch/LABEL/count", count)
    turned = b"".join(reversed(world.said.batch))
    assert world.put("batch/LABEL/0", turned).status == 200
    assert world.put("batch/LABEL/count", count).status == 400
    assert json.loads(world.put("batch/LABEL/count", count).body) == {"have": []}
    assert world.put("batch/LABEL/0", batch).status == 200
    assert world.put("batch/LABEL/count", count).status == 200


def test_pieces_that_never_are_the_batch_leave_the_round_unopened_for_that_reason(world: World) -> None:
    world.go_to("accept_until")
    world.put("batch/LABEL/count", world.papers["mix_count"])
    world.put("batch/LABEL/0", b"".join(reversed(world.said.batch)))
    world.put("batch/LABEL/count", world.papers["mix_count"])
    world.said.hands_on = False
    world.go_to("open_by")
    figures = world.federation.round()[1].figures
    assert figures is not None
    assert figures.reasons == ("batch-not-as-announced",)


@pytest.mark.parametrize("token", [None, "another", ""])
def test_batch_needs_a_token_and_statements_do_not(world: World, token: str | None) -> None:
    world.go_to("accept_until")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    refused = world.routes.before_body("/v2/batch/x/0", headers)
    assert refused is not None
    assert refused.status == 401
    assert world.routes.before_body("/v2/counts/x/mix_count", headers) is None
    for path in ("batch/LABEL/count", "batch/LABEL/0"):
        assert world.put(path, world.papers["mix_count"], token=token).status == 401
    assert world.put("counts/LABEL/mix_count", world.papers["mix_count"], token=token).status == 200


def test_statements_are_taken_once_from_anybody_if_their_relay_signed_them(world: World) -> None:
    world.go_to("accept_until")
    counts = "counts/LABEL/"
    # Which count of the entry relay is the one, the mixing relay's says.
    assert world.put(counts + "entry_count", world.papers["entry_count"]).status == 409
    for name in ("mix_count", "entry_count", "entry_reveal", "mix_reveal"):
        assert [world.put(counts + name, world.papers[name]).status for _ in range(2)] == [200, 200]
    other = world.said.mix_count.__class__(**{**_fields(world.said.mix_count), "refused": 7})
    assert world.put(counts + "mix_count", other.signed(MIX)).status == 409
    assert world.put("batch/LABEL/count", other.signed(MIX)).status == 409
    assert world.put(counts + "mix_count", other.signed(ENTRY)).status == 403
    assert world.put(counts + "mix_count", b"nothing").status == 400
    assert world.put(counts + "something", world.papers["mix_count"]).status == 400


def _fields(count: Any) -> dict[str, Any]:
    names = ("label", "entry_count", "refused", "capsules", "root")
    return {name: getattr(count, name) for name in names}


def test_labels_and_paths_that_nobody_has(world: World) -> None:
    world.go_to("accept_until")
    count = world.papers["mix_count"]
    assert world.put("batch/LABEL/count", count, label="0" * 64).status == 421
    assert world.put("batch/LABEL/count", count, label="0" * 63).status == 400
    assert world.put("batch/LABEL/00", b"x").status == 404
    assert world.put("nothing", b"x").status == 404
    request = HttpRequest("GET", "/v2/batch/x/0", "", {}, b"", "127.0.0.1")
    answer = world.routes.handle(request)
    assert isinstance(answer, HttpResponse)
    assert answer.status == 405


def test_batch_larger_than_this_coordinator_takes_is_refused(world: World) -> None:
    world.go_to("accept_until")
    large = world.said.mix_count.__class__(**{**_fields(world.said.mix_count), "capsules": 2**20})
    assert world.put("batch/LABEL/count", large.signed(MIX)).status == 413


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Asked:
    """A client that is answered from a table."""

    def __init__(self, answers: dict[str, HttpAnswer]) -> None:
        self.answers = answers
        self.seen: list[tuple[str, str, Any, bytes | None]] = []

    async def ask(self, url: str, *, method: str, headers: Any, body: bytes | None, **_limits: float) -> HttpAnswer:
        self.seen.append((method, url, headers, body))
        if url not in self.answers:
            raise UnreachableError("nobody there")
        return self.answers[url]


def test_relays_are_asked_with_their_own_token_and_believed_if_they_signed(world: World) -> None:
    of = world.federation.relays.document
    mix = asyncio.run(world.federation.relays.commitment(of.mix_relay, of.digest, 1))
    assert mix is not None
    client = Asked({"https://mix.example/commitment": HttpAnswer(200, mix)})
    relays = RelayClient({"https://mix.example": TOKEN, "https://entry.example/": "other"}, client.ask)
    found = asyncio.run(ask_commitments(relays, of, 1))
    assert found == {"entry": "entry-relay-silent", "mix": mix}
    tokens = {url: headers["authorization"] for _, url, headers, _ in client.seen}
    assert tokens["https://mix.example/commitment"] == f"Bearer {TOKEN}"
    assert tokens["https://entry.example/commitment"] == "Bearer other"
    assert client.seen[0][3] == b'{"experiment":"%b","round":1}' % of.digest.encode()
    assert TOKEN not in repr(relays)
    assert asyncio.run(ask_commitments(relays, of, 2))["mix"] == "mix-commitment-refused"


def test_relay_without_a_token_here_is_not_asked_for_a_commitment(world: World) -> None:
    client = Asked({})
    of = world.federation.relays.document
    relays = RelayClient({}, client.ask)
    assert asyncio.run(relays.commitment(of.mix_relay, of.digest, 1)) is None
    assert client.seen == []


@pytest.mark.parametrize("answer", [HttpAnswer(404, b""), HttpAnswer(200, b"nothing"), HttpAnswer(200, b"x" * 20_000)])
def test_relay_that_shows_nothing_good_shows_nothing(world: World, answer: HttpAnswer) -> None:
    label, of = bytes(32), world.federation.relays.document
    url = f"https://mix.example/counts/{label.hex()}"
    relays = RelayClient({}, Asked({url: answer}).ask)
    assert asyncio.run(relays.shown(of.mix_relay, label)) == {}
    shown = RelayClient({}, Asked({url: HttpAnswer(200, write_shown(world.papers))}).ask)
    assert asyncio.run(shown.shown(of.mix_relay, label)) == world.papers


# ── results of runs ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_run_came_to_is_read_again_or_refused() -> None:
    world = World()
    world.go_to("accept_until")
    world.go_to("mix_by")
    world.federation.hand_on()
    asyncio.run(world.federation.driver.step())
    kept = world.federation.store.run_result(*world.one.place, 0)
    assert kept is not None
    shards = read_run(kept)
    assert write_run(shards) == kept
    assert sum(shard.capsules for shard in shards) == len(world.said.batch)
    for broken in (kept[:-1], kept[:100], b"x" + kept):
        with pytest.raises(MalformedMessageError):
            read_run(broken)
