"""Mutations: each still finds its place in the source, leaves Python behind, and names tests that are there."""

import ast
import shutil
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm_lab.cli.dev.mutations import MUTATIONS, Edit, noticing


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_still_applies(name: str, repository: Path, tmp_path: Path) -> None:
    for edit in MUTATIONS[name]:
        (tmp_path / edit.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / edit.file, tmp_path / edit.file)
    for edit in MUTATIONS[name]:
        edit.apply(tmp_path)
    for edit in MUTATIONS[name]:
        if edit.file.endswith(".sql"):
            continue
        ast.parse((tmp_path / edit.file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MUTATIONS)
def test_who_must_notice_is_there(name: str, repository: Path) -> None:
    for test in noticing(MUTATIONS[name]):
        file, _, function = test.partition("::")
        assert f"def {function}(" in (repository / file).read_text(encoding="utf-8")


def test_what_a_mutation_does_not_find_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(BadInputError, match="finds its place 2 times"):
        Edit("a.py", "x = 1\n", "").apply(tmp_path)
