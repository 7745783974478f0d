"""A coordinator's public files by what a person types: a URL, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secvm.auditor.files import PublicFiles


def open_files(where: str) -> tuple[PublicFiles, bool]:
    """Public files at a URL or in a folder; and whether they are a copy of some time ago."""
    from secvm.auditor.files import FolderFiles, WebFiles
    from secvm.runtime.clock import SystemClock

    if "://" in where:
        return WebFiles(where, SystemClock()), False
    return FolderFiles(Path(where)), True
