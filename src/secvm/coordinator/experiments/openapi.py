"""The operator's API described for programs: OpenAPI 3.1, at ``GET /admin/openapi.json``, for anybody.

What is asked is described by the models that read it (``new_experiment``), so the two cannot differ. What is
answered is written down here, and tests hold a running coordinator to it (schemathesis).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from secvm.coordinator.experiments.new_experiment import OwnSettings
from secvm.coordinator.experiments.specification import Specification
from secvm.coordinator.store.port import Standing
from secvm.protocol.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from secvm.runtime.http.server import HttpResponse

PATH = "/admin/openapi.json"
_JSON = "application/json"
_REF = "#/components/schemas/{model}"
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": _TEXT}


def _ref(model: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=model)}


def _object(properties: dict[str, Any], *required: str, **described: str) -> dict[str, Any]:
    """An object with these properties and no others; without names of some, all are required."""
    return {
        **described,
        "type": "object",
        "required": list(required or properties),
        "properties": properties,
        "additionalProperties": False,
    }


_PROBLEM = _object(
    {"type": _TEXT, "status": {"type": "integer"}, "title": _TEXT, "detail": {"type": "string", "minLength": 1}},
    "type",
    "status",
    description="Why not, in one sentence (RFC 9457).",
)
# Problems may say more.
del _PROBLEM["additionalProperties"]
_PRIVACY = _object(
    {
        "kind": {"enum": ["plain", "relays"]},
        "note": _TEXT,
        "epsilon": _NUMBER,
        "delta": _NUMBER,
        "parts": _COUNT,
        "cover_packages": _COUNT,
        "relays": {"description": "Operators of the entry relay and of the mixing relay.", **_TEXTS},
    },
    "kind",
    "note",
    description="What is claimed of an experiment's privacy, and what it rests on.",
)
_OF_EXPERIMENT: dict[str, Any] = {
    "digest": _DIGEST,
    "title": _TEXT,
    "standing": {"enum": [standing.value for standing in Standing]},
    "rounds": _COUNT,
    "budget": _COUNT,
    "floor": _COUNT,
    "privacy": _ref("Privacy"),
    "test": {"type": "boolean"},
    "settings": _ref("OwnSettings"),
}
_EXPERIMENT = _object(_OF_EXPERIMENT, description="An experiment, with its standing.")
_NEW = _object(
    {**_OF_EXPERIMENT, "remarks": _TEXTS},
    description="A new experiment, and what its operator should know of it, a sentence each.",
)
_DRAFT = _object(
    {"document": {"description": "As it would be signed: docs/protocol.md, section 11.", **_TEXT}, "remarks": _TEXTS},
    description="What a specification would become, and what its operator should know of it, a sentence each.",
)
_LIST = _object({"experiments": {"type": "array", "items": _ref("Experiment")}})

_REFUSALS = {
    "400": "No HTTP request that can be understood",
    "401": "The admin key is missing, or another",
    "403": "No admin key was ever made for this coordinator",
    "404": "There is no such experiment, or nothing of that name can be done with it",
    "405": "The method has no meaning here",
    "408": "The request came too slowly",
    "409": "The experiment's standing does not allow it, or this node cannot sign",
    "413": "The request is too large",
    "421": "It was asked under a name, and not under an address or localhost",
    "422": "The specification cannot be used",
    "431": "Too many header fields, or too long ones",
    "503": "Too much is under way, or the store does not answer: come again later",
}
#: By HTTP itself, before anybody looks at what is asked.
_PLAIN = {"400", "408", "431"}
#: Whatever is asked.
_ALWAYS = ("400", "401", "403", "405", "408", "413", "421", "431", "503")


def _answers(status: str, what: str, model: str, *refusals: str) -> dict[str, Any]:
    responses: dict[str, Any] = {
        status: {
            "description": what,
            "content": {_JSON: {"schema": _ref(model)}},
        }
    }
    for refusal in sorted({*_ALWAYS, *refusals}):
        problem = {PROBLEM_MEDIA_TYPE: {"schema": _ref("Problem")}}
        plain = {"text/plain": {"schema": _TEXT}}
        content = plain if refusal in _PLAIN else {**plain, **problem} if refusal == "503" else problem
        responses[refusal] = {"description": _REFUSALS[refusal], "content": content}
    return responses


_MOVED = ("200", "The experiment, with its new standing", "Experiment", "404", "409")
#: By path below /admin/experiments, method and name: what it does, and how it is answered.
_OPERATIONS: dict[tuple[str, str, str], tuple[str, tuple[str, ...]]] = {
    ("", "get", "list"): ("All experiments, with their standing", ("200", "All of them", "Experiments")),
    ("", "post", "make"): (
        "A specification becomes an experiment, which is published",
        ("201", "The new one", "NewExperiment", "409", "422"),
    ),
    ("/draft", "post", "draft"): (
        "What a specification would become; nothing is kept or published",
        ("200", "The document", "Draft", "409", "422"),
    ),
    ("/{digest}", "get", "show"): ("One experiment", ("200", "That one", "Experiment", "404")),
    ("/{digest}/pause", "post", "pause"): ("Open no more rounds for now", _MOVED),
    ("/{digest}/resume", "post", "resume"): ("Open rounds again", _MOVED),
    ("/{digest}/stop", "post", "stop"): ("End it, for good", _MOVED),
}


def _paths() -> dict[str, Any]:
    named = {
        "name": "digest",
        "in": "path",
        "required": True,
        "schema": _DIGEST,
        "description": "An experiment's name.",
    }
    asked = {"required": True, "content": {_JSON: {"schema": _ref("Specification")}}}
    paths: dict[str, Any] = {}
    for (path, method, name), (summary, answers) in _OPERATIONS.items():
        operation: dict[str, Any] = {"operationId": f"{name}_experiment{'s' if name == 'list' else ''}"}
        operation |= {"summary": summary} | ({"parameters": [named]} if "{" in path else {})
        operation |= {"requestBody": asked} if name in ("make", "draft") else {}
        paths.setdefault(f"/admin/experiments{path}", {})[method] = operation | {"responses": _answers(*answers)}
    return paths


def description() -> dict[str, Any]:
    """The OpenAPI document."""
    schemas: dict[str, Any] = {
        "Problem": _PROBLEM,
        "Privacy": _PRIVACY,
        "Experiment": _EXPERIMENT,
        "NewExperiment": _NEW,
        "Draft": _DRAFT,
        "Experiments": _LIST,
    }
    for model in (Specification, OwnSettings):
        schema = model.model_json_schema(ref_template=_REF)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "SecVM coordinator: the operator's API",
            "description": "Experiments are made, paused, resumed and stopped here, by whoever has the admin key.",
            "version": "1",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"admin_key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "admin_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The key that `secvm coordinator init` printed once.",
                }
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }


@cache
def answer() -> HttpResponse:
    """The document as it is served."""
    content = json.dumps(description(), indent=1, ensure_ascii=False).encode() + b"\n"
    return HttpResponse(200, content, _JSON, (("cache-control", "max-age=3600"),))
