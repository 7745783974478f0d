"""What a server tells its operator alone (/health, /metrics, /admin) is asked for by address, never by name.

A page in the operator's browser can point a name of its own at this machine, also through a tunnel, and then read what
is answered under that name (DNS rebinding). It cannot do so under an address, nor under ``localhost``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from secvm.runtime.http.messages import HttpResponse

#: A name, or an address; IPv6 in brackets; perhaps a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::[0-9]{1,5})?")

#: A problem (RFC 9457), as the operator's API writes them.
_REFUSED = HttpResponse(
    421,
    b'{"type":"about:blank","status":421,"detail":"this is answered under an address or localhost, not under a name;'
    b' ask http://127.0.0.1 and its port, from elsewhere through ssh"}',
    "application/problem+json",
    (("cache-control", "no-store"),),
)


def refuse_names(headers: Mapping[str, str]) -> HttpResponse | None:
    """The refusal of a request whose Host is a name; None where it may be answered, as it may without a Host."""
    return None if _is_address(headers.get("host", "localhost")) else _REFUSED


def _is_address(host: str) -> bool:
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    text = parts[1] or parts[2]
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text.lower() == "localhost"
    return True
