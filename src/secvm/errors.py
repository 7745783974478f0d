"""Every error of this package, drawn as a tree.

    SecVMError                      one sentence for a person; ``next_step`` says what to do about it
    ├── BadInputError               the caller gave something that cannot be used (command line: exit code 2)
    │   ├── BadPeopleFileError      a file of people that cannot be read; carries the line, never its content
    │   ├── BadModelFileError       a model file that is not one, or was changed
    │   └── BadExperimentError      parameters that contradict each other
    ├── ArithmeticRangeError        a value would leave the range in which the arithmetic is exact
    └── ProtocolError               what was said between two parties breaks the protocol
        ├── LocalProtocolError      we broke it: fix the calling code
        └── RemoteProtocolError     they broke it
            ├── MalformedMessageError   bytes that are no message of the kind that was expected
            └── OpeningError            a capsule that our keys do not open
                └── UnknownKeyError     … because it names a key or an algorithm that we do not have

An error without a message of its own says its docstring. No message ever carries a feature or a label of a person,
nor a key, nor what was under a seal.
"""

from __future__ import annotations


class SecVMError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, *, next_step: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        #: What the person who reads the message can do next; may be empty.
        self.next_step = next_step


class BadInputError(SecVMError, ValueError):
    """The input cannot be used."""


class BadPeopleFileError(BadInputError):
    """The file of people cannot be read."""

    def __init__(self, message: str | None = None, *, line: int | None = None, next_step: str | None = None) -> None:
        super().__init__(f"line {line}: {message}" if line is not None else message, next_step=next_step)
        #: The line of the file, counted from 1, where one is to blame.
        self.line = line


class BadModelFileError(BadInputError):
    """The file is not a SecVM model, or it was changed."""


class BadExperimentError(BadInputError):
    """The experiment's parameters contradict each other."""


class ArithmeticRangeError(SecVMError, ArithmeticError):
    """A value would leave the range in which the arithmetic is exact."""


class ProtocolError(SecVMError):
    """What was said between two parties breaks the protocol."""


class LocalProtocolError(ProtocolError):
    """What was asked for would break the protocol."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol."""


class MalformedMessageError(RemoteProtocolError):
    """The bytes are no message of the kind that was expected."""


class OpeningError(RemoteProtocolError):
    """The capsule does not open."""


class UnknownKeyError(OpeningError):
    """The capsule is sealed for a key or an algorithm that is not here."""
