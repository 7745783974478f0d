"""The registry of fuzz targets stays complete: whoever writes a decoder adds a target, or says why not."""

import ast
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType

from secvm_lab.fuzz.registry import DECODER, EXEMPT, TARGETS
from secvm_lab.fuzz.target import attempt, find_corpus, read_corpus
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


def module_of(file: Path) -> str:
    """The name of a module below ``secvm``."""
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def all_decoders() -> list[str]:
    found: list[str] = []
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE)
        if place.parts[0] not in OWN and "_kernels" not in place.parts:
            found += decoders(file.read_text(encoding="utf-8"), module_of(file))
    return found


@functools.cache
def reached() -> set[str]:
    """Every function of the product that some target calls, with its seeds and its kept corpus."""
    codes: set[CodeType] = set()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    for target in TARGETS.values():
        known = [*target.seeds(), *read_corpus(find_corpus(), target)]
        # What a target makes once, at its first input, is not what it decodes.
        attempt(target, known[0])
        sys.setprofile(called)
        try:
            for data in known:
                attempt(target, data)
        finally:
            sys.setprofile(None)
    ours = [(Path(code.co_filename), code.co_qualname) for code in codes]
    return {f"{module_of(file)}:{name}" for file, name in ours if file.is_relative_to(SOURCE)}


def test_every_decoder_has_a_target_or_a_reason() -> None:
    missing = [name for name in all_decoders() if name not in reached() and name not in EXEMPT]
    assert missing == [], "add a target, or a seed, to secvm_lab.fuzz (or a reason to EXEMPT) for these"


def test_a_new_decoder_is_noticed() -> None:
    source = (
        "class Thing:\n    @classmethod\n    def from_bytes(cls, data): ...\ndef read_thing(data): ...\ndef go(): ..."
    )
    assert list(decoders(source, "m")) == ["m:Thing.from_bytes", "m:read_thing"]


def test_reasons_are_for_decoders_that_are_there_and_have_no_target() -> None:
    assert set(EXEMPT) <= set(all_decoders())
    # Machine code is reached where it is built.
    assert not {name for name in reached() & set(EXEMPT) if ".lanes:" not in name}
