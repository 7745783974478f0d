"""Every error of this package, drawn as a tree.

    SecVMError                      one sentence for a person; ``next_step`` says what to do about it
    ├── BadInputError               the caller gave something that cannot be used (command line: exit code 2)
    │   ├── BadPeopleFileError      a file of people that cannot be read; carries the line, never its content
    │   ├── BadModelFileError       a model file that is not one, or was changed
    │   ├── BadExperimentError      parameters that contradict each other
    │   ├── NotInstalledError       a package that an extra of this distribution brings is not there
    │   └── WrongPassphraseError    a secret does not open: another passphrase, or the file was changed
    ├── ArithmeticRangeError        a value would leave the range in which the arithmetic is exact
    ├── BeaconUnavailableError      a public beacon does not answer, or has no such round yet: ask again later
    ├── ClusterError                the machines of a sweep do not answer, are gone, or run something else
    ├── ConsentRefusedError         valid, but it tells more about a person than this device agrees to
    ├── OverLimitError              more than the person's limit of traffic allows today
    ├── StoreError                  a store could not do what was asked, and nothing of it is done: disk full, I/O error
    │   └── StaleDriverError        … because another node drives by now
    ├── UnreachableError            another party does not answer, or not as it should: ask again later
    └── ProtocolError               what was said between two parties breaks the protocol
        ├── LocalProtocolError      we broke it: fix the calling code
        └── RemoteProtocolError     they broke it; ``problem`` names what to answer
            ├── MalformedMessageError       bytes that are no message of the kind that was expected
            ├── OpeningError                a capsule that our keys do not open
            │   └── UnknownKeyError         … because it names a key or an algorithm that we do not have
            ├── BadSignatureError           not signed by those whom we trust for it
            ├── BadProofError               a proof that does not show what it should
            ├── StaleCheckpointError        cosigned by enough witnesses, but too long ago
            ├── BadBeaconError              what is said to be public randomness is not what its chain publishes
            ├── RefusedPackageError         a package that has no place in this round
            ├── StaleRoundError             older than what we already trust
            ├── InconsistentManifestError   signed, but against its experiment or its own past; carries the evidence
            ├── EquivocationError           two manifests for one round: stop; carries both as evidence
            └── CheatingError               what the server signed convicts it; carries one file that shows it to others

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


class NotInstalledError(BadInputError, ImportError):
    """A package that an extra of this distribution brings is not installed."""

    def __init__(self, what: str, package: str, extra: str, *, distribution: str = ".") -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed",
            next_step=f"In a clone of the repository: pip install '{distribution}[{extra}]'",
        )


class WrongPassphraseError(BadInputError):
    """The passphrase is another one, or what is under it was changed."""


class ArithmeticRangeError(SecVMError, ArithmeticError):
    """A value would leave the range in which the arithmetic is exact."""


class BeaconUnavailableError(SecVMError):
    """The beacon does not answer, or has no such round yet."""


class ClusterError(SecVMError):
    """The machines of a sweep cannot be used."""


class ConsentRefusedError(SecVMError):
    """It tells more about a person than the device agrees to."""


class OverLimitError(SecVMError):
    """Catching up with the log would go beyond the device's limit of traffic for a day."""


class StoreError(SecVMError):
    """The store could not do it, and nothing of it is done."""


class StaleDriverError(StoreError):
    """Another node drives by now; nothing was changed."""


class UnreachableError(SecVMError):
    """Another party does not answer, or not as it should."""


class ProtocolError(SecVMError):
    """What was said between two parties breaks the protocol."""


class LocalProtocolError(ProtocolError):
    """What was asked for would break the protocol."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol."""

    #: Name of the problem type with which a server answers it (``secvm.protocol.problems``).
    problem: str = "garbage"

    def __init__(self, message: str | None = None, *, problem: str | None = None, next_step: str | None = None) -> None:
        super().__init__(message, next_step=next_step)
        if problem is not None:
            self.problem = problem


class MalformedMessageError(RemoteProtocolError):
    """The bytes are no message of the kind that was expected."""


class OpeningError(RemoteProtocolError):
    """The capsule does not open."""


class UnknownKeyError(OpeningError):
    """The capsule is sealed for a key or an algorithm that is not here."""

    problem = "unknown-key"


class BadSignatureError(RemoteProtocolError):
    """The message is not signed by those who are trusted for it."""


class BadProofError(RemoteProtocolError):
    """The proof does not show what it should."""


class StaleCheckpointError(RemoteProtocolError):
    """Too few witnesses have seen this checkpoint lately."""

    problem = "stale"


class BadBeaconError(RemoteProtocolError):
    """What is said to be a beacon's output is not what its chain publishes."""


class RefusedPackageError(RemoteProtocolError):
    """The package has no place in this round."""


class StaleRoundError(RemoteProtocolError):
    """The manifest is older than the one already trusted."""

    problem = "stale"


class InconsistentManifestError(RemoteProtocolError):
    """The manifest is signed, but contradicts its experiment or the rounds before it."""

    def __init__(self, message: str | None = None, *, evidence: tuple[bytes, ...] = ()) -> None:
        super().__init__(message, next_step="Keep the evidence: its signatures convince others too.")
        #: The signed bytes that contradict each other, as they were served.
        self.evidence = evidence


class EquivocationError(RemoteProtocolError):
    """There are two manifests for one round."""

    def __init__(self, first: bytes, second: bytes) -> None:
        super().__init__(next_step="Send nothing more to this experiment, and show the evidence to others.")
        #: Both manifests with their signatures, as they were served, the one that was trusted first.
        self.evidence = (first, second)


class CheatingError(RemoteProtocolError):
    """What the server has signed contradicts itself."""

    def __init__(self, message: str | None = None, *, evidence: bytes) -> None:
        super().__init__(message, next_step="Send nothing more to this experiment, and show the evidence to others.")
        #: A file of ``secvm.protocol.evidence.plain``: server-signed bytes only.
        self.evidence = evidence
