"""The parity channel: the same questions to Python and to the browser's code, and the answers compared.

A kind of question has a module here, which draws questions and answers them in Python, and one of the same name in
``extension/test/parity``, which answers them in TypeScript. An error is an answer too: its class and its sentence.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from secvm.errors import SecVMError
from secvm_lab.node import link_packages, node
from tests.conftest import ROOT

#: A question or an answer.
JSON = dict[str, Any]
EXTENSION = ROOT / "extension"
_PATIENCE_S = 1200


def compare(kind: str, questions: Iterator[JSON], answer: Callable[[JSON], JSON]) -> list[JSON]:
    """Both answer each of the questions alike; Python's answers, so that a test can look whether they say enough."""
    asked = list(questions)
    link_packages(EXTENSION)
    ran = subprocess.run(
        [node(), "test/parity/channel.ts"],
        cwd=EXTENSION,
        input="".join(f"{json.dumps({'kind': kind, **question})}\n" for question in asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr[-5_000:]
    theirs = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(theirs) == len(asked)
    ours = [answered(answer, question) for question in asked]
    for question, mine, other in zip(asked, ours, theirs, strict=True):
        # First the names: a whole answer is long.
        differ = [name for name in {*mine, *other} if mine.get(name) != other.get(name)]
        assert not differ, (differ, [(mine.get(n), other.get(n)) for n in differ], question)
    return ours


def answered(answer: Callable[[JSON], JSON], question: JSON) -> JSON:
    """An answer as JSON has it, or the error that is one."""
    try:
        given: JSON = json.loads(json.dumps(answer(question)))
    except SecVMError as fault:
        return {"error": [type(fault).__name__, str(fault)]}
    return given
