"""The registry of fuzz targets stays complete: whoever writes a decoder adds a target, or says why not."""

import ast
import importlib
import re
from collections.abc import Iterator, Sequence

import pytest

from secvm_lab.fuzz.registry import DECODER, EXEMPT, TARGETS
from tests.conftest import ROOT

SOURCE = ROOT / "src/secvm"
#: What these read is their own: nobody else's bytes come there but through the other folders.
OWN = ("testing",)


def decoders(source: str, module: str) -> Iterator[str]:
    """Public functions and methods that are named like decoders, as the registry writes them."""

    def walk(nodes: Sequence[ast.stmt], before: str) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from walk(node.body, f"{before}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.fullmatch(DECODER, node.name):
                yield f"{module}:{before}{node.name}"

    return walk(ast.parse(source).body, "")


def all_decoders() -> list[str]:
    found: list[str] = []
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE)
        if place.parts[0] not in OWN and "_kernels" not in place.parts:
            module = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
            found += decoders(file.read_text(encoding="utf-8"), module)
    return found


COVERED = {decoder for target in TARGETS.values() for decoder in target.decoders}


def test_every_decoder_has_a_target_or_a_reason() -> None:
    missing = [name for name in all_decoders() if name not in COVERED and name not in EXEMPT]
    assert missing == [], "add a target to secvm_lab.fuzz (or a reason to EXEMPT) for these"


def test_a_new_decoder_is_noticed() -> None:
    source = (
        "class Thing:\n    @classmethod\n    def from_bytes(cls, data): ...\ndef read_thing(data): ...\ndef go(): ..."
    )
    assert list(decoders(source, "m")) == ["m:Thing.from_bytes", "m:read_thing"]


def test_reasons_are_for_decoders_that_are_there_and_have_no_target() -> None:
    assert set(EXEMPT) <= set(all_decoders())
    assert not COVERED & set(EXEMPT)


@pytest.mark.parametrize("name", sorted(COVERED))
def test_targets_name_what_exists(name: str) -> None:
    module, _, path = name.partition(":")
    found: object = importlib.import_module(f"secvm.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
