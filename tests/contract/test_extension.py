"""The browser extension, held to its types, its own tests and the test vectors by node."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm_lab.extension import MOST_BUNDLED_BYTES, Package, build, check
from secvm_lab.node import link_packages, node

EXTENSION = Path(__file__).resolve().parents[2] / "extension"


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    link_packages(EXTENSION)


def run(*arguments: str) -> None:
    ran = subprocess.run([node(), *arguments], cwd=EXTENSION, capture_output=True, text=True, check=False, timeout=540)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-5_000:]


def test_types_fit() -> None:
    run("node_modules/typescript/bin/tsc", "--project", ".")


def test_its_own_tests_pass() -> None:
    run("--test", "--test-reporter", "tap", "test/**/*.test.ts")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Package]:
    return build(EXTENSION, tmp_path_factory.mktemp("packages"))


def test_packages_are_small_and_ask_for_what_is_listed(built: list[Package]) -> None:
    assert [package.browser for package in built] == ["chromium", "firefox"]
    for package in built:
        check(package, EXTENSION)


def test_a_new_permission_and_a_large_package_are_refused(built: list[Package]) -> None:
    chromium, firefox = built
    tabs = replace(chromium, manifest={**chromium.manifest, "permissions": ["alarms", "tabs"]})
    gecko = {"data_collection_permissions": {"required": ["locationInfo"]}}
    place = replace(firefox, manifest={**firefox.manifest, "browser_specific_settings": {"gecko": gecko}})
    hosts = replace(firefox, manifest={**firefox.manifest, "host_permissions": ["<all_urls>"]})
    for package, asked in ((tabs, "'tabs' as permissions"), (place, "'locationInfo'"), (hosts, "'<all_urls>'")):
        with pytest.raises(BadInputError, match=asked):
            check(package, EXTENSION)
    with pytest.raises(BadInputError, match="150,001 bytes of scripts"):
        check(replace(chromium, bundled=MOST_BUNDLED_BYTES + 1), EXTENSION)


def test_the_same_sources_give_the_same_bytes_wherever_they_lie(built: list[Package], tmp_path: Path) -> None:
    copy = tmp_path / "a copy/extension"
    shutil.copytree(EXTENSION, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "test"))
    for static in ("src/secvm/participant/ui/static", "src/secvm/pages/static"):
        shutil.copytree(EXTENSION.parent / static, copy.parent / static)
    for again in (build(EXTENSION, tmp_path / "again"), build(copy)):
        assert [one.file.read_bytes() for one in again] == [one.file.read_bytes() for one in built]


def test_packages_name_no_place_and_load_nothing_from_elsewhere(built: list[Package]) -> None:
    for package in built:
        content = package.file.read_bytes()
        assert str(EXTENSION.parent).encode() not in content
        assert b"node_modules/.." not in content
        policy = package.manifest["content_security_policy"]["extension_pages"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert package.manifest["incognito"] == "not_allowed"
