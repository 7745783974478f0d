/**
 * Counts and reveals: what a relay signs of a round that is over (docs/protocol.md §30, §31).
 *
 * Counts say how many capsules each relay handed on, and under which root:
 *
 *     entry relay     n₁ = B · M + D                  M submissions of B packages each, and its own cover of D
 *     mixing relay    n₂ = n₁ − refused + D           what did not open or came twice is refused; its own cover of D
 *
 * Both are equations, not bounds: what a relay adds beyond its cover or leaves out is told as `refused` or is a lie.
 *
 * Reveals say which part of each relay's cover is opened, and its seed. Neither relay can choose the part. The entry
 * relay's nonce was fixed before the round; the mixing relay's count, which enters beside it, was signed before the
 * nonce was shown. Each relay signs one reveal for a label, ever.
 */

import { equal, fromBigEndian, unhex } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import { BadProofError, LocalProtocolError } from "../../errors.ts";
import { MAX_PARTS } from "../../learning/coverLaw.ts";
import { faultsOf, type OpeningFault } from "../documents/faults.ts";
import { DIGEST, documentType, HASH, HASH_PATH, whole, type ValueOf } from "../records.ts";
import { ENTRY_COUNT_TYPE, ENTRY_REVEAL_TYPE, MIX_COUNT_TYPE, MIX_REVEAL_TYPE } from "../version.ts";
import { checkPart, type EntryCommitment, type MixCommitment } from "./commitments.ts";
import { enclosed, enveloped, MAX_STATEMENT_BYTES } from "./statements.ts";

/** What the entry relay hands on of a round. */
export const ENTRY_COUNT = documentType(
  { purpose: ENTRY_COUNT_TYPE, title: "the entry relay's count", longest: MAX_STATEMENT_BYTES },
  {
    label: HASH,
    /** M: submissions taken. */
    clients: whole(0),
    /** Root over the distinct outer capsules of all submissions. */
    received: HASH,
    /** n₁: outer capsules of the batch. */
    capsules: whole(1),
    /** Root over them. */
    root: HASH,
  },
);
export type EntryCount = ValueOf<typeof ENTRY_COUNT>;

/** Whether n₁ = B · M + D. */
export function entryAddsUp(count: EntryCount, { budget, packages }: { budget: number; packages: number }): boolean {
  return BigInt(count.capsules) === BigInt(budget) * BigInt(count.clients) + BigInt(packages);
}

/** What the mixing relay hands on of a round. */
export const MIX_COUNT = documentType(
  { purpose: MIX_COUNT_TYPE, title: "the mixing relay's count", longest: MAX_STATEMENT_BYTES },
  {
    label: HASH,
    /** Digest of the entry relay's count. */
    entryCount: DIGEST,
    /** Outer capsules that did not open, and inner ones that came twice. */
    refused: whole(0),
    /** n₂: inner capsules. */
    capsules: whole(1),
    /** Root over them. */
    root: HASH,
  },
);
export type MixCount = ValueOf<typeof MIX_COUNT>;

/** Whether n₂ = n₁ − refused + D, and no more was refused than came. */
export function mixAddsUp(count: MixCount, entry: EntryCount, { packages }: { packages: number }): boolean {
  return count.refused <= entry.capsules && count.capsules === entry.capsules - count.refused + packages;
}

export const MAX_REVEAL_BYTES = 2048;

/** i: the part that is opened, by the entry relay's nonce and the digest of the mixing relay's count. */
export function partIndex(nonce: Uint8Array, mixCount: string, parts: number): number {
  if (parts < 1) throw new LocalProtocolError(`a cover of ${parts} parts has none to open`);
  return Number(fromBigEndian(sha256(nonce, unhex(mixCount))) % BigInt(parts));
}

/** The fields of either relay's reveal: it opens its part. */
const REVEAL = {
  label: HASH,
  /** The mixing relay's count that is answered, in its envelope. */
  mixCount: enveloped(MIX_COUNT),
  /** i. */
  part: whole(0, MAX_PARTS - 1),
  /** s_i. */
  seed: HASH,
  /** From the seed's entry to the committed root. */
  path: HASH_PATH,
} as const;

/** The entry relay opens its part. */
export const ENTRY_REVEAL = documentType(
  { purpose: ENTRY_REVEAL_TYPE, title: "the entry relay's reveal", longest: MAX_REVEAL_BYTES },
  { ...REVEAL, nonce: HASH },
);
export type EntryReveal = ValueOf<typeof ENTRY_REVEAL>;

/** The mixing relay opens the same part of its own cover, with its own count. */
export const MIX_REVEAL = documentType(
  { purpose: MIX_REVEAL_TYPE, title: "the mixing relay's reveal", longest: MAX_REVEAL_BYTES },
  {
    ...REVEAL,
    /** Digest of the entry relay's reveal that is answered. */
    entryReveal: DIGEST,
  },
);
export type MixReveal = ValueOf<typeof MIX_REVEAL>;

/** Digest of the mixing relay's count that is answered. */
export function answeredBy(reveal: EntryReveal | MixReveal): string {
  return MIX_COUNT.digest(enclosed(MIX_COUNT, reveal.mixCount));
}

/** What a reveal is held to: its round, and the mixing relay's count, by its digest. */
export interface Revealed {
  readonly label: Uint8Array;
  readonly mixCount: string;
  readonly parts: number;
}

/** What is wrong with the entry relay's reveal where this count is the mixing relay's. */
export function entryRevealFaults(
  reveal: EntryReveal,
  { label, mixCount, parts, commitment }: Revealed & { readonly commitment: EntryCommitment },
): OpeningFault[] {
  return faultsOf<OpeningFault>({
    ENTRY_REVEAL: equal(reveal.label, label),
    OTHER_MIX_COUNT: answeredBy(reveal) === mixCount,
    NONCE: equal(sha256(reveal.nonce), commitment.nonce),
    PART: reveal.part === partIndex(reveal.nonce, mixCount, parts),
    ENTRY_SEED: isCommitted(reveal, parts, commitment.parts),
  });
}

/** What is wrong with the mixing relay's reveal where these are the entry relay's reveal and its own count. */
export function mixRevealFaults(
  reveal: MixReveal,
  { label, mixCount, parts, commitment, entryReveal }: Revealed & {
    readonly commitment: MixCommitment;
    readonly entryReveal: EntryReveal;
  },
): OpeningFault[] {
  return faultsOf<OpeningFault>({
    MIX_REVEAL: equal(reveal.label, label),
    OTHER_MIX_COUNT: answeredBy(reveal) === mixCount,
    OTHER_ENTRY_REVEAL: reveal.entryReveal === ENTRY_REVEAL.digest(entryReveal),
    PART: reveal.part === entryReveal.part,
    MIX_SEED: isCommitted(reveal, parts, commitment.parts),
  });
}

function isCommitted(reveal: EntryReveal | MixReveal, parts: number, root: Uint8Array): boolean {
  try {
    checkPart(reveal.seed, { part: reveal.part, parts, path: reveal.path, root });
  } catch (fault) {
    if (!(fault instanceof BadProofError)) throw fault;
    return false;
  }
  return true;
}
