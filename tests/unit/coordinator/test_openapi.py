"""The description of the operator's API: whole, of what is there, and the one in the documents."""

import json
import re
from typing import Any

from secvm.coordinator.experiments.openapi import answer, description
from secvm.coordinator.experiments.operator_routes import _MOVES
from secvm.coordinator.experiments.specification import Specification
from tests.conftest import ROOT
from tests.unit.coordinator.test_operator_routes import Office, told


def test_the_documents_show_what_is_served() -> None:
    assert (ROOT / "docs/admin-openapi.json").read_bytes() == answer().body, "run ./secvm dev fix"


def references(value: Any) -> set[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = {value["$ref"]} if isinstance(value, dict) and "$ref" in value else set()
    return found.union(*map(references, inner))


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    told_of = description()
    named = {f"#/components/schemas/{name}" for name in told_of["components"]["schemas"]}
    assert references(told_of) == named


def test_what_can_be_asked_is_described() -> None:
    paths = description()["paths"]
    moves = {match[1] for path in paths if (match := re.fullmatch(r"/admin/experiments/\{digest\}/(\w+)", path))}
    assert moves == set(_MOVES)
    assert set(paths["/admin/experiments"]) == {"get", "post"}
    schema = description()["components"]["schemas"]["Specification"]
    assert set(schema["properties"]) == {field.alias or name for name, field in Specification.model_fields.items()}


def test_statuses_of_refusals_are_described() -> None:
    office = Office()
    digest = office.make()
    operations = description()["paths"]
    for method, path, wanted, operation in (
        ("DELETE", "", 405, operations["/admin/experiments"]["get"]),
        ("GET", "/" + "0" * 64, 404, operations["/admin/experiments/{digest}"]["get"]),
        ("POST", f"/{digest}", 405, operations["/admin/experiments/{digest}"]["get"]),
        ("GET", f"/{digest}/stop", 405, operations["/admin/experiments/{digest}/stop"]["post"]),
    ):
        answered = office.ask(method, path)
        assert answered.status == wanted
        assert answered.media_type in operation["responses"][str(wanted)]["content"]
        if wanted == 405:
            assert dict(answered.headers)["allow"]
    office.ask("POST", f"/{digest}/stop")
    assert office.ask("POST", f"/{digest}/pause").status == 409
    assert set(told(office.ask("GET", f"/{digest}"))) == set(
        description()["components"]["schemas"]["Experiment"]["properties"]
    )


def test_it_is_json_that_programs_can_read() -> None:
    assert json.loads(answer().body)["openapi"].startswith("3.1")
