from pathlib import Path
from typing import Any

import pytest
import typer

from secvm.cli.main import run
from secvm.errors import BadInputError
from secvm_lab.cli.dev import tiers


class Calls:
    """What ``secvm test`` would have started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arguments: list[str] = []
        self.environment: dict[str, str] = {}
        self.deep_packages: bool | None = None
        monkeypatch.setattr(tiers, "call", self._call)
        monkeypatch.setattr(tiers, "provide", self._provide)

    def _call(self, arguments: list[str], root: Path, environment: dict[str, str]) -> int:
        self.arguments, self.environment = arguments, environment
        return 0

    def _provide(self, root: Path, *, deep: bool) -> None:
        self.deep_packages = deep


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def started(*arguments: str, **options: Any) -> None:
    with pytest.raises(typer.Exit) as ended:
        tiers.run_tests(list(arguments), **options)
    assert ended.value.exit_code == 0


def test_default_runs_three_folders_on_all_cores_with_fixed_seeds(calls: Calls) -> None:
    started()
    assert [x for x in calls.arguments if x.startswith("tests/")] == ["tests/system", "tests/contract", "tests/unit"]
    assert "-n" in calls.arguments
    assert calls.environment == {"SECVM_TEST_TIER": "default"}
    assert calls.deep_packages is False


def test_deep_runs_everything_with_a_new_seed_that_is_printed(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    for _ in range(2):
        started(deep=True)
        assert "tests/deep" in calls.arguments
        assert "tests/unit" in calls.arguments
        assert calls.deep_packages is True
        seed = calls.environment["SECVM_TEST_SEED"]
        assert f"--seed {seed}" in capsys.readouterr().err
        seeds.add(seed)
    assert len(seeds) == 2


def test_a_seed_plays_the_same_run_again(calls: Calls) -> None:
    started(deep=True, seed="2bba600", minutes=12.0)
    first = calls.arguments, calls.environment
    started(deep=True, seed="2bba600", minutes=12.0)
    assert (calls.arguments, calls.environment) == first
    assert calls.environment["SECVM_TEST_MINUTES"] == "12"
    started(deep=True, seed="2bba601", minutes=12.0)
    assert calls.arguments != first[0]


def test_named_files_are_run_alone_and_bring_what_they_need(calls: Calls, tmp_path: Path) -> None:
    file = tmp_path / "tests/deep/test_one.py"
    file.parent.mkdir(parents=True)
    file.touch()
    started(f"{file}::test_name", "-x")
    assert calls.arguments[-2:] == [f"{file}::test_name", "-x"]
    assert "tests/unit" not in calls.arguments
    assert calls.deep_packages is True


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"minutes": 3.0}, "--deep"), ({"seed": "1"}, "--deep"), ({"deep": True, "minutes": 0.0}, "greater than 0")],
    ids=str,
)
def test_bad_options_are_one_sentence(calls: Calls, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInputError) as refused:
        tiers.run_tests([], **options)
    assert sentence in f"{refused.value} {refused.value.next_step}"
    assert calls.arguments == []


def test_options_that_are_not_ours_go_to_pytest(calls: Calls) -> None:
    assert run(["test", "-k", "margin", "--deep", "--maxfail=3"]) == 0
    assert calls.arguments[-3:] == ["-k", "margin", "--maxfail=3"]
