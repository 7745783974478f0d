"""Import contracts hold, and each of them can fail: it refuses one import that it is there to refuse.

The graph of imports is read once; a trespass is an edge added to a copy of it.
"""

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
    "layers": "learning.t -> secvm.protocol",
    "laboratory": "estimator.t -> secvm_lab",
    "boundary": "learning.aggregate.t -> secvm.learning.bridge -> secvm.learning.individual",
    "boundary_back": "learning.individual.t -> secvm.learning.aggregate",
    "boundary_protocol": "protocol.t -> secvm.learning.individual.dice",
    "pure": "privacy.t -> os",
    "privacy": "privacy.t -> secvm.crypto",
    "kernels": "learning.t -> numba",
    "dask": "estimator.t -> distributed",
    "postgres": "coordinator.t -> psycopg",
    "sealing": "crypto.t -> secvm.learning.package",
    "ciphers": "learning.t -> cryptography",
    "sklearn": "privacy.t -> scipy",
    "estimator": "estimator.t -> secvm.protocol",
    "runtime": "runtime.t -> secvm.learning.package",
    "relay": "relay.t -> secvm.learning.bridge -> secvm.learning.individual",
    "relay_roles": "relay.mix -> secvm.relay.bridge -> secvm.relay.entry",
    "coordinator": "coordinator.t -> secvm.learning.individual.update",
    "witness": "witness.t -> numpy",
    "participant": "participant.t -> httptools",
    "dashboard": "dashboard.t -> secvm.learning.individual",
    "servers": "coordinator.t -> starlette",
    "printing": "privacy.t -> rich",
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
def test_import_contract_refuses_its_trespass(contract: str) -> None:
    assert not keeps(contract, with_trespass(TRESPASSES[contract]))
