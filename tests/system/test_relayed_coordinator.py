"""A real coordinator process between two real relay processes; people's submissions are made by the test.

One clock is steered for all three. The coordinator asks both relays for commitments, announces a round, takes the
mixing relay's batch, asks for counts and reveals, opens the round and announces the next. It is killed on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secvm.coordinator.experiments.history import first_blobs
from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.main import initialise
from secvm.coordinator.store.port import Standing, StoredExperiment
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.signing import SigningKey
from secvm.learning import aggregate
from secvm.protocol.documents.blobs import decode_tally
from secvm.protocol.documents.experiment import ExperimentDocument, publish
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.batches.counts import MixCount
from secvm.protocol.relays.batches.label import capsule_digest
from secvm.protocol.relays.counting.recount import Recount, ShardTally
from secvm.protocol.relays.counting.shards import read_run
from secvm.protocol.relays.judgement import clients_of, following_faults, is_opened
from secvm.protocol.relays.manifest import Instants, RelayedManifest, read_manifest
from secvm.protocol.relays.opening import Opening, read_opening
from secvm.runtime.disk.secret_files import read_secret
from secvm.testing.processes import free_port
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.conftest import ROOT
from tests.system.test_two_relays import PATIENCE_S, TOKEN, World
from tests.unit.coordinator.rounds import until
from tests.unit.coordinator.two_relays import packages_of, submission
from tests.unit.relay.helpers import ask, toml

CLIENTS = 5


@dataclass
class Whole(World):
    """Both relays, and a coordinator that is a process too."""

    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self.coordinator = self.folder / "coordinator"
        initialise(self.coordinator)
        self.key = SigningKey(read_secret(self.coordinator / "state" / "signing.key"))
        self.digest = self.document.digest
        store = SQLiteStore(self.coordinator / "state" / "coordinator.sqlite")
        envelope, own = publish(self.document, keys=(self.key,)), OwnSettings(early_stopping=None)
        stored = StoredExperiment(self.digest, envelope, own.model_dump_json().encode(), Standing.RUNNING)
        store.add_experiment(stored, first_blobs(self.document))
        store.close()
        self._write_settings()

    @property
    def document(self) -> ExperimentDocument:
        named = super().document
        return relayed_document(
            experiment=named.experiment, relays=named.relays, privacy=named.privacy, rounds=2, test=True,
            coordinator_keys=(self.key.public,),
        )  # fmt: skip

    @property
    def instants(self) -> Instants:
        assert self.manifest is not None
        return self.manifest.instants

    def _write_settings(self) -> None:
        tables: dict[str, dict[str, Any]] = {
            "listen": {"port": self.port},
            "state": {"folder": "state"},
            "public": {"folder": "public"},
            "epochs": {"period_s": 1200, "lead_s": 60},
            "testing": {"clock": self.folder / "clock"},
        }
        relays = "".join(
            f'[[relays]]\nname = "{role}"\ntoken_sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"\n'
            f'url = "{self.relay_url(role)}"\ntoken_file = "{self.folder / "token"}"\n'
            for role in self.ports
        )
        (self.coordinator / "coordinator.toml").write_text(toml(tables) + relays, encoding="utf-8")

    async def start_coordinator(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "secvm.cli.main", "coordinator", "serve"),
            *("--config", str(self.coordinator / "coordinator.toml")),
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdout=DEVNULL,
            stderr=PIPE,
        )
        self.lives["coordinator"] = process
        self.said.setdefault("coordinator", bytearray())
        await self.hear("coordinator", "listening")

    def body(self, client: int) -> bytes:
        assert self.manifest is not None
        in_order: list[bytes] = sorted(submission(self.document, self.manifest, client), key=capsule_digest)
        return b"".join(in_order)

    async def public(self, path: str, *, below: str = "/v1") -> bytes:
        """What the coordinator shows, once it does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError, EOFError):
                    answer = await ask(self.port, "GET", f"{below}/{path}")
                    if answer.status == 200:
                        return answer.body
                await asyncio.sleep(0.05)

    async def of_experiment(self, path: str) -> bytes:
        return await self.public(f"experiment/{self.digest}/{path}")

    async def announced(self, number: int) -> RelayedManifest:
        """The manifest of a round, which both relays have named."""
        self.manifest = read_manifest(await self.of_experiment(f"manifest/{number}"), self.document)
        for role in ("entry", "mix"):
            await self.hear(role, "step", stage="named", round=number)
        return self.manifest


@contextlib.asynccontextmanager
async def whole(folder: Path) -> AsyncIterator[Whole]:
    made = Whole(folder)
    try:
        yield made
    finally:
        for name in list(made.lives):
            await made.kill(name)
        # Shown where the test fails.
        print(*(said.decode() for said in made.said.values()), sep="\n")


def test_a_round_goes_from_commitments_to_its_opening_through_three_processes(tmp_path: Path) -> None:
    async def main() -> None:
        async with whole(tmp_path) as made:
            await made.start_coordinator()
            await made.hear("coordinator", "round-waits")
            for role in ("entry", "mix"):
                await made.start(role)
            first = await made.announced(1)
            # Relays find the same below /v2.
            assert await made.public(f"experiment/{made.digest}/manifest/1", below="/v2") == await made.of_experiment(
                "manifest/1"
            )
            made.go_to(first.instants.opens_at)
            for client in range(CLIENTS):
                assert (await made.submit(client)).status == 200
            # The coordinator is away while the entry relay hands on, and comes back for the batch.
            await made.kill("coordinator")
            for instant in (first.instants.accept_until, first.instants.batch_by, first.instants.mix_by):
                made.go_to(instant)
            await made.start_coordinator()
            opening = read_opening(await made.of_experiment("opening/1"), made.document)
            assert is_opened(opening, first, made.document)
            assert clients_of(opening) == CLIENTS
            await made.kill("coordinator")
            await made.start_coordinator()
            assert read_opening(await made.of_experiment("opening/1"), made.document) == opening
            await check_counts(made, opening.tally, MixCount.enclosed(opening.mix_count or b""))
            await check_capsules(made, first, opening)
            second = await made.announced(2)
            assert following_faults(second, first, opening, made.document) == ()
            told = json.loads(await made.of_experiment("status"))["rounds"][0]
            assert told["stepped"] == (second.model != first.model)
            lines = bytes(made.said["coordinator"])
            assert b"refused" not in lines

    asyncio.run(main())


async def check_capsules(made: Whole, manifest: RelayedManifest, opening: Opening) -> None:
    """The capsules are served, hash to the digests, and give the sub-tally that the opening is bound to; the public
    folder has the same, also after the coordinator was killed.
    """
    recount, served = Recount.of(made.document, manifest, opening), dict[str, bytes]()
    for path in ("shards/1", "shard/1/0", "capsules/1/0", "tally/1/0"):
        served[path] = await made.of_experiment(path)
    capsules = served["capsules/1/0"]
    run = read_run(served["shard/1/0"], shard=0, capsules=recount.capsules)
    assert [capsule_digest(capsules[at : at + 80]) for at in range(0, len(capsules), 80)] == list(run.digests)
    recount.check(run, capsules, ShardTally.from_bytes(served["tally/1/0"]))
    public = made.coordinator / "public" / "v1" / "experiment" / made.digest
    await asyncio.wait_for(until(lambda: all((public / path).is_file() for path in served)), PATIENCE_S)
    assert {path: (public / path).read_bytes() for path in served} == served


async def check_counts(made: Whole, tally: str | None, count: MixCount) -> None:
    """Shards lead to the mixing relay's root, the tally holds everybody, and the status tells figures."""
    prefixes, shard = await made.of_experiment("shards/1"), await made.of_experiment("shard/1/0")
    hashes = shard[0]
    digests = [shard[at : at + 32] for at in range(1 + 32 * hashes, len(shard), 32)]
    assert (len(digests), capsule_root(digests), hashes) == (count.capsules, count.root, 0)
    assert prefixes == digests[0][:8]
    assert tally is not None
    net = decode_tally(await made.public(f"blob/{tally}"), digest=tally, experiment=made.document.experiment)
    own = aggregate.empty_tally(made.document.experiment)
    for client in range(CLIENTS):
        own = own.count(packages_of(client, made.document.budget))
    assert (net.plus >= own.plus).all()
    assert (net.participants >= own.participants).all()
    told = json.loads(await made.of_experiment("status"))["rounds"][0]
    expected = {"state": "opened", "clients": CLIENTS, "junk": 0, "refused": 0}
    assert {name: told[name] for name in expected} == expected
    # Of so few people noise may leave nobody.
    assert (told["stepped"], told["reasons"]) in ((True, []), (False, ["nobody-left-without-cover"]))
    assert told["packages"] == told["capsules"] == count.capsules
