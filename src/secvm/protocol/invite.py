"""Invite: one line by which a person finds an experiment, ``secvm:RELAY-URL#DIGEST``.

    secvm:https://relay.example/relay#3fa9…      (64 hexadecimal digits)

The digest fixes the experiment, so nobody who passes the line on can change what is asked. The URL is the relay through
which the device fetches the document that the digest names; everything else stands in that. An invite is no secret.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from secvm.errors import BadInputError, LocalProtocolError
from secvm.protocol.documents.experiment import ExperimentDocument

#: A host, perhaps with a port; no name or password before it, which would travel with every fetch.
_HOST = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::([1-9][0-9]{0,4}))?"
_FORM = re.compile(rf"secvm:(https?://{_HOST}(?:/[!-~]*)?)#([0-9a-f]{{64}})")
_LONGEST_URL, _MOST_PORT = 510, 65_535


class Invite(NamedTuple):
    """What the line says."""

    relay_url: str
    digest: str

    @classmethod
    def of(cls, document: ExperimentDocument) -> Invite:
        """The invite to an experiment: by its entry relay, or by the first relay where there is no cover."""
        if not document.relays:
            raise LocalProtocolError("nobody can be invited to this experiment: it names no relay")
        return cls(document.relays[0].url, document.digest)

    @classmethod
    def from_text(cls, text: str) -> Invite:
        """The invite in this line, white space around it aside; anything else is refused."""
        match = _FORM.fullmatch(text.strip())
        if match is None or len(match[1]) > _LONGEST_URL or int(match[2] or 1) > _MOST_PORT:
            raise BadInputError(
                "this is no invite: one is a line secvm:RELAY-URL#DIGEST, such as"
                f" secvm:https://relay.example/relay#{'3fa9' * 2}… with 64 digits",
                next_step="Copy the whole line from whoever invited you.",
            )
        return cls(match[1], match[3])

    def to_text(self) -> str:
        """The line."""
        return f"secvm:{self.relay_url}#{self.digest}"
