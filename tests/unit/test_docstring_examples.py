"""Worked examples in docstrings of the packages run."""

import doctest
import importlib
from pathlib import Path

import pytest

import secvm
import secvm_lab

MODULES = [
    ".".join([package.__name__, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
    for package in (secvm, secvm_lab)
    for root in [Path(str(package.__file__)).parent]
    for path in sorted(root.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
#: Types that a reader meets first: each has an example.
CENTRAL = ("estimator.classifier", "estimator.model", "learning.aggregate", "learning.experiment", "privacy.target")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_central_types_have_an_example() -> None:
    assert {f"secvm.{name}" for name in (*CENTRAL, "privacy.accounting.accountant")} <= set(MODULES)
