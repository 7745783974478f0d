"""What tests of several folders here stand on."""

from tests.deep.tls import authority

__all__ = ["authority"]
