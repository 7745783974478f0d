/** The protocol's version, and the names that keep one kind of bytes from being taken for another. */

import { utf8 } from "../bytes.ts";

/** First byte of a package. A name below has the version in which its bytes got their present meaning. */
export const PROTOCOL_VERSION = 1;

/** The type of an experiment with one relay and no guarantee, which this device shows and refuses. */
export const PLAIN_EXPERIMENT_TYPE = "secvm-v1-experiment";
/** What stands after a coordinator's name in the origin of its one log. */
export const LOG_ORIGIN = "secvm/v2";

export const EXPERIMENT_TYPE = "secvm-v2-experiment";
export const MANIFEST_TYPE = "secvm-v2-manifest";
export const OPENING_TYPE = "secvm-v2-opening";
export const ENDING_TYPE = "secvm-v2-ending";
/** What one relay signs of one round. */
export const MIX_COMMITMENT_TYPE = "secvm-v2-mix-commitment";
export const ENTRY_COMMITMENT_TYPE = "secvm-v2-entry-commitment";
export const RECEIPT_TYPE = "secvm-v2-receipt";
export const ENTRY_COUNT_TYPE = "secvm-v2-entry-count";
export const MIX_COUNT_TYPE = "secvm-v2-mix-count";
export const ENTRY_REVEAL_TYPE = "secvm-v2-entry-reveal";
export const MIX_REVEAL_TYPE = "secvm-v2-mix-reveal";
/** What a relay signs of itself. */
export const RELAY_TERMS_TYPE = "secvm-v2-relay-terms";
/** Bytes that convict a relay or the coordinator, in one file. */
export const EVIDENCE_TYPE = "secvm-v2-evidence";
/** The same about the coordinator's log, whose entries are of either version. */
export const LOG_EVIDENCE_TYPE = "secvm-v1-evidence";
/** What leads from a shard to the two roots above it; never signed. */
export const SHARD_PROOF_TYPE = "secvm-v2-shard-proof";
/** What a device keeps of the one package that it looks for; never signed, never sent. */
export const CANARY_TYPE = "secvm-v2-canary";
/** What shows that a relay left a device's canary out; never signed, what is in it is. */
export const MISSING_CANARY_TYPE = "secvm-v2-missing-canary";
/** What a device keeps of its part in an experiment; never signed, never sent. */
export const SESSION_TYPE = "secvm-v2-session";
/** What a device keeps of the log; never signed, never sent. */
export const SEEN_LOG_TYPE = "secvm-v2-seen-log";

/** First line of a blob's bytes. */
export const TALLY_MAGIC = utf8("secvm-tally-v1\n");
export const WEIGHTS_MAGIC = utf8("secvm-weights-v1\n");

/** Rounds are numbered from 1; seeded dice have room for so many (docs/protocol.md §4.1). */
export const MAX_ROUND = 2 ** 20 - 1;
