"""A witness on real sockets: C2SP's statuses, what anybody may look at, and nothing that makes it fall over."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.protocol.log.checkpoints import Checkpoint, read_checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from tests.unit.relay.helpers import Answered, ask
from tests.unit.witness.worlds import (
    FACES,
    LOG,
    ORIGIN,
    START_S,
    Place,
    another,
    are_a_chain,
    checkpoint,
    request,
    running,
)


def name_of(origin: str) -> str:
    """What a line of the witness's own log calls a log."""
    return hashlib.sha256(origin.encode()).hexdigest()


async def test_the_doors_answer_what_is_asked_of_them_and_nothing_larger(tmp_path: Path) -> None:
    """What is answered to every kind of request is in ``vectors/v2/witness.json``, which the contract tests ask."""
    async with running(Place(tmp_path)) as witness:
        for body, status in ((request("a", 0, 7), 200), (request("a", 0, 9), 409), (b"x" * 70_000, 413)):
            assert (await witness.submit(body)).status == status
        for method, path, status in (
            ("GET", "/add-checkpoint", 405),
            ("POST", "/v1/seen", 405),
            ("GET", "/", 404),
            ("GET", "/health", 200),
            ("GET", "/metrics", 200),
        ):
            assert (await ask(witness.port, method, path)).status == status


async def test_repro_a_stranger_does_not_fill_the_log_with_bad_proofs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running(place) as witness:
        assert (await witness.submit(request("a", 0, 7))).status == 200
        assert (await witness.submit(request("a", 0, 7, origin=another(5)))).status == 200

        async def bad_proofs(body: bytes = request("b", 7, 9)) -> int:
            for _ in range(3):
                assert (await witness.submit(body)).status == 422
            return witness.log.getvalue().count('"event":"bad-proof"')

        assert await bad_proofs() == 1
        # Another origin has a line of its own.
        assert await bad_proofs(request("b", 7, 9, origin=another(5))) == 2
        place.go_to(START_S + 59)
        assert await bad_proofs() == 2
        place.go_to(START_S + 60)
        assert await bad_proofs() == 3
        metrics = (await ask(witness.port, "GET", "/metrics")).body
        assert b'secvm_witness_refused_total{reason="bad-proof"} 12.0' in metrics


async def test_repro_health_and_metrics_are_not_answered_under_a_strangers_name(tmp_path: Path) -> None:
    async with running(Place(tmp_path)) as witness:
        for path, status in (("/health", 421), ("/metrics", 421), ("/v1/seen", 200)):
            assert (await ask(witness.port, "GET", path, headers={"host": "evil.example"})).status == status


async def test_a_cosignature_says_the_time_and_a_renewal_a_later_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running(place) as witness:
        first = request("a", 0, 7)
        assert place.cosigned(await witness.submit(first), first).times([place.key]) == {place.key: START_S}
        seen = json.loads((await ask(witness.port, "GET", "/v1/seen")).body)["seen"]
        assert [one["time"] for one in seen] == [START_S]
        place.go_to(START_S + 600)
        again = request("a", 7, 7)
        assert place.cosigned(await witness.submit(again), again).times([place.key]) == {place.key: START_S + 600}
        seen = json.loads((await ask(witness.port, "GET", "/v1/seen")).body)["seen"]
        assert [one["time"] for one in seen] == [START_S + 600]
    assert witness.log.getvalue().count(f'"event":"cosigned","size":7,"digest":"{name_of(ORIGIN)}"') == 1


async def test_a_fork_is_told_counted_and_shown_with_both_notes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    origin = another(5)
    async with running(place) as witness:
        assert (await witness.submit(request("a", 0, 7, origin=origin))).status == 200
        refused = await witness.submit(request("b", 7, 7, origin=origin))
        assert refused.status == 422
        # A size is for whoever asks again from there.
        assert refused.fields["content-type"] == "text/plain; charset=utf-8"
        metrics = (await ask(witness.port, "GET", "/metrics")).body
        assert b'secvm_witness_refused_total{reason="fork"} 1.0' in metrics
        assert b'secvm_witness_cosigned_total{growth="first"} 1.0' in metrics
        # The log goes on as it was cosigned.
        assert (await witness.submit(request("a", 7, 9, origin=origin))).status == 200
    assert f'"event":"fork","size":7,"digest":"{name_of(origin)}"' in witness.log.getvalue()
    async with running(place) as witness:
        shown = json.loads((await ask(witness.port, "GET", "/v1/seen")).body)
    assert NoteKey.from_text(shown["witness"]) == place.key
    assert place.key.kind is SignatureKind.COSIGNATURE
    (fork,) = shown["forks"]
    log = NoteKey(origin, LOG.public)
    notes = [read_checkpoint(fork[which].encode(), log=log).checkpoint for which in ("cosigned", "refused")]
    assert notes == [checkpoint("a", 7, origin), checkpoint("b", 7, origin)]
    (seen,) = shown["seen"]
    assert (seen["origin"], seen["size"]) == (origin, 9)
    assert Checkpoint(origin, 9, FACES["a"].root(9)).to_text().endswith(f"\n{seen['root']}\n")


async def test_the_newest_of_a_log_is_shown_under_both_signatures_to_whoever_watches_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = f"/{name_of(ORIGIN)}/checkpoint"

    async def shown() -> bytes:
        answer = await ask(witness.port, "GET", path, headers={"host": "witness.example"})
        assert answer.status == 200
        assert answer.fields["content-type"] == "text/plain; charset=utf-8"
        assert answer.fields["cache-control"] == "max-age=5"
        return answer.body

    newest = b""
    async with running(place) as witness:
        assert (await ask(witness.port, "GET", path)).status == 404
        for body in (request("a", 0, 7), request("a", 7, 7), request("a", 7, 9)):
            place.go_to(START_S + len(body))
            newest = place.cosigned(await witness.submit(body), body).data
            assert await shown() == newest
        assert (await witness.submit(request("b", 9, 9))).status == 422
        assert await shown() == newest
        assert (await ask(witness.port, "POST", path)).fields["allow"] == "GET"
        for other in (another(3), "elsewhere.example"):
            assert (await ask(witness.port, "GET", f"/{name_of(other)}/checkpoint")).status == 404
        for wrong in (path.upper(), path + "/", path[:-1], f"/{ORIGIN}/checkpoint"):
            assert (await ask(witness.port, "GET", wrong)).status == 404
    async with running(place) as witness:
        assert await shown() == newest


async def test_of_many_at_once_one_history_is_cosigned(tmp_path: Path) -> None:
    place = Place(tmp_path)
    found: dict[str, list[Checkpoint]] = {}
    for _ in range(3):
        async with running(place) as witness:
            bodies = [
                request(face, old, size, origin=another(number))
                for number in range(3)
                for old, size in ((0, 6), (6, 8), (6, 7), (7, 8), (8, 12))
                for face in "ab"
            ]
            answers = await asyncio.gather(*map(witness.submit, bodies))
            assert {answer.status for answer in answers} <= {200, 409, 422}
            for body, answer in zip(bodies, answers, strict=True):
                if answer.status == 200:
                    new = place.cosigned(answer, body).checkpoint
                    found.setdefault(new.origin, []).append(new)
    assert len(found) == 3
    for chain in found.values():
        assert max(one.size for one in chain) == 12
        assert are_a_chain(chain)


async def test_more_than_can_wait_come_again_later(tmp_path: Path) -> None:
    async with running(Place(tmp_path), limits={"waiting": 1, "retry_after_s": 9}) as witness:
        bodies = [request("a", 0, 7, origin=another(number)) for number in range(20)]
        tasks = {asyncio.ensure_future(witness.submit(body)) for body in bodies}
        # A disk that takes its time.
        with witness.store._lock:
            answered: set[asyncio.Future[Answered]] = set()
            # Were there room for all, nobody would be answered.
            async with asyncio.timeout(20):
                while len(answered) < 19:
                    done, _ = await asyncio.wait(tasks - answered, return_when=asyncio.FIRST_COMPLETED)
                    answered |= done
        assert {task.result().status for task in answered} == {503}
        assert {task.result().fields["retry-after"] for task in answered} == {"9"}
        assert [(await task).status for task in tasks - answered] == [200]


async def test_a_disk_that_fails_is_no_cosignature(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running(place) as witness:
        assert (await witness.submit(request("a", 0, 3))).status == 200
        doors_store = witness.store
        doors_store._db.execute("PRAGMA query_only = ON")
        answer = await witness.submit(request("a", 3, 7))
        assert (answer.status, answer.body) == (503, b"Come again later.\n")
        doors_store._db.execute("PRAGMA query_only = OFF")
        assert (await witness.submit(request("b", 3, 7))).status == 200
    assert '"event":"not-stored"' in witness.log.getvalue()


async def test_keys_of_note_lines_are_not_the_logs_own(tmp_path: Path) -> None:
    """A witness whose key is a log's would cosign for itself."""
    place = Place(tmp_path)
    (tmp_path / "key").unlink()
    (tmp_path / "key").write_bytes(LOG.seed.hex().encode())
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ValueError, match="its own witness"):
        async with running(place):
            pass


async def test_a_long_note_of_many_lines_is_answered(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running(place) as witness:
        note = checkpoint("a", 7).sign(LOG)
        stranger = b"\xe2\x80\x94 x " + b"A" * 800 + b"\n"
        body = CosigningRequest(0, (), note + stranger * 60).to_bytes()
        place.cosigned(await witness.submit(body), body)
        assert len(body) > 40_000
    assert (tmp_path / "store.db").stat().st_size < 40_000
