from collections.abc import Sequence
from pathlib import Path

import pytest

from secvm_lab.cli.dev import tiers


class Machine:
    """A system with some programs, whose apt-get has some packages."""

    def __init__(self, programs: set[str], offers: dict[str, str], *, lists_are_old: bool = False) -> None:
        self.programs = programs
        self.offers = offers
        self.lists_are_old = lists_are_old
        self.asked: list[str] = []

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(self, command: Sequence[str]) -> bool:
        self.asked.append(command[-1])
        if command[-1] == "update":
            self.lists_are_old = False
            return True
        if self.lists_are_old or command[-1] not in self.offers:
            return False
        self.programs.add(self.offers[command[-1]])
        return True


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    text = "# why\nchromium: chromium google-chrome  # either\n\ntor: tor\n"
    (tmp_path / "tests/system_packages.txt").write_text(text, encoding="utf-8")
    return tmp_path


def provide(machine: Machine, root: Path, monkeypatch: pytest.MonkeyPatch, *, user: int = 0) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    tiers.provide(root, which=machine.which, run=machine.run)


def test_what_the_deep_tier_needs_is_installed_for_it_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (root / "tests/deep").mkdir()
    (root / "tests/deep/system_packages.txt").write_text("nginx: nginx\n", encoding="utf-8")
    machine = Machine({"chromium", "tor", "apt-get"}, {"nginx": "nginx"})
    tiers.provide(root, which=machine.which, run=machine.run)
    assert machine.asked == []
    tiers.provide(root, deep=True, which=machine.which, run=machine.run)
    assert machine.asked == ["update", "nginx"]


def test_nothing_is_done_or_said_where_all_is_there(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({"google-chrome", "tor", "apt-get"}, {})
    provide(machine, root, monkeypatch)
    assert machine.asked == []
    assert capsys.readouterr() == ("", "")


def test_missing_packages_are_installed_one_by_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({"apt-get"}, {"chromium": "chromium", "tor": "tor"})
    provide(machine, root, monkeypatch)
    assert machine.asked == ["update", "chromium", "tor"]
    assert capsys.readouterr().err == "secvm test: installing chromium, tor with apt-get (only this once)\n"


def test_repro_old_lists_are_renewed_first_and_what_is_still_missing_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({"apt-get"}, {"tor": "tor"}, lists_are_old=True)
    provide(machine, root, monkeypatch)
    assert machine.asked == ["update", "chromium", "tor"]
    assert capsys.readouterr().err.endswith(
        "secvm test: missing from this system: chromium; as root: apt-get install chromium\n"
    )


@pytest.mark.parametrize(("user", "programs"), [(1000, {"apt-get"}), (0, set())], ids=["no root", "no apt"])
def test_who_may_not_install_is_told_what_is_missing(
    user: int,
    programs: set[str],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = Machine(programs, {"tor": "tor"})
    provide(machine, root, monkeypatch, user=user)
    assert machine.asked == []
    assert capsys.readouterr().err == (
        "secvm test: missing from this system: chromium, tor; as root: apt-get install chromium tor\n"
    )


def test_the_list_of_this_repository_can_be_read(repository: Path) -> None:
    packages = tiers.wanted(repository / "tests/system_packages.txt")
    assert {"chromium", "postgresql"} <= set(packages)
    deep = tiers.wanted(repository / "tests/deep/system_packages.txt")
    assert {"firefox-esr", "nginx"} <= set(deep)
    assert all((packages | deep).values())


def test_a_package_without_programs_is_there_when_its_file_is(tmp_path: Path) -> None:
    (tmp_path / "note.go").write_text("package note", encoding="utf-8")
    packages = {"there": [str(tmp_path / "note.go")], "not": [str(tmp_path / "tlog.go")], "relative": ["note.go"]}
    assert tiers.missing(packages) == ["not", "relative"]
