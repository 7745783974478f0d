"""A coordinator's settings: what is documented is taken, what is not is refused, and the grid stays."""

import tomllib
from pathlib import Path

import pytest

from secvm.coordinator import main
from secvm.coordinator import settings as module
from secvm.coordinator.epochs import Grid
from secvm.coordinator.settings import EXAMPLE, CoordinatorSettings
from secvm.errors import BadInputError
from secvm.runtime.settings import read_settings


def read(folder: Path, text: str) -> CoordinatorSettings:
    (folder / "coordinator.toml").write_text(text, encoding="utf-8")
    return read_settings(folder / "coordinator.toml", CoordinatorSettings)


def documented() -> str:
    """The example of the module's docstring, with a hash where it leaves one out."""
    lines = (module.__doc__ or "").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    ")).replace("…", "0" * 64)


def test_what_the_documentation_shows_is_taken(tmp_path: Path) -> None:
    told = read(tmp_path, documented())
    assert told.epochs.grid == Grid(period_s=3600, lead_s=300)
    assert [relay.name for relay in told.relays] == ["relay.example"]
    assert told.testing is not None


def test_every_setting_is_documented() -> None:
    shown = tomllib.loads(documented())
    assert shown.keys() == CoordinatorSettings.model_fields.keys()


def test_what_init_writes_is_taken_as_it_is(tmp_path: Path) -> None:
    told = read(tmp_path, EXAMPLE)
    assert (told.listen.port, told.state.folder, told.testing) == (8750, Path("state"), None)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("[listen]\nprot = 1", "listen.prot is not a setting"),
        ("[listen]\nport = 70000", "listen.port should be less than or equal to 65535"),
        ('[[relays]]\nname = "r"\ntoken_sha256 = "a secret"', "relays.0.token_sha256 should be a SHA-256"),
        ("[extra]", "extra is not a setting"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(tmp_path: Path, more: str, key: str) -> None:
    least = '[state]\nfolder = "s"\n[epochs]\nperiod_s = 60\nlead_s = 5\n'
    assert read(tmp_path, least).public is None
    with pytest.raises(BadInputError, match=key) as caught:
        read(tmp_path, least + more)
    assert "a secret" not in str(caught.value)


def test_the_lead_leaves_time_for_a_window(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="lead_s leaves no time for a window"):
        read(tmp_path, EXAMPLE.replace("lead_s = 300", "lead_s = 3600"))


def test_the_grid_cannot_change_once_a_coordinator_has_run(tmp_path: Path) -> None:
    main._check_grid(tmp_path, read(tmp_path, EXAMPLE))
    main._check_grid(tmp_path, read(tmp_path, EXAMPLE.replace("lead_s = 300", "lead_s = 200")))
    with pytest.raises(BadInputError, match="cannot change"):
        main._check_grid(tmp_path, read(tmp_path, EXAMPLE.replace("period_s = 3600", "period_s = 1800")))


@pytest.mark.parametrize("text", ["", "abc", "ab" * 31, "xy" * 32])
def test_a_broken_hash_of_the_admin_key_is_refused(tmp_path: Path, text: str) -> None:
    assert main._admin_sha256(tmp_path) is None
    (tmp_path / "admin.sha256").write_text(text)
    with pytest.raises(BadInputError, match="holds no SHA-256"):
        main._admin_sha256(tmp_path)
