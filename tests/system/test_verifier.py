"""The stranger's verifier: it agrees with vectors, auditor and itself, and refuses whatever a liar publishes."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.crypto.signing import Envelope, sign
from secvm.learning.experiment import Robust
from secvm.protocol.canonical import digest_of
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_told
from secvm_lab.rigs.histories.relayed_rounds import STRANGER, relayed_document
from secvm_lab.rigs.lies.about_relays import RELAYED_LIES
from secvm_lab.rigs.lies.about_shards import COUNT_LIES
from tests.seeds import seed_for
from tests.serving import serving
from tests.system.verifying import HARNESSES, PROGRAM, judge_all, run_node, verify
from tests.unit.auditor.histories import history, lay_out

#: Of the lies about relays, the one that only a relay's own door shows: the program asks no doors.
AT_DOORS = {"second_count_at_the_door"}
#: Long after the packages of light rounds, which have none to show, were to be kept.
LATER = 4_000_000_000_000


def sealed(name: str, clients: tuple[int, ...] = (8, 2)) -> AuditedHistory:
    """Rounds sealed to the last capsule, to the end, and all files that a coordinator shows of them."""
    asks = relayed_document(operator="Uni", contact="study@uni.example", purpose="To see whether words tell.")
    dice, made = random.Random(seed_for(name)), AuditedHistory(name, asks)
    for number in clients:
        made.announce(sealed=True, clients=number, told=draw_told(dice, made.document, number))
        made.conclude()
    made.end()
    return made


@pytest.fixture(scope="module")
def private() -> AuditedHistory:
    return sealed("private")


# ── what is true is taken ────────────────────────────────────────────────────────────────────────────────────────────


def test_vectors_agree() -> None:
    ran = run_node(HARNESSES / "vectors.js")
    assert ran.returncode == 0, ran.stderr
    agreed = json.loads(ran.stdout)
    assert len(agreed) == 26
    assert agreed["weights"] == 36
    assert agreed["parts"] == 6


def test_private_experiment_is_recounted_and_gives_the_auditors_model(private: AuditedHistory, tmp_path: Path) -> None:
    report = audit_files(GivenFiles(private.files), now=private.now)
    assert not report.faults
    code, said = verify(lay_out(private.files, tmp_path))
    assert (code, said["digest"]) == (0, private.model.names[2])
    assert said["recounted"] == sum(len(opened.mixed) for opened in private.rounds)
    assert (said["rounds"], said["replayed"]) == (2, report.steps_replayed)


@pytest.mark.parametrize("seed", range(6))
def test_plain_experiment_is_replayed_and_gives_the_auditors_model(seed: int, tmp_path: Path) -> None:
    made = history(seed, rounds=4, end=seed % 2 == 0)
    report = audit_files(GivenFiles(made.files), now=made.now)
    assert not report.faults
    code, said = verify(lay_out(made.files, tmp_path))
    assert (code, said["replayed"]) == (0, report.steps_replayed)
    assert said["digest"] == digest_of(made.weights(made.state)[1].to_bytes())


def test_over_http_it_says_the_same_and_a_server_that_is_away_is_no_liar(
    private: AuditedHistory, tmp_path: Path
) -> None:
    with serving(private.files) as server:
        over_http = verify(server.url)
        server.answer = lambda _: (500, {}, b"")
        assert verify(server.url)[0] == 2
    assert over_http == verify(lay_out(private.files, tmp_path))
    assert run_node(PROGRAM, str(tmp_path / "nowhere")).returncode == 2


def test_unopened_rounds_and_experiments_that_run_are_told(tmp_path: Path) -> None:
    made = AuditedHistory("runs")
    made.announce(sealed=True, clients=3)
    made.conclude(lost=3)
    made.announce(sealed=True, clients=3)
    code, said = verify(lay_out(made.files, tmp_path))
    assert (code, said["rounds"], said["recounted"]) == (0, 2, 0)
    assert "how it goes on: it is not over" in said["not_checked"]


def test_robust_rounds_are_named_as_not_replayed(tmp_path: Path) -> None:
    made = history(3, rounds=2, experiment=replace(history(3).document.experiment, robust=Robust(clip=Fraction(1))))
    code, said = verify(lay_out(made.files, tmp_path))
    assert (code, said["replayed"]) == (0, 0)
    assert "robust rounds (§6.8) are not replayed" in said["not_checked"]


# ── what is false is refused ─────────────────────────────────────────────────────────────────────────────────────────


def kinds_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Of each kind of file that the program reads, the path of one; later ones of a kind stand for it."""
    kinds = {}
    for path in files:
        parts = path.split("/")
        kinds["experiment" if len(parts) == 4 and parts[2] == "experiment" else "/".join(parts[4:5] or parts[2:3])] = (
            path
        )
    return kinds


def spoilt(data: bytes, dice: random.Random) -> Iterator[bytes]:
    """A file with a bit flipped at both ends and somewhere; cut; emptied; longer; its halves swapped."""
    for at in (0, dice.randrange(len(data)), len(data) - 1):
        yield data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
    half = len(data) // 2
    yield from (data[:-1], data[:half], b"", data + b"\0", data[half:] + data[:half])


def test_every_kind_of_file_spoilt_or_withheld_is_refused(private: AuditedHistory, tmp_path: Path) -> None:
    dice, kinds = random.Random(seed_for("spoilt")), kinds_of(private.files)
    assert {"experiment", "manifest", "opening", "ending", "blob", "shard", "capsules", "tally"} <= set(kinds)
    changed = {path: list(spoilt(private.files[path], dice)) for kind, path in kinds.items() if kind != "experiments"}
    named = {f"/v1/blob/{name}" for name in (*private.model.names, private.openings[-1].tally or "")}
    changed |= {path: [private.files[path][:-1] + b"\x01"] for path in named}
    cases: list[dict[str, bytes | None]] = [{path: data} for path, variants in changed.items() for data in variants]
    cases += [{path: None} for kind, path in kinds.items() if kind not in ("ending", "experiments")]
    folder = lay_out(private.files, tmp_path / "public")
    said = judge_all(folder, [{}, *cases], tmp_path / "cases.json", now=LATER)
    assert said[0]["verdict"] == "ok"
    taken = [list(case) for case, one in zip(cases, said[1:], strict=True) if one["verdict"] == "ok"]
    assert taken == []


@pytest.mark.parametrize("name", sorted(COUNT_LIES))
def test_lie_about_a_count_is_refused_and_named(name: str, tmp_path: Path) -> None:
    dice = random.Random(seed_for(f"verified {name}"))
    scenes = [COUNT_LIES[name].told(dice) for _ in range(3)]
    (tmp_path / "empty").mkdir()
    cases = [dict[str, bytes | None](scene.files) for scene in scenes]
    said = judge_all(tmp_path / "empty", cases, tmp_path / "cases.json", now=scenes[0].now)
    assert [one["code"] for one in said] == [1] * len(scenes)
    assert all(one["fault"].startswith("round 2: ") for one in said)


def test_every_lie_about_relays_is_refused(tmp_path: Path) -> None:
    names = sorted(set(RELAYED_LIES) - AT_DOORS)
    told = {name: RELAYED_LIES[name].tell() for name in names}
    (tmp_path / "empty").mkdir()
    taken = []
    for name, made in told.items():
        # Light rounds have no packages that could be shown: they are looked at when those may be gone.
        now = made.now if made.shows_capsules else LATER
        (one,) = judge_all(tmp_path / "empty", [dict(made.files)], tmp_path / "cases.json", now=now)
        taken += [name] if one["code"] != 1 else []
    assert taken == []


def test_document_of_a_stranger_is_refused(private: AuditedHistory, tmp_path: Path) -> None:
    place = private.place
    cases: list[dict[str, bytes | None]] = []
    for path, purpose in (("manifest/2", "manifest"), ("opening/1", "opening"), ("ending", "ending")):
        payload = Envelope.from_bytes(private.files[f"{place}/{path}"]).payload
        cases.append({f"{place}/{path}": sign(payload, purpose=f"secvm-v2-{purpose}", keys=(STRANGER,))})
    said = judge_all(lay_out(private.files, tmp_path / "public"), cases, tmp_path / "cases.json", now=LATER)
    assert [one["code"] for one in said] == [1, 1, 1]
