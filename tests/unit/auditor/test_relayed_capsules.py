"""What an audit tells of packages that it counted again, and of those that are gone."""

import random
from pathlib import Path

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import FolderFiles, GivenFiles
from secvm.auditor.findings import FaultKind
from secvm.auditor.relayed.recounter import OpenedRound, ServedShard, ShardVerdict, judge_shard
from secvm.auditor.report import Report
from secvm.cli.audit.text import report_text
from secvm.protocol.documents.experiment import publish
from secvm.protocol.relays.shards import DAY_MS, LEAST_DAYS
from secvm_lab.rigs.histories.audited_history import AuditedHistory, draw_told
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR
from secvm_lab.rigs.histories.sealed_round import SealedRound
from tests.unit.auditor.histories import lay_out


@pytest.fixture(scope="module")
def made() -> AuditedHistory:
    """Two opened rounds, sealed to the last capsule."""
    made = AuditedHistory("recounted")
    for clients in (2, 4):
        told = draw_told(random.Random(clients), made.document, clients)
        made.announce(sealed=True, clients=clients, told=told)
        made.conclude()
    return made


def audited(made: AuditedHistory, *, without: str = "nothing", later_ms: int = 0, snapshot: bool = False) -> Report:
    files = {path: data for path, data in made.files.items() if without not in path}
    return audit_files(GivenFiles(files), now=made.now + later_ms, snapshot=snapshot)


def test_report_tells_how_many_packages_were_counted_again(made: AuditedHistory) -> None:
    report = audited(made)
    packages = 7 * (2 + 4) + 2 * 2 * 160
    assert report.ok
    assert report.recounted == (packages, 2)
    content = report.to_content()
    assert (content["recounted"], content["rounds_recounted"]) == (packages, 2)
    assert content["experiments"][0]["capsules_gone"] == []
    assert [one["relays"]["recounted"] for one in content["rounds"]] == [7 * 2 + 320, 7 * 4 + 320]
    text = report_text(report)
    assert f"recount  {packages} packages in 2 rounds\n" in text
    assert f"{packages} packages counted again in 2 rounds; nothing found." in text


def test_capsules_of_a_round_whose_time_is_over_may_be_gone(made: AuditedHistory) -> None:
    first = made.rounds[0].manifest.instants.open_by
    later = first + LEAST_DAYS * DAY_MS - made.now
    for name in ("/shard/1/", "/1/0"):
        report = audited(made, without=name, later_ms=later)
        assert report.faults == []
        assert report.recounted[1] == 1
        assert report.to_content()["experiments"][0]["capsules_gone"] == [1]
        assert "; capsules gone of round 1" in report_text(report)
        assert any("capsules of some rounds" in sentence for sentence in report.not_checked)


def test_capsules_that_are_gone_too_early_are_withheld_unless_it_is_a_copy(made: AuditedHistory) -> None:
    later = made.rounds[0].manifest.instants.open_by + LEAST_DAYS * DAY_MS - made.now
    early = audited(made, without="/1/0", later_ms=later - 1)
    assert [(fault.kind, fault.round_number) for fault in early.faults] == [(FaultKind.WITHHELD, 1)]
    assert audited(made, without="/1/0", snapshot=True).faults == []
    # In part it is withheld at any time: they have one life.
    late = audited(made, without="/capsules/1/", later_ms=100 * LEAST_DAYS * DAY_MS, snapshot=True)
    assert [fault.kind for fault in late.faults] == [FaultKind.WITHHELD]


def test_round_that_is_forgotten_while_it_is_read_is_gone_and_not_withheld(made: AuditedHistory) -> None:
    class Forgetting(GivenFiles):
        """Loses the first round's shards after their digests were read once."""

        def get(self, path: str, *, most: int) -> bytes | None:
            found = super().get(path, most=most)
            if path.endswith("/shard/1/0"):
                files.pop(path, None)
                files.pop(path.replace("/shard/", "/capsules/"), None)
            return found

    files = dict(made.files)
    later = made.rounds[0].manifest.instants.open_by + LEAST_DAYS * DAY_MS
    report = audit_files(Forgetting(files), now=later)
    assert report.faults == []
    assert report.to_content()["experiments"][0]["capsules_gone"] == [1]


def test_any_bytes_as_a_shards_files_show_something(made: AuditedHistory) -> None:
    told = made.rounds[-1]
    assert isinstance(told, SealedRound)
    opened = OpenedRound(publish(told.document, keys=(COORDINATOR,)), told.manifest.data, told.opening.data)
    public = told.public()
    run, capsules, tally = (public[f"{name}/2/0"] for name in ("shard", "capsules", "tally"))
    assert judge_shard(opened, ServedShard(0, run, capsules, tally)).verdict is ShardVerdict.TRUE
    cases: dict[ShardVerdict, list[tuple[bytes | None, bytes | None, bytes | None]]] = {
        ShardVerdict.RUN: [(b"", capsules, tally), (run[:-1], capsules, tally), (b"\xff" + run, capsules, tally)],
        ShardVerdict.CAPSULES: [
            (run, b"", tally),
            (run, capsules[:-1], tally),
            (run, capsules[80:] + bytes(80), tally),
        ],
        ShardVerdict.TALLY: [(run, capsules, b""), (run, capsules, b"\0"), (run, capsules, tally + bytes(16))],
        ShardVerdict.NOT_SERVED: [(None, capsules, tally), (run, None, tally), (run, capsules, None)],
    }
    for shown, files in cases.items():
        assert {judge_shard(opened, ServedShard(0, *one)).verdict for one in files} == {shown}
    # Another number than its own is another place under both roots.
    assert judge_shard(opened, ServedShard(1, run, capsules, tally)).verdict is ShardVerdict.RUN


def test_folder_of_a_coordinator_is_counted_again_too(made: AuditedHistory, tmp_path: Path) -> None:
    report = audit_files(FolderFiles(lay_out(made.files, tmp_path)), now=made.now, snapshot=True)
    assert report.faults == []
    assert report.recounted[1] == 2
