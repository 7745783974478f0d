"""``secvm`` as it is typed, for tests of its commands."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from secvm.cli import output
from secvm.cli.main import run


class Program:
    """``secvm`` in this process. Texts are split into words as they would be typed; a path is one word."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        #: What the last command said.
        self.out = self.err = ""
        #: What no refusal may repeat.
        self.secrets: tuple[str, ...] = ()
        #: What stands before and after all that is typed.
        self.before: tuple[object, ...] = ()
        self.after: tuple[object, ...] = ()

    @property
    def said(self) -> str:
        """All that the last command said."""
        return self.out + self.err

    def __call__(self, *arguments: object) -> int:
        """The exit code."""
        self._capsys.readouterr()
        every = (*self.before, *arguments, *self.after)
        words = [shlex.split(given) if isinstance(given, str) else [str(given)] for given in every]
        code = run([word for some in words for word in some])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: object, quiet: bool = True) -> dict[str, Any]:
        """The one object that a command answers; nothing else is said, unless it is not ``quiet``."""
        code = self(*arguments, "--format json")
        assert code == 0, self.err
        assert not quiet or self.err == ""
        assert self.out.endswith("}\n")
        assert self.out.count("\n") == 1
        answered: dict[str, Any] = json.loads(self.out)
        return answered

    def refused(self, *arguments: object) -> str:
        """The sentence with which a command refuses, and the next step where there is one."""
        assert self(*arguments) == 2, self.out + self.err
        said = self.err.splitlines()
        assert self.out == ""
        assert 1 <= len(said) <= 2, self.err
        assert said[0].startswith("secvm: ")
        assert not [word for word in ("Traceback", *self.secrets) if word in self.err]
        return self.err


@pytest.fixture
def secvm(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    # Compiling on a busy machine may take longer than progress stays silent for.
    monkeypatch.setattr(output, "PLAIN_PROGRESS_EVERY_S", float("inf"))
    return Program(capsys)
