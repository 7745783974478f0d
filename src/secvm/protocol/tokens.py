"""Anonymous tokens in an experiment (docs/protocol.md §24): its terms, and where a token stands beside a package.

An experiment with tokens names an issuer, which is not the coordinator. Each manifest has the public key under which
the tokens of its slot are issued. A device asks the issuer for exactly B of them before the window opens, and puts one
beside each of its B packages, under the seal:

    content = package, 32 bytes (§9) ‖ token, 64 bytes

All packages of such an experiment have this length, and those of others have theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secvm.crypto.tokens import TOKEN_BYTES
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.codec import PACKAGE_BYTES
from secvm.protocol.documents import Fields

#: The lengths that the content of a package's request may have: without a token, and with one.
CONTENT_BYTES = (PACKAGE_BYTES, PACKAGE_BYTES + TOKEN_BYTES)
_URL = r"https?://[!-~]{1,500}"


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """What an experiment says of its tokens. How many: as many as its budget."""

    #: Where devices ask for them.
    issuer: str

    @classmethod
    def from_fields(cls, fields: Fields, *, test: bool) -> TokenTerms:
        """As the document has them."""
        terms = cls(issuer=fields.text("issuer", longest=510, pattern=_URL))
        fields.done()
        if not test and not terms.issuer.startswith("https:"):
            raise MalformedMessageError("an issuer's url begins with https, unless the experiment is marked as a test")
        return terms

    def to_content(self) -> dict[str, Any]:
        """As the document writes them."""
        return {"issuer": self.issuer}


def with_token(package: bytes, token: bytes) -> bytes:
    """A package and its token, as they are sealed."""
    if len(package) != PACKAGE_BYTES or len(token) != TOKEN_BYTES:
        raise LocalProtocolError("a package or a token has another length")
    return package + token


def split_content(content: bytes) -> tuple[bytes, bytes | None]:
    """The package, and the token where there is one. Raises ``MalformedMessageError`` for any other length."""
    if len(content) not in CONTENT_BYTES:
        raise MalformedMessageError("a package has another size", problem="wrong-size")
    return content[:PACKAGE_BYTES], content[PACKAGE_BYTES:] or None
