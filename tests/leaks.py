"""Finds secrets in what was written, however they were spelled: as they are, in hexadecimal, in base64, escaped."""

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: Shorter ones would be found in honest text.
SHORTEST = 6


@dataclass(frozen=True, slots=True)
class Leak:
    """Where a secret was found."""

    kind: str
    form: str
    where: str


def forms(secret: bytes) -> dict[str, bytes]:
    """Everything that a careless line of code might make of these bytes."""
    assert len(secret) >= SHORTEST
    found = {
        "as it is": secret,
        "hexadecimal": secret.hex().encode(),
        "Hexadecimal": secret.hex().upper().encode(),
        "hexadecimal with colons": secret.hex(":").encode(),
        "a list of numbers": json.dumps(list(secret)).strip("[]").encode(),
        "as Python shows bytes": repr(secret)[2:-1].encode(),
        "in a URL": urllib.parse.quote_from_bytes(secret).encode(),
        "backwards": secret[::-1],
    }
    for offset in range(3):
        # Within a longer text the same bytes begin at one of three places of a group of four letters.
        longer = base64.b64encode(bytes(offset) + secret)
        inside = longer[-(-offset * 8 // 6) : (offset + len(secret)) * 8 // 6]
        found[f"base64, {offset}"] = inside
        found[f"base64 for URLs, {offset}"] = inside.replace(b"+", b"-").replace(b"/", b"_")
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        return found
    found["as JSON escapes it"] = json.dumps(text)[1:-1].encode()
    found["in capitals"] = text.upper().encode()
    return found


@dataclass
class LeakFinder:
    """Knows every secret of a run by its kind."""

    secrets: dict[str, list[bytes]] = field(default_factory=dict)
    _compiled: tuple[tuple[frozenset[str], int], dict[bytes, tuple[str, str]], re.Pattern[bytes]] | None = None

    def add(self, kind: str, *secrets: bytes | str) -> None:
        """More secrets of a kind."""
        for secret in secrets:
            data = secret.encode() if isinstance(secret, str) else secret
            if data not in self.secrets.setdefault(kind, []):
                self.secrets[kind].append(data)

    def all_forms(self, kinds: Iterable[str] | None = None) -> Iterator[tuple[str, str, bytes]]:
        """Kind, form and spelling of each."""
        for kind in self.secrets if kinds is None else kinds:
            for secret in self.secrets[kind]:
                for form, spelled in forms(secret).items():
                    yield kind, form, spelled

    def _compile(self, kinds: Iterable[str]) -> tuple[dict[bytes, tuple[str, str]], re.Pattern[bytes]]:
        """One pattern for all: one pass over each text, whatever the number of secrets."""
        spellings: dict[bytes, tuple[str, str]] = {}
        for kind, form, spelled in self.all_forms(kinds):
            spellings.setdefault(spelled, (kind, form))
        assert spellings
        longest_first = sorted(spellings, key=len, reverse=True)
        return spellings, re.compile(b"|".join(re.escape(one) for one in longest_first))

    def search(self, texts: Mapping[str, bytes], *, but: Iterable[str] = ()) -> list[Leak]:
        """Every secret that stands in one of these texts; ``but``: kinds that may be there."""
        kinds = frozenset(self.secrets) - set(but)
        known = (kinds, sum(len(found) for found in self.secrets.values()))
        if self._compiled is None or self._compiled[0] != known:
            self._compiled = (known, *self._compile(kinds))
        _, spellings, pattern = self._compiled
        return [
            Leak(*spellings[found.group()], where) for where, text in texts.items() for found in pattern.finditer(text)
        ]
