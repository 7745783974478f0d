"""Two real relay processes on loopback; the coordinator and the devices are the test itself.

The relays' clock is steered, so nothing waits for time to pass. What the coordinator is handed is opened with its count
key, and both opened parts are derived and found in it, byte for byte.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey, X25519PublicKey
from secvm.crypto.sealing.layers import INNER_BYTES, open_inner, seal_both
from secvm.crypto.sealing.oblivious import GatewayKey, encode_key_configurations
from secvm.crypto.signing import SigningKey
from secvm.learning.cover_law import Noise, RelayCover
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import encode_document
from secvm.protocol.codec import decode
from secvm.protocol.documents.experiment import ExperimentDocument, Relay, publish
from secvm.protocol.relays.batches import FIELD, capsule_digest, capsule_root, check_ticket, split_piece
from secvm.protocol.relays.counts import EntryCount, EntryReveal, MixCount, MixReveal
from secvm.protocol.relays.cover_parts import derive_part, seal_part
from secvm.protocol.relays.manifest import Instants, RelayedManifest
from secvm.protocol.relays.submission import Receipt
from secvm.relay.setting_up import make_key
from secvm.runtime.clock import ClockSteering
from secvm.runtime.disk.secret_files import make_secret, read_signing_key
from secvm.runtime.http.server import HttpRequest, HttpResponse, HttpServer, Limits
from secvm.runtime.settings import settings_text
from secvm.testing.processes import free_port
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, START, relayed_document, relayed_experiment
from tests.effort import scaled
from tests.rigs.clocks import jump
from tests.system.parties import PATIENCE_S, Party
from tests.unit.relay.helpers import Answered, ask

TOKEN = "a-token-of-this-coordinator"
ROUND = 1
CLIENTS = 3
COUNT_SEED = hashlib.sha256(b"count seed of the test").digest()
FETCH_KEY = GatewayKey(1, X25519PrivateKey.derive(hashlib.sha256(b"fetch key of the test").digest()))


def experiment() -> Any:
    """Worth what its document says: ε = 2 over two rounds, δ = 1/100."""
    kinds = {
        name: Noise(cells=cells, shape=Fraction(15), odds=Fraction(1))
        for name, cells in (("train", 22), ("participation", 4), ("test", 4))
    }
    return relayed_experiment(cover=RelayCover(**kinds, parts=4, packages=1200, train_share=Fraction(7, 10)))


@dataclass
class World:
    """Both relays' folders, the document that names them, and a coordinator that takes what it is handed."""

    folder: Path
    ports: dict[str, int] = field(default_factory=lambda: {"entry": free_port(), "mix": free_port()})
    keys: dict[str, SigningKey] = field(default_factory=dict)
    pieces: dict[int, bytes] = field(default_factory=dict)
    counts: set[bytes] = field(default_factory=set)
    manifest: RelayedManifest | None = None
    accepts: bool = True
    #: The newest life of each.
    lives: dict[str, Party] = field(default_factory=dict)
    url: str = ""
    #: Whether submissions need a token.
    tokens: bool = False
    #: Further settings of clients.
    clients: dict[str, Any] = field(default_factory=lambda: {"known_by": "address"})

    def __post_init__(self) -> None:
        self.steering = ClockSteering(self.folder / "clock", now=START - 10_000, limit=START - 10_000)
        make_secret(self.folder / "token", TOKEN.encode())
        for role in self.ports:
            make_key(self.folder / f"{role}.key")
            self.keys[role] = read_signing_key(self.folder / f"{role}.key")

    def relay_url(self, role: str) -> str:
        return f"http://127.0.0.1:{self.ports[role]}/relay"

    @property
    def document(self) -> ExperimentDocument:
        relays = tuple(
            Relay(url=self.relay_url(role), key=self.keys[role].public, role=role, operator=f"Operator of {role}")
            for role in ("entry", "mix")
        )
        privacy = PrivacyTarget(epsilon=Fraction(2), delta=Fraction(1, 100))
        return relayed_document(
            experiment=experiment(), relays=relays, privacy=privacy, rounds=2, test=True, tokens=self.tokens
        )

    @property
    def label(self) -> bytes:
        assert self.manifest is not None
        return self.manifest.label

    @property
    def instants(self) -> Instants:
        return Instants.planned(self.document, START)

    def settings(self, role: str, **testing: Any) -> Path:
        tables: dict[str, dict[str, Any]] = {
            "listen": {"port": self.ports[role]},
            "gateway": {"url": self.url, "token_file": self.folder / "token"},
            "relay": {"url": self.relay_url(role)},
            "epochs": {"period_s": 3600},
            "clients": self.clients,
            "signing": {"key_file": self.folder / f"{role}.key"},
            "rounds": {
                "role": role,
                "operator": f"Operator of {role}",
                "folder": self.folder / role,
                "secrets": self.folder / f"{role}-memory",
                "poll_s": 0.02,
                "retry_ms": 5,
                "quota": 1,
            },
            "testing": {"clock": self.folder / "clock", "any_credential": True, **testing},
        }
        path = self.folder / f"{role}.toml"
        text = f'[[coordinators]]\nurl = "{self.url}"\ntoken_file = "{self.folder / "token"}"\n'
        path.write_text(settings_text(tables) + text, encoding="utf-8")
        return path

    # ── the coordinator ──────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, request: HttpRequest) -> HttpResponse:
        match request.method, request.path.split("/")[1:]:
            case "GET", ["v2", "experiment", digest] if digest == self.document.digest:
                return HttpResponse(200, publish(self.document, keys=(COORDINATOR,)))
            case "GET", ["v2", "experiment", _, "manifest", number] if self.manifest and number == str(ROUND):
                return HttpResponse(200, self.manifest.signed([COORDINATOR]))
            case "PUT", ["v2", "batch", label, "count"] if label == self.label.hex():
                return self._count(request)
            case "PUT", ["v2", "batch", label, index] if label == self.label.hex():
                key = self.keys["mix"].public
                check_ticket(request.headers[FIELD], key, label=self.label, piece=int(index), data=request.body)
                assert self.pieces.setdefault(int(index), request.body) == request.body
                return HttpResponse(200)
        return HttpResponse(404)

    def _count(self, request: HttpRequest) -> HttpResponse:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        self.counts.add(request.body)
        if not self.accepts:
            return HttpResponse(503)
        count = MixCount.read(request.body, self.keys["mix"].public)
        if len(self.pieces) == -(-count.capsules // 2**16):
            return HttpResponse(200)
        return HttpResponse(202, json.dumps({"have": sorted(self.pieces)}).encode(), "application/json")

    # ── the relays ───────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, role: str, **testing: Any) -> None:
        self.lives[role] = Party("relay", "serve", "--config", str(self.settings(role, **testing)))
        assert self.lives[role].port == self.ports[role]

    async def hear(self, role: str, event: str, **fields: Any) -> None:
        """Wait until this relay's log has this event with these fields."""
        await asyncio.to_thread(self.lives[role].told, event, **fields)

    async def to(self, role: str, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return await ask(self.ports[role], method, f"/relay/{path}", body, fields)

    async def commitment(self, role: str) -> bytes:
        asked = encode_document({"experiment": self.document.digest, "round": ROUND})
        answer = await self.to(role, "POST", "commitment", asked, authorization=f"Bearer {TOKEN}")
        assert answer.status == 200, answer
        return answer.body

    async def announce(self) -> None:
        """Both commitments, and the manifest of the round."""
        mix, entry = await self.commitment("mix"), await self.commitment("entry")
        assert (mix, entry) == (await self.commitment("mix"), await self.commitment("entry"))
        self.manifest = RelayedManifest(
            experiment=self.document.digest,
            round_number=ROUND,
            previous=None,
            opening=None,
            instants=self.instants,
            state="0" * 64,
            training_weights="1" * 64,
            evaluation_weights="2" * 64,
            count_key=X25519PrivateKey.derive(COUNT_SEED).public_key.to_bytes(),
            count_seed_hash=hashlib.sha256(COUNT_SEED).digest(),
            fetch_keys=encode_key_configurations([FETCH_KEY.configuration]),
            mix=mix,
            entry=entry,
        )

    def body(self, client: int) -> bytes:
        assert self.manifest is not None
        pk_c, pk_x = X25519PublicKey(self.manifest.count_key), self.manifest.mix_commitment.public_key
        outers = [
            seal_both(pk_c, pk_x, self.label, dice(client, number), package(client, number))[1]
            for number in range(self.document.budget)
        ]
        in_order: list[bytes] = sorted(outers, key=capsule_digest)
        return b"".join(in_order)

    async def submit(self, client: int) -> Answered:
        kind = {"content_type": "application/vnd.secvm.submission"}
        fields = {"content-type": kind["content_type"]}
        path = f"/relay/submit/{self.label.hex()}"
        return await ask(self.ports["entry"], "POST", path, self.body(client), fields, source=f"127.0.0.{client + 1}")

    async def papers(self, role: str) -> dict[str, bytes | None]:
        answer = await self.to(role, "GET", f"counts/{self.label.hex()}")
        assert answer.status == 200
        found = json.loads(answer.body)
        return {name: None if text is None else base64.b64decode(text) for name, text in found.items()}

    async def all_papers(self, role: str) -> dict[str, bytes]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = {name: data for name, data in (await self.papers(role)).items() if data is not None}
                if len(found) == 4:
                    return found
                await asyncio.sleep(0.01)

    def go_to(self, instant: int) -> None:
        jump(self.steering, instant)


def dice(client: int, number: int) -> bytes:
    return hashlib.shake_256(b"%d %d" % (client, number)).digest(64)


def package(client: int, number: int) -> bytes:
    return hashlib.sha256(b"package %d %d" % (client, number)).digest()


@contextlib.asynccontextmanager
async def world(folder: Path, **changes: Any) -> AsyncIterator[World]:
    made = World(folder, **changes)
    server = HttpServer(made.answer, limits=Limits(body_bytes=2**24))
    made.url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        yield made
    finally:
        for relay in made.lives.values():
            relay.kill()
            # Shown where the test fails.
            print(relay.said)
        await server.drain(patience_s=1.0)


def check_outcome(made: World, papers: dict[str, bytes]) -> None:
    """M, n₁, n₂, roots; everything opens; both opened parts are there."""
    document, label, manifest = made.document, made.label, made.manifest
    assert manifest is not None
    cover, entry_key, mix_key = document.relay_cover, made.keys["entry"].public, made.keys["mix"].public
    entry, mix = EntryCount.read(papers["entry_count"], entry_key), MixCount.read(papers["mix_count"], mix_key)
    assert made.counts == {papers["mix_count"]}
    assert (entry.clients, entry.capsules) == (CLIENTS, document.budget * CLIENTS + cover.packages)
    assert (mix.refused, mix.capsules) == (0, entry.capsules + cover.packages)
    batch = [one for index in sorted(made.pieces) for one in split_piece(made.pieces[index], INNER_BYTES)]
    digests = [capsule_digest(one) for one in batch]
    assert (len(batch), mix.root) == (mix.capsules, capsule_root(digests))
    private = X25519PrivateKey.derive(COUNT_SEED)
    opened = [open_inner(private, label, one) for one in batch]
    own = {package(client, number) for client in range(CLIENTS) for number in range(document.budget)}
    assert own <= set(opened)
    covering = [decode(one) for one in opened if one not in own]
    assert len(covering) == 2 * cover.packages
    assert {(one.experiment_id, one.round_number) for one in covering} == {(document.experiment_id, ROUND)}
    first, second = EntryReveal.read(papers["entry_reveal"], entry_key), MixReveal.read(papers["mix_reveal"], mix_key)
    named: dict[str, Any] = {"label": label, "mix_count": mix.digest, "parts": cover.parts}
    assert first.faults(commitment=manifest.entry_commitment, **named) == set()
    assert second.faults(commitment=manifest.mix_commitment, entry_reveal=first, **named) == set()
    for seed, root in ((first.seed, entry.received), (second.seed, entry.root)):
        part = derive_part(
            document.experiment,
            experiment_id=document.experiment_id,
            round_number=ROUND,
            label=label,
            root=root,
            seed=seed,
        )
        inner = [
            one
            for block in seal_part(part, count_key=X25519PublicKey(manifest.count_key))
            for one in split_piece(block.inner, INNER_BYTES)
        ]
        assert len(inner) == cover.part_packages
        assert set(inner) <= set(batch)


async def play_to_the_end(made: World) -> dict[str, bytes]:
    """From the end of the window on; the relays run."""
    for instant in (made.instants.accept_until, made.instants.batch_by, made.instants.mix_by):
        made.go_to(instant)
    papers = await made.all_papers("entry")
    assert await made.all_papers("mix") == papers
    return papers


def test_a_round_of_two_relays_is_covered_counted_and_opened(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as made:
            for role in ("entry", "mix"):
                made.start(role)
            assert (await made.to("entry", "POST", "commitment", b"{}")).status == 401
            await made.announce()
            await made.hear("entry", "step", stage="named")
            await made.hear("mix", "step", stage="named")
            assert (await made.submit(0)).status == 425
            made.go_to(made.instants.opens_at)
            receipts = [await made.submit(client) for client in range(CLIENTS)]
            assert [answer.status for answer in receipts] == [200] * CLIENTS
            receipt = Receipt.read(receipts[0].body, made.keys["entry"].public)
            assert (receipt.label, receipt.capsules) == (made.label, made.document.budget)
            assert (await made.submit(0)).body == receipts[0].body
            await strangers(made)
            papers = await play_to_the_end(made)
            check_outcome(made, papers)
            await check_metrics(made)
            leaves = await made.to("mix", "GET", f"leaves/{made.label.hex()}/0")
            assert leaves.body == (await made.to("entry", "GET", f"leaves/{made.label.hex()}/0")).body
            listed = [leaves.body[at : at + 32] for at in range(0, len(leaves.body), 32)]
            assert capsule_root(listed) == EntryCount.enclosed(papers["entry_count"]).root
            assert (await made.to("entry", "GET", f"leaves/{made.label.hex()}/1")).status == 404
            for role in ("entry", "mix"):
                await made.hear(role, "step", stage="silent")
                assert "127.0.0" not in made.lives[role].said
            assert not left_over(made)

    asyncio.run(main())


async def check_metrics(made: World) -> None:
    """Both relays' figures are sums, and name neither a label nor an experiment nor an address."""
    pages = {role: (await ask(made.ports[role], "GET", "/metrics")).body.decode() for role in ("entry", "mix")}
    for page in pages.values():
        assert not any(text in page for text in (made.label.hex(), made.document.digest, "127.0.0"))
        assert 'secvm_relay_round_steps_total{stage="part"} 4.0' in page
        assert 'secvm_relay_round_step_seconds_count{stage="part"} 4.0' in page
        assert "secvm_relay_batch_capsules_count 1.0" in page
    assert f'secvm_relay_submissions_total{{came="first"}} {CLIENTS}.0' in pages["entry"]
    assert 'secvm_relay_submissions_total{came="again"} 1.0' in pages["entry"]
    assert 'secvm_relay_role_refused_total{door="submit",status="429"} 1.0' in pages["entry"]
    assert 'secvm_relay_role_refused_total{door="batch",status="403"} 1.0' in pages["mix"]
    assert 'secvm_relay_round_steps_total{stage="opened"} 1.0' in pages["mix"]
    health = json.loads((await ask(made.ports["mix"], "GET", "/health")).body)
    assert health == {"ok": True, "role": "mix"}


async def strangers(made: World) -> None:
    """What is not for them, or not theirs, is refused at the doors."""
    label, other = made.label.hex(), "0" * 64
    kind = "application/vnd.secvm.submission"
    assert (await made.to("entry", "POST", f"submit/{other}", made.body(5), content_type=kind)).status == 421
    assert (await made.to("entry", "POST", f"submit/{label}", b"x" * 100, content_type=kind)).status == 413
    assert (await made.to("entry", "POST", f"submit/{label}", made.body(5), content_type="text/plain")).status == 415
    mixed: list[bytes] = sorted([made.body(0)[:128], *split_piece(made.body(7), 128)[1:]], key=capsule_digest)
    shared = b"".join(mixed)
    # One capsule is another request's; then more than the quota of one submission.
    source = {"source": "127.0.0.9"}
    path, fields = f"/relay/submit/{label}", {"content-type": kind}
    assert (await ask(made.ports["entry"], "POST", path, shared, fields, **source)).status == 409
    assert (await ask(made.ports["entry"], "POST", path, made.body(5), fields)).status == 429
    foreign = EntryCount(label=made.label, clients=0, received=bytes(32), capsules=1200, root=bytes(32)).signed(
        COORDINATOR
    )
    assert (await made.to("mix", "PUT", f"batch/{label}/count", foreign)).status == 403
    assert (await made.to("mix", "PUT", f"batch/{label}/0", b"x" * 128, content_type="a/b")).status == 415
    for role, name in (("entry", "mix_count"), ("mix", "entry_reveal")):
        assert (await made.to(role, "PUT", f"counts/{label}/{name}", b"nothing")).status == 400
    assert (await made.to("mix", "PUT", f"counts/{label}/mix_reveal", foreign)).status == 404
    assert (await made.to("mix", "GET", f"counts/{other}")).status == 404
    assert (await made.to("entry", "GET", "terms")).status == 200


def left_over(made: World) -> list[str]:
    """What of this round should not be in any file of the two relays any more."""
    data = {
        role: b"".join(
            file.read_bytes()
            for folder in (made.folder / role, made.folder / f"{role}-memory")
            for file in folder.rglob("*")
            if file.is_file()
        )
        for role in ("entry", "mix")
    }
    capsules = [one for client in range(CLIENTS) for one in split_piece(made.body(client), 128)]
    capsules += [one for piece in made.pieces.values() for one in split_piece(piece, INNER_BYTES)[:50]]
    found = [role for role, text in data.items() for one in capsules if one[32:48] in text]
    return found + [str(file) for file in made.folder.rglob("*.secret")]


#: Steps after which the process is killed; everything of the relay's own is done again from there.
ENTRY_STEPS = ("committed", "named", "closed", "part-0", "part-3", "counted", "announced", "piece", "taken")
ENTRY_ENDS = ("handed-on", "forgotten", "revealed", "silent", "told-entry-reveal")
MIX_STEPS = ("committed", "named", "opened-0", "part-0", "part-3", "counted", "announced", "piece", "taken")
MIX_ENDS = ("handed-on", "narrowed", "forgotten", "told-mix-count", "revealed", "silent", "told-mix-reveal")


@pytest.mark.parametrize(
    ("role", "steps"),
    [("entry", ENTRY_STEPS), ("entry", ENTRY_ENDS), ("mix", MIX_STEPS), ("mix", MIX_ENDS)],
    ids=["entry-first", "entry-last", "mix-first", "mix-last"],
)
def test_killed_after_every_named_step_the_round_comes_out_the_same(
    tmp_path: Path, role: str, steps: tuple[str, ...]
) -> None:
    async def main() -> None:
        other, chosen = "mix" if role == "entry" else "entry", steps[:: scaled(2, 1)]
        async with world(tmp_path) as made:
            made.start(other)
            made.start(role, halt_after=chosen[0])
            await made.announce()
            played = asyncio.ensure_future(rest_of_the_round(made))
            before = ""
            for step, following in zip(chosen, (*chosen[1:], None), strict=True):
                # Not every step halts: the life before, killed a moment late, may have taken this one too.
                if f'"stage":"{step}"' not in before:
                    await made.hear(role, "step", stage=step)
                made.lives[role].kill()
                before = made.lives[role].said
                made.start(role, **({} if following is None else {"halt_after": following}))
            check_outcome(made, await played)

    asyncio.run(main())


async def rest_of_the_round(made: World) -> dict[str, bytes]:
    """Devices that try until they have a receipt, and a clock that goes on when all have one."""
    made.go_to(made.instants.opens_at)
    for client in range(CLIENTS):
        async with asyncio.timeout(PATIENCE_S):
            while not await is_taken(made, client):  # noqa: ASYNC110  (another process is waited for)
                await asyncio.sleep(0.01)
    for instant in (made.instants.accept_until, made.instants.batch_by, made.instants.mix_by):
        made.go_to(instant)
    found: dict[str, bytes] = {}
    async with asyncio.timeout(2 * PATIENCE_S):
        while len(found) < 4:
            await asyncio.sleep(0.02)
            with contextlib.suppress(OSError, EOFError, AssertionError):
                told = await made.papers("entry")
                found = {name: data for name, data in told.items() if data is not None}
    return found


async def is_taken(made: World, client: int) -> bool:
    with contextlib.suppress(OSError, EOFError):
        return (await made.submit(client)).status == 200
    return False
