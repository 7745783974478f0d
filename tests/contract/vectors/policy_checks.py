"""Checks of the vectors of policies and witnesses: by the code of this package, the witness through its own doors."""

import asyncio
import hashlib
import io
import itertools
import tempfile
from pathlib import Path

from secvm.crypto.notes import Note, NoteKey, SignatureKind
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError
from secvm.protocol.log.policy import Listed, read_policy
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from secvm.witness.decision import KnownLog
from secvm.witness.server import WitnessDoors
from secvm.witness.store import WitnessStore
from tests.contract.vectors.reading import JSON, refused


def check_log_policies(content: JSON) -> None:
    for case in content["cases"]:
        policy = read_policy(case["file"].encode())
        assert policy.logs == tuple(Listed(NoteKey.from_text(key), url) for key, url in case["logs"])
        assert policy.witnesses == tuple(Listed(NoteKey.from_text(key), url) for key, url in case["witnesses"])
        # Name to key, as the lines have them.
        lines = [line.split() for line in case["file"].split("\n")]
        keys = {line[1]: NoteKey.from_text(line[2]).key for line in lines if line[:1] == ["witness"]}
        assert (policy.quorum is None) == (case["enough"] is None)
        for count in range(len(keys) + 1):
            for some in itertools.combinations(keys, count):
                expected = any(set(least) <= set(some) for least in case["enough"] or [])
                if policy.quorum is not None:
                    assert policy.quorum.met_by(keys[name] for name in some) == expected
        assert read_policy(policy.to_bytes()) == policy


def check_bad_log_policies(content: JSON) -> None:
    refused(content["cases"], lambda case: read_policy(case["file"].encode()), BadInputError)


def check_witness(content: JSON) -> None:
    key, clock = SigningKey(bytes.fromhex(content["seed"])), ManualClock(0)
    logs = [NoteKey.from_text(text) for text in content["logs"]]
    own = NoteKey(content["name"], key.public, SignatureKind.COSIGNATURE)

    async def main(store: WitnessStore) -> None:
        doors = WitnessDoors(
            store,
            {log.name: KnownLog(log.name, log) for log in logs},
            name=content["name"],
            key=key,
            clock=clock,
            log=Log(io.StringIO(), clock, "witness"),
            metrics=Metrics("witness"),
            waiting=1,
            retry_after_s=1,
        )

        async def ask(method: str, path: str, body: str = "") -> HttpResponse:
            answer = doors.handle(HttpRequest(method, path, "", {}, body.encode(), "127.0.0.1"))
            return answer if isinstance(answer, HttpResponse) else await answer

        for case in content["requests"]:
            clock.advance(1000 * case["time_s"] - clock.now())
            answer = await ask("POST", "/add-checkpoint", case["request"])
            assert answer.status == case["status"], case["why"]
            if case["answer"] is not None:
                assert (answer.media_type, answer.body.decode()) == (case["type"], case["answer"]), case["why"]
            if answer.status == 200:
                note = case["request"].partition("\n\n")[2] + case["answer"]
                assert own.check(Note.from_bytes(note.encode())) == case["time_s"]
        for case in content["newest"]:
            assert case["path"] == f"/{hashlib.sha256(case['origin'].encode()).hexdigest()}/checkpoint"
            assert (await ask("GET", case["path"])).body.decode() == case["checkpoint"]
        await doors.close()

    with tempfile.TemporaryDirectory() as folder:
        WitnessStore.create(Path(folder) / "store.db")
        store = WitnessStore(Path(folder) / "store.db")
        try:
            asyncio.run(main(store))
        finally:
            store.close()
