/**
 * Shard runs: the two public files in which a device looks for its canary (docs/protocol.md §32).
 *
 *     index of the shards     for each shard the first 8 bytes of its first digest, side by side
 *     run of a shard          1 byte: number of hashes ‖ the path of the run to the mixing relay's root ‖ its digests
 *
 * Prefixes are for finding alone. What shows anything is the run: an aligned run of leaves is a subtree of the mixing
 * relay's tree, and because digests ascend, two neighbours with a digest between them show that this one is not there.
 * Where a digest would stand at the very edge of a run, its neighbour is in the run beside it.
 */

import { compare, concat, equal, type Bytes } from "../../bytes.ts";
import { checkInclusion, HASH_BYTES, MAX_PROOF_HASHES } from "../../crypto/merkle.ts";
import { MalformedMessageError } from "../../errors.ts";
import { DIGEST_BYTES } from "../canonical.ts";
import { ascend, cut, placeOf, runRoot, type Absence, type Place } from "./batches.ts";
import { firstPlace, placeAmong, readBelow, SHARD, shardCount, shardSize, writeBelow } from "./shards.ts";

export const PREFIX_BYTES = 8;
/** A count of hashes, a path, and the digests of a full shard. */
export const MAX_RUN_BYTES = 1 + MAX_PROOF_HASHES * HASH_BYTES + SHARD * DIGEST_BYTES;

/** How long the index of so many capsules is. */
export function indexBytes(capsules: number): number {
  return PREFIX_BYTES * shardCount(capsules);
}

/** The prefixes of the shards of so many capsules. Throws a `MalformedMessageError`. */
export function readIndex(data: Uint8Array, { capsules }: { capsules: number }): readonly Bytes[] {
  if (data.length !== indexBytes(capsules)) {
    throw new MalformedMessageError(
      `the index of ${capsules} capsules has ${indexBytes(capsules)} bytes; this one has ${data.length}`,
    );
  }
  const prefixes = cut(data, PREFIX_BYTES);
  // Not strictly: digests that begin alike are not forbidden.
  if (prefixes.some((prefix, i) => i > 0 && compare(prefixes[i - 1]!, prefix) > 0)) {
    throw new MalformedMessageError("the shards of an index do not ascend");
  }
  return prefixes;
}

/** The shard in which a digest stands, or would stand. */
export function shardOf(prefixes: readonly Uint8Array[], digest: Uint8Array): number {
  const prefix = digest.subarray(0, PREFIX_BYTES);
  return Math.max(0, firstPlace(prefixes.length, (place) => compare(prefixes[place]!, prefix) <= 0) - 1);
}

interface ShardRunFields {
  readonly shard: number;
  /** n₂: capsules of the whole round. */
  readonly capsules: number;
  readonly path: readonly Bytes[];
  readonly digests: readonly Bytes[];
}

/** The digests of one shard, and the way from them to the mixing relay's root. **Checked by** `check`. */
export class ShardRun implements ShardRunFields {
  readonly shard: number;
  readonly capsules: number;
  readonly path: readonly Bytes[];
  readonly digests: readonly Bytes[];

  constructor({ shard, capsules, path, digests }: ShardRunFields) {
    this.shard = shard;
    this.capsules = capsules;
    this.path = path;
    this.digests = digests;
  }

  /** As it is served. */
  toBytes(): Bytes {
    return writeBelow(this.path, concat(...this.digests));
  }

  /** That this is the shard of that number under the mixing relay's root. Throws a `BadProofError`. */
  check(root: Uint8Array): void {
    const size = shardCount(this.capsules);
    checkInclusion(runRoot(this.digests), { index: this.shard, size, proof: this.path, root });
  }

  /** The index of a digest within the run; null: it is not there. */
  find(digest: Uint8Array): number | null {
    const at = placeAmong(this.digests, digest);
    return at < this.digests.length && equal(this.digests[at]!, digest) ? at : null;
  }

  /** Where the digest of this index within the run stands in the whole tree. */
  place(index: number): Place {
    const within = placeOf(this.digests, index);
    return { ...within, index: this.shard * SHARD + index, path: [...within.path, ...this.path] };
  }
}

/**
 * The run of this shard, of a round of so many capsules; nothing is checked against a root.
 *
 * Throws a `MalformedMessageError` at anything that `toBytes` does not write for this shard.
 */
export function readRun(data: Uint8Array, { shard, capsules }: { shard: number; capsules: number }): ShardRun {
  const [path, below] = readBelow(data);
  const size = shardSize(shard, capsules);
  if (size === 0 || below.length !== size * DIGEST_BYTES) {
    throw new MalformedMessageError(`${data.length} bytes are no run of the ${size} digests of shard ${shard}`);
  }
  const digests = cut(below, DIGEST_BYTES);
  if (!ascend(digests)) throw new MalformedMessageError("a run's digests ascend, none twice");
  return new ShardRun({ shard, capsules, path, digests });
}

/**
 * Which other shard is needed to show that a digest which is not in this one is nowhere; null: this one is enough.
 *
 * It is the next one where the digest lies beyond this run's last, the one before where it lies before its first.
 */
export function beside(run: ShardRun, digest: Uint8Array): number | null {
  if (compare(digest, run.digests[0]!) < 0 && run.shard > 0) return run.shard - 1;
  const isLast = run.shard + 1 >= shardCount(run.capsules);
  return compare(digest, run.digests.at(-1)!) > 0 && !isLast ? run.shard + 1 : null;
}

/** That a digest is not in the tree, from runs of it that were checked; null: they do not show it. */
export function absenceIn(digest: Uint8Array, runs: readonly ShardRun[]): Absence | null {
  const ordered = runs.toSorted((a, b) => a.shard - b.shard);
  const listed = ordered.flatMap((run) => run.digests.map((held, index) => ({ run, held, index })));
  const at = firstPlace(listed.length, (place) => compare(listed[place]!.held, digest) < 0);
  const [before, after] = [listed[at - 1], listed[at]];
  if (after !== undefined && equal(after.held, digest)) return null;
  const left = before === undefined ? null : before.run.place(before.index);
  const right = after === undefined ? null : after.run.place(after.index);
  const first = left === null ? 0 : left.index + 1;
  const follows = ordered.length > 0 && first === (right === null ? ordered[0]!.capsules : right.index);
  return follows ? { left, right } : null;
}
