"""The parity channel: the same questions to Python and to the browser's code, and the answers compared.

A kind of question has a module here, which draws questions and answers them in Python, and one of its name in
``extension/test/parity``, which answers them in TypeScript. An error is an answer too: its class and its sentence.

Every case has a seed of its own. What fails says its number and the run's seed, which give the same case again, and the
whole question.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from typing import Any, Self

from secvm.errors import SecVMError
from secvm_lab.node import link_packages, node
from tests.conftest import ROOT
from tests.seeds import RUN_SEED, seed_for

#: A question or an answer.
JSON = dict[str, Any]
EXTENSION = ROOT / "extension"
_SHOWN = 5_000


class Channel:
    """One node process that answers a question a line, for as long as it is wanted."""

    def __init__(self) -> None:
        link_packages(EXTENSION)
        self._node = subprocess.Popen(
            [node(), "test/parity/channel.ts"],
            cwd=EXTENSION,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._node.kill()
        self._node.communicate()

    def compare(
        self, kind: str, cases: int, draw: Callable[[random.Random], JSON], answer: Callable[[JSON], JSON]
    ) -> list[JSON]:
        """Both answer so many questions alike; Python's answers, so that a test can look whether they say enough."""
        return [self._compare_one(kind, number, draw, answer) for number in range(cases)]

    def _compare_one(
        self, kind: str, number: int, draw: Callable[[random.Random], JSON], answer: Callable[[JSON], JSON]
    ) -> JSON:
        question = draw(random.Random(seed_for(f"parity of {kind}", number)))
        self._ask({"kind": kind, **question})
        try:
            # Both at the same time.
            ours = _answered(answer, question)
        finally:
            # Taken in any case: the next question must not find it.
            theirs = self._answer()
        # First the names: a whole answer is long.
        differ = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        assert not differ, "\n".join(
            [
                f"case {number} of {kind!r} under the seed {RUN_SEED!r} differs in {', '.join(differ)}",
                *(f"{n} in Python:  {str(ours.get(n))[:_SHOWN]}" for n in differ),
                *(f"{n} in browser: {str(theirs.get(n))[:_SHOWN]}" for n in differ),
                f"question: {json.dumps(question)}",
            ]
        )
        return ours

    def _ask(self, question: JSON) -> None:
        assert self._node.stdin is not None
        self._node.stdin.write(f"{json.dumps(question)}\n")
        self._node.stdin.flush()

    def _answer(self) -> JSON:
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        if not line:
            _, complaints = self._node.communicate()
            raise AssertionError(f"node has ended: {complaints[-_SHOWN:]}")
        answer: JSON = json.loads(line)
        return answer


def _answered(answer: Callable[[JSON], JSON], question: JSON) -> JSON:
    """An answer as JSON has it, or the error that is one."""
    try:
        given: JSON = json.loads(json.dumps(answer(question)))
    except SecVMError as fault:
        return error_of(fault)
    return given


def error_of(fault: SecVMError) -> JSON:
    """An error as an answer."""
    return {"error": [type(fault).__name__, str(fault)]}


def or_error(value: Callable[[], Any]) -> Any:
    """A part of an answer, or the error that is one."""
    try:
        return value()
    except SecVMError as fault:
        return error_of(fault)
