"""A specification handed to a running coordinator becomes an experiment with two relays, driven without a restart.

Coordinator and relays are processes; their clock is steered. The operator pauses, resumes and stops over the API, and
reads what became of it on the command line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.relays.manifest import RelayedManifest, read_manifest
from secvm.protocol.relays.opening import read_ending
from secvm_lab.rigs.histories.relayed_rounds import START
from tests.system.test_relayed_coordinator import Whole, whole
from tests.unit.relay.helpers import ask

KEY = "key-of-the-operator"


def specification(made: Whole) -> dict[str, Any]:
    """Small enough to be planned and sealed in seconds."""
    return {
        "title": "A question of two relays",
        "labels": ["a", "b"],
        "people": 8,
        "floor": 2,
        "rounds": 3,
        "test": True,
        "features": {"source": "words", "per_participant": 4},
        "binning": {"bins": 10},
        "privacy": {"epsilon": 4, "delta": "1/100", "parts": 4},
        "windows": {
            "length_s": 600,
            "grace_s": 60,
            "first_opening": START,
            **dict.fromkeys(("batch_s", "mix_s", "reveal_s", "open_s"), 60),
        },
        "relays": [
            {
                "role": role,
                "url": made.relay_url(role),
                "key": made.keys[role].public.data.hex(),
                "operator": f"Operator of {role}",
            }
            for role in ("mix", "entry")
        ],
    }


async def order(made: Whole, path: str = "", content: object = None) -> dict[str, Any]:
    """What the operator's API answers."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    body = json.dumps({} if content is None else content).encode()
    answer = await ask(made.port, "POST", f"/admin/experiments{path}", body, headers)
    assert answer.status in (200, 201), answer.body
    told: dict[str, Any] = json.loads(answer.body)
    return told


async def manifest(made: Whole, of: ExperimentDocument, number: int) -> RelayedManifest:
    return read_manifest(await made.public(f"experiment/{of.digest}/manifest/{number}"), of)


async def shows(made: Whole, of: ExperimentDocument, path: str) -> bool:
    return (await ask(made.port, "GET", f"/v1/experiment/{of.digest}/{path}")).status == 200


def test_a_running_coordinator_drives_what_its_operator_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> tuple[str, ExperimentDocument]:
        async with whole(tmp_path) as made:
            (made.coordinator / "state" / "admin.sha256").write_text(hashlib.sha256(KEY.encode()).hexdigest() + "\n")
            await made.start_coordinator()
            for role in ("entry", "mix"):
                await made.start(role)
            told = await order(made, content=specification(made))
            assert told["privacy"]["kind"] == "relays"
            # Both relays have a token in the coordinator's settings: only the outlook is remarked upon.
            assert [one.partition(":")[0] for one in told["remarks"]] == ["Private, and no usable model"]
            digest = told["digest"]
            of = read_published(await made.public(f"experiment/{digest}"), digest=digest)
            assert [relay.role for relay in of.relays] == ["entry", "mix"]
            first = await manifest(made, of, 1)
            assert (await order(made, f"/{digest}/pause"))["standing"] == "paused"
            # The round that runs ends, and no other follows while it is paused.
            made.go_to(first.instants.open_by)
            await made.public(f"experiment/{digest}/opening/1")
            assert not await shows(made, of, "manifest/2")
            assert (await order(made, f"/{digest}/resume"))["standing"] == "running"
            second = await manifest(made, of, 2)
            assert (await order(made, f"/{digest}/stop"))["standing"] == "stopped"
            assert not await shows(made, of, "ending")
            made.go_to(second.instants.open_by)
            ending = read_ending(await made.public(f"experiment/{digest}/ending"), of)
            assert (ending.why, ending.round_number) == ("stopped", 2)
            shown = ["experiment", "show", digest[:8], "--coordinator", made.url]
            assert await asyncio.to_thread(run, shown) == 0
            return digest, of

    digest, of = asyncio.run(main())
    said = capsys.readouterr().out
    assert f"{digest}  stopped" in said
    assert "private: ε = 4 at δ = 0.01 over all rounds; a guarantee as long as one of Operator of entry" in said
    assert "round 1 is unopened: missing-" in said
    assert of.rounds == 3
