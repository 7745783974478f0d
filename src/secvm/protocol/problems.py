"""Problem types: what a server answers to what it cannot take (RFC 9457), each with a name, a status and a sentence.

An answer is one of these and nothing else: no detail, no echo of what was sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.errors import MalformedMessageError, RemoteProtocolError
from secvm.protocol.canonical import decode_document, encode_document

MEDIA_TYPE = "application/problem+json"
#: Every answer is shorter.
MAX_BYTES = 256
_URN = "urn:secvm:problem:v1:"


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of refusal."""

    name: str
    status: int
    #: The RFC's "title": one sentence for a person.
    sentence: str
    #: Whether sending the same bytes again, later in the same window, may go better.
    retry: bool = False
    #: The RFC's "type" where somebody else has registered one.
    registered: str | None = None

    @property
    def uri(self) -> str:
        """The problem's type."""
        return self.registered or _URN + self.name

    def to_bytes(self) -> bytes:
        """The body of the answer, media type ``application/problem+json``."""
        return encode_document({"status": self.status, "title": self.sentence, "type": self.uri})


#: Every problem by its name.
PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem(
            "unknown-key",
            400,
            "The capsule is sealed for a key that this gateway does not have.",
            # RFC 9458 §5.3 and IANA's registry of HTTP problem types.
            registered="https://iana.org/assignments/http-problem-types#ohttp-key",
        ),
        Problem("wrong-size", 400, "The content does not have the one size that packages have."),
        Problem("garbage", 400, "The content is no package."),
        Problem("too-large", 413, "The content is larger than anything that is taken here."),
        Problem("no-packages", 404, "This relay takes no single packages."),
        Problem("unknown-experiment", 404, "This coordinator runs no such experiment."),
        Problem("wrong-round", 409, "The package is for a round that is not open."),
        Problem("stale", 410, "The round takes no more packages."),
        Problem("bin-out-of-range", 422, "The package names a bin that the experiment does not have."),
        Problem("unknown-model", 422, "The package names a model that the experiment does not have."),
        Problem("unknown-class", 422, "The package names a class that the experiment does not have."),
        Problem("over-quota", 429, "More packages than one participant may send in a round."),
        Problem("try-later", 503, "Nothing is wrong with the package, but it could not be stored.", retry=True),
    )
}
_BY_URI = {problem.uri: problem for problem in PROBLEMS.values()}


def problem_of(error: RemoteProtocolError) -> Problem:
    """What to answer to somebody whose message raised this."""
    return PROBLEMS[error.problem]


def read_problem(data: bytes) -> Problem:
    """The problem that an answer's body names; only bytes that we could have written are taken."""
    content = decode_document(data, max_bytes=MAX_BYTES)
    problem = _BY_URI.get(str(content.get("type")))
    if problem is None or data != problem.to_bytes():
        raise MalformedMessageError("the answer is no problem of this protocol")
    return problem
