"""Every refusal has a name, and is answered in one spelling."""

import ast
import json
from pathlib import Path

import pytest

from secvm import errors
from secvm.errors import MalformedMessageError, RemoteProtocolError, StaleRoundError
from secvm.protocol.problems import MAX_BYTES, PROBLEMS, Problem, problem_of, read_problem

SOURCE = Path(errors.__file__).parent


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda p: p.name)
def test_problem_is_what_the_rfc_asks_for_and_can_be_read_again(problem: Problem) -> None:
    told = json.loads(problem.to_bytes())
    assert told == {"type": problem.uri, "title": problem.sentence, "status": problem.status}
    assert 400 <= problem.status < 600
    assert len(problem.to_bytes()) <= MAX_BYTES
    assert read_problem(problem.to_bytes()) is problem


def test_types_and_names_are_distinct() -> None:
    assert len({p.uri for p in PROBLEMS.values()}) == len(PROBLEMS)
    assert all(name == p.name for name, p in PROBLEMS.items())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"type":"about:blank"}',
        PROBLEMS["stale"].to_bytes() + b"\n",
        PROBLEMS["stale"].to_bytes() + b" ",
        PROBLEMS["stale"].to_bytes().replace(b"410", b"411"),
    ],
)
def test_answers_that_are_no_problem_of_ours_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_problem(data)


def test_errors_know_their_answer() -> None:
    assert problem_of(StaleRoundError()) is PROBLEMS["stale"]
    assert problem_of(MalformedMessageError()) is PROBLEMS["garbage"]
    assert problem_of(RemoteProtocolError(problem="over-quota")) is PROBLEMS["over-quota"]


def test_every_problem_named_in_the_code_is_one() -> None:
    named = {
        keyword.value.value
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "problem" and isinstance(keyword.value, ast.Constant)
    }
    assert named
    assert named <= set(PROBLEMS)
