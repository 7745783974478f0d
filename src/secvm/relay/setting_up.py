"""What a relay's operator makes once: the key that signs, tokens, and all that a new relay starts with."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secvm.crypto.signing import VerifyKey
from secvm.errors import BadInputError
from secvm.files import or_bad_input, write_atomically
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.disk.new_folder import making_in
from secvm.runtime.disk.secret_files import make_secret, make_signing_key
from secvm.runtime.settings import merged, parse_settings, settings_text

SETTINGS_FILE, KEY_FILE, TOKEN_FILE = "relay.toml", "relay.key", "relay.token"
PLAIN = "plain"
#: Of a relay whose URL has none.
RELAY_PATH = "/relay"
_TOKEN_BYTES = 32


def make_key(path: Path) -> VerifyKey:
    """A new signing key in a new file, which only its owner can read."""
    return make_signing_key(path, os.urandom)


def make_token(path: Path, allowed: Path | None = None) -> str:
    """A new token, or a client's credential, in a new file that only its owner can read; its SHA-256.

    ``allowed``: the relay's list of credentials, to which the SHA-256 is added.
    """
    token = urlsafe_b64encode(os.urandom(_TOKEN_BYTES)).rstrip(b"=")
    digest = hashlib.sha256(token).hexdigest()
    if allowed is not None:
        # First: a SHA-256 whose credential could not be written lets nobody in.
        with or_bad_input(f"cannot read {allowed}"):
            lines = allowed.read_text("ascii").split() if allowed.exists() else []
        write_atomically(allowed, "\n".join([*lines, digest, ""]).encode())
    make_secret(path, token + b"\n")
    return digest


@dataclass(frozen=True, slots=True)
class KnownRelay:
    """A relay, as its operator tells the others of it."""

    #: In the coordinator's settings.
    name: str
    #: ``entry``, ``mix`` or ``plain``.
    role: str
    operator: str
    url: str
    #: The public key for its statements, in hexadecimal.
    key: str
    token_sha256: str

    @property
    def trusted(self) -> dict[str, str]:
        """As a person names it under ``[[trust.relays]]``."""
        return {"operator": self.operator, "url": self.url, "key": self.key}

    @property
    def specified(self) -> dict[str, str]:
        """As an operator names it under ``[[relays]]`` of an experiment."""
        return {"url": self.url, "key": self.key} if self.role == PLAIN else {"role": self.role, **self.trusted}

    def admitted(self, token_file: str) -> dict[str, str]:
        """As the coordinator's settings name it under ``[[relays]]``. One with a role is asked by the coordinator."""
        named = {"name": self.name, "token_sha256": self.token_sha256}
        return named if self.role == PLAIN else {**named, "url": self.url, "token_file": token_file}


def relay_tables(
    relay: KnownRelay, *, coordinator: str, grid: Mapping[str, int], key_file: str, token_file: str, state: str
) -> dict[str, Any]:
    """The settings of this relay; what it keeps is in the folder ``state``, or of a plain one in a file called so."""
    gateway = {"url": coordinator, "token_file": token_file}
    tables: dict[str, Any] = {
        "gateway": gateway,
        "relay": {"path": urlsplit(relay.url).path},
        "epochs": dict(grid),
        "signing": {"key_file": key_file},
    }
    if relay.role == PLAIN:
        return tables | {"store": {"path": f"{state}.db"}}
    rounds = {"role": relay.role, "operator": relay.operator, "folder": f"{state}/rounds"}
    return merged(tables, {"relay": {"url": relay.url}, "rounds": rounds}) | {"coordinators": [gateway]}


def initialise(
    folder: Path,
    *,
    role: str,
    operator: str,
    url: str,
    coordinator: str,
    grid: Mapping[str, int],
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> KnownRelay:
    """A new relay in this folder: settings, the key that signs and the token; ``more`` are further settings.

    Raises
    ------
    BadInputError
        When there is one already, or something of it cannot be; nothing was made then.
    """
    if (folder / SETTINGS_FILE).exists():
        raise BadInputError(f"there is a relay in {folder} already")
    url = url.rstrip("/")
    if not urlsplit(url).path:
        url += RELAY_PATH
    with making_in(folder, private=True) as made:
        key = make_key(made / KEY_FILE)
        digest = make_token(made / TOKEN_FILE)
        name = urlsplit(url).netloc
        relay = KnownRelay(name, role, operator, url, key.data.hex(), digest)
        tables = relay_tables(
            relay, coordinator=coordinator, grid=grid, key_file=KEY_FILE, token_file=TOKEN_FILE, state="relay"
        )
        if url.startswith("https:"):
            # A proxy with TLS stands before it, and all clients have its address.
            tables = merged(tables, {"clients": {"address_header": "x-real-ip"}})
        tables = merged(tables, more or {})
        parse_settings(json.dumps(tables), RelayServiceSettings, "this relay")
        text = "# docs/how-to/run-a-relay.md shows every setting.\n\n" + settings_text(tables)
        write_atomically(made / SETTINGS_FILE, text.encode())
    return relay
