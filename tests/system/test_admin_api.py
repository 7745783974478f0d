"""The operator's API of a real coordinator, held to its own description by requests that schemathesis makes up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from secvm.coordinator.experiments.openapi import description
from tests.system.parties import SPECIFICATION, Place

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
]
BOUNDED = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


class Office:
    """A coordinator that runs, its key, an experiment of its."""

    def __init__(self, place: Place) -> None:
        self.url = place.url
        self.digest = place.new_experiment(SPECIFICATION)
        self.session = requests.Session()
        # A proxy of the environment is for the world outside.
        self.session.trust_env = False
        self.headers = {"authorization": f"Bearer {place.admin_key}"}

    def try_out(self, case: schemathesis.Case[Any], *further: schemathesis.CheckFunction) -> None:
        """Send it with the key, and hold the answer to the description."""
        checks = [*CHECKS, *further]
        case.call_and_validate(base_url=self.url, session=self.session, headers=self.headers, checks=checks)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    place = Place(Path(tmp_path_factory.mktemp("place")))
    with place.coordinator():
        yield Office(place)


schema = schemathesis.openapi.from_dict(description())
# Hundreds of requests for each field of a specification: for `schemathesis run`, not for every run of the tests.
schema.config.phases.coverage.enabled = False


def test_the_description_is_served_to_anybody(office: Office) -> None:
    described = office.session.get(office.url + "/admin/openapi.json", timeout=20)
    assert described.headers["content-type"] == "application/json"
    assert described.json() == description()


@schema.parametrize()
@BOUNDED
def test_every_request_is_answered_as_described(case: schemathesis.Case[Any], office: Office) -> None:
    office.try_out(case, negative_data_rejection)


@schema.include(path_regex="digest").parametrize()
@BOUNDED
def test_requests_about_an_experiment_that_is_there_are_answered_as_described(
    case: schemathesis.Case[Any], office: Office
) -> None:
    case.path_parameters["digest"] = office.digest
    office.try_out(case)


@schema.parametrize()
@settings(BOUNDED, max_examples=5)
def test_every_request_without_the_key_is_refused(case: schemathesis.Case[Any], office: Office) -> None:
    for headers in ({}, {"authorization": "Bearer another"}):
        answer = case.call(base_url=office.url, session=office.session, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, ["Bearer"])
        assert office.digest not in answer.text
