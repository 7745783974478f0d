"""Import contracts hold, and each of them refuses what it is there to refuse.

The graph of imports is read once; a trespass is an edge added to a copy of it.
"""

import os
import shutil
import subprocess
import sys
from copy import deepcopy
from functools import cache
from itertools import pairwise
from pathlib import Path

import grimp
import pytest
from importlinter import configuration
from importlinter.application.use_cases import read_user_options
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

ROOT = Path(__file__).resolve().parents[2]

KINDS: dict[str, type[Contract]] = {
    "acyclic_siblings": AcyclicSiblingsContract,
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
}

#: By contract: which module would import what. ``a -> b -> c`` is a way round, by a module that is added too.
TRESPASSES = {
    "layers": """
        learning.t -> secvm.protocol
        learning.t -> secvm.crypto
        learning.t -> secvm.privacy
        learning.t -> secvm.people
        crypto.t -> secvm.learning
        crypto.t -> secvm.protocol
        crypto.t -> secvm.privacy
        privacy.t -> secvm.protocol
        protocol.t -> secvm.people
        participant.t -> secvm.coordinator
        participant.t -> secvm.relay
        relay.t -> secvm.coordinator
        coordinator.t -> secvm.relay
        coordinator.t -> secvm.participant
        coordinator.t -> secvm.estimator
        coordinator.t -> secvm.witness
        coordinator.t -> secvm.auditor
        witness.t -> secvm.coordinator
        auditor.t -> secvm.coordinator
        auditor.t -> secvm.participant
        auditor.t -> secvm.relay
        runtime.t -> secvm.relay
        runtime.t -> secvm.people
        people.t -> secvm.estimator
        estimator.t -> secvm.cli
        errors -> secvm.learning
        a_folder_without_a_place.t -> secvm.errors
    """,
    "laboratory": """
        estimator.t -> secvm_lab
        cli.t -> secvm_lab.attacks.registry
    """,
    "boundary": """
        learning.aggregate.t -> secvm.learning.individual
        learning.aggregate.t -> secvm.learning.bridge -> secvm.learning.individual
    """,
    "boundary_back": "learning.individual.t -> secvm.learning.aggregate",
    "boundary_protocol": "protocol.t -> secvm.learning.individual.dice",
    "pure": """
        privacy.t -> os
        privacy.t -> random
        privacy.t -> secrets
        privacy.t -> socket
        privacy.t -> time
        privacy.t -> pathlib
        protocol.t -> time
        protocol.t -> socket
        crypto.t -> secrets
        crypto.t -> socket
        crypto.t -> os
        crypto.t -> time
        crypto.t -> pathlib
        learning.t -> socket
        learning.t -> sqlite3
        learning.t -> asyncio
        learning.t -> urllib
        learning.t -> random
        learning.t -> secrets
        learning.t -> time
        learning.t -> datetime
        learning.t -> os
    """,
    "privacy": """
        privacy.t -> secvm.crypto
        privacy.t -> secvm.protocol
        privacy.t -> secvm.people
        privacy.t -> secvm.runtime
    """,
    "kernels": """
        learning.t -> numba
        estimator.t -> numba
    """,
    "dask": """
        estimator.t -> distributed
        coordinator.t -> dask
    """,
    "postgres": """
        coordinator.t -> psycopg
        testing.t -> psycopg
    """,
    "sealing": "crypto.t -> secvm.learning.package",
    "ciphers": """
        learning.t -> cryptography
        runtime.t -> py_arkworks_bls12381
    """,
    "sklearn": """
        privacy.t -> scipy
        people.t -> sklearn
        learning._kernels.t -> scipy
        auditor.t -> scipy
    """,
    "estimator": """
        estimator.t -> secvm.protocol
        estimator.t -> urllib
    """,
    "runtime": """
        runtime.t -> secvm.learning.package
        runtime.t -> secvm.protocol.codec
    """,
    "relay": """
        relay.t -> secvm.learning.individual.update
        relay.t -> secvm.learning.bridge -> secvm.learning.individual
        relay.entry.t -> secvm.people
    """,
    "relay_roles": """
        relay.entry.t -> secvm.relay.mix
        relay.mix.t -> secvm.relay.entry.intake
        relay.mix.t -> secvm.relay.bridge -> secvm.relay.entry
    """,
    "coordinator": "coordinator.t -> secvm.learning.individual.update",
    "witness": """
        witness.t -> numpy
        witness.t -> secvm.learning.package
        witness.t -> secvm.people
        witness.t -> secvm.protocol.log.terms
        witness.t -> secvm.protocol.documents.manifest
    """,
    "participant": "participant.t -> httptools",
    "dashboard": """
        dashboard.t -> secvm.learning.individual
        dashboard.t -> sqlite3
    """,
    "servers": """
        coordinator.t -> starlette
        dashboard.t -> uvicorn
    """,
    "printing": """
        privacy.t -> rich
        people.t -> typer
        auditor.t -> rich
    """,
    "acyclic": "people.s -> secvm.people.t -> secvm.people.s",
}


@cache
def contracts() -> dict[str, Contract]:
    configuration.configure()
    options = read_user_options(str(ROOT / "pyproject.toml"))
    return {
        one["id"]: KINDS[one["type"]](one["name"], session_options=options.session_options, contract_options=one)
        for one in options.contracts_options
    }


@cache
def source() -> grimp.ImportGraph:
    return grimp.build_graph(
        "secvm", "secvm_lab", include_external_packages=True, exclude_type_checking_imports=False, cache_dir=None
    )


def keeps(contract: str, graph: grimp.ImportGraph) -> bool:
    return contracts()[contract].check(deepcopy(graph), verbose=False).kept


def with_trespass(line: str) -> grimp.ImportGraph:
    graph = deepcopy(source())
    importer, *others = line.split(" -> ")
    way = [f"secvm.{importer}", *others]
    for module in way:
        parts = module.split(".")
        # A module's folders are modules too; packages of strangers are squashed to their names.
        for length in range(1, len(parts) + 1):
            if (name := ".".join(parts[:length])) not in graph.modules:
                graph.add_module(name, is_squashed=parts[0] not in ("secvm", "secvm_lab"))
    for one, other in pairwise(way):
        graph.add_import(importer=one, imported=other, line_number=1, line_contents=f"import {other}")
    return graph


def test_every_contract_has_its_trespass() -> None:
    assert set(contracts()) == set(TRESPASSES)


@pytest.mark.parametrize("contract", TRESPASSES)
def test_import_contract_holds(contract: str) -> None:
    assert keeps(contract, source())


@pytest.mark.parametrize("contract", TRESPASSES)
def test_import_contract_refuses_each_trespass(contract: str) -> None:
    lines = [line.strip() for line in TRESPASSES[contract].strip().splitlines()]
    assert [line for line in lines if keeps(contract, with_trespass(line))] == []


def test_linter_itself_refuses_a_way_round_inside_a_function(tmp_path: Path) -> None:
    for folder in ("src", "lab"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    learning = tmp_path / "src/secvm/learning"
    (learning / "bridge.py").write_text("import secvm.learning.individual\n", encoding="utf-8")
    (learning / "aggregate/t.py").write_text("def f():\n    import secvm.learning.bridge\n", encoding="utf-8")
    program = (
        "import sys; from importlinter.cli import lint_imports;"
        " sys.exit(lint_imports(limit_to_contracts=('boundary',), no_cache=True, no_logo=True))"
    )
    linter = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path / "lab")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert linter.returncode == 1, linter.stdout + linter.stderr
    assert "BROKEN" in linter.stdout
