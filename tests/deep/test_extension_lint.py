"""Firefox's package pleases the linter that its store uses."""

from pathlib import Path

from secvm_lab.extension import build, lint

EXTENSION = Path(__file__).resolve().parents[2] / "extension"


def test_linter_finds_nothing(tmp_path: Path) -> None:
    (package,) = [one for one in build(EXTENSION, tmp_path) if one.browser == "firefox"]
    assert lint(package, EXTENSION) == []
