"""Opening the browser shows the secret to nobody else on this machine."""

import stat
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from secvm.errors import BadInputError
from secvm.participant.ui.guard import FILE, OpeningFile

ADDRESS = "http://127.0.0.1:8431/secret-secret/"


def test_browser_is_given_a_file_that_its_person_alone_can_read(tmp_path: Path) -> None:
    asked: list[str] = []

    def browser(address: str) -> bool:
        asked.append(address)
        return True

    opening = OpeningFile(tmp_path)
    assert opening.lead(ADDRESS, browser)
    (argument,) = asked
    # What every account can see in the list of processes.
    assert "secret-secret" not in argument
    path = Path(unquote(urlparse(argument).path))
    assert path == tmp_path / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"{ADDRESS}enter" in path.read_text()
    opening.remove()
    assert not path.exists()
    opening.remove()


def test_what_lies_there_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / FILE).symlink_to(other)
    OpeningFile(tmp_path).lead(ADDRESS, lambda _: True)
    assert other.read_text() == "theirs"


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be opened") as refusal:
        OpeningFile(tmp_path / "nowhere").lead(ADDRESS, lambda _: True)
    assert "secret-secret" not in str(refusal.value)
