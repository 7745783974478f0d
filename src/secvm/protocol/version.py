"""The protocol's version, and the names that keep one kind of bytes from being taken for another.

Every document carries its type, every blob its magic line, every signature its purpose; the version is inside each. So
a digest, plain SHA-256 of the bytes as served, is a digest of kind and version too, and ``sha256sum`` can check it.
"""

from __future__ import annotations

#: First byte of a package, and the ``v1`` in every name below.
PROTOCOL_VERSION = 1

#: Types of documents; each is also the purpose for which the document is signed.
EXPERIMENT_TYPE = "secvm-v1-experiment"
MANIFEST_TYPE = "secvm-v1-manifest"
ENDING_TYPE = "secvm-v1-ending"
RELAY_COUNT_TYPE = "secvm-v1-relay-count"
#: What a device keeps for itself between restarts; never signed, never sent.
SESSION_TYPE = "secvm-v1-session"
#: The same without its capsules, which are rows of a database then.
SESSION_HEADER_TYPE = "secvm-v1-session-header"

#: What a device keeps of what it believes; never signed, never sent.
TRUSTED_TYPE = "secvm-v1-trusted"
#: Server-signed bytes that convict their signer, in one file.
EVIDENCE_TYPE = "secvm-v1-evidence"

#: What stands between a log's name and the experiment's digest in its origin.
LOG_ORIGIN = "secvm/v1"

#: First line of a tally's bytes. States and weights bring theirs along from ``secvm.learning``.
TALLY_MAGIC = b"secvm-tally-v1\n"
WEIGHTS_MAGIC = b"secvm-weights-v1\n"

#: Rounds are numbered from 1; seeded dice have room for so many (docs/protocol.md §4.1).
MAX_ROUND = 2**20 - 1
