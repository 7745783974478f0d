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
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": {"type": "string"}}

_PROBLEM = {
    "description": "Why not, in one sentence (RFC 9457).",
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "title": {"type": "string"},
        "detail": {"type": "string", "minLength": 1},
    },
}
_PRIVACY = {
    "description": "What is claimed of an experiment's privacy, and what it rests on.",
    "type": "object",
    "required": ["kind", "note"],
    "properties": {
        "kind": {"enum": ["plain", "relays"]},
        "note": {"type": "string"},
        "epsilon": {"type": "number"},
        "delta": {"type": "number"},
        "parts": _COUNT,
        "cover_packages": _COUNT,
        "relays": {"description": "Operators of the entry relay and of the mixing relay.", **_TEXTS},
    },
    "additionalProperties": False,
}
_EXPERIMENT: dict[str, Any] = {
    "description": "An experiment, with its standing.",
    "type": "object",
    "required": ["digest", "title", "standing", "rounds", "budget", "floor", "privacy", "test", "settings"],
    "properties": {
        "digest": _DIGEST,
        "title": {"type": "string"},
        "standing": {"enum": [standing.value for standing in Standing]},
        "rounds": _COUNT,
        "budget": _COUNT,
        "floor": _COUNT,
        "privacy": {"$ref": _REF.format(model="Privacy")},
        "test": {"type": "boolean"},
        "settings": {"$ref": _REF.format(model="OwnSettings")},
    },
    "additionalProperties": False,
}
_NEW: dict[str, Any] = {
    **_EXPERIMENT,
    "description": "A new experiment, and what its operator should know of it, a sentence each.",
    "required": [*_EXPERIMENT["required"], "remarks"],
    "properties": {**_EXPERIMENT["properties"], "remarks": _TEXTS},
}
_LIST = {
    "type": "object",
    "required": ["experiments"],
    "properties": {"experiments": {"type": "array", "items": {"$ref": _REF.format(model="Experiment")}}},
    "additionalProperties": False,
}

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
            "content": {_JSON: {"schema": {"$ref": _REF.format(model=model)}}},
        }
    }
    for refusal in sorted({*_ALWAYS, *refusals}):
        problem = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
        plain = {"text/plain": {"schema": {"type": "string"}}}
        content = plain if refusal in _PLAIN else {**plain, **problem} if refusal == "503" else problem
        responses[refusal] = {"description": _REFUSALS[refusal], "content": content}
    return responses


def _digest() -> dict[str, Any]:
    return {"name": "digest", "in": "path", "required": True, "schema": _DIGEST, "description": "An experiment's name."}


def _paths() -> dict[str, Any]:
    moves = {"pause": "Open no more rounds for now", "resume": "Open rounds again", "stop": "End it, for good"}
    paths: dict[str, Any] = {
        "/admin/experiments": {
            "get": {
                "operationId": "list_experiments",
                "summary": "All experiments, with their standing",
                "responses": _answers("200", "All of them", "Experiments"),
            },
            "post": {
                "operationId": "make_experiment",
                "summary": "A specification becomes an experiment, which is published",
                "requestBody": {
                    "required": True,
                    "content": {_JSON: {"schema": {"$ref": _REF.format(model="Specification")}}},
                },
                "responses": _answers("201", "The new one", "NewExperiment", "409", "422"),
            },
        },
        "/admin/experiments/{digest}": {
            "get": {
                "operationId": "show_experiment",
                "summary": "One experiment",
                "parameters": [_digest()],
                "responses": _answers("200", "That one", "Experiment", "404"),
            }
        },
    }
    for move, summary in moves.items():
        paths[f"/admin/experiments/{{digest}}/{move}"] = {
            "post": {
                "operationId": f"{move}_experiment",
                "summary": summary,
                "parameters": [_digest()],
                "responses": _answers("200", "The experiment, with its new standing", "Experiment", "404", "409"),
            }
        }
    return paths


def description() -> dict[str, Any]:
    """The OpenAPI document."""
    schemas: dict[str, Any] = {
        "Problem": _PROBLEM,
        "Privacy": _PRIVACY,
        "Experiment": _EXPERIMENT,
        "NewExperiment": _NEW,
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
