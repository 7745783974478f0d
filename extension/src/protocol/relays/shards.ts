/**
 * Shards: the inner capsules of a round in public, 4,096 at a time, each with what it counts (docs/protocol.md §31).
 *
 * A shard is an aligned run of the sorted inner capsules. Its **sub-tally** is the raw counts of its packages, sparse: a
 * device recounts the shard of its canary and knows that this part of the tally is true. Leaf k of the shards' tree has
 * the entry
 *
 *     SHA-256( digests of the shard side by side ) ‖ SHA-256( sub-tally )
 *
 * A `SHARD_PROOF` leads from a shard to that tree's root, which the opening names, and to the mixing relay's root. Two
 * public files are there to look for a canary (§32): the index of the shards, and the run of one (`shardRuns.ts`).
 */

import { compare, concat, fromLittleEndian, littleEndian, type Bytes } from "../../bytes.ts";
import { sha256 } from "../../crypto/hashes.ts";
import { checkInclusion, HASH_BYTES, leafHash, MAX_PROOF_HASHES } from "../../crypto/merkle.ts";
import { BadProofError, LocalProtocolError, MalformedMessageError } from "../../errors.ts";
import { DIGEST_BYTES } from "../canonical.ts";
import { documentType, HASH, HASH_PATH, whole, type ValueOf } from "../records.ts";
import { SHARD_PROOF_TYPE } from "../version.ts";
import { ascend, cut, RUN, runRoot } from "./batches.ts";

/** Capsules of a shard; the last may have fewer. */
export const SHARD = RUN;
/** So many days after `open_by` the shards of an opened round are public, at the least. */
export const LEAST_DAYS = 7;
export const DAY_MS = 86_400_000;
/** A cell and its count, 8 bytes LE each. */
export const LINE_BYTES = 16;

/** How many shards so many capsules make. */
export function shardCount(capsules: number): number {
  return Math.ceil(capsules / SHARD);
}

/** How many capsules the shard of this number has. */
export function shardSize(shard: number, capsules: number): number {
  return Math.max(0, Math.min(SHARD, capsules - shard * SHARD));
}

/** Packages per cell. */
export type CellCounts = ReadonlyMap<number, number>;

/** Packages per cell as bytes: cells ascending, without zeros. */
export function writeSubTally(counts: CellCounts): Bytes {
  const lines = [...counts].sort(([a], [b]) => a - b);
  if (lines.some((line) => line.some((number) => !Number.isSafeInteger(number) || number < 0))) {
    throw new LocalProtocolError("a sub-tally counts cells, from zero on");
  }
  return concat(...lines.filter(([, count]) => count).flatMap((line) => line.map((number) => littleEndian(number, 8))));
}

/**
 * Packages per cell of a shard with so many capsules, in an experiment with so many cells.
 *
 * Throws a `MalformedMessageError` at anything that `writeSubTally` does not write, or that counts what is not there.
 */
export function readSubTally(data: Uint8Array, { cells, capsules }: { cells: number; capsules: number }): CellCounts {
  if (data.length % LINE_BYTES || data.length > LINE_BYTES * capsules) {
    throw new MalformedMessageError(
      `a sub-tally of ${capsules} capsules has at most ${capsules} lines of ${LINE_BYTES} bytes`,
    );
  }
  const lines = cut(data, LINE_BYTES).map((line) => cut(line, LINE_BYTES / 2).map(fromLittleEndian));
  const [named, counts] = [lines.map(([cell]) => cell!), lines.map(([, count]) => count!)];
  if (named.some((cell, i) => i > 0 && named[i - 1]! >= cell) || counts.includes(0n)) {
    throw new MalformedMessageError("a sub-tally's cells ascend, each with a count above zero");
  }
  if (named.length && named.at(-1)! >= cells) {
    throw new MalformedMessageError(`a sub-tally names cell ${named.at(-1)}, and there are ${cells}`);
  }
  if (counts.reduce((sum, count) => sum + count, 0n) > capsules) {
    throw new MalformedMessageError("a sub-tally counts more packages than its shard has capsules");
  }
  return new Map(lines.map(([cell, count]) => [Number(cell), Number(count)]));
}

/** What stands in the shards' tree for a shard. */
export function shardEntry(digests: readonly Uint8Array[], subTally: Uint8Array): Bytes {
  return concat(sha256(...digests), sha256(subTally));
}

/** What leads from a shard to the two roots above it. Unsigned: what it leads to is signed. */
export const SHARD_PROOF = documentType(
  // Two paths of at most 64 hashes, in hexadecimal.
  { purpose: SHARD_PROOF_TYPE, title: "the shard's proof", longest: 2 ** 14 },
  {
    label: HASH,
    shard: whole(0),
    /** From the shard's entry to the root of the shards. */
    path: HASH_PATH,
    /** From the root of the shard's own capsules to the mixing relay's root. */
    mixPath: HASH_PATH,
  },
);
export type ShardProof = ValueOf<typeof SHARD_PROOF>;

interface Shown {
  readonly digests: readonly Uint8Array[];
  readonly subTally: Uint8Array;
  /** n₂: capsules of the round. */
  readonly capsules: number;
  readonly shards: Uint8Array;
  readonly mixRoot: Uint8Array;
}

/**
 * That this is the shard, whole and with its sub-tally, of a round with so many capsules.
 *
 * Throws a `BadProofError` where it is not.
 */
export function checkShardProof(proof: ShardProof, { digests, subTally, capsules, shards, mixRoot }: Shown): void {
  const size = shardSize(proof.shard, capsules);
  if (digests.length !== size || digests.some((digest) => digest.length !== DIGEST_BYTES)) {
    throw new BadProofError(`shard ${proof.shard} has ${size} capsules, and these are ${digests.length} digests`);
  }
  if (!ascend(digests)) throw new BadProofError("a shard's digests ascend, none twice");
  const place = { index: proof.shard, size: shardCount(capsules) };
  checkInclusion(leafHash(shardEntry(digests, subTally)), { ...place, proof: proof.path, root: shards });
  checkInclusion(runRoot(digests), { ...place, proof: proof.mixPath, root: mixRoot });
}

/** A public file of a shard: 1 byte for the number of hashes, the path to a root, and what stands below it. */
export function writeBelow(path: readonly Uint8Array[], data: Uint8Array): Bytes {
  if (path.length > MAX_PROOF_HASHES) {
    throw new LocalProtocolError(`a path of ${path.length} hashes; the longest has ${MAX_PROOF_HASHES}`);
  }
  return concat(Uint8Array.of(path.length), ...path, data);
}

/** Path and data of such a file. Throws a `MalformedMessageError`. */
export function readBelow(data: Uint8Array): readonly [path: readonly Bytes[], below: Bytes] {
  const hashes = data[0] ?? 0;
  const first = 1 + hashes * HASH_BYTES;
  if (!data.length || hashes > MAX_PROOF_HASHES || data.length < first) {
    throw new MalformedMessageError(`${data.length} bytes are no path with something below it`);
  }
  return [cut(data.subarray(1, first), HASH_BYTES), Uint8Array.from(data.subarray(first))];
}

/** The first of so many places, in ascending order, that does not come before; their number where all do. */
export function firstPlace(count: number, comesBefore: (place: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (comesBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Where a digest stands among ascending ones, or would stand. */
export function placeAmong(digests: readonly Uint8Array[], digest: Uint8Array): number {
  return firstPlace(digests.length, (place) => compare(digests[place]!, digest) < 0);
}
