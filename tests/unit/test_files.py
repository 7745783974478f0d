"""Files that appear whole: what is durable when a write returns."""

import os
import stat
from pathlib import Path

import pytest

from secvm.files import write_together


def test_repro_folders_are_synced_after_the_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {tmp_path / name: name.encode() for name in ("a/first", "a/second", "b/third")}
    for place in places:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"old")
    synced: list[tuple[str, list[bytes]]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            folder = next(
                f for f in (tmp_path / "a", tmp_path / "b") if os.path.samestat(f.stat(), os.fstat(descriptor))
            )
            synced.append((folder.name, [place.read_bytes() for place in places]))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_together(places)
    assert sorted(synced) == [("a", list(places.values())), ("b", list(places.values()))]
