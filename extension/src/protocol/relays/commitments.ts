/**
 * Commitments: what both relays are bound to before a round's manifest exists (docs/protocol.md §27, §29).
 *
 * A relay draws one secret for a round. All else follows from it: the seeds of the S parts of its cover; the entry
 * relay's nonce and its key of tokens, or the mixing relay's key. The commitment fixes them by their hashes, so that
 * nobody can try seeds until the noise leans their way, and shows nothing of them. A device checks a seed that was
 * shown against the root; it derives none.
 */

import { hex, unhex, utf8, type Bytes } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import { checkInclusion, leafHash } from "../../crypto/merkle.ts";
import { X25519PublicKey } from "../../crypto/sealing/kem.ts";
import { DIGEST, documentType, HASH, omitted, ROUND_NUMBER, type FieldKind, type ValueOf } from "../records.ts";
import { ENTRY_COMMITMENT_TYPE, MIX_COMMITMENT_TYPE } from "../version.ts";
import { MAX_STATEMENT_BYTES } from "./statements.ts";

const PART_TAG = utf8("secvm-v2-part-seed\n");

/** What stands in the tree of the parts for a seed. */
export function partEntry(seed: Uint8Array): Bytes {
  return sha256(PART_TAG, seed);
}

interface CommittedPart {
  readonly part: number;
  readonly parts: number;
  readonly path: readonly Uint8Array[];
  readonly root: Uint8Array;
}

/** That this is the seed of the part of this number, of so many. Throws a `BadProofError`. */
export function checkPart(seed: Uint8Array, { part, parts, path, root }: CommittedPart): void {
  checkInclusion(leafHash(partEntry(seed)), { index: part, size: parts, proof: path, root });
}

/** A public key that capsules are sealed for. A point of low order is none: everybody opens what is sealed for it. */
export const SEALING_KEY: FieldKind<Bytes> = {
  read: (fields, name) => new X25519PublicKey(unhex(fields.digest(name))).data,
  write: hex,
};

/** What the mixing relay is bound to in a round. */
export const MIX_COMMITMENT = documentType(
  { purpose: MIX_COMMITMENT_TYPE, title: "the mixing relay's commitment", longest: MAX_STATEMENT_BYTES },
  {
    /** Digest of the experiment. */
    experiment: DIGEST,
    roundNumber: ROUND_NUMBER,
    /** pk_X: outer capsules are sealed for it. */
    key: SEALING_KEY,
    /** Root of the parts. */
    parts: HASH,
  },
);
export type MixCommitment = ValueOf<typeof MIX_COMMITMENT>;

/** What the entry relay is bound to in a round. */
export const ENTRY_COMMITMENT = documentType(
  { purpose: ENTRY_COMMITMENT_TYPE, title: "the entry relay's commitment", longest: MAX_STATEMENT_BYTES },
  {
    /** Digest of the experiment. */
    experiment: DIGEST,
    roundNumber: ROUND_NUMBER,
    /** Root of the parts. */
    parts: HASH,
    /** SHA-256 of the nonce. */
    nonce: HASH,
    /** The public key of the round's tokens; null where the experiment has none. */
    tokens: omitted<Bytes | null>(HASH as FieldKind<Bytes | null>, null),
  },
);
export type EntryCommitment = ValueOf<typeof ENTRY_COMMITMENT>;
