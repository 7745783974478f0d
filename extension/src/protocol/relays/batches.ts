/**
 * Batches: the capsules that one relay hands to the next, by label, under one root (§25).
 *
 * A **label** is SHA-256 of a manifest's payload. It is the route at the entry relay, the name of the batch at the mixing
 * relay and part of both seals, so that nobody can move a capsule from one round to another.
 *
 * **The tree** over a round's capsules is that of RFC 6962 whose entries are the capsules' 32-byte digests, strictly
 * ascending. Because they ascend, two neighbours with a digest between them show that this digest is not there. An aligned
 * run of 4,096 leaves is a complete subtree of its own (the last one may be shorter), so the upper part of a proof of any
 * capsule is the proof of its run.
 */

import { compare, equal, unhex, type Bytes } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import { checkInclusion, EMPTY_ROOT, inclusionProof, leafHash, nodeHash } from "../../crypto/merkle.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { DIGEST_BYTES } from "../canonical.ts";
import { HASH, HASH_PATH, nullable, part, record, whole, type ValueOf } from "../records.ts";

export const LABEL_BYTES = 32;
/** Leaves of a run: a shard (docs/protocol.md §31). */
export const RUN = 4096;

/** The label of the round whose manifest has this payload. */
export function labelOf(payload: Uint8Array): Bytes {
  return sha256(payload);
}

/** The label that a path or a file's name spells, in lower-case hexadecimal; anything else is refused. */
export function labelFromText(text: string): Bytes {
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw new MalformedMessageError(`a label is ${2 * LABEL_BYTES} hexadecimal digits in lower case`);
  }
  return unhex(text);
}

/** The digest under which a capsule is sorted, counted once, and found again. */
export function capsuleDigest(capsule: Uint8Array): Bytes {
  return sha256(capsule);
}

/** What lies side by side, `size` bytes each; what is left over at the end is none. */
export function cut(data: Uint8Array, size: number): Bytes[] {
  const count = Math.floor(data.length / size);
  return Array.from({ length: count }, (_, i) => Uint8Array.from(data.subarray(i * size, (i + 1) * size)));
}

/** Whether all of these ascend, none twice. */
export function ascend(digests: readonly Uint8Array[]): boolean {
  return digests.every((digest, i) => i === 0 || compare(digests[i - 1]!, digest) < 0);
}

/** The root over so many digests, which must come strictly ascending. */
export function capsuleRoot(digests: readonly Uint8Array[]): Bytes {
  if (digests.some((digest) => digest.length !== DIGEST_BYTES) || !ascend(digests)) {
    throw new LocalProtocolError("digests of capsules have 32 bytes each and ascend, none twice: sort them first");
  }
  return runRoot(digests);
}

/** The root over digests as they are. */
export function runRoot(digests: readonly Uint8Array[]): Bytes {
  return levelsOver(digests).at(-1)![0] ?? EMPTY_ROOT;
}

/** The tree over digests, level by level; an odd one out goes up as it is, which is RFC 6962's split. */
function levelsOver(digests: readonly Uint8Array[]): Bytes[][] {
  const levels = [digests.map(leafHash)];
  for (let below = levels[0]!; below.length > 1; below = levels.at(-1)!) {
    const nodes = below;
    levels.push(
      Array.from({ length: Math.ceil(nodes.length / 2) }, (_, i) => {
        const right = nodes[2 * i + 1];
        return right === undefined ? nodes[2 * i]! : nodeHash(nodes[2 * i]!, right);
      }),
    );
  }
  return levels;
}

/** Where a digest stands in a tree, and the way from there to the root. */
export const PLACE = record({ index: whole(0), digest: HASH, path: HASH_PATH });
export type Place = ValueOf<typeof PLACE>;

/** That it stands there. Throws a `BadProofError`. */
export function checkPlace(place: Place, tree: { size: number; root: Uint8Array }): void {
  checkInclusion(leafHash(place.digest), { index: place.index, proof: place.path, ...tree });
}

/** Where the digest at this index stands in the tree over these, which ascend. */
export function placeOf(digests: readonly Bytes[], index: number): Place {
  const levels = levelsOver(digests);
  const path = inclusionProof((level, node) => levels[level]![node]!, index, digests.length);
  return { index, digest: digests[index]!, path };
}

/** That a digest is not in a tree: its neighbours there; null where it would stand before or after all. */
export const ABSENCE = record({ left: nullable(part(PLACE)), right: nullable(part(PLACE)) });
export type Absence = ValueOf<typeof ABSENCE>;

/** That the digest is under no leaf of the tree of this size and root. Throws a `BadProofError`. */
export function checkAbsence(absence: Absence, digest: Uint8Array, tree: { size: number; root: Uint8Array }): void {
  const { left, right } = absence;
  const at = left === null ? 0 : left.index + 1;
  const ends =
    (left === null || compare(left.digest, digest) < 0) && (right === null || compare(digest, right.digest) < 0);
  const following = at === (right === null ? tree.size : right.index);
  if (!(ends && following) || digest.length !== DIGEST_BYTES) {
    throw new BadProofError("the two are no neighbours between which the digest would stand");
  }
  for (const place of [left, right]) if (place !== null) checkPlace(place, tree);
  if (tree.size === 0 && !equal(tree.root, EMPTY_ROOT)) {
    throw new BadProofError("the root is not that of no capsules");
  }
}
