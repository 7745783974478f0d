"""Nothing that guards input is an assert: with ``python -O`` there are none, and what is refused stays refused."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

from secvm.coordinator import settings
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments import new_experiment as questions
from secvm.coordinator.experiments import specification
from secvm.errors import BadExperimentError, LocalProtocolError
from secvm.protocol.documents import ending, manifest
from secvm.protocol.documents.manifest import MAX_QUOTA, LastRound
from tests.unit.protocol.helpers import COORDINATOR, GATEWAY_KEYS, RELAY, START, document, names_of_model

#: Experiments and tests of the project's own, which nobody runs with -O.
OWN = ("lab", "testing")


def without_asserts(module: ModuleType) -> ModuleType:
    """The same module as ``python -O`` would run it."""
    path = Path(str(module.__file__))
    made = ModuleType(module.__name__)
    exec(compile(path.read_bytes(), str(path), "exec", optimize=1), made.__dict__)
    return made


def test_repro_without_asserts_an_experiment_that_cannot_be_read_is_not_asked() -> None:
    module = without_asserts(questions)
    told = specification.Specification(
        title="x" * 201,
        labels=("a", "b"),
        floor=100,
        features=specification.FeaturesPart(source="words", per_participant=10),
        binning=specification.BinningPart(bins=100),
        windows=specification.WindowsPart(length_s=3000, grace_s=60),
        relays=(specification.RelayPart(url="https://relay.example/", key=RELAY.public.data.hex()),),
        operator="Uni",
        contact="study@uni.example",
        purpose="To see.",
        privacy=specification.PLAIN,  # type: ignore[arg-type]  # as it is written
    )
    with pytest.raises(BadExperimentError, match="title of the experiment"):
        module.make_document(told, key=COORDINATOR.public, grid=Grid(period_s=3600, lead_s=300), dice=bytes, now=START)


def test_repro_without_asserts_a_manifest_that_cannot_be_read_is_not_made() -> None:
    with pytest.raises(LocalProtocolError, match="quota of the manifest"):
        without_asserts(manifest).make_manifest(
            document(), opens_at=START, model=names_of_model(1), gateway_keys=GATEWAY_KEYS, quota=MAX_QUOTA + 1
        )


def test_repro_without_asserts_an_ending_that_cannot_be_read_is_not_made() -> None:
    with pytest.raises(LocalProtocolError, match="an ending tells of its last round"):
        without_asserts(ending).make_ending(
            document(), why=ending.Why.STOPPED, model=names_of_model(1), last=LastRound(tally=None)
        )


def test_repro_without_asserts_a_witness_without_a_key_is_not_taken() -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        without_asserts(settings).WitnessPart(name="w.example", url="https://w.example/", key="a secret")


def test_no_assert_is_there_for_what_its_expression_does(repository: Path) -> None:
    """An assert compares, or names a type; a bare value may be a property that refuses, and is not read with -O."""
    package = repository / "src" / "secvm"
    files = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in OWN]
    texts = {path: text for path in files if "assert " in (text := path.read_text(encoding="utf-8"))}
    asserts = [
        (f"{path.relative_to(repository)}:{node.lineno}", node.test)
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert)
    ]
    assert asserts
    assert [place for place, test in asserts if not _states(test)] == []


def _states(test: ast.expr) -> bool:
    match test:
        case ast.Compare() | ast.Call(func=ast.Name(id="isinstance")):
            return True
        case _:
            return False
