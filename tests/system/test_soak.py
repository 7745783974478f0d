"""A soak in miniature: a real coordinator, sockets, a few epochs."""

from pathlib import Path

from secvm_lab.cli.dev.searches import judged
from secvm_lab.soak import Soak


def test_a_short_soak_counts_what_it_acknowledges_epoch_after_epoch(tmp_path: Path) -> None:
    with Soak(tmp_path, rate=1000, batch=50) as soak:
        soak.begin_rounds(10)
        samples = [soak.play(number, seconds=0.3) for number in (1, 2, 3)]
    assert [one.acknowledged for one in samples] == [one.counted for one in samples] == [300, 300, 300]
    assert all(one.rss_mb > 10 and one.descriptors > 3 and one.disk_mb > 0 and one.p99_ms > 0 for one in samples)
    assert judged(samples)["faults"] == []
