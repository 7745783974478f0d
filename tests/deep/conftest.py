"""What tests of several folders here stand on."""

from tests.deep.private_tor import tor, tor_network
from tests.deep.tls import authority
from tests.program import secvm

__all__ = ["authority", "secvm", "tor", "tor_network"]
