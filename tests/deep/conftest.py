"""What tests of several folders here stand on."""

from tests.deep.tls import authority
from tests.program import secvm

__all__ = ["authority", "secvm"]
