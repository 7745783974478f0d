"""The browser extension, held to its types, its own tests and the test vectors by node."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from secvm.errors import BadInputError
from secvm_lab.extension import MOST_BUNDLED_BYTES, Package, build, check
from secvm_lab.node import link_packages, node

EXTENSION = Path(__file__).resolve().parents[2] / "extension"
VECTORS = EXTENSION.parent / "vectors/v2"
_PLAIN = "rounds of experiments with one relay, which the browser's device shows and never joins"
_LOCKED = "secrets under a passphrase: a profile's storage is the browser's"
_WITNESS = "what a witness is asked"
_REQUEST = "what a gateway reads of requests: a device writes them"
_COVER = "the cover that relays draw"
#: Files and lists of cases that the browser's device has nothing to do with, and why. A test of its own reads
#: everything else.
NOT_OF_BROWSERS = {
    "plain_manifest": _PLAIN,
    "bad_plain_manifests": _PLAIN,
    "plain_ending": _PLAIN,
    "bad_plain_endings": _PLAIN,
    "trusted": _PLAIN,
    "bad_trusted": _PLAIN,
    "locking": _LOCKED,
    "bad_locking": _LOCKED,
    "witness": _WITNESS,
    "checkpoints requests": _WITNESS,
    "bad_log paths": "which tiles a server is asked for",
    "log tiles": "hashes of a log's tree: a device reads the lines",
    "sealing_messages others": _REQUEST,
    "sealed_requests packages": _PLAIN,
    "sealed_requests others": _REQUEST,
    "sealed_requests refused": _REQUEST,
    "bad_sealing capsules": _REQUEST,
    "bad_tokens requests": "what the entry relay gives no token for",
    "bad_tokens tokens": "what the entry relay takes for none",
    "cover parts": _COVER,
    "cover streams": _COVER,
}


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    link_packages(EXTENSION)


def run(*arguments: str, env: Mapping[str, str] = MappingProxyType({})) -> None:
    ran = subprocess.run(
        [node(), *arguments],
        cwd=EXTENSION,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-5_000:]


def test_types_fit() -> None:
    run("node_modules/typescript/bin/tsc", "--project", ".")


def test_its_own_tests_pass_and_read_every_vector(tmp_path: Path) -> None:
    notes = tmp_path / "read"
    run("--test", "--test-reporter", "tap", "test/**/*.test.ts", env={"VECTORS_READ": str(notes)})
    read = set(notes.read_text().splitlines())
    there = {f"{path.stem} {part}" for path in VECTORS.glob("*.json") for part in parts_of(path)}
    excepted = {one for one in there if one in NOT_OF_BROWSERS or one.split()[0] in NOT_OF_BROWSERS}
    assert not there - read - excepted, "no test of the browser's device reads these"
    assert not excepted & read, "what is read is no exception any more"
    assert {one.split()[0] for one in NOT_OF_BROWSERS} <= {path.stem for path in VECTORS.glob("*.json")}


def parts_of(path: Path) -> list[str]:
    """The lists of cases of a file of vectors."""
    return [part for part, cases in json.loads(path.read_bytes()).items() if isinstance(cases, list)]


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
