"""``[privacy]`` of a specification: what is planned is what is published, and its cost is told before."""

import asyncio
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from secvm.cli.experiment import app
from secvm.coordinator.cover_question import cost, cost_lines
from secvm.coordinator.questions import Specification, planned_cover
from secvm.errors import BadInputError
from secvm.protocol.cover_terms import CoverTerms
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.stating import epsilon_of, mechanism_of
from secvm.runtime.http_server import Request, Response
from secvm.runtime.settings import parse_settings
from tests.unit.coordinator.test_admin import KEY, Office, told
from tests.unit.coordinator.test_questions import asked_in, put
from tests.unit.protocol.helpers import RELAY


def content(**changes: Any) -> dict[str, Any]:
    """A small question with cover, which is planned in less than a second."""
    told: dict[str, Any] = put("title", "A question")
    told["relays"] = [{"url": "https://relay.example/", "key": RELAY.public.data.hex(), "mode": "round"}]
    told["binning"] = {"bins": 32}
    told["features"] = {"source": "words", "per_participant": 8}
    told["rounds"] = 4
    told["privacy"] = {"epsilon": 4, "delta": "1e-5", "participants": 400, "gamma": "1/2"}
    for path, value in changes.items():
        outer, _, name = path.rpartition("__")
        inner = told[outer] if outer else told
        if value is None:
            del inner[name]
        else:
            inner[name] = value
    return told


def planned(**changes: Any) -> Any:
    return planned_cover(parse_settings(json.dumps(content(**changes)), Specification, "the specification"))


def test_a_document_carries_the_cover_that_was_planned() -> None:
    document, _ = asked_in(content())
    made = planned()
    assert made is not None
    assert document.experiment.cover == made.plan.cover
    assert document.budget == made.plan.budget == made.plan.cover.budget
    assert document.privacy == CoverTerms(
        epsilon=Fraction(4), delta=Fraction(1, 10**5), participants=400, gamma=Fraction(1, 2)
    )
    assert ExperimentDocument.from_bytes(document.data) == document
    assert mechanism_of(document) == made.plan.mechanism
    assert epsilon_of(document, delta=1e-5, honest=200) <= 4
    assert document.relays[0].mode == "round"


def test_a_larger_budget_may_be_asked_for_and_a_smaller_one_not() -> None:
    budget = planned().plan.budget
    assert asked_in(content(budget=budget + 5))[0].budget == budget + 5
    with pytest.raises(BadInputError, match=f"need a budget of {budget}"):
        asked_in(content(budget=budget - 1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": None}, "give rounds"),
        ({"features__per_participant": None}, "give features.per_participant"),
        ({"features__presence": False}, "by presence"),
        ({"relays": []}, "one relay, in mode round"),
        ({"floor": 1}, "at least the number of labels"),
        ({"privacy__epsilon": 0}, "ε must lie above 0"),
        ({"privacy__gamma": "1/401"}, "an honest participant"),
        ({"privacy__shape": "large"}, "the specification: privacy.shape"),
        ({"privacy__noise": 1}, "privacy.noise is not a setting"),
        ({"privacy__participants": None}, "privacy.participants is missing"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        asked_in(content(**changes))


def test_a_relay_of_another_mode_is_refused() -> None:
    told = content()
    told["relays"][0]["mode"] = "interval"
    with pytest.raises(BadInputError, match="one relay, in mode round"):
        asked_in(told)


def test_costs_name_everything_that_one_has_to_know() -> None:
    made = planned()
    costs = cost(made)
    assert costs["budget"] == made.plan.budget
    assert costs["honest"] == 200
    assert costs["honest_if_few"] == 60
    assert costs["achieved"] <= 4 < costs["epsilon_label_flip"]
    assert costs["epsilon_if_few_honest"] is None or costs["epsilon_if_few_honest"] > 4
    variance = made.plan.noise.variance_per_cell(400)
    assert costs["noise_per_cell"] == pytest.approx(math.sqrt(variance))
    text = "\n".join(cost_lines(costs))
    for said in ("epsilon 4 at delta 1e-05", "label is flipped", "200 honest", "30 % of these", "packages of every"):
        assert said in text
    json.dumps(costs, allow_nan=False)


def test_the_operator_plans_off_the_event_loop() -> None:
    office, headers = Office(), {"authorization": f"Bearer {KEY}"}

    async def post(told: dict[str, Any]) -> Response:
        body = json.dumps(told).encode()
        answer = office.admin.answer(Request("POST", "/admin/experiments", "", headers, body, "somebody"))
        assert not isinstance(answer, Response)
        return await answer

    made = told(asyncio.run(post(content())))
    assert made["privacy"]["kind"] == "cover"
    assert made["privacy"]["epsilon"] == 4
    refused = asyncio.run(post(content(rounds=None)))
    assert refused.status == 422
    assert "give rounds" in refused.body.decode()


def run(tmp_path: Path, specification: dict[str, Any], *more: str) -> Result:
    file = tmp_path / "question.json"
    file.write_text(json.dumps(specification))
    (tmp_path / "key").write_text("k")
    where = ("--coordinator", "http://127.0.0.1:1", "--admin-key-file", str(tmp_path / "key"))
    return CliRunner().invoke(app, ["new", str(file), *where, *more])


def test_plan_only_tells_the_cost_and_publishes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, content(), "--plan-only", "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cost"]["budget"] == planned().plan.budget
    assert "packages of every device" in run(tmp_path, content(), "--plan-only").stdout
    assert "no formal guarantee" in run(tmp_path, content(privacy=None), "--plan-only").stdout
