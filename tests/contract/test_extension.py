"""The browser extension, held to its types, its own tests and the test vectors by node."""

import subprocess
from pathlib import Path

import pytest

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
