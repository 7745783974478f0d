"""node and npm, and the packages that lock files pin."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm_lab import node
from tests.deep.strangers.node import STRANGERS

EXTENSION = Path(__file__).resolve().parents[3] / "extension"


def test_machine_without_node_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInputError, match="node is missing"):
        node.node()


def test_registry_out_of_reach_fails_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "npm.js"
    program.write_text("console.error('no route'); process.exit(1);", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(node, "npm", lambda: program)
    with pytest.raises(BadInputError, match=r"cannot install the packages.*no route") as refused:
        node.packages_of(STRANGERS)
    assert "registry in reach" in (refused.value.next_step or "")
    assert list((tmp_path / "var/secvm-node").iterdir()) == []


@pytest.mark.parametrize("folder", [STRANGERS, EXTENSION, EXTENSION / "lint"], ids=["strangers", "extension", "lint"])
def test_packages_are_pinned_by_hash_and_name_no_place(folder: Path) -> None:
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    said = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    wanted = said.get("dependencies", {}) | said.get("devDependencies", {})
    packages = {name.removeprefix("node_modules/"): told for name, told in lock["packages"].items() if name}
    assert set(wanted) <= set(packages)
    for name, told in packages.items():
        assert told["integrity"].startswith("sha512-"), name
        assert "resolved" not in told, name
        assert wanted.get(name, told["version"]) == told["version"], name


def test_links_packages_where_node_looks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, folder = tmp_path / "packages", tmp_path / "program"
    (packages / "node_modules").mkdir(parents=True)
    (folder / "node_modules/of-another-lock").mkdir(parents=True)
    monkeypatch.setattr(node, "packages_of", lambda asked: packages)
    for _ in range(2):
        node.link_packages(folder)
        assert (folder / "node_modules").readlink() == packages / "node_modules"
