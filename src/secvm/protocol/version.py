"""The protocol's version, and the names that keep one kind of bytes from being taken for another.

Every document carries its type, every blob its magic line, every signature its purpose; the version is inside each. So
a digest, plain SHA-256 of the bytes as served, is a digest of kind and version too, and ``sha256sum`` can check it.
"""

from __future__ import annotations

#: First byte of a package. A name below has the version in which its bytes got their present meaning.
PROTOCOL_VERSION = 1

#: Types of documents; each is also the purpose for which the document is signed.
EXPERIMENT_TYPE = "secvm-v1-experiment"
MANIFEST_TYPE = "secvm-v1-manifest"
ENDING_TYPE = "secvm-v1-ending"
RELAY_COUNT_TYPE = "secvm-v1-relay-count"
#: What a device keeps for itself between restarts, without its capsules; never signed, never sent.
SESSION_HEADER_TYPE = "secvm-v1-session-header"

#: What a device keeps of what it believes; never signed, never sent.
TRUSTED_TYPE = "secvm-v1-trusted"
#: Server-signed bytes that convict their signer, in one file.
EVIDENCE_TYPE = "secvm-v1-evidence"

#: What stands after a coordinator's name in the origin of its one log.
LOG_ORIGIN = "secvm/v2"

#: Documents of experiments whose cover is two relays' (docs/protocol.md §25 to §33).
RELAYED_EXPERIMENT_TYPE = "secvm-v2-experiment"
RELAYED_MANIFEST_TYPE = "secvm-v2-manifest"
OPENING_TYPE = "secvm-v2-opening"
RELAYED_ENDING_TYPE = "secvm-v2-ending"
#: What one relay signs of one round.
MIX_COMMITMENT_TYPE = "secvm-v2-mix-commitment"
ENTRY_COMMITMENT_TYPE = "secvm-v2-entry-commitment"
RECEIPT_TYPE = "secvm-v2-receipt"
ENTRY_COUNT_TYPE = "secvm-v2-entry-count"
MIX_COUNT_TYPE = "secvm-v2-mix-count"
ENTRY_REVEAL_TYPE = "secvm-v2-entry-reveal"
MIX_REVEAL_TYPE = "secvm-v2-mix-reveal"
#: What a relay signs of itself, and of a piece of a batch on its way.
RELAYED_TERMS_TYPE = "secvm-v2-relay-terms"
PIECE_TYPE = "secvm-v2-piece"
#: Bytes that convict a relay or the coordinator of such an experiment, in one file.
RELAYED_EVIDENCE_TYPE = "secvm-v2-evidence"
#: What leads from a shard to the two roots above it; never signed.
SHARD_PROOF_TYPE = "secvm-v2-shard-proof"
#: What a device keeps of the one package that it looks for, of the log, and of its round; never signed, never sent.
CANARY_TYPE = "secvm-v2-canary"
SEEN_LOG_TYPE = "secvm-v2-seen-log"
RELAYED_SESSION_TYPE = "secvm-v2-session"
#: What shows that a relay left a device's canary out; never signed, what is in it is.
MISSING_CANARY_TYPE = "secvm-v2-missing-canary"

#: First line of a tally's bytes. States and weights bring theirs along from ``secvm.learning``.
TALLY_MAGIC = b"secvm-tally-v1\n"
WEIGHTS_MAGIC = b"secvm-weights-v1\n"

#: Rounds are numbered from 1; seeded dice have room for so many (docs/protocol.md §4.1).
MAX_ROUND = 2**20 - 1
